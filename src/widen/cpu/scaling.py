"""alpha, beta and c on a CPU, and what they make of special values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.cpu.operands import Array, float64_bits


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
