"""NumPy arrays on a CPU: fused Numba kernels around BLAS products, the definition's bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from widen import bounds
from widen.backends.elements import Scaling
from widen.backends.launch import launch
from widen.backends.operands import NOTHING, Array, Operand, Quantised, Survey, every
from widen.bounds import Goal
from widen.formats import Binary
from widen.plan import Layout, Product
from widen.planner import Needs
from widen.systems import Digits, Residues
from widen.units import Unit

CONVERSION = 1 << 24
"""Bytes that lines of other formats, converted to float64, take while they are looked at."""

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
        launch(
            "lines.survey", _tiles(part), bits.size, bits, part.lines_near, _triple(goal),
            found.top[:, some], found.last[:, some], found.q1[:, some], found.q2[:, some],
            found.special[:, some],
        )  # fmt: skip
        if goal is None:
            found.last[:, some] = balanced_survey(part, np.zeros(part.shape[2], np.int64)).last
    return found


def balanced_survey(operand: Operand, shift: Array) -> Survey:
    """First and last bits of lines whose entry h stands for x 2^shift[h]; no norms."""
    shape = operand.shape[:2]
    top, last = np.full(shape, NOTHING), np.full(shape, -NOTHING)
    special = np.zeros(shape, bool)
    for bits in operand.bits():
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
def _triple(goal: Goal | None) -> Array:
    """A goal as kernels read it; a norm of 0 stands for none."""
    return np.array((0, 1, 0) if goal is None else (goal.norm, goal.root, goal.shift))


def quantise(found: Survey, goal: Goal | None) -> Quantised:
    """Exponents by `bounds.goal`, no further than a line's last bit."""
    shape = found.top.shape
    exponents, exact, norm = np.empty(shape, np.int64), np.empty(shape, bool), np.empty(shape)
    launch(
        "lines.scale", shape[0], exponents.size, found.top, found.last, found.q1, found.q2,
        found.special, _triple(goal), exponents, exact, norm,
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


@lru_cache(maxsize=64)
def _remainder_constants(moduli: tuple[int, ...], powers: int) -> Array:
    """Per modulus (p, 1/p, 2^26 mod p, 2^52 mod p, ...), so many powers."""
    return np.array(
        [[p, 1 / p, *(_centred(1 << 26 * j, p) for j in range(1, powers + 1))] for p in moduli],
        np.float64,
    )


def _centred(x: int, p: int) -> int:
    return (x + p // 2) % p - p // 2


def _balanced(x: int, width: int, bits: int = 32) -> list[int]:
    """X = sum(digit 2^(bits l)) with balanced digits; those of 32 bits, limbs, fit an int32."""
    found = []
    for _ in range(width):
        found.append(_centred(x, 1 << bits))
        x = (x - found[-1]) >> bits
    return found


@lru_cache(maxsize=64)
def _powers(moduli: tuple[int, ...], count: int) -> Array:
    return np.array([[_centred(pow(2, j, p), p) for j in range(count)] for p in moduli], np.float64)


def encode(
    operand: Operand, lines: Quantised, layout: Layout, side: int, shift: Array | None = None,
    memory: Callable[[tuple[int, ...]], Array] = np.empty,
) -> Array:  # fmt: skip
    """Planes of shape (planes, batch, lines, inner), laid out in memory as the operand is.

    Entry h of a line stands for x 2^shift[h]; `memory` gives an array for the planes.
    """
    batch, _, inner = operand.shape
    along = np.zeros((batch, inner), np.int64)
    if shift is not None:
        along += shift
    rows, columns, flip = lines.exponents, along, operand.lines_near
    parts = operand.bits()
    if flip:
        rows, columns = columns, rows
        parts = [bits.swapaxes(1, 2) for bits in parts]
    jobs = batch * parts[0].shape[1]
    planes = memory((layout.planes[side], *parts[0].shape))
    if isinstance(layout, Residues):
        most = int(lines.sigma.max(initial=0))  # |a'| <= 2^(most + 1)
        constants = _remainder_constants(layout.moduli, 1 if most < 53 or most > 76 else 2)
        for bits, target in zip(parts, _streams(planes, layout), strict=False):
            if most <= 76:
                launch(
                    "encode.narrow_residues", jobs, target.size,
                    bits, rows, columns, constants, target,
                )  # fmt: skip
            else:
                # An entry m 2^e is shifted left by at most sigma: m = 1 if it is subnormal.
                powers = _powers(layout.moduli, most // 64 * 64 + 64)
                launch(
                    "encode.wide_residues", jobs, target.size,
                    bits, rows, columns, constants, powers, target,
                )  # fmt: skip
        if layout.parts == 2:
            launch("encode.residue_sums", jobs, planes.size, constants, planes)
        if layout.bases:
            bases = _bases(layout)
            for target in _streams(planes, layout):
                launch("encode.two_digits", jobs, target.size, bases, target)
    else:
        assert isinstance(layout, Digits)
        for bits, target in zip(parts, _streams(planes, layout), strict=True):
            launch("encode.digits", jobs, target.size, bits, rows, columns, layout.beta, target)
    return planes.swapaxes(2, 3) if flip else planes


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
                [p, 1 / p, *(_centred(w, p) for _, w in of_p)]
                for p, of_p in zip(layout.moduli, of_part, strict=True)
            ]
            for of_part in terms
        ]
        basis = np.array([_balanced(whole // p, width) for p in layout.moduli], np.int32)
        modulus = np.array(_balanced(whole, width), np.int32)
        return np.array(places), np.array(constants), basis, modulus, np.zeros(0, np.int64)
    largest = [max(map(abs, of_group)) for of_group in zip(*layout.weights, strict=True)]
    offsets = np.array([weight.bit_length() - 1 for weight in largest])
    signs = [[[(weight > 0) - (weight < 0) for weight in part]] for part in layout.weights]
    width = (int(offsets.max()) + 69) // 32 + 3
    empty = np.zeros((0, width), np.int32)
    none = np.zeros((layout.parts, 0, 2))
    return np.array(signs), none, empty, np.zeros(width, np.int32), offsets


@lru_cache(maxsize=64)
def _range(fmt: Binary) -> Array:
    """A format as kernels read it."""
    return np.array([fmt.precision, fmt.lowest, fmt.highest])


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
    basis = [_balanced(layout.modulus // p, width, step) for p in layout.moduli]
    scales = np.ldexp(1.0, step * np.arange(width))
    modulus = _balanced(layout.modulus, width, step)
    return np.array(basis, np.float64), np.array(modulus, np.float64), scales


def reconstruct(
    groups: Array, layout: Layout, left: Quantised, right: Quantised, fmt: Binary, out: Array,
    *, slack: bool = False, scaling: Scaling | None = None,
) -> Array:  # fmt: skip
    """Round X (or alpha X + beta c) into `out`, (parts, batch, m, n), once.

    With `slack`, gives a mask of the elements whose rounding is still open because lines were
    rounded or products dropped; without, an all-false one.
    """
    batch = out.shape[1]
    unsettled = np.zeros(out.shape[1:], bool)
    sides = (left, right)
    # 2^29 > k/4; what was dropped counts as well.
    always = max(29, layout.dropped.bit_length()) if slack else -1
    exact, bits = [side.exact for side in sides], [side.exponents for side in sides]
    if slack:  # not read otherwise
        exact = [flags & (layout.dropped == 0) for flags in exact]
        bits = [_magnitude_bits(side) for side in sides]
    places, constants, basis, modulus, offsets = _reconstruction(layout)
    arguments = (
        groups.reshape(len(groups), -1), places, constants, basis, modulus, offsets,
        *(every(side.exponents, batch) for side in sides),
        *(every(of_lines, batch) for of_lines in (*bits, *exact)), always, _range(fmt), out,
        unsettled,
    )  # fmt: skip
    jobs = -(-unsettled.size // ELEMENTS_TILE)
    if scaling is None:
        launch("reconstruct.plain", jobs, groups.size, *arguments, *_expansion(layout))
    else:
        launch(
            "scaled.scaled",
            jobs,
            8 * groups.size,
            *arguments,
            scaling.alpha,
            scaling.beta,
            scaling.addend,
        )
    return unsettled


def _magnitude_bits(lines: Quantised) -> Array:
    """Exponents v with 2^exponent ||a||_1 < 2^v."""
    length = np.frexp(lines.survey.q1.astype(np.float64))[1]
    bits: Array = np.maximum(length + lines.sigma - bounds.NORM_BITS, 0)
    return bits
