"""Results in halves have the bits of a CPU's: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import widen
from device import ON, gemm, own_kernels, product
from helpers import assert_same_bits, draw, slow_except
from widen.gpu.operands import halves_of

halves = pytest.mark.parametrize("name", ["float16", "bfloat16"])


@own_kernels
@halves
@pytest.mark.parametrize("accuracy", slow_except(["standard"], ["standard", "correct", "fast", 30]))
@pytest.mark.parametrize("family", slow_except(["phi1"], ["phi1", "subnormals", "extremes"]))
def test_halves(name, accuracy, family):
    a, b = draw(family, (3, 7, 4), 1, name)
    _, found = product(a, b, accuracy, name)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))


@pytest.mark.slow
@own_kernels
@halves
def test_halves_of_wider_numbers(name):
    a, b = draw("phi2", (3, 7, 4), 2, "float32")
    _, found = product(a, b, "standard", name)
    assert_same_bits(found, widen.matmul(a, b, dtype=name))


@halves
@pytest.mark.parametrize("accuracy", slow_except(["correct"], ["standard", "correct"]))
def test_small_products(name, accuracy):
    a, b = draw("phi2", (4, 9, 5), 2, name)
    _, found = product(a, b, accuracy, name)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))


@pytest.mark.slow
@own_kernels
@halves
def test_ties_overflow_and_the_smallest_numbers(name):
    fmt = widen.formats.BINARY[name]
    values = [1.0, 2.0**fmt.highest, 2.0 ** (fmt.lowest + 3), -(2.0**fmt.lowest)]
    steps = [0.0, 2.0**-fmt.precision, -(2.0 ** -(fmt.precision + 1)), 0.5]
    a = np.array([[x, x * y, x * z] for x in values for y in steps for z in (0, 2.0**-40)])
    b = np.ones((3, 2))
    for accuracy in ("standard", "correct"):
        _, found = product(a, b, accuracy, name)
        assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))


@halves
def test_special_values_and_single_entries(name):
    a, b = (x.copy() for x in draw("phi1", (5, 6, 3), 3, name))
    a[1, 2], a[2, 3], a[2, 4], b[4, 1], a[3] = np.inf, np.nan, 0, -np.inf, 0
    a[4] = 0
    a[4, 1] = 3
    _, found = product(a, b, "standard", name)
    assert_same_bits(found, widen.matmul(a, b, dtype=name))


@halves
@pytest.mark.parametrize("accuracy", slow_except(["standard"], ["standard", "correct"]))
def test_sums_and_bounds(name, accuracy):
    a, b = draw("phi1", (3, 6, 4), 4, name)
    c = draw("phi1", (3, 1, 4), 5, "float32")[1]
    given = {"alpha": 0.75, "beta": -1.5, "accuracy": accuracy, "dtype": name}
    found, bound = gemm(a, b, c, bound=True, **given)
    wanted, info = widen.gemm(a, b, c, info=True, **given)
    assert_same_bits(found, wanted)
    assert_same_bits(bound, info.bound)


def test_magnitudes_and_signs_become_halves():
    bits = torch.tensor([0, 1 << 31, 0x3C00, 0x7BFF | 1 << 31, 0x7C00, 0x7E00])
    bits = torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32).to(ON)
    found = halves_of(bits, "float16").cpu().numpy()
    wanted = np.array([0, -0.0, 1, -65504, np.inf, np.nan], np.float16)
    assert_same_bits(found, wanted)
    found = halves_of(bits[2:3].expand(2, 3), "bfloat16").cpu().view(torch.int16).numpy()
    one = np.array(np.float32(0.0078125)).astype(ml_dtypes.bfloat16).view(np.int16)
    assert (found == one).all()
    assert found.shape == (2, 3)
