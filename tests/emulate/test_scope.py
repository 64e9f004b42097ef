"""The scope: PyTorch programs get widen's bits, forward and backward, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from torch.nn import functional

import widen
import widen.testing as wt
from widen.emulate.log import MissedProductError
from widen.emulate.switches import SWITCHES

DOUBLE = torch.float64


def numbers(*shape, dtype=DOUBLE, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, dtype=dtype, generator=generator)


def exact(a, b):
    """The correctly rounded product, by an oracle that is not widen."""
    return torch.from_numpy(wt.correctly_rounded(a.numpy(), b.numpy()))


@pytest.fixture
def scope():
    return widen.emulate(accuracy="correct", missed="raise")


# ── every operator that is a product ─────────────────────────────────────────────────────────────

A, B, C = numbers(5, 7), numbers(7, 3), numbers(5, 3)
BATCH, OTHER, ADDEND = numbers(2, 5, 7), numbers(2, 7, 3), numbers(2, 5, 3)
LONG = (BATCH.transpose(0, 1).reshape(5, 14), OTHER.reshape(14, 3))
ROW, COLUMN = numbers(5), numbers(3)


def batch_exact():
    return torch.stack([exact(a, b) for a, b in zip(BATCH, OTHER, strict=True)])


def out_of(function, *given, **options):
    """The result by out=, which must be what comes back."""
    kind = function(*given, **options)
    out = torch.empty_like(kind)
    assert function(*given, **options, out=out) is out
    assert torch.equal(kind, out)
    return out


PRODUCTS = {
    "mm": (lambda: out_of(torch.mm, A, B), lambda: exact(A, B)),
    "bmm": (lambda: out_of(torch.bmm, BATCH, OTHER), batch_exact),
    "mv": (lambda: out_of(torch.mv, A, B[:, 0]), lambda: exact(A, B[:, :1])[:, 0]),
    "dot": (lambda: out_of(torch.dot, A[0], B[:, 0]), lambda: exact(A[:1], B[:, :1])[0, 0]),
    "vdot": (lambda: out_of(torch.vdot, A[0], B[:, 0]), lambda: exact(A[:1], B[:, :1])[0, 0]),
    "addmm": (lambda: out_of(torch.addmm, C, A, B), lambda: C + exact(A, B)),
    "addmm row": (lambda: out_of(torch.addmm, COLUMN, A, B), lambda: COLUMN + exact(A, B)),
    "addmm scaled": (
        lambda: out_of(torch.addmm, C, A, B, beta=0.3, alpha=-2.5),
        lambda: C * 0.3 + exact(A, B) * -2.5,
    ),
    "addmm without c": (
        lambda: out_of(torch.addmm, C * torch.nan, A, B, beta=0),
        lambda: exact(A, B),
    ),
    "baddbmm": (
        lambda: out_of(torch.baddbmm, ADDEND, BATCH, OTHER),
        lambda: ADDEND + batch_exact(),
    ),
    "addbmm": (lambda: out_of(torch.addbmm, C, BATCH, OTHER), lambda: C + exact(*LONG)),
    "addmv": (
        lambda: out_of(torch.addmv, ROW, A, B[:, 0]),
        lambda: ROW + exact(A, B[:, :1])[:, 0],
    ),
    "addr": (lambda: out_of(torch.addr, C, ROW, COLUMN), lambda: C + ROW[:, None] * COLUMN),
    "addmm_": (lambda: C.clone().addmm_(A, B), lambda: C + exact(A, B)),
    "baddbmm_": (lambda: ADDEND.clone().baddbmm_(BATCH, OTHER), lambda: ADDEND + batch_exact()),
    "addbmm_": (lambda: C.clone().addbmm_(BATCH, OTHER), lambda: C + exact(*LONG)),
    "addmv_": (lambda: ROW.clone().addmv_(A, B[:, 0]), lambda: ROW + exact(A, B[:, :1])[:, 0]),
    "addr_": (lambda: C.clone().addr_(ROW, COLUMN), lambda: C + ROW[:, None] * COLUMN),
    "_addmm_activation": (
        lambda: torch._addmm_activation(COLUMN, A, B),
        lambda: torch.relu(COLUMN + exact(A, B)),
    ),
    "matmul": (lambda: A @ B, lambda: exact(A, B)),
    "linear": (
        lambda: functional.linear(A, B.mT.contiguous(), COLUMN),
        lambda: exact(A, B) + COLUMN,
    ),
    "einsum": (lambda: torch.einsum("ij,jk->ik", A, B), lambda: exact(A, B)),
    "tensordot": (lambda: torch.tensordot(A, B, 1), lambda: exact(A, B)),
    "inner": (lambda: torch.inner(A, B.mT), lambda: exact(A, B)),
    "multi_dot": (lambda: torch.linalg.multi_dot([A, B]), lambda: exact(A, B)),
    "matrix_power": (
        lambda: torch.linalg.matrix_power(A[:, :5], 2),
        lambda: exact(A[:, :5], A[:, :5]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_correctly_rounded(name, mode, scope):
    ours, theirs = PRODUCTS[name]
    wanted = theirs()
    switch = {
        "grad": torch.enable_grad,
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
    }
    with switch[mode](), scope as log:
        found = ours()
    assert torch.equal(found, wanted)
    assert log.taken
    assert not log.left


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_once(dtype, scope):
    a, b = numbers(4, 9, dtype=dtype), numbers(9, 3, dtype=dtype)
    exactly = exact(a.double(), b.double())  # products of halves: 53 bits hold these sums
    layer = torch.nn.Linear(9, 3, dtype=dtype)
    with scope as log:
        c, y = a @ b, layer(a)
    assert torch.equal(c, exactly.to(dtype))
    product = exact(a.double(), layer.weight.detach().double().mT).to(dtype)
    assert torch.equal(y, layer.bias + product)
    assert not log.left


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.complex128])
def test_other_dtypes(dtype, scope):
    a, b = numbers(4, 9, dtype=dtype), numbers(9, 3, dtype=dtype)
    with scope:
        c, row = a @ b, torch.vdot(a[0], b[:, 0])
    assert c.dtype == row.dtype == dtype
    assert np.array_equal(c.numpy(), widen.matmul(a.numpy(), b.numpy(), accuracy="correct"))
    assert row == widen.matmul(a[0].conj(), b[:, 0], accuracy="correct")


def test_fused_sums_are_rounded_once():
    a, b = (
        torch.tensor([[1.0 + 2.0**-30]], dtype=DOUBLE),
        torch.tensor([[1.0 + 2.0**-30]], dtype=DOUBLE),
    )
    c = torch.tensor([[-1.0 - 2.0**-29]], dtype=DOUBLE)
    with widen.emulate(accuracy="correct"):
        assert torch.addmm(c, a, b).item() == 0.0
    with widen.emulate(accuracy="correct", fused=True):
        assert torch.addmm(c, a, b).item() == 2.0**-60
        assert torch.addmm(c, a, b, beta=-1).item() == (2 * (1 + 2.0**-29))
        assert torch.addmm(c * torch.nan, a, b, beta=0, alpha=2).item() == 2 * (1 + 2.0**-29)


def test_errors_are_pytorch_s_own():
    calls = [
        lambda: A @ A, lambda: torch.addmm(numbers(6, 3), A, B), lambda: torch.dot(A[0], A[:, 0]),
        lambda: torch.mm(A, B.float()), lambda: torch.mm(A, B, out=torch.empty(5, 3)),
        lambda: C[:, :2].clone().addmm_(A, B), lambda: torch.bmm(BATCH, OTHER[:1]),
        lambda: torch.addbmm(C, BATCH, OTHER[:1]), lambda: torch.addmm(C, A, B, alpha=1j),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises((RuntimeError, IndexError)) as outside:
            call()
        with widen.emulate(), pytest.raises(type(outside.value)) as inside:
            call()
        assert str(inside.value) == str(outside.value)


def test_strides_conjugates_and_nothing(scope):
    wide = numbers(14, 6, dtype=torch.complex128)
    views = [
        (wide[::2, ::2], wide[:3].mT.conj()[::2]),
        (wide[:0], wide[:6]),
        (wide[:, :0], wide[:0]),
    ]
    for a, b in views:
        a, b = a, b[: a.shape[1]]
        with scope:
            found = a @ b
        wanted = widen.matmul(
            a.resolve_conj().numpy(), b.resolve_conj().numpy(), accuracy="correct"
        )
        assert np.array_equal(found.numpy(), wanted)


def test_an_out_of_another_size_is_resized(scope):
    out = torch.empty(0, dtype=DOUBLE)
    with scope:
        torch.mm(A, B, out=out)
    assert torch.equal(out, exact(A, B))


# ── programs ─────────────────────────────────────────────────────────────────────────────────────


def run_twice(module, *given):
    """Results and gradients outside and inside a scope, and the log."""
    results = []
    log = None
    for inside in (False, True):
        copies = [x.clone().requires_grad_(x.is_floating_point()) for x in given]
        module.zero_grad()
        if inside:
            with widen.emulate(accuracy="correct", missed="raise") as log:
                found = module(*copies)
                found = found[0] if isinstance(found, tuple) else found
                found.square().sum().backward()
        else:
            found = module(*copies)
            found = found[0] if isinstance(found, tuple) else found
            found.square().sum().backward()
        results.append(
            [found.detach(), *(x.grad for x in copies), *(x.grad for x in module.parameters())]
        )
    return *results, log


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


MODULES = {
    "Linear": (lambda: torch.nn.Linear(7, 4), [(3, 5, 7)]),
    "LSTM": (lambda: torch.nn.LSTM(5, 6, num_layers=2, bidirectional=True), [(3, 4, 5)]),
    "GRU": (lambda: torch.nn.GRU(5, 6), [(3, 4, 5)]),
    "RNN": (lambda: torch.nn.RNN(5, 6), [(3, 4, 5)]),
    "attention": (Attention, [(2, 3, 4, 5)] * 3),
    "MultiheadAttention": (lambda: torch.nn.MultiheadAttention(8, 2), [(3, 2, 8)] * 3),
    "TransformerEncoderLayer": (
        lambda: torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0),
        [(3, 2, 8)],
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_forward_and_backward(name):
    make, shapes = MODULES[name]
    torch.manual_seed(1)
    module = make().double()
    given = [numbers(*shape, seed=at) for at, shape in enumerate(shapes)]
    outside, inside, log = run_twice(module, *given)
    for x, y in zip(outside, inside, strict=True):
        assert torch.allclose(x, y, rtol=1e-10, atol=1e-12)
    assert any("backward" in row.notes for row in log.taken)
    assert not log.left


def test_attention_in_inference_mode_and_eval():
    """Where PyTorch would take its fast paths."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
    x = numbers(2, 3, 8)
    with torch.inference_mode():
        outside = layer(x)
        with widen.emulate(missed="raise") as log:
            inside = layer(x)
    assert torch.allclose(outside, inside)
    assert len(log.taken) >= 4


