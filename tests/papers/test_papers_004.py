"""Paper 004: Table 3, the bits of equations 1 to 10, float64 in integers, blocks."""

from __future__ import annotations

import numpy as np
import pytest

import transcription_004 as paper
import widen
from helpers import assert_same_bits, draw
from paper_operands import random_bits
from widen.papers.dgemm_fp8 import software
from widen.papers.dgemm_fp8.algorithm import (
    BREAK_EVEN,
    INPUTS,
    automatic_block,
    dgemm_fp8_groups,
    dgemm_fp8tc,
    dgemm_fp16tc,
    groups_recipe,
    minimum_products,
    rho,
    scheme_of,
    slices_of,
)
from widen.papers.dgemm_fp8.items import TABLE_3
from widen.papers.dgemm_fp8.software import dgemm_in_software
from widen.papers.slicing import cpu as slices

FUNCTIONS = {"fp8": dgemm_fp8tc, "fp16": dgemm_fp16tc}
units = pytest.mark.parametrize("unit", FUNCTIONS)


def same_binade(shape, seed=0):
    """Full mantissas of one magnitude, for which Table 3 counts."""
    return 1 + np.random.default_rng(seed).random(shape)


def test_table_3_every_cell():
    assert minimum_products() == TABLE_3
    assert sum(cell is None for row in TABLE_3.values() for cell in row) == 21
    for k, row in TABLE_3.items():
        for (type2, type3), cell in zip(INPUTS, row, strict=True):
            assert minimum_products(type2, type3, k) == cell


@pytest.mark.parametrize("k", [1, 2, 3, 8, 100, 1000, 4096, 7168, 10**5])
def test_rho_is_the_printed_one(k):
    for type2, held in (("fp16", 11), ("fp8", 4)):
        for type3 in ("fp32", "fp16"):
            assert rho(k, held, type3) == paper.rho_of(k, type2, type3)


@units
def test_counts_are_those_of_the_table_for_numbers_of_one_magnitude(unit):
    for k in (8, 32, 512, 2048, 8192):
        a, b = same_binade((2, k)), same_binade((k, 3), 1)
        assert FUNCTIONS[unit](a, b, info=True)[1].products == (minimum_products(unit, "fp32", k),)


