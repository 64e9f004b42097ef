"""alpha, beta and c on a GPU: reconstruction and repair of alpha A B + beta c, rounded once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from widen.backends import cuts
from widen.backends import torch as backend
from widen.backends.cuts import Piece
from widen.backends.torch_constants import constant
from widen.backends.torch_lines import Lines, Tensor
from widen.bounds import Certificate
from widen.formats import Binary
from widen.kernels import tiles
from widen.kernels.once import once
from widen.kernels.triton import scaled
from widen.systems import Residues


@once
def nowhere(device: torch.device) -> Tensor:
    """Something to point at where there is no c."""
    return constant([0], torch.int64, device)


@dataclass(frozen=True)
class Scaling:
    """alpha and beta, and c as the bits of its floats, a view (parts, batch, m, n).

    It has the verbs of `backends.torch` that know of them.
    """

    alpha: complex
    beta: complex
    addend: Lines | None

    def cut(self, batch: slice, rows: slice, columns: slice) -> Scaling:
        """The same for a block."""
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
    def _numbers(self) -> tuple[float, float, float, float]:
        return self.alpha.real, self.alpha.imag, self.beta.real, self.beta.imag

    def _arguments(self, out: Tensor) -> tuple[object, ...]:
        """c, its strides, and the scalars' bits; something else to point at if there is no c."""
        scalars = np.array(self._numbers).view(np.int64).tolist()
        if self.addend is None:
            return out, 0, 0, 0, 0, *scalars
        return self.addend.bits, *self.addend.bits.stride(), *scalars

    @property
    def _form(self) -> tuple[int, tuple[int, int]]:
        """Parts of c, and the widths of its fields."""
        if self.addend is None:
            return 0, (52, 11)
        return self.addend.bits.shape[0], self.addend.fields

    @property
    def _alpha_bits(self) -> int:
        """|re alpha| + |im alpha| < 2^this: one more than the larger one's if both are there."""
        parts = abs(self.alpha.real), abs(self.alpha.imag)
        return math.frexp(max(parts))[1] + int(min(parts) > 0)

    def told(self, device: torch.device) -> tuple[tuple[Any, ...], tuple[int, int]]:
        """What kernels for any moduli and words are told: c, strides, scalars; and c's fields."""
        bits = self._alpha_bits
        scalars = np.array(self._numbers).view(np.int64).tolist()
        if self.addend is None:
            return (nowhere(device), *[0] * 5, 1, 0, *scalars, bits), (52, 11)
        words = self.addend.words
        return (
            (words, *words.stride(), len(words), words.shape[1], *scalars, bits),
            self.addend.fields,
        )

    def reconstruct(
        self, groups: Tensor, layout: Residues, tables: tuple[Tensor, Tensor],
        batches: tuple[int, int], fmt: Binary, out: Tensor, marks: Tensor | None, *, slack: bool,
    ) -> Tensor:  # fmt: skip
        """Round alpha X + beta c into `out`; as `backends.torch.reconstruct`."""
        used, alpha_bits = tuple(int(x != 0) for x in self._numbers), self._alpha_bits
        if out[0].numel() <= tiles.SMALL:
            return backend.reconstruct_any(
                groups, layout, tables, batches, fmt, out, marks, slack=slack,
                addend=self.told(out.device),
            )  # fmt: skip
        return backend.reconstruct(
            groups, layout, tables, batches, fmt, out, marks, slack=slack,
            scaling=(
                scaled.round_scaled, tiles.RECONSTRUCT_LONG,
                (*self._arguments(out), alpha_bits), (used, *self._form),
            ),
        )  # fmt: skip

    def repair(
        self, left: Lines, right: Lines, tables: tuple[Tensor, Tensor], fmt: Binary, out: Tensor,
        marks: Tensor, test: Certificate | None, repaired: Tensor,
    ) -> None:  # fmt: skip
        """Make every marked element final; as `backends.torch.repair`."""
        backend.repair(
            left, right, tables, fmt, out, marks, test, repaired,
            (*self._arguments(out), True, *self._form),
        )  # fmt: skip
