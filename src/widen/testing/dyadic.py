"""Arrays of exact numbers, integer times a power of two: what every float and every product is.

Products are done by FLINT (``fmpz_mat``) and roundings by MPFR (``gmpy2``), so that a reference
computed here shares no code with the library it judges.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Direction = Literal["nearest", "up", "down"]


class Range(NamedTuple):
    """A binary format as MPFR counts it: significands of ``bits`` in [1/2, 1) times 2**exponent."""

    bits: int
    emax: int

    @property
    def emin(self) -> int:
        """The exponent of the smallest subnormal: 2**(emin - 1)."""
        return 4 - self.emax - self.bits

    @property
    def overflow(self) -> tuple[int, int]:
        """The least magnitude that rounds to infinity, (integer, exponent)."""
        return 2 ** (self.bits + 1) - 1, self.emax - self.bits - 1


RANGES = {
    "float64": Range(53, 1024),
    "float32": Range(24, 128),
    "float16": Range(11, 16),
    "bfloat16": Range(8, 128),
}
_PARTS: dict[str, np.dtype[Any]] = {
    "complex128": np.dtype("float64"),
    "complex64": np.dtype("float32"),
}
_SOURCE = {"flint": "python-flint", "gmpy2": "gmpy2"}


def oracle(name: str) -> Any:
    """Import ``flint`` or ``gmpy2``; a missing one is an error that names the fix."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f'widen.testing needs {_SOURCE[name]}, not found: pip install "widen[test]"'
        raise ImportError(message) from error


