"""Single elements on a CPU: exact dot products, special values, alpha and beta."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.backends.launch import launch
from widen.backends.operands import Array, Operand
from widen.formats import Binary


@dataclass(frozen=True)
class Scaling:
    """alpha and beta as float64 bits, one a part, and the addend c, (parts, batch, m, n)."""

    alpha: Array
    beta: Array
    addend: Array

    def cut(self, batch: slice, rows: slice, columns: slice) -> Scaling:
        """The same for a block; its part of c as float64 bits."""
        block = self.addend[:, batch, rows, columns]
        if block.dtype != np.int64:
            block = block.astype(np.float64, copy=False).view(np.int64)
        return Scaling(self.alpha, self.beta, block)


def scaling(alpha: complex, beta: complex, addend: Array | None, shape: tuple[int, ...]) -> Scaling:
    """alpha, beta and c for results of this shape, (parts, batch, m, n)."""
    if addend is None:
        addend = np.broadcast_to(np.zeros(()), shape)
    bits = [
        np.array([x.real, x.imag][: shape[0]], np.float64).view(np.int64) for x in (alpha, beta)
    ]
    return Scaling(bits[0], bits[1], addend)


def dots(
    left: Operand, right: Operand, where: tuple[Array, ...], fmt: Binary, out: Array,
    scaling: Scaling | None,
) -> None:  # fmt: skip
    """Correctly rounded elements by exact dot products: out[:, b, i, j] for the listed b, i, j."""
    parts = out.shape[0]
    scalar = np.zeros(parts, np.int64)
    alpha, beta, addend = (
        (scalar, scalar, np.zeros((1, 1, 1, 1), np.int64))
        if scaling is None
        else (scaling.alpha, scaling.beta, scaling.addend)
    )
    places = [np.ascontiguousarray(index) for index in where]
    work = 8 * left.shape[2] * places[0].size
    settings = np.array([fmt.precision, fmt.lowest, fmt.highest])
    launch(
        "dot.dots", places[0].size, work, left.joined_bits(), right.joined_bits(), *places,
        scaling is None, alpha, beta, addend, settings, out,
    )  # fmt: skip


def special_values(left: Operand, right: Operand, rows: Array, columns: Array, out: Array) -> None:
    """Overwrite the elements of special rows and columns."""
    _, batch, m, n = out.shape
    work = batch * m * n * left.shape[2]
    launch(
        "special.special",
        batch * m,
        work,
        left.joined_bits(),
        right.joined_bits(),
        rows,
        columns,
        out,
    )


def scale_special(out: Array, scaling: Scaling, special: Array) -> None:
    """Alpha T + beta c in ordinary arithmetic where T is special or c is not finite.

    What is finite there has no say: it stands in as 0, and by its sign beside a special part of the
    same number, since a product of finite numbers must not overflow.
    """
    addend = scaling.addend.view(np.float64)
    odd: Array = np.asarray(~np.isfinite(addend).all(axis=0))
    touched: Array = special | odd
    if not touched.any():
        return
    product, c = (_number(_signs(part[touched]) for part in parts) for parts in (out, addend))
    alpha, beta = (_number(_signs(x.view(np.float64))) for x in (scaling.alpha, scaling.beta))
    total = np.zeros(product.shape, product.dtype)
    total[special[touched]] += alpha * product[special[touched]]
    total[odd[touched]] += beta * c[odd[touched]]
    for part, value in zip(out, (total.real, total.imag), strict=False):
        part[touched] = value


def _signs(x: Array) -> Array:
    """Finite numbers as -1, 0 or 1; infinities and NaN as they are."""
    return np.where(np.isfinite(x), np.sign(x), x)


def _number(parts: Iterable[Any]) -> Any:
    """A real or complex number (or array) from its parts."""
    real, *imaginary = parts
    if not imaginary:
        return real
    joined_parts = np.empty(np.shape(real), np.complex128)
    joined_parts.real, joined_parts.imag = real, imaginary[0]
    return joined_parts[()]
