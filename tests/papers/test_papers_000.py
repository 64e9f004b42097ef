"""Paper 000: the bits of its algorithms line by line, correct rounding, blocks, arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transcription_000 as paper
import widen
import widen.testing as wt
from helpers import VIEWS, assert_same_bits, draw, kernel_threads
from widen.papers.slicing import algorithm as slicing
from widen.papers.tensor_core_dgemm.algorithm import (
    determine_slices,
    dgemm_dp_cr,
    dgemm_tc,
    scheme_of,
    sgemm_tc,
)
from widen.papers.tensor_core_dgemm.by_row import dgemm_tc_by_row, rows_by_slices

SHAPES = [(5, 7, 3), (3, 64, 4), (4, 130, 6), (2, 300, 3)]
FEW = ["phi0.5", "phi4", "positive", "zero lines", "cancellation", "graded rows", "integers"]
families = pytest.mark.parametrize("family", [name for name in FEW if name in wt.FAMILIES])
shapes = pytest.mark.parametrize("shape", SHAPES)


def phi(n, spread, seed=0):
    rng = np.random.default_rng(seed)
    return wt.phi(rng, (n, n), spread), wt.phi(rng, (n, n), spread)


@shapes
@families
def test_dp_mode_has_the_bits_of_the_algorithms(family, shape):
    a, b = draw(family, shape, 1)
    found, ran = dgemm_tc(a, b, info=True)
    wanted, d, fast, products = paper.dp_mode(a, b)
    assert_same_bits(found, wanted)
    assert (ran.slices[0][0], ran.fast[0], ran.products[0]) == (d, fast, products)


@shapes
@families
def test_sp_mode_has_the_bits_of_float32_arithmetic(family, shape):
    a, b = draw(family, shape, 2, "float32")
    if family == "graded rows":
        a, b = draw("phi1", shape, 2, "float32")
    found, ran = sgemm_tc(a, b, info=True)
    wanted, d, fast, products = paper.dp_mode(a, b)
    assert_same_bits(found, wanted)
    assert (ran.slices[0][0], ran.fast[0], ran.products[0]) == (d, fast, products)


@shapes
@families
def test_cr_mode_rounds_the_exact_value_once(family, shape):
    a, b = draw(family, shape, 3)
    exact = widen.matmul(a, b, accuracy="correct")
    for function, transcription in ((dgemm_tc, paper.cr_mode), (dgemm_dp_cr, paper.dp_cr)):
        how = {"mode": "cr"} if function is dgemm_tc else {}
        found, ran = function(a, b, info=True, **how)
        wanted, left, right = transcription(a, b)
        assert_same_bits(found, wanted)
        assert_same_bits(found, exact)
        assert (ran.slices[0], ran.products[0]) == ((left, right), left * right)
        assert not ran.fast[0]


@pytest.mark.parametrize("family", list(wt.FAMILIES))
def test_cr_mode_on_every_hard_family(family):
    """Beyond what the paper's own arithmetic holds: sigma overflows near the largest numbers."""
    a, b = draw(family, (6, 20, 5), 4)
    assert_same_bits(dgemm_tc(a, b, "cr"), widen.matmul(a, b, accuracy="correct"))
    assert_same_bits(dgemm_dp_cr(a, b), widen.matmul(a, b, accuracy="correct"))


def test_largest_and_smallest_numbers():
    top, least = np.finfo(float).max, 5e-324
    a = np.array([[top, -1.0, least], [least, 3 * least, top / 2]])
    b = np.array([[0.5, least], [1.0, top], [top, 1e-300]])
    assert_same_bits(dgemm_tc(a, b, "cr"), widen.matmul(a, b, accuracy="correct"))


@pytest.mark.parametrize("spread", [0.1, 1, 2])
def test_dp_mode_is_as_accurate_as_the_ordinary_product(spread):
    """Within four times its error (figure 3), measured against |A||B|."""
    for n in (32, 150):
        a, b = phi(n, spread, n)
        exact, size = widen.matmul(a, b, accuracy="correct"), abs(a) @ abs(b)
        ours, ordinary = (
            (abs(c - exact) / size).max() for c in (dgemm_tc(a, b), a @ b)
        )  # fmt: skip
        assert ours <= 4 * ordinary + 2.0**-53


def test_dp_mode_promises_nothing():
    """A row of B far above the others: the paper's estimate is content with two slices."""
    a, b = draw("phi0", (4, 64, 3), 1)
    a[:, 1], b[1] = 1, b[1] * 2.0**100
    a[0] = np.eye(64)[0]
    found = dgemm_tc(a, b)
    assert_same_bits(found, paper.dp_mode(a, b)[0])
    assert (found[0] == 0).all()
    assert_same_bits(dgemm_tc(a, b, "cr")[0], b[0])


