"""X in limbs of float64, rounded once.

X = sum of y P/(p p') - Q P over pairs of moduli, with integers y. P/(p p') and P are cut into limbs
of 32 bits, the last of which has all the rest, so that X is a sum of two to four float64 numbers.
Each is an integer times the unit of its limb, 2^32 of the one before, and exact as long as that
integer is 2^53 at most:

- Of bytes c and c' (`kernels.triton.float_limbs.pair_sums`), y = c p' + c' p <= 255 (p + p'), less
  than 2^17, and its float64 is made by bytes' multiplication alone: 2^17 + y, whose higher word is
  8 y and an exponent. Sums begin with -2^17 of every pair's limb, and so all that is added up
  stays between -G 2^49 and G 2^49 with G pairs, 2^53 at most as long as G is 16 at most. The last
  limb's are between its beginning, which a test looks at for every list of moduli, and 2 G P/2^(32
  (L - 1)).
- `limb_count` has 3/4 of the last number below 2^52, and so itself below 2^53. A part of a complex
  number is x x' - y y', or (x + y)(x' + y') - x x' - y y': it counts G twice.
- Q is the sum by P to nearest, right since |X| < (1/2 - 2^-9) P: what limbs before the last two
  would add is 2^53 of more than 2^80, and float64 leaves out 2^-51 of 4 G. So Q is 4 G at most, and
  Q times a limb of P is exact as sums are.

Instructions of an element of 14 moduli, in machine code for sm_90, tiles of normal numbers: 87, of
which 43 are float64's, which has a pipe of its own; in words of 32 bits 122, of which 67 are for
one pipe. Each pipe takes one in two clocks. (11 moduli: 76 and 104, 16: 111 and 139; float32, 7: 52
and 73.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import torch

from widen.systems import Residues

LIMB = 32
"""Bits of a limb."""

MOST_PAIRS = 16
"""Pairs of moduli, so that sums of so many integers of 49 bits are 2^53 at most."""

LIMBS = (2, 3, 4)
"""Limbs of X, which kernels are compiled for."""

MOST_LIMBS = {1: 4, 2: 2}
"""Limbs up to which reconstruction takes them, by parts of numbers: with more, and two parts, it
takes as long as in words."""

REGISTERS = {3: 128}
"""Registers of a thread, by limbs: 16 warps fit a multiprocessor, as 138 would not let them."""


def limb_count(layout: Residues, parts: int = 1) -> int:
    """Limbs of P and of X, or of both its parts; 0 if there would be too many."""
    pairs = parts * -(-len(layout.moduli) // 2)
    room = (3 * pairs * layout.modulus).bit_length() - 1  # 1.5 pairs P is less than 2^room
    found = next((count for count in LIMBS if room <= LIMB * (count - 1) + 52), 0)
    return found if pairs <= MOST_PAIRS else 0


FAST_IN_FLOAT64 = (80, 90, 100)
"""Compute capabilities of GPUs that add half as many float64 numbers as float32 ones: A100, H100,
H200, B200. Consumers' add one for 64."""

_expected: ContextVar[int] = ContextVar("_expected", default=90)


@contextmanager
def expecting(architecture: int | None) -> Iterator[None]:
    """Kernels of a CPU's tensors are looked at for GPUs of this compute capability, if any."""
    token = _expected.set(_expected.get() if architecture is None else architecture)
    try:
        yield
    finally:
        _expected.reset(token)


def is_fast_in_float64(device: torch.device) -> bool:
    """Whether a GPU is one of these, or whichever is expected."""
    return (architecture_of(device) or _expected.get()) in FAST_IN_FLOAT64


@lru_cache(maxsize=64)
def architecture_of(device: torch.device) -> int | None:
    """A GPU's compute capability, 90 for 9.0; None for a CPU."""
    if device.type != "cuda":
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def limbs_of(number: int, count: int) -> list[int]:
    """Integers whose sum a number is: each has LIMB of its bits, but for the last, the highest."""
    cut = [number & ((1 << LIMB) - 1 << LIMB * at) for at in range(count - 1)]
    return [*cut, number >> LIMB * (count - 1) << LIMB * (count - 1)]


def limbs_of_bytes(layout: Residues, parts: int, device: torch.device) -> int:
    """Limbs in which a GPU puts X together from bytes; 0 if it does so in words."""
    limbs = limb_count(layout, parts) if is_fast_in_float64(device) else 0
    return limbs if limbs <= MOST_LIMBS[parts] else 0


@lru_cache(maxsize=256)
def reconstruction(layout: Residues, limbs: int) -> tuple[Any, ...]:
    """Constants of `pair_sums` and `limbs_of` for X in so many limbs: basis, P, 1/P."""
    modulus, moduli = layout.modulus, layout.moduli
    rows, starts = [], [0] * limbs
    for first in range(0, len(moduli), 2):
        p, other = (*moduli[first : first + 2], 0)[:2]
        weights = (8 * other, 8 * p) if other else (8, 0)
        cut = limbs_of(modulus // (p * (other or 1)), limbs)
        rows.append((*weights, *map(float, cut)))
        starts = [start - (x << 17) for start, x in zip(starts, cut, strict=True)]
    return (
        (tuple(map(float, starts)), *rows),
        tuple(map(float, limbs_of(modulus, limbs))),
        1 / modulus,
    )
