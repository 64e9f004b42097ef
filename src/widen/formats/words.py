"""Formats of several words: a number is an unevaluated sum of floats, largest first.

The words of a number do not overlap: each is the nearest float (ties to even) of the value less the
words before it, so that equal values have equal words.
"""

from __future__ import annotations

from dataclasses import dataclass

from widen.formats.binary import BINARY, Binary


@dataclass(frozen=True)
class Multiple:
    """Numbers of several words, each of a binary format, largest first.

    Attributes
    ----------
    name
        What users write as ``dtype=``.
    words
        The format of each word.
    """

    name: str
    words: tuple[Binary, ...]

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            raise ValueError(f"{self.name}: a number of one word is a Binary")

    def __repr__(self) -> str:
        return f"widen.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def precision(self) -> int:
        """Bits that are always held: u = 2^-precision.

        What is left after a word of p bits is at most half a unit in its last place, and has a
        sign: every word but the first adds a bit to its own.
        """
        return sum(word.precision for word in self.words) + len(self.words) - 1

    @property
    def lowest(self) -> int:
        """Exponent of the last word's smallest number: half of it may be lost in any rounding."""
        return self.words[-1].lowest

    @property
    def highest(self) -> int:
        """Every finite value is below 2^highest, or it would be infinite in its first word."""
        return self.words[0].highest

    @property
    def result(self) -> bool:
        """A product can be asked for in this format."""
        return True

    @property
    def parts(self) -> int:
        """One real part."""
        return 1

    @property
    def part(self) -> Multiple:
        """The format of each part: itself."""
        return self


def _of(word: str, count: int) -> Multiple:
    return Multiple(f"{word}x{count}", (BINARY[word],) * count)


float64x2, float64x3, float64x4 = _of("float64", 2), _of("float64", 3), _of("float64", 4)
float64x8, float64x16 = _of("float64", 8), _of("float64", 16)
float32x2, float32x3, float32x4 = _of("float32", 2), _of("float32", 3), _of("float32", 4)
float64_float32 = Multiple("float64_float32", (BINARY["float64"], BINARY["float32"]))

WORDS = {
    fmt.name: fmt
    for fmt in (
        float64x2, float64x3, float64x4, float64x8, float64x16,
        float32x2, float32x3, float32x4, float64_float32,
    )
}  # fmt: skip
