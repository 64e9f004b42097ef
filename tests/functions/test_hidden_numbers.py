"""Functions that look at numbers, where PyTorch's transforms hide these and scopes do not."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

import widen

A = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

LOOKING = {
    "norm": widen.norm,
    "solve": lambda a: widen.linalg.solve(a, A[0]),
    "det": widen.linalg.det,
    "matrix_power": lambda a: widen.matrix_power(a, -2),
    "encode": lambda a: widen.matmul(A, widen.encode(a, side="right")),
}
WHOLE = {
    "einsum": lambda a: widen.einsum("ij,jk,kl->il", a, a, a, accuracy="correct"),
    "multi_dot": lambda a: widen.multi_dot([a, a, a], accuracy="correct"),
    "matrix_power": lambda a: widen.matrix_power(a, 5, accuracy="correct"),
}


@pytest.mark.parametrize("function", [*LOOKING.values(), *WHOLE.values()])
def test_transforms_are_refused_before_a_tangent_is_lost(function):
    transforms = [
        lambda: torch.vmap(function)(A[None]),
        lambda: torch.func.grad(lambda a: function(a).sum())(A),
        lambda: torch.func.jvp(function, (A,), (A,)),
    ]
    for transform in transforms:
        with pytest.raises(TypeError, match=r"torch\.func.*forward mode"):
            transform()
    with forward_ad.dual_level(), pytest.raises(TypeError, match="forward mode"):
        function(forward_ad.make_dual(A, A))
    with pytest.raises(TypeError, match="numbers"):
        function(A.to("meta"))


@pytest.mark.parametrize("function", [*LOOKING.values(), *WHOLE.values()])
def test_a_scope_changes_nothing(function):
    with widen.emulate(accuracy="fast", missed="raise") as log:
        found = function(A)
    assert torch.equal(found, function(A))
    assert not log.rows


@pytest.mark.parametrize("function", WHOLE.values())
def test_a_compiler_calls_them_as_they_are(function):
    torch.compiler.reset()
    assert torch.equal(torch.compile(function, backend="eager")(A), function(A))
    torch.compiler.reset()
