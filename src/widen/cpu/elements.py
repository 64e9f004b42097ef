"""Single elements on a CPU: exact dot products, special values, alpha and beta."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from widen.cpu.threads import launch
from widen.cpu.operands import Array, Operand, float64_bits
from widen.formats import Part


@dataclass(frozen=True)
class Scaling:
    """alpha and beta as float64 bits, one a part, and the addend c.

    c is (words, parts, batch, m, n), float64 bits; or a tuple of words of whatever dtypes, before
    it is cut.
    """

    alpha: Array
    beta: Array
    addend: Any

    def cut(self, batch: slice, rows: slice, columns: slice) -> Scaling:
        """The same for a block; its part of c as float64 bits."""
        if isinstance(self.addend, np.ndarray):
            return Scaling(self.alpha, self.beta, self.addend[:, :, batch, rows, columns])
        words = [float64_bits(word[:, batch, rows, columns]) for word in self.addend]
        block = words[0][None] if len(words) == 1 else np.stack(words)
        return Scaling(self.alpha, self.beta, block)


def scaling(
    alpha: complex, beta: complex, addend: tuple[Array, ...] | None, shape: tuple[int, ...]
) -> Scaling:
    """alpha, beta and c, its words, for results of this shape, (parts, batch, m, n)."""
    if addend is None:
        addend = (np.broadcast_to(np.zeros(()), shape),)
    bits = [
        np.array([x.real, x.imag][: shape[0]], np.float64).view(np.int64) for x in (alpha, beta)
    ]
    return Scaling(bits[0], bits[1], addend)


@lru_cache(maxsize=64)
def word_table(fmt: Part) -> Array:
    """A format as kernels read it: (precision, lowest, highest) of every word."""
    return np.array([[word.precision, word.lowest, word.highest] for word in fmt.words])


def dots(
    left: Operand, right: Operand, where: tuple[Array, ...], fmt: Part, out: Array,
    scaling: Scaling | None,
) -> None:  # fmt: skip
    """Correctly rounded elements by exact dot products: out[..., b, i, j] for those listed."""
    parts = out.shape[1]
    scalar = np.zeros(parts, np.int64)
    alpha, beta, addend = (
        (scalar, scalar, np.zeros((1, 1, 1, 1, 1), np.int64))
        if scaling is None
        else (scaling.alpha, scaling.beta, scaling.addend)
    )
    places = [np.ascontiguousarray(index) for index in where]
    pairs = len(left.words) * len(right.words)
    work = 8 * left.shape[2] * pairs * places[0].size
    launch(
        "dot.dots", places[0].size, work, left.stacked_bits(), right.stacked_bits(), *places,
        scaling is None, alpha, beta, addend, word_table(fmt), out,
    )  # fmt: skip


def special_values(left: Operand, right: Operand, rows: Array, columns: Array, out: Array) -> None:
    """Overwrite the elements of special rows and columns, in their first words."""
    _, _, batch, m, n = out.shape
    work = batch * m * n * left.shape[2]
    launch(
        "special.special", batch * m, work, left.joined_bits(), right.joined_bits(), rows, columns,
        out[0],
    )  # fmt: skip
    if len(out) > 1:
        out[1:, :, rows[:, :, None] | columns[:, None, :]] = 0.0


def scale_special(out: Array, scaling: Scaling, special: Array) -> None:
    """Alpha T + beta c in ordinary arithmetic where T is special or c is not finite.

    What is finite there has no say: it stands in as 0, and by its sign beside a special part of the
    same number, since a product of finite numbers must not overflow.
    """
    addend = scaling.addend[0].view(np.float64)
    odd: Array = np.asarray(~np.isfinite(addend).all(axis=0))
    touched: Array = special | odd
    if not touched.any():
        return
    product, c = (_number(_signs(part[touched]) for part in parts) for parts in (out[0], addend))
    alpha, beta = (_number(_signs(x.view(np.float64))) for x in (scaling.alpha, scaling.beta))
    total = np.zeros(product.shape, product.dtype)
    total[special[touched]] += alpha * product[special[touched]]
    total[odd[touched]] += beta * c[odd[touched]]
    for part, value in zip(out[0], (total.real, total.imag), strict=False):
        part[touched] = value
    out[1:, :, touched] = 0.0


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
