"""Dot products, contractions and chains: NumPy's shapes, exact sums, one answer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import widen
import widen.numpy as wnp
from helpers import assert_same_bits, draw, slow_except
from widen.formats import BINARY
from widen.stages.rounding import round_once

RNG = np.random.default_rng(1)


def whole(*shape, kind=float):
    """Small integers as floats, whose products and sums are exact in every way."""
    x = RNG.integers(-4, 5, shape).astype(kind)
    return x + 1j * RNG.integers(-4, 5, shape) if kind is complex else x


CALLS = [
    ("dot", ((3,), (3,))), ("dot", ((2, 3), (3, 4))), ("dot", ((2, 3), (3,))),
    ("dot", ((2, 3, 4), (5, 4, 2))), ("dot", ((), (2, 3))), ("dot", ((2,), ())), ("dot", ((), ())),
    ("dot", ((3,), (3, 2))), ("inner", ((3,), (3,))), ("inner", ((2, 3), (4, 5, 3))),
    ("inner", ((), (3,))), ("vdot", ((2, 3), (3, 2))), ("vdot", ((), ())),
    ("outer", ((2, 3), (4,))), ("outer", ((), (2,))), ("vecdot", ((2, 3), (4, 1, 3))),
    ("vecdot", ((3,), (3,))), ("matvec", ((2, 3), (3,))), ("matvec", ((5, 2, 3), (3,))),
    ("matvec", ((2, 3), (4, 3))), ("vecmat", ((3,), (3, 2))), ("vecmat", ((4, 3), (3, 2))),
    ("vecmat", ((3,), (5, 3, 2))), ("tensordot", ((2, 3, 4), (3, 4, 5))),
]  # fmt: skip


@pytest.mark.parametrize("kind", [float, complex, int])
@pytest.mark.parametrize(("name", "shapes"), CALLS)
def test_shapes_and_types_are_numpys(name, shapes, kind):
    a, b = (whole(*shape, kind=kind) for shape in shapes)
    wanted, found = getattr(np, name)(a, b), getattr(widen, name)(a, b)
    assert type(found) is type(wanted)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted, strict=True)
    np.testing.assert_array_equal(getattr(wnp, name)(a, b), wanted, strict=True)
    if a.ndim and b.ndim:
        np.testing.assert_array_equal(getattr(widen, name)(a.tolist(), b.tolist()), wanted)
    tensors = [torch.from_numpy(np.asarray(x)) for x in (a, b)]
    np.testing.assert_array_equal(getattr(widen, name)(*tensors).numpy(), wanted)
    if kind is float:
        words = getattr(widen, name)(*(widen.Words(x, "float64x2") for x in (a, b)))
        np.testing.assert_array_equal(words.to_numpy(), wanted)
        out = np.empty_like(wanted)
        assert getattr(widen, name)(a, b, out=out) is out
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("axes", [0, 1, (0, 1), ([1, 0], [0, 1]), ([-1], [0]), ((), ())])
def test_axes_of_tensordot(axes):
    a, b = whole(3, 4), whole(4, 3)
    if axes == (0, 1):
        b = whole(2, 3)
    wanted = np.tensordot(a, b, axes)
    np.testing.assert_array_equal(widen.tensordot(a, b, axes), wanted, strict=True)


def test_refusals_of_products():
    with pytest.raises(ValueError, match="do not match"):
        widen.tensordot(whole(2, 3), whole(2, 3), 1)
    with pytest.raises(ValueError, match="axes=3"):
        widen.tensordot(whole(2, 3), whole(2, 3), 3)
    with pytest.raises(ValueError, match="as many axes"):
        widen.tensordot(whole(2, 3), whole(2, 3), ([0], [0, 1]))
    with pytest.raises(ValueError, match="axis 2 does not exist"):
        widen.tensordot(whole(2, 3), whole(2, 3), ([2], [0]))
    with pytest.raises(ValueError, match="x1 has shape"):
        widen.matvec(whole(3), whole(3))
    with pytest.raises(ValueError, match="axis 1 does not exist"):
        widen.vecdot(whole(3), whole(3), axis=1)
    with pytest.raises(ValueError, match="do not match"):
        widen.vdot(whole(3), whole(2))
    with pytest.raises(TypeError, match="a is a dict"):
        widen.dot({}, whole(2))


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=6))
def test_dot_products_are_rounded_once(pairs):
    x, y = (np.array([pair[at] for pair in pairs]) for at in (0, 1))
    exact = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
    wanted = np.float64(round_once(exact, BINARY["float64"]))
    for name in ("dot", "vdot", "inner", "vecdot"):
        assert_same_bits(getattr(widen, name)(x, y), wanted)
    assert_same_bits(widen.einsum("i,i", x, y, accuracy="correct"), wanted)


# ── einsum ───────────────────────────────────────────────────────────────────

SUMS = [
    "ij,jk->ik", "ij,jk", "ij,kj->ki", "ii", "ii->i", "ij->ji", "ij->", "ij->j", "i,i", "i,j",
    "i,j->ji", "i,i->i", "ij,ij->ij", "ij,ij->", "ij,jk->k", "ij,jk->", "ij,kl->", "ij,kl->ki",
    "...ij,...jk->...ik", "i...->...", "...i->i...", "...,...", "i...,i...->...", "ij...,jk...",
    "iij,jk->ik", "iii->i", "ij,jk,kl->il", "ij,jk,kl->", "i,i,i->i", "i,j,k->kji",
    "ij,ik,il->jkl", "abc,cd,de,ae->b", "bij,bjk->bik", "bij,jk->bik", "a,ab,abc->abc",
    " i j , j k -> i k ", "ij,j,jk->ik", ",ij", ",",
]  # fmt: skip
SIZES = {label: 2 + at % 3 for at, label in enumerate("ijklabcde")}


def operands_of(subscripts, dots=(), sizes=SIZES, kind=float):
    left = subscripts.replace(" ", "").partition("->")[0]
    made = []
    for word in left.split(","):
        before, there, after = word.partition("...")
        shape = [sizes[x] for x in before] + list(dots if there else ()) + [sizes[x] for x in after]
        made.append(whole(*shape, kind=kind))
    return made


@pytest.mark.parametrize("subscripts", SUMS)
@pytest.mark.parametrize("kind", slow_except([float], [float, int, complex]))
def test_sums_by_labels_are_numpys(subscripts, kind):
    given_ = operands_of(subscripts, (3, 2), kind=kind)
    wanted = np.einsum(subscripts, *given_)
    for optimize in (False, True, "optimal"):
        found = widen.einsum(subscripts, *given_, optimize=optimize)
        np.testing.assert_array_equal(found, wanted)
        assert np.shape(found) == np.shape(wanted)
        assert found.dtype == wanted.dtype
    if kind is float:
        tensors = [torch.from_numpy(np.asarray(x)) for x in given_]
        np.testing.assert_array_equal(widen.einsum(subscripts, *tensors).numpy(), wanted)
        words = [widen.Words(x, "float64x2") for x in given_]
        np.testing.assert_array_equal(widen.einsum(subscripts, *words).to_numpy(), wanted)


def test_broadcasting_by_labels():
    for subscripts, shapes in (
        ("ij,ij->ij", ((1, 3), (2, 3))), ("ij,jk->ik", ((2, 1), (3, 4))), ("ii->i", ((1, 3),)),
        ("...i,...i->...", ((2, 1, 3), (4, 3))), ("i,i->", ((1,), (5,))),
    ):  # fmt: skip
        given_ = [whole(*shape) for shape in shapes]
        try:
            wanted = np.einsum(subscripts, *given_)
        except ValueError:
            continue
        np.testing.assert_array_equal(widen.einsum(subscripts, *given_), wanted)


def test_lists_of_labels():
    a, b = whole(2, 3), whole(3, 4)
    np.testing.assert_array_equal(widen.einsum(a, [0, 1], b, [1, 2], [2, 0]), (a @ b).T)
    np.testing.assert_array_equal(widen.einsum(a, [0, 1], b, [1, 2]), a @ b)
    c = whole(5, 2, 3)
    np.testing.assert_array_equal(widen.einsum(c, [..., 1], b, [1, 2], [..., 2]), c @ b)


def test_a_contraction_of_two_is_one_sum():
    """Labels of one operand alone are part of the same exact sum."""
    a, b = draw("phi2", (5, 6, 3), 2)
    found = widen.einsum("ij,jk->k", a, b, accuracy="correct")
    for k in range(3):
        terms = (Fraction(a[i, j]) * Fraction(b[j, k]) for i in range(5) for j in range(6))
        assert found[k] == round_once(sum(terms, Fraction(0)), BINARY["float64"])


def test_the_order_is_from_left_to_right_whatever_the_sizes():
    a, b, c = (RNG.standard_normal((4, 4)) for _ in range(3))
    wanted = widen.matmul(widen.matmul(a, b), c)
    assert_same_bits(widen.einsum("ij,jk,kl->il", a, b, c), wanted)
    assert_same_bits(widen.einsum("ij,jk,kl->il", a[:1], b, c), wanted[:1])
    other = widen.matmul(a, widen.matmul(b, c))
    path = ["einsum_path", (1, 2), (0, 1)]
    assert_same_bits(widen.einsum("ij,jk,kl->il", a, b, c, optimize=path), other)


def test_more_operands_have_the_widest_format():
    a, b, c = whole(2, 2), whole(2, 2).astype(np.float32), whole(2, 2).astype(np.float32)
    assert widen.einsum("ij,jk,kl", b, c, a).dtype == np.float64
    assert widen.einsum("ij,jk,kl", b, c, b).dtype == np.float32
    assert widen.einsum("ij,jk,kl", b, c, b, dtype="float64x2").dtype == widen.float64x2


@pytest.mark.parametrize(
    ("subscripts", "shapes", "words"),
    [
        ("ij,jk", ((2, 3),), "2 operands; 1"),
        ("ij", ((2, 3, 4),), "labels 2 axes of 3"),
        ("ijk", ((2, 3),), "labels 3 axes of 2"),
        ("i,i", ((2,), (3,)), "sizes 2 and 3"),
        ("i->ii", ((2,),), "twice"),
        ("i->j", ((2,),), "no operand"),
        ("i1", ((2, 2),), "labels are letters"),
        ("...i->i", ((2, 2),), "the result has none"),
        ("i......", ((2, 2),), "labels are letters"),
    ],
)
def test_labels_that_are_refused(subscripts, shapes, words):
    with pytest.raises(ValueError, match=words):
        widen.einsum(subscripts, *(whole(*shape) for shape in shapes))


def test_paths_that_are_refused():
    given_ = [whole(2, 2)] * 3
    for path, words in (([(0, 1)], "leaves 2"), ([(0, 3), (0, 1)], "no operands"),
                        ([(0, 0), (0, 1)], "no operands")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            widen.einsum("ij,jk,kl", *given_, optimize=path)


# ── chains and powers ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "shapes",
    [((2, 3), (3, 4)), ((2, 3), (3, 4), (4, 5)), ((3,), (3, 4), (4,)), ((5,), (5, 1), (1, 7)),
     ((10, 30), (30, 5), (5, 60), (60, 2)), ((3,), (3,))],
)  # fmt: skip
@pytest.mark.parametrize("kind", [float, int, complex])
def test_chains_are_numpys(shapes, kind):
    given_ = [whole(*shape, kind=kind) for shape in shapes]
    wanted = np.linalg.multi_dot(given_) if len(given_) > 1 else None
    found = widen.multi_dot(given_)
    np.testing.assert_array_equal(found, wanted)
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_array_equal(wnp.linalg.multi_dot(given_), wanted)


def test_the_order_of_a_chain_takes_the_fewest_operations():
    a, b, x = (RNG.standard_normal(s) for s in ((30, 30), (30, 30), (30,)))
    assert_same_bits(widen.multi_dot([a, b, x]), widen.matmul(a, widen.matmul(b, x)))
    wide = widen.multi_dot([a, b, x], dtype="float64x2")
    assert wide.dtype == widen.float64x2


def test_refusals_of_chains():
    with pytest.raises(ValueError, match="two or more"):
        widen.multi_dot([whole(2, 2)])
    with pytest.raises(ValueError, match=r"arrays\[1\] has shape"):
        widen.multi_dot([whole(2, 2), whole(2), whole(2, 2)])
    with pytest.raises(ValueError, match="arrays 0 and 1 do not match"):
        widen.multi_dot([whole(2, 3), whole(2, 3)])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, -1, -2])
@pytest.mark.parametrize("kind", [float, int])
def test_powers(n, kind):
    a = np.array([[2, 1], [1, 1]], kind)
    if n >= 0:
        wanted = np.linalg.matrix_power(a, n)
        np.testing.assert_array_equal(widen.matrix_power(a, n), wanted, strict=True)
    else:
        inverse = np.array([[1, -1], [-1, 2]], float)
        wanted = np.linalg.matrix_power(inverse, -n)
        np.testing.assert_array_equal(widen.matrix_power(a, n), wanted)
    batch = widen.matrix_power(np.stack([a, a.T]), n, dtype="float64")
    assert batch.dtype == np.float64
    np.testing.assert_array_equal(batch[0], wanted)
    tensor = widen.matrix_power(torch.from_numpy(a.astype(float)), n)
    np.testing.assert_array_equal(tensor.numpy(), wanted)
    words = widen.matrix_power(widen.Words(a, "float64x2"), n)
    np.testing.assert_array_equal(words.to_numpy(), wanted)


def test_powers_of_special_values_and_refusals():
    a = np.array([[np.inf, 0.0], [0.0, 1.0]])
    assert_same_bits(widen.matrix_power(a, 1), a)
    assert widen.matrix_power(a, 1) is not a
    with pytest.raises(ValueError, match="square"):
        widen.matrix_power(np.ones((2, 3)), 2)
    with pytest.raises(TypeError, match="not an integer"):
        widen.matrix_power(np.ones((2, 2)), 2.0)


@pytest.mark.slow
def test_gradients():
    x, y = (torch.randn(3, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for call in (
        widen.dot, widen.inner, widen.outer, widen.vdot, widen.vecdot, widen.tensordot,
        lambda a, b: widen.matvec(a, b), lambda a, b: widen.vecmat(a, b[None]),
        lambda a, b: widen.einsum("ij,kj->i", a, b), lambda a, b: widen.multi_dot([a, b, a]),
        lambda a, b: widen.matrix_power(a, 3) + b,
    ):  # fmt: skip
        assert torch.autograd.gradcheck(call, (x, y))


# ── NumPy's names ────────────────────────────────────────────────────────────


def test_what_is_not_there_says_so():
    for module, name in ((wnp, "exp"), (wnp.linalg, "qr"), (wnp, "array")):
        with pytest.raises(AttributeError, match=f"has no '{name}'.*use numpy"):
            getattr(module, name)
    assert set(wnp.__all__) <= set(dir(np))
    assert set(wnp.linalg.__all__) <= set(dir(np.linalg))


def test_positions_are_numpys():
    a, out = whole(2, 2), np.empty((2, 2))
    for name in ("matmul", "dot", "outer"):
        given_ = (a[0], a[1]) if name == "outer" else (a, a)
        assert getattr(wnp, name)(*given_, out) is out
        np.testing.assert_array_equal(out, getattr(np, name)(*given_))
    np.testing.assert_array_equal(wnp.sum(a, 0, np.float32, None, True), a.sum(0, keepdims=True))
    assert wnp.linalg.norm(a, None, 1, True).shape == (2, 1)
    np.testing.assert_array_equal(wnp.linalg.matrix_power(a, 2), a @ a)
    assert wnp.linalg.norm(np.diag([3.0, -5.0]), 2) == 5.0
    np.testing.assert_array_equal(wnp.linalg.tensordot(a, a, axes=1), a @ a)
    np.testing.assert_array_equal(wnp.linalg.vecdot(a, a), (a * a).sum(1))
    np.testing.assert_array_equal(wnp.linalg.matmul(a, a), a @ a)
    np.testing.assert_array_equal(wnp.linalg.outer(a[0], a[1]), np.outer(a[0], a[1]))
    np.testing.assert_array_equal(wnp.linalg.solve(np.eye(2), a), a)


def test_subclasses_of_numpy_s_arrays():
    """The axes of np.matrix never go; a mask would be dropped, or numbers left out, silently."""
    a = whole(3, 4)
    matrix, masked = np.asmatrix(a), np.ma.array(a, mask=a > 1)
    assert widen.norm(matrix) == widen.norm(a)
    assert_same_bits(widen.sum(matrix, 0), widen.sum(a, 0))
    assert_same_bits(widen.einsum("ij->ji", matrix), a.T)
    for x in (masked, masked.astype(int)):
        for function in (widen.norm, widen.sum, lambda x: widen.einsum("ij->ji", x)):
            with pytest.raises(TypeError, match=r"masked array.*filled\(0\)"):
                function(x)


def test_an_einsum_of_nothing():
    with pytest.raises(ValueError, match="einsum takes subscripts and operands"):
        widen.einsum(whole(2, 2))
