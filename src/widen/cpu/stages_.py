"""NumPy arrays on a CPU: fused Numba kernels around BLAS products, the definition's bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple
from functools import lru_cache

import numpy as np

from widen import bounds
from widen.cpu.elements import Scaling, word_table
from widen.cpu.threads import launch
from widen.cpu.encode import CONVERSION as CONVERSION
from widen.cpu.encode import balanced_digits, centred
from widen.cpu.encode import encode as encode
from widen.cpu.operands import NOTHING, Array, Operand, Quantised, Survey, every
from widen.bounds import Goal
from widen.formats import Part
from widen.plan import Layout, Product
from widen.planner import Needs
from widen.systems import Residues
from widen.units import Unit

LINES_TILE, ELEMENTS_TILE = 128, 128
"""How many lines, or elements, are one job of some kernels."""

MOST_IN_FLOATS = 31
"""Moduli of a product that is put together in float64 where its rounding is beyond doubt."""


def survey(operand: Operand, goal: Goal | None = None, room: int = CONVERSION) -> Survey:
    """Look at every line: exponents of its first and last bits, and its integer norms.

    With a goal, the last bit is only looked for in lines that the goal may keep exactly. Other
    formats are converted to float64 in pieces of `room` bytes.
    """
    batch, lines, _ = operand.shape
    top, last, q1, q2 = np.empty((4, batch, lines), np.int64)
    found = Survey(top, last, q1, q2, np.empty((batch, lines), bool))
    step = max(1, lines if operand.viewed else room // (2 * operand.bytes_a_line))
    for start in range(0, lines, step):
        some = slice(start, min(start + step, lines))
        part = operand if step >= lines else operand.cut(slice(None), some)
        bits = part.joined_bits()
        seen = _as_array(None if part.lower else goal)  # the last bits are those of other words
        launch(
            "lines.survey", _tiles(part), bits.size, bits, part.lines_near, seen,
            found.top[:, some], found.last[:, some], found.q1[:, some], found.q2[:, some],
            found.special[:, some],
        )  # fmt: skip
        if goal is None:
            found.last[:, some] = balanced_survey(part, np.zeros(part.shape[2], np.int64)).last
        elif part.lower:
            _last_bits(part, goal, found, some)
    return found


def _last_bits(operand: Operand, goal: Goal, found: Survey, some: slice) -> None:
    """The last bits of lines of several words, lowest words first: most lines end there."""
    last = np.full(found.last[:, some].shape, -NOTHING)
    for bits in reversed(operand.word_bits()):
        launch(
            "lines.last_bits", _tiles(operand), operand.shape[1], bits, _as_array(goal),
            found.top[:, some], found.q1[:, some], found.q2[:, some], last,
        )  # fmt: skip
    found.last[:, some] = last


def balanced_survey(operand: Operand, shift: Array) -> Survey:
    """First and last bits of lines whose entry h stands for x 2^shift[h]; no norms.

    The first bit of several words is that of the first word, which may be one above the value's.
    """
    shape = operand.shape[:2]
    top, last = np.full(shape, NOTHING), np.full(shape, -NOTHING)
    special = np.zeros(shape, bool)
    for bits in (bits for of_word in operand.word_bits() for bits in of_word):
        launch(
            "lines.extremes", _tiles(operand), bits.size,
            bits, operand.lines_near, shift, top, last, special,
        )  # fmt: skip
    empty = special | (top == NOTHING)
    top[empty], last[empty] = 0, 0
    return Survey(top, last, np.zeros(shape, np.int64), np.zeros(shape, np.int64), special)


def _tiles(operand: Operand) -> int:
    batch, lines, _ = operand.shape
    return batch * -(-lines // LINES_TILE)


@lru_cache(maxsize=64)
def _as_array(goal: Goal | None) -> Array:
    """A goal as kernels read it; a norm of 0 stands for none."""
    return np.array((0, 1, 0, 0) if goal is None else astuple(goal), np.int64)


def quantise(found: Survey, goal: Goal | None) -> Quantised:
    """Exponents by `bounds.goal`."""
    shape = found.top.shape
    exponents, exact, norm = np.empty(shape, np.int64), np.empty(shape, bool), np.empty(shape)
    launch(
        "lines.scale", shape[0], exponents.size, found.top, found.last, found.q1, found.q2,
        found.special, _as_array(goal), exponents, exact, norm,
    )  # fmt: skip
    return Quantised(found, exponents, exact, norm)


def needs(left: Quantised, right: Quantised, k: int) -> Needs:
    """What planes must hold: |a'| <= 2^width, and log2 of the largest 2-norms."""
    ours, theirs = _side_needs(left, k), _side_needs(right, k)
    return Needs((ours[0], theirs[0]), (ours[1], theirs[1]))


def _side_needs(lines: Quantised, k: int) -> tuple[float, int]:
    norm = float(lines.norm.max(initial=-np.inf))
    if norm == -np.inf:
        return 0.0, 0
    # ||a'|| <= 2^norm + sqrt(2k)/2; floats err by far less than the margin.
    rounding = 0.5 * math.log2(2 * max(k, 1)) - 1
    least, most = sorted((norm, rounding))
    norm = most + math.log2(1 + 2.0 ** (least - most))
    # The sigma of an empty line is 0 or NOTHING, which is no width.
    return norm + 1e-6, max(int(lines.sigma.max()) + 1, 1)