def test_some_rows_at_the_size_of_the_paper():
    """These rows need 66 products at n = 7168, phi = 0.1; how many a whole block needs is counted
    by `widen reproduce 000-counts`."""
    rng = np.random.default_rng(5)
    a, b = wt.phi(rng, (16, 7168), 0.1), wt.phi(rng, (7168, 32), 0.1)
    _, ran = dgemm_tc(a, b, info=True)
    assert (ran.slices, ran.products, ran.fast) == (((11, 11),), (66,), (True,))


BY_ROW = ["phi0.5", "phi4", "positive", "zero lines", "cancellation", "graded rows", "integers"]


@pytest.mark.parametrize("family", BY_ROW)
def test_by_row_every_row_has_the_bits_of_a_product_of_its_own(family):
    a, b = draw(family, (25, 60, 17), 11)
    alone = np.vstack([dgemm_tc(a[i : i + 1], b) for i in range(len(a))])
    found, ran = dgemm_tc_by_row(a, b, info=True)
    assert_same_bits(found, alone)
    assert sum(count for count, _ in ran) == len(a)
    for block in (1, 7):
        assert_same_bits(dgemm_tc_by_row(a, b, block=block), alone)
    assert_same_bits(dgemm_tc_by_row(a[::-1], b), alone[::-1])


def test_by_row_only_rows_that_need_another_slice_get_it():
    a, b = phi(300, 2)
    groups = rows_by_slices(a, b)
    assert sorted(i for rows in groups.values() for i in rows) == list(range(300))
    for (slices, fast), rows in groups.items():
        for i in rows[:3]:
            assert determine_slices(a[i : i + 1], b) == (slices, fast)
    assert len(groups) > 2
    assert determine_slices(a, b)[0] == max(groups)[0]
    _, ran = dgemm_tc_by_row(a, b, info=True)
    assert [(count, what.slices[0][0]) for count, what in ran] == [
        (len(rows), slices) for (slices, _), rows in groups.items()
    ]


