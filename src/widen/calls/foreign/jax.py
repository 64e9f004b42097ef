"""JAX: the product as a primitive, which jit, vmap, grad, jvp and whatever is made of them take.

A primitive multiplies batches of matrices, equal in rank. It is bilinear, so its derivatives are
products again, under the contract of the product they belong to: where an operand was repeated
along batch axes, these become part of the inner dimension. Outside of jit floats on a GPU are
multiplied there, as tensors by DLPack. All else is multiplied on the host; inside of jit through a
callback, from and to the device that the program runs on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from widen.calls import check, dispatch
from widen.calls.foreign import arrays
from widen.contract import as_contract
from widen.formats import PLAIN, complex_of, computed_in, default_result
from widen.formats.arrays import numpy_dtype
from widen.options import Options
from widen.stages.problem import Scalars

WIDE = 'jax.config.update("jax_enable_x64", True)'


@dataclass(frozen=True)
class Choices:
    """What a primitive is told beside its operands, all of which has a hash.

    The product is alpha a b, with beta c where there is a c, of the dtype `result`.
    """

    alpha: complex
    beta: complex
    result: str
    options: Options

    def of(self, result: Any) -> Choices:
        """The same with a result of another dtype."""
        return replace(self, result=np.dtype(result).name)

    def on_host(self, *given: Any) -> Any:
        """The sum of JAX's arrays as NumPy's."""
        return np.asarray(self.product(*map(np.asarray, given)))

    def product(self, a: Any, b: Any, c: Any = None) -> Any:
        """The sum alpha a b + beta c of arrays or of tensors."""
        exact = self.result not in PLAIN  # integers
        options = replace(self.options, dtype=None if exact else self.result)
        if self.alpha == 1 and c is None:
            return dispatch.matmul(a, b, None, options)
        scalars = Scalars(self.alpha, 0.0 if c is None else self.beta, c)
        return dispatch.gemm(a, b, scalars, None, options)


# ── the primitive, and the sum with another array, whose derivatives are made of it ──

product_p = Primitive("widen_matmul")
sum_p = Primitive("widen_gemm")


def _product(a: Any, b: Any, choices: Choices) -> Any:
    return product_p.bind(a, b, choices=choices)


def _now(*given: Any, choices: Choices) -> Any:
    """What happens outside of jit."""
    if _are_on_a_gpu(given) and arrays.gpu_is_served():
        return jnp.from_dlpack(arrays.by_tensors(choices.product, *given))
    place = next((x.sharding for x in given if isinstance(x, jax.Array)), None)
    return jax.device_put(choices.on_host(*given), place)


def _are_on_a_gpu(given: Any) -> bool:
    """Whether all are arrays of floats on one GPU."""
    floats = (isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact) for x in given)
    devices = set().union(*(x.devices() for x in given)) if all(floats) else set()
    return len(devices) == 1 and next(iter(devices)).platform == "gpu"


def _inside(*given: Any, choices: Choices) -> Any:
    """What jit compiles: a call of this process."""
    out = jax.ShapeDtypeStruct(_shape(*given[:2]), numpy_dtype(choices.result))
    return jax.pure_callback(choices.on_host, out, *given)


def _without_numbers(a: Any, b: Any, *c: Any, choices: Choices) -> Any:
    return jax.core.ShapedArray(_shape(a, b), numpy_dtype(choices.result))


def _shape(a: Any, b: Any) -> tuple[int, ...]:
    batch, m, n = check.result_dims(tuple(a.shape), tuple(b.shape))
    return (*batch, m, n)


def _batched(primitive: Any, given: Any, axes: Any, *, choices: Choices) -> tuple[Any, int]:
    """One more axis of the batch, before all others."""
    size = next(x.shape[axis] for x, axis in zip(given, axes, strict=True) if axis is not None)
    moved = [
        x[None] if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(given, axes, strict=True)
    ]
    if moved[0].shape[0] == moved[1].shape[0] == 1:  # c alone is mapped
        moved[0] = jnp.broadcast_to(moved[0], (size, *moved[0].shape[1:]))
    return primitive.bind(*moved, choices=choices), 0


def _tangent(primals: Any, tangents: Any, *, choices: Choices) -> tuple[Any, Any]:
    """The tangent alpha (da b + a db) + beta dc, each rounded, and then their sum."""
    a, b, c = primals
    da, db, dc = tangents
    terms = []
    if type(da) is not ad.Zero:
        terms.append(_product(da, b, choices))
    if type(db) is not ad.Zero:
        terms.append(_product(a, db, choices))
    if type(dc) is not ad.Zero:
        terms.append((choices.beta * dc).astype(choices.result))
    value = sum_p.bind(a, b, c, choices=choices)
    return value, sum(terms[1:], terms[0]) if terms else jnp.zeros_like(value)


def _left(grad: Any, a: Any, b: Any, *, choices: Choices) -> Any:
    """The cotangent of a: alpha G B^T, summed over the axes that a was repeated along."""
    rows, columns, aval = grad.ndim - 2, grad.ndim - 1, a.aval
    kept, repeated = _axes(aval.shape, grad.shape)
    left = _matrices(grad, kept, [rows], [*repeated, columns])
    right = _matrices(_repeated(b, grad), kept, [*repeated, columns], [rows])
    return _cotangent(_product(left, right, choices.of(_kind(aval, grad, b))), aval)


def _right(grad: Any, a: Any, b: Any, *, choices: Choices) -> Any:
    """The cotangent of b: alpha A^T G."""
    rows, columns, aval = grad.ndim - 2, grad.ndim - 1, b.aval
    kept, repeated = _axes(aval.shape, grad.shape)
    left = _matrices(_repeated(a, grad), kept, [columns], [*repeated, rows])
    right = _matrices(grad, kept, [*repeated, rows], [columns])
    return _cotangent(_product(left, right, choices.of(_kind(aval, grad, a))), aval)


def _axes(shape: tuple[int, ...], whole: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Batch axes that an operand has, and those that it was repeated along."""
    batch = range(len(whole) - 2)
    repeated = [axis for axis in batch if shape[axis] != whole[axis]]
    return [axis for axis in batch if axis not in repeated], repeated


