"""Raw products whose rates are measured: they are the products of the matrices that were drawn."""

from __future__ import annotations

import pytest
import torch

from device import ON
from widen.papers.items import Setting
from widen.papers.rates import ORDINARY, TENSOR_CORES, raw_product

pytestmark = pytest.mark.device


class Machine:
    """Tensors where kernels run, also without a GPU."""

    def generator(self, seed):
        return torch.Generator().manual_seed(seed)

    def random(self, generator, shape, dtype, phi):
        assert phi == 0
        values = torch.rand(shape, generator=generator, dtype=getattr(torch, dtype)) - 0.5
        return values.to(ON)


@pytest.mark.parametrize("name", [*ORDINARY, *TENSOR_CORES])
def test_raw_products_are_products(name):
    setting = Setting(Machine(), "cuda")
    m, k = 16, 32
    found = raw_product(setting, name, m, k)()
    if name in ORDINARY:
        a, b = (setting.random(shape, 0.0, at, ORDINARY[name])
                for at, shape in enumerate(((m, k), (k, m))))  # fmt: skip
        assert torch.equal(found, a @ b)
        return
    _, *digits = TENSOR_CORES[name]
    a, b = (
        (2 * digit * setting.random((m, k), 0.0, at)).round() for at, digit in enumerate(digits)
    )
    assert abs(a).max() > 1
    assert torch.equal(found.reshape(m, m).double(), a @ b.mT)
