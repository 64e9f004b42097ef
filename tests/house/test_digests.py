"""Some five hundred products have the bits they had, on a CPU and on a GPU."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
import torch

import digests
import widen

pytestmark = pytest.mark.device

KNOWN = json.loads(digests.LIST.read_text(encoding="utf-8"))
CASES = digests.cases()

tenths = pytest.mark.parametrize("tenth", range(10))


def on_gpu(x):
    """An operand as a tensor (`Words` of tensors) on a GPU, transposed if it was."""
    if isinstance(x, widen.Words):
        return x.to_torch("cuda")
    near = x.ndim > 1 and abs(x.strides[0]) < abs(x.strides[-1])
    x = np.require(x.T if near else x, None, ("C", "W"))
    if x.dtype == ml_dtypes.bfloat16:
        made = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    else:
        made = torch.from_numpy(x)
    made = made.cuda()
    return made.permute(*reversed(range(made.ndim))) if near else made


def test_the_list_is_of_these_products():
    assert [case.name for case in CASES] == list(KNOWN)
    assert len(set(KNOWN.values())) > 0.9 * len(KNOWN)  # empty ones are alike


@tenths
def test_bits(tenth):
    some = CASES[tenth::10]
    found = {case.name: digests.digest(digests.product(case)) for case in some}
    assert found == {case.name: KNOWN[case.name] for case in some}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@tenths
def test_bits_on_a_gpu(tenth):
    some = CASES[tenth::10]
    found = {case.name: digests.digest(digests.product(case, on_gpu)) for case in some}
    assert found == {case.name: KNOWN[case.name] for case in some}


def test_a_digest_sees_one_bit():
    x = np.linspace(0, 1, 7)
    y = x.copy()
    y[3] = np.nextafter(y[3], 2)
    assert digests.digest(x) != digests.digest(y)
    assert digests.digest(x) != digests.digest(-x)
    assert digests.digest(x) != digests.digest(x[:, None])
    assert digests.digest(np.array([np.nan])) == digests.digest(-np.array([np.nan]))
