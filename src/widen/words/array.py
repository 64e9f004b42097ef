"""`Words`: an array of numbers of several words, in planes, on NumPy or PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from widen.formats.arrays import Wide, cast, is_tensor, library_of, new_planes, place_of, words_of
from widen.words import (
    arithmetic,
    construction,
    foreign,
    functions,
    indexing,
    shaping,
    text,
)
from widen.words.exports import Exports
from widen.words.promotion import wide_format, with_parts


class Words(Exports):
    """An array of numbers of several words: unevaluated sums of floats, largest first.

    Every word is the nearest float of the value less the words before it, so that equal values have
    equal words; NaN and infinity stand in the first word.

    Parameters
    ----------
    values
        An array or tensor of floats (or integers), `Words`, a number, or nested lists of numbers:
        int, float, complex, str, Fraction, Decimal, and those of mpmath, gmpy2 and python-flint,
        their matrices as well. What the format holds is taken exactly, the rest rounded once.
    dtype
        The format, such as ``widen.float64x2`` or ``"float64x2"``.

    Attributes
    ----------
    format
        The format: a record of `widen.formats`.
    planes
        One array or tensor (parts, *shape) for each word.

    Examples
    --------
    >>> import widen
    >>> x = widen.Words(["0.1", "1/3"], dtype=widen.float64x2)
    >>> print(x + 1)
    [1.1, 1.3333333333333333333333333333333]
    >>> x.shape, x.format.precision
    ((2,), 107)
    """

    __slots__ = ("format", "planes")
    __array_priority__ = 1000
    format: Wide
    planes: tuple[Any, ...]

    def __init__(self, values: Any, dtype: Any = None) -> None:
        if isinstance(values, Words):
            made = values.copy() if dtype is None else values.astype(dtype)
        elif dtype is None:
            raise TypeError(
                "Words needs a dtype, such as widen.float64x2: "
                f"Words({type(values).__name__}, dtype=widen.float64x2)"
            )
        else:
            fmt = wide_format(dtype)
            made = Words.of(fmt, construction.planes_of(values, fmt))
        self.format, self.planes = made.format, made.planes

    @classmethod
    def of(cls, fmt: Wide, planes: Sequence[Any]) -> Words:
        """Wrap planes (parts, *shape) that are canonical already, without copying.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> print(widen.Words.of(widen.float64x2, m.planes)[0])
        [1.0, 2.0, 3.0]
        """
        made = object.__new__(cls)
        made.format, made.planes = fmt, tuple(planes)
        return made

    @classmethod
    def from_planes(cls, fmt: Wide, planes: Sequence[Any]) -> Words:
        """Numbers from planes (parts, *shape) of any words, renormalised exactly.

        >>> import numpy as np, widen
        >>> small, large = np.array([[1e-20]]), np.array([[1.0]])    # in any order
        >>> print(widen.Words.from_planes(widen.float64x2, [small, large]))
        [1.00000000000000000001]
        """
        return cls.of(fmt, construction.canonical(fmt, planes))

    @classmethod
    def from_words(cls, words: Any, dtype: Any) -> Words:
        """Numbers from their words, any number of them, renormalised exactly.

        `words` is an array or tensor (count, *shape), or a sequence of count arrays, whose sum
        along the first axis is the number: the words need not be in order, and may overlap. Added
        one after the other they must not overflow.

        >>> import numpy as np, widen
        >>> x = widen.Words.from_words(np.array([2.0**-60, 1.0, 2.0**-120]), "float64x2")
        >>> x.words.tolist()
        [1.0, 8.673617379884035e-19]
        """
        fmt = wide_format(dtype)
        if not (isinstance(words, np.ndarray) or is_tensor(words)):
            words = [word if is_tensor(word) else np.asarray(word) for word in words]
        if len(words) == 0:
            raise ValueError("no words were given; give an array (count, *shape) of them")
        terms = [term for word in words for term in construction.float_terms(word)]
        return cls.from_planes(fmt, [construction.parts_of(term, fmt) for term in terms])

    @classmethod
    def eye(
        cls, n: int, m: int | None = None, k: int = 0, *, dtype: Any, device: Any = None
    ) -> Words:
        """Ones on the k-th diagonal of an n by m matrix, zeros elsewhere, as `np.eye`.

        In NumPy arrays, or with `device` in tensors there.

        >>> import widen
        >>> print(widen.Words.eye(2, dtype=widen.float64x2))
        [[1.0, 0.0],
         [0.0, 1.0]]
        """
        fmt = wide_format(dtype)
        place = None if device is None else foreign.package("torch", "widen[torch]").device(device)
        return cls.of(fmt, shaping.eye_planes(fmt, (n, n if m is None else m), k, place))

    # ── what it is ───────────────────────────────────────────────────────────

    @property
    def dtype(self) -> Wide:
        """The format, under the name arrays have for it.

        >>> import widen
        >>> widen.Words(["0.1"], "float64x2").dtype
        widen.float64x2
        """
        return self.format

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.shape
        (2, 3)
        """
        return tuple(self.planes[0].shape[1:])

    @property
    def ndim(self) -> int:
        """Number of axes.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.ndim
        2
        """
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.size
        6
        """
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all planes.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.nbytes
        48
        """
        return sum(
            math.prod(plane.shape) * int(name[-2:]) // 8
            for plane, name in zip(self.planes, words_of(self.format), strict=True)
        )

    @property
    def device(self) -> Any:
        """Where the planes are, "cpu" for NumPy arrays and else the tensors' device.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.device
        'cpu'
        """
        return place_of(self.planes[0]) or "cpu"

    @property
    def words(self) -> Any:
        """The words (count, *shape), complex ones of complex numbers, as a copy.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> x.words.shape
        (2, 3)
        """
        planes = [cast(plane, words_of(self.format)[0]) for plane in self.planes]
        library = library_of(planes[0])
        if self.format.parts == 1:
            return library.stack([plane[0] for plane in planes])
        if library is not np:
            return library.stack([library.complex(plane[0], plane[1]) for plane in planes])
        name = "complex128" if planes[0].itemsize == 8 else "complex64"
        joined = np.empty((len(planes), *self.shape), name)
        joined.real, joined.imag = (np.stack([plane[p] for plane in planes]) for p in (0, 1))
        return joined

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single number of several words has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Words]:
        return (self[at] for at in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        found = self == value
        return found if isinstance(found, bool) else bool(found.any())

    def __repr__(self) -> str:
        return text.representation(self)

    def __str__(self) -> str:
        return text.array_text(self)

    def __format__(self, spec: str) -> str:
        return text.array_text(self, spec)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("the truth of an array of several numbers is not defined: use == 0")
        return bool((self.planes[0] != 0).any())

    # ── parts of it, and its shape ───────────────────────────────────────────

    def _each(self, function: Any) -> Words:
        return Words.of(self.format, [function(plane) for plane in self.planes])

    def __getitem__(self, key: Any) -> Words:
        try:
            taken = self._each(lambda plane: indexing.taken(plane, key))
        except IndexError:
            raise IndexError(f"index {key} does not fit an array of shape {self.shape}") from None
        # One number is a copy, as NumPy's (x[i], x[j] = x[j], x[i] swaps), but for tensors.
        single = taken.ndim == 0 and not indexing.is_open(key) and not is_tensor(self.planes[0])
        return taken.copy() if single else taken

    def __setitem__(self, key: Any, value: Any) -> None:
        numbers = arithmetic.operand(self, value)
        if numbers is None:
            numbers = Words(value, self.format)
            numbers = numbers.to_torch(self.device) if is_tensor(self.planes[0]) else numbers
        if numbers.format.parts > self.format.parts:
            raise TypeError(f"complex numbers do not fit into {self.format.name}")
        if numbers.format != self.format:
            numbers = numbers.astype(self.format)
        indexing.assign(self, key, numbers)

    def reshape(self, *shape: Any) -> Words:
        """The same numbers in another shape; a view where the planes' reshape is one.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.reshape(3, 2).shape, m.reshape(-1).shape
        ((3, 2), (6,))
        """
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        try:
            return self._each(lambda plane: plane.reshape((self.format.parts, *sizes)))
        except (ValueError, RuntimeError):
            raise ValueError(
                f"{self.size} numbers of shape {self.shape} do not fit {sizes}"
            ) from None

    def transpose(self, *axes: Any) -> Words:
        """The axes in another order, reversed by default; a view.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.transpose(1, 0).shape, m.transpose().shape
        ((3, 2), (3, 2))
        """
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        order = order or tuple(range(self.ndim))[::-1]
        moved = (0, *(1 + axis + self.ndim * (axis < 0) for axis in order))
        if sorted(moved) != list(range(self.ndim + 1)):
            raise ValueError(
                f"axes {tuple(order)} are not the {self.ndim} axes of shape {self.shape}"
            )
        return self._each(
            lambda plane: plane.permute(moved) if is_tensor(plane) else plane.transpose(moved)
        )

    @property
    def T(self) -> Words:
        """The axes reversed; a view.

        >>> import widen
        >>> m = widen.Words([[1, 2, 3], [4, 5, 6]], dtype="float64x2")
        >>> m.T.shape
        (3, 2)
        """
        return self.transpose()

    @property
    def real(self) -> Words:
        """Real parts; a view.

        >>> import widen
        >>> z = widen.Words(["1+2j"], dtype="complex128x2")
        >>> print(z.real)
        [1.0]
        """
        planes = [plane[:1] for plane in self.planes]
        return Words.of(with_parts(self.format, 1), planes)

    @property
    def imag(self) -> Words:
        """Imaginary parts, a view of them if there are any.

        >>> import widen
        >>> z = widen.Words(["1+2j"], dtype="complex128x2")
        >>> print(z.imag)
        [2.0]
        """
        if self.format.parts == 1:
            return self.zeros_like()
        return Words.of(with_parts(self.format, 1), [plane[1:] for plane in self.planes])

    def zeros_like(self) -> Words:
        """Zeros of the same format, shape and place.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> print(x.zeros_like())
        [0.0, 0.0, 0.0]
        """
        return self._each(lambda plane: library_of(plane).zeros_like(plane))

    def copy(self) -> Words:
        """The same numbers in memory of their own.

        >>> import widen
        >>> x = widen.Words(["0.1", "1/3", "-2"], dtype="float64x2")
        >>> y = x.copy()
        >>> y[0] = 7
        >>> print(x[0])
        0.1
        """
        planes = new_planes(self.format, tuple(self.planes[0].shape), place_of(self.planes[0]))
        for target, plane in zip(planes, self.planes, strict=True):
            target[...] = plane
        return Words.of(self.format, planes)

    __copy__ = copy

    # ── NumPy and PyTorch ────────────────────────────────────────────────────

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"an array of {self.format.name} is no NumPy array of floats, and would lose bits: "
            "use x.to_numpy() for the nearest floats, x.words for all words"
        )

    __array_ufunc__ = functions.array_ufunc
    __array_function__ = functions.array_function
    __torch_function__ = classmethod(functions.torch_function)
