"""Plans made beforehand: they are kept to, and refused where they do not fit the call."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from helpers import assert_same_bits, draw
from widen.cpu.repair import Repair

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 7, 9)), RNG.standard_normal((9, 5))


@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct", 40])
def test_a_plan_says_what_to_do_and_changes_no_bits(accuracy):
    wanted = widen.matmul(A, B, accuracy=accuracy)
    for plan in (
        widen.plan(A, B, accuracy=accuracy),
        widen.plan((3, 7, 9), (9, 5), accuracy=accuracy, unit="int8", system="digits"),
    ):
        found, info = widen.matmul(A, B, plan=plan, info=True)
        assert_same_bits(found, wanted)
        assert (info.unit, info.system) == (plan.unit, plan.system)
    found = widen.matmul(torch.from_numpy(A), torch.from_numpy(B), plan=plan)
    assert_same_bits(found.numpy(), wanted)


def test_a_plan_for_something_else_is_refused():
    plan = widen.plan((7, 9), (9, 5))
    for a, b in ((A, B), (A[0][:6], B), (A[0], B[:, :4]), (A[0][:, :8], B[:8])):
        with pytest.raises(ValueError, match="make a plan for these"):
            widen.matmul(a, b, plan=plan)
    with pytest.raises(ValueError, match="give one"):
        widen.matmul(A[0], B, plan=plan, accuracy="fast")
    numbers = widen.plan((7, 9), (9, 5), dtype="complex128")
    with pytest.raises(ValueError, match="make a plan for these"):
        widen.matmul(A[0], B, plan=numbers)


def test_plans_for_other_places():
    shapes = (30, 40), (40, 20)
    assert widen.plan(*shapes, device="cpu") == widen.plan(*shapes)
    assert widen.plan(*shapes, device="cuda", workspace="1GB").unit == "int8"
    with pytest.raises(ValueError, match="expected None or 'cpu', 'cuda' or 'cuda:1'"):
        widen.plan(*shapes, device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="PyTorch sees no GPU here; give workspace="):
            widen.plan(*shapes, device="cuda")


def test_a_plan_of_operands_has_their_whole_shape():
    assert widen.plan(A, B).shape == (3, 7, 9, 5)


@pytest.mark.parametrize("dtype", ["complex128", "complex128x2"])
def test_a_plan_of_real_numbers_keeps_a_complex_result(dtype):
    a, empty = A[0], A[0][:0]
    for left in (a, empty):
        wanted, info = widen.matmul(left, B, dtype=dtype, info=True)
        plan = widen.plan(left, B, dtype=dtype)
        assert (plan.result, info.plan.result, plan.layout.parts) == (dtype, dtype, 1)
        found = widen.matmul(left, B, plan=plan)
        assert found.dtype == wanted.dtype
        assert (found == wanted).all()
    with pytest.raises(ValueError, match=r"for real numbers .* the call has complex ones"):
        widen.matmul(a + 0j, B, plan=widen.plan(a, B, dtype=dtype))


def test_a_first_look_takes_a_term_even_where_every_line_is_exact():
    pytest.importorskip("torch")
    from widen.gpu.planning import Side, first_look

    exact = Side(norm=2560, sigma=10, flags=0, sparse=1, inverse=0, kinds=0, open_terms=0)
    assert first_look([exact, exact], 100, 1) == 1


@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct"])
def test_a_plan_for_friendly_data_serves_hard_data(accuracy, monkeypatch):
    """On a CPU data say how many planes, and many open elements have a second pass."""
    repaired = []

    def by_product(self, b, rows, columns):
        before = np.count_nonzero(self.marks)
        own(self, b, rows, columns)
        repaired.append(before - np.count_nonzero(self.marks))

    own = Repair._by_product
    monkeypatch.setattr(Repair, "_by_product", by_product)
    a, b = draw("graded circulant", (60, 60, 60), 1)
    wanted = widen.matmul(a, b, accuracy=accuracy)
    first = list(repaired)
    plan = widen.plan(a.shape, b.shape, accuracy=accuracy)
    assert_same_bits(widen.matmul(a, b, plan=plan), wanted)
    assert sum(first) > 0
    assert repaired == 2 * first
