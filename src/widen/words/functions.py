"""NumPy's and PyTorch's functions on `Words`: those that make sense; the rest raise and say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import is_tensor, library_of, new_planes, place_of
from widen.words import arithmetic, conversions, order, products, shaping, sums
from widen.words.promotion import common_format

if TYPE_CHECKING:
    from widen.words.array import Words


def _words(*given: Any) -> tuple[Words, ...]:
    """Operands of one call as words, where at least one of them is."""
    from widen.words.array import Words

    model = next(x for x in given if isinstance(x, Words))
    words = [arithmetic.operand(model, x) for x in given]
    for x, y in zip(given, words, strict=True):
        if y is None:
            raise TypeError(
                f"{type(x).__name__} of Python objects does not mix with {model.format.name}; give "
                f"widen.Words(it, dtype=widen.{model.format.name})"
            )
    return tuple(x for x in words if x is not None)


def _binary(operation: str) -> Callable[..., Any]:
    return lambda x, y: arithmetic.binary(operation, *_words(x, y))


def _compare(operation: str) -> Callable[..., Any]:
    return lambda x, y: arithmetic.compare(operation, *_words(x, y))


def _first(name: str) -> Callable[..., Any]:
    """What the first words say for the whole number: is it finite, is it NaN."""

    def apply(x: Words) -> Any:
        flags = getattr(library_of(x.planes[0]), name)(x.planes[0])
        return flags.all(0) if name == "isfinite" else flags.any(0)

    return apply


def joined(arrays: Sequence[Any], axis: int, how: str) -> Words:
    """Arrays stacked along a new axis, or put one behind the other."""
    words = _words(*arrays)
    fmt = words[0].format
    for x in words[1:]:
        fmt = common_format(fmt, x.format)
    words = tuple(x if x.format == fmt else x.astype(fmt) for x in words)
    ndim = words[0].ndim + (how == "stack")
    if axis is None:
        raise TypeError(f"{how} of words takes an axis; give x.reshape(-1) to join all elements")
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} does not exist in a result of {ndim} axes")
    library = library_of(words[0].planes[0])
    put = getattr(library, how if library is np or how == "stack" else "cat")
    planes = [
        put([x.planes[at] for x in words], axis % ndim + 1) for at in range(len(words[0].planes))
    ]
    target = new_planes(fmt, tuple(planes[0].shape), place_of(planes[0]))
    for new, plane in zip(target, planes, strict=True):
        new[...] = plane
    return type(words[0]).of(fmt, target)


def _broadcast(x: Words, sizes: Any) -> Words:
    shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    grown = (1,) * (len(shape) - x.ndim)
    planes = [
        library_of(plane).broadcast_to(
            plane.reshape((plane.shape[0], *grown, *x.shape)), (plane.shape[0], *shape)
        )
        for plane in x.planes
    ]
    return type(x).of(x.format, planes)


def _where(condition: Any, x: Any, y: Any) -> Words:
    if hasattr(condition, "planes"):
        raise TypeError("where takes a condition of True and False, and words are none: use x != 0")
    ours, theirs = _words(x, y)
    fmt = common_format(ours.format, theirs.format)
    pair = zip(ours.astype(fmt).planes, theirs.astype(fmt).planes, strict=True)
    shape = np.broadcast_shapes(np.shape(condition), ours.shape, theirs.shape)
    planes = []
    for p, q in pair:
        library = library_of(p)
        p, q = (
            _broadcast(type(ours).of(fmt, [z]), tuple(shape)).planes[0] for z in (p, q)
        )  # one axis of parts in front of both
        planes.append(library.where(library.broadcast_to(condition, tuple(shape)), p, q))
    return type(ours).of(fmt, planes)


def _along(arrays: Sequence[Any], axis: int) -> Words:
    return joined(arrays, axis, "concatenate")


def _as_exponents(x: Words, exponent: Any) -> Any:
    """Exponents as integers where x is, with an axis of parts."""
    library = library_of(x.planes[0])
    if library is np:
        return np.asarray(exponent, np.int64)[None]
    return library.as_tensor(exponent, dtype=library.int64, device=x.device)[None]


def _array_equal(x: Words, y: Words) -> bool:
    return x.shape == y.shape and bool(arithmetic.compare("equal", x, y).all())


def _norm_of_all(x: Words, ord: Any, axis: Any, keepdims: bool) -> Words:
    """The root of the sum of squares; sums and largest ones of magnitudes."""
    if ord == 1:
        return sums.total(arithmetic.absolute(x), axis, keepdims)
    if ord == np.inf:
        return order.extreme(arithmetic.absolute(x), axis, keepdims, 1)
    if ord not in (None, 2, "fro"):
        raise TypeError(f"words have norms of orders 1, 2 and inf; {ord!r} was asked for")
    return sums.norm(x, axis, keepdims)


def _norm(x: Words, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Words:
    """NumPy's: 2 is the largest singular value where it is asked of a matrix."""
    axes = x.ndim if axis is None else len(axis) if isinstance(axis, tuple) else 1
    if ord in (1, np.inf) and axes == 1:
        one = axis[0] if isinstance(axis, tuple) else axis
        return _norm_of_all(x, ord, one, keepdims)
    if ord in (1, np.inf) and axes == x.ndim == 2 and not keepdims:
        lines = sums.total(arithmetic.absolute(x), int(ord == np.inf), False)
        return order.extreme(lines, None, False, 1)
    if ord is not None and axes != {2: 1, "fro": 2}.get(ord, 0):
        raise TypeError(
            f"words have norms 1, 2 and inf of elements only; ord={ord!r} was asked for"
        )
    return _norm_of_all(x, ord, axis, keepdims)


