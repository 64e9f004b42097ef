"""Certified error bounds of tensors, from the tables of their lines, for those who ask."""

from __future__ import annotations

import torch

from widen import bounds
from widen.stages.error_bounds import TINY, Losses, bound_of, power
from widen.formats import Part
from widen.gpu.kernels.triton.numbers import FLAGS, INEXACT, LARGEST, SCALE, SIGMA, SPECIAL, SUM

Tensor = torch.Tensor


def error_bound(
    tables: tuple[Tensor, Tensor],
    k: int,
    fmt: Part,
    out: Tensor,
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
