"""Exact matrix products, and their correctly rounded values: the reference for everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .dyadic import Dyadic, part_dtype


@dataclass(frozen=True, eq=False)
class Exact:
    """An array of exact real numbers (one part) or complex numbers (two parts).

    Examples
    --------
    A double double reference: round, subtract, round again.

    >>> x = exact_product([[1.0, 2.0**-70]], [[1.0], [1.5]])
    >>> high = x.rounded()
    >>> low = (x - Exact.of(high)).rounded()
    >>> high.tolist(), (low * 2**70).tolist()
    ([[1.0]], [[1.5]])
    """

    parts: tuple[Dyadic, ...]

    @classmethod
    def of(cls, x: ArrayLike) -> Exact:
        """The exact values of an array of finite floats, real or complex."""
        given = np.asarray(x)
        if given.dtype.kind == "c":
            return cls((Dyadic.of(given.real), Dyadic.of(given.imag)))
        return cls((Dyadic.of(given),))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.parts[0].shape

    @property
    def is_complex(self) -> bool:
        """Whether there is an imaginary part."""
        return len(self.parts) == 2

    def as_complex(self) -> Exact:
        """The same numbers in two parts."""
        real = self.parts[0]
        return self if self.is_complex else Exact((real, real.scaled(0)))

    def __add__(self, other: Exact) -> Exact:
        mine, theirs = _alike(self, other)
        return Exact(tuple(x + y for x, y in zip(mine.parts, theirs.parts, strict=True)))

    def __sub__(self, other: Exact) -> Exact:
        return self + Exact(tuple(-part for part in other.parts))

    def __mul__(self, other: Exact) -> Exact:
        mine, theirs = _alike(self, other)
        if not mine.is_complex:
            return Exact((mine.parts[0] * theirs.parts[0],))
        (a, b), (c, d) = mine.parts, theirs.parts
        return Exact((a * c - b * d, a * d + b * c))

    def __matmul__(self, other: Exact) -> Exact:
        mine, theirs = _alike(self, other)
        if not mine.is_complex:
            return Exact((mine.parts[0] @ theirs.parts[0],))
        (a, b), (c, d) = mine.parts, theirs.parts
        return Exact((a @ c - b @ d, a @ d + b @ c))

    def squared_modulus(self) -> Dyadic:
        """The square, or the sum of the squares of both parts."""
        squares = [part * part for part in self.parts]
        return squares[0] if len(squares) == 1 else squares[0] + squares[1]

    def modulus(self) -> tuple[Dyadic, Dyadic]:
        """Lower and upper bound of the absolute value: equal, if real; else 2**-127 apart."""
        if not self.is_complex:
            value = abs(self.parts[0])
            return value, value
        return self.squared_modulus().square_root()

    def rounded(self, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Each part rounded once, to nearest even; default float64 or complex128."""
        if dtype is None:
            dtype = np.complex128 if self.is_complex else np.float64
        asked = np.dtype(dtype)
        part = part_dtype(asked)
        if part == asked:
            if self.is_complex:
                raise TypeError(f"got dtype {asked.name} for complex values; ask for complex128")
            return self.parts[0].rounded(part)
        result = np.zeros(self.shape, dtype=asked)
        result.real = self.parts[0].rounded(part)
        if self.is_complex:
            result.imag = self.parts[1].rounded(part)
        return result


def _alike(x: Exact, y: Exact) -> tuple[Exact, Exact]:
    """Both real, or both complex."""
    if x.is_complex == y.is_complex:
        return x, y
    return x.as_complex(), y.as_complex()


def exact_product(a: ArrayLike, b: ArrayLike) -> Exact:
    """The exact product of two matrices of finite floats.

    Parameters
    ----------
    a, b : array_like
        Shapes (m, k) and (k, n); float64, float32, float16, bfloat16, complex64 or complex128.

    Examples
    --------
    >>> product = exact_product([[1e200, 1.0, -1e200]], [[1.0], [3.0], [1.0]])
    >>> product.parts[0].mpq().tolist()
    [[mpq(3,1)]]
    """
    left, right = np.asarray(a), np.asarray(b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ValueError(f"got shapes {left.shape} and {right.shape}; expected (m, k) and (k, n)")
    return Exact.of(left) @ Exact.of(right)


def correctly_rounded(
    a: ArrayLike,
    b: ArrayLike,
    dtype: DTypeLike | None = None,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: ArrayLike | None = None,
) -> NDArray[Any]:
    """The exact value of ``alpha * a @ b + beta * c``, rounded once to nearest even.

    Results beyond the range are infinite, a value too small keeps its sign (-0.0), an exact zero
    is +0.0; subnormals are rounded once. With ``beta = 0`` nothing is read from ``c``.

    Parameters
    ----------
    a, b, c : array_like
        Matrices of finite floats, real or complex.
    dtype : dtype, optional
        float64, float32, float16, bfloat16, complex128 or complex64; default float64, or
        complex128 if an argument is complex, whatever the width of the inputs.
    alpha, beta : float or complex
        Scalars, exact as given.

    Examples
    --------
    >>> correctly_rounded([[2.0**-1074, 1.0]], [[0.5], [1.0]]).tolist()
    [[1.0]]
    >>> correctly_rounded([[-(2.0**-1074)]], [[0.5]]).tolist()
    [[-0.0]]
    >>> correctly_rounded([[0.1]], [[3.0]], alpha=-1.0, beta=3.0, c=[[0.1]]).tolist()
    [[0.0]]
    """
    value = exact_product(a, b)
    if alpha != 1:
        value = _scalar(alpha) * value
    if beta != 0:
        if c is None:
            raise ValueError(f"got beta = {beta} without c; pass c, or beta = 0")
        addend = np.asarray(c)
        if addend.shape != value.shape:
            raise ValueError(f"got c of shape {addend.shape}; expected {value.shape}")
        value = value + _scalar(beta) * Exact.of(addend)
    return value.rounded(dtype)


def _scalar(value: complex) -> Exact:
    return Exact.of(np.array([[value]], dtype=complex if np.iscomplexobj(value) else float))


def exact_error(c: ArrayLike, a: ArrayLike, b: ArrayLike) -> NDArray[np.object_]:
    """``|c - a @ b|`` for real matrices, exactly, as an array of ``gmpy2.mpq``.

    Examples
    --------
    >>> exact_error([[1.0]], [[1.0, 2.0**-60]], [[1.0], [-1.0]]).tolist()
    [[mpq(1,1152921504606846976)]]
    """
    error = _difference(c, a, b)
    if error.is_complex:
        raise TypeError("got complex matrices; a modulus is irrational: use error_bounds")
    return abs(error.parts[0]).mpq()


def error_bounds(c: ArrayLike, a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """``|c - a @ b|`` rounded up to float64, real or complex (the modulus).

    Examples
    --------
    >>> error_bounds([[3.0 + 4.0j]], [[0.0]], [[0.0]]).tolist()
    [[5.0]]
    """
    upper = _difference(c, a, b).modulus()[1]
    return np.asarray(upper.rounded("float64", "up"), dtype=np.float64)


def _difference(c: ArrayLike, a: ArrayLike, b: ArrayLike) -> Exact:
    product, result = exact_product(a, b), Exact.of(c)
    if result.shape != product.shape:
        raise ValueError(f"got c of shape {result.shape}; expected {product.shape}")
    return result - product
