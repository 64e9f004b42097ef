"""NumPy's and PyTorch's functions on `Words`: those that make sense; the rest raise and say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from widen.formats.arrays import is_tensor, library_of
from widen.words import (
    arithmetic,
    joining,
    order,
    products,
    reductions,
    scaled_rounding,
    shaping,
    sums,
)

if TYPE_CHECKING:
    from widen.words.array import Words


def _binary(operation: str) -> Callable[..., Any]:
    return lambda x, y: arithmetic.binary(operation, *joining.as_words(x, y))


def _compare(operation: str) -> Callable[..., Any]:
    return lambda x, y: arithmetic.compare(operation, *joining.as_words(x, y))


def _first(name: str) -> Callable[..., Any]:
    """What the first words say for the whole number: is it finite, is it NaN."""

    def apply(x: Words) -> Any:
        flags = getattr(library_of(x.planes[0]), name)(x.planes[0])
        return flags.all(0) if name == "isfinite" else flags.any(0)

    return apply


def _array_equal(x: Words, y: Words) -> bool:
    return x.shape == y.shape and bool(arithmetic.compare("equal", x, y).all())


def _frexp(x: Words) -> tuple[Words, Any]:
    """Numbers m 2^e with the first words of m in [1/2, 1)."""
    if x.format.parts == 2:
        raise TypeError("frexp takes real numbers; take .real and .imag")
    exponents = library_of(x.planes[0]).frexp(x.planes[0][0])[1]
    return arithmetic.times_power(x, -exponents[None]), exponents


def _largest(sign: int) -> Callable[..., Any]:
    """PyTorch's max and min: of all numbers, along an axis with indices, or of two arrays."""
    choose = joining.chosen("less" if sign > 0 else "greater")

    def apply(x: Any, other: Any = None, keepdim: bool = False, *, dim: Any = None) -> Any:
        if other is not None and (is_tensor(other) or hasattr(other, "planes")):
            return choose(x, other)
        dim = other if dim is None else dim
        if dim is None:
            return order.extreme(x, None, keepdim, sign)
        return order.extreme_with_indices(x, dim, sign, keepdim)

    return apply


ALIKE: dict[str, Callable[..., Any]] = {
    "add": _binary("add"),
    "subtract": _binary("subtract"),
    "multiply": _binary("multiply"),
    "divide": _binary("divide"),
    "true_divide": _binary("divide"),
    "equal": _compare("equal"),
    "not_equal": _compare("not_equal"),
    "less": _compare("less"),
    "less_equal": _compare("less_equal"),
    "greater": _compare("greater"),
    "greater_equal": _compare("greater_equal"),
    "negative": arithmetic.negative,
    "positive": lambda x: x.copy(),
    "absolute": arithmetic.absolute,
    "abs": arithmetic.absolute,
    "sqrt": arithmetic.root,
    "square": lambda x: arithmetic.binary("multiply", x, x),
    "reciprocal": lambda x: 1 / x,
    "conj": arithmetic.conjugate,
    "conjugate": arithmetic.conjugate,
    "power": lambda x, y: x**y,
    "isfinite": _first("isfinite"),
    "isnan": _first("isnan"),
    "isinf": _first("isinf"),
    "signbit": lambda x: library_of(x.planes[0]).signbit(x.real.planes[0][0]),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "matmul": lambda x, y: products.matmul(x, y),
    "dot": lambda x, y: sums.dot(*joining.as_words(x, y)),
    "vdot": lambda x, y: sums.dot(
        arithmetic.conjugate(joining.as_words(x, y)[0]), joining.as_words(x, y)[1]
    ),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": joining.broadcast,
    "zeros_like": lambda x: x.zeros_like(),
    "where": joining.where,
    "ravel": shaping.ravelled,
    "outer": joining.outer,
    "vstack": joining.vertically,
    "hstack": joining.horizontally,
    "sign": order.sign,
    "maximum": joining.chosen("less"),
    "minimum": joining.chosen("greater"),
    "ldexp": lambda x, exponent: scaled_rounding.round_to(x, x.format, exponent),
    "frexp": _frexp,
    "round": lambda x, decimals=0: scaled_rounding.to_places(x, decimals),
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x: x.size,
}
"""Functions that NumPy and PyTorch have under the same name."""

