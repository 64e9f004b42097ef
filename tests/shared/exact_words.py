"""Products of numbers of several words by python-flint and MPFR, and what contracts allow."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import flint
import gmpy2
import numpy as np

import widen
from helpers import word_arrays
from widen import definition
from widen.contract import CONTRACTS
from widen.systems import residues


def enough(rows, columns):
    """Residues that hold the product of quantised lines."""
    most = [
        max(1, *(part.bit_length() for line in side for number in line.integers for part in number))
        for side in (rows, columns)
    ]
    k, parts = len(rows[0].integers), len(rows[0].integers[0])
    return residues(2**20, float(sum(most) + (k * parts).bit_length()), parts)


def exact_values(a, b):
    """The exact product, [i][j] a tuple of parts, by python-flint."""
    left, right = (fractions_of(x) for x in (a, b))
    rows, inner, columns = len(left), len(right), len(right[0])
    parts = [
        [flint.fmpq_mat(len(x), len(x[0]), [_fmpq(number[p]) for row in x for number in row])
         for p in range(len(x[0][0]))]
        for x in (left, right)
    ]  # fmt: skip
    assert inner == len(left[0])
    if len(parts[0]) == 1 == len(parts[1]):
        found = [parts[0][0] * parts[1][0]]
    else:
        (x, y), (z, w) = (side if len(side) == 2 else [side[0], 0 * side[0]] for side in parts)
        found = [x * z - y * w, x * w + y * z]
    return [
        [tuple(Fraction(int(part[i, j].p), int(part[i, j].q)) for part in found)
         for j in range(columns)]
        for i in range(rows)
    ]  # fmt: skip


def fractions_of(x):
    """The rows of `Words`, or of an array, as lists of exact numbers."""
    arrays = word_arrays(x) if isinstance(x, widen.Words) else (x,)
    return [definition.numbers(*row) for row in zip(*arrays, strict=True)]


def _fmpq(x):
    return flint.fmpq(x.numerator, x.denominator)


def by_mpfr(value, fmt):
    """Rounded word by word by MPFR; then the words of their sum, which are another's at ties."""
    words = nearest_words(value, fmt)
    if len(words) == 1 or math.isinf(words[0]):
        return words
    return nearest_words(sum(map(Fraction, words)), fmt)


def nearest_words(value, fmt):
    """The nearest value of the first word, of the rest, and so on, by MPFR."""
    words = []
    for word in fmt.words:
        with gmpy2.context(
            precision=word.precision, emax=word.highest, emin=word.lowest + 1, subnormalize=True,
            round=gmpy2.RoundToNearest,
        ):  # fmt: skip
            near = float(gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator)))
        if math.isinf(near) and words:
            near = math.copysign(np.finfo(word.name).max, near)
        words.append(near if near or len(fmt.words) == 1 else 0.0)
        if math.isinf(near):
            return words + [0.0] * (len(fmt.words) - 1)
        value -= Fraction(near)
    return words


def rounded(values, fmt, rounding=by_mpfr):
    """Arrays of words of exact values."""
    words = np.array([[[rounding(part, fmt.part) for part in x] for x in row] for row in values])
    by_word = np.moveaxis(words, -1, 0)
    if fmt.parts == 2 and words.shape[2] == 1:
        by_word = np.concatenate([by_word, np.zeros_like(by_word)], axis=-1)
    if fmt.parts == 1:
        return tuple(x[..., 0] for x in by_word)
    return tuple(x.copy().view(complex)[..., 0] for x in by_word)


def assert_words_kept(a, b, accuracy):
    """A product of `Words` keeps its contract and its bounds, compared exactly; gives it."""
    found, info = widen.matmul(a, b, accuracy=accuracy, info=True)
    fmt, (m, k), n = found.format, a.shape, b.shape[1]
    exact, values = exact_values(a, b), parts_of(found)
    left, right = fractions_of(a), list(zip(*fractions_of(b), strict=True))
    for i, j in itertools.product(range(m), range(n)):
        parts = values[i][j]
        if not all(math.isfinite(part) for part in parts[0]):
            assert info.bound[i, j] == math.inf
            continue
        pairs = zip(zip(*parts, strict=True), exact[i][j], strict=True)
        error = sum((sum(map(Fraction, w)) - x) ** 2 for w, x in pairs)
        if accuracy in CONTRACTS or np.isfinite(info.bound[i, j]):
            assert error <= Fraction(float(info.bound[i, j])) ** 2
        half = [_half_ulp(x, fmt.part) for x in exact[i][j]]
        half = _root(sum(x * x for x in half))
        assert _root(error) <= _allowed(accuracy, fmt, k, left[i], right[j]) + half
    return found


def _half_ulp(x, fmt):
    """What rounding may lose; a float32 after a large float64 is out of its range."""
    beyond = abs(x) >= Fraction(2) ** (fmt.words[-1].highest + 53) and len(set(fmt.words)) > 1
    bits = 53 if beyond else fmt.precision
    return max(abs(x) * Fraction(1001, 1000) / 2**bits, Fraction(2) ** (fmt.lowest - 1))


def parts_of(x):
    """[i][j] -> words, each a tuple of parts."""
    planes = [np.moveaxis(np.asarray(p).astype(float), 0, -1) for p in x.planes]
    return [
        [[tuple(p[i, j]) for p in planes] for j in range(x.shape[1])] for i in range(x.shape[0])
    ]


def _root(x):
    """A square root, rounded up, to 2^-400 of it."""
    if not x:
        return Fraction(0)
    shift = 800 + 2 * (abs(x.denominator.bit_length() - x.numerator.bit_length()))
    return Fraction(math.isqrt((x.numerator << shift) // x.denominator) + 1, 1 << shift // 2)


def _allowed(accuracy, fmt, k, row, column):
    """How far an element may be off, before it is rounded."""
    size = [[_root(sum(part * part for part in x)) for x in line] for line in (row, column)]
    product = sum((x * y for x, y in zip(*size, strict=True)), Fraction(0))
    if accuracy == "fast":
        return k * product / 2**fmt.precision
    if accuracy == "standard":
        return 2 * _root(Fraction(k)) * product / 2**fmt.precision
    if accuracy == "correct":
        return Fraction(0)
    norms = [_root(sum(x * x for x in line)) for line in size]
    return norms[0] * norms[1] / 2**accuracy