def exact_needs(left: Quantised, right: Quantised, entries: int) -> Needs:
    """The same where norms were not taken: `entries` numbers of magnitude up to 2^width a line."""
    widths = [max(int(side.sigma.max()) + 1, 1) for side in (left, right)]
    norms = [width + 0.5 * np.log2(entries) for width in widths]
    return Needs((norms[0], norms[1]), (widths[0], widths[1]))


def multiply(
    left: Sequence[Array] | Array, right: Sequence[Array] | Array, products: Sequence[Product],
    unit: Unit, depth: int, groups: Array, partial: Array, *, add: bool = False,
) -> None:  # fmt: skip
    """Groups (+)= left planes times right planes, every stretch of `depth` exact on the unit.

    `partial` is room for one product, in the dtype of the unit's engine.
    """
    inner = left[0].shape[-1]
    whole = inner <= depth and unit.engine == groups.dtype and not add and _paired(tuple(products))
    if whole and isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        np.matmul(left, right.swapaxes(-1, -2), out=groups)  # one call for all planes
        return
    started = set(range(len(groups))) if add else set[int]()
    for x, y, group in products:
        for start in range(0, inner, depth):
            stretch = slice(start, min(start + depth, inner))
            ours = left[x][..., stretch].astype(unit.engine, copy=False)
            theirs = right[y][..., stretch].swapaxes(-1, -2).astype(unit.engine, copy=False)
            if group not in started and groups.dtype == ours.dtype:
                np.matmul(ours, theirs, out=groups[group])
            else:
                np.matmul(ours, theirs, out=partial)
                if group in started:
                    groups[group] += partial
                else:
                    groups[group] = partial
            started.add(group)


@lru_cache(maxsize=64)
def _paired(products: tuple[Product, ...]) -> bool:
    """Whether plane i times plane i is group i."""
    return all(product == (i, i, i) for i, product in enumerate(products))


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
def _expansion(layout: Layout) -> tuple[Array, Array, Array]:
    """P/p and P in balanced digits below 2^53 / (count 2^22), and what the digits weigh.

    Empty for digits, and for more moduli than float64 has the range for: limbs serve these.
    """
    count = len(layout.moduli) if isinstance(layout, Residues) else 0
    if not isinstance(layout, Residues) or count > MOST_IN_FLOATS:
        return np.zeros((0, 0)), np.zeros(0), np.zeros(0)
    step = 32 - count.bit_length()
    width = layout.modulus.bit_length() // step + 1  # a sign, too
    basis = [balanced_digits(layout.modulus // p, width, step) for p in layout.moduli]
    scales = np.ldexp(1.0, step * np.arange(width))
    modulus = balanced_digits(layout.modulus, width, step)
    return np.array(basis, np.float64), np.array(modulus, np.float64), scales


def reconstruct(
    groups: Array, layout: Layout, left: Quantised, right: Quantised, fmt: Part, out: Array,
    *, slack: bool = False, scaling: Scaling | None = None,
) -> Array:  # fmt: skip
    """Round X (or alpha X + beta c) into `out`, (words, parts, batch, m, n), once.

    With `slack`, gives a mask of the elements whose rounding is still open because lines were
    rounded or products dropped; without, an all-false one.
    """
    batch = out.shape[2]
    unsettled = np.zeros(out.shape[2:], bool)
    sides = (left, right)
    always = bounds.least_error(layout.dropped) if slack else -1
    exact, exponents = [side.exact for side in sides], [side.exponents for side in sides]
    bits = exponents
    if slack:  # not read otherwise
        exact = [flags & (layout.dropped == 0) for flags in exact]
        bits = [_magnitude_bits(side) for side in sides]
        # An error of X times 2^-NOTHING would be beyond every sum.
        exponents = [np.where(side.survey.special, 0, side.exponents) for side in sides]
    places, constants, basis, modulus, offsets = _reconstruction(layout)
    arguments = (
        groups.reshape(len(groups), -1), places, constants, basis, modulus, offsets,
        *(every(of_lines, batch) for of_lines in (*exponents, *bits, *exact)), always,
    )  # fmt: skip
    jobs, words = -(-unsettled.size // ELEMENTS_TILE), word_table(fmt)
    if scaling is not None:
        scalars = (scaling.alpha, scaling.beta, scaling.addend)
        launch("scaled.scaled", jobs, 8 * groups.size, *arguments, words, out, unsettled, *scalars)
    elif len(words) > 1:
        launch("wide.rounded", jobs, 8 * groups.size, *arguments, words, out, unsettled)
    else:
        launch(
            "reconstruct.plain", jobs, groups.size,
            *arguments, words[0], out[0], unsettled, *_expansion(layout),
        )  # fmt: skip
    return unsettled


def _magnitude_bits(lines: Quantised) -> Array:
    """Exponents v with 2^exponent ||a||_1 < 2^v."""
    length = np.frexp(lines.survey.q1.astype(np.float64))[1]
    bits: Array = np.maximum(length + lines.sigma - bounds.NORM_BITS, 0)
    return bits
