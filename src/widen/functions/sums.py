"""Sums along axes: exact, then rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen.api import matmul
from widen.calls.foreign.arrays import is_integral
from widen.formats.arrays import format_of_array, is_tensor
from widen.functions.arrays import as_lines, delivered, namespace, operand
from widen.functions.products import reshaped_scalar
from widen.words import Words
from widen.words.axes import axes_of, kept_shape

HALF = (1 << 32) - 1


def sum(
    x: Any, axis: Any = None, *, dtype: Any = None, keepdims: bool = False, out: Any = None
) -> Any:
    """Sums along axes, correctly rounded: exact on the way, in any order, and rounded once.

    Parameters
    ----------
    x
        An array, a tensor, `Words` or a list. Integers and booleans give integers of 64 bits, or an
        OverflowError.
    axis
        An axis or several; all of them by default.
    dtype
        Format of the result; that of x by default. Sums of integers may have a dtype of integers.
    keepdims
        Whether axes that were added stay, with one entry.
    out
        Array (or tensor) to put the result in.

    Examples
    --------
    >>> import numpy as np, widen
    >>> x = np.array([1e16, 1.0, -1e16])
    >>> np.sum(x), widen.sum(x)
    (np.float64(0.0), np.float64(1.0))
    """
    array = operand(x, "x")
    axes = axes_of(axis, array.ndim)
    shape = kept_shape(array.shape, axes, keepdims)
    lines = as_lines(array, axes)
    if dtype is None and namespace(array).__name__ == "jax.numpy" and array.dtype.kind in "biu":
        return delivered(reshaped_scalar(_of_jax(lines), shape), out)
    if is_integral(array) and (dtype is None or _is_of_integers(dtype)):
        total = _of_integers(lines)
        return delivered(reshaped_scalar(_as_integers(total, dtype), shape), out)
    wanted = _own_format(array) if dtype is None else dtype
    result = matmul(lines, _ones(lines), accuracy="correct", dtype=wanted)
    return delivered(reshaped_scalar(result, shape), out)


def _is_of_integers(dtype: Any) -> bool:
    """Whether a dtype, by whatever name, is one of integers."""
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name if name.startswith(("int", "uint")) else dtype).kind in "iu"
    except TypeError:  # a format of ours, or a dtype of PyTorch
        return False


def _as_integers(x: Any, dtype: Any) -> Any:
    """Integers in another dtype that holds them."""
    if dtype is None:
        return x
    narrow = x.to(dtype) if is_tensor(x) else x.astype(dtype)
    if not bool((narrow == x).all()):
        raise OverflowError(f"a sum of these integers does not fit {dtype}; give dtype='float64'")
    return narrow


def _own_format(x: Any) -> str:
    ours = isinstance(x, (np.ndarray, Words)) or is_tensor(x)
    return format_of_array(x).name if ours else np.dtype(x.dtype).name


def _ones(lines: Any) -> Any:
    """As many ones as are added."""
    library, count = namespace(lines), lines.shape[-1]
    if library.__name__ != "torch":
        return library.ones(count, "float32")
    first = lines.planes[0] if isinstance(lines, Words) else lines
    return library.ones(count, dtype=library.float32, device=first.device)


def _of_jax(lines: Any) -> Any:
    """Sums of JAX's integers, in the widest kind of them that it is configured for."""
    from widen.calls.foreign import jax

    kind = jax.widest(lines.dtype)

    def summed(host: Any) -> Any:
        return np.asarray(_as_integers(_of_integers(np.asarray(host)), kind))

    return jax.on_host(summed, lines, kind)


def _of_integers(lines: Any) -> Any:
    """Exact sums of the last axis: h 2^32 + l, of which both sums fit an int64."""
    library = namespace(lines)
    if is_tensor(lines):
        if lines.dtype == library.uint64:
            raise TypeError("x holds uint64, which PyTorch does not compute with; give int64")
        whole, signed = lines.long(), True
    else:
        signed = lines.dtype.kind != "u"
        whole = lines.astype(np.int64 if signed else np.uint64)
    high, low = (whole >> 32).sum(-1), (whole & HALF).sum(-1)
    high, low = high + (low >> 32), low & HALF
    least, most = (-(2**31), 2**31) if signed else (0, 2**32)
    if not bool(((high >= least) & (high < most)).all()):
        raise OverflowError("a sum of these integers has more than 64 bits; give dtype='float64'")
    with np.errstate(all="ignore"):
        return (high << 32) | low
