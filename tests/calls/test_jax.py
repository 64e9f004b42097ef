"""JAX's arrays: the bits of NumPy's, outside and inside of jit, vmap, grad and jvp.

They are where JAX puts them, which is a GPU if it has one.
"""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need the GPU's memory

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import widen
from helpers import draw
from widen.calls.foreign import arrays
from widen.calls.foreign import jax as foreign_jax

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def in_64_bits():
    with jax.enable_x64(True):
        yield


def correct(a, b):
    return widen.matmul(a, b, accuracy="correct")


def same(found, wanted):
    assert isinstance(found, jax.Array)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(found), wanted)


A, B = draw("phi1", (5, 40, 6), 1)
WANTED = widen.matmul(A, B, accuracy="correct")


def test_outside_and_inside_of_jit():
    a, b = jnp.asarray(A), jnp.asarray(B)
    same(correct(a, b), WANTED)
    assert correct(a, b).devices() == a.devices()
    same(jax.jit(correct)(a, b), WANTED)
    same(correct(a, B), WANTED)
    same(correct(A.tolist(), b), WANTED)
    same(jax.jit(lambda x: correct(x, B[:, 0]))(a), WANTED[:, 0])
    same(jax.jit(lambda y: correct(A[0], y))(b), WANTED[0])


def test_floats_on_a_gpu_are_multiplied_there(monkeypatch):
    """As tensors; without a GPU arrays of a CPU stand for them, which DLPack moves as well."""
    a, b, c = jnp.asarray(A), jnp.asarray(B), jnp.asarray(WANTED)
    if jax.default_backend() != "gpu":
        monkeypatch.setattr(foreign_jax, "_are_on_a_gpu", lambda given: True)
        monkeypatch.setattr(arrays, "gpu_is_served", lambda: True)
    monkeypatch.setattr(foreign_jax.Choices, "on_host", None)
    same(correct(a, b), WANTED)
    assert correct(a, b).devices() == a.devices()
    found = widen.gemm(a, b, c, alpha=2.0, beta=-1.0, accuracy="correct")
    same(found, widen.gemm(A, B, WANTED, alpha=2.0, beta=-1.0, accuracy="correct"))
    same(correct(a.astype("float32"), b[:, 0].astype("float32")),
         correct(A.astype("float32"), B[:, 0].astype("float32")))  # fmt: skip
    same(jax.vmap(lambda row: correct(row, b))(a), WANTED)
    gradient = jax.grad(lambda x: correct(x, b).sum())(a)
    same(gradient, correct(np.ones((5, 6)), B.T))


@pytest.mark.gpu
def test_jax_has_the_gpu():
    """Otherwise the tests of this file say nothing of JAX on one."""
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    found = correct(jnp.asarray(A), jnp.asarray(B))
    assert {device.platform for device in found.devices()} == {"gpu"}
    same(found, WANTED)


@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct", 40])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "complex64", "complex128"])
def test_formats_and_contracts(accuracy, dtype):
    a, b = draw("phi0", (3, 9, 4), 2, dtype)
    wanted = widen.matmul(a, b, accuracy=accuracy)
    for call in (widen.matmul, jax.jit(widen.matmul, static_argnames="accuracy")):
        same(call(jnp.asarray(a), jnp.asarray(b), accuracy=accuracy), wanted)
    found = widen.matmul(jnp.asarray(a), jnp.asarray(b), accuracy=accuracy, dtype="complex128")
    same(found, widen.matmul(a, b, accuracy=accuracy, dtype="complex128"))


def test_vmap():
    a, b = jnp.asarray(A), jnp.asarray(B)
    same(jax.vmap(lambda row: correct(row, b))(a), WANTED)
    same(jax.vmap(correct, (None, 1), 1)(a, b), WANTED)
    same(jax.jit(jax.vmap(jax.vmap(correct, (None, 1)), (0, None)))(a, b), WANTED)
    c = jnp.arange(6.0)
    added = jax.vmap(lambda one: widen.gemm(a, b, one, beta=1.0, accuracy="correct"))(c)
    for item, number in zip(added, c, strict=True):
        same(item, widen.gemm(A, B, float(number), beta=1.0, accuracy="correct"))


