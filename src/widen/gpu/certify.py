"""Certificates on a GPU: which elements keep their contract, and by how much."""

from __future__ import annotations

import torch

from widen import bounds
from widen.bounds import Certificate
from widen.formats import Part
from widen.gpu import tiles
from widen.gpu.hardware import is_hopper, programs
from widen.gpu.kernels.triton import multiply as multiply_kernels
from widen.gpu.kernels.triton.numbers import (
    FLAGS,
    INEXACT,
    LARGEST,
    LEVEL,
    SCALE,
    SIGMA,
    SPECIAL,
    SUM,
    WEIGHT,
)
from widen.gpu.multiply import descriptor
from widen.gpu.operands import Tensor
from widen.gpu.replay.launch import launch
from widen.gpu.replay.recording import listener
from widen.gpu.small import are_small, certify_small
from widen.stages.error_bounds import TINY, Losses, bound_of, power


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
        certify_small(left, right, tables, terms, marks, shift=shift, both=both)
        return marks
    if is_hopper(left.device):
        from widen.gpu.kernels.cuda.certify import launcher

        marks = torch.zeros((batch, m, n), dtype=torch.uint8, device=left.device)
        run = launcher(left, right, batch, k, terms, shift, both, int(INEXACT))
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


def error_bound(
    tables: tuple[Tensor, Tensor],
    k: int,
    fmt: Part,
    out: Tensor,
    *,
    rounded_once: Tensor,
    scale: float = 1.0,
    dropped: int = 0,
) -> Tensor:
    """`error_bounds.bound_of` for `out`, (parts, batch, m, n)."""
    batch, m, n = out.shape[1:]
    rows, columns = _losses(tables[0], (-1, m, 1)), _losses(tables[1], (-1, 1, n))
    found: Tensor = bound_of(rows, columns, k, out, fmt, rounded_once, scale, dropped)
    return found.expand(batch, m, n)


def _losses(table: Tensor, shape: tuple[int, ...]) -> Losses:
    """What a table says of its lines."""
    s, sigma = table[int(SCALE)], table[int(SIGMA)]
    inexact = (table[int(FLAGS)] & int(INEXACT)) > 0
    step = power(-s)
    empty = (table[int(FLAGS)] & int(SPECIAL)) > 0
    top = torch.where(empty | (table[int(LARGEST)] == 0), 0, sigma - s)
    norm = table[int(SUM)].to(torch.float64) * power(top - bounds.NORM_BITS) + TINY
    lost = torch.where(inexact, step, 0.0)
    return Losses(lost.reshape(shape), norm.reshape(shape), step.reshape(shape))
