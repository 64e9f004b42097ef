"""On a GPU: the certificate of Hopper's kernel is that of the portable one, mark for mark."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
import widen
from device import FLAGS, NO_GOAL, WEIGHT, lines_of_a_certificate
from helpers import assert_same_bits
from widen.bounds import Certificate
from widen.gpu import certify as gpu_certify
from widen.gpu import lines as gpu_lines

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def both_marks(monkeypatch, *given, **named):
    """Marks by the kernel of this GPU, and by the portable one."""
    found = gpu_certify.certify(*given, **named)
    with monkeypatch.context() as patch:
        patch.setattr(gpu_certify, "is_hopper", lambda device: False)
        return found, gpu_certify.certify(*given, **named)


@pytest.mark.parametrize("planes", [1, 2])
def test_every_kernel_marks_the_same_elements(monkeypatch, planes):
    rng = np.random.default_rng(5 + planes)
    for _ in range(60):
        m, n, k = (int(rng.choice([1, 7, 63, 64, 65, 129, 255, 257, 500, 1100])) for _ in range(3))
        left, right = [(1, 1), (3, 1), (1, 3), (2, 2)][int(rng.integers(4))]
        leads = [
            torch.from_numpy(rng.integers(0, 128, (planes, batch, lines, -(-k // 16) * 16))).to(
                "cuda", torch.int8
            )
            for batch, lines in ((left, m), (right, n))
        ]
        terms, kept = int(rng.integers(1, 2 * k + 1)), 7 * planes - 1
        total = min(k, terms) * 64.0 * 64.0 * 4.0 ** (7 * (planes - 1))
        near = round((math.log2(total) - 22) / 2)
        tables = [
            lines_of_a_certificate(rng, batch, lines, near).cuda()
            for batch, lines in ((left, m), (right, n))
        ]
        test = Certificate(1 << 23, 0, 2 * (kept - 14) + int(rng.integers(2)), 12345, 0, NO_GOAL)
        found, wanted = both_marks(monkeypatch, *leads, tables, k, test, kept=kept, terms=terms)
        assert torch.equal(found, wanted)
        assert m * n < 10000 or 0 < int(found.sum()) < found.numel()


@pytest.mark.parametrize("terms", [100, 100_000])
def test_every_kernel_marks_the_same_elements_at_the_edge(monkeypatch, terms):
    """All sums are equal and all weights near what they allow: the last bit decides."""
    entry = 3 if terms < 1000 else 127
    shape = (1, 1, 512, terms // 16 * 16 + 16)
    leads = [torch.full(shape, entry, dtype=torch.int8, device="cuda")] * 2
    total = entry * entry * terms
    shift = 24 - total.bit_length()
    for flags in ((4, 4), (0, 4), (4, 0)):
        middle = round(total * (1 - 2.0**-20) / (1 + 2.0**-20) ** 2 * 2.0**shift)
        middle //= 2 if flags == (4, 4) else 1
        tables = []
        for flag in flags:
            table = torch.zeros((gpu_lines.ROWS_OF_TABLE, 512), dtype=torch.int64, device="cuda")
            table[FLAGS] = flag
            table[WEIGHT] = middle + torch.arange(-256, 256, device="cuda") // 32
            tables.append(table)
        test = Certificate(1 << 23, 0, shift + 2 * (6 - 14), 1, 0, NO_GOAL)
        found, wanted = both_marks(monkeypatch, *leads, tables, terms, test, kept=6, terms=terms)
        assert torch.equal(found, wanted)
        assert 0 < int(found.sum()) < found.numel()


@pytest.mark.parametrize("accuracy", ["standard", "fast"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128"])
def test_exact_lines_leave_nothing_to_certify(dtype, accuracy):
    """No element asks for a term of the first look: a kernel that waits for one never ends."""
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((70, 40), (40, 65)))
    found = widen.matmul(*(torch.from_numpy(x).cuda() for x in (a, b)), accuracy=accuracy)
    assert_same_bits(found.cpu().numpy(), widen.matmul(a, b, accuracy=accuracy))
