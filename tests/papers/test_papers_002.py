"""Paper 002: its variants give the bits of its algorithms, and keep its bounds."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

import transcription_002 as paper
import widen
from helpers import assert_same_bits
from paper_operands import awkward, matrices
from widen.gpu.kernels.cuda import compiler
from widen.gpu.kernels.cuda.certify import Certificate
from widen.gpu.kernels.cuda.multiply import Residues
from widen.papers.ozimmu import algorithm as system
from widen.papers.ozimmu import cpu as on_cpu
from widen.papers.ozimmu.algorithm import VARIANTS, fast_fp16, ozimmu, schedule
from widen.papers.ozimmu.kernels.cuda.sums import NO_TILE, OVERHEAD, Integers, deal

variants = pytest.mark.parametrize("variant", VARIANTS)


@variants
@pytest.mark.parametrize("slices", [1, 2, 5, 9])
def test_the_papers_algorithms_step_by_step(variant, slices):
    for a, b in (matrices(4, 9, 3), matrices(3, 16, 5, phi=4.0), awkward(5, 8, 4)):
        wanted = np.array(paper.product(a, b, slices, variant))
        assert_same_bits(ozimmu(a, b, slices, variant), wanted)


@pytest.mark.parametrize("variant", ["ef", "h"])
def test_groups_that_int32_does_not_hold_are_cut(variant):
    a, b = matrices(1, 1 << 15, 1)
    assert system.addends(1 << 15) == 4
    wanted = np.array(paper.product(a, b, 5, variant))
    assert_same_bits(ozimmu(a, b, 5, variant), wanted)


@pytest.mark.parametrize("slices", [1, 3, 6, 9])
def test_algorithms_1_and_2_step_by_step(slices):
    cases = [matrices(3, 9, 4), matrices(2, 16, 3, phi=4.0), awkward(5, 8, 4), matrices(2, 2, 2)]
    few = np.ldexp(np.rint(np.ldexp(cases[0][0], 4)), -4), cases[0][1]  # A has one slice, B six
    for a, b in (*cases, few):
        beta = paper.repaired_beta(a.shape[1])
        left, right = (paper.algorithm_1(x.tolist(), slices, beta) for x in (a, b.T))
        wanted = np.array(paper.algorithm_2(*left, *right, slices))
        assert_same_bits(fast_fp16(a, b, slices), wanted)


def test_algorithm_1_as_printed_leaves_too_many_bits_for_fp16():
    """Line 1's beta gives slices of 38 bits and more; what must hold is 53 - beta <= 11."""
    a, _ = matrices(2, 64, 1)
    printed, repaired = paper.printed_beta(64), paper.repaired_beta(64)
    assert [53 - printed, 53 - repaired] == [41, 9]
    for beta, exact in ((printed, False), (repaired, True)):
        slices, mu = paper.algorithm_1(a.tolist(), 1, beta)
        kept = np.array(slices[1], float) * np.array(mu[1])[:, None]
        rest = np.abs(a - kept) / np.array(mu[1])[:, None]
        assert (rest.max() <= 2.0 ** (beta - 54)) == exact  # half a unit of a slice


@variants
def test_step_v(variant):
    a, b = matrices(4, 9, 3)
    c, _ = matrices(4, 3, 1, seed=2)
    alpha, beta = 0.3, -1.7
    d = paper.product(a, b, 5, variant)
    wanted = np.array(paper.gemm_of(alpha, d, beta, c.tolist()))
    assert_same_bits(ozimmu(a, b, 5, variant, alpha=alpha, beta=beta, c=c), wanted)
    assert_same_bits(ozimmu(a, b, 5, variant, alpha=alpha), np.array(d) * alpha)
    assert_same_bits(ozimmu(a, b, 5, variant, beta=0.0, c=c * np.nan), np.array(d))
    tensors = [torch.from_numpy(x) for x in (a, b, c)]
    found = ozimmu(*tensors[:2], 5, variant, alpha=alpha, beta=beta, c=tensors[2])
    assert_same_bits(found.numpy(), wanted)
    assert_same_bits(ozimmu(a[:, :0], b[:0], 5, variant, alpha=alpha, beta=beta, c=c), c * beta)


@variants
def test_blocks_of_the_inner_dimension_are_products_of_their_own(variant):
    a, b = awkward(5, 20, 4)
    wanted = np.array(paper.product(a[:, :8], b[:8], 5, variant))
    for h in (8, 16):
        wanted = wanted + np.array(paper.product(a[:, h : h + 8], b[h : h + 8], 5, variant))
    assert_same_bits(ozimmu(a, b, 5, variant, k_block=8), wanted)
    assert_same_bits(ozimmu(a, b, 5, variant, k_block=20), ozimmu(a, b, 5, variant))


