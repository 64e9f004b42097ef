"""Every name of `widen.numpy` beside NumPy's: shapes, dtypes, kinds of results and of errors."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widen.numpy as wnp

PAIRS = ["matmul", "dot", "vdot", "inner", "outer", "tensordot", "vecdot", "matvec", "vecmat"]
CHANGED = {"solve", "inv", "det", "slogdet", "lstsq", "pinv", "eigh", "eigvalsh", "svd", "svdvals",
           "cholesky", "cond", "matrix_rank"}  # fmt: skip
"""Functions of `numpy.linalg` that are those of `widen.linalg`, with its arguments."""

UFUNC = {"axes", "axis", "keepdims", "casting", "order", "subok", "signature"}
"""Keywords of NumPy's generalised functions that are not here; einsum has some of them, too."""


def outcome(call: Any, *given: Any, **options: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return call(*given, **options)
    except Exception as error:
        return error


def compare(ours: Any, theirs: Any, what: str) -> None:
    """The same kind of result, or an error that whoever catches NumPy's catches as well."""
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"{what}: {theirs!r}, ours {ours!r}"
        kinds = (type(theirs), ValueError, TypeError)
        assert isinstance(ours, kinds), f"{what}: {theirs!r}, ours {ours!r}"
        return
    assert not isinstance(ours, Exception), f"{what}: ours {ours!r}"
    assert type(ours) is type(theirs), what
    assert (np.shape(ours), ours.dtype) == (np.shape(theirs), theirs.dtype), what
    rough = 1e-2 if ours.dtype == np.float16 else 1e-4
    np.testing.assert_allclose(ours, theirs, rtol=rough, atol=rough, err_msg=what)


SHAPES = [(), (3,), (0,), (1,), (2, 3), (3, 2), (0, 3), (3, 3), (2, 3, 3), (1, 2, 3)]
DTYPES = ["f8", ">f8", "f4", "f2", "c16", "c8", "i8", "u1", "?"]


@st.composite
def operands(draw: st.DrawFn) -> Any:
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.integers(0, 5, shape).astype(dtype)
    kind = draw(st.sampled_from(["array", "list", "fortran", "strided"]))
    if kind == "list":
        return x.tolist()
    if kind == "fortran":
        return np.asfortranarray(x)
    return np.repeat(x, 2, -1)[..., ::2] if kind == "strided" and x.ndim else x


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PAIRS), operands(), operands())
def test_products_of_two(name: str, x: Any, y: Any) -> None:
    compare(outcome(getattr(wnp, name), x, y), outcome(getattr(np, name), x, y), name)


AXES = [None, 0, -1, 1, (0,), (0, 1), (), 7, (0, 0), 1.5]


@settings(max_examples=60, deadline=None)
@given(
    operands(), st.sampled_from(AXES), st.booleans(), st.sampled_from([None, "f8", "f4", "i8"]),
    st.sampled_from([0, 2]),
)  # fmt: skip
def test_sums(x: Any, axis: Any, keepdims: bool, dtype: Any, initial: Any) -> None:
    if dtype == "i8" and np.asarray(x).dtype.kind not in "iub":
        dtype = None  # NumPy rounds numbers to integers first
    if np.asarray(x).dtype.kind == "c" and dtype is not None:
        dtype = "c16"  # NumPy drops imaginary parts
    options = {"axis": axis, "keepdims": keepdims, "dtype": dtype, "initial": initial}
    compare(outcome(wnp.sum, x, **options), outcome(np.sum, x, **options), f"{x!r} {options}")


@settings(max_examples=60, deadline=None)
@given(operands(), st.sampled_from([None, 1, 2, np.inf, -np.inf, 0, "fro", "x"]),
       st.sampled_from([None, 0, -1, (0, 1), 7]), st.booleans())  # fmt: skip
def test_norms(x: Any, order: Any, axis: Any, keepdims: bool) -> None:
    array = np.asarray(x)
    if array.size == 0 or array.ndim == 0 or array.dtype == np.float16:
        return  # NumPy has its own rules of nothing, and computes halves in halves
    theirs = outcome(np.linalg.norm, x, order, axis, keepdims)
    compare(outcome(wnp.linalg.norm, x, order, axis, keepdims), theirs, f"{x!r} {order} {axis}")


SQUARES = [(3, 3), (2, 2, 2), (2, 3), (3,), (0, 0)]
POWERS = [
    (shape, n)
    for shape, n in itertools.product(SQUARES, [-1, 0, 1, 2, 3, True, 2.0, "2"])
    if (shape, n) != ((0, 0), -1)  # widen.linalg.inv has no inverse of nothing
]


@pytest.mark.parametrize(("shape", "n"), POWERS)
def test_powers(shape: tuple[int, ...], n: Any) -> None:
    x = np.random.default_rng(1).standard_normal(shape)
    compare(outcome(wnp.linalg.matrix_power, x, n), outcome(np.linalg.matrix_power, x, n), str(n))