def test_counts_with_blocks_of_the_inner_dimension():
    """49, 64, 81 for blocks of 1024, 4096, 16384 (figure 5)."""
    a, b = same_binade((1, 16384)), same_binade((16384, 1), 1)
    for size, products in ((1024, 49), (4096, 64), (16384, 81)):
        _, ran = dgemm_fp16tc(a, b, k_block=size, info=True)
        assert ran.products == (products,) * (16384 // size)
        assert ran.block == (1, 1, size)
    assert dgemm_fp16tc(a, b, k_block=np.int64(1024), info=True)[1].products == (49,) * 16


def test_numbers_from_1_to_10_need_three_bits_more_than_the_table_says():
    """They fill 56 bits from 2^4 to 2^-52, not 53 (docs/papers.md)."""
    rng = np.random.default_rng(0)
    a, b = 1 + 9 * rng.random((4, 1024)), 1 + 9 * rng.random((1024, 4))
    assert dgemm_fp16tc(a, b, info=True)[1].products == (64,)
    assert dgemm_fp8tc(a, b, info=True)[1].products == (144,)


@units
@pytest.mark.parametrize("family", ["phi1", "positive", "zero lines", "cancellation", "ties"])
@pytest.mark.parametrize("how", [{}, {"k_block": 5}, {"accumulate": "fp16"}], ids=str)
def test_bits_of_the_equations(unit, family, how):
    a, b = draw(family, (3, 13, 2), 1)
    found, ran = FUNCTIONS[unit](a, b, info=True, **how)
    type3 = how.get("accumulate", "fp32")
    wanted, counts = paper.dgemm(a, b, unit, type3, k_block=how.get("k_block"))
    assert_same_bits(found, wanted)
    assert ran.products == counts


@pytest.mark.parametrize(("type2", "type3"), INPUTS)
@pytest.mark.parametrize("family", ["phi1", "zero lines", "ties"])
def test_formats_in_software_have_the_bits_of_the_equations(type2, type3, family):
    """FP6 digits are multiplied, and sums are rounded to FP16 term by term."""
    a, b = draw(family, (2, 7, 3), 1)
    found, ran = dgemm_in_software(a, b, type2, type3, info=True)
    wanted, counts = paper.dgemm(a, b, type2, type3)
    assert_same_bits(found, wanted)
    assert ran.products == counts
    if type2 != "fp6" and (type2, type3) != ("fp16", "fp16"):
        assert_same_bits(FUNCTIONS[type2](a, b, accumulate=type3), wanted)


def test_software_shows_a_format_that_is_too_narrow(monkeypatch):
    """One bit more a slice than equation 1 allows, and sums are wrong: roundings are real."""
    a, b = same_binade((2, 64)), same_binade((64, 2), 1)
    exact = a @ b
    assert abs(dgemm_in_software(a, b, "fp16", "fp16") / exact - 1).max() < 1e-14
    monkeypatch.setattr(software, "rho", lambda *given: rho(*given) - 1)
    assert abs(dgemm_in_software(a, b, "fp16", "fp16") / exact - 1).max() > 1e-4
    with pytest.raises(ValueError, match="is not in Table 3"):
        dgemm_in_software(a, b, "fp6", "bf16")
    with pytest.raises(ValueError, match="leaves no bit"):
        dgemm_in_software(np.ones((1, 4096)), np.ones((4096, 1)), "fp8", "fp16")


@pytest.mark.parametrize("family", ["phi1", "positive", "cancellation", "ties"])
@pytest.mark.parametrize("count", [3, 11])
def test_groups_have_the_bits_of_their_equations(family, count):
    a, b = draw(family, (3, 13, 2), 1)
    assert_same_bits(dgemm_fp8_groups(a, b, count), paper.dgemm_groups(a, b, count))


def test_sums_of_groups_are_cut_where_float32_ends():
    a, b = same_binade((1, 32768)), same_binade((32768, 1), 1)
    assert groups_recipe(32768, 3).addends == 2
    assert_same_bits(dgemm_fp8_groups(a, b, 3), paper.dgemm_groups(a, b, 3))  # 1, 2 and 2 + 1
    for k in (1, 3, 1000, 65536, 65537, 1 << 24):
        recipe = groups_recipe(k, 11)
        assert recipe.addends * k * 4 ** (recipe.bits - 1) <= 1 << 24
    with pytest.raises(ValueError, match="give k_block"):
        groups_recipe((1 << 24) + 1, 11)


def test_automatic_blocks_are_the_best_of_all_lengths():
    """By the model: no length that was not looked at is better by more than blocks of one size."""
    for k in (16384, 10000):
        for place, even in BREAK_EVEN.items():
            found = automatic_block(k, place=place)
            cost = {d: -(-k // d) * (d + even) * slices_of(d, 11, "fp32") ** 2
                    for d in range(8, k + 1)}  # fmt: skip
            assert cost[found] <= 1.02 * min(cost.values())
    a, b = same_binade((2, 4096)), same_binade((4096, 3), 1)
    best = automatic_block(4096, accumulate="fp16", place="cpu")
    assert best < 4096
    found, ran = dgemm_fp16tc(a, b, accumulate="fp16", k_block="auto", info=True)
    assert ran.block[2] == best
    assert_same_bits(found, dgemm_fp16tc(a, b, accumulate="fp16", k_block=best))
    assert automatic_block(4096, "fp8") == 4096  # 121 products however long
    for k in range(6):
        a, b = np.ones((2, k)), np.ones((k, 3))
        assert (dgemm_fp8tc(a, b, k_block="auto") == k).all()


@pytest.mark.parametrize("digits", [(16, 8), (8, 8), (4, 16)])
def test_smaller_digits(digits):
    """What a unit that keeps fewer bits of a sum takes: the vendor's FP8 product on Hopper."""
    a, b = draw("phi1", (3, 21, 2), 2)
    found, ran = dgemm_fp8tc(a, b, digits=digits, info=True)
    held = [digit.bit_length() - 1 for digit in digits]
    wanted, counts = paper.dgemm(a, b, "fp8", held=held)
    assert_same_bits(found, wanted)
    assert ran.products == counts


@units
@pytest.mark.parametrize("family", ["phi4", "zero lines", "graded against", "subnormal", "huge"])
def test_emulation_has_the_bits_of_the_hardware(unit, family):
    if family in ("subnormal", "huge"):
        a, b = draw("phi4", (9, 30, 7), 3)
        a, b = (
            a * 2.0 ** (-500 if family == "subnormal" else 500),
            b * 2.0 ** (-560 if family == "subnormal" else 515),
        )
    else:
        a, b = draw(family, (9, 30, 7), 3)
    c = draw("phi1", (9, 7, 7), 4)[0]
    with np.errstate(over="ignore", invalid="ignore"):
        for how in ({}, {"k_block": 7}, {"alpha": 0.3, "beta": -1.7, "c": c}):
            hardware = FUNCTIONS[unit](a, b, **how)
            assert_same_bits(FUNCTIONS[unit](a, b, fp64emu=True, **how), hardware)


def test_addition_and_multiplication_in_integers():
    x, y = (random_bits(200000, seed).reshape(10, -1) for seed in (0, 1))
    with np.errstate(all="ignore"):
        assert_same_bits(slices.add(x, y, emulated=True), x + y)
        scalars = random_bits(30, 4)
        for scalar in scalars[np.isfinite(scalars)]:
            found = slices.combine(x, scalar, 0.0, None, 53, emulated=True)
            assert_same_bits(found, scalar * x)
        found = slices.combine(x, 0.3, -7.1, y, 53, emulated=True)
        assert_same_bits(found, 0.3 * x + -7.1 * y)


def test_listing_1_as_printed_drops_a_carry_wrongly():
    """`middle < p00` should be `middle < p01`: it is true without any overflow."""
    rng = np.random.default_rng(0)
    pairs = [tuple(int(x) for x in rng.integers(1 << 52, 1 << 53, 2)) for _ in range(1000)]
    wrong = sum(paper.mul_mantissa(a, b) != a * b for a, b in pairs)
    assert wrong > 500
    assert all(paper.mul_mantissa(a, b, "p01") == a * b for a, b in pairs)


@units
def test_accuracy_is_that_of_an_ordinary_product_or_better(unit):
    """Figure 3: positive numbers, so relative errors mean something."""
    rng = np.random.default_rng(0)
    a, b = 1 + 9 * rng.random((40, 200)), 1 + 9 * rng.random((200, 40))
    exact = widen.matmul(a, b, accuracy="correct")
    ordinary = abs((a @ b) / exact - 1).max()
    for k_block in (None, 64):
        assert abs(FUNCTIONS[unit](a, b, k_block=k_block) / exact - 1).max() <= ordinary


@units
def test_outer_blocks_and_memory_do_not_change_bits(unit):
    a, b = draw("phi4", (40, 30, 50), 5)
    whole = FUNCTIONS[unit](a, b)
    assert_same_bits(FUNCTIONS[unit](a, b, block=17), whole)
    found, ran = FUNCTIONS[unit](a, b, memory=2**18, info=True)
    assert ran.block[0] < 40
    assert_same_bits(found, whole)


@units
def test_any_size(unit):
    for shape in ((1, 1, 1), (17, 1, 3), (1, 33, 1), (2, 15, 31)):
        a, b = draw("phi1", shape, 6)
        assert_same_bits(FUNCTIONS[unit](a, b), paper.dgemm(a, b, unit)[0])
    assert FUNCTIONS[unit](np.ones((3, 0)), np.ones((0, 2))).tolist() == [[0.0, 0.0]] * 3


def test_bad_arguments():
    one = np.ones((2, 2))
    with pytest.raises(ValueError, match="use 'fp32' or 'fp16'"):
        dgemm_fp8tc(one, one, accumulate="bf16")
    with pytest.raises(ValueError, match="5 is not a largest digit of fp8"):
        dgemm_fp8tc(one, one, digits=(16, 5))
    with pytest.raises(ValueError, match="is not a pair"):
        dgemm_fp8tc(one, one, digits=(16,))
    for size in (0, 2.5, "x", True):
        with pytest.raises(ValueError, match="is not a size; give a positive integer"):
            dgemm_fp16tc(one, one, k_block=size)
    with pytest.raises(ValueError, match="give k_block=2048 or less, or"):
        dgemm_fp16tc(np.ones((1, 2049)), np.ones((2049, 1)), accumulate="fp16")
    blocks = dgemm_fp16tc(np.ones((1, 2049)), np.ones((2049, 1)), accumulate="fp16", k_block=2048)
    assert blocks.tolist() == [[2049.0]]
    with pytest.raises(ValueError, match="use 'fp16', 'fp8' or 'fp6'"):
        minimum_products("fp4", "fp32", 8)
    with pytest.raises(ValueError, match="k=None is not an inner dimension"):
        minimum_products("fp8")
    assert slices_of(4096, 11, "fp16") is None
    assert scheme_of(64, "fp8").largest == 256
