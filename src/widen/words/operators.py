"""Python's operators for `Words`: each hands its operands to `arithmetic`, `products` or `sums`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from widen.words import arithmetic, products, sums

if TYPE_CHECKING:
    from widen.words.array import Words


def _binary(operation: str, swapped: bool = False) -> Any:
    def apply(self: Words, other: Any) -> Any:
        words = arithmetic.operand(self, other)
        if words is None:
            return NotImplemented
        pair = (words, self) if swapped else (self, words)
        return arithmetic.binary(operation, *pair)

    return apply


def _in_place(operation: str) -> Any:
    def apply(self: Words, other: Any) -> Any:
        words = arithmetic.operand(self, other)
        if words is None:
            return NotImplemented
        # The result is whole before any of it is stored: other may share memory with self.
        result = arithmetic.binary(operation, self, words)
        if result.shape != self.shape:
            raise ValueError(
                f"a result of shape {result.shape} does not fit in place of shape {self.shape}"
            )
        self[...] = result
        return self

    return apply


def _compare(operation: str) -> Any:
    def apply(self: Words, other: Any) -> Any:
        words = arithmetic.operand(self, other)
        return NotImplemented if words is None else arithmetic.compare(operation, self, words)

    return apply


class Operators:
    """What Words can do between operands."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    __add__, __radd__, __iadd__ = _binary("add"), _binary("add", True), _in_place("add")
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", True)
    __isub__ = _in_place("subtract")
    __mul__, __rmul__ = _binary("multiply"), _binary("multiply", True)
    __imul__ = _in_place("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", True)
    __itruediv__ = _in_place("divide")
    __eq__, __ne__ = _compare("equal"), _compare("not_equal")
    __lt__, __le__ = _compare("less"), _compare("less_equal")
    __gt__, __ge__ = _compare("greater"), _compare("greater_equal")

    def __matmul__(self: Words, other: Any) -> Any:  # type: ignore[misc]
        return products.matmul(self, other)

    def __rmatmul__(self: Words, other: Any) -> Any:  # type: ignore[misc]
        return products.matmul(other, self)

    def __neg__(self: Words) -> Words:  # type: ignore[misc]
        return arithmetic.negative(self)

    def __pos__(self: Words) -> Words:  # type: ignore[misc]
        return self.copy()

    def __abs__(self: Words) -> Words:  # type: ignore[misc]
        return arithmetic.absolute(self)

    def __pow__(self: Words, exponent: Any) -> Words:  # type: ignore[misc]
        return arithmetic.power(self, exponent)

    def __ipow__(self: Words, exponent: Any) -> Words:  # type: ignore[misc]
        self[...] = arithmetic.power(self, exponent)
        return self

    def sqrt(self: Words) -> Words:  # type: ignore[misc]
        """Square roots.

        >>> import widen
        >>> print(widen.Words([2], dtype="float64x2").sqrt())
        [1.4142135623730950488016887242097]
        """
        return arithmetic.root(self)

    def conj(self: Words) -> Words:  # type: ignore[misc]
        """Complex conjugates.

        >>> import widen
        >>> z = widen.Words(["1+2j"], dtype="complex128x2")
        >>> print(z.conj())
        [1.0-2.0j]
        """
        return arithmetic.conjugate(self)

    def sum(self: Words, axis: Any = None, keepdims: bool = False) -> Words:  # type: ignore[misc]
        """Sums along axes (all of them by default), added exactly and rounded once.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> print(m.sum(), m.sum(axis=0))
        21.0 [5.0, 7.0, 9.0]
        """
        return sums.total(self, axis, keepdims)

    def dot(self: Words, other: Any) -> Words:  # type: ignore[misc]
        """The dot product of two vectors, added exactly and rounded once.

        >>> import numpy as np, widen
        >>> x = widen.Words(["1e30", "1", "-1e30"], dtype="float64x2")
        >>> print(x.dot(np.ones(3)))
        1.0
        """
        words = arithmetic.operand(self, other)
        if words is None:
            raise TypeError(f"dot takes words or arrays; {type(other).__name__} was given")
        return sums.dot(self, words)

    def norm(self: Words, axis: Any = None, keepdims: bool = False) -> Words:  # type: ignore[misc]
        """2-norms along axes: the exact sum of squares, rounded once, and its square root.

        >>> import widen
        >>> print(widen.Words([3, 4], dtype="float64x2").norm())
        5.0
        """
        return sums.norm(self, axis, keepdims)
