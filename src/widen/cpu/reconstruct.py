"""Reconstruction on a CPU: groups to one exact integer, rounded once into the result."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from widen import bounds
from widen.cpu import kernels
from widen.cpu.encode import balanced_digits, centred
from widen.cpu.operands import Array, Quantised, every, word_table
from widen.cpu.scaling import ScaledBlock
from widen.cpu.threads import launch
from widen.formats import Part
from widen.plan import Layout
from widen.systems import Residues

ELEMENTS_TILE = 128
"""How many elements are one job."""

MOST_IN_FLOATS = 31
"""Moduli of a product that is put together in float64 where its rounding is beyond doubt."""


@lru_cache(maxsize=64)
def _reconstruction(layout: Layout) -> tuple[Array, Array, Array, Array, Array]:
    """Places, constants, limbs of P/p and of P, bit offsets: a layout as the kernels read it."""
    if isinstance(layout, Residues):
        whole = layout.modulus
        width = (whole.bit_length() + 2) // 32 + 1  # |X| + slack < P, and a sign
        terms = layout.terms
        places = [[[group for group, _ in of_p] for of_p in of_part] for of_part in terms]
        constants = [
            [
                [p, 1 / p, *(centred(w, p) for _, w in of_p)]
                for p, of_p in zip(layout.moduli, of_part, strict=True)
            ]
            for of_part in terms
        ]
        basis = np.array([balanced_digits(whole // p, width) for p in layout.moduli], np.int32)
        modulus = np.array(balanced_digits(whole, width), np.int32)
        return np.array(places), np.array(constants), basis, modulus, np.zeros(0, np.int64)
    largest = [max(map(abs, of_group)) for of_group in zip(*layout.weights, strict=True)]
    offsets = np.array([weight.bit_length() - 1 for weight in largest])
    signs = [[[(weight > 0) - (weight < 0) for weight in part]] for part in layout.weights]
    # What was left out may be more than all that is there, if lines are zero.
    width = (max(int(offsets.max()), layout.dropped.bit_length()) + 69) // 32 + 3
    empty = np.zeros((0, width), np.int32)
    none = np.zeros((layout.parts, 0, 2))
    return np.array(signs), none, empty, np.zeros(width, np.int32), offsets


@lru_cache(maxsize=64)
def _expansion(layout: Layout) -> tuple[Array, Array, Array] | None:
    """Balanced digits of P/p and of P, below 2^53 / (count 2^22), and what the digits weigh.

    None for digits, and for more moduli than float64 has the range for: limbs serve these.
    """
    count = len(layout.moduli) if isinstance(layout, Residues) else 0
    if not isinstance(layout, Residues) or count > MOST_IN_FLOATS:
        return None
    step = 32 - count.bit_length()
    width = layout.modulus.bit_length() // step + 1  # a sign, too
    basis = [balanced_digits(layout.modulus // p, width, step) for p in layout.moduli]
    scales = np.ldexp(1.0, step * np.arange(width))
    modulus = balanced_digits(layout.modulus, width, step)
    return np.array(basis, np.float64), np.array(modulus, np.float64), scales


def reconstruct(
    groups: Array, layout: Layout, sides: tuple[Quantised, Quantised], fmt: Part, out: Array,
    *, slack: bool = False, scaling: ScaledBlock | None = None,
) -> Array:  # fmt: skip
    """Round X (or alpha X + beta c) into `out`, (words, parts, batch, m, n), once.

    With `slack`, gives a mask of the elements whose rounding is still open because lines were
    rounded or products dropped; without, an all-false one.
    """
    batch = out.shape[2]
    unsettled = np.zeros(out.shape[2:], bool)
    always = bounds.least_error(layout.dropped) if slack else -1
    exact, exponents = [side.exact for side in sides], [side.exponents for side in sides]
    bits = exponents
    if slack:  # not read otherwise
        exact = [flags & (layout.dropped == 0) for flags in exact]
        bits = [magnitude_bits(side) for side in sides]
        # An error of X times 2^-NOTHING would be beyond every sum.
        exponents = [np.where(side.survey.special, 0, side.exponents) for side in sides]
    lines = (*(every(of_lines, batch) for of_lines in (*exponents, *bits, *exact)), always)
    flat = groups.reshape(len(groups), -1)
    table, expansion = _reconstruction(layout), _expansion(layout)
    round_into(
        out, unsettled, flat, table, lines=lines, fmt=fmt, scaling=scaling, expansion=expansion
    )
    return unsettled


def round_into(
    out: Array, unsettled: Array, groups: Array, table: tuple[Array, ...], *,
    lines: tuple[Any, ...], fmt: Part, scaling: ScaledBlock | None,
    expansion: tuple[Array, Array, Array] | None = None,
) -> None:  # fmt: skip
    """Round integers, given by groups (groups, elements) and tables, as the kernels read them.

    `lines` are exponents of rows and columns, bits of their magnitudes, whether they are exact, and
    the bits of what else the error may be.
    """
    given: tuple[Any, ...]
    jobs, words = -(-unsettled.size // ELEMENTS_TILE), word_table(fmt)
    if scaling is not None:
        scalars = (scaling.alpha, scaling.beta, scaling.addend)
        given = (groups, *table, *lines, words, out, unsettled, *scalars)
        launch(kernels.scaling.scaled, jobs, 8 * groups.size, *given)
    elif len(words) > 1:
        given = (groups, *table, *lines, words, out, unsettled)
        launch(kernels.wide.rounded, jobs, 8 * groups.size, *given)
    else:
        tiles = np.arange(jobs)
        if expansion is not None:
            doubtful = np.zeros(jobs, bool)
            given = (groups, *table[:2], *expansion, *lines, words[0], out[0], doubtful)
            launch(kernels.reconstruct.in_floats, jobs, groups.size, *given)
            tiles = np.flatnonzero(doubtful)
        if tiles.size:
            work = groups.size // jobs * tiles.size
            given = (tiles, groups, *table, *lines, words[0], out[0], unsettled)
            launch(kernels.reconstruct.in_limbs, tiles.size, work, *given)


def magnitude_bits(lines: Quantised) -> Array:
    """Exponents v with 2^exponent ||a||_1 < 2^v."""
    length = np.frexp(lines.survey.q1.astype(np.float64))[1]
    bits: Array = np.maximum(length + lines.sigma - bounds.NORM_BITS, 0)
    return bits