def _choose(operation: str) -> Callable[..., Any]:
    """The larger or the smaller of two numbers; NaN if one of them is."""

    def apply(x: Any, y: Any) -> Words:
        ours, theirs = _words(x, y)
        return _where(order.take_second(ours, theirs, operation), theirs, ours)

    return apply


def _outer(x: Words, y: Words) -> Words:
    return arithmetic.binary("multiply", x.reshape(-1, 1), y.reshape(1, -1))


def _mean(x: Words, axis: Any = None, keepdims: bool = False) -> Words:
    """The exact sum, rounded, over the count."""
    whole = sums.total(x, axis, keepdims)
    count = _words(whole, x.size // max(whole.size, 1))[1]
    return arithmetic.binary("divide", whole, count)


def _product(x: Words, axis: Any = None) -> Words:
    """A product of numbers along an axis, or of all, by halves."""
    numbers = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else int(axis) % x.ndim
    moved = numbers.transpose(at, *(k for k in range(numbers.ndim) if k != at))
    if len(moved) == 0:
        raise ValueError("a product of no numbers needs a shape; give at least one")
    while len(moved) > 1:
        half = len(moved) // 2
        rest = moved[2 * half :]
        moved = moved[:half] * moved[half : 2 * half]
        moved = joined([moved, rest], 0, "concatenate") if len(rest) else moved
    return moved[0]


def _frexp(x: Words) -> tuple[Words, Any]:
    """Numbers m 2^e with the first words of m in [1/2, 1)."""
    if x.format.parts == 2:
        raise TypeError("frexp takes real numbers; take .real and .imag")
    exponents = library_of(x.planes[0]).frexp(x.planes[0][0])[1]
    return arithmetic.times_power(x, -exponents[None]), exponents


def _rounded(x: Words) -> Words:
    """The nearest integers, ties to even, of finite real numbers, exactly."""
    exact = np.asarray(conversions.to_fraction(x), object)
    whole = np.empty(exact.shape, object)
    whole.reshape(-1)[:] = [round(value) for value in exact.reshape(-1)]
    made = type(x)(whole.reshape(-1).tolist(), x.format).reshape(x.shape)
    return made.to_torch(x.device) if is_tensor(x.planes[0]) else made


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
    "dot": lambda x, y: sums.dot(*_words(x, y)),
    "vdot": lambda x, y: sums.dot(arithmetic.conjugate(_words(x, y)[0]), _words(x, y)[1]),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": _broadcast,
    "zeros_like": lambda x: x.zeros_like(),
    "where": _where,
    "ravel": lambda x: x.reshape(-1),
    "tril": lambda x, k=0: shaping.triangle(x, "tril", k),
    "triu": lambda x, k=0: shaping.triangle(x, "triu", k),
    "diag": shaping.diag,
    "diagonal": shaping.diagonal,
    "trace": lambda x: sums.total(shaping.diagonal(x), None, False),
    "outer": lambda x, y: _outer(*_words(x, y)),
    "vstack": lambda arrays: shaping.stacked(_words(*arrays), _along, True),
    "hstack": lambda arrays: shaping.stacked(_words(*arrays), _along, False),
    "sign": order.sign,
    "maximum": _choose("less"),
    "minimum": _choose("greater"),
    "ldexp": lambda x, exponent: arithmetic.times_power(x, _as_exponents(x, exponent)),
    "frexp": _frexp,
    "round": _rounded,
    "shape": lambda x: x.shape,
    "ndim": lambda x: x.ndim,
    "size": lambda x: x.size,
}
"""Functions that NumPy and PyTorch have under the same name."""

