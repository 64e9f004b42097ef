"""Contracts hold on every family: the promise, the certified bound, and what repair does."""

from __future__ import annotations

from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import widen
import widen.testing as wt
from helpers import assert_same_bits, bits_of, draw, results_for
from widen.contract import CONTRACTS, as_contract
from widen.cpu import repair, stages
from widen.formats import FORMATS, PLAIN
from widen.systems import SYSTEMS
from widen.testing import Dyadic, Exact
from widen.units import UNITS

ACCURACIES = [*CONTRACTS, 10, 30, 53, 80, 120]
BY_DATA = [name for name, contract in CONTRACTS.items() if contract.certified_by_data]
HOSTILE = ["graded circulant", "one huge"]

families = pytest.mark.parametrize("family", wt.FAMILIES)
accuracies = pytest.mark.parametrize("accuracy", ACCURACIES, ids=str)
by_data = pytest.mark.parametrize("accuracy", BY_DATA)


def assert_kept(a, b, accuracy, **options):
    """The contract and the certified bound hold, compared exactly; gives what the call gave."""
    c, info = widen.matmul(a, b, accuracy=accuracy, info=True, **options)
    assert wt.check_contract(c, a, b, accuracy) == 0
    assert wt.violations(c, info.bound, a, b) == 0
    return c, info


# ── the promise and the bound ────────────────────────────────────────────────────────────────


@pytest.mark.covering(2)
@families
@accuracies
@pytest.mark.parametrize("operand", ["float64", "complex128"])
def test_contract_and_bound(family, accuracy, operand):
    a, b = draw(family, (19, 37, 17), 11, operand)
    for result in results_for(operand):
        if FORMATS[result].parts == FORMATS[operand].parts:
            assert_kept(a, b, accuracy, dtype=result)


@pytest.mark.parametrize("unit", ["fp64", "int8"])
@by_data
def test_the_bound_of_what_underflows_is_not_lost(accuracy, unit):
    """2^-(s+t) underflows, many times it does not: products left out, and sums of rounded lines."""
    x, y = 1003536613 * 2.0**-520, 849416775 * 2.0**-520
    a, b = np.array([[x, -x]]), np.array([[y], [y]])
    assert_kept(a, b, accuracy, system="triangle", unit=unit)
    a = np.full((1, 1000), 5.5 * 2.0**-538)
    assert_kept(a, a.T, 1, unit=unit)
    found, info = widen.gemm(a, a.T, alpha=2.0**900, accuracy=1, unit=unit, info=True)
    exact = Fraction(11, 2) ** 2 * 1000 * Fraction(2) ** (900 - 1076)
    assert abs(Fraction(found[0, 0]) - exact) <= Fraction(info.bound[0, 0])


@families
@accuracies
def test_short_and_long_inner_dimensions(family, accuracy):
    for shape in ((6, 1, 5), (5, 2, 6), (4, 300, 5)):
        assert_kept(*draw(family, shape, 12), accuracy)


SHORT = {
    "ones": lambda rng, shape: np.ones(shape),
    "digits": lambda rng, shape: rng.integers(-9, 10, shape).astype(float),
    "one or none": lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
    "float16": lambda rng, shape: rng.uniform(0.5, 1, shape).astype(np.float16),
    "one": lambda rng, shape: np.eye(*shape),
}


@by_data
@pytest.mark.parametrize("kind", SHORT)
@pytest.mark.parametrize("operand", ["float64", "complex128", "float64x2"])
def test_one_operand_is_exact_and_short(accuracy, kind, operand):
    """What the other one loses is small beside the product, however small this one's integers."""
    rng = np.random.default_rng(21)
    a = draw("phi0.5", (19, 60, 17), 21, operand if operand in PLAIN else "float64")[0]
    b = SHORT[kind](rng, (60, 17))
    if operand not in PLAIN:
        words = widen.Words(a, operand) / 3.0
        found, info = widen.matmul(words, b, accuracy=accuracy, info=True)
        assert info.repaired == 0
        wanted = widen.matmul(words, b, accuracy="correct")
        lambda_ = (2 * 60**0.5 if accuracy == "standard" else 60) * 2.0**-found.format.precision
        error = abs((found - wanted).to_numpy())
        assert (error <= 1.01 * lambda_ * (abs(a / 3) @ abs(b))).all()
        return
    for x, y in ((a, b), (b.T, a.T)):
        assert assert_kept(x, y, accuracy, dtype=operand)[1].repaired == 0


@pytest.mark.covering(2)
@families
@accuracies
@pytest.mark.parametrize("operand", ["float64", "complex128"])
def test_the_triangle(family, accuracy, operand):
    for unit in UNITS if operand == "float64" else ("int8",):
        a, b = draw(family, (7, 45, 8), 13, operand)
        assert_kept(a, b, accuracy, system="triangle", unit=unit)