NUMPY: dict[str, Callable[..., Any]] = {
    **ALIKE,
    "sum": lambda x, axis=None, keepdims=False: sums.total(x, axis, keepdims),
    "mean": reductions.mean,
    "prod": reductions.product,
    "max": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, 1),
    "min": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, -1),
    "amax": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, 1),
    "amin": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, -1),
    "argmax": lambda x, axis=None, keepdims=False: order.place(x, axis, 1, keepdims),
    "argmin": lambda x, axis=None, keepdims=False: order.place(x, axis, -1, keepdims),
    "sort": lambda x, axis=-1, kind=None, stable=None: order.ordered(x, axis),
    "argsort": lambda x, axis=-1, kind=None, stable=None: order.argument_order(x, axis),
    "tril": lambda m, k=0: shaping.triangle(m, "tril", k),
    "triu": lambda m, k=0: shaping.triangle(m, "triu", k),
    "diag": lambda v, k=0: shaping.diag(v, k),
    "diagonal": shaping.diagonal,
    "trace": reductions.trace,
    "squeeze": shaping.squeeze,
    "flip": shaping.flip,
    "fliplr": lambda m: shaping.flip(m, 1),
    "flipud": lambda m: shaping.flip(m, 0),
    "linalg.norm": reductions.norm,
    "linalg.vector_norm": lambda x, axis=None, keepdims=False, ord=2: reductions.vector_norm(
        x, ord, axis, keepdims
    ),
    "linalg.matrix_norm": lambda x, keepdims=False, ord="fro": reductions.matrix_norm(
        x, ord, (-2, -1), keepdims
    ),
    "stack": lambda arrays, axis=0: joining.joined(arrays, axis, "stack"),
    "concatenate": lambda arrays, axis=0: joining.joined(arrays, axis),
    "block": joining.block,
    "transpose": shaping.transposed,
    "copy": lambda x: x.copy(),
    "array2string": lambda x: str(x),
    "array_repr": lambda x: repr(x),
    "array_str": lambda x: str(x),
    "array_equal": lambda x, y: _array_equal(*joining.as_words(x, y)),
}

TORCH: dict[str, Callable[..., Any]] = {
    **ALIKE,
    "equal": lambda x, y: _array_equal(*joining.as_words(x, y)),
    "sub": _binary("subtract"),
    "mul": _binary("multiply"),
    "div": _binary("divide"),
    "eq": _compare("equal"),
    "ne": _compare("not_equal"),
    "lt": _compare("less"),
    "le": _compare("less_equal"),
    "gt": _compare("greater"),
    "ge": _compare("greater_equal"),
    "neg": arithmetic.negative,
    "pow": lambda x, y: x**y,
    "sum": lambda x, dim=None, keepdim=False: sums.total(x, dim, keepdim),
    "mean": lambda x, dim=None, keepdim=False: reductions.mean(x, dim, keepdim),
    "prod": lambda x, dim=None, keepdim=False: reductions.product(x, dim, keepdim),
    "max": _largest(1),
    "min": _largest(-1),
    "amax": lambda x, dim=None, keepdim=False: order.extreme(x, dim, keepdim, 1),
    "amin": lambda x, dim=None, keepdim=False: order.extreme(x, dim, keepdim, -1),
    "argmax": lambda x, dim=None, keepdim=False: order.place(x, dim, 1, keepdim),
    "argmin": lambda x, dim=None, keepdim=False: order.place(x, dim, -1, keepdim),
    "sort": lambda x, dim=-1, descending=False, stable=False: order.sorted_with_indices(
        x, dim, descending
    ),
    "argsort": lambda x, dim=-1, descending=False, stable=False: order.argument_order(
        x, dim, descending
    ),
    "tril": lambda x, diagonal=0: shaping.triangle(x, "tril", diagonal),
    "triu": lambda x, diagonal=0: shaping.triangle(x, "triu", diagonal),
    "diag": lambda x, diagonal=0: shaping.diag(x, diagonal),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: shaping.diagonal(x, offset, dim1, dim2),
    "trace": reductions.trace,
    "squeeze": shaping.squeeze_if_single,
    "flip": lambda x, dims: shaping.flip(x, tuple(dims)),
    "round": lambda x, *, decimals=0: scaled_rounding.to_places(x, decimals),
    "norm": lambda x, p="fro", dim=None, keepdim=False: reductions.vector_norm(x, p, dim, keepdim),
    "linalg.norm": lambda x, ord=None, dim=None, keepdim=False: reductions.norm(
        x, ord, dim, keepdim
    ),
    "vector_norm": lambda x, ord=2, dim=None, keepdim=False: reductions.vector_norm(
        x, ord, dim, keepdim
    ),
    "matrix_norm": lambda x, ord="fro", dim=(-2, -1), keepdim=False: reductions.matrix_norm(
        x, ord, dim, keepdim
    ),
    "stack": lambda tensors, dim=0: joining.joined(tensors, dim, "stack"),
    "cat": lambda tensors, dim=0: joining.joined(tensors, dim),
    "concat": lambda tensors, dim=0: joining.joined(tensors, dim),
    "permute": lambda x, dims: x.transpose(*dims),
    "clone": lambda x: x.copy(),
}


