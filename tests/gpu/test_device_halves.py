"""Products by halves give the bytes of the ordinary ones: on a GPU, or in Triton's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from device import ON, product
from helpers import assert_same_bits, draw, slow_except
from widen.gpu import multiply as gpu_multiply
from widen.gpu import units as gpu_units
from widen.systems import residues
from widen.systems.moduli import balanced

pytestmark = pytest.mark.device

SHAPES = [(3, 5, 2), (1, 1, 1), (20, 40, 35)]
if ON == "cuda":
    SHAPES += [(130, 1000, 700), (257, 515, 64), (1024, 512, 768)]


def planes_of(rng, layout, lines, k):
    """Balanced residues, some the largest; what is beyond k shall not count."""
    shape = (len(layout.moduli), 1, lines, -(-k // 16) * 16)
    found = rng.integers(-128, 128, shape)
    for z, p in enumerate(layout.moduli):
        some = rng.integers(0, p, (lines, k))
        some[rng.random((lines, k)) < 0.2] = p // 2
        found[z, 0, :, :k] = np.vectorize(lambda x, p=p: balanced(int(x), p))(some)
    return torch.from_numpy(found.astype(np.int8)).to(ON)


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_are_those_of_the_ordinary_product(shape):
    m, k, n = shape
    rng = np.random.default_rng(m)
    layout = residues(128, 38.0, 1)
    left, right = planes_of(rng, layout, m, k), planes_of(rng, layout, n, k)
    wanted = gpu_multiply.multiply(left, right, layout, k)
    for planes in (2, len(layout.moduli)):
        found = gpu_multiply.multiply_by_halves(left, right, layout, k, planes)
        assert torch.equal(found[..., :n], wanted[..., :n])


@pytest.mark.parametrize("dtype", slow_except(["float64"], ["float64", "complex128"]))
def test_results_are_the_same(dtype, monkeypatch):
    a, b = draw("phi1", (2, 9, 3) if ON == "cpu" else (9, 21, 7), 3, dtype)
    monkeypatch.setattr(gpu_multiply, "OPERATIONS_A_BYTE", 0)
    taken = []
    halved = gpu_units.multiply_by_halves
    monkeypatch.setattr(
        gpu_units, "multiply_by_halves", lambda *given: taken.append(given[-1]) or halved(*given)
    )
    _, found = product(a, b, "standard", dtype)
    assert_same_bits(found, widen.matmul(a, b))
    assert taken


def test_when_halves_pay():
    big, small = (torch.empty((14, 1, n, n), dtype=torch.int8, device="meta") for n in (32768, 64))
    assert gpu_multiply.planes_at_once(big, big, 32768, 1 << 40) == gpu_multiply.HALVED_PLANES
    one = gpu_multiply.scratch_bytes(big, big, 32768, 1)
    assert gpu_multiply.planes_at_once(big, big, 32768, 2 * one - 1) == 1
    assert gpu_multiply.planes_at_once(big, big, 32768, -5) == 0
    assert gpu_multiply.planes_at_once(small, small, 64, 1 << 40) == 0
    two = torch.empty((14, 2, 32768, 32768), dtype=torch.int8, device="meta")
    assert gpu_multiply.planes_at_once(two, big, 32768, 1 << 40) == 0