@pytest.mark.parametrize("call", [
    lambda m: m.matmul(np.ones((2, 3)), np.ones((3, 2)), np.empty((2, 2))),
    lambda m: m.matmul(np.ones((2, 3)), np.ones((3, 2)), out=np.empty((3, 2))),
    lambda m: m.dot(np.ones(3), np.ones((3, 2)), np.empty(2)),
    lambda m: m.outer([1.0, 2.0], [3], out=np.empty((2, 1))),
    lambda m: m.sum(np.ones((2, 3)), 0, None, np.empty(3)),
    lambda m: m.sum(np.ones((2, 3)), where=[True, False, True]),
    lambda m: m.sum(np.ones((2, 3)), axis=1, initial=1.0, keepdims=True),
    lambda m: m.sum(np.ones((2, 3)), axis=2),
    lambda m: m.sum(np.array([1, 2, None])),
    lambda m: m.linalg.norm(np.array([1, "x"], object)),
    lambda m: m.tensordot(np.ones((2, 3)), np.ones((3, 2)), ([1], [0])),
    lambda m: m.tensordot(np.ones((2, 3)), np.ones((2, 3))),
    lambda m: m.tensordot(np.ones((2, 3)), np.ones((2, 3)), 5),
    lambda m: m.tensordot(np.ones((2, 3)), np.ones((2, 3)), ([5], [0])),
    lambda m: m.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((3, 2)), optimize=True),
    lambda m: m.einsum("ij->", np.ones((2, 3))),
    lambda m: m.einsum("i,i", [1.0, 2.0], [3, 4]),
    lambda m: m.einsum("ij,j", np.ones((2, 3)), np.ones(2)),
    lambda m: m.einsum("i->j", np.ones(2)),
    lambda m: m.einsum(np.ones((2, 3)), [0, 1], np.ones(3), [1], [0]),
    lambda m: m.vecdot(np.ones((2, 3)), np.ones((2, 3)), axis=0),
    lambda m: m.vecdot(np.ones((2, 3)), np.ones((2, 3)), axis=4),
    lambda m: m.linalg.multi_dot([np.ones((2, 3)), np.ones((3, 2)), np.ones(2)]),
    lambda m: m.linalg.multi_dot([np.ones((2, 3, 1)), np.ones((3, 2))]),
    lambda m: m.linalg.multi_dot([np.ones((2, 3))]),
    lambda m: m.linalg.tensordot(np.ones((2, 3)), np.ones((2, 3)), axes=2),
    lambda m: m.linalg.vecdot([1.0, 2.0], [3.0, 4.0], axis=0),
    lambda m: m.linalg.outer([1.0, 2.0], [3.0, 4.0]),
    lambda m: m.linalg.matmul([[1.0, 2.0]], [[3.0], [4.0]]),
])  # fmt: skip
def test_keywords_outputs_and_errors(call: Any) -> None:
    compare(outcome(call, wnp), outcome(call, np), inspect.getsource(call))


def test_results_go_where_they_are_asked_to() -> None:
    for call in (
        lambda m, out: m.matmul(np.ones((2, 3)), np.ones((3, 2)), out=out),
        lambda m, out: m.dot(np.ones((2, 3)), np.ones((3, 2)), out=out),
        lambda m, out: m.einsum("ij,jk->ik", np.ones((2, 3)), np.ones((3, 2)), out=out),
        lambda m, out: m.linalg.multi_dot([np.ones((2, 3)), np.ones((3, 2))], out=out),
        lambda m, out: m.sum(np.ones((3, 2, 2)), axis=0, out=out),
    ):
        out = np.zeros((2, 2))
        assert call(wnp, out) is out
        assert (out == 3).all()


def test_arguments_have_numpys_names_in_numpys_order() -> None:
    for ours, theirs in ((wnp, np), (wnp.linalg, np.linalg)):
        for name in set(ours.__all__) - {"linalg"} - CHANGED:
            known = inspect.signature(getattr(ours, name)).parameters
            missing = set(inspect.signature(getattr(theirs, name)).parameters) - set(known)
            assert missing <= UFUNC | {"kwargs"}, name
            places = [p.name for p in known.values() if p.kind is not p.KEYWORD_ONLY]
            wanted = [p.name for p in inspect.signature(getattr(theirs, name)).parameters.values()
                      if p.kind is not p.KEYWORD_ONLY]  # fmt: skip
            if name != "einsum":
                assert places == wanted[: 5 if name == "sum" else None], name


def test_sums_of_integers_fit_or_say_so() -> None:
    x = np.array([200, 100], np.uint8)
    assert wnp.sum(x, dtype="int16") == 300
    with pytest.raises(OverflowError):
        wnp.sum(x, dtype="uint8")
    for kind in (int, np.int64, "int64", "i8"):
        assert wnp.sum(x, dtype=kind).dtype == np.int64
