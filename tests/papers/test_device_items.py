"""Items of papers 002 and 004 run on tensors, and raw products are products.

On a GPU, or in Triton's interpreter at the smallest sizes, where no claim of speed is looked at.
"""

from __future__ import annotations

import pytest
import torch

from device import ON
from paper_operands import Tensors
from widen.cli.machines import machine
from widen.papers.items import Setting, all_items
from widen.papers.ozimmu import timing
from widen.papers.rates import ORDINARY, TENSOR_CORES, raw_product
from widen.papers.slicing import gpu as slices

pytestmark = pytest.mark.device


@pytest.fixture
def setting(monkeypatch):
    monkeypatch.setattr(timing, "REST", 0.0)
    if ON == "cuda":
        return Setting(machine("cuda"), "cuda", quick=True)
    monkeypatch.setattr(slices, "hopper", lambda device: False)
    return Setting(Tensors(), "cuda", quick=True)


@pytest.mark.parametrize("name", [name for name in all_items() if name[:3] in ("002", "004")])
def test_items_run_on_tensors(name, setting):
    found = all_items()[name].run(setting)
    assert found.rows
    assert all(len(row) == len(found.columns) for row in found.rows)
    decided = {claim.verdict for claim in found.claims} - {"not decided here"}
    if "table3" in name or ("future-blocks" in name and name[:3] == "002"):
        assert decided == {"holds"}


@pytest.mark.parametrize("name", [*ORDINARY, *TENSOR_CORES])
def test_raw_products_are_products(name, setting):
    m, k = 16, 32
    found = raw_product(setting, name, m, k)()
    if name in ORDINARY:
        a = setting.random((m, k), 0.0, 0, ORDINARY[name])
        assert torch.equal(found, a @ setting.random((k, m), 0.0, 1, ORDINARY[name]))
        return
    _, *digits = TENSOR_CORES[name]
    a, b = (
        (2 * digit * setting.random((m, k), 0.0, at)).round() for at, digit in enumerate(digits)
    )
    assert abs(a).max() > 1
    assert torch.equal(found.reshape(m, m).double(), a @ b.mT)
