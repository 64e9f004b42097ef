"""One answer: an element's bits depend on its row, its column and the contract, nothing else."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import defined
import widen
import widen.testing as wt
from helpers import ACCURACIES, VIEWS, assert_same_bits, draw, kernel_threads
from widen.contract import as_contract
from widen.cpu import threads
from widen.formats import FORMATS, PLAIN
from widen.planner import Needs, choose_layout
from widen.systems import SYSTEMS, digits, residues
from widen.units import UNITS

EXACT_SYSTEMS = [None, *(name for name in SYSTEMS if name != "triangle")]
WORKSPACES = [2**16, 10**5, 10**6, 10**12]
BLOCKED = [((30, 150, 24), 2**16), ((70, 400, 60), "1MB")]
SEEDS = st.integers(0, 2**32 - 1)
FAMILY_NAMES = st.sampled_from(list(wt.FAMILIES))
OPERANDS = st.sampled_from(["float64", "float64", "float32", "complex128"])

accuracies = pytest.mark.parametrize("accuracy", ACCURACIES, ids=str)


@st.composite
def products(draw_from, largest=(40, 90, 40)):
    """A pair of operands, and a result format that is or is not their own."""
    shape = tuple(draw_from(st.integers(1, size)) for size in largest)
    operand = draw_from(OPERANDS)
    result = draw_from(st.sampled_from(["float64", "float32"]))
    if FORMATS[operand].parts == 2:
        result = {"float64": "complex128", "float32": "complex64"}[result]
    return *draw(draw_from(FAMILY_NAMES), shape, draw_from(SEEDS), operand), result


def product(a, b, accuracy, result, unit=None, system=None, **options):
    """The product with choices that must not matter."""
    options |= {"accuracy": accuracy, "dtype": result, "unit": unit, "system": system}
    return widen.matmul(a, b, **options)


def in_residues(rows, columns):
    """Enough moduli near 2^21 for the largest element that these lines could give."""
    return residues(2**20, float(2 + sum(map(_length, (rows, columns)))), _parts(rows))


def in_digits(rows, columns):
    """Base 2^9, each product of digits in a group of its own."""
    return digits(256, (_length(rows), _length(columns)), _parts(rows), 1, 1, 0)


def as_triangle(unit, accuracy, result):
    """The triangle that a unit has for a contract, wide enough for these lines."""

    def layout_of(rows, columns):
        k, widths = len(rows[0].integers), (_length(rows), _length(columns))
        contract, needs = as_contract(accuracy), Needs((sum(widths), 0), widths)
        return choose_layout(contract, FORMATS[result], k, UNITS[unit], "triangle", needs, cap=None)

    return layout_of


def _length(lines):
    sums = [sum(abs(part) for number in line.integers for part in number) for line in lines]
    return max(sums).bit_length()


def _parts(lines):
    return len(lines[0].integers[0])


# ── the definition, units, systems, workspaces ───────────────────────────────────────────────


@accuracies
@settings(max_examples=60)
@given(products(largest=(4, 9, 4)), st.sampled_from([in_residues, in_digits]))
def test_the_definition(accuracy, operands, layout_of):
    a, b, result = operands
    part = FORMATS[result].part
    found = defined.matmul(a, b, as_contract(accuracy), part, layout_of).values
    assert_same_bits(found.astype(result), widen.matmul(a, b, accuracy=accuracy, dtype=result))


@accuracies
@pytest.mark.parametrize("family", wt.FAMILIES)
def test_the_definition_on_longer_lines(accuracy, family):
    a, b = draw(family, (3, 130, 4), seed=6)
    contract, part = as_contract(accuracy), FORMATS["float64"].part
    found, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    wanted = defined.matmul(a, b, contract, part, in_residues)
    assert_same_bits(found, wanted.values)
    if not contract.correct:  # there, what is repaired depends on what was kept
        assert info.repaired == wanted.repaired.sum()


@pytest.mark.parametrize("accuracy", ["fast", "standard"])
@pytest.mark.parametrize("unit", ["fp64", "int8", "fp8"])
@settings(max_examples=20)
@given(products(largest=(5, 12, 5)), st.sampled_from(WORKSPACES))
def test_the_triangle_of_a_unit(accuracy, unit, operands, workspace):
    """Its bits depend on the unit as well, but on nothing else."""
    a, b, result = operands
    layout_of = as_triangle(unit, accuracy, result)
    wanted = defined.matmul(
        a, b, as_contract(accuracy), FORMATS[result].part, layout_of, full=True
    ).values.astype(result)
    options = {"unit": unit, "system": "triangle", "workspace": workspace}
    assert_same_bits(product(a, b, accuracy, result, **options), wanted)
    for i, j in itertools.product(range(a.shape[0]), range(b.shape[1])):
        alone = product(a[i : i + 1], b[:, j : j + 1], accuracy, result, **options)
        assert_same_bits(alone, wanted[i : i + 1, j : j + 1])


@accuracies
@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=12)
@given(products(), st.sampled_from(EXACT_SYSTEMS), st.sampled_from(WORKSPACES))
def test_units_systems_and_workspaces(accuracy, unit, operands, system, workspace):
    a, b, result = operands
    wanted = widen.matmul(a, b, accuracy=accuracy, dtype=result)
    found = product(a, b, accuracy, result, unit, system, workspace=workspace)
    assert_same_bits(found, wanted)


@accuracies
@pytest.mark.parametrize("family", wt.FAMILIES)
@pytest.mark.parametrize(("shape", "workspace"), BLOCKED, ids=str)
def test_blocks(accuracy, family, shape, workspace):
    a, b = draw(family, shape, seed=7)
    wanted = widen.matmul(a, b, accuracy=accuracy, workspace=10**12)
    assert_same_bits(widen.matmul(a, b, accuracy=accuracy, workspace=workspace), wanted)


@pytest.mark.parametrize(("shape", "workspace"), BLOCKED, ids=str)
def test_these_products_are_cut_in_blocks(shape, workspace):
    m, k, n = shape
    blocks = widen.plan((m, k), (k, n), workspace=workspace).blocks
    assert blocks.rows * blocks.columns * blocks.inner < m * k * n
    if workspace == 2**16:
        assert blocks.inner < k
        assert blocks.rows < m
        assert blocks.columns < n


# ── threads ──────────────────────────────────────────────────────────────────────────────────


@contextmanager
def thread_count(count):
    """So many threads in BLAS and in the kernels, however small the work."""
    with (
        kernel_threads(count),
        threadpool_limits(count),
        mock.patch.object(threads, "SMALL", 0),
    ):
        yield


@accuracies
@settings(max_examples=25)
@given(products(largest=(90, 90, 90)), st.sampled_from([10**6, None]))
def test_threads(accuracy, operands, workspace):
    a, b, result = operands
    found = []
    for count in (1, 2):
        with thread_count(count):
            found.append(widen.matmul(a, b, accuracy=accuracy, dtype=result, workspace=workspace))
    assert_same_bits(*found)


# ── memory ───────────────────────────────────────────────────────────────────────────────────


@accuracies
@settings(max_examples=80)
@given(products(), st.sampled_from(list(VIEWS)), st.sampled_from(list(VIEWS)))
def test_orders_and_views(accuracy, operands, left, right):
    a, b, result = operands
    found = widen.matmul(VIEWS[left](a), VIEWS[right](b), accuracy=accuracy, dtype=result)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=result))


@pytest.mark.parametrize(
    ("operand", "view"),
    [
        (operand, view)
        for operand, view in itertools.product(PLAIN, VIEWS)
        if (operand, view) != ("bfloat16", "byte-swapped")  # ml_dtypes has no such thing
    ],
)
@pytest.mark.parametrize("workspace", [2**16, None])
def test_every_view_of_every_format(operand, view, workspace):
    a, b = draw("graded circulant", (33, 50, 29), 8, operand)
    for accuracy in ACCURACIES:
        found = widen.matmul(VIEWS[view](a), VIEWS[view](b), accuracy=accuracy, workspace=workspace)
        wanted, info = widen.matmul(a, b, accuracy=accuracy, info=True)
        assert_same_bits(found, wanted)
        assert info.repaired > 0 or isinstance(accuracy, int) or operand == "float16"


# ── rows, columns and their neighbours ───────────────────────────────────────────────────────


def hostile_rows(k, dtype):
    """Rows that would spoil an exponent, a norm or a sum that rows shared."""
    rows = np.ones((9, k), dtype)
    rows[0] *= 2.0**1000
    rows[1] *= 2.0**-1000
    rows[2, 0] = np.nan
    rows[3, -1] = np.inf
    rows[4] *= 2.0**-1070
    rows[5, k // 2] = 2.0**1023
    rows[6] = 0.0
    rows[7] = np.ldexp(1.0, np.linspace(-1074, 1023, k).astype(int))
    rows[8] = -np.inf
    return rows


@accuracies
@settings(max_examples=40)
@given(products(largest=(8, 60, 12)), st.sampled_from([*UNITS, None]), SEEDS)
def test_a_row_alone_in_a_batch_and_beside_hostile_rows(accuracy, operands, unit, seed):
    a, b, result = operands
    a, b = (x.astype(np.promote_types(x.dtype, "float64")) for x in (a, b))
    hostile = hostile_rows(a.shape[1], a.dtype)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(a) + len(hostile))
    mixed = np.concatenate([a, hostile])[order]

    def go(x, y):
        return product(x, y, accuracy, result, unit)

    wanted = go(a, b)
    places = np.argsort(order)[: len(a)]
    assert_same_bits(go(mixed, b)[places], wanted)
    assert_same_bits(go(np.stack([a, -a, a[::-1]]), b)[0], wanted)
    row = rng.integers(len(a))
    assert_same_bits(go(a[row : row + 1], b), wanted[row : row + 1])
    assert_same_bits(go(a[row], b), wanted[row])
    assert_same_bits(go(mixed[:, None, :], b)[places[row], 0], wanted[row])


@accuracies
@settings(max_examples=40)
@given(products(largest=(12, 60, 8)), st.sampled_from([*UNITS, None]), SEEDS)
def test_a_column_alone_in_a_batch_and_beside_hostile_columns(accuracy, operands, unit, seed):
    a, b, result = operands
    a, b = (x.astype(np.promote_types(x.dtype, "float64")) for x in (a, b))
    hostile = hostile_rows(b.shape[0], b.dtype).T
    rng = np.random.default_rng(seed)
    order = rng.permutation(b.shape[1] + hostile.shape[1])
    mixed = np.concatenate([b, hostile], axis=1)[:, order]

    def go(x, y):
        return product(x, y, accuracy, result, unit)

    wanted = go(a, b)
    places = np.argsort(order)[: b.shape[1]]
    assert_same_bits(go(a, mixed)[:, places], wanted)
    assert_same_bits(go(a, np.stack([b, -b, b[:, ::-1]]))[0], wanted)
    column = rng.integers(b.shape[1])
    assert_same_bits(go(a, b[:, column : column + 1]), wanted[:, column : column + 1])
    assert_same_bits(go(a, b[:, column]), wanted[:, column])
    batch = mixed.T[:, :, None]
    assert_same_bits(go(a, batch)[places[column], :, 0], wanted[:, column])


@accuracies
@given(products(), SEEDS)
def test_permutations(accuracy, operands, seed):
    """Rows and columns are permuted with the result; the inner dimension has no order."""
    a, b, result = operands
    rng = np.random.default_rng(seed)
    rows, inner, columns = (rng.permutation(size) for size in (*a.shape, b.shape[1]))
    wanted = widen.matmul(a, b, accuracy=accuracy, dtype=result)
    found = widen.matmul(a[rows], b[:, columns], accuracy=accuracy, dtype=result)
    assert_same_bits(found, wanted[np.ix_(rows, columns)])
    found = widen.matmul(a[:, inner], b[inner], accuracy=accuracy, dtype=result)
    assert_same_bits(found, wanted)


@accuracies
@given(products(largest=(12, 60, 12)))
def test_transposes(accuracy, operands):
    """Rows and columns are treated alike: (A B)^T has the bits of B^T A^T."""
    a, b, result = operands
    wanted = widen.matmul(a, b, accuracy=accuracy, dtype=result)
    assert_same_bits(widen.matmul(b.T, a.T, accuracy=accuracy, dtype=result).T, wanted)


# ── powers of two ────────────────────────────────────────────────────────────────────────────


def scaled(x, exponents):
    """X 2^exponents, part by part."""
    with np.errstate(over="ignore"):
        if x.dtype.kind != "c":
            return np.ldexp(x, exponents)
        joined = np.empty(x.shape, x.dtype)
        joined.real, joined.imag = np.ldexp(x.real, exponents), np.ldexp(x.imag, exponents)
        return joined


def settled(x, form):
    """Where every part is a normal number: nothing under- or overflowed."""
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    smallest = 2.0 ** (form.lowest + form.precision - 1)
    return np.all([np.isfinite(part) & (np.abs(part) >= smallest) for part in parts], axis=0)


@accuracies
@pytest.mark.parametrize("family", wt.FAMILIES)
@pytest.mark.parametrize("operand", ["float64", "complex128"])
def test_powers_of_two_change_exponents_alone(accuracy, family, operand):
    compared = 0
    for seed in range(4):
        a, b = draw(family, (14, 40, 12), seed, operand)
        rng = np.random.default_rng(seed)
        whole = rng.integers(-90, 90, 2)
        rows, columns = rng.integers(-60, 60, (14, 1)), rng.integers(-60, 60, (1, 12))
        for s, t in ((whole[:1], whole[1:]), (rows, columns), (rows * (rows > 30), 0 * columns)):
            moved = scaled(a, s), scaled(b, t)
            # Entries near the ends of the range would lose bits: not the same numbers any more.
            if any(
                not np.array_equal(scaled(x, -by), y)
                for x, by, y in zip(moved, (s, t), (a, b), strict=True)
            ):
                continue
            wanted = widen.matmul(a, b, accuracy=accuracy)
            found = widen.matmul(*moved, accuracy=accuracy)
            form = FORMATS["float64"].part
            inside = settled(wanted, form) & settled(found, form)
            shifts = np.broadcast_to(s + t, wanted.shape)[inside]
            assert_same_bits(found[inside], scaled(wanted[inside], shifts))
            compared += int(inside.sum())
    if accuracy == "correct":  # an integer contract may give zeros
        assert compared > 0 or family in ("subnormals", "extremes")


# ── encoded operands ─────────────────────────────────────────────────────────────────────────


@accuracies
@pytest.mark.parametrize("unit", [None, *UNITS])
@settings(max_examples=8)
@given(products(largest=(25, 60, 25)), st.sampled_from([None, "digits"]))
def test_encoded_operands(accuracy, unit, operands, system):
    a, b, result = operands
    wanted = widen.matmul(a, b, accuracy=accuracy, dtype=result)
    options = {"accuracy": accuracy, "dtype": result, "unit": unit, "system": system}
    left, right = widen.encode(a, side="left", **options), widen.encode(b, side="right", **options)
    pairs = [(left, b), (a, right)]
    if left.system == right.system:
        pairs.append((left, right))
    for x, y in pairs:
        for workspace in (None, 2**16):
            assert_same_bits(widen.matmul(x, y, dtype=result, workspace=workspace), wanted)


@accuracies
@pytest.mark.parametrize("system", EXACT_SYSTEMS, ids=str)
@pytest.mark.parametrize("operand", ["float64", "complex128"])
def test_encoded_batches(accuracy, system, operand):
    """Batches that merge into one, and batches that are taken item by item."""
    first, second = draw("phi4", (6, 20, 5), 9, operand), draw("integers", (6, 20, 5), 9, operand)
    a, b = (np.stack(pair)[:, None] for pair in zip(first, second, strict=True))
    wide = np.concatenate([b, 2.0**-40 * b, b[::-1]], axis=1)
    options = {"accuracy": accuracy, "system": system}
    encoded = widen.encode(wide, side="right", **options)
    wanted = widen.matmul(a, wide, accuracy=accuracy)
    assert_same_bits(widen.matmul(a, encoded), wanted)
    encoded = widen.encode(a, side="left", **options)
    assert_same_bits(widen.matmul(encoded, wide), wanted)
    encoded = widen.encode(wide[0], side="right", **options)
    assert_same_bits(widen.matmul(first[0], encoded), wanted[0])
    encoded = widen.encode(first[0], side="left", **options)
    assert_same_bits(widen.matmul(encoded, wide[0]), wanted[0])


@accuracies
def test_encoded_operands_beside_hostile_lines(accuracy):
    a, b = draw("phi1", (6, 30, 5), seed=10)
    hostile = np.concatenate([hostile_rows(30, a.dtype), a])
    wanted = widen.matmul(a, b, accuracy=accuracy)
    encoded = widen.encode(hostile, side="left", accuracy=accuracy)
    assert_same_bits(widen.matmul(encoded, b)[9:], wanted)
    assert_same_bits(widen.matmul(encoded, b), widen.matmul(hostile, b, accuracy=accuracy))