def test_derivatives_are_products_with_the_same_contract():
    a, b = jnp.asarray(A), jnp.asarray(B)
    weight = np.random.default_rng(3).standard_normal(WANTED.shape)

    def loss(x, y):
        return (correct(x, y) * weight).sum()

    left, right = jax.grad(loss, (0, 1))(a, b)
    same(left, widen.matmul(weight, B.T, accuracy="correct"))
    same(right, widen.matmul(A.T, weight, accuracy="correct"))
    _, tangent = jax.jvp(correct, (a, b), (a, jnp.zeros_like(b)))
    same(tangent, WANTED)


def test_a_repeated_operand_has_one_sum():
    """Not products that are summed afterwards: all of it is rounded once."""
    x, y = draw("phi2", (4, 9, 3), 4)
    many = np.stack([x * 3.0**i for i in range(5)])
    weight = np.random.default_rng(5).standard_normal((5, 4, 3))
    found = jax.grad(lambda b: (correct(jnp.asarray(many), b) * weight).sum())(jnp.asarray(y))
    wanted = correct(many.transpose(2, 0, 1).reshape(9, 20), weight.reshape(20, 3))
    same(found, wanted)


def gemm(a, b, c):
    return widen.gemm(a, b, c, alpha=2.0, beta=-3.0)


@pytest.mark.slow
@pytest.mark.parametrize("function", [widen.matmul, gemm])
def test_against_finite_differences(function):
    rng = np.random.default_rng(6)
    a, b, c = (jnp.asarray(rng.standard_normal(s)) for s in ((3, 1, 2, 4), (5, 4, 3), (5, 1, 3)))
    given = (a, b, c) if function is gemm else (a, b)
    check_grads(function, given, 2, modes=["fwd", "rev"])
    check_grads(jax.jit(function), given, 1, modes=["fwd", "rev"])
    vectors = (a[0, 0, 0], b[0], c[0, 0]) if function is gemm else (a[0, 0, 0], b[0])
    check_grads(function, vectors, 2, modes=["fwd", "rev"])


@pytest.mark.slow
def test_complex_derivatives():
    rng = np.random.default_rng(7)
    x, y = (jnp.asarray(rng.standard_normal(s)) for s in ((2, 3), (3, 2)))
    for a, b in ((x + 1j * x[::-1], y), (x, y + 2j * y), (x + 1j, y - 1j)):
        check_grads(widen.matmul, (a, b), 2, modes=["fwd", "rev"])
        check_grads(lambda a, b: widen.matmul(a, b[:, 0]), (a, b), 1, modes=["fwd", "rev"])


def test_jvp_of_grad_inside_of_jit():
    a, b = jnp.asarray(A), jnp.asarray(B)

    def gradient(x):
        return jax.grad(lambda z: (correct(z, b) ** 2).sum())(x)

    found = jax.jit(lambda x: jax.jvp(gradient, (x,), (x,))[1])(a)
    np.testing.assert_allclose(found, gradient(a), rtol=1e-14)  # linear in x


def test_integers():
    same(
        widen.matmul(jnp.arange(6).reshape(2, 3), jnp.ones((3, 2), int)),
        np.array([[3, 3], [12, 12]]),
    )
    found = jax.jit(widen.matmul)(jnp.arange(3), jnp.ones(3, jnp.float32))
    assert (float(found), found.dtype) == (3.0, jnp.float32)


def test_what_jax_does_not_hold_is_refused():
    a, b = jnp.ones((2, 2)), jnp.ones((2, 2))
    with pytest.raises(TypeError, match="no info="):
        widen.matmul(a, b, info=True)
    with pytest.raises(TypeError, match="no out="):
        widen.matmul(a, b, out=np.empty((2, 2)))
    with pytest.raises(ValueError, match="several words"):
        widen.matmul(a, b, dtype="float64x2")
    with pytest.raises(TypeError, match="beside one of JAX's arrays"):
        widen.matmul(a, widen.Words(np.ones((2, 2)), "float64x2"))
    with pytest.raises(ValueError, match="a is a scalar"):
        widen.matmul(jnp.asarray(1.0), b)
    with pytest.raises(ValueError, match="do not match"):
        widen.matmul(a, jnp.ones((3, 2)))
    with pytest.raises(ValueError, match="imaginary parts"):
        widen.matmul(a * 1j, b, dtype="float64")
    with pytest.raises(ValueError, match="dtype='complex128'"):
        widen.gemm(a, b, alpha=1j)


