"""Certified error bounds of tensors: `certificates.error_bound` on a GPU, for those who ask."""

from __future__ import annotations

import torch

from widen import bounds
from widen.formats import Part
from widen.kernels.triton.numbers import FLAGS, INEXACT, LARGEST, SCALE, SIGMA, SPECIAL, SUM

Tensor = torch.Tensor
TINY = 5e-324


def error_bound(
    tables: tuple[Tensor, Tensor],
    k: int,
    parts: int,
    fmt: Part,
    out: Tensor,
    rounded_once: Tensor,
    scale: float = 1.0,
    dropped: int = 0,
) -> Tensor:
    """|c - AB| <= bound for `out`, (parts, batch, m, n), rounded up.

    (2^-s ||b||_1 [row rounded] + 2^-t ||a||_1 [column rounded])/2 + parts k/4 2^-(s+t) [both], and
    what was dropped; complex numbers sqrt(2) of it; then half an ulp of each part. Every factor is
    rounded up and 2^-40 more covers the sums. `scale` is |alpha|.
    """
    batch, m, n = out.shape[1:]
    rows, columns = ([x.reshape(-1, 1, size) for x in _lines(table)] for table, size in
                     zip(tables, (m, n), strict=True))  # fmt: skip
    lost_rows, norm_rows, step_rows = (x.transpose(1, 2) for x in rows)
    lost_columns, norm_columns, step_columns = columns
    error = 0.5 * (_times(lost_rows, norm_columns) + _times(norm_rows, lost_columns))
    error += 0.25 * parts * k * _times(lost_rows, lost_columns)
    if dropped:
        error += float(dropped) * (step_rows * step_columns)
    error = scale * (error * (1 + 2.0**-40) * parts**0.5 + 4 * TINY) + TINY
    exact = ((lost_rows == 0) & (lost_columns == 0) & (dropped == 0)) | rounded_once
    error = torch.where(exact, 0.0, error)
    ulps = [_ulp(part, fmt) for part in out]
    half = 0.5 * ulps[0] if parts == 1 else _half_modulus(ulps[0], ulps[1])
    total = torch.where(error > 0, _next(error + half), half.clamp_min(TINY))
    total = torch.where(torch.isinf(out).any(0), torch.inf, total)
    total = torch.where(torch.isnan(out).any(0), torch.nan, total)
    return total.expand(batch, m, n)


def _lines(table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """2^-s where a line was rounded, 0 elsewhere; its 1-norm, rounded up; and 2^-s."""
    s, sigma = table[int(SCALE)], table[int(SIGMA)]
    inexact = (table[int(FLAGS)] & int(INEXACT)) > 0
    step = _power(-s)
    lost = torch.where(inexact, step, 0.0)
    q1 = table[int(SUM)].to(torch.float64)
    empty = (table[int(FLAGS)] & int(SPECIAL)) > 0
    top = torch.where(empty | (table[int(LARGEST)] == 0), 0, sigma - s)
    return lost, q1 * _power(top - bounds.NORM_BITS) + TINY, step


def _power(exponents: Tensor) -> Tensor:
    """2^exponents, rounded up into the range of float64 (infinity above it)."""
    half = exponents.div(2, rounding_mode="floor")
    factors = [
        ((x.to(torch.int64).clamp(-1023, 1024) + 1023) << 52).view(torch.float64)
        for x in (half, exponents - half)
    ]
    return (factors[0] * factors[1]).clamp_min(TINY)


def _times(x: Tensor, y: Tensor) -> Tensor:
    """Product in which 0 times infinity is 0."""
    return torch.where((x == 0) | (y == 0), 0.0, x * y)


def _ulp(x: Tensor, fmt: Part) -> Tensor:
    """Twice what rounding may lose, given the number's first word (`certificates._ulp`)."""
    wide = x.to(torch.float64)
    smallest, length = 2.0**fmt.lowest, torch.frexp(wide).exponent.to(torch.int64)
    last, others = fmt.words[-1], sum(word.precision for word in fmt.words[:-1])
    ulp = torch.where(
        length <= last.highest + others,
        _power(length - fmt.precision),
        _power(length - max(others, last.precision)),
    ).clamp_min(smallest)
    return torch.where(wide == 0, smallest, ulp)


def _half_modulus(x: Tensor, y: Tensor) -> Tensor:
    """|x + iy|/2 of powers of two, rounded up, also where there is no 2^-40 of it left to add."""
    large = torch.maximum(x, y)
    ratio = torch.minimum(x, y) / large
    return _next(large * (0.5 * torch.sqrt(1 + ratio**2) * (1 + 2.0**-40)))


def _next(x: Tensor) -> Tensor:
    """The next number above."""
    return torch.nextafter(x, torch.full_like(x, torch.inf))