def test_rows_do_not_depend_on_the_batch():
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(512, 96), numbers(16, 512, dtype=torch.float32)
    with torch.no_grad(), widen.emulate():
        whole = layer(x)
        assert all(torch.equal(whole[i : i + 1], layer(x[i : i + 1])) for i in range(16))


def test_addmm_and_mm_with_a_sum_are_the_same():
    """PyTorch picks one of them by strides and under vmap."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(40, 30).double(), numbers(8, 6, 40)
    strided = x.transpose(0, 1).contiguous().transpose(0, 1)
    with torch.no_grad(), widen.emulate():
        whole = layer(x)
        assert torch.equal(layer(strided), whole)
        assert torch.equal(torch.vmap(layer)(x), whole)
        assert torch.equal(x @ layer.weight.mT + layer.bias, whole)


def test_functional_transforms(scope):
    x, w = numbers(4, 3, 5), numbers(5, 2)

    def loss(x, w):
        return (x @ w).square().sum()

    with scope as log:
        mapped = torch.vmap(lambda t: t @ w)(x)
        each = torch.vmap(torch.func.grad(loss, argnums=1), in_dims=(0, None))(x, w)
        value, tangent = torch.func.jvp(lambda t: t @ w, (x,), (x,))
        second = torch.func.hessian(lambda w: loss(x[0], w))(w)
    assert not log.left
    assert torch.equal(mapped, value)
    assert torch.equal(tangent, value)
    assert torch.equal(mapped[1], exact(x[1], w))
    products = [2 * exact(x[i], w) for i in range(4)]
    assert torch.equal(each, torch.stack([exact(x[i].mT, products[i]) for i in range(4)]))
    assert second.shape == (5, 2, 5, 2)


def test_checkpoints_and_gradients_of_gradients(scope):
    x = numbers(3, 4).requires_grad_()
    w = numbers(4, 4).requires_grad_()
    with scope as log:
        y = torch.utils.checkpoint.checkpoint(lambda t: (t @ w).tanh() @ w, x, use_reentrant=False)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        g.square().sum().backward()
    assert not log.left
    assert sum(row.count for row in log.taken if "backward" in row.notes) >= 5
    assert w.grad is not None


def test_autocast_is_respected_and_said():
    a, b = numbers(4, 9, dtype=torch.float32), numbers(9, 3, dtype=torch.float32)
    with widen.emulate() as log, torch.autocast("cpu", dtype=torch.bfloat16):
        c = a @ b
    assert c.dtype == torch.bfloat16
    (row,) = log
    assert row.dtype == "bfloat16"
    assert "autocast" in row.notes
    wanted = widen.matmul(a.bfloat16(), b.bfloat16(), dtype="bfloat16")
    assert torch.equal(c, wanted)
    with widen.emulate() as log:
        a @ b
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", enabled=False):
            a @ b
    assert [row.notes for row in log] == [(), ()]


# ── the stack ────────────────────────────────────────────────────────────────────────────────────


def test_the_inner_scope_wins():
    with widen.emulate(accuracy="fast") as outer, widen.emulate(accuracy="correct") as inner:
        found = A @ B
    assert torch.equal(found, exact(A, B))
    assert (len(inner), len(outer)) == (1, 0)


def test_a_scope_can_be_entered_again():
    scope = widen.emulate()
    with scope as log:
        A @ B
        with scope as again:
            A @ B
    A @ B
    assert log is again is scope.log
    assert [row.count for row in log] == [1, 1]
    log.clear()
    assert len(log) == 0


def states():
    return [switch.read() for switch in SWITCHES]


def test_exceptions_leave_a_clean_stack():
    before = states()
    with widen.emulate():
        assert states() == [switch.wanted for switch in SWITCHES]
    with pytest.raises(ZeroDivisionError), widen.emulate(), widen.emulate():
        raise ZeroDivisionError
    with pytest.raises(RuntimeError), widen.emulate():
        A @ A
    message = "linalg_inv_ex alone: a solver"
    with pytest.raises(MissedProductError, match=message), widen.emulate(missed="raise"):
        torch.linalg.inv(A[:, :5])
    assert states() == before
    assert torch._C._len_torch_dispatch_stack() == 0


def test_switches_are_restored_as_they_were():
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with widen.emulate():
            pass
        assert not torch.backends.mha.get_fastpath_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_threads_that_enter_the_same_scope():
    scope = widen.emulate(accuracy="correct")
    found = []

    def work(enter):
        if enter:
            with scope:
                found.append(A @ B)
        else:
            found.append(A @ B)

    with scope as log:
        threads = [threading.Thread(target=work, args=(at > 0,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [row.count for row in log] == [3]
    assert sum(torch.equal(x, exact(A, B)) for x in found) >= 3
    assert states() != [switch.wanted for switch in SWITCHES]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_workers_are_covered():
    code = """
