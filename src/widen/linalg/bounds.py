"""Upper bounds computed in float64 to nearest: what turns computed numbers into proofs.

u = 2^-53. Nothing here changes a rounding mode: results are raised by more than their roundings can
have taken away. docs/linalg.md has the proofs that use these.
"""

from __future__ import annotations

from typing import Any

from widen import api
from widen.formats import WORDS
from widen.formats.arrays import library_of
from widen.linalg.arrays import complex_of, is_complex
from widen.words import Words
from widen.words.bounds import relative_error

U = 2.0**-53
TINY = 2.0**-1000
"""More than all terms that vanish below the normal numbers in any sum of at most 2^20 terms."""
LOST = 2.0**-1060
"""More than a number of several words loses where its last words underflow."""
LARGEST = 1 << 20
"""Terms of a sum, so rows of a matrix, for which `above` is proven."""

FORMATS = {1: "float64", **{len(f.words): n for n, f in WORDS.items() if n.startswith("float64x")}}
"""Formats of float64 words, by their number."""
PRECISION = {k: 53 * k + k - 1 for k in FORMATS}
"""Bits of them: a number is held with a relative error of 2^-PRECISION."""
NEXT = dict(zip([*FORMATS][:-1], [*FORMATS][1:], strict=True))
"""The next wider one."""


def above(x: Any, terms: int = 4) -> Any:
    """At least the exact value of what float64 arithmetic found to be x.

    x is made of numbers that are not negative by additions, multiplications and divisions, with at
    most `terms` roundings on the way of each. Proof: a rounding loses a factor of 1 - u at most,
    and (1 - u)^-(m + 15) <= 1 + 2 (m + 8) u - u for 4 <= m, (m + 8) u < 2^-20; what is flushed to
    zero or subnormal is below 2^-1022 a term, so less than TINY for all of 2^20 terms.
    """
    return x * (1 + (terms + 8) * 2 * U) + TINY


def first_words(x: Any) -> Any:
    """The first word of every number: an array of float64, or of complex128."""
    if not isinstance(x, Words):
        return x
    return x.planes[0][0] if x.format.parts == 1 else complex_of(x.planes[0])


def magnitudes(x: Any) -> Any:
    """Upper bounds of |x|: the words behind the first add at most u of it, a modulus few u."""
    first = abs(first_words(x))
    return above(first) if isinstance(x, Words) or is_complex(x) else first


def word_count(x: Any) -> int:
    """Words of each number."""
    return len(x.planes) if isinstance(x, Words) else 1


def as_words(x: Any, count: int) -> Words:
    """Numbers in a format of so many words of float64, which is not narrower than theirs."""
    name = format_name(count, is_complex(x))
    return x.astype(name) if isinstance(x, Words) else Words(x, name)


def format_name(count: int, complex_numbers: bool) -> str:
    """The format of so many words of float64, of real or of complex numbers."""
    name = FORMATS[count]
    return name.replace("float64", "complex128") if complex_numbers else name


def sum_error(count: int) -> float:
    """|z - (x + y)| <= sum_error |x + y| for numbers of so many words, an upper bound."""
    fmt = WORDS[FORMATS[count]]
    return float(relative_error("add", fmt)) * (1 + 2.0**-40) * 2.0 ** -PRECISION[count]


def product(x: Any, y: Any) -> Any:
    """The ordinary product, or another one that keeps |c - xy| <= n u |x||y| + ulp/2."""
    return api.matmul(x, y, accuracy="fast", native=True)


def product_above(x: Any, y: Any) -> Any:
    """Upper bounds of the product of matrices that are not negative."""
    return above(product(x, y), 2 * x.shape[-1])


def row_sums(x: Any) -> Any:
    """Upper bounds of the sums of rows that are not negative."""
    return above(x.sum(-1), x.shape[-1])


def largest(x: Any, axis: int = 0) -> Any:
    """The largest entry of every column (axis 0) or row."""
    return library_of(x).amax(x, axis)
