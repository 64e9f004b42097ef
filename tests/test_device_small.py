"""Small products on a GPU share a few kernels; they too give the CPU's bits."""

from __future__ import annotations

import pytest

import widen
from helpers import assert_same_bits, draw
from test_device import ON, product
from widen.backends import torch_constants as constants
from widen.kernels import tiles
from widen.systems import residues

SHAPE = (2, 5, 3) if ON == "cpu" else (33, 70, 41)
HARD = [
    ("graded against", "correct", "float64"), ("extremes", "correct", "float32"),
    ("zero lines", "correct", "complex128"), ("subnormals", 40, "float64"),
]  # fmt: skip


@pytest.mark.parametrize(("family", "accuracy", "name"), HARD)
def test_products(family, accuracy, name):
    a, b = draw(family, SHAPE, 31, name)
    assert a.size <= tiles.SMALL
    _, found = product(a, b, accuracy, name)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))


def test_constants():
    """Every table holds p_i, 2^40/p_i, P/p_i and -P, and its limbs hold X with its sign."""
    for bits in range(1, 1900, 31):
        layout = residues(128, float(bits), 1)
        table, limbs, held = constants.any_reconstruction(layout, "cpu")
        rows = [[int(x) % 2**64 for x in row] for row in table.tolist()]
        assert held == layout.modulus.bit_length() <= 32 * limbs
        assert limbs in constants.HELD_LIMBS or limbs % constants.CHUNK == 0
        numbers = [sum(x << 64 * i for i, x in enumerate(row[2:])) for row in rows]
        assert [row[:2] for row in rows[:-1]] == [[p, 2**40 // p] for p in layout.moduli]
        assert numbers[:-1] == [layout.modulus // p for p in layout.moduli]
        assert numbers[-1] == 2 ** (32 * limbs) - layout.modulus