def _repeated(x: Any, grad: Any) -> Any:
    """An operand along all axes of the batch."""
    return jnp.broadcast_to(x, (*grad.shape[:-2], *x.shape[-2:]))


def _matrices(x: Any, kept: list[int], rows: list[int], columns: list[int]) -> Any:
    """Matrices of x: which of its axes are the batch, rows and columns."""
    sizes = [math.prod(x.shape[axis] for axis in axes) for axes in (rows, columns)]
    batch = [x.shape[axis] for axis in kept]
    return jnp.transpose(x, (*kept, *rows, *columns)).reshape(*batch, *sizes)


def _kind(aval: Any, *others: Any) -> Any:
    """The dtype of a cotangent's product: that of the operand, complex if anything is."""
    part = PLAIN[np.dtype(aval.dtype).name].part
    is_complex = any(jnp.iscomplexobj(x) for x in others) or aval.dtype.kind == "c"
    return (complex_of(part) if is_complex else part).name


def _cotangent(x: Any, aval: Any) -> Any:
    """In the shape and the dtype of the operand."""
    if jnp.iscomplexobj(x) and aval.dtype.kind != "c":
        x = x.real
    return x.reshape(aval.shape).astype(aval.dtype)


for primitive in (product_p, sum_p):
    primitive.def_impl(_now)
    primitive.def_abstract_eval(_without_numbers)
    mlir.register_lowering(primitive, mlir.lower_fun(_inside, multiple_results=False))
    batching.primitive_batchers[primitive] = partial(_batched, primitive)
ad.defbilinear(product_p, _left, _right)
ad.primitive_jvps[sum_p] = _tangent


# ── the call ─────────────────────────────────────────────────────────────────


def product(a: Any, b: Any, scalars: Scalars, out: Any, options: Options) -> Any:
    """The sum alpha a b + beta c of JAX's arrays, one of JAX's."""
    refused = {
        "out": out, "info": options.info, "progress": options.progress, "plan": options.plan
    }  # fmt: skip
    for name, value in refused.items():
        if value is not None and value is not False:
            raise TypeError(f"a product of JAX's arrays has no {name}=; give np.asarray(a)")
    left, right = _as_jax(a, "a"), _as_jax(b, "b")
    for x, name in ((left, "a"), (right, "b")):
        if x.ndim == 0:
            raise ValueError(f"{name} is a scalar; widen multiplies vectors and matrices: use *")
    known = replace(options, accuracy=as_contract(options.accuracy or "standard"))
    choices = Choices(scalars.alpha, scalars.beta, _result(left, right, scalars, options), known)
    batch, m, n = check.result_dims(tuple(left.shape), tuple(right.shape))
    ours = left[None] if left.ndim == 1 else left
    theirs = right[:, None] if right.ndim == 1 else right
    rank = len(batch) + 2
    ours, theirs = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (ours, theirs))
    rows = () if left.ndim == 1 else (m,)
    columns = () if right.ndim == 1 else (n,)
    if scalars.c is None:
        value = _product(ours, theirs, choices)
    else:
        c = jnp.broadcast_to(_as_jax(scalars.c, "c"), (*batch, *rows, *columns))
        value = sum_p.bind(ours, theirs, c.reshape(*batch, m, n), choices=choices)
    return value.reshape(*batch, *rows, *columns)