def test_nothing_is_narrowed_silently():
    with jax.enable_x64(False):
        a = jnp.ones((2, 2))
        assert a.dtype == jnp.float32
        with pytest.raises(ValueError, match="jax_enable_x64"):
            widen.matmul(a, np.ones((2, 2)))
        with pytest.raises(ValueError, match="jax_enable_x64"):
            widen.matmul(a, a, dtype="float64")
        same(widen.matmul(a, np.ones((2, 2), np.float32)), np.full((2, 2), 2, np.float32))


def test_functions_made_of_products():
    a, b = jnp.asarray(A), jnp.asarray(B)
    same(widen.einsum("ij,jk->ik", a, b, accuracy="correct"), WANTED)
    same(jax.jit(lambda x, y: widen.dot(x, y))(a, b), WANTED)
    same(widen.tensordot(a, b, 1, accuracy="correct"), WANTED)
    same(jax.jit(lambda x: widen.sum(x, 1))(a), widen.sum(A, 1))
    same(widen.vecdot(a, a), widen.vecdot(A, A))
    same(jax.grad(lambda x: widen.sum(widen.dot(x, b)))(a), correct(np.ones((5, 6)), B.T))
    with pytest.raises(TypeError, match="norm takes NumPy arrays"):
        widen.norm(a)


def test_lists_are_as_wide_as_jax_is():
    """As long as float32 holds their numbers."""
    with jax.enable_x64(False):
        a = jnp.asarray(A, jnp.float32)
        found = correct(a, [[0.5, 2.0]] * 40)
        same(found, correct(np.asarray(a), np.array([[0.5, 2.0]] * 40, np.float32)))
        with pytest.raises(ValueError, match="JAX keeps float32"):
            correct(a, [[0.1]] * 40)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shapes", [((3, 5), (5,)), ((2, 1, 1, 3), (4, 3, 1)), ((1, 7), (7, 1))])
def test_transforms_of_odd_shapes(shapes, dtype, wide):
    """Of a scan, of checkpoints, and of derivatives of derivatives, with and without 64 bits."""
    with jax.enable_x64(wide):
        rng = np.random.default_rng(0)
        a, b = (jnp.asarray(rng.standard_normal(shape)).astype(dtype) for shape in shapes)
        wanted = correct(np.asarray(a), np.asarray(b))
        same(jax.jit(correct)(a, b), wanted)
        same(jax.vmap(correct, (0, None))(jnp.stack([a, a]), b)[1], wanted)

        def loss(x):
            return jax.checkpoint(correct)(x, b).astype(jnp.float32).sum() ** 2

        gradient = jax.grad(loss)(a)
        assert gradient.dtype == a.dtype
        mapped = jax.jit(jax.vmap(jax.grad(loss)))(jnp.stack([a, a]))
        same(mapped[0], np.asarray(gradient))
        value, tangent = jax.jvp(jax.grad(loss), (a,), (jnp.ones_like(a),))
        same(value, np.asarray(gradient))
        assert tangent.shape == a.shape

        def step(x, _):
            return x * correct(x, b).mean().astype(x.dtype), None

        assert jax.lax.scan(step, a, None, length=2)[0].shape == a.shape


def test_what_looks_at_numbers_is_refused():
    a = jnp.eye(3)
    with pytest.raises(TypeError, match="looks at their numbers"):
        widen.multi_dot([a, a, a], accuracy="correct")
    same(widen.multi_dot([a, a, a]), np.eye(3))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["int8", "uint8", "bool", "int32"])
def test_sums_of_integers_are_integers(kind, wide):
    with jax.enable_x64(wide):
        x = jnp.asarray([[1, 0], [3, 1]]).astype(kind)
        for axis in (None, 0):
            same(widen.sum(x, axis), np.asarray(jnp.sum(x, axis)))
            same(jax.jit(lambda x, axis=axis: widen.sum(x, axis))(x), np.asarray(jnp.sum(x, axis)))
        same(jax.vmap(widen.sum)(x), np.asarray(jnp.sum(x, 1)))
        with pytest.raises(OverflowError):
            widen.sum(jnp.full(4, jnp.iinfo(int).max if wide else 2**30))


@pytest.mark.parametrize("floats", ["bfloat16", "float16", "float32", "complex64"])
def test_integers_take_the_dtype_of_floats_beside_them(floats):
    a, b = jnp.ones((2, 2), floats), jnp.ones((2, 2), "int32")
    assert widen.matmul(a, b).dtype == widen.matmul(b, a).dtype == (a @ b).dtype
