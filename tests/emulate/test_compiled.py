"""`torch.compile` inside a scope: compiled code with widen's products, apart from other code."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import torch

import widen
from widen.emulate import compiled
from widen.gpu.replay import compilers

BACKENDS = [
    "eager",
    "aot_eager",
    "aot_eager_decomp_partition",  # with the decompositions of inductor, and without C++
    pytest.param("inductor", marks=pytest.mark.slow),
]

X, W = (torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        for shape in ((10, 30), (30, 20)))  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(params=BACKENDS)
def backend(request):
    if request.param == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler on a CPU")
    return request.param


def layer(x, w):
    """Products of all kinds, and nothing that a compiler may round otherwise."""
    hidden = torch.relu(torch.addmm(w[0], x, w)) @ w.mT
    batch = torch.bmm(hidden[None], w[None])[0]
    return batch, torch.mv(w, w[0]), torch.dot(w[0], w[1])


def gradient(function, x, w):
    w = w.clone().requires_grad_()
    results = function(x, w)
    return results, torch.autograd.grad(results[0], w, torch.ones_like(results[0]))[0]


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_bits_are_those_of_the_scope_forward_and_backward(backend):
    with widen.emulate(accuracy="correct", missed="raise") as log:
        wanted, wanted_gradient = gradient(layer, X, W)
        log.clear()
        found, found_gradient = gradient(torch.compile(layer, backend=backend), X, W)
    for x, y in zip(found, wanted, strict=True):
        assert torch.equal(x, y)
    assert torch.equal(found_gradient, wanted_gradient)
    assert sum(row.count for row in log.taken) >= 10
    assert any("backward" in row.notes for row in log.taken)
    assert all("compiled" in row.notes for row in log.taken) == (backend != "eager")


def test_code_of_inside_and_outside_is_kept_apart(backend):
    function = torch.compile(layer, backend=backend, fullgraph=True)
    outside = layer(X, W)
    counts = []
    for inside in (False, True, False, True):
        with widen.emulate(accuracy="correct") if inside else torch.no_grad():
            found = function(X, W)
        assert torch.equal(found[2], widen.matmul(W[0], W[1], accuracy="correct")) or not inside
        if not inside:
            assert all(torch.allclose(x, y) for x, y in zip(found, outside, strict=True))
        counts.append(graphs())
    assert counts[0] < counts[1]
    assert counts[1:] == [counts[1]] * 3


def test_another_contract_is_other_code():
    function = torch.compile(lambda x, w: x @ w, backend="aot_eager")
    a, b = torch.tensor([[1e16, 1.0, -1e16]]).double(), torch.ones(3, 1).double()
    for accuracy in ("correct", 4, "correct"):
        with widen.emulate(accuracy=accuracy):
            assert torch.equal(function(a, b), widen.matmul(a, b, accuracy=accuracy))


def test_what_is_left_alone_is_listed_when_it_is_compiled():
    function = torch.compile(lambda x: x @ x, backend="aot_eager_decomp_partition")
    whole = torch.arange(9).reshape(3, 3)
    with widen.emulate(dtypes=["float32"]) as log:
        assert torch.equal(function(whole), whole @ whole)
        function(whole.double())
    assert any("compiled" in row.notes and "dtypes=" in row.reason for row in log.left)
    assert any("integers" in row.reason for row in log.left)


def test_convolutions_in_compiled_code_are_listed():
    function = torch.compile(torch.nn.functional.conv1d, backend="aot_eager")
    with widen.emulate() as log:
        function(torch.ones(1, 2, 5), torch.ones(3, 2, 2))
    assert "convolution" in log.left[0].reason


def test_a_model_trains_to_the_same_bits():
    def trained(compile_it):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
        model = torch.compile(model, backend="aot_eager") if compile_it else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(12, 8)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    with widen.emulate(missed="raise"):
        for x, y in zip(trained(False), trained(True), strict=True):
            assert torch.equal(x, y)


@pytest.mark.slow
def test_a_compiler_that_is_imported_inside():
    code = """
import sys, torch, widen
a = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
b = torch.ones(3, 1, dtype=torch.float64)
theirs = torch.compile
with widen.emulate(accuracy="correct") as log:
    print('torch._dynamo' in sys.modules, torch.compile is theirs)
    function = torch.compile(lambda x, y: x @ y, backend="aot_eager", fullgraph=True)
    print(function(a, b).item(), log.taken[0].notes)
print(torch.compile is theirs, function(a, b).item())
with widen.emulate():
    pass
print(torch.compile is theirs)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == [
        "False False",
        "1.0 ('compiled',)",
        "True 0.0",
        "True",
    ], done.stderr


def test_names_of_the_compiler_are_there():
    assert compilers.lost() == []


def test_without_them_functions_run_uncompiled(monkeypatch):
    torch.compile(lambda x: x + 1, backend="eager")(X)
    monkeypatch.setattr(compiled, "_redirected", [False])
    before = graphs()
    with widen.emulate(accuracy="correct") as log:
        found = torch.compile(lambda x, w: (x @ w) + 1, backend="aot_eager")(X, W)
    assert torch.equal(found, widen.matmul(X, W, accuracy="correct") + 1)
    assert graphs() == before
    assert log.taken[0].operator == "mm"
