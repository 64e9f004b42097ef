"""Thin products: digits that are multiplied as they are written give the bits of all other ways."""

from __future__ import annotations

import numpy as np
import pytest

import defined
import widen
import widen.testing as wt
from helpers import assert_same_bits, draw
from widen import planner
from widen.contract import as_contract
from widen.cpu import certify, encode, stages, thin, threads
from widen.cpu import multiply as cpu_multiply
from widen.cpu.batches import lines, stack
from widen.cpu.lines import needs, quantise, survey
from widen.formats import FORMATS
from widen.stages.problem import Problem
from widen.systems import residues, uneven_digits
from widen.systems.uneven import BOTH, STRETCH
from widen.units import UNITS

ACCURACIES = ["fast", "standard", "correct", 40]
SHAPES = [(9, 5, 1), (1, 7, 140), (3, 600, 2), (1, 1100, 1), (150, 30, 4), (20, 300, 9)]


@pytest.fixture
def thin_however_small(monkeypatch):
    """Every product one side of which has few lines."""
    monkeypatch.setattr(planner, "LEAST_INNER", 1)
    monkeypatch.setattr(planner, "INNER_A_LINE", 1)
    monkeypatch.setattr(planner, "LEAST_THIN", 1)


def in_residues(rows, columns):
    """A layout that holds the products of these lines."""
    norms = [
        max((sum(x * x for x in map(abs, (y for number in line.integers for y in number)))
             for line in side), default=0) for side in (rows, columns)
    ]  # fmt: skip
    return residues(1 << 20, (norms[0] * norms[1]).bit_length() / 2 + 2, len(rows[0].integers[0]))


@pytest.mark.usefixtures("thin_however_small")
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("family", wt.FAMILIES)
def test_the_definition(family, accuracy):
    a, b = draw(family, (6, 9, 2), 1)
    found = widen.matmul(a, b, accuracy=accuracy)
    wanted = defined.matmul(a, b, as_contract(accuracy), FORMATS["float64"].part, in_residues)
    assert_same_bits(found, wanted.values)


def both_ways(monkeypatch, a, b, **options):
    """A product as it comes, and in planes that are written to memory."""
    found, info = widen.matmul(a, b, info=True, **options)
    with monkeypatch.context() as patched:
        patched.setattr(stages, "_may_be_thin", lambda problem: False)
        wanted, usual = widen.matmul(a, b, info=True, **options)
    assert_same_bits(found, wanted)
    assert_same_bits(info.bound, usual.bound)
    return info, usual


@pytest.mark.usefixtures("thin_however_small")
@pytest.mark.covering(2)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex128", "complex64"])
@pytest.mark.parametrize("family", wt.FAMILIES)
@pytest.mark.parametrize("accuracy", ["standard", 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_formats_and_orders(monkeypatch, dtype, family, accuracy, shape):
    result = "float32" if dtype == "bfloat16" else dtype
    for order in "CF":
        a, b = (np.array(x, order=order) for x in draw(family, shape, 2, dtype))
        info, usual = both_ways(monkeypatch, a, b, accuracy=accuracy, dtype=result)
        assert info.repaired == usual.repaired


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_products_of_some_size(monkeypatch, accuracy):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((300, 1000)) * np.exp(2 * rng.standard_normal((300, 1000)))
    a[3], a[4, 5], a[7, 7:9], a[9] = 0, np.inf, np.nan, a[9] * 1e-310
    v = rng.standard_normal((1000, 2))
    v[:990, 1] = 0
    for x, y in [(a, v), (a, v[:, 0]), (v.T, a.T), (v[:, 1], np.ascontiguousarray(a.T))]:
        info, _ = both_ways(monkeypatch, x, y, accuracy=accuracy)
        assert info.plan.system == "digits"
    batches = np.stack([a[:100], a[100:200]])
    both_ways(monkeypatch, batches, v, accuracy=accuracy)
    both_ways(monkeypatch, batches, np.stack([v, v[::-1]]), accuracy=accuracy)
    both_ways(monkeypatch, a[::-2, ::3], v[::3], accuracy=accuracy)
    both_ways(monkeypatch, a, v, accuracy=accuracy, workspace=1 << 20)


@pytest.mark.parametrize("power", [-1000, -900, 0, 900, 960])
def test_lines_of_any_scale(monkeypatch, power):
    """No factor of two steps is put together with the other: their product may overflow."""
    rng = np.random.default_rng(9)
    a, v = rng.standard_normal((80, 1000)), rng.standard_normal(1000)
    for x, y in [(a, v), (v, np.asfortranarray(a.T)), (v, np.ascontiguousarray(a.T)), (v, v)]:
        both_ways(monkeypatch, np.ldexp(x, power), y)
        both_ways(monkeypatch, np.ldexp(x, power - 60), np.ldexp(y, -power))


def test_long_dot_products(monkeypatch):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, 200_003))
    for accuracy in ACCURACIES:
        info, _ = both_ways(monkeypatch, x, y, accuracy=accuracy)
        assert info.plan.system == "digits"
    assert widen.matmul(x, y, accuracy="correct") == wt.correctly_rounded(x[None], y[:, None])[0, 0]