def part_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The real type of a float or complex type: float32 for complex64 and for float32.

    Examples
    --------
    >>> part_dtype("complex64")
    dtype('float32')
    """
    asked: np.dtype[Any] = np.dtype(dtype)
    part: np.dtype[Any] = _PARTS.get(asked.name, asked)
    if part.name not in RANGES:
        known = ", ".join([*RANGES, *_PARTS])
        raise TypeError(f"got dtype {asked.name}; widen.testing rounds to one of {known}")
    return part


@dataclass(frozen=True, eq=False)
class Dyadic:
    """Real numbers ``integers * 2**exponents``, elementwise and exact, of any size.

    Examples
    --------
    >>> x = Dyadic.of([[0.75, 2.0**-1074]])
    >>> x.integers.tolist(), x.exponents.tolist()
    ([[3, 1]], [[-2, -1074]])
    >>> (x * x - x).rounded("float64").tolist()
    [[-0.1875, -5e-324]]
    """

    integers: NDArray[np.object_]
    exponents: NDArray[np.int64]

    @classmethod
    def of(cls, x: ArrayLike) -> Dyadic:
        """The exact values of an array of finite floats, float64 or narrower (float8 too)."""
        given = np.asarray(x)
        narrow = given.dtype.name in RANGES or given.dtype.name.startswith("float8")
        if not narrow:
            raise TypeError(f"got dtype {given.dtype.name}; expected a real float up to float64")
        values = given.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError("got NaN or Inf; exact references exist for finite values only")
        significands, exponents = np.frexp(values)
        integers = np.ldexp(significands, 53).astype(np.int64)
        lowest_bit = np.frexp((integers & -integers).astype(np.float64))[1] - 1
        zeros = np.maximum(lowest_bit, 0).astype(np.int64)
        return cls((integers >> zeros).astype(object), exponents.astype(np.int64) - 53 + zeros)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.integers.shape

    def scaled(self, integer: int, exponent: int = 0) -> Dyadic:
        """Every element times ``integer * 2**exponent``."""
        return Dyadic(self.integers * integer, self.exponents + exponent)

    def positive(self) -> NDArray[np.bool_]:
        """Where the value is above zero."""
        return np.asarray(self.integers > 0, dtype=np.bool_)

    def zero(self) -> NDArray[np.bool_]:
        """Where the value is zero."""
        return np.asarray(self.integers == 0, dtype=np.bool_)

    def where(self, mask: NDArray[np.bool_], other: Dyadic) -> Dyadic:
        """The elements where ``mask`` holds, elsewhere those of ``other``."""
        integers = np.where(mask, self.integers, other.integers)
        return Dyadic(integers, np.where(mask, self.exponents, other.exponents))

    def __neg__(self) -> Dyadic:
        return Dyadic(-self.integers, self.exponents)

    def __abs__(self) -> Dyadic:
        return Dyadic(np.abs(self.integers), self.exponents)

    def __add__(self, other: Dyadic) -> Dyadic:
        low = np.minimum(self.exponents, other.exponents)
        mine = self.integers << (self.exponents - low).astype(object)
        return Dyadic(mine + (other.integers << (other.exponents - low).astype(object)), low)

    def __sub__(self, other: Dyadic) -> Dyadic:
        return self + -other

    def __mul__(self, other: Dyadic) -> Dyadic:
        return Dyadic(self.integers * other.integers, self.exponents + other.exponents)

    def __matmul__(self, other: Dyadic) -> Dyadic:
        """The exact matrix product, by FLINT: one exponent per row of self, per column of other."""
        fmpz_mat = oracle("flint").fmpz_mat
        (m, k), n = self.shape, other.shape[1]
        left, rows = self._aligned(axis=1)
        right, columns = other._aligned(axis=0)
        product = fmpz_mat(m, k, left) * fmpz_mat(k, n, right)
        integers = np.empty(m * n, dtype=object)
        integers[:] = [int(entry) for entry in product.entries()]
        return Dyadic(integers.reshape(m, n), rows + columns)

    def _aligned(self, axis: int) -> tuple[list[int], NDArray[np.int64]]:
        """Integers over one exponent along ``axis``, as a list; and those exponents."""
        unused = np.int64(2**40)  # above any exponent: a zero has no lowest bit
        present = ~self.zero()
        low = np.where(present, self.exponents, unused).min(axis, keepdims=True, initial=unused)
        shifts = np.where(present, self.exponents - low, 0)
        integers = (self.integers << shifts.astype(object)).ravel().tolist()
        return integers, np.where(low == unused, 0, low)

    def square_root(self, bits: int = 256) -> tuple[Dyadic, Dyadic]:
        """Lower and upper bounds of the square roots, equal if exact, else 1 in 2**(bits/2) apart.

        Examples
        --------
        >>> low, high = Dyadic.of([[9.0, 2.0]]).square_root()
        >>> (high - low).zero().tolist()
        [[True, False]]
        """
        lengths = np.array([int(v).bit_length() for v in self.integers.flat], dtype=np.int64)
        shifts = np.maximum(bits - lengths.reshape(self.shape), 0)
        shifts += (self.exponents - shifts) % 2  # an even exponent remains
        squares = self.integers << shifts.astype(object)
        roots = _elementwise(math.isqrt, squares)
        exponents = (self.exponents - shifts) // 2
        inexact = np.asarray(roots * roots != squares, dtype=np.bool_)
        return Dyadic(roots, exponents), Dyadic(roots + inexact.astype(int), exponents)

    def mpq(self) -> NDArray[np.object_]:
        """The values as ``gmpy2.mpq``."""
        mpq = oracle("gmpy2").mpq
        up = np.maximum(self.exponents, 0).astype(object)
        down = np.maximum(-self.exponents, 0).astype(object)
        return _elementwise(lambda n, d: mpq(n, 1 << d), self.integers << up, down)

    def mpfr(self, precision: int = 128) -> NDArray[np.object_]:
        """The values as ``gmpy2.mpfr``, rounded to ``precision`` bits; any exponent fits."""
        gmpy2 = oracle("gmpy2")
        context = gmpy2.context(
            precision=precision, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max()
        )
        return self._rounded_in(context)

    def rounded(self, dtype: DTypeLike, direction: Direction = "nearest") -> NDArray[Any]:
        """The values rounded once, by MPFR: subnormals, signed underflow and overflow as in IEEE.

        Examples
        --------
        >>> x = Dyadic.of([[2.0**-1074]]).scaled(-1, -1)
        >>> x.rounded("float64").tolist(), x.rounded("float64", "down").tolist()
        ([[-0.0]], [[-5e-324]])
        """
        part = part_dtype(dtype)
        gmpy2 = oracle("gmpy2")
        modes = {"nearest": gmpy2.RoundToNearest, "up": gmpy2.RoundUp, "down": gmpy2.RoundDown}
        form = RANGES[part.name]
        context = gmpy2.context(
            precision=form.bits,
            emin=form.emin,
            emax=form.emax,
            subnormalize=True,
            round=modes[direction],
        )
        # Each value now fits the format, hence float64: the two conversions are exact.
        return self._rounded_in(context).astype(np.float64).astype(part)

    def _rounded_in(self, context: Any) -> NDArray[np.object_]:
        """Round in an MPFR context: an exact integer first, then one rounded scaling."""
        gmpy2 = oracle("gmpy2")
        mpfr, times, over = gmpy2.mpfr, context.mul_2exp, context.div_2exp
        unbounded = gmpy2.context(emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())
        with unbounded:  # mpfr(v, 1) takes as many bits as v has
            values = [
                times(mpfr(v, 1), e) if e > 0 else over(mpfr(v, 1), -e)
                for v, e in zip(self.integers.flat, self.exponents.ravel().tolist(), strict=True)
            ]
        result = np.empty(len(values), dtype=object)
        result[:] = values
        return result.reshape(self.shape)


def _elementwise(function: Callable[..., Any], *arrays: NDArray[np.object_]) -> NDArray[np.object_]:
    """Apply a Python function to the elements of object arrays of one shape."""
    result = np.empty(arrays[0].size, dtype=object)
    result[:] = [function(*items) for items in zip(*(x.ravel() for x in arrays), strict=True)]
    return result.reshape(arrays[0].shape)
