"""Certificates on a GPU: which elements keep their contract, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from widen import bounds
from widen.bounds import Certificate
from widen.formats import Part
from widen.gpu import tiles
from widen.gpu.kernels.cuda import certify as cuda_kernels
from widen.gpu.kernels.cuda.launcher import is_hopper
from widen.gpu.kernels.triton import multiply as multiply_kernels
from widen.gpu.kernels.triton import small as small_kernels
from widen.gpu.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    LEVEL,
    SCALE,
    SIGMA,
    SUM,
    WEIGHT,
)
from widen.gpu.multiply import are_small, descriptor, launch_small
from widen.gpu.operands import Tensor
from widen.gpu.replay.launch import launch, programs
from widen.gpu.replay.recording import listener
from widen.stages.error_bounds import Losses, Terms, bound_of, losses_of


def certify(
    left: Tensor, right: Tensor, tables: tuple[Tensor, Tensor], k: int, test: Certificate, *,
    kept: int, terms: int,
) -> Tensor:  # fmt: skip
    """Marks (batch, m, n) of elements that the first `terms` leading integers do not certify.

    Leading integers are (planes, batch, lines, pitch), of `kept` bits beside the first. Where
    products were left out no line counts as exact in `tables` (`units.Engine.fitted`).
    """
    planes, left_batch, m, _ = left.shape
    _, right_batch, n, _ = right.shape
    batch = max(left_batch, right_batch)
    longest = tiles.LONGEST_SUM // planes  # products of two kinds meet in one sum
    terms, shift = min(terms, k, longest), test.shift + 2 * (bounds.lead_bits(k) - kept)
    both = float(test.both + test.always)
    if planes == 2 and are_small(left, right, k):
        marks = torch.empty((batch, m, n), dtype=torch.uint8, device=left.device)
        more = {
            "marks": marks, "rows_table": tables[0], "columns_table": tables[1], "shift": shift,
            "both": both,
        }  # fmt: skip
        launch_small(small_kernels.certify, 1, left, right, terms, more)
        return marks
    if is_hopper(left.device):
        marks = torch.zeros((batch, m, n), dtype=torch.uint8, device=left.device)
        run = cuda_kernels.launcher(
            left, right, k, terms, shift=shift, both=both, inexact=int(INEXACT)
        )
        rows = [table[int(row)] for table in tables for row in (LEVEL, FLAGS, WEIGHT)]
        given = (left, right, marks, *rows)
        run(*(tensor.data_ptr() for tensor in given))
        recorder = listener()
        if recorder is not None:
            recorder.launched(given, run, tensors=False)
        return marks
    marks = torch.empty((batch, m, n), dtype=torch.uint8, device=left.device)
    tile = tiles.CERTIFY[planes]
    count = batch * -(-m // tile.rows) * -(-n // tile.columns)
    row_table, column_table = tables
    launch(
        multiply_kernels.certify, (programs(left.device, count, tile.warps),),
        {
            **tile.named, "left": descriptor(left, k, tile.rows, tile.inner),
            "right": descriptor(right, k, tile.columns, tile.inner), "marks": marks,
            "rows_table": row_table, "columns_table": column_table, "m": m, "n": n, "k": terms,
            "batch": batch, "left_batch": left_batch, "right_batch": right_batch, "shift": shift,
            "both": both, "PLANES": planes,
        },
        warps=tile.warps, stages=tile.stages,
    )  # fmt: skip
    return marks


BYTES_AN_ELEMENT = 160
"""Of what is there at one time while the bounds of some elements are worked out, about."""

MOST_AT_ONCE = 1 << 23
"""Elements whose bounds are worked out at a time, at most."""


@dataclass
class Largest:
    """The largest bound of a finite element (0 if there is none), and how many there are.

    They stay on the device until they are read.
    """

    bound: Tensor
    finite: Tensor

    @classmethod
    def of_nothing(cls, where: torch.device) -> Largest:
        """Before any element is looked at."""
        return cls(
            torch.zeros((), dtype=torch.float64, device=where),
            torch.zeros((), dtype=torch.int64, device=where),
        )

    def take(self, bounds: Tensor, values: Tensor) -> None:
        """Look at elements (batch, m, n) whose first words are (parts, batch, m, n)."""
        finite = torch.isfinite(values).all(0)
        self.bound = torch.maximum(self.bound, torch.where(finite, bounds, 0.0).amax())
        self.finite = self.finite + finite.sum()


def error_bound(
    tables: tuple[Tensor, Tensor], fmt: Part, out: Tensor, rounded_once: Tensor, terms: Terms,
    *, room: int, target: Tensor | None, largest: Largest,
) -> None:  # fmt: skip
    """`error_bounds.bound_of` for `out`, (parts, batch, m, n), into `target` if there is one.

    So many elements at a time as there is room (bytes) for.
    """
    _, batch, m, n = out.shape
    rows, columns = _losses(tables[0], (-1, m, 1)), _losses(tables[1], (-1, 1, n))
    most = min(room // BYTES_AN_ELEMENT, MOST_AT_ONCE)
    items, height = max(1, most // (m * n)), max(1, most // n)
    for b in range(0, batch, items):
        for i in range(0, m, height):
            block = slice(b, b + items), slice(i, i + height)
            values = out[:, *block]
            bound = bound_of(
                _cut(rows, *block), _cut(columns, block[0], slice(None)), values, fmt,
                rounded_once[block], terms,
            )  # fmt: skip
            if target is not None:
                target[block] = bound
            largest.take(bound, values)


def _losses(table: Tensor, shape: tuple[int, ...]) -> Losses:
    """What a table says of its lines."""
    lost = (table[int(FLAGS)] & int(INEXACT)) > 0
    return losses_of(lost, table[int(SUM)], table[int(SCALE)], table[int(SIGMA)]).reshaped(shape)


def _cut(lines: Losses, batch: slice, rows: slice) -> Losses:
    """The same for some batch items and rows; a batch of 1 stays whole."""
    batch = slice(None) if lines.lost.shape[0] == 1 else batch
    fields = (x[batch, rows] for x in (lines.lost, lines.norm, lines.shift, lines.exponent))
    return Losses(*fields)
