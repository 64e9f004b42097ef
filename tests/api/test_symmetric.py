"""Products of an operand with itself, transposed: half of the work, and the bits of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import widen
from helpers import ACCURACIES, assert_same_bits, draw, draw_words, word_arrays
from widen.formats import PLAIN, WORDS
from widen.planner import block_slices
from widen.testing import FAMILIES


def same(found, wanted):
    arrays = [word_arrays(x) if isinstance(x, widen.Words) else (x,) for x in (found, wanted)]
    for x, y in zip(*arrays, strict=True):
        assert_same_bits(x, y)


def check(x, **options):
    """x' x and x x' have the bits of a product of other memory, and the same bounds."""
    for left, right in ((x.T, x), (x, x.T)):
        found, info = widen.matmul(left, right, info=True, **options)
        wanted, other = widen.matmul(left, right.copy(), info=True, **options)
        assert (info.plan.symmetric, other.plan.symmetric) == (True, False)
        assert "transposed" in str(info)
        same(found, wanted)
        assert np.array_equal(info.bound, other.bound, equal_nan=True)
        assert info.not_finite == other.not_finite
        if options.get("accuracy") != "correct":  # which guesses block by block what to compute
            assert info.repaired == other.repaired
        _, largest = widen.matmul(left, right, info="largest", **options)
        _, wanted = widen.matmul(left, right.copy(), info="largest", **options)
        assert np.array_equal(largest.bound, wanted.bound, equal_nan=True)
        assert largest.not_finite == wanted.not_finite


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", PLAIN)
def test_every_format(name, accuracy):
    x, _ = draw("phi1", (13, 29, 2), 1, name)
    check(x, accuracy=accuracy)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", WORDS)
def test_words(name, accuracy):
    x, _ = draw_words("phi1", (5, 9, 2), 2, name)
    check(x, accuracy=accuracy)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_family_in_blocks(family, accuracy):
    x, _ = draw(family, (60, 70, 2), 3, "float64")
    check(x, accuracy=accuracy)
    check(x, accuracy=accuracy, workspace=1 << 18)


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("system", ["residues", "digits", "triangle"])
@pytest.mark.parametrize("unit", ["fp64", "int8", "fp8"])
def test_units_and_systems(unit, system, accuracy):
    x, _ = draw("phi1", (20, 40, 2), 4, "float64")
    check(x, accuracy=accuracy, unit=unit, system=system, workspace=1 << 17)


def test_special_values():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((40, 30))
    x[3, 4], x[7, 7], x[9, 1], x[20] = np.inf, np.nan, -np.inf, 0.0
    x[:, 5] *= 1e300
    x[:, 6] *= 1e-300
    for accuracy in ACCURACIES:
        check(x, accuracy=accuracy)
        check(x, accuracy=accuracy, workspace=1 << 17)
        with np.errstate(invalid="ignore"):
            z = x + 1j * x[::-1]
        check(z, accuracy=accuracy, workspace=1 << 17)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (0, 3), (3, 0), (4, 6, 5), (2, 3, 1, 4)])
def test_shapes(shape):
    x = np.random.default_rng(6).standard_normal(shape)
    y = x.swapaxes(-1, -2)
    for left, right in ((x, y), (y, x)):
        found, info = widen.matmul(left, right, info=True)
        same(found, widen.matmul(left, right.copy()))
        assert info.plan.symmetric or not found.size


def test_strides():
    whole = np.random.default_rng(7).standard_normal((30, 40))
    for x in (whole[::2, ::3], whole[::-1], whole[:, ::-1], np.asfortranarray(whole)):
        check(x)
    x = whole[:, :30]
    for right in (x, x[::-1].T, x.T[:, ::-1], whole.T[1:31]):  # other lines of the same memory
        assert not widen.matmul(x[:30], right[:, :30], info=True)[1].plan.symmetric
    out = whole[:, :30].copy()
    y = out.T
    wanted = widen.matmul(out.copy(), y.copy())
    assert widen.matmul(out, y, out=out) is out  # written over its own operand
    same(out, wanted)


@pytest.mark.parametrize("accuracy", ACCURACIES)
def test_sums(accuracy):
    rng = np.random.default_rng(8)
    x, c = rng.standard_normal((50, 40)), rng.standard_normal((50, 50))
    for alpha, beta in ((-1.0, 1.0), (0.3, 0.0), (1.0, 0.5)):
        for workspace in (None, 1 << 16):
            given = {"alpha": alpha, "beta": beta, "accuracy": accuracy, "workspace": workspace}
            found, info = widen.gemm(x, x.T, c, info=True, **given)
            wanted, other = widen.gemm(x, x.T.copy(), c, info=True, **given)
            same(found, wanted)
            assert np.array_equal(info.bound, other.bound)
            assert info.repaired == other.repaired


def test_tensors():
    x = torch.randn(20, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found, info = widen.matmul(x, x.T, info=True)
    assert info.plan.symmetric
    same(found.numpy(), widen.matmul(x, x.T.clone()).numpy())


def test_half_of_the_blocks():
    x = np.random.default_rng(9).standard_normal((100, 100))
    plan = widen.plan(x, x.T, workspace=1 << 18)
    assert plan.symmetric
    assert plan.blocks.rows == plan.blocks.columns < 100
    blocks = set(map(str, block_slices(plan)))
    count = -(-100 // plan.blocks.rows)
    assert len(blocks) == count * (count + 1) // 2
    assert len(set(map(str, block_slices(replace(plan, symmetric=False))))) == count**2
