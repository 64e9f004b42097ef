"""On a GPU: the certificate of Hopper's kernel is that of the portable one, mark for mark."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
import widen
from device import ON, lines_of_a_certificate, set_row
from helpers import assert_same_bits
from widen import bounds
from widen.contract import CONTRACTS
from widen.formats import FORMATS
from widen.gpu import certify as gpu_certify
from widen.gpu import lines as gpu_lines
from widen.gpu.kernels.triton import numbers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


def both_marks(monkeypatch, *given, **named):
    """Marks by the kernel of this GPU, and by the portable one; both count what they leave open."""
    found, counted = [], []
    for hopper in (True, False):
        counts = gpu_certify.Counts(*torch.zeros((2, 1), dtype=torch.int64, device=ON))
        with monkeypatch.context() as patch:
            if not hopper:
                patch.setattr(gpu_certify, "is_hopper", lambda device: False)
            found.append(gpu_certify.look(*given, **named, counts=counts))
        counted.append(int(counts.doubtful))
    saturated = named["kept"] >= gpu_lines.SATURATED
    assert counted == [saturated * int(marks.sum()) for marks in found]
    return found


KEPT, PRECISION = 6, 53


@pytest.mark.parametrize("saturated", [0, gpu_lines.SATURATED])
@pytest.mark.parametrize("accuracy", ["standard", "fast"])
def test_every_kernel_marks_the_same_elements(monkeypatch, accuracy, saturated):
    rng = np.random.default_rng(6)
    for _ in range(60):
        m, n, k = (int(rng.choice([1, 7, 63, 64, 65, 129, 255, 257, 500, 1100])) for _ in range(3))
        sides = [(1, 1), (3, 1), (1, 3), (2, 2)][int(rng.integers(4))]
        terms = int(rng.integers(1, 2 * k + 1))
        test = bounds.certificate(CONTRACTS[accuracy], PRECISION, k, 1, int(rng.choice([0, 2**40])))
        total = min(k, terms) * 64.0 * 64.0 / 4.0**KEPT
        leads, tables = [], []
        for batch, lines in zip(sides, (m, n), strict=True):
            shape = (1, batch, lines, -(-k // 16) * 16)
            leads.append(torch.from_numpy(rng.integers(0, 128, shape)).to(ON, torch.int8))
            tables.append(lines_of_a_certificate(rng, batch * lines, k, test, total)[0].to(ON))
            if saturated:  # a few bits further down, so that less is certified
                sums = torch.from_numpy(rng.integers(k << 12, k << 16, batch * lines)).to(ON)
                tables[-1][int(numbers.SUM)], tables[-1][int(numbers.NONZEROS)] = sums, k
        found, wanted = both_marks(
            monkeypatch, *leads, tables, k, test, fmt=FORMATS["float64"], kept=KEPT + saturated,
            terms=terms,
        )  # fmt: skip
        assert torch.equal(found, wanted)
        assert m * n < 10000 or 0 < int(found.sum()) < found.numel()


@pytest.mark.parametrize("terms", [100, 100_000])
def test_every_kernel_marks_the_same_elements_at_the_edge(monkeypatch, terms):
    """All sums are equal and all weights near what they allow: the last bit decides."""
    entry = 3 if terms < 1000 else 127
    shape = (1, 1, 512, terms // 16 * 16 + 16)
    leads = [torch.full(shape, entry, dtype=torch.int8, device=ON)] * 2
    total = entry * entry * terms
    places = 24 - total.bit_length()
    for inexact in ((True, True), (False, True), (True, False)):
        middle = round(total * (1 - 2.0**-20) / (1 + 2.0**-20) * 2.0**places)
        middle //= 2 if all(inexact) else 1
        # In units of 2^(2 KEPT), which is what these leading integers have.
        weights = np.ldexp(middle + np.arange(-256.0, 256.0) // 32, PRECISION - 2 * KEPT - places)
        tables = []
        for flag in inexact:
            table = torch.zeros((gpu_lines.ROWS_OF_TABLE, 512), dtype=torch.int64)
            set_row(table, "WEIGHT", weights)
            set_row(table, "STEP", np.full(512, flag * 2.0**-PRECISION))
            tables.append(table.to(ON))
        found, wanted = both_marks(
            monkeypatch, *leads, tables, terms, bounds.Certificate(1.0, 1.0, 0.0, 0.0),
            fmt=FORMATS["float64"], kept=KEPT, terms=terms,
        )  # fmt: skip
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
