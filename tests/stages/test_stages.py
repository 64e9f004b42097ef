"""Stage by stage against the definition, bit for bit; the tables and formulas they stand on."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import widen.testing as wt
from helpers import ACCURACIES, assert_same_bits, draw
from widen import bounds, definition
from widen.contract import CONTRACTS, as_contract
from widen.cpu import certify as certificates
from widen.cpu import encode as cpu_encode
from widen.cpu import lines as cpu_lines
from widen.cpu import multiply as cpu_multiply
from widen.cpu import reconstruct as cpu_reconstruct
from widen.cpu.batches import lines, stack
from widen.cpu.kernels import lines as kernels
from widen.formats import FORMATS, RESULTS, Binary
from widen.planner import choose_layout, first_cap
from widen.systems import SYSTEMS, digits, residues
from widen.systems.digits import digit_count
from widen.systems.moduli import balanced, long_moduli, moduli, split_moduli, two_digits
from widen.units import UNITS

SIDES = ["left", "right"]
BY_DATA = [name for name, contract in CONTRACTS.items() if contract.certified_by_data]
INNER = sorted(
    {1, 2, 3, 5, 63, 64, 65, 1000, 1023, 1024, 1025, 2**16, 2**17 - 1, bounds.LARGEST_INNER}
    | {2**p + d for p in range(1, 29) for d in (-1, 0, 1)}
)

families = pytest.mark.parametrize("family", wt.FAMILIES)
accuracies = pytest.mark.parametrize("accuracy", ACCURACIES, ids=str)
units = pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
parts_of_numbers = pytest.mark.parametrize("operand", ["float64", "complex128"])
orders = pytest.mark.parametrize("order", ["C", "F"])


def numbers_of(matrix, side):
    """The exact numbers of every row, or of every column."""
    return [definition.numbers(line) for line in (matrix if side == "left" else matrix.T)]


def operand_of(matrix, side, order="C"):
    """The same lines as the backend has them."""
    parts = 2 if matrix.dtype.kind == "c" else 1
    return lines(stack(np.array(matrix, order=order)[None]), side, parts)


def goals_of(accuracy, k, parts):
    """The goals that a contract may have for this inner dimension."""
    contract = as_contract(accuracy)
    for precision in (53, 24):
        yield bounds.goal(contract, precision, k, parts, None)
        if contract.correct:
            yield bounds.goal(contract, precision, k, parts, first_cap(precision, k))


def awkward(family, shape, operand):
    """A pair of a family, with a zero line and a subnormal one on either side."""
    a, b = draw(family, shape, 31, operand)
    a[0], b[:, 0] = 0.0, -0.0
    a[1], b[:, 1] = 2.0**-1074, 3 * 2.0**-1060
    return a, b


# ── quantise ─────────────────────────────────────────────────────────────────────────────────


@families
@accuracies
@parts_of_numbers
def test_exponents_norms_and_flags(family, accuracy, operand):
    a, b = awkward(family, (7, 11, 6), operand)
    parts = FORMATS[operand].parts
    for (side, matrix), order in itertools.product(zip(SIDES, (a, b), strict=True), "CF"):
        given_lines = operand_of(matrix, side, order)
        for goal in goals_of(accuracy, 11, parts):
            wanted = [definition.quantise_line(line, goal) for line in numbers_of(matrix, side)]
            for survey in (cpu_lines.survey(given_lines), cpu_lines.survey(given_lines, goal)):
                found = cpu_lines.quantise(survey, goal)
                assert found.exponents[0].tolist() == [line.exponent for line in wanted]
                assert found.exact[0].tolist() == [line.exact for line in wanted]
                assert found.sigma[0].tolist() == [line.sigma for line in wanted]
                assert survey.top[0].tolist() == [line.top for line in wanted]
                assert survey.q1[0].tolist() == [line.q1 for line in wanted]
                assert survey.q2[0].tolist() == [line.q2 for line in wanted]
                assert not survey.special.any()


@families
@accuracies
def test_quantised_integers_are_within_half_of_the_scaled_numbers(family, accuracy):
    a, _ = awkward(family, (5, 9, 4), "float64")
    for goal, row in itertools.product(goals_of(accuracy, 9, 1), numbers_of(a, "left")):
        line = definition.quantise_line(row, goal)
        scale = Fraction(2) ** line.exponent
        errors = [abs(x[0] * scale - n[0]) for x, n in zip(row, line.integers, strict=True)]
        assert max(errors) <= Fraction(1, 2)
        assert not any(errors) or not line.exact
        magnitudes = [abs(n[0]) for n in line.integers]
        assert sum(magnitudes) <= Fraction(line.q1) * Fraction(2) ** (
            line.sigma - bounds.NORM_BITS
        ) + Fraction(9, 2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_lines_are_marked_and_hold_nothing(value):
    a = np.ones((4, 5))
    a[2, 3] = value
    for goal in (None, bounds.goal(CONTRACTS["standard"], 53, 5, 1, None)):
        survey = cpu_lines.survey(operand_of(a, "left"), goal)
        assert survey.special.tolist() == [[False, False, True, False]]
        quantised = cpu_lines.quantise(survey, goal)
        planes = cpu_encode.encode(operand_of(a, "left"), quantised, residues(128, 40.0, 1), 0)
        assert not planes[:, 0, 2].any()


@given(st.integers(1, 2**53 - 1), st.integers(1, 2**53 - 1))
@example(1, 1)
@example(2**52, 2**52 - 1)
def test_floor_log2_ratio(numerator, denominator):
    wanted = bounds.floor_log2_ratio(numerator, denominator)
    assert Fraction(2) ** wanted <= Fraction(numerator, denominator) < Fraction(2) ** (wanted + 1)
    assert kernels.floor_log2_ratio(numerator, denominator) == wanted


@given(st.integers(0, 2**61 - 1))
@example(2**61 - 1)
@example((2**30 + 1) ** 2)
@example((2**30 + 1) ** 2 - 1)
@example((2**30 + 1) ** 2 + 1)
def test_ceil_sqrt(square):
    wanted = math.isqrt(square - 1) + 1 if square else 0
    assert kernels.ceil_sqrt(square) == wanted


# ── encode and multiply ──────────────────────────────────────────────────────────────────────


def encoded(family, operand, accuracy, unit, system, order="C", shape=(5, 13, 4)):
    """Both sides by the definition and by the backend, in one layout."""
    k, fmt = shape[1], FORMATS[operand]
    a, b = awkward(family, shape, operand)
    contract = as_contract(accuracy)
    cap = first_cap(fmt.precision, k) if contract.correct else None
    goal = bounds.goal(contract, fmt.precision, k, fmt.parts, cap)
    operands = [operand_of(x, side, order) for x, side in zip((a, b), SIDES, strict=True)]
    quantised = [cpu_lines.quantise(cpu_lines.survey(x), goal) for x in operands]
    defined = [
        [definition.quantise_line(line, goal) for line in numbers_of(x, side)]
        for x, side in zip((a, b), SIDES, strict=True)
    ]
    needs = cpu_lines.needs(*quantised, k)
    layout = choose_layout(contract, fmt, k, unit, system, needs, cap=cap)
    return operands, quantised, defined, layout, fmt


def planes_of(operands, quantised, layout):
    return [
        cpu_encode.encode(operand, found, layout, side)
        for side, (operand, found) in enumerate(zip(operands, quantised, strict=True))
    ]


@pytest.mark.covering(2)
@families
@units
@pytest.mark.parametrize("system", SYSTEMS)
@parts_of_numbers
def test_planes_and_groups(family, unit, system, operand):
    accuracies_here = ["standard", 40] if system == "residues" else ["standard"]
    for accuracy, order in itertools.product(accuracies_here, "CF"):
        operands, quantised, defined, layout, _ = encoded(
            family, operand, accuracy, unit, system, order
        )
        found = planes_of(operands, quantised, layout)
        wanted = [definition.encode(x, layout, side) for side, x in enumerate(defined)]
        for ours, theirs in zip(found, wanted, strict=True):
            assert_same_bits(ours[:, 0] + 0.0, np.array(theirs, np.float64))
            assert np.abs(ours).max() <= bounds.plane_digit(unit, 13)
        groups = np.full((layout.groups, 1, 5, 4), np.nan)
        depth = unit.depth(bounds.plane_digit(unit, 13))
        for cut in (depth, 3):  # an accumulator that is emptied early gives the same
            partial = np.full((1, 5, 4), np.nan, unit.engine)
            cpu_multiply.multiply(
                *map(list, found), layout.products, unit, cut, groups=groups, partial=partial
            )
            products = definition.multiply(*wanted, layout.products)
            assert_same_bits(groups[:, 0] + 0.0, np.array(products, np.float64))


@families
@parts_of_numbers
def test_planes_of_correct_products(family, operand):
    """At the first cap, where integers have more than 53 bits."""
    for system in ("residues", "digits"):
        operands, quantised, defined, layout, _ = encoded(
            family, operand, "correct", UNITS["fp64"], system
        )
        for side, found in enumerate(planes_of(operands, quantised, layout)):
            wanted = definition.encode(defined[side], layout, side)
            assert_same_bits(found[:, 0] + 0.0, np.array(wanted, np.float64))


@families
@parts_of_numbers
def test_planes_of_lines_kept_whole(family, operand):
    """Every bit of hard lines, thousands of them in one integer."""
    a, _ = awkward(family, (4, 6, 4), operand)
    quantised = cpu_lines.quantise(cpu_lines.survey(operand_of(a, "left")), None)
    defined = [definition.quantise_line(line, None) for line in numbers_of(a, "left")]
    width = max(abs(part) for line in defined for n in line.integers for part in n).bit_length()
    parts = FORMATS[operand].parts
    for layout in (
        residues(2**20, 100.0, parts),
        residues(128, 100.0, parts),
        digits(2**20, (width, 1), parts, 6, 1, 0),
    ):
        found = cpu_encode.encode(operand_of(a, "left"), quantised, layout, 0)
        wanted = definition.encode(defined, layout, 0)
        assert_same_bits(found[:, 0] + 0.0, np.array(wanted, np.float64))


# ── reconstruct ──────────────────────────────────────────────────────────────────────────────


@families
@pytest.mark.parametrize("system", ["residues", "digits", "triangle"])
@parts_of_numbers
def test_reconstruction(family, system, operand):
    few = [UNITS[name] for name in ("fp64", "int8", "fp8")]
    for unit, result in itertools.product(few, ("float64", "float32")):
        operands, quantised, defined, layout, fmt = encoded(
            family, operand, "standard", unit, system
        )
        planes = planes_of(operands, quantised, layout)
        groups, partial = np.empty((layout.groups, 1, 5, 4)), np.empty((1, 5, 4), unit.engine)
        depth = unit.depth(bounds.plane_digit(unit, 13))
        cpu_multiply.multiply(
            *map(list, planes), layout.products, unit, depth, groups=groups, partial=partial
        )
        out = np.full((fmt.parts, 1, 5, 4), np.nan)
        form = FORMATS[result].part
        cpu_reconstruct.reconstruct(groups, layout, quantised, form, out[None])
        exact_groups = [[[int(x) for x in row] for row in group[0]] for group in groups]
        for i, row in enumerate(definition.integers(exact_groups, layout)):
            for j, x in enumerate(row):
                lost = defined[0][i].exponent + defined[1][j].exponent
                wanted = [definition.round_once(part * Fraction(2) ** -lost, form) for part in x]
                assert_same_bits(out[:, 0, i, j], np.array(wanted))


@parts_of_numbers
@pytest.mark.parametrize("unit", ["int8", "fp8"])
@pytest.mark.parametrize("system", ["residues", "digits"])
def test_the_integers_are_the_product_of_the_integers(operand, system, unit):
    """X = A'B' by way of planes, groups and weights, against X itself."""
    operands, quantised, defined, layout, _ = encoded(
        "phi4", operand, "standard", UNITS[unit], system
    )
    assert operands[0].shape == (1, 5, 13)
    assert len(quantised) == 2
    planes = [definition.encode(x, layout, side) for side, x in enumerate(defined)]
    found = definition.integers(definition.multiply(*planes, layout.products), layout)
    for i, j in itertools.product(range(5), range(4)):
        row, column = (
            [tuple(Fraction(part) for part in n) for n in side[at].integers]
            for side, at in zip(defined, (i, j), strict=True)
        )
        assert found[i][j] == definition.exact_dot(row, column)


# ── certificates ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.covering(2)
@families
@pytest.mark.parametrize("accuracy", BY_DATA)
@parts_of_numbers
@pytest.mark.parametrize("precision", [53, 24])
@pytest.mark.parametrize("dropped", [0, 2**55])
def test_certificates(family, accuracy, operand, precision, dropped):
    shape, contract, parts = (7, 11, 6), CONTRACTS[accuracy], FORMATS[operand].parts
    a, b = awkward(family, shape, operand)
    goal = bounds.goal(contract, precision, 11, parts, None)
    test = bounds.certificate(contract, precision, 11, parts, dropped)
    matrices = list(zip((a, b), SIDES, strict=True))
    numbers = [numbers_of(x, side) for x, side in matrices]
    operands = [operand_of(x, side) for x, side in matrices]
    quantised = [cpu_lines.quantise(cpu_lines.survey(x, goal), goal) for x in operands]
    defined = [[definition.quantise_line(line, goal) for line in side] for side in numbers]
    for found, wanted in zip(quantised, defined, strict=True):
        weights, levels = certificates.weights(found, test)
        assert weights[0].tolist() == [test.weight(line.q1) for line in wanted]
        assert levels[0].tolist() == [test.level(line.q1) for line in wanted]
        assert all(line.exact or line.sigma == test.level(line.q1) for line in wanted)

    # Leading integers, and the product of them that bounds |A||B| from below.
    kept = bounds.lead_bits(11)
    pairs = list(itertools.product(range(shape[0]), range(shape[2])))
    lead = np.zeros((1, shape[0], shape[2]))
    for i, j in pairs:
        lead[0, i, j] = definition.lead_product(
            numbers[0][i], defined[0][i], numbers[1][j], defined[1][j]
        )
    ours, theirs = (
        certificates.leads(x, found, kept).astype(np.float64)
        for x, found in zip(operands, quantised, strict=True)
    )
    assert np.array_equal(ours @ theirs.swapaxes(1, 2), lead)

    open_elements = certificates.uncertified(lead, 1.0, *quantised, test)[0]
    for i, j in pairs:
        certain = definition.certified(defined[0][i], defined[1][j], int(lead[0, i, j]), test)
        assert open_elements[i, j] == (not certain)


@pytest.mark.parametrize("accuracy", BY_DATA)
@pytest.mark.parametrize("parts", [1, 2])
@settings(max_examples=150)
@given(
    k=st.integers(1, 2**29 - 1),
    sizes=st.tuples(st.integers(2**15, 2**44), st.integers(2**15, 2**44)),
    flags=st.tuples(st.booleans(), st.booleans()),
    lead=st.integers(0, 2**53),
    short=st.tuples(st.integers(0, 80), st.integers(0, 80)),
)
def test_a_certificate_implies_the_contract(accuracy, parts, k, sizes, flags, lead, short):
    """Whatever is certified keeps lambda 2^(s+t) |A||B| above the error, in exact rationals.

    Lines that are exact may have stopped short of the goal.
    """
    test = bounds.certificate(CONTRACTS[accuracy], 53, k, parts, 0)
    rows = [
        definition.Line((), test.level(q1) - exact * before, 0, q1, q1, exact)
        for before, q1, exact in zip(short, sizes, flags, strict=True)
    ]
    if not definition.certified(*rows, lead, test):
        return
    v, u = (Fraction(x.q1) * Fraction(2) ** (x.sigma - bounds.NORM_BITS) for x in rows)
    error = (v * (not flags[1]) + u * (not flags[0])) / 2
    error += Fraction(k * parts, 4) * (not any(flags))
    sigmas = sum(row.sigma for row in rows)
    least = Fraction(lead) * Fraction(2) ** (sigmas - 2 * bounds.lead_bits(k))
    # squares: lambda^2 = 4 k u^2 or k^2 u^2; complex: error sqrt(2), |a||b| at least half of least
    square = Fraction(4 * k if accuracy == "standard" else k * k, 2**106)
    if parts == 2:
        error, least = error * error * 2, least / 2
        assert error <= square * least * least
    else:
        assert error * error <= square * least * least


# ── moduli and residues ──────────────────────────────────────────────────────────────────────

GREEDY = [
    256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179,
    173, 167, 163, 157, 151, 149, 139, 137, 131, 127, 113,
]  # fmt: skip
HELD = {
    6: 47.8, 7: 55.7, 8: 63.6, 12: 94.8, 13: 102.5, 14: 110.2, 15: 117.8, 16: 125.4, 17: 133.0,
    18: 140.5, 20: 155.4, 24: 184.6, 31: 233.7, 49: 341.9,
}  # fmt: skip


def test_moduli_of_a_byte():
    every = moduli(128, 341.8)
    assert list(every[: len(GREEDY)]) == GREEDY
    assert len(every) == 49
    for count, bits in HELD.items():
        assert round(math.log2(math.prod(every[:count])), 1) == bits
    with pytest.raises(ValueError, match=r"hold 341\.9 bits"):
        moduli(128, 342.0)


@pytest.mark.parametrize("digit", [1, 2, 16, 100, 128, 2048, 4096, 2**20, 2**22])
def test_moduli_are_coprime_greedy_and_enough(digit):
    for bits in (1.0, 3.9, 20.0, 110.0, 300.0):
        try:
            chosen = moduli(digit, bits)
        except ValueError:
            assert digit <= 100
            continue
        assert math.prod(chosen) >= 2**bits > math.prod(chosen[:-1])
        assert all(math.gcd(p, q) == 1 for p, q in itertools.combinations(chosen, 2))
        assert chosen[0] == 2 * digit
        for p, q in itertools.pairwise(chosen):
            earlier = chosen[: chosen.index(q)]
            assert all(any(math.gcd(x, y) > 1 for y in earlier) for x in range(q + 1, p))


@given(st.integers(-(2**200), 2**200), st.sampled_from([2, 3, 113, 255, 256, 2**21, 2**21 - 1]))
def test_balanced_residues(x, p):
    r = balanced(x, p)
    assert (x - r) % p == 0
    assert -p <= 2 * r < p


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("digit", "bits"), [(128, 120.0), (4096, 90.5), (2**20, 400.0), (2, 1.0)])
def test_weights_of_residues(digit, bits, parts):
    layout = residues(digit, bits, parts)
    chosen = layout.moduli
    assert layout.modulus == math.prod(chosen)
    # |X| < 2^bits leaves |X| / P <= 1/2 - 2^-9.
    assert Fraction(int(2**bits), layout.modulus) <= Fraction(1, 2) - Fraction(1, 2**9)
    basis = layout.weights[0][: len(chosen)]
    for (i, p), (j, weight) in itertools.product(enumerate(chosen), enumerate(basis)):
        assert weight % p == (i == j)
    if parts == 2:
        zero, minus = (0,) * len(chosen), tuple(-x for x in basis)
        assert layout.weights == (basis + minus + zero, minus + minus + basis)
    assert layout.groups == len(layout.products) == layout.planes[0] == layout.planes[1]


@pytest.mark.parametrize("digit", [4, 16, 64, 128])
def test_split_moduli_are_coprime_and_their_digits_small(digit):
    pairs = split_moduli(digit, min(6.0 * digit, 400.0))
    assert all(math.gcd(p, q) == 1 for (p, _), (q, _) in itertools.combinations(pairs, 2))
    assert {base * base == p for p, base in pairs} == {True, False}
    for p, base in pairs:
        for r in range(-(p // 2), (p + 1) // 2):
            low, high = two_digits(r, p, base)
            assert r == low + base * high
            entries = (low, high) if base * base == p else (low, high, low + high)
            assert max(map(abs, entries)) <= digit


def test_split_moduli_of_fp8():
    """Squares first, then what Karatsuba takes; three products each, so 3.1 bits a product."""
    layout = residues(16, 110.0, 1, split=True)
    assert layout.moduli[:8] == (1089, 1024, 961, 841, 625, 529, 511, 509)
    assert len(layout.products) == 3 * len(layout.moduli) == 36
    assert layout.groups == 2 * 6 + 3 * 6
    with pytest.raises(ValueError, match="use system='digits'"):
        residues(16, 800.0, 1, split=True)


@pytest.mark.parametrize(("digit", "short"), [(64, 29), (128, 49)])
def test_long_moduli_go_on_in_two_digits(digit, short):
    pairs = long_moduli(digit, 1800.0)
    assert all(base == (0 if i < short else digit) for i, (_, base) in enumerate(pairs))
    assert all(math.gcd(p, q) == 1 for (p, _), (q, _) in itertools.combinations(pairs, 2))
    assert pairs[: short + 3] == long_moduli(
        digit, sum(math.log2(p) for p, _ in pairs[: short + 3]) - 1
    )
    for p, base in pairs[short::20]:
        for r in range(-(p // 2), (p + 1) // 2):
            low, high = two_digits(r, p, base)
            assert r == low + base * high
            assert max(map(abs, (low, high, low + high))) < digit


def test_products_of_long_numbers():
    """49 bytes hold 341.9 bits, then three products give 14 bits."""
    for bits, products in [(340.0, 49), (341.0, 52), (354.0, 52), (433.0, 70), (1729.0, 349)]:
        layout = residues(128, bits, 1)
        assert len(layout.products) == layout.planes[0] == layout.groups == products
        assert [(x, y) for x, y, _ in layout.products] == [(i, i) for i in range(products)]
    longer, shorter = residues(128, 500.0, 2), residues(128, 360.0, 2)
    chosen = longer.planes_of(shorter, 0)
    x = (-(3**100), 7**60)
    assert [longer.write(x, 0)[plane] for plane in chosen] == shorter.write(x, 0)


@given(st.data())
def test_residues_hold_what_they_claim(data):
    bits, parts = data.draw(st.integers(10, 500)), data.draw(st.sampled_from([1, 2]))
    digit = data.draw(st.sampled_from([16, 128, 2048, 2**20]))
    layout = residues(digit, float(bits), parts, split=digit == 16)
    x, y = (
        [data.draw(st.integers(-(2**half), 2**half)) for _ in range(parts)]
        for half in ((bits - 1) // 2 - 1, bits // 2 - 1)
    )
    left, right = ([[[e]] for e in layout.write(z, side)] for side, z in enumerate((x, y)))
    found = definition.integers(definition.multiply(left, right, layout.products), layout)
    exact = [tuple(Fraction(part) for part in z) for z in (x, y)]
    assert found[0][0] == definition.exact_dot(exact[:1], exact[1:])


# ── digits ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("digit", [2, 16, 128, 2048, 2**20])
def test_digits_hold_the_extremes(digit):
    beta = digit.bit_length()
    for width in (0, 1, beta - 2, beta - 1, beta, 53, 54, 55, 107, 300):
        layout = digits(digit, (width, width), 1, 1, 1, 0)
        assert layout.counts == (digit_count(width, beta),) * 2
        for x in {1 << width, (1 << width) - 1, (1 << width) // 3, 0}:
            for value in (x, -x):
                written = layout.write([value], 0)
                assert sum(d << (beta * at) for at, d in enumerate(written)) == value
                assert all(-digit <= d < digit for d in written)
        if layout.counts[0] > 1:  # one digit fewer would not do
            short = replace(layout, counts=(layout.counts[0] - 1,) * 2)
            with pytest.raises(ValueError, match="do not hold"):
                short.write([1 << width], 0)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
def test_all_products_of_digits(parts, limit):
    layout = digits(128, (54, 30), parts, 100, limit, 0)
    assert layout.system == "digits"
    assert layout.dropped == 0
    pairs = [(x, y) for x, y, _ in layout.products]
    assert len(set(pairs)) == len(pairs) == layout.planes[0] * layout.planes[1]
    assert len(pairs) == parts**2 * math.prod(layout.counts)
    gathered = [[p for p in layout.products if p.group == g] for g in range(layout.groups)]
    assert all(1 <= len(group) <= limit for group in gathered)


@pytest.mark.parametrize("parts", [1, 2])
def test_the_triangle_drops_no_more_than_it_says(parts):
    """The worst digits that there are, at every product left out."""
    k, budget = 50, 2**60
    layout = digits(128, (54, 54), parts, k, 1000, budget)
    whole = digits(128, (54, 54), parts, k, 1000, 0)
    assert 0 < layout.dropped <= budget
    assert layout.system == "triangle"
    kept, every = ({(x, y) for x, y, _ in z.products} for z in (layout, whole))
    assert kept < every
    worst = 0
    for x, y in every - kept:
        place = x % layout.counts[0] + y % layout.counts[1]
        worst += k * 128 * 128 << (layout.beta * place)
    # Half of the products of complex numbers meet in either part of X.
    assert worst // parts <= layout.dropped


def test_limbs_hold_what_the_triangle_leaves_out_of_zeros():
    """Left-out products are what full lines would have: more than all digits of lines of zeros."""
    layout = digits(128, (1, 1), 1, 50, 1000, 2**900)
    limbs = cpu_reconstruct._reconstruction(layout)[3]
    assert 32 * len(limbs) > bounds.least_error(layout.dropped) + 3 > 800


# ── units ────────────────────────────────────────────────────────────────────────────────────


@units
def test_the_exact_depth_of_a_unit(unit):
    """Largest digits, all of one sign, as deep as the record says: exact on the CPU's engine."""
    for digit in {unit.digit, max(1, unit.digit // 3), bounds.plane_digit(unit, 1000)}:
        depth = unit.depth(digit)
        assert depth * digit**2 <= unit.exact < (depth + 1) * digit**2
        length = min(depth, 2**18)
        for sign in (1, -1):
            ours = np.full((3, length), sign * digit, unit.engine)
            theirs = np.full((length, 2), digit, unit.engine)
            theirs[-1] = digit - 1  # the last bit counts
            wanted = sign * ((length - 1) * digit**2 + digit * (digit - 1))
            assert (np.matmul(ours, theirs) == wanted).all()
            assert int(np.matmul(ours, theirs)[0, 0]) == wanted


@units
def test_multiplication_across_stretches(unit):
    """An inner dimension of many depths: groups gather what the accumulator cannot."""
    k, rng = 3000, np.random.default_rng(32)
    digit = bounds.plane_digit(unit, k)
    ours = rng.integers(-digit, digit, (1, 1, 4, k), endpoint=True).astype(np.float64)
    theirs = rng.integers(-digit, digit, (1, 1, 5, k), endpoint=True).astype(np.float64)
    ours[0, 0, 0], theirs[0, 0, 0] = digit, digit
    layout = residues(digit, 1.0, 1)
    groups = np.empty((1, 1, 4, 5))
    partial = np.empty((1, 4, 5), unit.engine)
    cpu_multiply.multiply(
        list(ours),
        list(theirs),
        layout.products[:1],
        unit,
        unit.depth(digit),
        groups=groups,
        partial=partial,
    )
    wanted = [[sum(int(x) * int(y) for x, y in zip(r, c, strict=True)) for c in theirs[0, 0]]
              for r in ours[0, 0]]  # fmt: skip
    assert_same_bits(groups[0, 0] + 0.0, np.array(wanted, np.float64))


@units
def test_unit_records_refuse_what_cannot_be(unit):
    with pytest.raises(ValueError, match="one product"):
        replace(unit, digit=math.isqrt(unit.exact) + 1)
    with pytest.raises(ValueError, match="cannot stand in"):
        replace(unit, exact={"float64": 2**53, "float32": 2**24}[unit.engine] + 1)


# ── bounds ───────────────────────────────────────────────────────────────────────────────────


@units
def test_plane_digits(unit):
    for k in INNER:
        digit = bounds.plane_digit(unit, k)
        stretch = min(k, unit.span)
        assert 1 <= digit <= unit.digit
        assert k * digit**2 <= 2**53
        assert stretch * digit**2 <= unit.exact
        assert unit.depth(digit) >= stretch
        larger = digit + 1
        assert larger > unit.digit or k * larger**2 > 2**53 or stretch * larger**2 > unit.exact


def test_goals():
    for k, precision, parts in itertools.product(INNER, (53, 24), (1, 2)):
        extra = parts - 1
        fast = bounds.goal(CONTRACTS["fast"], precision, k, parts, None)
        assert (fast.norm, fast.root * 2**fast.shift) == (1, 2 ** (precision + 2 + extra))
        standard = bounds.goal(CONTRACTS["standard"], precision, k, parts, None)
        largest = Fraction(2) ** standard.shift
        assert standard.norm == 1
        assert (standard.root * largest) ** 2 <= 4 ** (precision + 1 + extra) * k
        assert ((standard.root + 1) * largest) ** 2 > 4 ** (precision + 1 + extra) * k
        assert bounds.goal(CONTRACTS["correct"], precision, k, parts, None) is None
        capped = bounds.goal(CONTRACTS["correct"], precision, k, parts, 80)
        assert capped.norm == 1
        assert capped.root == standard.root
        for bits in (1, 40, 120):
            budget = bounds.goal(as_contract(bits), precision, k, parts, None)
            step = Fraction(2) ** budget.shift
            assert budget.norm == 2
            assert (budget.root * step) ** 2 <= 4 ** (bits + 2 + extra) * k * parts
            assert ((budget.root + 1) * step) ** 2 > 4 ** (bits + 2 + extra) * k * parts


def test_lead_bits():
    for k in INNER:
        kept = bounds.lead_bits(k)
        assert 7 <= kept <= 14
        assert k * (2 ** (kept + 2)) ** 2 <= 2**53
        # As float32, in which they are first multiplied, they are exact themselves.
        assert 2 ** (kept + 2) <= 2**24


@given(st.integers(-(2**80), 2**80), st.integers(-100, 100))
def test_shifts(value, shift):
    exact = value * Fraction(2) ** shift
    assert bounds.ceil_shift(value, shift) == math.ceil(exact)
    assert bounds.floor_shift(value, shift) == math.floor(exact)


@pytest.mark.parametrize("accuracy", BY_DATA)
def test_certificate_weights_fit_their_kernels(accuracy):
    """Weights of lines at their goal are integers near 2^21, far from the end of an int64."""
    for k, parts, precision in itertools.product(INNER, (1, 2), (53, 24)):
        test = bounds.certificate(CONTRACTS[accuracy], precision, k, parts, 0)
        for q1 in (2**15, 2**15 + 1, k * parts * 2**16, k * parts * 2**15 + 1):
            assert 2**18 <= test.weight(q1) <= 2**24
        assert 0 <= test.both <= 2**24
        assert 2**23 <= test.divisor < 2**24


# ── one rounding ─────────────────────────────────────────────────────────────────────────────


def by_mpfr(value, form):
    """Rounded by MPFR, which knows subnormals and overflow."""
    with gmpy2.context(
        precision=form.precision,
        emax=form.highest,
        emin=form.lowest + 1,
        subnormalize=True,
        round=gmpy2.RoundToNearest,
    ):
        return float(gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator)))