import os, torch, widen
a = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
b = torch.ones(3, 1, dtype=torch.float64)
with widen.emulate(accuracy="correct"):
    a @ b
    child = os.fork()
    if child == 0:
        os._exit(0 if (a @ b).item() == 1.0 else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0", done.stderr


def test_entering_imports_no_compiler():
    code = """
import sys, torch, widen
layer = torch.nn.Linear(4, 4)
with widen.emulate() as log, torch.autocast("cpu"):
    layer(torch.ones(2, 4)).sum().backward()
    torch.vmap(lambda x: x @ x)(torch.ones(2, 3, 3))
print('torch._dynamo' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


# ── other people who look on ─────────────────────────────────────────────────────────────────────


def test_tracers_see_widen_s_operator():
    from torch.fx.experimental.proxy_tensor import make_fx

    with widen.emulate(accuracy="correct") as log:
        graph = make_fx(lambda a, b: torch.addmm(C, a, b).relu())(A, B)
    assert torch.ops.widen.gemm.default in [node.target for node in graph.graph.nodes]
    assert torch.equal(graph(A, B), (C + exact(A, B)).relu())
    assert len(log.taken) == 1


def test_shapes_without_numbers():
    with widen.emulate(), torch._subclasses.FakeTensorMode() as mode:
        a, b = mode.from_tensor(A), mode.from_tensor(B)
        assert (a @ b).shape == (5, 3)
    with widen.emulate() as log:
        assert (A.to("meta") @ B.to("meta")).shape == (5, 3)
    assert len(log) == 0


def test_modes_of_others_see_what_they_are_to_see():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False), widen.emulate(accuracy="correct"):
        inner = A @ B
    with widen.emulate(accuracy="correct"), FlopCounterMode(display=False) as counter:
        outer = A @ B
    assert torch.equal(inner, exact(A, B))
    assert torch.equal(outer, exact(A, B))
    assert counter.get_total_flops() == 2 * 5 * 7 * 3


def test_tensors_of_a_class_of_one_s_own():
    class Named(torch.Tensor):
        pass

    with widen.emulate(accuracy="correct") as log:
        found = A.as_subclass(Named) @ B
    assert isinstance(found, Named)
    assert torch.equal(found.as_subclass(torch.Tensor), exact(A, B))
    assert len(log.taken) == 1


def test_widen_inside_a_scope_is_widen():
    """With options that an operator cannot have, and gradients."""
    x = A.clone().requires_grad_()
    with widen.emulate(accuracy="fast") as log:
        found, info = widen.matmul(A, B, info=True, accuracy="correct")
        widen.matmul(x, B, accuracy="correct").sum().backward()
    assert torch.equal(found, exact(A, B))
    assert info.plan.contract.correct
    assert torch.equal(x.grad, exact(torch.ones(5, 3, dtype=DOUBLE), B.mT))
    assert len(log) == 0
