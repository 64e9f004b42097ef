"""Constants that the kernels of any unit read: remainders, pairs of planes, terms of X."""

from __future__ import annotations

from typing import Any

import torch

from widen.gpu.constants import constant
from widen.gpu.kernels.triton import groups as group_kernels
from widen.plan import Layout
from widen.stages.compiling.once import once
from widen.systems import Digits, Residues

Tensor = torch.Tensor

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
