"""Sums, dot products and norms of `Words`: exact on the way, rounded once at the end.

On a CPU they are superaccumulators, on a GPU products (`products`). What holds an infinity or a NaN
there is fetched, and the result goes back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import cast, is_tensor, part_of, words_of
from widen.words import arithmetic, conversions, elementwise, products
from widen.words.axes import axes_of, kept_shape
from widen.words.promotion import common_format, with_parts

if TYPE_CHECKING:
    from widen.words.array import Words


def lines_along(x: Words, axes: tuple[int, ...]) -> Words:
    """What is added as rows: (outputs, inner)."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    sizes = [math.prod(x.shape[axis] for axis in group) for group in (kept, axes)]
    return x.transpose(*kept, *axes).reshape(sizes) if x.ndim else x.reshape(1, 1)


def _block(lines: Words) -> Any:
    """(words, parts, outputs, inner) in float64."""
    block = np.empty((len(lines.planes), *lines.planes[0].shape))
    for target, plane in zip(block, lines.planes, strict=True):
        target[...] = conversions.on_cpu(plane)
    return block


def _wrapped(like: Words, fmt: Any, words: Any, plain: Any, shape: tuple[int, ...]) -> Words:
    """Words (count, parts, outputs) as an array like another, special values as plain has them."""
    names = words_of(fmt)
    planes = [cast(word, name) for word, name in zip(words, names, strict=True)]
    special = ~np.isfinite(plain) | ~np.isfinite(words[0])
    first = np.where(~np.isfinite(plain), plain, planes[0] + 0).astype(names[0])  # no -0
    planes = [
        first,
        *(np.where(special, 0, p).astype(p.dtype) + p.dtype.type(0) for p in planes[1:]),
    ]
    planes = [plane.reshape(fmt.parts, *shape) for plane in planes]
    made = type(like).of(fmt, planes)
    return made.to_torch(like.device) if is_tensor(like.planes[0]) else made


def total(x: Words, axis: Any, keepdims: bool) -> Words:
    """Sums along axes."""
    axes = axes_of(axis, x.ndim)
    lines, kept = lines_along(x, axes), kept_shape(x.shape, axes, keepdims)
    if products.serve(lines):
        return products.total(lines).reshape(kept)
    block = _block(lines)
    count, parts, outputs, inner = block.shape
    fine = np.isfinite(block[0])
    with np.errstate(all="ignore"):
        plain = np.where(fine, 0.0, block[0]).sum(-1)
    terms = np.where(fine, block, 0.0).reshape(1, count, parts * outputs, inner)
    words, _ = elementwise.totals(part_of(x.format), terms, None, [1])
    return _wrapped(x, x.format, words.reshape(count, parts, outputs), plain, kept)


def dot(x: Words, y: Words) -> Words:
    """The dot product of two vectors."""
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            f"dot takes two vectors of one length; shapes {x.shape} and {y.shape} were given "
            "(x @ y multiplies matrices)"
        )
    return dots(x, y[:, None])[0]


def dots(x: Words, y: Words) -> Words:
    """The dot products of a vector with the columns of a matrix, each rounded once."""
    if products.serve(x, y):
        return products.dot(x, y)
    fmt = common_format(x.format, y.format)
    a, b = (_block(lines_along(z.astype(fmt), (0,))) for z in (x, y))
    fine = np.isfinite(a[0]).all() and np.isfinite(b[0]).all()
    a = np.broadcast_to(a, b.shape)
    plain, rows = np.zeros((fmt.parts, b.shape[2])), []
    for part in range(fmt.parts):
        pairs = [(0, 0)] if fmt.parts == 1 else [(0, part), (1, 1 - part)]
        left, right = (np.stack([z[:, pair[at]] for pair in pairs]) for at, z in ((0, a), (1, b)))
        signs = [1, 2 * part - 1][: len(pairs)]
        if not fine:
            with np.errstate(all="ignore"):
                each = (left[:, 0] * right[:, 0]).sum(-1)
                plain[part] = np.tensordot(np.array(signs, float), each, 1)
            left, right = (np.where(np.isfinite(z), z, 0.0) for z in (left, right))
        rows.append(elementwise.totals(part_of(fmt), left, right, signs)[0])
    return _wrapped(x, fmt, np.stack(rows, 1), plain, (b.shape[2],))


def norm(x: Words, axis: Any, keepdims: bool) -> Words:
    """2-norms along axes."""
    axes = axes_of(axis, x.ndim)
    lines, kept = lines_along(x, axes), kept_shape(x.shape, axes, keepdims)
    norms = products.norm(lines) if products.serve(lines) else None
    if norms is not None:
        return norms.reshape(kept)
    block = _block(lines)
    fine = np.isfinite(block[0])
    with np.errstate(all="ignore"):
        plain = np.abs(np.where(fine, 0.0, block[0])).max((0, -1), initial=0.0)[None]
    squares = np.where(fine, block, 0.0).swapaxes(0, 1).copy()
    part = part_of(x.format)
    words, shifts = elementwise.totals(part, squares, squares, [1] * x.format.parts, scaled=True)
    fmt = with_parts(x.format, 1)
    root = arithmetic.root(_wrapped(x, fmt, words[:, None], plain, kept))
    exponent = shifts.reshape(1, *kept)
    if is_tensor(root.planes[0]):
        exponent = root.planes[0].new_tensor(exponent.tolist()).int()
    return arithmetic.times_power(root, exponent)
