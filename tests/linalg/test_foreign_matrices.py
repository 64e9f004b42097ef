"""`linalg` takes what `matmul` takes: lists, integers, DLPack, `__array__`, JAX, CuPy."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import widen

linalg = widen.linalg

A = [[4, 1, 0], [1, 3, 1], [0, 1, 2]]
B = [1, 2, 4]
CALLS = {
    "cholesky": (A,), "cond": (A,), "det": (A,), "eigh": (A,), "eigvalsh": (A,), "inv": (A,),
    "is_positive_definite": (A,), "lstsq": (A, B), "lu_factor": (A,), "matrix_rank": (A,),
    "norm": (A,), "pinv": (A,), "qr": (A,), "slogdet": (A,), "solve": (A, B),
    "solve_triangular": (A, B), "svd": (A,), "svdvals": (A,),
}  # fmt: skip
functions = pytest.mark.parametrize("name", CALLS)


class HasArray:
    def __init__(self, x):
        self.x = np.array(x)

    def __array__(self, dtype=None, copy=None):
        return self.x if dtype is None else self.x.astype(dtype)


class HasDLPack:
    def __init__(self, x):
        self.x = np.array(x)

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def parts_of(value):
    return value if isinstance(value, tuple) else (value,)


def wanted_of(name):
    return parts_of(getattr(linalg, name)(*(np.array(x, float) for x in CALLS[name])))


def test_every_function_is_in_the_table():
    functions = {name for name in linalg.__all__ if name[0].islower()}
    assert functions == {*CALLS, "lu_solve"}


@functions
def test_whatever_becomes_an_array(name):
    wanted = wanted_of(name)
    for kind in (list, tuple, HasArray, HasDLPack, np.array, lambda x: np.array(x, np.uint8)):
        found = parts_of(getattr(linalg, name)(*map(kind, CALLS[name])))
        for ours, theirs in zip(found, wanted, strict=True):
            assert type(ours) is type(theirs)
            np.testing.assert_array_equal(ours, theirs)
    integers = parts_of(getattr(linalg, name)(*map(torch.tensor, CALLS[name])))
    for ours, theirs in zip(integers, wanted, strict=True):
        assert isinstance(ours, torch.Tensor) or np.ndim(theirs) == 0
        if not np.issubdtype(np.asarray(theirs).dtype, np.integer):  # pivots count from 1 there
            np.testing.assert_array_equal(np.asarray(ours), theirs)


@functions
def test_arrays_of_jax(name):
    with jax.enable_x64(True):
        found = getattr(linalg, name)(*map(jnp.asarray, CALLS[name]))
        for ours, theirs in zip(parts_of(found), wanted_of(name), strict=True):
            assert isinstance(ours, jax.Array | bool | int)
            np.testing.assert_array_equal(np.asarray(ours), theirs)
        with pytest.raises(TypeError, match="traced by JAX"):
            jax.jit(getattr(linalg, name))(*map(jnp.asarray, CALLS[name]))


def test_formats_that_jax_keeps():
    a, b = jnp.asarray(A, jnp.float32), jnp.asarray(B)
    found = linalg.solve(a, b)
    assert found.dtype == jnp.float32
    exact = linalg.solve(np.array(A, "float32"), np.array(B, "float32"))
    np.testing.assert_array_equal(np.asarray(found), exact)
    assert linalg.inv(jnp.asarray(A)).dtype == jnp.float32
    lu, pivots = linalg.lu_factor(a)
    assert pivots.dtype == jnp.int32
    np.testing.assert_allclose(linalg.lu_solve((lu, pivots), b), exact, rtol=1e-6)
    with pytest.raises(ValueError, match="several words"):
        linalg.solve(a, b, dtype="float64x2")
    with pytest.raises(ValueError, match="JAX keeps float32"):
        linalg.solve(a, b, dtype="float64")
    _, info = linalg.solve(a, b, info=True)
    assert type(info.radius) is np.ndarray


def test_defaults_are_those_of_products():
    a, b = np.array(A), np.array(B)
    for left, right in [("int64", "float32"), ("int8", "float32"), ("float32", "int8")]:
        found = linalg.solve(a.astype(left), b.astype(right))
        assert found.dtype == widen.matmul(a.astype(left), b.astype(right)).dtype
    assert linalg.solve(torch.tensor(A), torch.tensor(B).float()).dtype == torch.float32
    assert linalg.solve(a, b).dtype == np.float64
    assert linalg.solve(a, b.astype("float16")).dtype == np.float64
    assert linalg.solve(a.astype("int8"), b.astype("float16")).dtype == np.float32
    assert linalg.solve(a, widen.Words(b, "float64x2")).format.name == "float64x2"


def test_triangles_as_lists():
    lu, pivots = linalg.lu_factor(A)
    assert linalg.lu_solve((lu.tolist(), pivots.tolist()), B).tolist() == (
        linalg.lu_solve((lu, pivots), np.array(B, float)).tolist()
    )


def test_what_is_refused_is_refused_by_name():
    with pytest.raises(TypeError, match="a is a str"):
        linalg.inv("a")
    with pytest.raises(ValueError, match="a is a scalar"):
        linalg.inv(3)
    with pytest.raises(ValueError, match="b is a list that is no array"):
        linalg.solve(A, [[1], [1, 2], [3]])
    with pytest.raises(ValueError, match="a holds 9007199254740993"):
        linalg.det([[2**53 + 1]])
    with pytest.raises(ValueError, match="move them to one place"):
        linalg.solve(torch.tensor(A), B)
    with pytest.raises(TypeError, match="masked"):
        linalg.inv(np.ma.masked_array(np.eye(2)))


class OfCupy(HasDLPack):
    """An array as CuPy's are, in memory of NumPy's."""

    def __init__(self, x):
        super().__init__(x)
        self.device, self.strides = type("Device", (), {"id": 0})(), x.strides


@functions
def test_arrays_of_cupy(name, monkeypatch):
    """By a module that stands in for CuPy, which needs a GPU."""
    module = type(sys)("cupy")
    stream = type("Stream", (), {"ptr": 1})()
    module.ndarray, module.from_dlpack = OfCupy, lambda x: OfCupy(x.numpy())
    module.cuda = type("cuda", (), {"get_current_stream": staticmethod(lambda device: stream)})
    monkeypatch.setitem(sys.modules, "cupy", module)
    entered = []
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda *given: given)
    monkeypatch.setattr(torch.cuda, "stream", lambda same: entered.append(same) or nullcontext())
    found = getattr(linalg, name)(*(OfCupy(np.array(x, float)) for x in CALLS[name]))
    assert entered == [(1, 0)]
    for ours, theirs in zip(parts_of(found), wanted_of(name), strict=True):
        if name != "lu_factor" or np.asarray(theirs).dtype.kind == "f":
            np.testing.assert_array_equal(getattr(ours, "x", ours), theirs)
