"""What a survey counts, of entries that lie side by side: device functions only.

A function of `x` gives what it counts of the entries of one line. Its twin `..._of_lines` looks at
four entries of neighbouring lines, each an array, and adds them to `tallies`, at a place t for
every line, at t + BLOCK and at t + 2 BLOCK. (The compiler asks whether arrays overlap before it
takes several entries at a time, and gives up where there are more than these.) Entries are the bits
of float64 numbers.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import device, summing
from widen.cpu.kernels.limbs import MAGNITUDE, bit_length, whole_mantissa
from widen.cpu.kernels.loops import side_by_side

BLOCK = 512  # NEAR_LINES of the backend
DEPTH = 4
STRETCH = 2048  # entries of a line that are counted at a time
NORM_BITS = 15  # of bounds
FARTHEST = 48  # of bounds
MOST_ROWS = 1 << 16  # whose sums float64 holds: q^2 is 2^32 at most


@device
def ranges(x):
    """The largest magnitude, the least one that is not 0, and how many are not 0."""
    most, least, count = np.int64(0), MAGNITUDE, np.int64(0)
    for t in range(x.shape[0]):
        magnitude = x[t] & MAGNITUDE
        most = max(most, magnitude)
        least = min(least, magnitude if magnitude else MAGNITUDE)
        count += np.int64(magnitude != 0)
    return most, least, count


@device
def ranges_of_lines(a, b, c, d, tallies):
    """The same of many lines."""
    for t in range(a.shape[0]):
        w, x, y, z = a[t] & MAGNITUDE, b[t] & MAGNITUDE, c[t] & MAGNITUDE, d[t] & MAGNITUDE
        tallies[t] = max(tallies[t], max(max(w, x), max(y, z)))
        tallies[t + 2 * BLOCK] += (np.int64(w != 0) + np.int64(x != 0)) + (
            np.int64(y != 0) + np.int64(z != 0)
        )
        w, x = w if w else MAGNITUDE, x if x else MAGNITUDE
        y, z = y if y else MAGNITUDE, z if z else MAGNITUDE
        tallies[t + BLOCK] = min(tallies[t + BLOCK], min(min(w, x), min(y, z)))


@summing
def norms(x, scale):
    """Sums of q = ceil(|x| scale) and of q^2: integers below 2^53, exact in any order."""
    one, two = 0.0, 0.0
    for t in range(x.shape[0]):
        q = np.ceil(abs(np.int64(x[t]).view(np.float64)) * scale)
        one += q
        two += q * q
    return np.int64(one), np.int64(two)


@summing
def norms_of_lines(a, b, c, d, scale, tallies):
    """The same of many lines, each with its scale; for MOST_ROWS entries at most."""
    for t in range(a.shape[0]):
        w = np.ceil(abs(np.int64(a[t]).view(np.float64)) * scale[t])
        x = np.ceil(abs(np.int64(b[t]).view(np.float64)) * scale[t])
        y = np.ceil(abs(np.int64(c[t]).view(np.float64)) * scale[t])
        z = np.ceil(abs(np.int64(d[t]).view(np.float64)) * scale[t])
        tallies[t] += (w + x) + (y + z)
        tallies[t + BLOCK] += (w * w + x * x) + (y * y + z * z)


@device
def norms_of_any(line, top):
    """The same of a line of any range, in integers: scale is 2^(NORM_BITS - top)."""
    one, two = np.int64(0), np.int64(0)
    for h in range(line.shape[0]):
        magnitude = line[h] & MAGNITUDE
        m = whole_mantissa(magnitude)
        shift = min(top - NORM_BITS - max(magnitude >> 52, 1) + 1075, 62)
        # Negative only where the whole line is subnormal and shorter than NORM_BITS bits.
        right, left = max(shift, 0), max(-shift, 0)
        q = ((m << left) + ((np.int64(1) << right) - 1)) >> right
        one += q
        two += q * q
    return one, two


@device
def fields(x, least):
    """The sum of exponent fields, each taken to be `least` at least."""
    total = np.int64(0)
    for t in range(x.shape[0]):
        total += max((x[t] & MAGNITUDE) >> 52, least)
    return total


@device
def fields_of_lines(a, b, c, d, least, tallies):
    """The same of many lines."""
    for t in range(a.shape[0]):
        w, x = max((a[t] & MAGNITUDE) >> 52, least[t]), max((b[t] & MAGNITUDE) >> 52, least[t])
        y, z = max((c[t] & MAGNITUDE) >> 52, least[t]), max((d[t] & MAGNITUDE) >> 52, least[t])
        tallies[t] += (w + x) + (y + z)


@device
def row(bits, start, stop, h, r, buffer):
    """Entry h + r of lines start..stop, side by side; after the last one, zeros.

    The buffer has room for DEPTH rows, and a row of zeros after that.
    """
    if h + r < bits.shape[1]:
        return side_by_side(bits[start:stop, h + r], buffer[r * BLOCK :])
    return buffer[DEPTH * BLOCK :]


@device
def first_bit(magnitude):
    """Exponent of the highest bit of a finite float64 that is not 0, given by its bits."""
    return bit_length(whole_mantissa(magnitude)) + max(magnitude >> 52, 1) - 1076
