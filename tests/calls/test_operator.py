"""Products that PyTorch differentiates, maps, compiles or only wants the shape of."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import widen
import widen.testing as wt
from helpers import assert_same_bits

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
        ],
    ),
]

pytestmark = [pytest.mark.device, pytest.mark.parametrize("device", DEVICES)]

SHAPES = [
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 2, 3), (2, 3, 2)),
    ((1, 3, 4), (2, 4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)), ((0, 3, 4), (4, 5)), ((3, 0), (0, 5)), ((2, 0, 4), (4, 3)),
]  # fmt: skip


def numbers(device, *shapes, dtype=torch.float64, grad=True):
    generator = torch.Generator().manual_seed(len(shapes))
    return [
        torch.randn(shape, dtype=dtype, generator=generator).to(device).requires_grad_(grad)
        for shape in shapes
    ]


def array(x):
    return x.detach().cpu().numpy()


# ── gradients ────────────────────────────────────────────────────────────────


@pytest.mark.covering(1)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("dtypes", [
    (torch.float64, torch.float64), (torch.complex128, torch.complex128),
    (torch.complex128, torch.float64), (torch.float64, torch.complex128),
])  # fmt: skip
def test_gradients(device, shapes, dtypes):
    operands = [
        numbers(device, shape, dtype=dtype)[0] for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    assert torch.autograd.gradcheck(widen.matmul, operands)


@pytest.mark.covering(2)
@pytest.mark.parametrize(("shapes", "c"), [
    (((3, 4), (4, 5)), (3, 5)), (((3, 4), (4, 5)), (5,)), (((3, 4), (4, 5)), (3, 1)),
    (((3, 4), (4, 5)), ()), (((4,), (4, 5)), (5,)), (((3, 4), (4,)), (3,)), (((4,), (4,)), ()),
    (((2, 3, 4), (4,)), (2, 3)), (((2, 3, 4), (4,)), (3,)), (((4,), (2, 4, 5)), (2, 1)),
])  # fmt: skip
@pytest.mark.parametrize("scalars", [(0.5, -2.0), (0.5 + 1j, -2j), (0.0, 1.0)])
def test_gradients_of_gemm(device, shapes, c, scalars):
    alpha, beta = scalars
    options = {"alpha": alpha, "beta": beta}
    if isinstance(alpha, complex):
        options["dtype"] = "complex128"
    operands = numbers(device, *shapes, c)
    assert torch.autograd.gradcheck(lambda a, b, c: widen.gemm(a, b, c, **options), operands)


def test_gradients_of_gradients(device):
    operands = numbers(device, (2, 3, 4), (4, 5), (5,))
    assert torch.autograd.gradgradcheck(widen.matmul, operands[:2])
    assert torch.autograd.gradgradcheck(
        lambda a, b, c: widen.gemm(a, b, c, alpha=3.0, beta=2.0), operands
    )


@pytest.mark.parametrize("accuracy", ["correct", "standard", 60])
def test_gradients_keep_the_contract(device, accuracy):
    """Also where an operand was repeated: the sum is one exact sum."""
    a, b, upstream = numbers(device, (5, 30, 20), (20, 10), (5, 30, 10))
    with torch.no_grad():
        upstream[0] *= 1e20
        upstream[1] *= -1e20
    widen.matmul(a, b, accuracy=accuracy).backward(upstream)
    down = array(upstream)
    left, right = array(a).reshape(150, 20).T, down.reshape(150, 10)
    assert_same_bits(array(b.grad), widen.matmul(left, right, accuracy=accuracy))
    assert_same_bits(array(a.grad), widen.matmul(down, array(b).T, accuracy=accuracy))
    if accuracy == "correct":
        assert_same_bits(array(b.grad), wt.correctly_rounded(left, right))


@pytest.mark.parametrize(("ours", "theirs"), [
    (torch.float16, torch.float16), (torch.bfloat16, torch.float32), (torch.float32, torch.float64),
    (torch.float64, torch.complex64), (torch.complex64, torch.bfloat16),
])  # fmt: skip
def test_gradients_have_the_operands_formats(device, ours, theirs):
    a, b = (numbers(device, (3, 4), dtype=x)[0] for x in (ours, theirs))
    widen.matmul(a, b.mT).abs().sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (ours, theirs)
    plain = [x.detach().to(torch.complex128).requires_grad_() for x in (a, b)]
    (plain[0] @ plain[1].mT).abs().sum().backward()
    for x, y in zip((a, b), plain, strict=True):
        wanted = y.grad if x.is_complex() else y.grad.real
        assert torch.allclose(x.grad.to(wanted.dtype), wanted, rtol=2e-2, atol=2e-2)


def test_forward_mode(device):
    a, b, c = numbers(device, (2, 3, 4), (4, 5), (5,), grad=False)

    def ours(a, b, c):
        return widen.gemm(a, b, c, alpha=3.0, beta=2.0)

    def theirs(a, b, c):
        return 3 * (a @ b) + 2 * c

    moves = tuple(torch.cos(x) for x in (a, b, c))
    found = torch.func.jvp(ours, (a, b, c), moves)
    wanted = torch.func.jvp(theirs, (a, b, c), moves)
    for x, y in zip(found, wanted, strict=True):
        assert torch.allclose(x, y)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a, moves[0])
        tangent = torch.autograd.forward_ad.unpack_dual(widen.matmul(dual, b)).tangent
        assert torch.allclose(tangent, moves[0] @ b)
        assert torch.equal(widen.matmul(a, b), widen.matmul(a.clone(), b))


def test_no_gradient_where_none_is_asked_for(device):
    a, b = numbers(device, (3, 4), (4, 5))
    weight = torch.nn.Parameter(b.detach())
    with torch.no_grad():
        assert not widen.matmul(a, weight).requires_grad
    assert not widen.matmul(a.detach(), b.detach()).requires_grad
    found = widen.matmul(a.detach(), weight)
    assert found.requires_grad
    assert torch.equal(found, widen.matmul(a.detach(), weight.detach()))


def test_what_has_no_gradient_says_so(device):
    a, b = numbers(device, (3, 4), (4, 5))
    plain = b.detach()
    calls = {
        "b as Encoded": lambda: widen.matmul(a, widen.encode(plain, side="right")),
        "info=": lambda: widen.matmul(a, b, info=True),
        "out=": lambda: widen.matmul(a, b, out=torch.empty(3, 5, device=device).double()),
        "dtype=float64x2": lambda: widen.matmul(a, b, dtype="float64x2"),
        "b as ndarray": lambda: widen.matmul(a, np.ones((4, 5))),
        "use x.detach()": lambda: widen.encode(a, side="left"),
    }
    if device == "cpu":
        calls["alpha has no gradient"] = lambda: widen.gemm(a, b, alpha=a[0, 0])
    for words, call in calls.items():
        with pytest.raises(TypeError) as caught:
            call()
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="do not match"):
        widen.matmul(a, a)


# ── maps ─────────────────────────────────────────────────────────────────────


def test_vmap(device):
    a, b, c = numbers(device, (6, 3, 4), (6, 4, 5), (6, 5), grad=False)
    vmap, same = torch.vmap, torch.equal
    whole = widen.matmul(a, b)
    assert same(vmap(widen.matmul)(a, b), whole)
    assert same(vmap(widen.matmul, in_dims=(2, 0))(a.permute(1, 2, 0), b), whole)
    assert same(vmap(widen.matmul, in_dims=(None, 0))(a[0], b), widen.matmul(a[0], b))
    assert same(vmap(widen.matmul, in_dims=(0, None))(a, b[0, :, 0]), widen.matmul(a, b[0, :, 0]))
    assert same(vmap(widen.matmul, out_dims=1)(a, b), whole.movedim(0, 1))
    one_by_one = torch.stack([widen.gemm(a[0], b[0], x, beta=2.0) for x in c])
    assert same(vmap(lambda x: widen.gemm(a[0], b[0], x, beta=2.0))(c), one_by_one)
    pairs = torch.stack([widen.matmul(a, x) for x in b])
    inner = vmap(widen.matmul, in_dims=(0, None))
    assert same(vmap(inner, in_dims=(None, 0))(a, b), pairs)
    # An axis that one operand has and the other has not stays behind the mapped one.
    assert same(vmap(lambda x: widen.matmul(x, b))(a), torch.stack([widen.matmul(x, b) for x in a]))
    with pytest.raises(TypeError, match="info="):
        vmap(lambda x: widen.matmul(x, b[0], info=True)[0])(a)


def test_functional_gradients(device):
    a, b = numbers(device, (6, 3, 4), (6, 4, 5), grad=False)
    found = torch.func.jacrev(widen.matmul)(a[0], b[0])
    assert torch.allclose(found, torch.func.jacrev(torch.matmul)(a[0], b[0]))
    assert torch.allclose(found, torch.func.jacfwd(widen.matmul)(a[0], b[0]))
    each = torch.vmap(torch.func.grad(lambda x, y: widen.matmul(x, y).square().sum()))(a, b)
    assert torch.allclose(each, 2 * (a @ b) @ b.mT)


# ── compilers ────────────────────────────────────────────────────────────────


@pytest.fixture
def compiled(device):
    """A compiler of functions: the whole way on a GPU; its first half, where no C++ is sure."""
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    yield lambda function, **options: torch.compile(function, backend=backend, **options)
    torch.compiler.reset()


def test_a_compiled_product_is_one_graph(device, compiled):
    a, b, c = numbers(device, (3, 4), (4, 5), (5,))

    def layer(a, b, c):
        linear = widen.gemm(a, b, c, alpha=2.0, beta=1.0, accuracy=45, dtype=torch.float64)
        return torch.relu(widen.matmul(linear, b.mT, accuracy="correct", workspace="64MB"))

    fast = compiled(layer, fullgraph=True)
    found, wanted = fast(a, b, c), layer(a, b, c)
    assert torch.equal(found, wanted)
    gradients = torch.autograd.grad(found.sum(), (a, b, c))
    for x, y in zip(gradients, torch.autograd.grad(wanted.sum(), (a, b, c)), strict=True):
        assert torch.equal(x, y)


def test_workspaces_of_any_kind(device):
    a, b = numbers(device, (3, 4), (4, 5))
    for workspace in ("64MB", 10**8, 1e16, np.float64(1e8)):
        assert widen.matmul(a, b, workspace=workspace).requires_grad
    with pytest.raises(ValueError, match="workspace='much' is not a size"):
        widen.matmul(a, b, workspace="much")


@pytest.mark.parametrize("accuracy", ["standard", 45])
def test_cuda_graphs_of_a_compiler_go_around_it(device, accuracy):
    if device == "cpu":
        pytest.skip("CUDA graphs are a GPU's")
    torch.compiler.reset()
    a, b = numbers(device, (50, 30), (30, 40), grad=False)

    def layer(a, b):
        return torch.relu(widen.matmul(a + 1, b, accuracy=accuracy)) * 2

    fast = torch.compile(layer, mode="reduce-overhead", fullgraph=True)
    for turn in range(4):  # warm-ups, a capture, replays
        assert torch.equal(fast(a + turn, b).clone(), layer(a + turn, b))


def test_sizes_that_change(device, compiled):
    fast = compiled(widen.matmul, fullgraph=True, dynamic=True)
    for n in (3, 7, 9):
        a, b = numbers(device, (2, 3, 4), (4, n), grad=False)
        assert torch.equal(fast(a, b), widen.matmul(a, b))


def test_a_map_in_a_graph(device, compiled):
    a, b = numbers(device, (6, 3, 4), (4, 5), grad=False)
    fast = compiled(torch.vmap(widen.matmul, in_dims=(0, None)), fullgraph=True)
    assert torch.equal(fast(a, b), widen.matmul(a, b))


@pytest.mark.slow
def test_what_a_compiler_leaves_alone(device, compiled):
    """Options an operator cannot have, encoded operands, words: called between two graphs."""
    a, b = numbers(device, (3, 4), (4, 5), grad=False)
    encoded = widen.encode(b, side="right")
    out = torch.empty(3, 5, dtype=torch.float64, device=device)
    wide = widen.Words(a, dtype="float64x2")
    found, info = compiled(lambda a, b: widen.matmul(a + 0, b, info=True))(a, b)
    assert torch.equal(found, widen.matmul(a, b))
    assert info.products > 0
    assert torch.equal(compiled(lambda a: widen.matmul(a, encoded) + 1)(a), found + 1)
    assert compiled(lambda a, b: widen.matmul(a, b, out=out))(a, b) is out
    assert torch.equal(out, found)
    assert compiled(lambda a: widen.encode(a, side="left").dims)(a) == (3, 4)
    assert compiled(lambda a, b: widen.plan(a, b).shape)(a, b) == (1, 3, 4, 5)
    assert bool((compiled(lambda x: x * x + x)(wide) == wide * wide + wide).all())
    assert bool((compiled(lambda x, b: x @ b)(wide, b) == wide @ b).all())


class Layer(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)

    def forward(self, x):
        return torch.relu(widen.matmul(x, self.weight, accuracy="correct"))


def test_an_exported_product(device):
    a, b = numbers(device, (3, 4), (4, 5), grad=False)
    layer = Layer(b)
    for graph in [
        torch.export.export(layer, (a,)).module(),
        make_fx(layer)(a),  # which traces with the tensors themselves
    ]:
        assert torch.ops.widen.gemm.default in [node.target for node in graph.graph.nodes]
        assert torch.equal(graph(a - 1), layer(a - 1))


def test_the_operator_is_registered_as_pytorch_wants_it(device):
    a, b, c = numbers(device, (2, 3, 4), (4, 5), (5,))
    operator = torch.ops.widen.gemm.default
    plain = ("standard", None, None, None, None, False)
    scaled = ("45", "complex128", None, None, "100000000", False)
    for given in [(a, b, None, [1.0], [0.0], *plain), (a, b, c, [2.0, 1.0], [1.0], *scaled)]:
        results = torch.library.opcheck(operator, given)
        assert set(results.values()) == {"SUCCESS"}


def test_shapes_without_numbers(device):
    a, b = numbers("meta", (2, 3, 4), (4,), grad=False)
    found = widen.matmul(a, b, dtype="complex64")
    assert (found.shape, found.dtype, found.device.type) == ((2, 3), torch.complex64, "meta")
    with torch._subclasses.FakeTensorMode() as mode:
        x, y = (mode.from_tensor(t) for t in numbers(device, (3, 4), (4, 5), grad=False))
        assert widen.gemm(x, y, 1.0, beta=1.0).shape == (3, 5)


def test_subclasses(device):
    class Named(torch.Tensor):
        pass

    a, b = numbers(device, (3, 4), (4, 5), grad=False)
    found = widen.matmul(a.as_subclass(Named), b)
    assert isinstance(found, Named)
    assert torch.equal(found.as_subclass(torch.Tensor), widen.matmul(a, b))


# ── operands that are no tensors ─────────────────────────────────────────────


@pytest.mark.parametrize("place", ["a", "b", "c"])
def test_arrays_under_a_gradient_are_refused_with_what_to_write(device, place):
    given = dict(zip("abc", numbers(device, *[(2, 2)] * 3), strict=True))
    given[place] = np.ones((2, 2))
    message = rf"cannot have {place} as ndarray: give torch.from_numpy\({place}\)"
    with pytest.raises(TypeError, match=message) as caught:
        widen.gemm(*given.values(), beta=1.0)
    fix = str(caught.value).rsplit("give ", 1)[1]
    given[place] = eval(fix, {**given, "torch": torch})
    assert widen.gemm(*given.values(), beta=1.0).requires_grad


@pytest.mark.parametrize(("right", "options", "message"), [
    (lambda b: [[1.0]], {}, r"give torch.as_tensor\(b, dtype=torch.float64\)"),
    (lambda b: widen.Words(b, "float64x2"), {}, "words have no gradients, use .detach"),
    (lambda b: widen.encode(b, side="right"), {}, "give the tensor that b was encoded from, or"),
    (lambda b: b, {"info": True}, "cannot have info=: leave that out, or use .detach"),
    (lambda b: b, {"dtype": "float64x2"}, "cannot have dtype=float64x2: leave that out"),
])  # fmt: skip
def test_what_a_gradient_cannot_have_is_named_with_a_fix(device, right, options, message):
    a = torch.ones(1, 1, dtype=torch.float64, device=device)
    with pytest.raises(TypeError, match=message):
        widen.matmul(a.clone().requires_grad_(), right(a), **options)


def test_the_fix_for_operands_in_two_places_works(device):
    tensor, plain = torch.ones(2, 2, dtype=torch.float64, device=device), np.ones((2, 2))
    words, short = widen.Words(plain, "float64x2"), plain.astype(ml_dtypes.bfloat16)
    for a, b in (
        (tensor, plain), (plain, tensor), (tensor, words), (words, tensor), (short, tensor),
        (words.to_torch(device), plain),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="move them to one place first") as caught:
            widen.matmul(a, b)
        given = {"a": a, "b": b, "torch": torch, "np": np}
        fix = str(caught.value).rsplit("give ", 1)[1]
        given[fix.removeprefix("torch.from_numpy(")[0]] = eval(fix, given)
        found = widen.matmul(given["a"], given["b"])
        assert [[float(x) for x in row] for row in found] == [[2, 2], [2, 2]]
