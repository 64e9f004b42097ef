"""NumPy arrays on a CPU: fused Numba kernels around BLAS products, the definition's bits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from widen import bounds
from widen.backends import threads
from widen.bounds import Certificate, Goal
from widen.formats import Binary, Format
from widen.plan import Layout, Product
from widen.planner import Needs
from widen.systems import Digits, Residues
from widen.units import Unit

NOTHING = -(1 << 20)
"""Exponent of lines that hold nothing finite: every entry scaled by it rounds to 0."""

CONVERSION = 1 << 21
"""Entries of other formats converted to float64 at a time while lines are looked at."""

LINES_TILE, ELEMENTS_TILE = 128, 128
"""How many lines, or elements, are one job of some kernels."""

Array = np.ndarray[Any, Any]
_compiling = threading.Lock()
_loaded: dict[str, Callable[..., None]] = {}


def launch(kernel: str, jobs: int, work: int, *arguments: Any) -> None:
    """Run the kernel named "module.function" of `widen.kernels.numba` on all its jobs.

    Kernels are compiled (or read from the cache on disk) when first asked for.
    """
    found = _loaded.get(kernel)
    if found is None:
        module, function = kernel.split(".")
        with _compiling:
            found = getattr(import_module(f"widen.kernels.numba.{module}"), function)
        _loaded[kernel] = found
    threads.run(found, jobs, work, *arguments)


@dataclass(frozen=True)
class Operand:
    """A matrix (or a batch) as lines: rows of the left operand, columns of the right one.

    Each part is a view of shape (batch, lines, inner), of the caller's dtype and strides. A batch
    of 1 serves every batch of the other operand.
    """

    parts: tuple[Array, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(batch, lines, inner)."""
        batch, lines, inner = self.parts[0].shape
        return batch, lines, inner

    @property
    def lines_near(self) -> bool:
        """Whether neighbouring lines lie closer in memory than neighbours within a line."""
        _, line, inner = (abs(stride) for stride in self.parts[0].strides)
        return line < inner

    def cut(self, batch: slice, lines: slice, inner: slice = slice(None)) -> Operand:
        """A block of it, a view. A batch of 1 stays whole."""
        batch = slice(None) if self.shape[0] == 1 else batch
        return Operand(tuple(part[batch, lines, inner] for part in self.parts))

    def inner(self, stretch: slice) -> Operand:
        """A stretch of the inner dimension of all lines, a view."""
        return self.cut(slice(None), slice(None), stretch)

    def bits(self) -> list[Array]:
        """The float64 bits of each part; other formats are converted, which is exact."""
        return [part.astype(np.float64, copy=False).view(np.int64) for part in self.parts]


@dataclass(frozen=True)
class Survey:
    """What is known of lines before they are scaled: arrays of shape (batch, lines).

    `top` and `last` are exponents of the largest magnitude and of the last set bit, 0 for lines
    that are zero or hold an infinity or a NaN (`special`); q1 and q2 are the integer norms.
    """

    top: Array
    last: Array
    q1: Array
    q2: Array
    special: Array


@dataclass(frozen=True)
class Quantised:
    """Scaled lines: a' = RN(2^exponents a); `sigma` is exponents + top."""

    survey: Survey
    exponents: Array
    exact: Array

    @property
    def sigma(self) -> Array:
        """Exponent of the largest magnitude after scaling."""
        return self.exponents + self.survey.top

    def cut(self, batch: slice, lines: slice) -> Quantised:
        """The same for a block of lines."""
        batch = slice(None) if self.exponents.shape[0] == 1 else batch
        return self._indexed((batch, lines))

    def pick(self, item: int, lines: Array) -> Quantised:
        """The same for chosen lines of one batch item."""
        return self._indexed((slice(item, item + 1), lines))

    def _indexed(self, at: Any) -> Quantised:
        old = self.survey
        found = Survey(old.top[at], old.last[at], old.q1[at], old.q2[at], old.special[at])
        return Quantised(found, self.exponents[at], self.exact[at])


