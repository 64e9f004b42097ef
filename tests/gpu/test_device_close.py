"""Open elements settled in float64 on a GPU (or in the interpreter): rounded correctly, or left."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from device import ON, cases, problem_of, product
from helpers import assert_same_bits, draw
from widen.formats import FORMATS
from widen.gpu import block as gpu_block
from widen.gpu import operands, tiles
from widen.gpu import repair as gpu_repair
from widen.gpu import stages as gpu_stages
from widen.gpu.clock import Clock
from widen.gpu.kernels.triton.reconstruct import REPAIRED, SPECIAL_ELEMENT, UNFIT, UNSETTLED
from widen.gpu.reconstruct import ResultBlock

pytestmark = pytest.mark.device


def settled(a, b, code=UNSETTLED):
    """Values that dot products (cases, k) are given, and the marks of them."""
    a, b = a[:, None, :], b[:, :, None]
    problem = problem_of(a, b, "standard")
    prepared = gpu_stages.quantise(problem, Clock(timed=False))
    out = torch.full((len(a), 1, 1), 7.0, dtype=torch.float64).to(ON)
    marks = torch.full(out.shape, int(code), dtype=torch.uint8).to(ON)
    block = ResultBlock(
        prepared.sides, prepared.tables, FORMATS["float64"], operands.bits_of(out, 1), problem.test
    )
    gpu_repair.settle_closely(block, marks, prepared.repaired)
    done = (marks == int(REPAIRED)).cpu().numpy().ravel()
    assert int(prepared.repaired[0]) == done.sum()
    return out.cpu().numpy().ravel(), done


def exact(x, y):
    """A dot product, rounded once."""
    return float(
        sum(Fraction(p) * Fraction(q) for p, q in zip(x.tolist(), y.tolist(), strict=True))
    )


TIES = {
    "a tie": [1.5, 2.0**-53],
    "a tie above a power of two": [1, 2.0**-53],
    "a tie below a power of two": [1, -(2.0**-54)],
    "more than a tie, too little to see": [1, 2.0**-53, 2.0**-200],
    "nothing": [1, -1],
    "cancelling": [1e20, 3.25, -1e20],
    "far below": [2.0**300, 1.5, -(2.0**300)],
    "a subnormal number": [2.0**-1070, 2.0**-1073],
    "a number that is subnormal just so": [2.0**-1022, -(2.0**-1074)],
}
DECIDED = {
    "more than a tie": [1, 2.0**-53, 2.0**-80],
    "less than a tie": [1.5, 2.0**-53, -(2.0**-80)],
    "less than a power of two": [1, -(2.0**-54), -(2.0**-80)],
    "a power of two": [1, -(2.0**-55)],
    "cancelling": [1e6, 3.25, -1e6],
    "the largest": [np.finfo(float).max],
    "the least normal number": [2.0**-1022],
    "negative": [-3.0, 2.0**-60],
}


@pytest.mark.parametrize(("numbers", "decided"), [(TIES, False), (DECIDED, True)])
def test_what_is_decided(numbers, decided):
    a = np.zeros((len(numbers), 3))
    for row, entries in zip(a, numbers.values(), strict=True):
        row[: len(entries)] = entries
    b = np.ones_like(a)
    found, done = settled(a, b)
    assert dict(zip(numbers, done.tolist(), strict=True)) == dict.fromkeys(numbers, decided)
    wanted = [exact(x, y) if decided else 7.0 for x, y in zip(a, b, strict=True)]
    assert_same_bits(found, np.array(wanted))


def test_products_out_of_range_are_left():
    a, b = np.array([[2.0**600], [2.0**-600]]), np.array([[2.0**600], [2.0**-500]])
    found, done = settled(a, b)
    assert not done.any()
    assert (found == 7).all()


@pytest.mark.parametrize(
    ("spread", "elements"), [(1, 1), (30, 1 << 16), pytest.param(200, 1, marks=pytest.mark.slow)]
)
def test_random_sums(spread, elements, monkeypatch):
    """With the tiles for few elements, and for many."""
    tile = tiles.close_tile(elements)
    monkeypatch.setattr(tiles, "close_tile", lambda _: tile)
    rng = np.random.default_rng(spread)
    shape = (40, 150) if ON == "cpu" else (500, 1500)
    a, b = (rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread, shape) for _ in "ab")
    a[::3, 1::2] = -a[::3, :-1:2]  # pairs that nearly cancel
    b[::3, 1::2] = b[::3, :-1:2] * (1 + 2.0**-20)
    found, done = settled(a, b)
    assert done.mean() > 0.9
    wanted = np.array([exact(x, y) for x, y in zip(a, b, strict=True)])
    assert_same_bits(found[done], wanted[done])
    assert (found[~done] == 7).all()


@pytest.mark.parametrize("code", [SPECIAL_ELEMENT, UNFIT])
def test_other_marks_are_left(code):
    found, done = settled(np.ones((2, 3)), np.ones((2, 3)), code)
    assert not done.any()
    assert (found == 7).all()


@cases(
    ("family", "dtype"), ("one huge", "float64"), ("phi4", "complex128"), ("zero lines", "float64"),
    ("extremes", "float64"), ("one huge", "complex128"), ("phi4", "float64"), interpreted=4,
)  # fmt: skip
def test_products(family, dtype, monkeypatch):
    """All of a product: what is certified after all keeps its value."""
    monkeypatch.setattr(gpu_block, "CLOSE_WORK", 0)
    a, b = draw(family, (5, 70, 4) if ON == "cpu" else (150, 300, 130), 1, dtype)
    _, found = product(a, b, "standard", dtype)
    assert_same_bits(found, widen.matmul(a, b))


def test_doubtful_elements_are_certified(monkeypatch):
    """Or found to be open, and settled; few are left for the other kernel."""
    monkeypatch.setattr(gpu_block, "CLOSE_WORK", 0)
    left, repair = [], gpu_block.repair

    def noted(block, marks, repaired):
        left.append(int(((marks > 0) & (marks < int(REPAIRED))).sum()))
        repair(block, marks, repaired)

    def doubtful(*given, **more):
        marks = look(*given, **more)
        marks.fill_(1)
        return marks

    look = gpu_block.certify
    monkeypatch.setattr(gpu_block, "repair", noted)
    monkeypatch.setattr(gpu_block, "certify", doubtful)
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((6, 70)), rng.standard_normal((70, 5))
    a[:3, 35] *= 2.0**70
    b[35] *= 2.0**-70
    wanted, info = widen.matmul(a, b, info=True)
    assert 0 < info.repaired < wanted.size
    assert_same_bits(product(a, b)[1], wanted)
    assert left == [0]
