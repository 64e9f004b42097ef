"""Products of three and more operands, exact and rounded once (`accuracy="correct"`).

Products in between are kept as words and a bound of what these lack: `Enclosed`. Mostly four words
hold them exactly, and nothing is lacking. Otherwise the last product lies in an interval. Where
both of its ends round to the same number of the result's format, so does the exact value, since
rounding is monotone. Elements that this leaves open are found with sixteen words, or with Python's
integers. So the result is a function of the operands: no order of products, no device and no batch
changes a bit of it. Elements that a NaN or an infinity reaches are what products from left to right
make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from widen.api import gemm, matmul
from widen.calls import check
from widen.calls.foreign.arrays import exact, is_integral
from widen.contract import as_contract
from widen.formats import FORMATS, complex_of
from widen.formats.arrays import eager, is_tensor
from widen.functions.arrays import common_format, each, is_complex
from widen.functions.whole import Integers, words_of
from widen.gpu.replay.private import is_fake, is_hidden, wants_gradient
from widen.linalg.arrays import moved_like
from widen.options import Accuracy
from widen.stages.rounding import round_words
from widen.words import Words
from widen.words.conversions import on_cpu

Times = Callable[[Any, Any], Any]
"""The product of two batches of matrices."""

Evaluate = Callable[[Sequence[Any], Times, bool], Any]
"""What is computed of the operands, by products of two; if asked for, from left to right."""

Exactly = Callable[[Sequence[Integers], tuple[int, ...]], tuple[Fraction, ...]]
"""One element of the result in integers: its parts."""

LEVELS = (4, 16)
"""Words of the products in between, tried in turn."""

FEW = 10**7
"""Multiplications of integers that take less time than sixteen words."""

FAR = 250
"""Numbers beyond 2^250 and below 2^-250 are scaled, so that products stay inside the range."""


def is_wanted(accuracy: Accuracy, operands: Sequence[Any], count: int, dtype: Any) -> bool:
    """Whether so many operands are multiplied here; integers are exact without."""
    if count < 3 or accuracy is None or not as_contract(accuracy).correct:
        return False
    if dtype is None and all(is_integral(x) for x in operands):
        return False
    _check_visible(operands)
    return True


@eager
def _check_visible(operands: Sequence[Any]) -> None:
    if any(_is_hidden(x) for x in operands):
        raise TypeError(
            "accuracy='correct' of three and more operands looks at their numbers, which JAX, "
            "torch.func, torch.vmap, forward mode and meta tensors hide: give arrays or plain "
            "tensors, the batch as a label of einsum, or accuracy='standard'"
        )


def _is_hidden(x: Any) -> bool:
    planes = x.planes if isinstance(x, Words) else (x,)
    if not is_tensor(planes[0]):
        return not isinstance(x, (np.ndarray, Words))
    return any(is_fake(plane) or is_hidden(plane) for plane in planes)


@eager
def rounded_once(
    operands: Sequence[Any],
    dtype: Any,
    evaluate: Evaluate,
    exactly: Exactly,
    work: int,
    plain: Callable[..., Any],
) -> Any:
    """The exact value of `evaluate`, rounded once.

    Parameters
    ----------
    operands
        Arrays, tensors or `Words`.
    dtype
        The result's format; None for that of all operands.
    evaluate
        The order of the products.
    exactly
        One element in integers.
    work
        Multiplications for one element.
    plain
        The same by products that are rounded one by one, which gradients are taken of.
    """
    default = FORMATS[common_format(operands) or "float64"]
    wanted = check.result_format(dtype, default).name

    def value(*given: Any) -> Any:
        return _rounded_once(given, wanted, evaluate, exactly, work)

    if wants_gradient(*operands):
        from widen.functions.gradients import with_gradient  # which imports PyTorch

        return with_gradient(value, plain, operands)
    return value(*operands)


def _rounded_once(
    operands: Sequence[Any], wanted: str, evaluate: Evaluate, exactly: Exactly, work: int
) -> Any:
    given = [exact(x, "an operand") for x in operands]
    finite = [_finite(x) for x in given]
    reached: Any = None
    if not all(entries.all() for entries in finite):
        reached = evaluate([~entries for entries in finite], _either, True)
    for count in LEVELS:
        terms = [Enclosed(x).near_one() for x in given]
        value = evaluate(terms, partial(Enclosed.times, count=count), reached is not None)
        result, open_ = value.rounded(wanted)
        if reached is not None:  # NaN and infinities are what the products made of them
            open_ &= ~reached
        if np.count_nonzero(open_) * max(work, 1) <= FEW:
            break
    if open_.any():
        whole = [Integers.of(x) for x in given]
        for at in map(tuple, np.argwhere(open_)):
            _set(result, at, exactly(whole, at), wanted)
    return result


@dataclass(frozen=True)
class Enclosed:
    """Numbers (centre + d) 2^scale with |d| <= error, or none where error is None.

    With x = x' + dx, |dx| <= e, and y = y' + dy, |dy| <= f, a product of lines lacks

        |sum x y - sum x' y'| <= sum |x'| f + e |y'| + e f,

    and rounding sum x' y' to words at most `info.bound`.
    """

    centre: Any
    error: Any = None
    scale: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return tuple(self.centre.shape)

    def changed(self, change: Callable[[Any], Any]) -> Enclosed:
        """The same numbers with other axes."""
        error = None if self.error is None else change(self.error)
        return Enclosed(change(self.centre), error, self.scale)

    def times(self, other: Enclosed, count: int) -> Enclosed:
        """The product of matrices, in so many words."""
        is_real = not (is_complex(self.centre) or is_complex(other.centre))
        part = FORMATS[f"float64x{count}"].part
        value, info = matmul(
            self.centre,
            other.centre,
            accuracy="correct",
            dtype=(part if is_real else complex_of(part)).name,
            info=True,
        )
        bound = on_cpu(info.bound)
        error = None if not bound.any() else bound
        if self.error is not None or other.error is not None:
            error = _upwards(_lacking(self, other) + bound)
        return Enclosed(value, error, self.scale + other.scale).near_one()

    def near_one(self) -> Enclosed:
        """The same numbers, scaled so that the largest is about 1 if it is far from that."""
        exponent = _exponent(self.centre)
        if abs(exponent) <= FAR:
            return self
        moved = _scaled(self.centre, -exponent)
        if exponent > 0 and not _are_same(_scaled(moved, exponent), self.centre):
            return self  # small numbers would lose bits
        error = None if self.error is None else _upwards(np.ldexp(self.error, -exponent))
        return Enclosed(moved, error, self.scale + exponent)

    def rounded(self, wanted: str) -> tuple[Any, Any]:
        """Numbers of a format where the centre is, and which of them are not decided."""
        words = words_of(self.centre)
        lines = np.stack(words, -1).reshape(-1, len(words))
        finite = np.isfinite(lines[:, 0])
        margin = np.zeros(len(lines)) if self.error is None else self.error.reshape(-1)
        margin = np.where(finite, margin, 0.0)
        around = margin * (1 + 1j) if np.iscomplexobj(lines) else margin
        low = self._sums(np.column_stack([lines, -around]), wanted)
        decided = finite & np.isfinite(margin)
        if margin.any():
            high = self._sums(np.column_stack([lines, around]), wanted)
            for one, other in zip(_planes(low), _planes(high), strict=True):
                decided &= (one == other) & (np.signbit(one) == np.signbit(other))
        if self.scale > HELD:  # they were scaled by less: 0 and infinity are right
            for one in _planes(low):
                decided &= (one == 0) | np.isinf(one)
        return low.reshape(self.shape), ~decided.reshape(self.shape)

    def _sums(self, lines: Any, wanted: str) -> Any:
        """Sums of lines times 2^scale, rounded once."""
        held = max(-HELD, min(HELD, self.scale))
        first = _first(self.centre)
        terms = moved_like(lines, first)
        column = moved_like(np.full(lines.shape[1], 2.0 ** (held // 2)), first)
        alpha = 2.0 ** (held - held // 2)
        return gemm(terms, column, alpha=alpha, accuracy="correct", dtype=wanted)


HELD = 2000
"""The largest power of two that numbers are multiplied by; it takes all but the smallest out."""


def _planes(x: Any) -> list[Any]:
    """Words and parts of numbers, as real arrays of their shape on the host."""
    words = words_of(x)
    return [
        y for word in words for y in ([word.real, word.imag] if np.iscomplexobj(word) else [word])
    ]


def _set(result: Any, at: tuple[Any, ...], parts: Sequence[Fraction], wanted: str) -> None:
    """Write one element, rounded once."""
    fmt, place = FORMATS[wanted], tuple(int(x) for x in at)
    numbers = [round_words(x, fmt.part) for x in [*parts, Fraction(0)][: fmt.parts]]
    if isinstance(result, Words):
        for number, plane in enumerate(result.planes):
            for part, words in enumerate(numbers):
                plane[(part, *place)] = words[number]
    else:
        result[place] = complex(*(x[0] for x in numbers)) if fmt.parts == 2 else numbers[0][0]


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


def _lacking(x: Enclosed, y: Enclosed) -> Any:
    """Bounds of |x y - x' y'|, upwards: sums |x'| f + e (|y'| + f).

    k additions and products of float64 numbers that are not negative lose at most (k + 4) 2^-53 of
    their sum, whatever their order, and no product underflows (`_Lifted`).
    """
    total: Any = 0.0
    pairs = [(_size(x), y.error), (x.error, _size(y)), (x.error, y.error)]
    for left, right in pairs:
        if left is not None and right is not None:
            ours, theirs = _lifted(left), _lifted(right)
            with np.errstate(all="ignore"):
                product = np.matmul(ours[0], theirs[0]) * (1 + (left.shape[-1] + 8) * 2.0**-52)
                product = _upwards(np.ldexp(product, ours[1] + theirs[1]))
            total = _upwards(total + product)
    return np.where(np.isnan(total), np.inf, total)


def _lifted(x: Any) -> tuple[Any, int]:
    """Bounds y 2^exponent of numbers that are not negative: y is 0 or at least 2^-500."""
    finite = x[np.isfinite(x)]
    exponent = int(np.frexp(finite.max(initial=0.0))[1])
    moved = np.ldexp(np.ldexp(x, -(exponent // 2)), -(exponent - exponent // 2))
    return np.where(x > 0, np.maximum(moved, 2.0**-500), 0.0), exponent


def _upwards(x: Any) -> Any:
    """The next larger numbers, but 0 stays 0."""
    return np.where(x > 0, np.nextafter(x, np.inf), x)


def _size(x: Enclosed) -> Any:
    """Bounds of moduli."""
    total: Any = 0.0
    for word in words_of(x.centre):
        total = total + abs(word.real) + abs(word.imag)
    return total * (1 + 2.0**-45)


# ── scaling and NaN ──────────────────────────────────────────────────────────────────────────────


def _either(x: Any, y: Any) -> Any:
    """Which elements of a product of matrices have a line with a mark."""
    return x.any(-1)[..., :, None] | y.any(-2)[..., None, :]


def _first(x: Any) -> Any:
    """The first words, with an axis of parts in front if there are several words."""
    return x.planes[0] if isinstance(x, Words) else x


def _finite(x: Any) -> Any:
    """Which numbers are finite, on the host."""
    finite = np.isfinite(words_of(_first(x))[0])
    return finite.all(0) if isinstance(x, Words) else finite


def _exponent(x: Any) -> int:
    """The binary exponent of the largest finite number; 0 if there is none."""
    (first,) = words_of(_first(x))
    sizes = np.maximum(abs(first.real), abs(first.imag))
    finite = np.isfinite(sizes)
    if np.iscomplexobj(first) and not finite.all():
        return 0  # NumPy's product of an infinity and a power of two would be NaN
    return max(-1000, min(1000, int(np.frexp(sizes[finite].max(initial=0.0))[1])))


def _scaled(x: Any, exponent: int) -> Any:
    return each(x, lambda plane, _: plane * 2.0**exponent)


def _are_same(x: Any, y: Any) -> bool:
    return all(
        bool(((p == q) | (p != p)).all()) for p, q in zip(words_of(x), words_of(y), strict=True)
    )
