"""`Words`: an array of numbers of several words, in planes, on NumPy or PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from widen.backends.planes import (
    Wide,
    cast,
    dtype_name,
    is_tensor,
    is_uniform,
    library_of,
    new_planes,
    place_of,
    words_of,
)
from widen.formats import FORMATS, complex_of
from widen.words import renormalise

WIDE = {name: fmt for name, fmt in FORMATS.items() if len(fmt.part.words) > 1}


def wide_format(dtype: Any) -> Wide:
    """The format of several words that a caller names.

    >>> wide_format("float64x2").precision
    107
    """
    name = getattr(dtype, "name", dtype)
    if isinstance(name, str) and name in WIDE:
        fmt: Any = WIDE[name]
        return fmt  # type: ignore[no-any-return]
    if isinstance(dtype, type):
        name = np.dtype(dtype).name
    raise TypeError(
        f"dtype={name} is not a format of several words; give one of {', '.join(WIDE)} "
        f"(widen.float64x2 or 'float64x2')"
    )


class Words:
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

    Examples
    --------
    >>> import widen
    >>> x = widen.Words(["0.1", "1e-40"], dtype=widen.float64x2)
    >>> x.shape, x.format.name
    ((2,), 'float64x2')
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
            made = _from_values(values, wide_format(dtype))
        self.format, self.planes = made.format, made.planes

    @classmethod
    def of(cls, fmt: Wide, planes: Sequence[Any]) -> Words:
        """Wrap planes (parts, *shape) that are canonical already, without copying."""
        made = object.__new__(cls)
        made.format, made.planes = fmt, tuple(planes)
        return made

    @classmethod
    def from_words(cls, words: Any, dtype: Any) -> Words:
        """Numbers from their words, any number of them, renormalised exactly.

        `words` is an array or tensor (count, *shape), or a sequence of count arrays, whose sum
        along the first axis is the number: the words need not be in order, and may overlap.

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
        return cls.of(fmt, _canonical(fmt, [_parts(word, fmt) for word in words]))

    # ── what it is ───────────────────────────────────────────────────────────

    @property
    def dtype(self) -> Wide:
        """The format, under the name arrays have for it."""
        return self.format

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self.planes[0].shape[1:])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(
            math.prod(plane.shape) * int(name[-2:]) // 8
            for plane, name in zip(self.planes, words_of(self.format), strict=True)
        )

    @property
    def device(self) -> Any:
        """Where the planes are: "cpu" for NumPy arrays, else the tensors' device."""
        return place_of(self.planes[0]) or "cpu"

    @property
    def words(self) -> Any:
        """The words (count, *shape), complex ones of complex numbers.

        In a format of one dtype real words are a view of the planes.
        """
        planes = [cast(plane, words_of(self.format)[0]) for plane in self.planes]
        library = library_of(planes[0])
        if self.format.parts == 2:
            if library is np:
                joined = np.stack([plane[0] + 1j * 0 for plane in planes])
                joined.real, joined.imag = [np.stack([p[part] for p in planes]) for part in (0, 1)]
                return joined
            return library.stack([library.complex(plane[0], plane[1]) for plane in planes])
        base = planes[0]._base if is_tensor(planes[0]) else planes[0].base
        if base is not None and tuple(base.shape) == (len(planes), 1, *self.shape):
            if is_uniform(self.format):
                return base[:, 0]
        return library.stack([plane[0] for plane in planes])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a single number of several words has no length")
        return self.shape[0]

    def copy(self) -> Words:
        """The same numbers in memory of their own."""
        planes = new_planes(self.format, tuple(self.planes[0].shape), place_of(self.planes[0]))
        for target, plane in zip(planes, self.planes, strict=True):
            target[...] = plane
        return Words.of(self.format, planes)

    def astype(self, dtype: Any) -> Words:
        """The same numbers in another format of several words, rounded once; always a copy.

        Real numbers become complex ones, not the other way round: take ``.real``.
        """
        fmt = wide_format(dtype)
        if fmt.parts < self.format.parts:
            raise TypeError(
                f"{self.format.name} to {fmt.name} would drop imaginary parts: use .real, .imag"
            )
        planes = list(self.planes)
        if fmt.parts > self.format.parts:
            planes = [
                library_of(plane).stack([plane[0], library_of(plane).zeros_like(plane[0])])
                for plane in planes
            ]
        return Words.of(fmt, _canonical(fmt, planes))

    def __iter__(self) -> Iterator[Words]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Words:
        key = key if isinstance(key, tuple) else (key,)
        return Words.of(self.format, [plane[(slice(None), *key)] for plane in self.planes])


def _parts(word: Any, fmt: Wide) -> Any:
    """One word array as a plane (parts, *shape)."""
    name = dtype_name(word)
    if name.startswith("complex"):
        if fmt.parts == 1:
            raise TypeError(
                f"complex words were given for {fmt.name}; use dtype={complex_of(fmt.part).name}"
            )
        return library_of(word).stack([word.real, word.imag])
    if fmt.parts == 1:
        return word[None]
    return library_of(word).stack([word, library_of(word).zeros_like(word)])


def _canonical(fmt: Wide, terms: list[Any]) -> tuple[Any, ...]:
    """Planes of a format for the exact sums of planes of floats."""
    words = renormalise.renormalised([cast(term, "float64") for term in terms], words_of(fmt))
    planes = new_planes(fmt, tuple(words[0].shape), place_of(words[0]))
    for target, word in zip(planes, words, strict=True):
        target[...] = word
    return planes


def _from_values(values: Any, fmt: Wide) -> Words:
    if isinstance(values, np.ndarray) or is_tensor(values):
        return Words.of(fmt, _canonical(fmt, [_parts(values, fmt)]))
    raise TypeError(f"Words cannot be made of a {type(values).__name__}")