@by_data
@pytest.mark.parametrize("unit", UNITS)
def test_the_triangle_of_numbers_that_are_all_small(accuracy, unit):
    """All of X is below what may be left out; the products that remain, if any, still run."""
    c, _ = assert_kept(np.ones((1, 1)), np.ones((1, 1)), accuracy, system="triangle", unit=unit)
    assert c.tolist() == [[1.0]]


@by_data
@pytest.mark.parametrize("unit", UNITS)
def test_the_triangle_leaves_products_out(accuracy, unit):
    """Otherwise the test above shows nothing."""
    a, b = draw("phi0.5", (7, 45, 8), 13)
    plans = [
        widen.plan(a, b, accuracy=accuracy, unit=unit, system=x) for x in ("digits", "triangle")
    ]
    if unit == "fp64":  # its digits are few and wide
        assert plans[1].products <= plans[0].products
    else:
        assert plans[1].products < plans[0].products
        assert plans[1].layout.dropped > 0


@families
@by_data
@pytest.mark.parametrize("operand", [name for name in PLAIN if name not in ("float64",)])
def test_operands_of_other_formats(family, accuracy, operand):
    a, b = draw(family, (6, 50, 7), 14, operand)
    assert_kept(a, b, accuracy)


@by_data
@pytest.mark.parametrize("family", ["phi0", "phi1", "phi4", "positive", "one huge"])
def test_larger_products(family, accuracy):
    a, b = draw(family, (120, 300, 110), 15)
    assert_kept(a, b, accuracy)


def exact_number(x):
    return Exact.of(np.array([[x]]))


@pytest.mark.covering(2)
@families
@accuracies
@pytest.mark.parametrize(("operand", "alpha"), [("float64", -0.3), ("complex128", 0.7 - 1.1j)])
@pytest.mark.parametrize("system", [None, "triangle"])
def test_the_bound_of_gemm(family, accuracy, operand, alpha, system):
    a, b = draw(family, (6, 30, 5), 16, operand)
    beta = 3.0
    with np.errstate(all="ignore"):
        addend = -(a @ b) / 10
    addend = np.where(np.isfinite(addend), addend, 1.0)
    c, info = widen.gemm(
        a, b, addend, alpha=alpha, beta=beta, accuracy=accuracy, system=system, info=True
    )
    parts = np.stack([c.real, c.imag])
    finite = np.isfinite(parts).all(axis=0)
    assert np.isinf(info.bound[~finite]).all()
    finite &= np.isfinite(info.bound)  # a budget 2^-b |a||b| may lie beyond the range itself
    exact = exact_number(alpha) * wt.exact_product(a, b) + exact_number(beta) * Exact.of(addend)
    error = Exact.of(np.where(finite, c, 0)) - exact
    limit = Dyadic.of(np.where(finite, info.bound, 0.0))
    above = (error.squared_modulus() - limit * limit).positive()
    assert not (above & finite).any()
    if accuracy == "correct":
        assert_same_bits(c, wt.correctly_rounded(a, b, c.dtype, alpha, beta, addend))


@accuracies
def test_the_bound_says_half_an_ulp_where_nothing_was_lost(accuracy):
    a, b = draw("integers", (9, 40, 8), 17)
    c, info = assert_kept(a, b, accuracy)
    assert (info.bound <= np.maximum(0.5 * np.spacing(np.abs(c)), 5e-324)).all()


@accuracies
def test_the_bound_of_special_results(accuracy):
    a = np.array([[2.0**1000, 1.0], [np.nan, 1.0], [np.inf, 1.0], [1.0, 2.0]])
    b = np.array([[2.0**1000, 1.0], [1.0, 3.0]])
    c, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    assert np.isinf(info.bound[np.isinf(c)]).all()
    assert np.isnan(info.bound[np.isnan(c)]).all()
    assert np.isfinite(info.bound[np.isfinite(c)]).all()
    assert (np.isnan(c).sum(), np.isinf(c).sum()) == (2, 3)


# ── integer contracts ────────────────────────────────────────────────────────────────────────


@families
def test_an_integer_contract_repairs_nothing(family):
    for bits in (1, 10, 53, 120, 2000):
        a, b = draw(family, (5, 20, 6), 18)
        assert assert_kept(a, b, bits)[1].repaired == 0


@families
def test_a_budget_of_everything_is_correct(family):
    """2000 bits keep every line whole unless its exponents span nearly as much."""
    a, b = draw(family, (5, 20, 6), 19)
    if family != "extremes":
        assert_same_bits(widen.matmul(a, b, accuracy=2000), wt.correctly_rounded(a, b))


# ── repair ───────────────────────────────────────────────────────────────────────────────────


class Watch:
    """Repair, with what it was asked for and what it changed."""

    def __init__(self):
        self.marks, self.before, self.after = [], [], []
        self.original = repair.repair
        self.dots, self.products = (
            mock.patch.object(place, name, wraps=getattr(place, name))
            for place, name in ((repair, "by_close_dots"), (repair, "exact_groups"))
        )

    def __call__(self, chosen, marks, out, *others, **more):
        self.marks.append(marks.copy())
        self.before.append(out.copy())
        self.original(chosen, marks, out, *others, **more)
        self.after.append(out.copy())


