"""alpha, beta and c on a GPU: reconstruction and repair of alpha A B + beta c, rounded once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from widen.gpu import cuts
from widen.gpu.cuts import Piece
from widen.gpu.operands import Lines, Tensor
from widen.gpu.tables import constant
from widen.stages import problem
from widen.stages.compiling.once import once


@once
def nowhere(device: torch.device) -> Tensor:
    """Something to point at where there is no c."""
    return constant([0], torch.int64, device)


@dataclass(frozen=True)
class Scaling(problem.Scaling):
    """alpha and beta, and c as the bits of its floats, a view (parts, batch, m, n).

    Kernels are told them in two ways: those for one list of moduli, and those for any.
    """

    addend: Lines | None

    def cut(self, block: tuple[slice, slice, slice]) -> Scaling:
        """The same for a block."""
        batch, rows, columns = block
        return self.taken(rows, columns, batch)

    def taken(self, rows: Piece, columns: Piece, batch: slice = cuts.ALL) -> Scaling:
        """The same for some rows and columns."""
        if self.addend is None:
            return self
        words = cuts.elements(self.addend.words[:, :, batch], rows, columns)
        return replace(self, addend=self.addend.like(words))

    def reshaped(self, batch: int, m: int, n: int) -> Scaling:
        """The same for a result whose batch is cut otherwise: a view, or a copy of c."""
        if self.addend is None:
            return self
        words = self.addend.words
        shaped = words.reshape(*words.shape[:2], batch, m, n)
        return replace(self, addend=self.addend.like(shaped))

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """Real and imaginary parts of alpha, then of beta."""
        return self.alpha.real, self.alpha.imag, self.beta.real, self.beta.imag

    def arguments(self, out: Tensor) -> tuple[object, ...]:
        """c, its strides, and the scalars' bits; something else to point at if there is no c."""
        scalars = np.array(self.numbers).view(np.int64).tolist()
        if self.addend is None:
            return out, 0, 0, 0, 0, *scalars
        return self.addend.bits, *self.addend.bits.stride(), *scalars

    @property
    def form(self) -> tuple[int, tuple[int, int]]:
        """Parts of c, and the widths of its fields."""
        if self.addend is None:
            return 0, (52, 11)
        return self.addend.bits.shape[0], self.addend.fields

    @property
    def alpha_bits(self) -> int:
        """|re alpha| + |im alpha| < 2^this: one more than the larger one's if both are there."""
        parts = abs(self.alpha.real), abs(self.alpha.imag)
        return math.frexp(max(parts))[1] + int(min(parts) > 0)

    def for_any(self, device: torch.device) -> tuple[tuple[Any, ...], tuple[int, int]]:
        """What kernels for any moduli and words are told: c, strides, scalars; and c's fields."""
        bits = self.alpha_bits
        scalars = np.array(self.numbers).view(np.int64).tolist()
        if self.addend is None:
            return (nowhere(device), *[0] * 5, 1, 0, *scalars, bits), (52, 11)
        words = self.addend.words
        return (
            (words, *words.stride(), len(words), words.shape[1], *scalars, bits),
            self.addend.fields,
        )
