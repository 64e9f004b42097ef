"""Many elements repaired by exact products on a GPU (or in the interpreter): the CPU's bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from device import ON, cases, gemm, product
from helpers import assert_same_bits, draw
from widen.gpu import exact_products as gpu_exact_products
from widen.gpu import stages as gpu_stages

pytestmark = pytest.mark.device

# Triton's interpreter takes seconds for a product: few of them there, and tiny.
SHAPE = (3, 6, 4) if ON == "cpu" else (70, 200, 130)


@pytest.fixture
def by_products(monkeypatch):
    """How many elements exact products repaired; none is too few for them."""
    counts, repair_by_products = [], gpu_stages.repair_by_products

    def counted(*given):
        taken = repair_by_products(*given)
        _, _, repaired, _ = given
        counts.append(int(repaired))
        return taken

    monkeypatch.setattr(gpu_exact_products, "FEWEST_TERMS", 0)
    monkeypatch.setattr(gpu_stages, "repair_by_products", counted)
    return counts


@cases(
    ("family", "accuracy", "dtype"), ("graded against", "correct", "float64"),
    ("phi4", "standard", "float64"), ("phi4", "standard", "complex64"),
    ("one huge", "fast", "float64"), ("graded inner", "correct", "float32"),
    ("phi4", "fast", "float32"), ("graded inner", "standard", "float64"),
    ("graded against", "correct", "complex128"),
    ("graded against", "standard", "complex128"), interpreted=3, slow=1,
)  # fmt: skip
def test_families(family, accuracy, dtype, by_products):
    a, b = draw(family, SHAPE, 1, dtype)
    _, found = product(a, b, accuracy, dtype)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert by_products[-1] > 0


def test_a_few_rows_and_columns(by_products):
    """Only they are multiplied again, and what does not fit any planes is left to dot products."""
    rng = np.random.default_rng(2)
    a, b = rng.random((5, 6)), rng.random((6, 5))
    a[1, 2], a[3, 1:3], b[1:3, 4] = 1e200, (1e-300, 1e300), (1e-290, 1e-250)
    b[2] *= 1e-200
    _, found = product(a, b)
    assert_same_bits(found, widen.matmul(a, b))
    assert by_products[-1] > 0


def test_a_batch_with_special_values(by_products):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 2, 5)) * np.exp(8 * rng.standard_normal((2, 2, 5)))
    b = rng.standard_normal((1, 5, 2)) * np.exp(8 * rng.standard_normal((1, 5, 2)))
    a[0, 1, 2], b[0, 3, 1] = np.inf, np.nan
    _, found = product(a, b)
    assert_same_bits(found, widen.matmul(a, b))
    assert by_products[-1] > 0


@cases(("family", "accuracy"), ("phi4", "standard"), ("graded against", "correct"), interpreted=1)
def test_gemm(family, accuracy, by_products):
    a, b = draw(family, SHAPE, 4)
    c = np.random.default_rng(5).standard_normal((SHAPE[0], 1))
    given = {"alpha": -0.1, "beta": 0.3, "accuracy": accuracy}
    assert_same_bits(gemm(a, b, c, **given), widen.gemm(a, b, c, **given))
    assert by_products[-1] > 0


def test_chunks_fit_the_workspace():
    lines = [gpu_exact_products.Lines(torch.empty((1, 1, count, 50), device="meta"), None)
             for count in (1000, 700)]  # fmt: skip
    fmt = widen.formats.FORMATS["float64"]
    whole = (slice(None), slice(None))
    assert list(gpu_exact_products._chunks(whole, lines, fmt, 1 << 30)) == [
        (slice(0, 1000), slice(0, 700))
    ]
    chunks = list(gpu_exact_products._chunks(whole, lines, fmt, 10 << 20))
    assert len(chunks) > 4
    assert sum((i.stop - i.start) * (j.stop - j.start) for i, j in chunks) == 700000
    assert list(gpu_exact_products._chunks(whole, lines, fmt, 1 << 10)) == []
