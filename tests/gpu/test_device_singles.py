"""Lines of one entry: their elements are one product, rounded once, whatever it is."""

from __future__ import annotations

import numpy as np
import pytest

import widen
from device import product
from helpers import assert_same_bits
from widen.gpu import repair as gpu_repair

pytestmark = pytest.mark.device


def hostile(rng, shape, dtype):
    """Numbers of all sizes, subnormal ones and zeros among them."""
    info = np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, shape)
    x = np.ldexp(rng.uniform(1, 2, shape) * rng.choice([-1, 1], shape), exponents)
    return np.where(rng.random(shape) < 0.1, 0.0, x).astype(dtype)


def with_single_lines(rng, a, rows):
    """Some rows keep one entry."""
    a = a.copy()
    for i in rows:
        a[i] *= np.arange(a.shape[1]) == rng.integers(a.shape[1])
    return a


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("accuracy", ["fast", "standard"])
def test_products_of_all_sizes(dtype, accuracy):
    """Subnormal results, halves between two numbers, overflow, and zeros that have no sign."""
    rng = np.random.default_rng(3)
    a = with_single_lines(rng, hostile(rng, (9, 12), dtype), range(0, 9, 2))
    b = with_single_lines(rng, hostile(rng, (12, 11), dtype).T, range(0, 11, 3)).T
    a[0], b[:, 1] = 0, 0
    a[2, :3], b[:3, 3] = (0, np.ldexp(3, -20), 0), np.ldexp(7.0, -4)
    result = "float32" if dtype == "float16" else dtype
    _, found = product(a, b, accuracy, result)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=result))
    with np.errstate(all="ignore"):
        exact = (a[:, None, :].astype(result) * b.T[None].astype(result)).sum(2) + 0.0
    single = (np.count_nonzero(a, 1) == 1)[:, None] | (np.count_nonzero(b, 0) == 1)[None]
    np.testing.assert_array_equal(found[single], exact[single])


def test_they_are_rounded_where_they_are_found(monkeypatch):
    """Plain numbers are left to no dot product; parts, words and addends are."""
    rng = np.random.default_rng(4)
    codes = []
    rounded = gpu_repair.round_singles

    def looked_at(block, marks):
        rounded(block, marks)
        codes.append(set(marks.unique().tolist()))

    monkeypatch.setattr("widen.gpu.block.round_singles", looked_at)
    a = with_single_lines(rng, rng.standard_normal((5, 8)), range(5))
    b = rng.standard_normal((8, 6))
    for x in (a, a + 0j):
        _, found = product(x, b.astype(x.dtype), "standard", str(x.dtype))
        assert_same_bits(found, widen.matmul(x, b.astype(x.dtype)))
    assert codes == [{6}, {5}]


def test_a_batch_that_shares_one_operand():
    rng = np.random.default_rng(5)
    a = np.stack([with_single_lines(rng, rng.standard_normal((4, 9)), [i]) for i in range(3)])
    b = np.asfortranarray(with_single_lines(rng, rng.standard_normal((7, 9)), [2, 6]).T)
    _, found = product(a, b, "standard", "float64")
    assert_same_bits(found, widen.matmul(a, b))
