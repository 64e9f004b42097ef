"""From numbers of other kinds to words, and back, exactly."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats.arrays import Planes, Wide, is_tensor, new_planes
from widen.words.numbers import ZERO, Exact, Parts, exact, ratios
from widen.words.rounding import words_of_ratios

if TYPE_CHECKING:
    from widen.words.array import Words

CHUNK = 1 << 12
"""Numbers that are converted at a time: their integers stay in the caches."""


def planes_of_values(values: Any, fmt: Wide) -> Planes:
    """Planes for a number, nested lists or an object array of numbers, or a foreign matrix."""
    array = _object_array(values)
    planes = new_planes(fmt, (fmt.parts, *array.shape), None)
    targets = [plane.reshape(fmt.parts, -1) for plane in planes]  # views: planes are contiguous
    flat = array.reshape(-1)
    for start in range(0, array.size, CHUNK):
        chunk = flat[start : start + CHUNK]
        chunk = chunk.tolist() if chunk.dtype.kind in "OU" else list(chunk)  # str, not NumPy's
        pairs = [ratios(value) for value in chunk]
        if fmt.parts == 1:
            _check_real(pairs, chunk, fmt)
        for at, column in zip(range(fmt.parts), zip(*pairs, strict=True), strict=False):
            words = words_of_ratios(column, fmt.part)
            for target, word in zip(targets, words, strict=True):
                target[at, start : start + CHUNK] = word
    return planes


def _check_real(pairs: list[Parts], values: list[Any], fmt: Wide) -> None:
    for (_, imaginary), value in zip(pairs, values, strict=True):
        if imaginary is not ZERO and exact(imaginary) != 0:
            raise TypeError(
                f"{value!r:.60} is complex and {fmt.name} is not; use a complex dtype such as "
                "widen.complex128x2"
            )


def _object_array(values: Any) -> Any:
    """Numbers as an object array of their shape."""
    own = type(values)
    library = own.__module__.split(".")[0]
    if library == "flint" and own.__name__.endswith("_mat"):
        rows, columns = int(values.nrows()), int(values.ncols())
        return _filled((rows, columns), lambda i, j: values[i, j])
    if library == "mpmath" and hasattr(values, "rows"):
        return _filled((values.rows, values.cols), lambda i, j: values[i, j])
    if isinstance(values, np.ndarray):
        return values
    if not isinstance(values, (list, tuple)):
        single = np.empty((), object)
        single[()] = values
        return single
    if any(is_tensor(value) for value in values):
        raise TypeError("a list of tensors is not an array of numbers; give torch.stack(...)")
    if any(hasattr(value, "planes") for value in values):
        raise TypeError("a list of words is not an array of numbers; give np.stack(...)")
    shape = _list_shape(values)
    array = np.empty(shape, object)
    _fill(array, values, ())
    return array


def _filled(shape: tuple[int, int], entry: Callable[[int, int], Any]) -> Any:
    array = np.empty(shape, object)
    for i in range(shape[0]):
        for j in range(shape[1]):
            array[i, j] = entry(i, j)
    return array


def _list_shape(values: Any) -> tuple[int, ...]:
    if isinstance(values, (list, tuple)):
        return (len(values), *(_list_shape(values[0]) if values else ()))
    return tuple(values.shape) if isinstance(values, np.ndarray) else ()


def _fill(array: Any, values: Any, at: tuple[int, ...]) -> None:
    if len(at) == array.ndim:
        if isinstance(values, (list, tuple)):
            raise ValueError("the nested lists have different depths; give lists of one shape")
        array[at] = values
        return
    size = len(values) if isinstance(values, (list, tuple, np.ndarray)) else 0
    if size != array.shape[len(at)]:
        raise ValueError(
            f"the nested lists have different lengths: {size} where {array.shape[len(at)]} was "
            "found before; give lists of one shape"
        )
    for i in range(size):
        _fill(array, values[i], (*at, i))


# ── back ─────────────────────────────────────────────────────────────────────


def exact_values(x: Words) -> list[tuple[Exact, ...]]:
    """The parts of every element, in order."""
    columns = [on_cpu(plane).reshape(x.format.parts, -1) for plane in x.planes]
    return [
        tuple(_exact([column[part, at] for column in columns]) for part in range(x.format.parts))
        for at in range(x.size)
    ]


def on_cpu(plane: Any) -> Any:
    """A plane as a NumPy array."""
    return plane.detach().cpu().numpy() if is_tensor(plane) else plane


def _exact(words: list[Any]) -> Exact:
    first = float(words[0])
    if not np.isfinite(first) or (first == 0 and np.signbit(first)):
        return first
    return sum((Fraction(float(word)) for word in words), Fraction(0))


def shaped(objects: list[Any], shape: tuple[int, ...]) -> Any:
    """Objects in an array of that shape; a single one by itself."""
    if not shape:
        return objects[0]
    array = np.empty(len(objects), object)
    array[:] = objects
    return array.reshape(shape)


def _real(x: Words, target: str) -> list[Exact]:
    if x.format.parts == 2:
        raise TypeError(f"{target} has no complex numbers; convert .real and .imag")
    return [parts[0] for parts in exact_values(x)]


def _finite(value: Exact, target: str) -> Fraction:
    if isinstance(value, Fraction) or value == 0:
        return Fraction(value)
    raise ValueError(f"{value} is not a {target}; replace it first")


def to_fraction(x: Words) -> Any:
    """Fractions, in an object array; a Fraction of a single number.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x[2].to_fraction()
    Fraction(-2, 1)
    """
    return shaped([_finite(value, "Fraction") for value in _real(x, "Fraction")], x.shape)


def to_list(x: Words) -> Any:
    """Nested lists of fractions; NaN, infinities and -0 are floats."""
    numbers = np.empty(x.size, object)
    numbers[:] = _real(x, "a list")
    return numbers.reshape(x.shape).tolist()


def decimal_of(value: Exact) -> Decimal:
    """The same number in decimal digits, as many as it takes.

    >>> decimal_of(Fraction(1, 8))
    Decimal('0.125')
    """
    if isinstance(value, float):
        return Decimal.from_float(value)
    places = value.denominator.bit_length() - 1  # the denominator is a power of two
    digits = abs(value.numerator) * 5**places
    while places > 0 and digits % 10 == 0:
        digits, places = digits // 10, places - 1
    return Decimal((int(value < 0), tuple(map(int, str(digits))), -places))


def to_decimal(x: Words) -> Any:
    """Decimals, exactly: up to 1100 digits and more of very small numbers.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x[2].to_decimal()
    Decimal('-2')
    """
    return shaped([decimal_of(value) for value in _real(x, "Decimal")], x.shape)


def to_int(x: Words) -> Any:
    """Python integers; an error if a number is none.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x[2].to_int()
    -2
    """
    integers = []
    for value in _real(x, "int"):
        if not isinstance(value, Fraction) and value == 0:
            value = Fraction(0)
        if not isinstance(value, Fraction) or value.denominator != 1:
            raise ValueError(f"{float(value)!r} is not an integer; round the numbers first")
        integers.append(value.numerator)
    return shaped(integers, x.shape)


def mantissa_exponent(value: Fraction) -> tuple[int, int]:
    """(m, e) of a dyadic fraction m 2^e."""
    return value.numerator, 1 - value.denominator.bit_length()