def survey(operand: Operand, shift: Array | None = None, *, norms: bool = True) -> Survey:
    """Look at every line once or twice; entry h may stand for x 2^shift[h]."""
    batch, lines, inner = operand.shape
    shape = (batch, lines)
    top, last = np.full(shape, NOTHING), np.full(shape, -NOTHING)
    special = np.zeros(shape, bool)
    shift = np.zeros(inner, np.int64) if shift is None else shift
    near = operand.lines_near
    tiles = batch * -(-lines // LINES_TILE)
    for inner_piece, piece in _pieces(operand):
        for bits in piece.bits():
            launch(
                "lines.extremes", tiles, bits.size, bits, near, shift[inner_piece], top, last, special
            )
    empty = special | (top == NOTHING)
    top[empty] = last[empty] = 0
    q1, q2 = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    if norms:
        for _, piece in _pieces(operand):
            for bits in piece.bits():
                launch(
                    "lines.norms", tiles, bits.size, bits, near, top, empty, bounds.NORM_BITS, q1, q2
                )  # fmt: skip
    return Survey(top, last, q1, q2, special)


def _pieces(operand: Operand) -> list[tuple[slice, Operand]]:
    """The operand whole, or cut along the inner dimension so that conversion stays small."""
    batch, lines, inner = operand.shape
    if all(part.dtype == np.float64 for part in operand.parts):
        return [(slice(None), operand)]
    step = max(1, CONVERSION // max(1, batch * lines))
    cuts = [slice(start, start + step) for start in range(0, inner, step)]
    return [(cut, operand.cut(slice(None), slice(None), cut)) for cut in cuts]


def quantise(found: Survey, goal: Goal | None) -> Quantised:
    """Exponents by `bounds.goal`, no further than a line's last bit."""
    exponents = -found.last
    exact = np.ones(exponents.shape, bool)
    if goal is not None:
        norm = found.q1 if goal.norm == 1 else _ceil_sqrt(found.q2)
        nothing = norm == 0
        wanted = _floor_log2_ratio(goal.root, np.where(nothing, 1, norm))
        wanted += goal.shift + bounds.NORM_BITS - found.top
        exact = nothing | (wanted >= exponents)
        exponents = np.where(exact, exponents, wanted)
    exponents = np.where(found.special, NOTHING, exponents)
    return Quantised(found, exponents, exact)


def _floor_log2_ratio(numerator: int, denominators: Array) -> Array:
    """`bounds.floor_log2_ratio` for integers below 2^53, whose float64 is exact."""
    fraction, exponent = np.frexp(float(numerator))
    fractions, exponents = np.frexp(denominators.astype(np.float64))
    ratio: Array = exponent - exponents.astype(np.int64) - (fraction < fractions)
    return ratio


def _ceil_sqrt(squares: Array) -> Array:
    """ceil(sqrt(x)) of integers below 2^62."""
    root = np.sqrt(squares.astype(np.float64)).astype(np.int64)
    root = np.where(root * root > squares, root - 1, root)
    root = np.where((root + 1) * (root + 1) <= squares, root + 1, root)
    return np.where(root * root < squares, root + 1, root)


def weights(lines: Quantised, test: Certificate) -> Array:
    """`Certificate.weight` of every line."""
    q1 = lines.survey.q1
    reduced = np.maximum(np.frexp(q1.astype(np.float64))[1].astype(np.int64) - 24, 0)
    top = -(-q1 >> reduced)
    quotient = -(-(top << 22) // test.divisor)
    shift = reduced + lines.sigma + (test.unit - bounds.NORM_BITS - 22)
    up = quotient << np.minimum(np.maximum(shift, 0), 38)
    down = -(-quotient >> np.minimum(np.maximum(-shift, 0), 63))
    return np.where(shift >= 0, up, down)


def needs(left: Quantised, right: Quantised, k: int) -> Needs:
    """What planes must hold: |a'| <= 2^width, and log2 of the largest 2-norms."""
    norms, widths = zip(_side_needs(left, k), _side_needs(right, k), strict=True)
    return Needs((norms[0], norms[1]), (widths[0], widths[1]))


def _side_needs(lines: Quantised, k: int) -> tuple[float, int]:
    q2, sigma = lines.survey.q2, lines.sigma
    held = q2 > 0
    if not held.any():
        return 0.0, 0
    largest = np.log2(q2, where=held, out=np.full(q2.shape, -np.inf))
    # ||a'|| <= 2^(sigma - 15) sqrt(q2) + sqrt(2k)/2; floats err by far less than the margin.
    norm = float((sigma + 0.5 * largest).max()) - bounds.NORM_BITS
    norm = float(np.logaddexp2(norm, 0.5 * np.log2(2 * k) - 1))
    return norm + 1e-6, max(int(sigma.max(where=held, initial=NOTHING)) + 1, 1)


def exact_needs(left: Quantised, right: Quantised, entries: int) -> Needs:
    """The same where norms were not taken: `entries` numbers of magnitude up to 2^width a line."""
    widths = [max(int(side.sigma.max()) + 1, 1) for side in (left, right)]
    norms = [width + 0.5 * np.log2(entries) for width in widths]
    return Needs((norms[0], norms[1]), (widths[0], widths[1]))


@lru_cache(maxsize=64)
def _remainder_constants(moduli: tuple[int, ...]) -> Array:
    """Per modulus (p, 1/p, 2^26 mod p)."""
    return np.array([[p, 1 / p, _centred(1 << 26, p)] for p in moduli], np.float64)


def _centred(x: int, p: int) -> int:
    return (x + p // 2) % p - p // 2


def _limbs(x: int, width: int) -> list[int]:
    """x = sum(limb 2^(32 l)) with balanced limbs, which fit an int32."""
    found = []
    for _ in range(width):
        found.append(_centred(x, 1 << 32))
        x = (x - found[-1]) >> 32
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
        constants = _remainder_constants(layout.moduli)
        # An entry m 2^e with m < 2^53 is shifted left by at most sigma - 52.
        most = max(0, int(lines.sigma.max(initial=0)) - 52)
        powers = _powers(layout.moduli, most // 64 * 64 + 64)
        for bits, target in zip(parts, _streams(planes, layout), strict=False):
            launch(
                "encode.residues", jobs, target.size, bits, rows, columns, constants, powers, target
            )  # fmt: skip
        if layout.parts == 2:
            launch("encode.residue_sums", jobs, planes.size, constants, planes)
    else:
        assert isinstance(layout, Digits)
        for bits, target in zip(parts, _streams(planes, layout), strict=True):
            launch(
                "encode.digits", jobs, target.size, bits, rows, columns, layout.beta, target
            )
    return planes.swapaxes(2, 3) if flip else planes


def _streams(planes: Array, layout: Layout) -> list[Array]:
    """Planes by part: real, imaginary, and for residues their sum."""
    count = 1 if layout.parts == 1 else 3 if layout.modulus else 2
    each = len(planes) // count
    return [planes[start : start + each] for start in range(0, len(planes), each)]


def multiply(
    left: Sequence[Array], right: Sequence[Array], products: Sequence[Product], unit: Unit,
    depth: int, groups: Array, partial: Array, *, add: bool = False,
) -> None:  # fmt: skip
    """groups (+)= left planes times right planes, every stretch of `depth` exact on the unit.

    `partial` is room for one product, in the dtype of the unit's engine.
    """
    inner = left[0].shape[-1]
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


@dataclass(frozen=True)
class Scaling:
    """alpha and beta as float64 bits, one a part, and the addend c, (parts, batch, m, n)."""

    alpha: Array
    beta: Array
    addend: Array

    def cut(self, batch: slice, rows: slice, columns: slice) -> Scaling:
        """The same for a block; its part of c as float64 bits."""
        block = self.addend[:, batch, rows, columns].astype(np.float64, copy=False)
        return Scaling(self.alpha, self.beta, block.view(np.int64))


def scaling(
    alpha: complex, beta: complex, addend: Array | None, shape: tuple[int, ...]
) -> Scaling:
    """alpha, beta and c for results of this shape, (parts, batch, m, n)."""
    if addend is None:
        addend = np.broadcast_to(np.zeros(()), shape)
    bits = [np.array([x.real, x.imag][: shape[0]], np.float64).view(np.int64) for x in (alpha, beta)]
    return Scaling(bits[0], bits[1], addend)


@lru_cache(maxsize=64)
def _reconstruction(layout: Layout) -> tuple[Array, Array, Array, Array, Array]:
    """Signs, constants, limbs of P/p and of P, bit offsets: a layout as the kernels read it."""
    if isinstance(layout, Residues):
        signs = [[1]] if layout.parts == 1 else [[1, -1, 0], [-1, -1, 1]]
        whole = layout.modulus
        width = (whole.bit_length() + 2) // 32 + 1  # |X| + slack < P, and a sign
        inverses = [(p, pow(whole // p, -1, p)) for p in layout.moduli]
        constants = [[p, 1 / p, _centred(w, p), _centred(w << 26, p)] for p, w in inverses]
        basis = np.array([_limbs(whole // p, width) for p in layout.moduli], np.int32)
        modulus = np.array(_limbs(whole, width), np.int32)
        return np.array(signs), np.array(constants), basis, modulus, np.zeros(0, np.int64)
    largest = [max(map(abs, of_group)) for of_group in zip(*layout.weights, strict=True)]
    offsets = np.array([weight.bit_length() - 1 for weight in largest])
    signs = [[(weight > 0) - (weight < 0) for weight in part] for part in layout.weights]
    width = (int(offsets.max()) + 69) // 32 + 3
    empty = np.zeros((0, width), np.int32)
    return np.array(signs), np.zeros((0, 4)), empty, np.zeros(width, np.int32), offsets


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
    exact = [side.exact & (layout.dropped == 0) for side in sides]
    # 2^29 > k/4; what was dropped counts as well.
    always = max(29, layout.dropped.bit_length()) if slack else -1
    signs, constants, basis, modulus, offsets = _reconstruction(layout)
    arguments = (
        groups.reshape(len(groups), -1), signs, constants, basis, modulus, offsets,
        *(_every(side.exponents, batch) for side in sides),
        *(_every(_magnitude_bits(side), batch) for side in sides),
        *(_every(flags, batch) for flags in exact),
        always, np.array([fmt.precision, fmt.lowest, fmt.highest]), out, unsettled,
    )  # fmt: skip
    jobs = -(-unsettled.size // ELEMENTS_TILE)
    if scaling is None:
        launch("reconstruct.plain", jobs, groups.size, *arguments)
    else:
        launch("scaled.scaled", jobs, 8 * groups.size, *arguments, scaling.alpha, scaling.beta, scaling.addend)
    return unsettled


def _every(of_lines: Array, batch: int) -> Array:
    """The same lines for every batch, contiguous."""
    if len(of_lines) == batch:
        return np.ascontiguousarray(of_lines)
    return np.repeat(of_lines, batch, axis=0)


def _magnitude_bits(lines: Quantised) -> Array:
    """v with 2^exponent ||a||_1 < 2^v."""
    length = np.frexp(lines.survey.q1.astype(np.float64))[1]
    return np.maximum(length + lines.sigma - bounds.NORM_BITS, 0)


def leads(
    operand: Operand, lines: Quantised, kept: int,
    memory: Callable[[tuple[int, ...]], Array] = lambda shape: np.empty(shape, np.float32),
) -> Array:  # fmt: skip
    """Leading integers floor(|x| 2^(kept - top)), summed over the parts, as float32."""
    near = operand.lines_near
    batch, count, inner = operand.shape
    out = memory((batch, inner, count) if near else (batch, count, inner))
    found, jobs = lines.survey, batch * out.shape[1]
    for at, bits in enumerate(operand.bits()):
        launch(
            "lines.leads", jobs, bits.size, bits, near, found.top, found.special, kept, at > 0, out
        )
    return out.swapaxes(1, 2) if near else out


def uncertified(
    lead: Array, factor: float, left: Quantised, right: Quantised, test: Certificate
) -> Array:
    """Mask of the elements that `test` does not certify, given (a lower bound of) D."""
    batch = lead.shape[0]
    marks = np.empty(lead.shape, bool)
    per_line = [
        _every(of_lines, batch)
        for side in (left, right)
        for of_lines in (weights(side, test), side.sigma, side.exact)
    ]
    always = min(test.always, 1 << 61)
    settings = np.array([test.shift, test.both, always])
    launch("lines.certify", batch * lead.shape[1], lead.size, lead, factor, *per_line, settings, marks)
    return marks


def dots(
    left: Operand, right: Operand, where: tuple[Array, ...], fmt: Binary, out: Array,
    scaling: Scaling | None,
) -> None:  # fmt: skip
    """Correctly rounded elements by exact dot products: out[:, b, i, j] for the listed b, i, j."""
    parts = out.shape[0]
    scalar = np.zeros(parts, np.int64)
    alpha, beta, addend = (
        (scalar, scalar, np.zeros((1, 1, 1, 1), np.int64))
        if scaling is None
        else (scaling.alpha, scaling.beta, scaling.addend)
    )
    launch(
        "dot.dots", where[0].size, 8 * where[0].size * left.shape[2], _joined(left), _joined(right), *map(np.ascontiguousarray, where),
        scaling is None, alpha, beta, addend,
        np.array([fmt.precision, fmt.lowest, fmt.highest]), out,
    )  # fmt: skip


def special_values(left: Operand, right: Operand, rows: Array, columns: Array, out: Array) -> None:
    """Overwrite the elements of special rows and columns."""
    _, batch, m, n = out.shape
    work = batch * m * n * left.shape[2]
    launch("special.special", batch * m, work, _joined(left), _joined(right), rows, columns, out)


def scale_special(out: Array, scaling: Scaling, special: Array) -> None:
    """alpha T + beta c in ordinary arithmetic where T is special or c is not finite."""
    addend = scaling.addend.view(np.float64)
    special = special | ~np.isfinite(addend).all(axis=0)
    if not special.any():
        return
    with np.errstate(invalid="ignore", over="ignore"):
        values = [_number(part[special] for part in parts) for parts in (out, addend)]
        values[0] = np.where(np.isfinite(values[0]), 0, values[0])
        alpha, beta = (_number(x.view(np.float64)) for x in (scaling.alpha, scaling.beta))
        total = alpha * values[0]
        if beta != 0:
            total = total + beta * values[1]
    for part, value in zip(out, (total.real, total.imag), strict=False):
        part[special] = value


def _number(parts: Iterable[Any]) -> Any:
    """A real or complex number (or array) from its parts."""
    real, *imaginary = parts
    if not imaginary:
        return real
    joined_parts = np.empty(np.shape(real), np.complex128)
    joined_parts.real, joined_parts.imag = real, imaginary[0]
    return joined_parts[()]


def error_bound(
    left: Quantised, right: Quantised, k: int, layout: Layout, fmt: Format, out: Array,
    rounded_once: Array, scale: float, target: Array,
) -> None:  # fmt: skip
    """|c - AB| <= target, from the lines' norms and exponents (`bounds.Certificate`), rounded up.

    (2^-s ||b||_1 [row rounded] + 2^-t ||a||_1 [column rounded])/2 + parts k/4 2^-(s+t) [both], and
    what was dropped; complex numbers sqrt(2) of it; then half an ulp of each part. Every factor is
    rounded up and 2^-40 more covers the sums. `scale` is |alpha|.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        step_left, step_right = (_power(-side.exponents) for side in (left, right))
        norm_left, norm_right = (
            np.ldexp(
                side.survey.q1.astype(np.float64), side.survey.top - bounds.NORM_BITS
            ) + TINY
            for side in (left, right)
        )  # fmt: skip
        lost_left = np.where(left.exact, 0.0, step_left)[:, :, None]
        lost_right = np.where(right.exact, 0.0, step_right)[:, None, :]
        error = 0.5 * (lost_left * norm_right[:, None, :] + lost_right * norm_left[:, :, None])
        error = error + (0.25 * layout.parts * k) * lost_left * lost_right
        if layout.dropped:
            error = error + float(layout.dropped) * step_left[:, :, None] * step_right[:, None, :]
        error = np.where(error > 0, scale * (error * (1 + 2.0**-40) * layout.parts**0.5 + 4 * TINY) + TINY, 0.0)
        error = np.where(rounded_once, 0.0, error)
        smallest = np.ldexp(1.0, fmt.part.lowest)
        ulps = [
            np.maximum(np.ldexp(1.0, np.frexp(part)[1] - fmt.precision), smallest) for part in out
        ]
        half = 0.5 * ulps[0] if len(ulps) == 1 else 0.5 * np.hypot(*ulps) * (1 + 2.0**-40)
        total = np.where(error > 0, np.nextafter(error + half, np.inf), np.maximum(half, TINY))
        finite = np.isfinite(out).all(axis=0)
        total = np.where(finite, total, np.where(np.isnan(out).any(axis=0), np.nan, np.inf))
    target[...] = total


TINY = 5e-324


def _power(exponents: Array) -> Array:
    """2^exponents, rounded up into the range of float64 (infinity above it)."""
    return np.maximum(np.ldexp(1.0, np.clip(exponents, -5000, 5000)), TINY)


def _joined(operand: Operand) -> Array:
    """Float64 bits as one array (parts, batch, lines, inner): a view wherever that is possible."""
    return joined(operand.parts).astype(np.float64, copy=False).view(np.int64)


def joined(parts: tuple[Array, ...]) -> Array:
    """Equal views, the parts of one complex array for instance, as one array, without copying."""
    first = parts[0]
    if len(parts) == 1:
        return first[None]
    step = parts[1].__array_interface__["data"][0] - first.__array_interface__["data"][0]
    if parts[1].strides != first.strides or step != first.itemsize:
        return np.stack(parts)
    return np.lib.stride_tricks.as_strided(first, (2, *first.shape), (step, *first.strides))
