"""Arithmetic of `Words`: operands brought to one format and place, then one kernel an operation.

Errors are bounded in docs/words.md. Complex quotients, magnitudes and roots are made of real
operations, on numbers scaled by powers of two so that nothing overflows on the way.
"""

from __future__ import annotations

import numbers
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import (
    Planes,
    dtype_name,
    is_tensor,
    is_uniform,
    library_of,
    part_of,
    place_of,
)
from widen.words import elementwise
from widen.words.promotion import check_plain, common_format, with_parts

if TYPE_CHECKING:
    from widen.words.array import Words


COMPLEX_KINDS = ("mpc", "acb", "acb_mat")
"""Types of mpmath, gmpy2 and python-flint that are complex."""


def operand(x: Words, other: Any) -> Words | None:
    """What stands on the other side of an operator, as words; None if it is no number."""
    make = type(x)
    if isinstance(other, make):
        words = other
    elif isinstance(other, (np.ndarray, np.generic)) or is_tensor(other):
        if isinstance(other, np.generic):
            other = np.asarray(other)
        if other.dtype == object:
            return None
        name = dtype_name(other)
        check_plain(x.format, name)
        parts = 2 if name.startswith("complex") else 1
        if is_tensor(x.planes[0]) and not is_tensor(other) and other.ndim == 0:
            return operand(x, other.item())
        words = make(other, with_parts(x.format, parts))
    elif _is_number(other):
        parts = 2 if isinstance(other, complex) or type(other).__name__ in COMPLEX_KINDS else 1
        words = make(other, with_parts(x.format, parts))
        if is_tensor(x.planes[0]):
            words = words.to_torch(x.device)
    else:
        return None
    ours, theirs = place_of(x.planes[0]), place_of(words.planes[0])
    if ours != theirs:
        raise ValueError(_apart(ours, theirs, isinstance(other, make)))
    return words


def _apart(ours: Any, theirs: Any, are_words: bool) -> str:
    """Words x are in one place, what is calculated with them (y, maybe words too) in another."""
    where = [f"on {p}" if p is not None else "a NumPy array" for p in (ours, theirs)]
    if ours is None:
        fix = f"x.to_torch({str(theirs)!r})"
    elif are_words:
        fix = f"y.to_torch({str(ours)!r})"
    elif theirs is None:
        fix = "torch.from_numpy(y)" + ("" if str(ours) == "cpu" else f".to({str(ours)!r})")
    else:
        fix = f"y.to({str(ours)!r})"
    return (
        f"one operand, x, is {where[0]}, the other, y, {where[1]}; move them to one place first: "
        f"give {fix}"
    )


def _is_number(other: Any) -> bool:
    if isinstance(other, (numbers.Number, Fraction, Decimal)):
        return True
    library = type(other).__module__.split(".")[0]
    return library in ("mpmath", "gmpy2", "flint") and not hasattr(other, "rows")


def binary(operation: str, x: Words, y: Words) -> Words:
    """The numbers x op y, of one format, broadcast."""
    fmt = common_format(x.format, y.format)
    if operation == "divide" and y.format.parts == 2:
        return _divide_complex(_as(x, fmt), _as(y, fmt))
    if operation in ("add", "subtract") and x.format.parts != y.format.parts:
        x, y = x.astype(fmt), y.astype(fmt)  # real numbers get imaginary parts
    else:
        x, y = (_as(z, with_parts(fmt, z.format.parts)) for z in (x, y))
    shape = _common_shape(x, y)
    planes = elementwise.apply(operation, part_of(fmt), x.planes, y.planes, fmt.parts, shape)
    return type(x).of(fmt, planes)


def _common_shape(x: Words, y: Words) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(x.shape, y.shape))
    except ValueError:
        raise ValueError(f"shapes {x.shape} and {y.shape} do not broadcast") from None


def _as(x: Words, fmt: Any) -> Words:
    return x if x.format == fmt else x.astype(fmt)


def negated_planes(planes: Planes) -> Planes:
    """Planes of -x: zeros behind the first word stay positive."""
    return (-planes[0], *(0 - plane for plane in planes[1:]))


def negative(x: Words) -> Words:
    """-x."""
    return type(x).of(x.format, negated_planes(x.planes))


def conjugate(x: Words) -> Words:
    """The complex conjugate; x itself, copied, if it is real."""
    if x.format.parts == 1:
        return x.copy()
    imaginary = negated_planes(tuple(plane[1] for plane in x.planes))
    planes = [library_of(p).stack([p[0], q]) for p, q in zip(x.planes, imaginary, strict=True)]
    return type(x).of(x.format, planes)