def test_blocks_keep_slices_of_7_bits():
    """Beyond n = 2^17 beta is 6, and seven slices lose seven bits; blocks of 2^17 lose none."""
    a, b = matrices(1, 1 << 18, 2, phi=0.0)
    exact = widen.matmul(a, b, accuracy="correct")
    magnitude = abs(a) @ abs(b)
    whole, blocks = (
        float((abs(ozimmu(a, b, 7, "h", k_block=size) - exact) / magnitude).max())
        for size in (None, 1 << 17)
    )
    assert 30 * blocks < whole


def test_algorithm_7_is_6_for_few_slices():
    a, b = awkward(5, 8, 4)
    for split in (paper.algorithm_3, paper.algorithm_8):
        (left, mu), (right, nu) = split(a.tolist(), 6), split(b.T.tolist(), 6)
        scale = lambda s, t, i, j: mu[i] * 2.0 ** (-7 * (s + t)) * nu[j]  # noqa: B023, E731
        six = paper.algorithm_6(left, right, scale, 5, 4, 6, 8)
        assert paper.algorithm_7(left, right, scale, 5, 4, 6) == six


def test_the_papers_example_of_rounding():
    # Section 3.1 calls it 377; its binary digits and its slices (8) and (9) are those of 351.
    x = 351
    assert [x >> 6 << 6, (x & 63) >> 3 << 3, x & 7] == [320, 24, 7]
    first = round(Fraction(x, 64)) * 64
    second = round(Fraction(x - first, 8)) * 8
    assert [first, second, x - first - second] == [320, 32, -1]


@variants
def test_slices_add_up_to_the_matrix(variant):
    a, _ = matrices(6, 40, 1, phi=0.5)
    way = VARIANTS[variant].way
    found = on_cpu.split(a, "left", system.recipe_of(40, 12, variant))
    steps = np.arange(12)[:, None] if found.units.shape[0] == 1 else 0
    weights = np.ldexp(1.0, (found.units - 7 * steps).astype(int))
    assert np.abs(found.digits).max() <= (127 if way == "mask" else 64)
    exact = [
        [sum(Fraction(d) * Fraction(w) for d, w in zip(found.digits[i, :, h], weights[:, i],
             strict=True)) for h in range(40)]
        for i in range(6)
    ]  # fmt: skip
    assert exact == [[Fraction(x) for x in row] for row in a.tolist()]


@variants
@pytest.mark.parametrize("phi", [0.0, 1.0, 2.0])
def test_errors_stay_below_section_5(variant, phi):
    a, b = matrices(64, 96, 48, phi)
    exact = widen.matmul(a, b, accuracy="correct")
    for slices in range(3, 12):
        bound = system.error_bound(a, b, slices, variant) + np.spacing(np.abs(exact)) / 2
        assert (np.abs(ozimmu(a, b, slices, variant) - exact) <= bound).all()


def test_bounds_in_numbers():
    for n in (2, 100, 4096, 16384, 1 << 17, (1 << 17) + 1, 1 << 29):
        beta = system.slice_bits(n)
        assert beta == paper.beta_of(n)
        assert (system.addends(n) - 1) * n * (2**beta - 1) ** 2 < 2**31
        k = system.exact_slices(n)
        holds = [
            2 * 2.0**-53 * 2.0 ** math.floor(math.log2(8 * n)) <= 2.0 ** (-beta * (q + 1) + 2)
            for q in (k, k + 1)
        ]
        assert holds == [True, False] or (k == 0 and holds == [False, False])
    # w of section 5.2 is how many sums are added in float64
    for n in (4096, 16384, 1 << 15, 1 << 17):
        for k in (3, 8, 9, 12):
            assert system.additions(n, k, "h") == len(schedule(k, system.addends(n))) - 1
    a, b = np.full((1, 4), 3.0), np.full((4, 1), 5.0)
    assert system.truncation_bound(a, b, 2)[0, 0] == 4 * 3 * 4 * 2.0**-14 * 2 * 4
    large = system.error_bound(a * 2.0**1000, b, 8)  # whose ufp must not overflow on the way
    assert_same_bits(large, system.error_bound(a, b, 8) * 2.0**1000)
    assert system.error_bound(a[:, :0], b[:0], 8).tolist() == [[0.0]]


def test_the_schedule_has_every_product_once():
    for k in (1, 4, 9):
        for r in (1, 3, 16):
            pairs = [(s.left + q, s.right - q) for s in schedule(k, r) for q in range(s.pairs)]
            assert len(pairs) == system.products(k) == len(set(pairs))
            assert all(x >= 0 and y >= 0 and x + y < k for x, y in pairs)


