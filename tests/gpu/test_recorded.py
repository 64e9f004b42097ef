"""Products of words, and sums with c, whose launches were recorded: the bits of new calls."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

import widen
from device import ON, moved
from helpers import assert_same_bits, assert_same_words, draw, draw_words
from widen import Words
from widen.calls.check import check_call
from widen.calls.cpu_tensors import as_tensor
from widen.calls.results import check_out
from widen.formats import FORMATS as ALL_FORMATS
from widen.formats import PLAIN
from widen.gpu import products as gpu_products
from widen.gpu import recorded
from widen.options import Options
from widen.stages.problem import Scalars

pytestmark = pytest.mark.device

WIDE = [name for name in ALL_FORMATS if name not in PLAIN]

# Long integers take the interpreter seconds an element: few of them there.
SHAPE = (1, 4, 2) if ON == "cpu" else (70, 200, 130)
FORMATS = ["float64_float32", "complex64x2"] if ON == "cpu" else WIDE


def slowly(values):
    """Values of a parameter, all but the first of them slow where kernels are interpreted."""
    if ON == "cuda":
        return values
    return [values[0], *(pytest.param(value, marks=pytest.mark.slow) for value in values[1:])]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(recorded, "_recordings", recorded.Recordings())
    if ON == "cpu":
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(recorded.private, "is_current", lambda device: True)
        monkeypatch.setattr(recorded, "is_captured", lambda device: False)


def there(x):
    """Arrays or `Words` of arrays as tensors where kernels run."""
    return moved(x) if isinstance(x, Words) else as_tensor(x).to(ON)


def here(x):
    if isinstance(x, Words):
        return Words.of(x.format, [plane.cpu().numpy() for plane in x.planes])
    return x.cpu().numpy()


class Calls:
    """Calls of one kind or several, as `calls.dispatch` makes them; how many are new."""

    def __init__(self, **options):
        self.options, self.new = Options(**options), 0

    def __call__(self, a, b, c=None, alpha=1.0, beta=0.0, out=None):
        scalars = Scalars(alpha, beta, c)
        found = recorded.replayed(a, b, scalars, out, self.options)
        if found is None:
            self.new += 1
            extra = isinstance(alpha, complex) or isinstance(beta, complex)
            call = check_call(a, b, self.options, 1 << 30, complex_scalars=extra)
            if out is not None:
                check_out(out, call, ON)
            found = gpu_products.product(call, scalars, out, self.options)
        return found

    def check(self, a, b, c=None, alpha=1.0, beta=0.0):
        """Against a CPU."""
        given = [None if x is None else there(x) for x in (a, b, c)]
        found = here(self(*given, alpha, beta))
        wanted = widen.gemm(
            a, b, c, alpha=alpha, beta=beta, dtype=self.options.dtype,
            accuracy=self.options.accuracy,
        )  # fmt: skip
        same(found, wanted)


def same(found, wanted):
    (assert_same_words if isinstance(wanted, Words) else assert_same_bits)(found, wanted)


def spoiled(x, at, value):
    """The same with one number changed."""
    other = x.copy()
    if isinstance(x, Words):
        for plane in other.planes:
            plane[(0, *at)] = 0
        other.planes[0][(0, *at)] = value
    else:
        other[at] = value
    return other


def alike(a, b):
    """Operands that need the same planes."""
    yield a, b
    yield a, b[:, ::-1].copy()
    yield -a, b


def hostile(a, b):
    """Operands of one kind: like the first, then such that a guess made for those is wrong."""
    yield a, b
    yield a[::-1].copy(), -b
    yield spoiled(a, (0, 1), np.nan), b
    yield a, spoiled(b, (1, 0), -np.inf)
    yield spoiled(a, (0, 0), 2.0**90), spoiled(b, (0, 1), 2.0**-90)
    yield a * 0.0, b
    yield spoiled(a * 0.0, (0, 0), 1e-310), b
    yield a, b


@pytest.mark.parametrize("name", slowly(FORMATS))
@pytest.mark.parametrize("accuracy", ["standard"] + ["correct", "fast"] * (ON == "cuda"))
def test_words(name, accuracy):
    """Whatever data follow those that were recorded."""
    calls = Calls(dtype=name, accuracy=accuracy)
    for a, b in hostile(*draw_words("phi1", SHAPE, 1, name)):
        calls.check(a, b)
    before = calls.new
    for seed in (1, 1):
        calls.check(*draw_words("phi1", SHAPE, seed, name))
    assert before <= 7
    assert calls.new == before


def test_words_and_floats():
    """Operands of either kind, results of either, and one with the other."""
    (a, b), (x, y) = draw_words("phi1", SHAPE, 2, "float64_float32"), draw("phi1", SHAPE, 3)
    for given, dtype in (((a, y), None), ((x, b), None), ((x, y), "float64_float32")):
        calls = Calls(dtype=dtype)
        for _ in range(3):
            calls.check(*given)
        assert calls.new == 1
    calls = Calls(dtype="float64")
    for sign in (1, -1, 1):
        calls.check(a, sign * b)
    assert calls.new == 1


def test_parts_of_one_matrix():
    """As a factorisation multiplies them; told apart by where they are."""
    m, k, n = SHAPE
    whole, other = (
        moved(draw_words("phi1", (m + k, k + n, k + n), seed, "complex64x2")[0]) for seed in (4, 5)
    )
    calls, pieces = Calls(dtype="complex64x2"), ((slice(k, None), slice(0, k)), slice(0, k))
    for matrix in (whole, other, whole):
        (rows, inner), top = pieces
        a, b = matrix[rows, inner], matrix[top, k:]
        found = here(calls(a, b))
        assert_same_words(found, widen.matmul(here(a), here(b), dtype="complex64x2"))
    assert calls.new == 1
    apart = whole[k:, :k], other[:k, k:]
    found = here(calls(*apart))
    assert_same_words(found, widen.matmul(*map(here, apart), dtype="complex64x2"))
    assert calls.new == 2


def test_planes_that_lie_anywhere():
    """They are brought together every time anew, unless they lie in one block."""
    a, b = draw_words("phi1", SHAPE, 6, "complex64x2")
    calls = Calls(dtype="complex64x2")
    for sign in (1, -1, 1):
        left = Words.of(a.format, [plane.clone() for plane in moved(sign * a).planes])
        found = here(calls(left, moved(b)))
        assert_same_words(found, widen.matmul(sign * a, b, dtype="complex64x2"))
    assert calls.new == 1
    calls.check(a, b)
    assert calls.new == 2


def room(dims, fmt):
    x = Words(np.full(dims, 7.0), fmt)
    return moved(x)


@pytest.mark.parametrize("where", slowly(["operand", "turned", "fresh", "scattered"]))
def test_where_results_go(where):
    size = SHAPE[1]
    shape = (size, size, size) if where == "operand" else SHAPE
    m, _, n = shape
    name = "complex64x2"
    calls = Calls(dtype=name)
    for a, b in alike(*draw_words("phi1", shape, 7, name)):
        left, right = moved(a), moved(b)
        out = left if where == "operand" else room((m, n), name)
        if where == "turned":
            out = room((n, m), name).T
        if where == "scattered":
            out = Words.of(a.format, [plane.clone() for plane in out.planes])
        found = calls(left, right, out=out)
        assert found is out
        assert_same_words(here(out), widen.matmul(a, b, dtype=name))
    assert calls.new == 1


@pytest.mark.parametrize("dtype", slowly(["float64", "complex64"]))
@pytest.mark.parametrize("accuracy", ["standard"] + ["correct", "fast", 40] * (ON == "cuda"))
def test_sums(dtype, accuracy):
    """alpha a b + beta c, whatever data follow."""
    m, _, n = SHAPE
    calls, c = Calls(accuracy=accuracy), draw("phi0", (m, 3, n), 10, dtype, dtype)[1][:m]
    addend = np.ascontiguousarray(np.resize(c, (m, n)))
    for a, b in hostile(*draw("phi1", SHAPE, 11, dtype, dtype)):
        calls.check(a, b, addend, -1.0, 0.5)
    calls.check(a, b, spoiled(addend, (0, 0), np.inf), -1.0, 0.5)
    before = calls.new
    for sign in (1, -1):
        calls.check(a, b, sign * addend, -1.0, 0.5)
    assert calls.new == before


def test_scalars_are_told_apart():
    """Zeros by their signs, real numbers from complex ones; and a sum from a product."""
    a, b = draw("phi1", SHAPE, 12, "complex64", "complex64")
    c = np.ones((SHAPE[0], SHAPE[2]), "complex64")
    calls, kinds = Calls(), [(1.0, 1.0), (2.0, 1.0), (1.0, -1.0), (0.0, 1.0), (-0.0, 1.0)]
    for scalars in (*kinds, (1.0, 1.0 + 0j), *kinds):
        calls.check(a, b, c, *scalars)
    for alpha in (1.0, -1.0, 1.0):
        calls.check(a, b, None, alpha)
    assert calls.new == len(kinds) + 1 + 2


def test_a_sum_in_place():
    """c is read again where a guess is wrong, after a result was written."""
    m, _, n = SHAPE
    calls, given = Calls(), draw("phi1", SHAPE, 13)
    for a, b in hostile(*given):
        c = np.ones((m, n))
        place = there(c.copy())
        found = calls(there(a), there(b), place, -1.0, 1.0, out=place)
        assert found is place
        assert_same_bits(here(place), widen.gemm(a, b, c, alpha=-1.0, beta=1.0))


def test_sums_of_words():
    m, _, n = SHAPE
    name = "complex64x2"
    calls, c = Calls(dtype=name), draw_words("phi0", (m, 3, n), 14, name)[1][:1]
    c = widen.concatenate([c] * m) if hasattr(widen, "concatenate") else np.concatenate([c] * m)
    for a, b in alike(*draw_words("phi1", SHAPE, 15, name)):
        calls.check(a, b, c, -1.0, 1.0)
    assert calls.new == 1


def test_what_is_not_a_tensor_is_not_recorded():
    a, b = map(there, draw("phi1", SHAPE, 17))
    for c in (1.0, 2.0 + 1j, np.ones(SHAPE[2])):
        assert recorded.kind_of(a, b, Scalars(1.0, 1.0, c), None, Options()) is None
    assert recorded.kind_of(a, b, Scalars(), np.ones(3), Options()) is None
    gradient = a.clone().requires_grad_()
    assert recorded.kind_of(gradient, b, Scalars(), None, Options()) is None
    plane = there(np.ones((1, *SHAPE[:2]))).requires_grad_()
    watched = Words.of(ALL_FORMATS["float64x2"], [plane, plane])
    assert recorded.kind_of(watched, b, Scalars(), None, Options()) is None


def test_kinds_of_words():
    """By format, by how planes lie, and by what is asked for."""
    x, y = (moved(w) for w in draw_words("phi1", SHAPE, 18, "float64x2"))
    first, second = x.planes
    others = [
        x, Words.of(x.format, [second, first]), Words.of(x.format, [first, second.clone()]),
        Words.of(x.format, [first, first]), x.astype("float64x3"),
        Words.of(x.format, [plane.mT.contiguous().mT for plane in x.planes]),
    ]  # fmt: skip
    if SHAPE[0] == 1:
        others.pop()  # a single row has no other order
    options = [Options(), Options(dtype=widen.float64x2), Options("fast"), Options(dtype="float64")]
    keys = [recorded.kind_of(z, y, Scalars(), None, Options()).key for z in others]
    keys += [recorded.kind_of(x, y, Scalars(), None, choice).key for choice in options[1:]]
    assert len(set(keys)) == len(keys)
    again = recorded.kind_of(x.copy(), y.copy(), Scalars(), None, Options(dtype="float64x2"))
    assert again.key == recorded.kind_of(x, y, Scalars(), None, options[1]).key
