"""Norms of vectors and matrices: roots and sums that are exact, then rounded once."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from widen.calls import check
from widen.calls.foreign.arrays import exact
from widen.formats import Binary, Part
from widen.formats.arrays import cast, eager, format_of_array, is_tensor, new_planes, numpy_dtype
from widen.functions import roots
from widen.functions.arrays import (
    as_lines,
    delivered,
    is_complex,
    namespace,
    operand,
    permuted,
    reshaped,
)
from widen.functions.products import reshaped_scalar
from widen.functions.sums import sum as exact_sum
from widen.linalg.bounds import first_words
from widen.linalg.norms import rounded_norm
from widen.linalg.powers import rounded_root
from widen.words import Words
from widen.words.axes import axes_of, kept_shape


@eager
def norm(
    x: Any,
    ord: Any = None,
    axis: Any = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
    out: Any = None,
) -> Any:
    """Norms of vectors and matrices, correctly rounded, as `np.linalg.norm`.

    Parameters
    ----------
    x
        An array, a tensor, `Words` or a list.
    ord
        None: the root of the exact sum of all squares, rounded once. For vectors 2 (the same), 1,
        0, inf, -inf and other powers; for matrices ``"fro"``, 1, -1, inf, -inf, and 2, -2 and
        ``"nuc"`` of singular values.
    axis
        An axis: norms of vectors. Two: norms of matrices. None: of all entries, or of a vector or
        a matrix if there is an `ord`.
    dtype
        Format of the result; that of x by default, float64 for integers.
    keepdims
        Whether these axes stay, with one entry.
    out
        Array (or tensor) to put the result in.

    Notes
    -----
    The numbers are those of `widen.linalg.norm`, which tells by `info` what is proven of norms that
    are no exact sums and roots, and takes finite numbers only. Here infinity and NaN give what
    NumPy gives, but for other powers and singular values, which refuse them.

    Tensors have gradients of the 2-norm, and of 1, inf and -inf of real numbers. Norms of `Words`,
    results of several words, sums of moduli (1-norms of complex numbers) and other powers are found
    by Python's integers, which takes microseconds for each entry.

    Examples
    --------
    >>> import numpy as np, widen
    >>> widen.norm(np.ldexp([3.0, 4.0], 900)) == np.ldexp(5.0, 900)
    np.True_
    >>> widen.norm(np.array([[1.0, -2.0], [3.0, 4.0]]), 1)
    np.float64(6.0)
    """
    array = operand(x, "x")
    if namespace(array).__name__ not in ("numpy", "torch"):
        raise TypeError(f"x is a {type(x).__name__}; norm takes NumPy arrays, tensors and Words")
    check.visible(x=array)
    array = exact(array, "x")
    axes = axes_of(axis, array.ndim)
    if axis is None and ord is not None and array.ndim not in (1, 2):
        raise ValueError(f"ord={ord!r} of {array.ndim} axes: say which one or two by axis=")
    if axis is not None and len(axes) > 2:
        raise ValueError(f"axis={axis!r}: a norm is one of vectors or matrices, of one axis or two")
    fmt = _format(array, dtype)
    matrices = len(axes) == 2 and not (axis is None and ord is None)
    result = _of_matrices(array, ord, axes, fmt) if matrices else _of_vectors(array, ord, axes, fmt)
    shape = kept_shape(array.shape, axes, keepdims)
    return delivered(reshaped_scalar(result, shape), out)


def _format(x: Any, dtype: Any) -> Part:
    """The real format of a norm."""
    own = format_of_array(x)
    return check.result_format(dtype, own.part).part if dtype is not None else own.part


def _of_vectors(x: Any, ord: Any, axes: tuple[int, ...], fmt: Part) -> Any:
    """Norms along axes, without them."""
    if ord in (None, 2):
        return _roots(x, axes, fmt)
    if ord == 1:
        return _sum_of_magnitudes(x, axes, fmt)
    own = x.format.part if isinstance(x, Words) else None
    if not isinstance(fmt, Binary) and (ord == 0 or own != fmt):
        return _line_by_line(as_lines(x, axes), ord, fmt, 1)
    if ord in (math.inf, -math.inf) and own in (None, fmt):
        return _extreme(_magnitudes(x, fmt), axes, ord, fmt)
    if ord == 0 and axes:
        nonzero = (x != 0) if not isinstance(x, Words) else (x.planes[0] != 0).any(0)
        return _as_format(nonzero.sum(axes), fmt)
    return _line_by_line(as_lines(x, axes), ord, fmt, 1)


def _of_matrices(x: Any, ord: Any, axes: tuple[int, ...], fmt: Part) -> Any:
    """Norms along two axes, without them."""
    if ord in (None, "fro"):
        return _roots(x, axes, fmt)
    if ord in (1, -1, math.inf, -math.inf):
        rows, columns = axes if abs(ord) == 1 else axes[::-1]
        sums = _sum_of_magnitudes(x, (rows,), fmt)
        left = (columns - (columns > rows),)
        return _extreme(sums, left, math.copysign(math.inf, ord), fmt)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return _line_by_line(permuted(x, (*kept, *axes)), ord, fmt, 2)


# ── magnitudes, sums of them, and the largest ────────────────────────────────


def _magnitudes(x: Any, fmt: Part) -> Any:
    """|x|, of complex numbers rounded once."""
    if not is_complex(x):
        return abs(x)
    pairs = _parts(x)
    return _roots(pairs, (pairs.ndim - 1,), fmt)


def _parts(x: Any) -> Any:
    """Real and imaginary parts on a last axis."""
    if isinstance(x, Words):
        part = x.format.part
        planes = [namespace(x).moveaxis(plane, 0, -1)[None] for plane in x.planes]
        return Words.of(part, planes)  # type: ignore[arg-type]
    return namespace(x).stack([x.real, x.imag], -1)


def _sum_of_magnitudes(x: Any, axes: tuple[int, ...], fmt: Part) -> Any:
    if not is_complex(x):
        return exact_sum(abs(x), axes, dtype=fmt.name)
    return _line_by_line(as_lines(x, axes), 1, fmt, 1)


def _line_by_line(x: Any, ord: Any, fmt: Part, axes: int) -> Any:
    """Norms of the last axis or the last two, one at a time, as `widen.linalg.norm` has them."""
    if is_tensor(x) and x.requires_grad and namespace(x).is_grad_enabled():
        raise TypeError(f"ord={ord!r} of these numbers has no gradient; use x.detach()")
    host = x.to_arrays() if isinstance(x, Words) else np.asarray(x.cpu() if is_tensor(x) else x)
    shape = host.shape[: host.ndim - axes]
    norms = [_one_norm(host[at], ord, fmt, axes == 2) for at in np.ndindex(*shape)]
    values = np.array(norms).reshape(len(norms), len(fmt.words)).T.reshape(len(fmt.words), *shape)
    return _like(values[0] if isinstance(fmt, Binary) else values, x, fmt)


def _one_norm(x: Any, ord: Any, fmt: Part, of_matrix: bool) -> tuple[float, ...]:
    first = first_words(x)
    if np.isfinite(first).all():
        return rounded_norm(x, ord, fmt, of_matrix=of_matrix)
    if ord != 1:
        raise ValueError(f"x holds NaN or infinity, for which ord={ord!r} has no exact answer")
    total = sum(math.hypot(z.real, z.imag) for z in first.reshape(-1).tolist())  # inf or NaN
    return (total, *(0.0,) * (len(fmt.words) - 1))


def _extreme(x: Any, axes: tuple[int, ...], ord: float, fmt: Part) -> Any:
    """The largest or the smallest along axes; NaN if there is one."""
    if not axes:
        return x
    size = math.prod(x.shape[axis] for axis in axes)
    if size == 0 and ord < 0:
        raise ValueError("the smallest of no numbers was asked for")
    lines = as_lines(x, axes)
    if size == 0:
        lines = exact_sum(lines, -1, keepdims=True)
    if isinstance(lines, Words):
        return np.max(lines, -1) if ord > 0 else np.min(lines, -1)
    if is_tensor(lines):
        return lines.amax(-1) if ord > 0 else lines.amin(-1)
    return _as_format(lines.max(-1) if ord > 0 else lines.min(-1), fmt)


# ── roots ────────────────────────────────────────────────────────────────────


def _roots(x: Any, axes: tuple[int, ...], fmt: Part) -> Any:
    """Roots of sums of squares along axes, without them."""
    if is_tensor(x) and x.requires_grad and namespace(x).is_grad_enabled():
        from widen.functions.gradients import differentiable_norm

        return differentiable_norm(x, axes, lambda y: _roots(y, axes, fmt))
    lines = as_lines(x, axes)
    if is_complex(lines):
        lines = _parts(lines)
        lines = reshaped(lines, (*lines.shape[:-2], -1))
    kept = tuple(lines.shape[:-1])
    flat = reshaped(lines, (math.prod(kept), lines.shape[-1]))
    if isinstance(flat, Words):
        values = _roots_of_words(flat, fmt)
    else:
        values = _roots_of_floats(cast(flat, "float64"), fmt)
    return _like(values.reshape((*values.shape[:-1], *kept)), x, fmt)


def _roots_of_floats(lines: Any, fmt: Part) -> Any:
    """(words,) outputs in float64; lines with an infinity or a NaN have these."""
    library = namespace(lines)
    finite = library.isfinite(lines).all(-1)
    values = roots.two_norms(library.where(finite[:, None], lines, 0.0), fmt)
    if not bool(finite.all()):
        special = library.where(library.isinf(lines).any(-1), math.inf, math.nan)
        special = library.where(library.isnan(lines).any(-1), math.nan, special)
        not_finite, given = (np.asarray(y.cpu() if is_tensor(y) else y) for y in (~finite, special))
        values[..., not_finite] = 0.0
        first = values if values.ndim == 1 else values[0]
        first[not_finite] = given[not_finite]
    return values


def _roots_of_words(lines: Words, fmt: Part) -> Any:
    """(words, outputs) of `Words`, by exact numbers."""
    plain = lines.cpu().to_arrays() if is_tensor(lines.planes[0]) else lines
    roots = []
    for line in plain:
        heads = np.asarray(line.planes[0][0])
        if np.isfinite(heads).all():
            values_of = line.to_fraction().reshape(-1).tolist()
            squares = sum((value * value for value in values_of), Fraction(0))
            roots.append(rounded_root(squares, False, fmt))
        else:
            worst = math.nan if np.isnan(heads).any() else math.inf
            roots.append((worst, *(0.0,) * (len(fmt.words) - 1)))
    values = np.array(roots).reshape(lines.shape[0], len(fmt.words)).T
    return values[0] if isinstance(fmt, Binary) else values


def _like(values: Any, x: Any, fmt: Part) -> Any:
    """Values of a format as an array (or tensor, or `Words`) where x is."""
    first = x.planes[0] if isinstance(x, Words) else x
    if isinstance(fmt, Binary):
        return _moved(values.astype(numpy_dtype(fmt.name)), first)
    planes = new_planes(fmt, (1, *values.shape[1:]), None)
    for plane, value in zip(planes, values, strict=True):
        plane[0] = value
    made = Words.of(fmt, planes)
    return made.to_torch(first.device) if is_tensor(first) else made


def _moved(values: Any, like: Any) -> Any:
    if not is_tensor(like):
        return values
    from widen.formats.arrays import as_tensor

    return as_tensor(values).to(like.device)


def _as_format(values: Any, fmt: Part) -> Any:
    """Numbers that a format holds, or their nearest, in it."""
    return cast(np.asarray(values) if np.isscalar(values) else values, fmt.words[0].name)
