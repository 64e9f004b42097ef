"""Words to the numbers and matrices of mpmath, gmpy2 and python-flint, exactly."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.words.conversions import exact_values, mantissa_exponent, shaped
from widen.words.numbers import Exact

if TYPE_CHECKING:
    from widen.words.array import Words


def package(module: str, name: str) -> Any:
    """A package whose numbers are asked for, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this needs {module}, which is not here: pip install '{name}'"
        ) from error


def to_mpmath(x: Words) -> Any:
    """An mpf or mpc of a single number, an mpmath.matrix of a vector or a matrix.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x[2].to_mpmath()
    mpf('-2.0')
    """
    mpmath = package("mpmath", "mpmath")
    libmp = mpmath.libmp
    special = {np.inf: libmp.finf, -np.inf: libmp.fninf, 0.0: libmp.fzero}

    def raw(value: Exact) -> Any:
        if isinstance(value, Fraction):
            return libmp.from_man_exp(*mantissa_exponent(value))
        return special.get(value, libmp.fnan)

    make = mpmath.mp.make_mpf if x.format.parts == 1 else mpmath.mp.make_mpc
    values = [
        make(raw(parts[0]) if len(parts) == 1 else tuple(map(raw, parts)))
        for parts in exact_values(x)
    ]

    def matrix(rows: int, columns: int, values: list[Any]) -> Any:
        made = mpmath.matrix(rows, columns)
        for at, value in enumerate(values):
            made[divmod(at, columns)] = value
        return made

    return _arranged(values, x.shape, matrix)


def to_gmpy2(x: Words) -> Any:
    """An mpfr or mpc, with as many bits as the number has; an object array of them.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x[2].to_gmpy2() == -2
    True
    """
    gmpy2 = package("gmpy2", "gmpy2")

    def real(value: Exact) -> Any:
        if not isinstance(value, Fraction):
            return gmpy2.mpfr(value)
        mantissa, exponent = mantissa_exponent(value)
        bits = max(mantissa.bit_length(), 2)
        return (
            gmpy2.mul_2exp(gmpy2.mpfr(mantissa, bits), exponent)
            if exponent >= 0
            else (gmpy2.div_2exp(gmpy2.mpfr(mantissa, bits), -exponent))
        )

    def number(parts: tuple[Exact, ...]) -> Any:
        bits = [2] + [
            mantissa_exponent(part)[0].bit_length() for part in parts if isinstance(part, Fraction)
        ]
        with gmpy2.context(precision=max(bits)):  # whatever range and traps the caller has set
            if len(parts) == 1:
                return real(parts[0])
            return gmpy2.mpc(real(parts[0]), real(parts[1]))

    return shaped([number(parts) for parts in exact_values(x)], x.shape)


def to_flint(x: Words, kind: str = "arb") -> Any:
    """Numbers or matrices of python-flint: "arb" (acb if complex), "fmpq" or "fmpz".

    A matrix gives a matrix, a vector a matrix of one column, a single number a number.

    >>> import widen
    >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
    >>> x[2].to_flint()
    -2.00000000000000
    """
    flint = package("flint", "python-flint")
    kinds = {"arb": ("arb", "acb"), "fmpq": ("fmpq", None), "fmpz": ("fmpz", None)}
    if kind not in kinds:
        raise ValueError(f"kind={kind!r} is not known; use one of {', '.join(kinds)}")
    name = kinds[kind][x.format.parts - 1]
    if name is None:
        raise TypeError(f"{kind} has no complex numbers; convert .real and .imag, or use 'arb'")

    def real(value: Exact) -> Any:
        if not isinstance(value, Fraction):
            if kind != "arb":
                raise ValueError(f"{value} is not an {kind}; replace it first")
            return flint.arb(value)
        if kind == "arb":
            return flint.arb(mantissa_exponent(value))
        if kind == "fmpq":
            return flint.fmpq(value.numerator, value.denominator)
        if value.denominator != 1:
            raise ValueError(f"{float(value)!r} is not an integer; use kind='fmpq'")
        return flint.fmpz(value.numerator)

    values = [
        real(parts[0]) if len(parts) == 1 else flint.acb(*map(real, parts))
        for parts in exact_values(x)
    ]
    return _arranged(values, x.shape, getattr(flint, f"{name}_mat"))


def _arranged(
    values: list[Any], shape: tuple[int, ...], matrix: Callable[[int, int, list[Any]], Any]
) -> Any:
    """A number, a matrix (a vector has one column), or an object array of more axes."""
    if len(shape) == 0:
        return values[0]
    if len(shape) > 2:
        return shaped(values, shape)
    rows, columns = shape if len(shape) == 2 else (shape[0], 1)
    return matrix(rows, columns, values)