def _unsupported(library: str, name: str, table: dict[str, Callable[..., Any]]) -> TypeError:
    return TypeError(
        f"{library}.{name} is not defined for words; there are {', '.join(sorted(table))}. "
        "x.to_numpy() gives the nearest floats"
    )


def array_ufunc(self: Words, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """np.add(x, y) and the like; `out` may be words."""
    name = ufunc.__name__
    if method == "reduce" and name == "add":
        asked = {key: value for key, value in options.items() if key not in ("axis", "keepdims")}
        if any(value is not None for value in asked.values()):
            raise TypeError(f"np.add.reduce of words takes no {', '.join(asked)}")
        return sums.total(inputs[0], options.get("axis", 0), bool(options.get("keepdims", False)))
    if method != "__call__" or name not in NUMPY:
        raise _unsupported("np", name if method == "__call__" else f"{name}.{method}", NUMPY)
    out = options.pop("out", (None,))[0]
    if options:
        raise TypeError(f"np.{name} of words takes no {', '.join(options)}")
    result = NUMPY[name](*inputs)
    if out is None:
        return result
    if not isinstance(out, type(self)):
        raise TypeError(f"out is a {type(out).__name__}; the result of np.{name} needs Words")
    out[...] = result
    return out


def array_function(self: Words, function: Any, types: Any, given: Any, options: Any) -> Any:
    """np.sum(x), np.stack([x, y]) and the like."""
    module = function.__module__.removeprefix("numpy").lstrip(".")
    name = f"{module}.{function.__name__}" if module else function.__name__
    if name not in NUMPY:
        raise _unsupported("np", name, NUMPY)
    return _called("np", name, NUMPY[name], given, options)


def torch_function(
    cls: Any, function: Any, types: Any, given: Any = (), options: Any = None
) -> Any:
    """torch.add(x, y) and the like."""
    name = getattr(function, "__name__", str(function)).strip("_")
    name = "linalg.norm" if name == "linalg_norm" else name.removeprefix("linalg_")
    name = {"truediv": "div", "radd": "add", "rmul": "mul"}.get(name, name)
    swapped = {"rsub": "sub", "rtruediv": "div", "rdiv": "div", "rmatmul": "matmul"}
    if name in swapped:
        name, given = swapped[name], given[::-1]
    if name not in TORCH:
        raise _unsupported("torch", name, TORCH)
    asked = {key: value for key, value in (options or {}).items() if value is not None}
    return _called("torch", name, TORCH[name], given, asked)


def _called(library: str, name: str, function: Any, given: Any, options: Any) -> Any:
    try:
        return function(*given, **options)
    except TypeError as error:
        if "argument" in str(error):
            raise TypeError(
                f"{library}.{name} of words: {error}".replace("<lambda>()", "it")
            ) from None
        raise