def test_by_row_takes_tensors_and_nothing():
    a, b = draw("phi1", (9, 20, 8), 10)
    found = dgemm_tc_by_row(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(found, torch.Tensor)
    assert_same_bits(found.numpy(), dgemm_tc_by_row(a, b))
    assert dgemm_tc_by_row(np.ones((0, 3)), np.ones((3, 2))).shape == (0, 2)
    assert_same_bits(dgemm_tc_by_row(np.zeros((2, 4)), np.ones((4, 3))), np.zeros((2, 3)))


def test_alpha_beta_and_c():
    a, b = phi(20, 1)
    c = phi(20, 0)[0]
    for mode in ("dp", "cr"):
        found = dgemm_tc(a, b, mode, 0.3, -1.7, c)
        left, right = (paper.split_matrix(x) for x in (a, b.T))
        total = np.zeros_like(c)
        if mode == "dp":
            total = dgemm_tc(a, b)
        else:
            pairs = [(p, q) for q in range(len(right)) for p in range(len(left))]
            for term in paper.products(left, right, pairs):
                total = total + term
        assert_same_bits(found, 0.3 * total + -1.7 * c)
    nan = np.full_like(c, np.nan)
    assert_same_bits(dgemm_tc(a, b, beta=0.0, c=nan), dgemm_tc(a, b))
    single = [x.astype(np.float32) for x in (a, b, c)]
    wanted = np.float32(0.3) * sgemm_tc(*single[:2]) + np.float32(-1.7) * single[2]
    assert_same_bits(sgemm_tc(*single[:2], float(np.float32(0.3)), -1.7000000476837158, single[2]),
                     wanted)  # fmt: skip


def test_blocks_follow_the_rule_and_do_not_change_correct_results():
    a, b = draw("phi4", (150, 40, 70), 6)
    whole, ran = dgemm_tc(a, b, "cr", info=True)
    assert ran.block == (150, 70, 40)
    assert len(ran.products) == 1
    for block in (16, 33, 149):
        found, ran = dgemm_tc(a, b, "cr", block=block, info=True)
        assert ran.block[:2] == (-(-150 // -(-150 // block)), -(-70 // -(-70 // block)))
        assert_same_bits(found, whole)
    found, ran = dgemm_tc(a, b, "cr", memory=2**20, info=True)
    assert ran.block[0] < 100
    assert_same_bits(found, whole)


def test_blocks_of_columns_do_not_change_dp_mode():
    """d belongs to a block of rows; nothing else depends on blocks."""
    a, b = draw("phi4", (20, 40, 90), 7)
    whole = dgemm_tc(a, b)
    assert_same_bits(dgemm_tc(a, b, block=20), whole)
    rows = np.vstack([dgemm_tc(a[i : i + 10], b) for i in (0, 10)])
    assert_same_bits(dgemm_tc(a, b, block=10), rows)


def test_estimates_sum_all_columns_of_b():
    """|B| e is summed 4096 columns at a time; the last ones may be zeros."""
    a, b = draw("phi1", (3, 40, 4097), 8)
    b[:, 4096] = 0
    assert determine_slices(a, b) == determine_slices(a, b[:, :4096])


def test_estimates_beyond_the_range_are_not_worth_a_warning():
    a, b = draw("graded against", (33, 200, 70), 1)
    with np.errstate(all="ignore"):
        assert not np.isfinite(abs(a) @ abs(b).sum(axis=1)).all()
    slices, fast = determine_slices(a, b)
    assert dgemm_tc(a, b, info=True)[1].slices[0][0] == slices > 10
    assert fast


def test_memory_that_is_too_small_for_all_products_makes_strips(monkeypatch):
    from widen.papers.slicing import cpu as slices

    a, b = draw("phi4", (20, 40, 90), 8)
    whole = dgemm_tc(a, b), dgemm_tc(a, b, "cr")
    monkeypatch.setattr(slices, "ROOM", 1)
    assert_same_bits(dgemm_tc(a, b), whole[0])
    assert_same_bits(dgemm_tc(a, b, "cr"), whole[1])


def test_threads_do_not_change_results():
    a, b = phi(100, 1)
    found = []
    for threads in (1, 2):
        with kernel_threads(threads):
            found.append((dgemm_tc(a, b), dgemm_tc(a, b, "cr", block=40)))
    assert_same_bits(found[0][0], found[1][0])
    assert_same_bits(found[0][1], found[1][1])


@pytest.mark.parametrize("view", VIEWS)
def test_layouts(view):
    a, b = draw("phi1", (9, 20, 8), 9)
    assert_same_bits(dgemm_tc(VIEWS[view](a), VIEWS[view](b)), dgemm_tc(a, b))


def test_tensors_on_a_cpu():
    a, b = draw("phi1", (9, 20, 8), 10)
    found = dgemm_tc(torch.from_numpy(a), torch.from_numpy(b).T.contiguous().T, "cr")
    assert isinstance(found, torch.Tensor)
    assert_same_bits(found.numpy(), dgemm_tc(a, b, "cr"))


def test_empty_products():
    assert dgemm_tc(np.ones((0, 3)), np.ones((3, 2))).shape == (0, 2)
    assert_same_bits(dgemm_tc(np.ones((2, 0)), np.ones((0, 3)), "cr"), np.zeros((2, 3)))
    c = np.arange(6.0).reshape(2, 3)
    assert_same_bits(dgemm_tc(np.ones((2, 0)), np.ones((0, 3)), beta=2.0, c=c), 2 * c)
    assert determine_slices(np.ones((2, 3)), np.ones((3, 0))) == (1, False)
    assert_same_bits(dgemm_tc(np.zeros((2, 4)), np.ones((4, 3))), np.zeros((2, 3)))
    assert_same_bits(dgemm_tc(np.ones((2, 4)), np.zeros((4, 3)), "cr"), np.zeros((2, 3)))
    assert_same_bits(dgemm_tc(np.zeros((2, 4)), np.zeros((4, 3)), "cr"), np.zeros((2, 3)))


def test_one_inner_entry_needs_a_bit_less():
    """At k = 1 the paper's rho would give negative entries 12 bits of FP16's 11."""
    assert scheme_of(1).bits == (11, 11)
    assert 53 - slicing.gamma(1, 53, 24) == 12
    a, b = -np.random.default_rng(0).random((5, 1)), np.random.default_rng(1).random((1, 4))
    assert_same_bits(dgemm_tc(a, b, "cr"), a * b)


def test_an_inner_dimension_that_leaves_no_bit_is_refused():
    """FP32 sums of 2^22 products leave slices of one bit."""
    assert scheme_of(1 << 22).bits == scheme_of(1 << 22, 24).bits == (1, 1)
    for k, precision in (((1 << 22) + 1, 53), ((1 << 22) + 1, 24), (1 << 25, 53)):
        with pytest.raises(ValueError, match="leaves a slice no bit"):
            scheme_of(k, precision)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"mode": "xx"}, ValueError, "use 'dp' or 'cr'"),
        ({"a": np.ones((2, 2), np.float32)}, TypeError, "multiplies float64: give a.astype"),
        ({"a": np.ones(2)}, ValueError, "takes matrices"),
        ({"a": np.ones((2, 3))}, ValueError, "do not match"),
        ({"a": np.array([[1.0, np.nan], [0, 1]])}, ValueError, "a holds an infinity or a NaN"),
        ({"b": np.array([[1.0, np.inf], [0, 1]])}, ValueError, "use widen.matmul"),
        ({"beta": 1.0}, ValueError, "without c"),
        ({"beta": 1.0, "c": np.ones((3, 3))}, ValueError, "c has shape"),
        ({"alpha": 1j}, ValueError, "complex"),
        ({"block": 0}, ValueError, "block=0 is not a size"),
        ({"memory": "much"}, ValueError, "memory='much' is not a size"),
        ({"memory": 1}, ValueError, "memory=1 is too small"),
    ],
)
def test_bad_arguments(change, error, words):
    with pytest.raises(error, match=words):
        dgemm_tc(**({"a": np.ones((2, 2)), "b": np.ones((2, 2))} | change))
