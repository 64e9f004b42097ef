"""In Triton's interpreter: kernels touch no memory but that of the tensors they are given.

`make sanitize` looks at the same on a GPU, at more shapes.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
from device import gemm, product, surveyed
from helpers import draw
from inside import kernels_stay_inside
from widen import bounds
from widen.contract import CONTRACTS
from widen.gpu import lines as gpu_lines

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(torch.cuda.is_available(), reason="there is no interpreter"),
]


def batch(shape):
    rng = np.random.default_rng(3)
    return rng.standard_normal((3, *shape[:2])), rng.standard_normal((3, *shape[1:]))


CALLS = {
    "standard": lambda: product(*draw("one huge", (3, 9, 5), 1)),
    "correct": lambda: product(*draw("cancellation", (3, 17, 2), 1), "correct"),
    "complex": lambda: product(*draw("phi1", (2, 5, 3), 1, "complex64"), "fast", "complex64"),
    "batch": lambda: product(*batch((3, 5, 2))),
    "blocks": lambda: product(*draw("phi1", (5, 20, 3), 1), workspace=3000),
    "gemm": lambda: gemm(*draw("phi1", (3, 7, 2), 1), np.ones((3, 2)), 0.5, 2.0),
}


@pytest.mark.parametrize(("call", "small"), [
    *(("standard", True), ("standard", False), ("correct", False), ("complex", True)),
    *(("batch", True), ("batch", False), ("blocks", True), ("gemm", True), ("gemm", False)),
])  # fmt: skip
def test_kernels_stay_inside(monkeypatch, call, small):
    if not small:
        monkeypatch.setattr("widen.gpu.tiles.SMALL", 0)
    with kernels_stay_inside(monkeypatch) as found:
        CALLS[call]()
    assert found.looked_at > 1000


def test_an_access_outside_is_seen(monkeypatch):
    """A table without its last row."""
    contract = CONTRACTS["standard"]
    operand, table, goal, test = surveyed(np.ones((3, 4)), "left", contract, None)
    assert test == bounds.certificate(contract, 53, 4, 1, 0)
    needs = torch.zeros((1, gpu_lines.NEEDS), dtype=torch.int64).unbind()
    with kernels_stay_inside(monkeypatch), pytest.raises(Exception, match="accesses are outside"):
        gpu_lines.quantise([operand], [table[:-1].clone()], goal, test, needs)
