"""alpha, beta and c on a GPU: reconstruction and repair of alpha A B + beta c, rounded once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from widen.gpu.constants import constant
from widen.gpu.operands import ALL, Lines, Piece, Tensor, picked
from widen.stages import problem
from widen.stages.compiling.once import once


@once
def nowhere(device: torch.device) -> Tensor:
    """Something to point at where there is no c."""
    return constant([0], torch.int64, device)


NO_ADDEND = {
    "c_part_stride": 0, "c_batch_stride": 0, "c_row_stride": 0, "c_column_stride": 0,
    "C_FIELDS": (52, 11),
}  # fmt: skip
"""What kernels are given of c where there is none."""

NOT_SCALED = {**NO_ADDEND, "C_PARTS": 0, "alpha": 0, "alpha_i": 0, "beta": 0, "beta_i": 0}
"""What kernels are given that neither scale nor add, beside something to point at for c."""


@dataclass(frozen=True)
class Scaling(problem.Scaling):
    """alpha and beta, and c as the bits of its floats, a view (parts, batch, m, n).

    Kernels for one list of moduli read the first words of c (`named`), those for any of them all
    of its words (`named_words`).
    """

    addend: Lines | None

    def taken(self, rows: Piece, columns: Piece, batch: slice = ALL) -> Scaling:
        """The same for some rows and columns."""
        if self.addend is None:
            return self
        words = picked(self.addend.words[:, :, batch], rows, columns)
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

    @property
    def named_scalars(self) -> dict[str, Any]:
        """Bits of the scalars, as kernels name them."""
        alpha, alpha_i, beta, beta_i = np.array(self.numbers).view(np.int64).tolist()
        return {"alpha": alpha, "alpha_i": alpha_i, "beta": beta, "beta_i": beta_i}

    def named(self, out: Tensor) -> dict[str, Any]:
        """c, its strides and the scalars, as kernels for one list of moduli name them.

        If there is no c they point at `out`, and read nothing.
        """
        if self.addend is None:
            return {"c": out, **NO_ADDEND, "C_PARTS": 0, **self.named_scalars}
        bits = self.addend.bits
        part, batch, row, column = bits.stride()
        return {
            "c": bits, "c_part_stride": part, "c_batch_stride": batch, "c_row_stride": row,
            "c_column_stride": column, "C_PARTS": bits.shape[0], "C_FIELDS": self.addend.fields,
            **self.named_scalars,
        }  # fmt: skip

    @property
    def alpha_bits(self) -> int:
        """|re alpha| + |im alpha| < 2^this: one more than the larger one's if both are there."""
        parts = abs(self.alpha.real), abs(self.alpha.imag)
        return math.frexp(max(parts))[1] + int(min(parts) > 0)

    def named_words(self, device: torch.device) -> dict[str, Any]:
        """c, its strides and the scalars, as kernels for any moduli and words name them."""
        if self.addend is None:
            return {
                "c": nowhere(device), "c_word_stride": 0, **NO_ADDEND, "c_words": 1, "c_parts": 0,
                **self.named_scalars,
            }  # fmt: skip
        words = self.addend.words
        word, part, batch, row, column = words.stride()
        return {
            "c": words, "c_word_stride": word, "c_part_stride": part, "c_batch_stride": batch,
            "c_row_stride": row, "c_column_stride": column, "c_words": len(words),
            "c_parts": words.shape[1], "C_FIELDS": self.addend.fields, **self.named_scalars,
        }  # fmt: skip