@st.composite
def rationals_near_ties(draw_from, form):
    """m 2^e with m near a multiple of half an ulp, anywhere from below the range to above it."""
    whole = draw_from(st.integers(0, 2 ** (form.precision + 1)))
    tail = draw_from(st.sampled_from([0, 0, 1, -1]))
    depth = draw_from(st.integers(1, 200))
    exponent = draw_from(
        st.one_of(
            st.integers(form.lowest - form.precision - 4, form.lowest + 3),
            st.integers(form.highest - form.precision - 4, form.highest + 2),
            st.integers(form.lowest, form.highest),
        )
    )
    value = (whole + Fraction(tail, 2**depth)) * Fraction(2) ** exponent
    return draw_from(st.sampled_from([1, -1])) * value


@pytest.mark.parametrize("name", [name for name, x in FORMATS.items() if isinstance(x, Binary)])
@settings(max_examples=400)
@given(st.data())
def test_round_once(name, data):
    form = FORMATS[name]
    value = data.draw(rationals_near_ties(form))
    found = definition.round_once(value, form)
    if value == 0:
        assert_same_bits(np.float64(found), np.float64(0.0))
    else:
        assert_same_bits(np.float64(found), np.float64(by_mpfr(value, form)))


@pytest.mark.parametrize("name", [name for name in RESULTS if isinstance(FORMATS[name], Binary)])
def test_round_once_at_the_ends_of_the_range(name):
    form = FORMATS[name]
    small, large = Fraction(2) ** form.lowest, Fraction(2) ** form.highest
    ulp = large / 2**form.precision
    tiny = Fraction(1, 2**3000)
    for value, wanted in [
        (small / 2, 0.0), (small / 2 + tiny, float(small)), (-small / 2, -0.0),
        (3 * small / 2, 2 * float(small)), (3 * small / 2 - tiny, float(small)),
        (large - ulp, float(large - ulp)), (large - ulp / 2 - tiny, float(large - ulp)),
        (large - ulp / 2, math.inf), (-large, -math.inf), (large * 2**50, math.inf),
    ]:  # fmt: skip
        assert_same_bits(np.float64(definition.round_once(value, form)), np.float64(wanted))
