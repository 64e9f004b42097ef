"""What kernels are told of moduli: byte weights, coefficients, the Chinese remainder theorem."""

from __future__ import annotations

import math
from functools import lru_cache
from struct import pack, unpack
from typing import Any

import torch

from widen.backends.recording import quietly
from widen.kernels.triton.encode import BIAS
from widen.systems import Residues
from widen.systems.moduli import balanced

Tensor = torch.Tensor

LONGEST_BYTES = 64
"""256^j mod p is tabled for j below this; planes hold no more than 342 bits."""


@lru_cache(maxsize=256)
def encoding(moduli: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """(-p, 1/p) of every modulus, and the weights of bytes (`encode.residues`), as int32."""
    rows = [[-p, unpack("i", pack("f", 1 / p))[0]] for p in moduli]
    weights = [[_byte_weights(p, j) for j in range(LONGEST_BYTES)] for p in moduli]
    return constant(rows, torch.int32, device), constant(weights, torch.int32, device)


def constant(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A table that kernels read, made once and kept: not part of any one call."""
    with quietly():
        return torch.tensor(values, dtype=dtype, device=device)


def _byte_weights(p: int, skipped: int) -> list[int]:
    """Of two words whose lowest byte weighs 256^skipped modulo p; and what is added to them."""
    powers = [balanced(pow(256, skipped + i, p), p) & 255 for i in range(8)]
    low, high = (int.from_bytes(powers[i : i + 4], "little", signed=True) for i in (0, 4))
    bias = balanced(-int(BIAS) * pow(256, skipped, p), p)
    return [low, high, bias, 0]


@lru_cache(maxsize=256)
def multiplying(planes: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """Rows (p, w, floor(2^32 w/p), first multiple of p from 2^31 on) for planes (p, w), uint32."""
    rows = [[p, w, (w << 32) // p, -(-(1 << 31) // p) * p] for p, w in planes]
    return constant(rows, torch.uint32, device)


@lru_cache(maxsize=256)
def of_planes(layout: Residues) -> tuple[tuple[int, int], ...]:
    """The modulus and the Chinese remainder coefficient of every plane of bytes."""
    short = layout.bases.count(0) if layout.bases else len(layout.moduli)
    streams = 1 if layout.parts == 1 else 3
    return tuple((p, pow(layout.modulus // p, -1, p)) for p in layout.moduli[:short]) * streams


@lru_cache(maxsize=256)
def reconstruction(layout: Residues) -> tuple[Any, ...]:
    """Constants of `integer_words`: basis, P in pieces of 16 bits, words taken, 2^(32 words)/P."""
    modulus, moduli = layout.modulus, layout.moduli
    width = max((modulus.bit_length() + 1) // 32 + 1, 2)
    triples = [moduli[start : start + 3] for start in range(0, len(moduli), 3)]
    rest = [modulus // math.prod(triple) for triple in triples]
    words = max(-(-x.bit_length() // 32) for x in rest)
    if 6 * 3 * len(triples) * modulus >> 32 * (words - 1) >= 1 << 63:  # sums of complex numbers
        words += 1
    basis = tuple(
        (*(math.prod(triple) // p for p in triple), *[0] * (3 - len(triple)),
         *(x >> (32 * word) & 0xFFFFFFFF for word in range(words)))
        for triple, x in zip(triples, rest, strict=True)
    )  # fmt: skip
    enough = (i for i in range(1, words + 1) if 1 << 12 + 32 * (words + 1 - i) <= modulus)
    taken = next(enough, words + 1)
    pieces = tuple(modulus >> (16 * piece) & 0xFFFF for piece in range(2 * width))
    return basis, pieces, taken, 2.0 ** (32 * words) / modulus


CHUNK, HELD_LIMBS = 8, (4, 8, 16)
"""Limbs of X, 32 bits each, that kernels compute at a time; and lengths they hold in registers."""

MOST_BITS = 2040.0
"""|X| that planes of long integers may hold, as a power of two."""


@lru_cache(maxsize=256)
def any_reconstruction(layout: Residues, device: torch.device) -> tuple[Tensor, int, int]:
    """Table, limbs and bits of P for `kernels.triton.crt.round_any`."""
    modulus = layout.modulus
    bits = modulus.bit_length()
    limbs = next((count for count in HELD_LIMBS if bits <= 32 * count), -(-bits // 256) * 8)
    rows = [[p, (1 << 40) // p, *_pairs(modulus // p, limbs)] for p in layout.moduli]
    rows.append([0, 0, *_pairs(-modulus, limbs)])
    return constant(rows, torch.int64, device), limbs, bits


def _pairs(number: int, limbs: int) -> list[int]:
    """A number in two's complement, two limbs of 32 bits in every int64."""
    pairs = [number >> 64 * i & (1 << 64) - 1 for i in range(limbs // 2)]
    return [pair - (1 << 64) if pair >> 63 else pair for pair in pairs]


@lru_cache(maxsize=256)
def words_encoding(
    layout: Residues, count: int, columns: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Constants and weights of `kernels.triton.encode_words.residues`, int32 and int8.

    Integers have `count` bytes.
    """
    bases = layout.bases or (0,) * len(layout.moduli)
    pairs = list(zip(layout.moduli, bases, strict=True))
    short, long = ([pair for pair in pairs if (pair[1] > 0) is split] for split in (False, True))
    nothing = (1, 0)  # as a modulus: all residues are 0
    for some in (short, long):
        some += [nothing] * (-len(some) % columns)
    rows = [_byte_residues(p, count) for p, _ in short]
    for start in range(0, len(long), columns):
        powers = [_byte_residues(p, count) for p, _ in long[start : start + columns]]
        lows = [[balanced(w, 128) for w in of_p] for of_p in powers]
        rows += lows
        rows += [
            [(w - low) // 128 for w, low in zip(*both, strict=True)]
            for both in zip(powers, lows, strict=True)
        ]
    moduli = [p for p, _ in short + long]
    known = [-p for p in moduli] + [unpack("i", pack("f", 1 / p))[0] for p in moduli]
    return constant(known, torch.int32, device), constant(rows, torch.int8, device)


def _byte_residues(p: int, count: int) -> list[int]:
    """Balanced residues of 256^i."""
    return [balanced(pow(256, i, p), p) for i in range(count)]


@lru_cache(maxsize=256)
def of_long_planes(layout: Residues) -> tuple[tuple[int, int], ...]:
    """(p, coefficient) of every plane for moduli in two digits: low digits, high ones, sums.

    The sum of a modulus's three products is then the residue of X times (P/p)^-1.
    """
    count, short = len(layout.moduli), layout.bases.count(0)
    split = count - short
    long = layout.moduli[short:]
    found = []
    for place in range(3):
        for i, p in enumerate(long):
            group = short + i + place * split
            found.append((p, layout.weights[0][group] // (layout.modulus // p) % p))
    return tuple(found) * (1 if layout.parts == 1 else 3)


@lru_cache(maxsize=256)
def limit_of(layout: Residues) -> int:
    """Largest sum of two line norms, in 1/256, so that X cannot wrap."""
    return math.floor(256 * (math.log2(layout.modulus) - 1 - 2.0**-7))
