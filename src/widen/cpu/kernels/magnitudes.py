"""Short magnitudes of lines, whose products certificates sum (`definition.magnitude`)."""

from __future__ import annotations

import numpy as np
from numba import types

from widen.cpu.kernels.cache import BITS2, BITS3, BOOL, FLOAT, device, kernel
from widen.cpu.kernels.limbs import INFINITY, MAGNITUDE, times_power
from widen.cpu.kernels.lines import NOTHING, TILE
from widen.cpu.kernels.loops import copy

TINY = 2.0**-126  # `bounds.LOWEST_SHORT`
SHORT = ~np.int64((1 << 45) - 1)  # the bits of a float64 that `bounds.SHORT_BITS` leave


@device
def _magnitudes(buffer, shift, add, out):
    """Put |x| 2^shift, rounded down to 8 bits, or 0 for what is not finite, into `out`; or add it.

    What is below TINY is 0 as well.
    """
    for t in range(out.shape[0]):
        x = abs(times_power(buffer[t], shift[t]))
        short = np.int64(np.float64(x).view(np.int64) & SHORT).view(np.float64)
        counts = buffer[t] & MAGNITUDE < INFINITY and x >= TINY
        out[t] = (short if counts else 0.0) + (out[t] if add else 0.0)


@kernel(
    types.float32[:, :, ::1], BITS3, BOOL, BITS2, BOOL[:, :], BOOL, instead=FLOAT[:, :, ::1]
)  # fmt: skip
def magnitudes(begin, end, out, bits, lines_near, top, skip, add):
    """Put |x| 2^-top, rounded down to 8 bits, into `out`, or add it; skipped lines are 0.

    `out` is (batch, lines, inner), or (batch, inner, lines) with `lines_near`; a job is a row of
    it.
    """
    _, outer, near = out.shape
    buffer, shift = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for job in range(begin, end):
        b, i = job // outer, job % outer
        for start in range(0, near, TILE):
            size = min(TILE, near - start)
            here = slice(start, start + size)
            if lines_near:
                copy(bits[b, here, i], buffer[:size])
                tops, skipped = top[b, here], skip[b, here]
                for t in range(size):
                    shift[t] = NOTHING if skipped[t] else -tops[t]
            else:
                copy(bits[b, i, here], buffer[:size])
                shift[:size] = NOTHING if skip[b, i] else -top[b, i]
            _magnitudes(buffer[:size], shift[:size], add, out[b, i, here])
