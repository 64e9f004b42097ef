"""What NumPy's arrays do by methods, for `Words`: each hands its array to the file that does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from widen.words import conversions, order, reductions, scaled_rounding, shaping
from widen.words.operators import Operators

if TYPE_CHECKING:
    from widen.words.array import Words

# mypy: disable-error-code="misc"
# (self is a Words, which is a subclass of this)


class Methods(Operators):
    """Reductions, parts and roundings of Words."""

    __slots__ = ()

    def max(self: Words, axis: Any = None, keepdims: bool = False) -> Words:
        """The largest numbers along axes, or of all; NaN if one of them is.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> print(x.max())
        0.33333333333333333333333333333333
        """
        return order.extreme(self, axis, keepdims, 1)

    def min(self: Words, axis: Any = None, keepdims: bool = False) -> Words:
        """The smallest numbers along axes, or of all; NaN if one of them is.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> print(x.min())
        -2.0
        """
        return order.extreme(self, axis, keepdims, -1)

    def argmax(self: Words, axis: Any = None, keepdims: bool = False) -> Any:
        """Where the first largest number along an axis stands, or of all; NaN is the largest.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> int(x.argmax())
        1
        """
        return order.place(self, axis, 1, keepdims)

    def argmin(self: Words, axis: Any = None, keepdims: bool = False) -> Any:
        """Where the first smallest number along an axis stands, or of all; or the first NaN.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> int(x.argmin())
        2
        """
        return order.place(self, axis, -1, keepdims)

    def argsort(self: Words, axis: Any = -1) -> Any:
        """The indices that sort numbers along an axis; equal ones stay in order.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.argsort()
        array([2, 0, 1])
        """
        return order.argument_order(self, axis)

    def mean(self: Words, axis: Any = None, keepdims: bool = False) -> Words:
        """Sums along axes, added exactly and rounded once, over the count.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> print(m.mean(), m.mean(axis=0))
        3.5 [2.5, 3.5, 4.5]
        """
        return reductions.mean(self, axis, keepdims)

    def prod(self: Words, axis: Any = None, keepdims: bool = False) -> Words:
        """Products along axes, multiplied in pairs.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> print(m.prod(), m.prod(axis=1))
        720.0 [6.0, 120.0]
        """
        return reductions.product(self, axis, keepdims)

    def trace(self: Words, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Words:
        """Sums of diagonals, added exactly and rounded once.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> print(m.trace())
        6.0
        """
        return reductions.trace(self, offset, axis1, axis2)

    def diagonal(self: Words, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Words:
        """Diagonals, along the last axis; a view.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> print(m.diagonal())
        [1.0, 5.0]
        """
        return shaping.diagonal(self, offset, axis1, axis2)

    def ravel(self: Words) -> Words:
        """All numbers in one line, row by row; a view where the planes' reshape is one.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.ravel().shape
        (6,)
        """
        return shaping.ravelled(self)

    def flatten(self: Words) -> Words:
        """All numbers in one line, row by row; a copy.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.flatten().shape
        (6,)
        """
        return shaping.ravelled(self).copy()

    def squeeze(self: Words, axis: Any = None) -> Words:
        """Without axes of one entry, all of them or those given; a view.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m[:1].squeeze().shape
        (3,)
        """
        return shaping.squeeze(self, axis)

    def round(self: Words, decimals: int = 0) -> Words:
        """Numbers rounded to so many decimal places, ties to even, then to the format once.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> print(x.round(3))
        [0.1, 0.333, -2.0]
        """
        return scaled_rounding.to_places(self, decimals)

    def tolist(self: Words) -> Any:
        """Nested lists of the numbers: fractions, and floats for NaN, infinities and -0.

        ``Words(x.tolist(), x.format)`` has the same words.

        >>> import widen
        >>> widen.Words(["0.5", "-2"], "float64x2").tolist()
        [Fraction(1, 2), Fraction(-2, 1)]
        """
        return conversions.to_list(self)

    def round_to(self: Words, dtype: Any, exponent: Any = 0) -> Any:
        """The numbers x 2^exponent in another format, each rounded once, to nearest even.

        Subnormal numbers are rounded once, too; what is too large is infinite. There is no step
        on the way that could round, as there is in ``np.ldexp(x, exponent).to_numpy()``.

        Parameters
        ----------
        dtype
            Any format: float64, float32, float16, bfloat16, the complex ones, or one of several
            words.
        exponent
            An integer, or an array of integers that broadcasts against x.

        Returns
        -------
        ndarray or tensor, or Words

        Examples
        --------
        >>> import widen
        >>> x = widen.Words("2.5", "float64x2") + 2.0**-60
        >>> x.round_to("float64", -1074) / 5e-324        # a little more than 2.5 units
        np.float64(3.0)
        >>> float(x * 2.0**-1074) / 5e-324               # rounded twice
        2.0
        """
        return scaled_rounding.round_to(self, dtype, exponent)
