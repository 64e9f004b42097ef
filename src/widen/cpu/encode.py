"""Encoding on a CPU: planes of residues or digits of scaled and rounded numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from widen.cpu import kernels
from widen.cpu.operands import Array, Operand, Quantised
from widen.cpu.threads import launch
from widen.encoded import Held
from widen.plan import Layout
from widen.systems import Digits, Residues

CONVERSION = 1 << 24
"""Bytes that lines of other formats, converted to float64, take while they are looked at."""

WIDEST_CHUNK = 24
"""Bits of the chunks in which integers of several words are reduced."""


def conversion_room(workspace: int) -> int:
    """Bytes that converted lines may take where all scratch memory is limited."""
    return min(CONVERSION, workspace // 4)


@dataclass(frozen=True)
class EncodedLines(Held):
    """What is kept of an encoded operand: a copy of its numbers, their planes and their lines."""

    operand: Operand
    planes: Array
    lines: Quantised

    def item(self, index: int) -> EncodedLines:
        """One item of a batch, as a view."""
        only, everything = slice(index, index + 1), slice(None)
        operand, lines = self.operand.cut(only, everything), self.lines.cut(only, everything)
        return EncodedLines(operand, self.planes[:, only], lines)

    def planes_for(
        self, chosen: list[int], batch: slice, lines: slice, inner: slice
    ) -> list[Array]:
        """Views of some planes, a block of each."""
        batch = slice(None) if self.shape[0] == 1 else batch
        return [self.planes[plane][batch, lines, inner] for plane in chosen]


def centred(x: int, p: int) -> int:
    """The residue of x modulo p of smallest magnitude."""
    return (x + p // 2) % p - p // 2


def balanced_digits(x: int, width: int, bits: int = 32) -> list[int]:
    """Balanced digits, x = sum(digit 2^(bits l)); those of 32 bits, limbs, fit an int32."""
    digits = []
    for _ in range(width):
        digits.append(centred(x, 1 << bits))
        x = (x - digits[-1]) >> bits
    return digits


@lru_cache(maxsize=64)
def _remainders(moduli: tuple[int, ...], powers: int) -> Array:
    """Per modulus (p, 1/p, 2^26 mod p, 2^52 mod p, ...), so many powers."""
    return np.array(
        [[p, 1 / p, *(centred(1 << 26 * j, p) for j in range(1, powers + 1))] for p in moduli],
        np.float64,
    )


@lru_cache(maxsize=64)
def _powers(moduli: tuple[int, ...], count: int) -> Array:
    return np.array([[centred(pow(2, j, p), p) for j in range(count)] for p in moduli], np.float64)


def encode(
    operand: Operand, lines: Quantised, layout: Layout, side: int, *, shift: Array | None = None,
    memory: Callable[[tuple[int, ...]], Array] = np.empty, room: int = CONVERSION,
) -> Array:  # fmt: skip
    """Planes of shape (planes, batch, lines, inner), laid out in memory as the operand is.

    Entry h of a line stands for x 2^shift[h]; `memory` gives an array for the planes. Words of
    other formats, or that do not lie evenly in memory, are converted in pieces of `room` bytes.
    """
    batch, _, inner = operand.shape
    along = np.zeros((batch, inner), np.int64)
    if shift is not None:
        along += shift
    rows, columns, flip = lines.exponents, along, operand.lines_near
    if flip:
        rows, columns = columns, rows
        operand = operand.transposed()
    planes = memory((layout.planes[side], *operand.shape))
    most = int(lines.sigma.max(initial=0))  # |a'| <= 2^(most + 1)
    jobs, streams = planes.shape[1] * planes.shape[2], _streams(planes, layout)
    if operand.lower:
        _encode_words(operand, rows, columns, layout, most, streams=streams, room=room)
    else:
        for bits, target in zip(operand.bits(), streams, strict=False):
            _encode_floats(bits, rows, columns, layout, most, target)
    if isinstance(layout, Residues) and layout.parts == 2:
        launch(
            kernels.encode.residue_sums, jobs, planes.size, _remainders(layout.moduli, 1), planes
        )
    if isinstance(layout, Residues) and layout.bases:
        for target in streams:
            launch(kernels.encode.two_digits, jobs, target.size, _bases(layout), target)
    return planes.swapaxes(2, 3) if flip else planes


def _encode_floats(
    bits: Array, rows: Array, columns: Array, layout: Layout, most: int, target: Array
) -> None:
    """One part of numbers of one word."""
    jobs, work = bits.shape[0] * bits.shape[1], target.size
    if isinstance(layout, Digits):
        launch(kernels.encode.digits, jobs, work, bits, rows, columns, layout.beta, target)
        return
    assert isinstance(layout, Residues)
    constants = _remainders(layout.moduli, 1 if most < 53 or most > 76 else 2)
    if most <= 76:
        launch(kernels.encode.narrow_residues, jobs, work, bits, rows, columns, constants, target)
    else:
        # An entry m 2^e is shifted left by at most sigma: m = 1 if it is subnormal.
        powers = _powers(layout.moduli, most // 64 * 64 + 64)
        launch(
            kernels.encode.wide_residues, jobs, work, bits, rows, columns, constants, powers, target
        )


def _encode_words(
    operand: Operand, rows: Array, columns: Array, layout: Layout, most: int,
    *, streams: list[Array], room: int,
) -> None:  # fmt: skip
    """Numbers of several words, rows as they lie in memory, in pieces where they must be copied."""
    width, length = chunks(most + 2)
    for stretch in _stretches(operand, room):
        bits = operand.cut(slice(None), stretch).stacked_bits()
        for part, target in zip(range(bits.shape[1]), streams, strict=False):
            given = bits[:, part], rows, columns, stretch.start, width
            jobs, work = bits.shape[2] * bits.shape[3], target.size
            if isinstance(layout, Residues):
                constants = _remainders(layout.moduli, 1)
                powers = _chunk_powers(layout.moduli, width, length)
                launch(kernels.wide.residues, jobs, work, *given, constants, powers, target)
            else:
                assert isinstance(layout, Digits)
                launch(kernels.wide.digits, jobs, work, *given, length, layout.beta, target)


def _stretches(operand: Operand, room: int) -> Iterator[slice]:
    count = operand.shape[1]
    step = count if operand.in_a_block else max(1, room // (2 * operand.bytes_a_line))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def chunks(bits: int) -> tuple[int, int]:
    """Width and number of the chunks of an integer of so many bits.

    As wide as they may be for the sum of chunks up to 2^width times residues up to p/2 to stay
    within 2^26 p, which is what the kernels' `balance` reduces: 2^(27 - width) of them.

    >>> chunks(110), chunks(870), chunks(4200)
    ((24, 5), (21, 42), (19, 222))
    """
    for width in range(WIDEST_CHUNK, 18, -1):
        length = -(-bits // width)
        if length <= 1 << (27 - width):
            return width, length
    raise ValueError(f"integers of {bits} bits are too long for chunks")


@lru_cache(maxsize=64)
def _chunk_powers(moduli: tuple[int, ...], width: int, length: int) -> Array:
    """Per modulus, balanced powers of 2^width; with zeros for the kernel's fours and twos."""
    powers = np.zeros((-(-len(moduli) // 4) * 4, -(-length // 2) * 2))
    for i, p in enumerate(moduli):
        powers[i, :length] = [centred(pow(2, width * c, p), p) for c in range(length)]
    return powers


@lru_cache(maxsize=64)
def _bases(layout: Residues) -> Array:
    """(modulus, base, 1/base, plane of high digits, plane of sums or -1) of those in two digits."""
    first = len(layout.moduli)
    second = first + sum(high >= 0 for high in layout.highs)
    return np.array(
        [
            (i, base, 1 / base, first + high, second + both if both >= 0 else -1)
            for i, (base, high, both) in enumerate(
                zip(layout.bases, layout.highs, layout.sums, strict=True)
            )
            if base
        ]
    )


def _streams(planes: Array, layout: Layout) -> list[Array]:
    """Planes by part: real, imaginary, and for residues their sum."""
    count = 1 if layout.parts == 1 else 3 if layout.modulus else 2
    each = len(planes) // count
    return [planes[start : start + each] for start in range(0, len(planes), each)]