NUMPY: dict[str, Callable[..., Any]] = {
    **ALIKE,
    "sum": lambda x, axis=None, keepdims=False: sums.total(x, axis, keepdims),
    "mean": _mean,
    "prod": _product,
    "max": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, 1),
    "min": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, -1),
    "amax": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, 1),
    "amin": lambda x, axis=None, keepdims=False: order.extreme(x, axis, keepdims, -1),
    "argmax": lambda x, axis=None: order.place(x, axis, 1),
    "argmin": lambda x, axis=None: order.place(x, axis, -1),
    "sort": lambda x, axis=-1: order.ordered(x, axis),
    "argsort": lambda x, axis=-1: order.argument_order(x, axis),
    "squeeze": shaping.squeeze,
    "flip": shaping.flip,
    "linalg.norm": _norm,
    "stack": lambda arrays, axis=0: joined(arrays, axis, "stack"),
    "concatenate": lambda arrays, axis=0: joined(arrays, axis, "concatenate"),
    "transpose": lambda x, axes=None: x.transpose(*(axes or ())),
    "copy": lambda x: x.copy(),
    "array2string": lambda x: str(x),
    "array_repr": lambda x: repr(x),
    "array_str": lambda x: str(x),
    "array_equal": lambda x, y: _array_equal(*_words(x, y)),
}

TORCH: dict[str, Callable[..., Any]] = {
    **ALIKE,
    "equal": lambda x, y: _array_equal(*_words(x, y)),
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
    "mean": lambda x, dim=None, keepdim=False: _mean(x, dim, keepdim),
    "prod": lambda x, dim=None: _product(x, dim),
    "amax": lambda x, dim=None, keepdim=False: order.extreme(x, dim, keepdim, 1),
    "amin": lambda x, dim=None, keepdim=False: order.extreme(x, dim, keepdim, -1),
    "argmax": lambda x, dim=None: order.place(x, dim, 1),
    "argmin": lambda x, dim=None: order.place(x, dim, -1),
    "argsort": lambda x, dim=-1: order.argument_order(x, dim),
    "squeeze": lambda x, dim=None: shaping.squeeze(x, dim),
    "flip": lambda x, dims: shaping.flip(x, tuple(dims)),
    "norm": lambda x, p="fro", dim=None, keepdim=False: _norm_of_all(x, p, dim, keepdim),
    "linalg.norm": lambda x, ord=None, dim=None, keepdim=False: _norm(x, ord, dim, keepdim),
    "vector_norm": lambda x, ord=2, dim=None, keepdim=False: _norm_of_all(x, ord, dim, keepdim),
    "stack": lambda tensors, dim=0: joined(tensors, dim, "stack"),
    "cat": lambda tensors, dim=0: joined(tensors, dim, "concatenate"),
    "concat": lambda tensors, dim=0: joined(tensors, dim, "concatenate"),
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