@variants
def test_rows_with_nan_or_inf_are_nan(variant):
    a, b = matrices(4, 9, 3)
    wanted = ozimmu(a, b, 3, variant)
    a[1, 2], b[3, 2] = np.inf, np.nan
    found = ozimmu(a, b, 3, variant)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[:, 2]).all()
    keep = np.ix_([0, 2, 3], [0, 1])
    assert_same_bits(found[keep], wanted[keep])


def test_scaling_by_powers_of_two_changes_no_significand():
    a, b = matrices(4, 9, 3)
    for variant in VARIANTS:
        wanted = ozimmu(a, b, 7, variant)
        found = ozimmu(a * 2.0**-400, b * 2.0**900, 7, variant)
        assert_same_bits(found, wanted * 2.0**500)
        huge = ozimmu(a * 2.0**1000, b * 2.0**1000, 7, variant)
        assert np.isinf(huge).all()


def test_shapes_and_libraries():
    a, b = matrices(4, 9, 3)
    wanted = ozimmu(a, b, 8, "h")
    found = ozimmu(torch.from_numpy(a), torch.from_numpy(b), 8, "h")
    assert isinstance(found, torch.Tensor)
    assert_same_bits(found.numpy(), wanted)
    strided = np.asfortranarray(a), b[::-1][::-1]
    assert_same_bits(ozimmu(*strided, 8, "h"), wanted)
    assert_same_bits(ozimmu(a.astype(">f8"), b, 8, "h"), wanted)
    assert ozimmu(a[:0], b, 8, "h").shape == (0, 3)
    assert (ozimmu(a[:, :0], b[:0], 8) == np.zeros((4, 3))).all()


def test_the_compiler_reads_the_end_from_the_papers_folder():
    """What NVRTC is given, which keys the cache too: everything that is included, by its name."""
    ends = {
        finish: compiler._sources(finish.header) for finish in (Integers, Residues, Certificate)
    }
    for finish, texts in ends.items():
        assert texts["end.cuh"] == finish.header.read_text(encoding="utf-8")
        assert "struct Finish {" in texts["end.cuh"]
        included = {
            name for text in texts.values() for name in re.findall(r'#include "(.*)"', text)
        }
        assert included == {"hopper.cuh", "walk.cuh", "end.cuh"} <= set(texts)
    assert Integers.header.parent != compiler.FOLDER
    assert len({texts["end.cuh"] for texts in ends.values()}) == 3


@pytest.mark.parametrize(
    ("tiles", "steps", "clusters"),
    [(176, [32 * g for g in range(8, 0, -1)], 66), (3, [5, 1], 66), (1, [7], 1), (10, [4] * 7, 66)],
)
def test_tiles_are_dealt_once_and_evenly(tiles, steps, clusters):
    turns = np.array(deal(tiles, steps, clusters)).reshape(-1, clusters)
    assert (turns[-1] == NO_TILE).all()
    assert sorted(turns[turns != NO_TILE]) == list(range(tiles * len(steps)))
    assert (np.diff(turns, axis=0) >= 0).all()  # so that what comes after the end is no tile
    taken = [sum(steps[t // tiles] + OVERHEAD for t in own if t != NO_TILE) for own in turns.T]
    assert max(taken) <= sum(taken) / clusters + max(steps) + OVERHEAD


@pytest.mark.parametrize(
    ("change", "error", "mention"),
    [
        ({"variant": "x"}, ValueError, "ozimmu, rn, ef, h"),
        ({"slices": 0}, ValueError, "1 to 32"),
        ({"slices": 3.0}, TypeError, "give an integer"),
        ({"a": np.ones((2, 2), np.float32)}, TypeError, "give a.astype"),
        ({"a": np.ma.ones((2, 2))}, TypeError, "a is a masked array"),
        ({"b": np.ones(2)}, ValueError, "this routine takes matrices"),
        ({"b": np.ones((3, 2))}, ValueError, "do not match"),
        ({"a": [[1.0]]}, TypeError, "a is a list"),
    ],
)
def test_what_is_wrong_is_said(change, error, mention):
    given = {"a": np.ones((2, 2)), "b": np.ones((2, 2)), "slices": 3, **change}
    for function in (ozimmu, system.error_bound):
        with pytest.raises(error, match=mention):
            function(**given)


@pytest.mark.parametrize(
    ("change", "mention"),
    [
        ({"beta": 1.0}, "without c"),
        ({"beta": 1.0, "c": np.ones((3, 3))}, "c has shape"),
        ({"alpha": 1j}, "complex"),
        ({"k_block": 0}, "k_block=0 is not a size"),
    ],
)
def test_what_is_wrong_with_alpha_beta_c_and_blocks_is_said(change, mention):
    with pytest.raises(ValueError, match=mention):
        ozimmu(np.ones((2, 2)), np.ones((2, 2)), 3, **change)
