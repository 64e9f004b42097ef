"""Programs that enter, leave, copy and transform in unusual ways: the same bits, a clean stack."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import widen
import widen.testing as wt

A = torch.randn(5, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
B = torch.randn(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def exact(a, b):
    """The correctly rounded product, by an oracle that is not widen."""
    return torch.from_numpy(wt.correctly_rounded(np.asarray(a), np.asarray(b)))


REFERENCE = exact(A, B)


def correct(**options):
    return widen.emulate(accuracy="correct", **options)


def depth():
    return torch._C._len_torch_dispatch_stack()


# ── entering and leaving ─────────────────────────────────────────────────────────────────────────


def test_each_scope_has_its_own_accuracy_and_log():
    with widen.emulate(accuracy="fast") as outer:
        with correct() as inner:
            assert torch.equal(A @ B, REFERENCE)
            with widen.emulate(accuracy=10) as innermost:
                A @ B
            assert torch.equal(A @ B, REFERENCE)
        A @ B
    counts = [sum(row.count for row in log) for log in (outer, inner, innermost)]
    assert counts == [1, 2, 1]


def test_generators_that_take_turns_leave_their_own_scope():
    def products(accuracy):
        with widen.emulate(accuracy=accuracy) as log:
            yield log
            yield A @ B

    first, second = products("fast"), products("correct")
    next(first)
    log = next(second)
    first.close()  # PyTorch would end the second's scope
    assert depth() == 1
    assert torch.equal(next(second), REFERENCE)
    assert len(log) == 1
    second.close()
    assert depth() == 0


def test_a_scope_is_not_left_by_another_thread():
    scope, errors = correct(), []
    scope.__enter__()

    def leave():
        try:
            scope.__exit__(None, None, None)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    assert "entered by another thread" in errors[0]
    assert torch.equal(A @ B, REFERENCE)
    scope.__exit__(None, None, None)
    assert depth() == 0


def test_an_error_inside_backward_leaves_a_clean_stack():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("backward")

    x = A.clone().requires_grad_()
    with pytest.raises(KeyError, match="backward"), correct():
        (Failing.apply(x) @ B).sum().backward()
    assert depth() == 0
    assert torch.backends.mkldnn.enabled
    with correct():
        assert torch.equal(A @ B, REFERENCE)


def test_many_threads_with_backward_passes():
    scope, failures = correct(), []

    def work():
        for _ in range(5):
            with scope:
                x = A.clone().requires_grad_()
                y = x @ B
                y.sum().backward()
            if not torch.equal(y, REFERENCE):
                failures.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sum(row.count for row in scope.log.taken) == 40


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_scopes_and_logs(copied):
    scope = correct()
    with scope as log:
        A @ B
    again = copied(log)
    assert str(again) == str(log)
    other = copied(scope)
    with other as fresh:
        assert torch.equal(A @ B, REFERENCE)
    assert len(fresh) == len(log) == 1
    assert repr(log) == (
        "<widen.emulate: 1 product taken over, 0 operations left alone; print(log) lists them>"
    )


def test_copies_of_modules_and_workers_of_a_loader():
    layer = torch.nn.Linear(40, 6).double()

    class Products(torch.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, at):
            return A @ B

    with correct():
        expected = layer(A)
        for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(copied(A), expected)
        for workers in (0, 1):
            for found in torch.utils.data.DataLoader(Products(), num_workers=workers):
                assert torch.equal(found[0], REFERENCE)


# ── tensors that are none ────────────────────────────────────────────────────────────────────────


def test_layers_of_fake_tensors_with_gradients():
    """PyTorch asks `prim::device` from C++, where an error would end the process."""
    with correct(), torch._subclasses.FakeTensorMode():
        assert torch.nn.Linear(4, 2)(torch.empty(3, 4)).shape == (3, 2)


def test_layers_of_jagged_tensors():
    """PyTorch asks `aten::sym_size`, which is no operator of the dispatcher's."""
    rows = [A, A[:2]]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    with correct() as log:
        found = torch.nn.functional.linear(jagged, B.mT.contiguous())
    assert torch.equal(found.values(), torch.cat([REFERENCE, REFERENCE[:2]]))
    assert len(log.taken) == 1


def test_sparse_and_quantised_operands_are_listed():
    sparse = A.to_sparse()
    with correct() as log:
        assert torch.allclose(sparse @ B, REFERENCE)
        torch.sparse.mm(sparse, B)
        torch.addmm(torch.zeros(5, 6, dtype=A.dtype), A.to_sparse_csr(), B)
        torch.ao.nn.quantized.dynamic.Linear(8, 4)(torch.randn(2, 8))
    assert not log.taken
    assert sum(row.count for row in log.left) >= 4


# ── places where results go ──────────────────────────────────────────────────────────────────────


