"""Residues and digits: coprime, enough, exact, and no more left out than they say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widen import bounds, definition
from widen.cpu import reconstruct as cpu_reconstruct
from widen.systems import digits, residues
from widen.systems.digits import digit_count
from widen.systems.moduli import balanced, long_moduli, split_moduli, two_digits

GREEDY = [
    256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179,
    173, 167, 163, 157, 151, 149, 139, 137, 131, 127, 113,
]  # fmt: skip
HELD = {
    6: 47.8, 7: 55.7, 8: 63.6, 12: 94.8, 13: 102.5, 14: 110.2, 15: 117.8, 16: 125.4, 17: 133.0,
    18: 140.5, 20: 155.4, 24: 184.6, 31: 233.7, 49: 341.9,
}  # fmt: skip


def test_moduli_of_a_byte():
    every = [p for p, _ in long_moduli(128, 341.8)]
    assert every[: len(GREEDY)] == GREEDY
    assert len(every) == 49
    for count, bits in HELD.items():
        assert round(math.log2(math.prod(every[:count])), 1) == bits
    assert long_moduli(128, 342.0)[49:] == ((16381, 128),)


@pytest.mark.parametrize("digit", [1, 2, 16, 100, 128, 2048, 4096, 2**20, 2**22])
def test_moduli_are_coprime_greedy_and_enough(digit):
    for bits in (1.0, 3.9, 20.0, 110.0, 300.0):
        if digit <= 2 and bits > 3:
            continue  # even two digits hold less
        chosen = [p for p, base in long_moduli(digit, bits) if not base]
        if digit <= 100 and math.prod(chosen) < 2**bits:
            continue  # the rest is in two digits
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