def watched(a, b, accuracy, few=None, dense=None, **options):
    """A product that repairs in one block: the result, its marks, and which routes ran."""
    watch = Watch()
    with (
        mock.patch.object(stages, "repair", watch),
        mock.patch.object(repair, "FEWEST_OPEN", repair.FEWEST_OPEN if few is None else few),
        mock.patch.object(repair, "DENSE", repair.DENSE if dense is None else dense),
        mock.patch.object(repair, "A_LINE", repair.A_LINE if dense is None else 0),
        watch.dots as dots,
        watch.products as products,
    ):
        c, info = widen.matmul(a, b, accuracy=accuracy, info=True, **options)
    assert len(watch.marks) == 1
    assert info.repaired == watch.marks[0].sum() > 0
    routes = (dots.call_count > 0, products.call_count > 0)
    return c, watch.marks[0][0], watch.before[0][0][:, 0], routes


@pytest.mark.parametrize("family", HOSTILE)
@pytest.mark.parametrize("accuracy", list(CONTRACTS))
@pytest.mark.parametrize("operand", ["float64", "float32", "complex128", "complex64"])
def test_repair_routes_give_the_same_bits(family, accuracy, operand):
    a, b = draw(family, (40, 64, 38), 20, operand)
    normal, marks, before, _ = watched(a, b, accuracy)
    by_dots, dots_marks, _, dots_routes = watched(a, b, accuracy, few=10**9)
    by_products, products_marks, _, products_routes = watched(a, b, accuracy, few=1, dense=-1.0)
    assert dots_routes == (True, False)
    assert products_routes == (False, True)
    assert (marks == dots_marks).all()
    assert (marks == products_marks).all()
    assert_same_bits(by_dots, normal)
    assert_same_bits(by_products, normal)
    # What was marked is correctly rounded, what was not is as it was.
    assert_same_bits(normal[marks], wt.correctly_rounded(a, b, normal.dtype)[marks])
    old = bits_of(before.astype(normal.real.dtype))[0]
    assert (bits_of(normal)[:, ~marks] == old[:, ~marks]).all()


@by_data
@pytest.mark.parametrize("family", HOSTILE)
def test_hostile_families_are_repaired(family, accuracy):
    a, b = draw(family, (40, 64, 38), 21)
    c, marks, _, _ = watched(a, b, accuracy)
    assert wt.check_contract(c, a, b, accuracy) == 0
    assert_same_bits(c[marks], wt.correctly_rounded(a, b)[marks])


@by_data
def test_both_routes_in_one_product(accuracy):
    """A dense block of hard rows goes by products, a few scattered elements by dots."""
    rng = np.random.default_rng(22)
    a, b = wt.FAMILIES["positive"].make(rng, 80, 64, 90)
    # The first rows have their weight where no column has any.
    a[:20, 0] *= 2.0**300
    b[0] *= 2.0**-300
    # Row i is large in half of its entries, column i in the other half; other pairs overlap.
    for i in range(30, 80):
        half = rng.permutation(64)[:32]
        a[i] *= 2.0**-60
        a[i, half] *= 2.0**60
        b[half, i] *= 2.0**-60
    c, marks, _, routes = watched(a, b, accuracy)
    assert routes == (True, True)
    assert marks[:20].mean() > repair.DENSE > marks[30:].mean()
    assert marks[range(30, 80), range(30, 80)].all()
    assert_same_bits(c[marks], wt.correctly_rounded(a, b)[marks])
    assert wt.check_contract(c, a, b, accuracy) == 0


@by_data
@pytest.mark.parametrize("system", SYSTEMS)
def test_repair_under_every_system(accuracy, system):
    a, b = draw("one huge", (20, 40, 22), 23)
    c, marks, _, _ = watched(a, b, accuracy, system=system)
    assert_same_bits(c[marks], wt.correctly_rounded(a, b)[marks])


@by_data
def test_gemm_repairs_the_whole_expression(accuracy):
    a, b = draw("graded circulant", (40, 64, 38), 24)
    c = a @ b
    for few, dense in ((10**9, 0.0), (1, -1.0)):
        watch = Watch()
        with (
            mock.patch.object(stages, "repair", watch),
            mock.patch.object(repair, "FEWEST_OPEN", few),
            mock.patch.object(repair, "DENSE", dense),
        ):
            found = widen.gemm(a, b, c, alpha=-0.1, beta=0.1, accuracy=accuracy)
        marks = watch.marks[0][0]
        assert marks.any()
        wanted = wt.correctly_rounded(a, b, None, -0.1, 0.1, c)
        assert_same_bits(found[marks], wanted[marks])


@accuracies
def test_a_name_and_its_record_are_one_contract(accuracy):
    a, b = draw("phi1", (4, 10, 4), 25)
    record = as_contract(accuracy)
    assert_same_bits(widen.matmul(a, b, accuracy=record), widen.matmul(a, b, accuracy=accuracy))