def computed(of_arrays: Any, operands: dict[str, Any], dtype: Any) -> Any:
    """A function of JAX's arrays by that of NumPy's, which is given them by their names.

    The numbers are looked at, so that it runs outside of jit, vmap and grad alone.
    """
    moved = {name: _as_jax(x, name) for name, x in operands.items()}
    for name, x in moved.items():
        if isinstance(x, jax.core.Tracer):
            raise TypeError(
                f"{name} is traced by JAX, and this function looks at numbers: call it outside of "
                "jit, vmap and grad, or by jax.pure_callback"
            )
    given: dict[str, Any] = {name: np.asarray(x) for name, x in moved.items()}
    if dtype is not None:
        given["dtype"] = _kept_format(check.result_format(dtype, PLAIN["float64"]))
    elif any(x.dtype.kind in "biu" for x in moved.values()):  # as JAX itself has it
        kind = np.dtype(jnp.result_type(*moved.values(), 0.0)).name
        given["dtype"] = computed_in(PLAIN[kind]).name
    results = of_arrays(given)
    place = next(x.sharding for x in operands.values() if isinstance(x, jax.Array))
    parts = [_back(x, place) for x in (results if isinstance(results, tuple) else (results,))]
    return tuple(parts) if isinstance(results, tuple) else parts[0]


def widest(dtype: Any) -> Any:
    """The widest kind of integers that JAX is configured for, as its own sums of such have them."""
    return jax.dtypes.canonicalize_dtype(np.uint64 if dtype.kind == "u" else np.int64)


def on_host(function: Any, x: Any, dtype: Any) -> Any:
    """A function of lines as NumPy's array, inside of jit and vmap too; it has no gradient."""
    if isinstance(x, jax.core.Tracer):
        out = jax.ShapeDtypeStruct(x.shape[:-1], dtype)
        return jax.pure_callback(function, out, x, vmap_method="expand_dims")
    return jax.device_put(function(x), x.sharding)


def _back(x: Any, place: Any) -> Any:
    """One of JAX's arrays where the operands are; records and Python's numbers as they are."""
    if not isinstance(x, (np.ndarray, np.generic)):
        return x
    if x.dtype.kind in "iu":  # ranks and pivots, which are small
        x = x.astype(jax.dtypes.canonicalize_dtype(x.dtype))
    _check_kept(x.dtype, "the result")
    return jax.device_put(np.asarray(x), place)


def _kept_format(fmt: Any) -> str:
    """The name of a format that JAX has, and keeps as it is configured."""
    if fmt.name not in PLAIN:
        raise ValueError(f"dtype={fmt.name}: JAX has no numbers of several words")
    _check_kept(numpy_dtype(fmt.name), "dtype")
    return str(fmt.name)


def _as_jax(x: Any, name: str) -> Any:
    """One of JAX's arrays; NumPy's and lists become such, if JAX keeps their numbers."""
    if isinstance(x, jax.Array):
        return x
    if not isinstance(x, (np.ndarray, np.generic, list, tuple, bool, int, float, complex)):
        raise TypeError(
            f"{name} is a {type(x).__module__}.{type(x).__qualname__} beside one of JAX's arrays; "
            f"give jnp.asarray({name})"
        )
    array = np.asarray(x)
    if not isinstance(x, (np.ndarray, np.generic)):  # Python's numbers have no width of their own
        narrow = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        array = narrow if bool((narrow == array).all()) else array
    _check_kept(array.dtype, name)
    return jnp.asarray(array)


def _check_kept(dtype: Any, name: str) -> None:
    """Whether JAX keeps numbers of a dtype."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ValueError(
            f"{name} is {dtype}, of which JAX keeps {jax.dtypes.canonicalize_dtype(dtype)} "
            f"as it is configured; use {WIDE}, or give less"
        )


def _result(a: Any, b: Any, scalars: Scalars, options: Options) -> str:
    """The name of the result's dtype."""
    kinds = {"a": np.dtype(a.dtype), "b": np.dtype(b.dtype)}
    floats = {name: kind for name, kind in kinds.items() if kind.kind not in "biu"}
    if options.dtype is None and not floats and scalars.trivial:
        return np.dtype(jnp.promote_types(*kinds.values())).name
    # Integers beside floats take their dtype, as JAX has it.
    formats = [PLAIN[check.format_of(kind, name).name] for name, kind in floats.items()]
    formats = formats or [PLAIN["float32"]]
    fmt = check.result_format(options.dtype, default_result(formats[0], formats[-1]))
    name = _kept_format(fmt)
    complex_scalars = any(isinstance(x, complex) for x in (scalars.alpha, scalars.beta))
    if fmt.parts == 1 and (
        complex_scalars or (scalars.c is not None and jnp.iscomplexobj(scalars.c))
    ):
        raise ValueError(
            f"alpha, beta or c is complex but the result is {fmt.name}; "
            f"use dtype={complex_of(fmt.part).name!r}"
        )
    return name