def absolute(x: Words) -> Words:
    """|x|."""
    library = library_of(x.planes[0])
    if x.format.parts == 1:
        flip = library.signbit(x.planes[0])
        turned = negated_planes(x.planes)
        planes = [library.where(flip, q, p) for p, q in zip(x.planes, turned, strict=True)]
        return type(x).of(x.format, planes)
    scaled, exponent = near_one(x)
    squares = binary("multiply", scaled, conjugate(scaled)).real
    modulus = times_power(root(squares), exponent)
    plain = library.hypot(x.planes[0][0], x.planes[0][1])
    return _ordinary(modulus, plain[None])


def root(x: Words) -> Words:
    """The square root; of a complex number, the one with a real part that is not negative."""
    if x.format.parts == 1:
        return type(x).of(
            x.format, elementwise.apply("root", part_of(x.format), x.planes, None, 1, x.shape)
        )
    return _root_complex(x)


def _exponents(first: Any) -> Any:
    """Exponents e with |first| < 2^e, and 0 for what is not finite."""
    library = library_of(first)
    exponent = library.frexp(first)[1]
    return library.where(library.isfinite(first), exponent, library.zeros_like(exponent))


def near_one(x: Words) -> tuple[Words, Any]:
    """Numbers x 2^-e and the even e: the larger part is in [1/4, 1), unless x is subnormal."""
    library = library_of(x.planes[0])
    magnitude = abs(x.planes[0])
    exponent = _exponents(library.maximum(magnitude[0], magnitude[-1]))
    limit = 1020 if dtype_name(x.planes[0]) == "float64" else 124
    exponent = library.clip(exponent + (exponent & 1), -limit, limit)
    planes = [plane_times_power(plane, -exponent) for plane in x.planes]
    return type(x).of(x.format, planes), exponent


def plane_times_power(plane: Any, exponent: Any) -> Any:
    """Plane 2^exponent, rounded once, for exponents of normal float64 numbers.

    torch's ldexp calls pow for the power of 2, which on a GPU need not be exact.
    """
    library = library_of(plane)
    if library is np:
        with np.errstate(all="ignore"):
            return np.ldexp(plane, exponent)
    power = ((exponent.to(library.int64) + 1023) << 52).view(library.float64)
    return (plane.to(library.float64) * power).to(plane.dtype)


def times_power(x: Words, exponent: Any) -> Words:
    """Numbers x 2^exponent, in two steps, each word rounded where it is subnormal."""
    half = exponent >> 1
    planes = [
        plane_times_power(plane_times_power(plane, half), exponent - half) for plane in x.planes
    ]
    if not is_uniform(x.format):  # a float32 behind a float64 beyond its range is the largest
        largest = float(np.finfo(np.float32).max)
        planes = [planes[0], planes[1].clip(-largest, largest)]
    first = abs(planes[0])
    if bool(((first < _room(x)) & (first > 0)).any()):
        return type(x).from_planes(x.format, planes)
    planes = _alone(planes)
    return type(x).of(x.format, planes)


def _room(x: Words) -> float:
    """Numbers from here on have all of their bits."""
    return float(2.0 ** (x.format.part.words[-1].lowest + x.format.precision + 2))


def _alone(planes: list[Any]) -> list[Any]:
    """No words behind what is not finite."""
    library = library_of(planes[0])
    fine = library.isfinite(planes[0])
    rest = [library.where(fine, plane, library.zeros_like(plane)) for plane in planes[1:]]
    return [planes[0], *rest]


def _ordinary(value: Words, plain: Any) -> Words:
    """Take the first word of ordinary arithmetic where that, or what was found, is not finite."""
    library = library_of(plain)
    special = ~library.isfinite(plain) | ~library.isfinite(value.planes[0])
    special = special.any(0)[None] | special
    nothing = [library.zeros_like(plane) for plane in value.planes[1:]]
    planes = [library.where(special, plain, value.planes[0])]
    planes += [library.where(special, n, p) for n, p in zip(nothing, value.planes[1:], strict=True)]
    return type(value).of(value.format, planes)


def _first_words(x: Words) -> Any:
    """The first words of complex numbers, as one complex array or tensor."""
    first = x.planes[0]
    return library_of(first).complex(*first) if is_tensor(first) else x.to_numpy()


def _divide_complex(x: Words, y: Words) -> Words:
    """The quotient x conj(y) / |y|^2, scaled."""
    library = library_of(x.planes[0])
    a, up = near_one(x)
    b, down = near_one(y)
    top, bottom = binary("multiply", a, conjugate(b)), binary("multiply", b, conjugate(b)).real
    quotient = times_power(binary("divide", top, bottom), up - down)
    with np.errstate(all="ignore"):
        plain = _first_words(x) / _first_words(y)
    # Ordinary division overflows on the way if y is tiny: it is asked only where it must be.
    shape = (2, *quotient.shape)
    special = ~library.isfinite(x.planes[0]).all(0) | ~library.isfinite(y.planes[0]).all(0)
    special = library.broadcast_to(special | (y.planes[0] == 0).all(0), shape)
    both = library.broadcast_to(library.stack([plain.real, plain.imag]), shape)
    return _ordinary(quotient, library.where(special, both, quotient.planes[0]))


