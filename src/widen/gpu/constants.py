"""Tables that kernels read: weights of bytes, remainders, the Chinese remainder theorem."""

from __future__ import annotations

import math
from functools import lru_cache
from struct import pack, unpack
from typing import Any

import torch

from widen.bounds import RUNGS
from widen.gpu import tiles
from widen.gpu.kernels.triton import crt, crt_groups
from widen.gpu.kernels.triton import groups as group_kernels
from widen.gpu.kernels.triton.encode import BIAS, MIDDLE_BIAS
from widen.gpu.replay.recording import quietly
from widen.plan import Layout
from widen.stages.compiling.once import once
from widen.systems import Digits, Residues
from widen.systems.moduli import balanced

Tensor = torch.Tensor

LONGEST_BYTES = 64
"""256^j mod p is tabled for j below this; planes hold no more than 342 bits."""


@once
def encoding(moduli: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """(-p, 1/p) of every modulus, and the weights of bytes (`encode.residues`), as int32."""
    rows = [[-p, unpack("i", pack("f", 1 / p))[0]] for p in moduli]
    weights = [[_byte_weights(p, j) for j in range(LONGEST_BYTES)] for p in moduli]
    return constant(rows, torch.int32, device), constant(weights, torch.int32, device)


@once
def rungs(device: torch.device) -> Tensor:
    """`bounds.RUNGS`."""
    return constant(RUNGS, torch.int32, device)


def constant(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A table that kernels read: not part of any one call.

    Whoever makes one keeps it for good (`once`), since a captured graph may point at it. Tables
    are small, and there are as many as layouts.
    """
    with quietly():
        return torch.tensor(values, dtype=dtype, device=device)


def _byte_weights(p: int, skipped: int) -> list[int]:
    """Of two words whose lowest byte weighs 256^skipped modulo p; what they or three are given."""
    powers = [balanced(pow(256, skipped + i, p), p) & 255 for i in range(8)]
    low, high = (int.from_bytes(powers[i : i + 4], "little", signed=True) for i in (0, 4))
    bias = balanced(-int(BIAS) * pow(256, skipped, p), p)
    return [low, high, bias, balanced(-int(MIDDLE_BIAS), p)]


@once
def multiplying(planes: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """Rows (p, w, floor(2^32 w/p), -2^31 mod p) for planes (p, w), uint32."""
    rows = [[p, w, (w << 32) // p, -(1 << 31) % p] for p, w in planes]
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


BYTE_BITS = 340.0
"""|X| that the 49 moduli of int8 hold, as a power of two."""

NORM_TOO_LARGE = 1 << 20
"""Added to the norm of a line, in 1/256 bits: no planes hold it then."""

MOST_BITS = 2040.0
"""|X| that planes of long integers may hold, as a power of two."""

HIGHEST_POINT = 47
"""Of the integers that stand for 1/P_G: 2^point/P_G, where that is below 2^32."""


@once
def any_reconstruction(
    layout: Residues, small: bool, device: torch.device, *, apart: bool = False
) -> tuple[Tensor, int]:
    """Table of `gpu.kernels.triton.crt_groups`, and limbs of X, 0 if it is put together in memory.

    Groups that are not full have the product of other moduli too, times 0: no P_G is small. The
    last row has -P, and where the point of a sum of 1/P_G is. `small`: X has one of few lengths, so
    that kernels are shared. With `apart` a group is one modulus.
    """
    modulus, moduli = layout.modulus, layout.moduli
    choices = tiles.FEW_ANY_LIMBS if small else tiles.ANY_LIMBS
    limbs = next((count for count in choices if modulus.bit_length() <= 32 * count), 0)
    short = layout.bases.count(0) if layout.bases else len(moduli)
    groups = [(moduli[:short][at : at + 3], 3) for at in range(0, short, 3)]
    groups += [(moduli[short:][at : at + 2], 2) for at in range(0, len(moduli) - short, 2)]
    if apart:
        groups = [((p,), 1) for p in moduli]
    wholes = []
    for group, size in groups:
        others = [p for p in moduli if p not in group][: size - len(group)]
        wholes.append(math.prod(group) * math.prod(others))
    times = {1: 1, 2: 1, 3: 3 if layout.parts == 1 else 9}
    multiples = [times[size] for _, size in groups]
    most = sum(x * whole for x, whole in zip(multiples, wholes, strict=True))  # of all S_G
    point = min(HIGHEST_POINT, 31 + min(wholes).bit_length() - 1)
    assert most < 1 << point - 12  # so far is the sum of S_G/P_G from what it should be
    first, width, count, shift, below = int(crt_groups.HEADER) + 1, 32, limbs, 0, 0
    if limbs == 0:
        first, width, pieces = int(crt.START), int(crt.WIDTH), int(crt.PIECES)
        count = -(-modulus.bit_length() // (pieces * width)) * pieces
        shift, below = count * width - modulus.bit_length(), count - pieces
    # Sums, q times a limb of -P (q is far below 2^16), and what is carried.
    assert (most + (1 << 16) << width) + (1 << 34) < 1 << 64
    heads = [
        [*(whole // p for p in group), *[0] * (3 - len(group)), whole, (1 << point) // whole]
        for (group, _), whole in zip(groups, wholes, strict=True)
    ]
    heads.append([point, shift, 0, 0, 0])
    table = []
    for head, number in zip(
        heads, [*(modulus // whole for whole in wholes), -modulus], strict=True
    ):
        held = _limbs(number << shift, count, width)
        carries = held[below - 1 : below] if below else []
        table.append([*head, *carries, *[0] * (first - len(head) - len(carries)), *held])
    padding = [0] * (-(first + count) % 4)
    words = [[x - (x >> 31 << 32) for x in [*row, *padding]] for row in table]
    return constant(words, torch.int32, device), limbs


def _limbs(number: int, count: int, width: int) -> list[int]:
    """The lowest limbs of a number in two's complement."""
    return [number >> width * i & (1 << width) - 1 for i in range(count)]


def any_room(table: Tensor, parts: int) -> int:
    """Words of scratch that an element needs where X has parts and this table."""
    limbs = (table.shape[1] - int(crt.START)) // int(crt.PIECES) * int(crt.WORDS)
    return parts * limbs + len(table) + int(crt_groups.TOGETHER)


@once
def of_limbs(planes: tuple[tuple[int, int], ...], limbs: int, device: torch.device) -> Tensor:
    """Rows (p, floor(2^64/p), w 2^(32 l) mod p and 2^26 of that for every limb l), of (p, w)."""
    rows = [
        [p, _reciprocal(p), *(x for limb in range(limbs) for x in _term(0, w << 32 * limb, p)[1:])]
        for p, w in planes
    ]
    return _table(rows, device)


@once
def words_encoding(
    layout: Residues, count: int, columns: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Constants and weights of `gpu.kernels.triton.encode_words.residues`, int32 and int8.

    Integers have `count` bytes.
    """
    bases = layout.bases or (0,) * len(layout.moduli)
    pairs = list(zip(layout.moduli, bases, strict=True))
    short, long = ([pair for pair in pairs if (pair[1] > 0) is split] for split in (False, True))
    nothing = (1, 0)  # as a modulus: all residues are 0
    for group in (short, long):
        group += [nothing] * (-len(group) % columns)
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
    coefficients = []
    for place in range(3):
        for i, p in enumerate(long):
            group = short + i + place * split
            coefficients.append((p, layout.weights[0][group] // (layout.modulus // p) % p))
    return tuple(coefficients) * (1 if layout.parts == 1 else 3)


@lru_cache(maxsize=256)
def limit_of(layout: Residues) -> int:
    """Largest sum of two line norms, in 1/256, so that X cannot wrap."""
    return math.floor(256 * (math.log2(layout.modulus) - 1 - 2.0**-7))


# ── any unit: remainders, pairs of planes, terms of X ────────────────────────────────────────────

LONGEST_POWER = 512
"""2^j mod p is tabled for j below this."""


def _reciprocal(p: int) -> int:
    """floor(2^64 / p) as the int64 of the same bits."""
    quotient = (1 << 64) // p
    return quotient - (1 << 64) if quotient >= 1 << 63 else quotient


def _table(rows: Any, device: torch.device) -> Tensor:
    return constant(rows, torch.int64, device)


@once
def remainders(layout: Residues, device: torch.device) -> tuple[Tensor, Tensor]:
    """Constants and powers of `gpu.kernels.triton.planes.residues`."""
    powers = [[pow(2, j, p) for j in range(LONGEST_POWER)] for p in layout.moduli]
    return _table(_moduli(layout), device), _table(powers, device)


def _moduli(layout: Residues) -> list[list[int]]:
    """Of every modulus p, 1/p, the base of two digits, planes of the high one and of the sum."""
    count = len(layout.moduli)
    third = count + max(layout.highs) + 1
    places = zip(layout.moduli, layout.bases or [0] * count, layout.highs, layout.sums, strict=True)
    return [
        [p, _reciprocal(p), base, high + count * (high >= 0), both + third * (both >= 0)]
        for p, base, high, both in places
    ]


def _added(limbs: int) -> int:
    """What `gpu.kernels.triton.planes.limbs_of` adds: 128 in every byte."""
    return ((1 << 32 * limbs) - 1) // 255 * 128


@once
def words_remainders(layout: Residues, limbs: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Constants and weights of `gpu.kernels.triton.planes.residues_of_words`."""
    weights = [
        [*(pow(2, 32 * j, p) for j in range(limbs)), -_added(limbs) % p] for p in layout.moduli
    ]
    return _table(_moduli(layout), device), _table(weights, device)


@once
def words_offset(layout: Digits, side: int, limbs: int, device: torch.device) -> Tensor:
    """The offset of `gpu.kernels.triton.planes.digits_of_words`."""
    beta = layout.beta
    every = sum(1 << beta * d + beta - 1 for d in range(layout.counts[side]))
    offset = every - _added(limbs)
    return _table([offset >> 32 * j & 0xFFFFFFFF for j in range(limbs)], device)


@once
def pairs_of(layout: Layout, device: torch.device) -> tuple[Tensor, Tensor]:
    """Products sorted by group, and where every group begins."""
    ordered = sorted(layout.products, key=lambda product: product.group)
    counts = [0] * (layout.groups + 1)
    for product in ordered:
        counts[product.group + 1] += 1
    firsts = [sum(counts[: group + 1]) for group in range(layout.groups + 1)]
    pairs = [[product.left, product.right] for product in ordered]
    return (
        constant(firsts, torch.int32, device),
        constant(pairs, torch.int32, device),
    )


def _coefficients(carrier: Residues) -> list[tuple[int, int]]:
    """Moduli of the carrier and their Chinese remainder coefficients."""
    return [(p, pow(carrier.modulus // p, -1, p)) for p in carrier.moduli]


def _term(group: int, w: int, p: int) -> list[int]:
    return [group, w % p, (w << int(group_kernels.LOW_BITS)) % p]


@once
def direct(layout: Layout, carrier: Residues, device: torch.device) -> tuple[Tensor, Tensor]:
    """Terms and moduli of `gpu.kernels.triton.groups.as_residues`.

    Residues by the carrier's own moduli have one group a byte. Otherwise X is a sum of weighted
    groups; complex numbers give re, 0 and re + im, as which reconstruction takes three products.
    """
    moduli = _coefficients(carrier)
    rows: list[list[list[int]]]
    if isinstance(layout, Residues):
        streams = len(layout.products) // len(moduli)
        rows = [
            [_term(stream * len(moduli) + i, w, p)]
            for stream in range(streams)
            for i, (p, w) in enumerate(moduli)
        ]
    else:
        weights = list(layout.weights)
        if layout.parts == 2:
            real, imaginary = weights
            both = tuple(x + y for x, y in zip(real, imaginary, strict=True))
            weights = [real, (0,) * len(real), both]
        rows = [
            [_term(group, weight * w, p) for group, weight in enumerate(of_stream)]
            for of_stream in weights
            for p, w in moduli
        ]
    every = [[p, _reciprocal(p)] for p, _ in moduli] * (len(rows) // len(moduli))
    return _table(rows, device), _table(every, device)


@once
def through_x(
    layout: Residues, carrier: Residues, device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Tables of `gpu.kernels.triton.groups.through_x`."""
    terms = [
        [
            [_term(max(group, 0), w, p) for group, w in of_p]
            for p, of_p in zip(layout.moduli, of_part, strict=True)
        ]
        for of_part in layout.terms
    ]
    whole = layout.modulus
    basis = [
        [*(w * (whole // q) % p for q in layout.moduli), -w * whole % p]
        for p, w in _coefficients(carrier)
    ]
    inverses = constant([1 / p for p in layout.moduli], torch.float32, device)
    return (
        _table(terms, device),
        _table([[p, _reciprocal(p)] for p in layout.moduli], device),
        inverses,
        _table([[p, _reciprocal(p)] for p in carrier.moduli], device),
        _table(basis, device),
    )


@once
def apart(layout: Layout, carrier: Residues, device: torch.device) -> tuple[Tensor, Tensor]:
    """Terms and moduli of the kernel `groups.as_residues` for residues of each part of X."""
    rows: list[list[list[int]]]
    if isinstance(layout, Residues):
        rows = [
            [_term(max(group, 0), w, p) for group, w in of_p]
            for of_part in layout.terms
            for p, of_p in zip(layout.moduli, of_part, strict=True)
        ]
    else:
        rows = [
            [_term(group, weight * w, p) for group, weight in enumerate(weights)]
            for weights in layout.weights
            for p, w in _coefficients(carrier)
        ]
    every = [[p, _reciprocal(p)] for p in carrier.moduli] * layout.parts
    return _table(rows, device), _table(every, device)