def test_what_is_shared_may_share_in_its_turn(monkeypatch):
    """A thread that helps does not wait for others of its pool, which would never end."""
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    done = []

    def inner(begin, end, job):
        done.extend((job, at) for at in range(begin, end))

    def outer(begin, end):
        for job in range(begin, end):
            threads.share(inner, 50, job)

    threads.share(outer, 40)
    assert sorted(done) == [(job, at) for job in range(40) for at in range(50)]


def test_gemm(monkeypatch):
    rng = np.random.default_rng(5)
    a, v, c = (rng.standard_normal(shape) for shape in ((256, 300), 300, 256))
    found = widen.gemm(a, v, c, alpha=-0.3, beta=1e10)
    monkeypatch.setattr(stages, "_may_be_thin", lambda problem: False)
    assert_same_bits(found, widen.gemm(a, v, c, alpha=-0.3, beta=1e10))


def test_plans_say_so():
    plan = widen.plan((2048, 2048), (2048,))
    assert plan.system == "digits"
    assert "one side has few lines: digits are multiplied as they are written" in plan.why
    assert widen.plan((2048, 2048), (2048, 16)).system == "digits"
    assert widen.plan((2048, 2048), (2048, 17)).system == "residues"
    assert widen.plan((2048, 512), (512, 9)).system == "residues"
    assert widen.plan((2048, 2048), (2048,), system="residues").system == "residues"
    assert widen.plan((2048, 2048), (2048,), unit="int8").system == "residues"
    assert widen.plan((2048, 2048), (2048,), dtype="float64x2").system == "residues"


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("few", [0, 1])
def test_integers_and_magnitudes(few, order, dtype):
    """X is that of planes in memory, and of the layout's own digits; magnitudes are the same."""
    pair = draw("phi2", (140, 700, 3), 6, dtype)
    pair = pair if few else tuple(x.T for x in reversed(pair))
    parts = 1 if dtype == "float64" else 2
    sides = [
        lines(stack(np.array(x, order=order)[None]), side, parts)
        for x, side in zip(pair, ("left", "right"), strict=True)
    ]
    problem = Problem(*sides, as_contract("standard"), FORMATS[dtype], 1 << 30)
    goal = problem.goal(None)
    quantised = [quantise(survey(side, goal), goal) for side in sides]
    needed = needs(*quantised, 700)
    layout = uneven_digits(needed.widths, parts, 1 - few)
    unwritten = tuple(map(thin.Unwritten, sides, quantised, (1 << 24, 1 << 24)))
    found = thin.multiply(unwritten, layout, None)
    usual = planner.choose_layout(
        problem.contract, problem.fmt, 700, UNITS["fp64"], "digits", needed, cap=None
    )
    planes = [
        encode.encode(*side, usual, at)
        for at, side in enumerate(zip(sides, quantised, strict=True))
    ]
    shape = (usual.groups, 1, pair[0].shape[0], pair[1].shape[1])
    wanted = np.empty(shape)
    cpu_multiply.multiply(
        *planes, usual.products, UNITS["fp64"], 700, groups=wanted, partial=np.empty(shape[1:])
    )
    ours, theirs = thin.in_limbs(layout), usual
    for i, j in np.ndindex(shape[2:]):
        for of_part, of_usual in zip(ours.weights, theirs.weights, strict=True):
            x = sum(w * int(g) for w, g in zip(of_part, found[:-1, 0, i, j], strict=True))
            assert x == sum(w * int(g) for w, g in zip(of_usual, wanted[:, 0, i, j], strict=True))
    assert_same_bits(thin.multiply(unwritten, layout, found)[:-1], 2 * found[:-1])
    sums = thin.magnitude_sums(found, quantised)
    rows, columns = (
        certify.magnitudes(*side, np.float64) for side in zip(sides, quantised, strict=True)
    )
    assert np.allclose(sums, rows @ columns.swapaxes(1, 2), rtol=2.0**-40, atol=0)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("widths", [(1, 1), (24, 30), (55, 55), (57, 53), (70, 90), (200, 3)])
def test_uneven_digits_hold_integers(widths, parts):
    """Digits as the definition writes them give the product; a stretch of the largest is exact."""
    layout = uneven_digits(widths, parts, 0)
    assert sum(layout.betas) <= BOTH
    assert STRETCH << (sum(layout.betas) - 2) <= 2**53
    rng = np.random.default_rng(8)
    for _ in range(20):
        a, b = (
            [int(rng.choice([-1, 1])) * (int.from_bytes(rng.bytes(32)) % ((1 << width) + 1))
             for _ in range(parts)]
            for width in widths
        )  # fmt: skip
        ours, theirs = layout.write(a, 0), layout.write(b, 1)
        assert max(map(abs, ours)) <= 1 << (layout.betas[0] - 1)
        assert max(map(abs, theirs)) <= 1 << (layout.betas[1] - 1)
        groups = [ours[x] * theirs[y] for x, y, _ in layout.products]
        found = [sum(w * g for w, g in zip(of, groups, strict=True)) for of in layout.weights]
        exact = [a[0] * b[0]] if parts == 1 else [
            a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0],
        ]  # fmt: skip
        assert found == exact


def test_encoded_operands_keep_their_planes():
    rng = np.random.default_rng(7)
    a, v = rng.standard_normal((300, 400)), rng.standard_normal(400)
    wanted = widen.matmul(a, v)
    assert_same_bits(widen.matmul(widen.encode(a, side="left"), v), wanted)
    assert_same_bits(widen.matmul(a, widen.encode(v, side="right")), wanted)
