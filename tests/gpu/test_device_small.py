"""Small products on a GPU share a few kernels; they too give the CPU's bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import widen
from device import ON, lines_of_a_certificate, product
from helpers import assert_same_bits, draw
from widen import bounds
from widen.contract import CONTRACTS
from widen.formats import FORMATS
from widen.gpu import certify as gpu_certify
from widen.gpu import constants, tiles
from widen.gpu import lines as gpu_lines
from widen.gpu import multiply as gpu_multiply
from widen.gpu.kernels.triton import numbers
from widen.gpu.kernels.triton.multiply import UNCERTIFIED, UNSETTLED
from widen.systems import residues

pytestmark = pytest.mark.device

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


@pytest.mark.parametrize("small", [True, False])
def test_constants(small):
    """Every table puts X together, next to the largest it may be as well, and q P comes off."""
    for bits in range(1, 2040, 31):
        layout = residues(128, float(bits), 1)
        moduli, modulus = layout.moduli, layout.modulus
        table, limbs = constants.any_reconstruction(layout, small, "cpu")
        rows = [[x % 2**32 for x in row] for row in table.tolist()]
        first, width, count = (5, 32, limbs) if limbs else (8, 30, len(rows[0]) - 8)
        numbers = [
            sum(x << width * i for i, x in enumerate(row[first : first + count])) for row in rows
        ]
        shift = rows[-1][1]
        assert modulus.bit_length() + shift <= width * count
        assert limbs or modulus.bit_length() + shift == width * count
        assert numbers[-1] == 2 ** (width * count) - (modulus << shift)
        short = layout.bases.count(0) if layout.bases else len(moduli)
        groups = [moduli[:short][at : at + 3] for at in range(0, short, 3)]
        groups += [moduli[short:][at : at + 2] for at in range(0, len(moduli) - short, 2)]
        assert len(groups) == len(rows) - 1
        largest = math.floor(Fraction(modulus, 2) - Fraction(modulus, 2**9))
        for x in (0, 1, -largest, largest, largest // 3):
            values = [
                sum(x * pow(modulus // p, -1, p) % p * f for p, f in zip(group, row, strict=False))
                for group, row in zip(groups, rows, strict=False)
            ]
            total = sum(v * number for v, number in zip(values, numbers, strict=False))
            fraction = sum(v * row[4] for v, row in zip(values, rows, strict=False))
            q = (fraction + (1 << rows[-1][0] - 1)) >> rows[-1][0]
            assert total - (q * modulus << shift) == x << shift
            assert sum(values) + q << width < 2**64
            if not limbs:  # what is carried into the highest chunk, and what is taken for it
                below = width * (count - 32)
                every = [*values, q]
                real = sum(v * (y % 2**below) for v, y in zip(every, numbers, strict=True)) >> below
                about = sum(v * row[5] for v, row in zip(every, rows, strict=True)) >> width
                assert 0 <= real - about < 32


BATCHES, WAYS = [(3, 2, 5, 17), (3, 1, 33, 3)], [("standard", "float64"), ("fast", "complex64")]
if ON == "cuda":
    BATCHES = [
        (9001, 4, 4, 4), (1001, 16, 16, 16), (700, 20, 128, 13), (333, 33, 100, 40),
        (301, 64, 64, 64), (9, 130, 65, 127),
    ]  # fmt: skip
    WAYS += [("correct", "float64"), ("correct", "complex64")]


@pytest.mark.usefixtures("own_kernels")
@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", BATCHES)
@pytest.mark.parametrize(("accuracy", "name"), WAYS)
def test_batches_of_small_matrices(shape, accuracy, name):
    batch, m, k, n = shape
    items = [
        draw("phi1" if i % 3 else "cancellation", (m, k, n), i, name) for i in range(min(batch, 40))
    ]
    a, b = (np.stack([x[at] for x in items])[np.arange(batch) % len(items)] for at in range(2))
    _, found = product(a, b.copy(order="F"), accuracy, name)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy, dtype=name))


@pytest.mark.parametrize(
    "shape", [(5, 3, 3, 3), (7, 16, 16, 16), (5, 1, 100, 17), (3, 33, 128, 20), (2, 64, 1, 5)]
)
@pytest.mark.parametrize("wide", [False, True])
def test_products_of_small_planes(shape, wide):
    """Several in a tile: nobody gets another's rows, columns or bytes."""
    batch, m, k, n = shape
    planes = ((16381, 16380), (9001, 17)) if wide else ((256, 255), (251, 100), (3, 1))
    generator = torch.Generator().manual_seed(m + n)
    left, right = (
        torch.randint(-128, 128, (len(planes), batch, x, -(-k // 16) * 16), generator=generator)
        for x in (m, n)
    )
    out = torch.zeros((len(planes), batch, m, -(-n // 16) * 16), dtype=torch.int16)
    out = (out if wide else out.to(torch.uint8)).to(ON)
    gpu_multiply.multiply_small(left.to(ON, torch.int8), right.to(ON, torch.int8), planes, k, out)
    p, w = torch.tensor(planes)[:, :, None, None, None].unbind(1)
    exact = left[..., :k] @ right[..., :k].mT
    assert torch.equal(out[..., :n].cpu().long(), exact % p * w % p)


@pytest.mark.parametrize("shape", [(3, 5, 33, 17), (2, 33, 128, 20), (5, 16, 16, 16), (4, 1, 3, 1)])
def test_marks_of_small_matrices(monkeypatch, shape):
    """Several in a tile, or one: the same marks, which say what the definition says."""
    batch, m, k, n = shape
    rng = np.random.default_rng(m + n)
    pitch = -(-k // 16) * 16
    # Sums of products of these are exact in float32; a line of zeros shares no entries.
    magnitudes = [rng.integers(0, 256, (batch, lines, pitch)) / 128.0 for lines in (m, n)]
    magnitudes[0][-1, -1] = 0.0
    leads = [torch.from_numpy(x[None]).to(ON, torch.bfloat16) for x in magnitudes]
    test = bounds.certificate(CONTRACTS["standard"], 53, k, 1, 0)
    (ours, rows), (theirs, columns) = (
        lines_of_a_certificate(rng, batch * lines, k, test, float(k)) for lines in (m, n)
    )
    given = (*leads, (ours.to(ON), theirs.to(ON)), k, test)
    monkeypatch.setattr(gpu_certify, "is_hopper", lambda device: False)
    found, counted = [], []
    for small in (0, 1 << 17):
        monkeypatch.setattr(tiles, "SMALL", small)
        open_terms = torch.zeros(1, dtype=torch.int64, device=ON)
        counts = gpu_certify.Counts(open_terms, torch.zeros_like(open_terms))
        more = {"kept": gpu_lines.MAGNITUDES, "terms": k, "counts": counts}
        marks = gpu_certify.look(*given, fmt=FORMATS["float64"], **more)
        found.append(marks)
        counted.append(int(open_terms))
    assert torch.equal(*found)
    marks = found[0].cpu().numpy()
    totals = magnitudes[0][..., :k] @ magnitudes[1][..., :k].swapaxes(1, 2)
    reaches = [table[int(numbers.REACH)].view(batch, -1) for table in (ours, theirs)]
    shared = 0
    for at in np.ndindex(marks.shape):
        b, i, j = at
        row, column, total = rows[b * m + i], columns[b * n + j], totals[at]
        needed = test.needed(row, column)
        is_near = max(int(reaches[0][b, i]), int(reaches[1][b, j])) <= 60
        if marks[at] == 0:
            assert total >= needed or (total == 0 and is_near)
        elif marks[at] == int(UNSETTLED):
            assert total < needed
            places = min(row.stop, column.stop) - max(row.first, column.first)
            shared += min(max(places, 0), row.nonzeros, column.nonzeros)
        else:  # too near to say, or a sum of numbers that may be too small for float32
            assert marks[at] == int(UNCERTIFIED)
            assert total == 0 or 0.97 < total / needed < 1.03
    assert counted[1] == shared <= counted[0]  # of neighbours in a tile, too
    assert m * n < 50 or set(np.unique(marks)) >= {0, int(UNSETTLED)}