def _root_complex(x: Words) -> Words:
    """With t = sqrt((|a| + |z|) / 2): t + b/(2t) i, or |b|/(2t) + sign(b) t i if a < 0."""
    library = library_of(x.planes[0])
    z, exponent = near_one(x)
    total = binary("add", absolute(z.real), absolute(z))
    t = root(binary("multiply", total, operand(total, 0.5)))  # type: ignore[arg-type]
    twice = binary("add", t, t)
    other = binary("divide", absolute(z.imag), twice)
    nothing = t.planes[0][0] == 0
    left = x.planes[0][0] < 0
    down = library.signbit(x.planes[0][1])
    planes = []
    for p, q in zip(t.planes, other.planes, strict=True):
        q = library.where(nothing, p, q)
        real, imaginary = library.where(left, q[0], p[0]), library.where(left, p[0], q[0])
        planes.append(library.stack([real, imaginary]))
    turned = negated_planes(tuple(planes))
    planes = [
        library.stack([p[0], library.where(down, q[1], p[1])])
        for p, q in zip(planes, turned, strict=True)
    ]
    value = times_power(type(x).of(x.format, planes), exponent >> 1)
    with np.errstate(all="ignore"):
        plain = library.sqrt(_first_words(x))
    return _ordinary(value, library.stack([plain.real, plain.imag]))


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, complex)) else type(value).__name__


def power(x: Words, exponent: Any) -> Words:
    """An integer power of x, by squaring; to a half by the square root."""
    if isinstance(exponent, (float, np.floating, Fraction)) and exponent == Fraction(1, 2):
        return root(x)
    if isinstance(exponent, (bool, np.bool_)) or not isinstance(exponent, (int, np.integer)):
        whole = isinstance(exponent, (float, np.floating)) and float(exponent).is_integer()
        if not whole:
            raise TypeError(
                f"x ** {_short(exponent)}: powers of words are integers, or 0.5 for the square root"
            )
    one = operand(x, 1)
    assert one is not None
    count = abs(int(exponent))
    if count == 0:  # x ** 0 is 1, as in NumPy
        return binary("add", binary("multiply", x.zeros_like(), one), one)
    positive = _positive_power(x, count)
    if exponent > 0:
        return positive.copy() if positive is x else positive
    inverse = binary("divide", one, positive)
    library, first = library_of(positive.planes[0]), abs(positive.planes[0])
    lost = (first < _room(x)).all(0) | ~library.isfinite(first).all(0)
    if not bool(lost.any()):
        return inverse
    # x^k is out of range, or has lost words, where (1/x)^k need not be.
    other = _positive_power(binary("divide", one, x), count)
    pairs = zip(other.planes, inverse.planes, strict=True)
    return type(x).of(inverse.format, [library.where(lost, p, q) for p, q in pairs])


def _positive_power(x: Words, count: int) -> Words:
    """A power of x from 1 on, by squaring; x itself if that is 1."""
    result, square = None, x
    while count:
        if count & 1:
            result = square if result is None else binary("multiply", result, square)
        count >>= 1
        if count:
            square = binary("multiply", square, square)
    assert result is not None
    return result


def compare(operation: str, x: Words, y: Words) -> Any:
    """Whether x < y, and so on, word by word: the first words that differ decide."""
    fmt = common_format(x.format, y.format)
    x, y = _as(x, fmt), _as(y, fmt)
    if fmt.parts == 2 and operation not in ("equal", "not_equal"):
        raise TypeError("complex numbers have no order; compare .real, .imag or abs(x)")
    library = library_of(x.planes[0])
    axes = len(_common_shape(x, y))
    x, y = (z.reshape((1,) * (axes - z.ndim) + z.shape) for z in (x, y))
    pairs = list(zip(x.planes, y.planes, strict=True))
    equal = pairs[0][0] == pairs[0][1]
    for p, q in pairs[1:]:
        equal = equal & (p == q)
    if operation in ("equal", "not_equal"):
        same = equal.all(0)
        return same if operation == "equal" else ~same
    if operation in ("greater", "greater_equal"):
        pairs = [(q, p) for p, q in pairs]
    less = pairs[-1][0] < pairs[-1][1]
    for p, q in pairs[-2::-1]:
        less = (p < q) | ((p == q) & less)
    less = less[0]
    return less if operation in ("less", "greater") else library.logical_or(less, equal[0])
