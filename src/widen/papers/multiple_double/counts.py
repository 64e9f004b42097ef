"""Operations that multiple doubles cost: this library's kernels, the rewritten product.

The kernels run, in Python, on numbers that count. An addition, a subtraction, a multiplication, a
fused multiply-add and a division are one each; comparisons, selections, changes of sign and bits
of an exponent are none.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from widen.papers.multiple_double.cpu import DOUBLE_DOUBLES, OPERATIONS, arithmetic
from widen.papers.multiple_double.parts import widths
from widen.papers.multiple_double.rewriting import rewrite_left


class Counting(float):
    """A float that counts what is done to it and to what comes of it.

    >>> Counting.done = 0
    >>> x = Counting(3.0)
    >>> (x + 1) * 2.0 - x / 4, Counting.done
    (7.25, 4)
    """

    done = 0

    @staticmethod
    def counted(name: str) -> Callable[[float, float], Counting]:
        """Return a float's method that counts; a factor that is an integer is a sign, 1 or -1."""
        method = getattr(float, name)

        def run(self: float, other: float) -> Counting:
            Counting.done += not ("mul" in name and isinstance(other, int))
            return Counting(method(self, other))

        return run

    __add__, __radd__ = counted("__add__"), counted("__radd__")
    __sub__, __rsub__ = counted("__sub__"), counted("__rsub__")
    __mul__, __rmul__ = counted("__mul__"), counted("__rmul__")
    __truediv__ = counted("__truediv__")

    def __neg__(self) -> Counting:
        return Counting(-float(self))


def _fma(a: float, b: float, c: float) -> Counting:
    Counting.done += 1
    return Counting(float(Fraction(a) * Fraction(b) + Fraction(c)))


def _fill_row(row: Any, value: float) -> None:
    row[:] = Counting(value)  # zeros that are added to count as well


REPLACED = {
    "fma": _fma,
    "fill_row": _fill_row,
    "scale_exponent": lambda x: max(int(np.frexp(x)[1]) - 1, -1022),
    "power_like": lambda exponent, like: 2.0**exponent,
    "TILE": 1,
}
"""What Python has no word for, and a tile of one element."""


@cache
def in_python(kernel: Any) -> Any:
    """Return a Numba kernel as a Python function, with all that it calls."""
    function = getattr(kernel, "py_func", kernel)
    used = function.__code__.co_names

    def translated(space: dict[str, Any]) -> dict[str, Any]:
        names = {name: REPLACED.get(name, space[name]) for name in used if name in space}
        for name, value in names.items():
            if isinstance(value, ModuleType) and value.__name__.startswith("widen."):
                names[name] = SimpleNamespace(**translated(vars(value)))
            elif hasattr(value, "py_func"):
                names[name] = in_python(value)
        return names

    return FunctionType(function.__code__, translated(function.__globals__))


def operate(operation: str, x: Any, y: Any) -> tuple[list[float], int]:
    """Return the words of x op y, given the words of both, and how many operations it took."""
    left, right, result = (np.empty((len(x), 1, 1), object) for _ in range(3))
    left[:, 0, 0], right[:, 0, 0] = ([Counting(word) for word in z] for z in (x, y))
    none = np.empty((0, 1, 1), object)
    kernel = in_python(arithmetic(len(x)))
    Counting.done = 0
    kernel(0, 1, OPERATIONS[operation], left, none, right, none, result, none)
    return [float(word) for word in result[:, 0, 0]], Counting.done


def numbers(count: int) -> list[list[float]]:
    """Return two numbers whose words are all there; what they are changes no count."""
    return [[lead * 2.0 ** (-54 * at) for at in range(count)] for lead in (0.7, 0.6)]


def of_kernels(count: int) -> tuple[int, ...]:
    """Return the operations of an addition, a multiplication and a division of so many words."""
    return tuple(operate(operation, *numbers(count))[1] for operation in OPERATIONS)


def of_pairs() -> tuple[int, ...]:
    """Return those of double doubles without NaN, infinities and the sign of zero.

    >>> of_pairs()
    (20, 9, 18)
    """
    operations = []
    for kernel in DOUBLE_DOUBLES:
        Counting.done = 0
        in_python(kernel)(*(Counting(word) for number in numbers(2) for word in number))
        operations.append(Counting.done)
    return tuple(operations)


def rewritten(count: int) -> tuple[int, int]:
    """float64 operations of a multiplication and an addition in the rewritten product.

    All of them, and those with numbers that are not zero by construction.

    >>> rewritten(2)
    (288, 156)
    """
    block = rewrite_left(np.ones((sum(map(len, widths(count))), 1, 1)), way=1)
    return 2 * block.size, 2 * int((block != 0).sum())
