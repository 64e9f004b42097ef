"""alpha, beta and c on a CPU, and what they make of special values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.cpu.operands import Array, float64_bits
from widen.stages import problem

TILE = 256
"""Rows of an addend that are compared with columns at a time."""


@dataclass(frozen=True)
class Scaling(problem.Scaling):
    """alpha, beta and c, whose words are views (parts, batch, m, n) of whatever dtypes."""

    addend: tuple[Array, ...]

    def cut(self, block: tuple[slice, slice, slice]) -> ScaledBlock:
        """What kernels read for a block: float64 bits."""
        batch, rows, columns = block
        words = [float64_bits(word[:, batch, rows, columns]) for word in self.addend]
        addend = words[0][None] if len(words) == 1 else np.stack(words)
        alpha, beta = (
            np.array([x.real, x.imag][: addend.shape[1]], np.float64).view(np.int64)
            for x in (self.alpha, self.beta)
        )
        return ScaledBlock(alpha, beta, addend)

    def is_mirrored(self, *, conjugated: bool) -> bool:
        """Whether c is its own transpose (conjugated: adjoint), bit for bit, and finite."""
        n = self.addend[0].shape[-1]
        for word in self.addend:
            for start in range(0, n, TILE):  # tiles of rows beside tiles of columns
                rows, rest = slice(start, start + TILE), slice(start, n)
                above, below = word[..., rows, rest], word[..., rest, rows].swapaxes(-1, -2)
                if conjugated:
                    below = np.concatenate([below[:1], 0.0 - below[1:]])
                if not (np.isfinite(above).all() and _same_bits(above, below)):
                    return False
        return True


def _same_bits(x: Array, y: Array) -> bool:
    """Whether finite numbers are equal, and so are the signs of zeros."""
    return bool((x == y).all() and (np.signbit(x) == np.signbit(y)).all())


@dataclass(frozen=True)
class ScaledBlock:
    """alpha and beta as float64 bits, one a part, and c, (words, parts, batch, m, n)."""

    alpha: Array
    beta: Array
    addend: Array

    def cut(self, rows: Any, columns: Any) -> ScaledBlock:
        """The same for some rows and columns."""
        return ScaledBlock(self.alpha, self.beta, self.addend[..., rows, columns])

    def pick(self, at: Any) -> ScaledBlock:
        """The same for chosen elements of one batch item, (batch item, rows, columns)."""
        return ScaledBlock(self.alpha, self.beta, self.addend[:, :, *at][:, :, None])


def scale_special(out: Array, scaling: ScaledBlock, special: Array) -> None:
    """The sum alpha T + beta c in ordinary arithmetic where T is special or c is not finite.

    What is finite there has no say: it stands in as 0, and by its sign beside a special part of the
    same number, since a product of finite numbers must not overflow.
    """
    addend = scaling.addend[0].view(np.float64)
    special_addend: Array = np.asarray(~np.isfinite(addend).all(axis=0))
    touched: Array = special | special_addend
    if not touched.any():
        return
    product, c = (_number(_signs(part[touched]) for part in parts) for parts in (out[0], addend))
    alpha, beta = (_number(_signs(x.view(np.float64))) for x in (scaling.alpha, scaling.beta))
    total = np.zeros(product.shape, product.dtype)
    total[special[touched]] += alpha * product[special[touched]]
    total[special_addend[touched]] += beta * c[special_addend[touched]]
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