def test_results_in_the_place_of_operands():
    square = B @ B.mT
    expected = exact(square, square)
    with correct(missed="raise"):
        into = square.clone()
        torch.mm(into, into, out=into)
        assert torch.equal(into, expected)
        into = square.clone()
        into.addmm_(into, into)
        assert torch.equal(into, square + expected)
        into = torch.full((5, 6), torch.nan, dtype=A.dtype)
        torch.addmm(into, A, B, beta=0, out=into)
        assert torch.equal(into, REFERENCE)
        into = torch.empty(6, 5, dtype=A.dtype).mT
        torch.mm(A, B, out=into)
        assert torch.equal(into, REFERENCE)
        before = into._version
        into.addmm_(A, B)
        assert into._version > before


def test_views_that_conjugate_negate_and_overlap():
    x, y = torch.complex(A, A.flip(0)), torch.complex(B, B.flip(0))
    with correct(missed="raise"):
        assert torch.equal(x.conj() @ y.conj(), (x @ y).conj().resolve_conj())
        assert torch.equal(torch._neg_view(A) @ B, -REFERENCE)
        row = A[:1].expand(5, 40)
        assert torch.equal(row @ B, REFERENCE[:1].expand(5, 6))
        strided = A.flatten().as_strided((5, 40), (3, 1))
        assert torch.equal(strided @ B, exact(strided.contiguous(), B))


# ── transforms ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reentrant", [True, False])
def test_both_kinds_of_checkpoints(reentrant):
    x, w = A.clone().requires_grad_(), B.clone().requires_grad_()
    with correct() as log:
        y = checkpoint(lambda x, w: x @ w, x, w, use_reentrant=reentrant)
        y.sum().backward()
    assert torch.equal(y, REFERENCE)
    assert torch.equal(w.grad, exact(A.mT.contiguous(), torch.ones(5, 6, dtype=A.dtype)))
    assert sum(row.count for row in log.taken) == (4 if reentrant else 3)


def test_scopes_inside_and_outside_of_transforms():
    def inside(row):
        with correct():
            return row @ B

    assert torch.equal(torch.vmap(inside)(A), REFERENCE)
    with correct(missed="raise") as log:
        assert torch.equal(torch.vmap(lambda row: row @ B, chunk_size=2)(A), REFERENCE)
        jacobian = torch.func.jacrev(lambda row: row @ B)(A[0])
        assert torch.equal(jacobian, B.mT)
        torch.func.hessian(lambda row: (row @ B).square().sum())(A[0])
        torch.vmap(torch.func.grad(lambda row: (row @ B).sum()))(A)
        value, tangent = torch.func.linearize(lambda row: row @ B, A[0])
        assert torch.equal(value, REFERENCE[0])
        assert torch.equal(tangent(A[0]), REFERENCE[0])
    assert log.taken
    assert not log.left


def test_attention_and_recurrent_layers_miss_nothing():
    x = torch.randn(3, 7, 16)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[1, 4:] = True
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 1).eval()
    for quiet in (torch.no_grad, torch.inference_mode):
        with quiet(), correct(missed="raise") as log:
            encoder(x, src_key_padding_mask=mask)
        assert log.taken
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, [7, 5, 1], batch_first=True)
        with correct(missed="raise") as log:
            kind(16, 8, bidirectional=True, batch_first=True)(packed)
        assert log.taken
    q = torch.randn(2, 4, 9, 16)
    with correct(missed="raise") as log:
        functional.scaled_dot_product_attention(q, q[:, :2], q[:, :2], enable_gqa=True)
        functional.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.1)
    assert log.taken


def test_steady_activations_of_what_is_no_float():
    with correct(steady=True):
        assert torch.equal(torch.sigmoid(torch.tensor([True])), torch.sigmoid(torch.tensor([1.0])))
        torch.sigmoid(torch.arange(3))
        assert torch.sigmoid(torch.tensor([1j])).is_complex()


@pytest.mark.slow
def test_compiled_functions_that_enter_scopes_and_checkpoints():
    torch._dynamo.reset()

    @torch.compile(backend="aot_eager")
    def entering(x, y):
        with correct():
            z = x @ y
        return z + 1

    assert torch.equal(entering(A, B), REFERENCE + 1)
    compiled = torch.compile(
        lambda x, w: checkpoint(torch.mm, x, w, use_reentrant=False), backend="aot_eager"
    )
    x, w = A.clone().requires_grad_(), B.clone().requires_grad_()
    with correct():
        y = compiled(x, w)
        y.sum().backward()
    assert torch.equal(y, REFERENCE)
    mapped = torch.compile(lambda x: torch.vmap(lambda row: row @ B)(x), backend="aot_eager")
    with correct():
        assert torch.equal(mapped(A), REFERENCE)
    torch._dynamo.reset()


@pytest.mark.slow
def test_an_exported_program():
    class Product(torch.nn.Module):
        def forward(self, x):
            return x @ B

    with correct():
        program = torch.export.export(Product(), (A,))
        assert torch.equal(program.module()(A), REFERENCE)
