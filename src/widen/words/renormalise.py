"""Any words to canonical ones, exactly: expansions grown term by term, then rounded word by word.

Array by array, in additions whose errors are caught; the kernels of `elementwise` do the same. The
proofs are in docs/words.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from widen.formats.arrays import cast, dtype_name, library_of

Terms = list[Any]


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """(s, e) with s = RN(a + b) and s + e = a + b (Knuth)."""
    s = a + b
    shown = s - a
    return s, (a - (s - shown)) + (b - shown)


def fast_two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The same for |a| >= |b| or a = 0 (Dekker)."""
    s = a + b
    return s, b - (s - a)


def grow(terms: Terms) -> Terms:
    """The exact sum of any terms as a nonadjacent expansion, largest first (Shewchuk, theorem 10).

    As many components as terms; zeros may stand anywhere.
    """
    expansion: Terms = []  # smallest first
    for term in terms:
        grown = []
        for component in expansion:
            term, rest = two_sum(term, component)
            grown.append(rest)
        expansion = [*grown, term]
    return expansion[::-1]


def settle(e: Terms, at: int) -> Any:
    """Make e[at] the nearest float of the sum of e[at:], a nonadjacent expansion.

    From the smallest up, the nearest float of what has been added so far: rounding to nearest gives
    it, but for ties that what was rounded away before would break; then the float on the other side
    of the tie is the nearest. Returned is the first of the later components that is not zero.
    """
    last = len(e) - 1
    library = library_of(e[0])
    where = library.where
    total, below = e[last], library.zeros_like(e[0])
    for i in range(last - 1, at - 1, -1):
        total, rest = fast_two_sum(e[i], total)
        across = total + 2 * rest
        wrong = (across - total == 2 * rest) & alike(rest, below)
        total, rest = where(wrong, across, total), where(wrong, -rest, rest)
        e[i + 1] = rest
        below = where(rest != 0, rest, below)
    e[at] = total
    return below


def alike(a: Any, b: Any) -> Any:
    """Whether both are positive or both negative."""
    return ((a > 0) & (b > 0)) | ((a < 0) & (b < 0))


def round_words(e: Terms, names: tuple[str, ...], before: Sequence[Any] = ()) -> Terms:
    """The nearest word of a nonadjacent expansion's sum, then of the rest, and so on.

    Words `before` them, whose rest the sum is, may have been found already. A later word beyond its
    range becomes the largest there is, which is the nearest.
    """
    words: Terms = [*before]
    e, at = [*e, library_of(e[0]).zeros_like(e[0])], 0
    where = library_of(e[0]).where
    for name in names:
        at = min(at, len(e) - 1)
        below = settle(e, at)
        if name == "float64":
            words.append(e[at])
            at += 1
            if at == len(e):
                e.append(library_of(e[0]).zeros_like(e[0]))
            continue
        near = cast(cast(e[at], name), "float64")
        limits = np.finfo(name)
        inside = near.clip(-float(limits.max), float(limits.max))
        if words:
            near = inside
        else:  # the rest may break a tie with infinity
            tie = abs(e[at]) == 2.0**limits.maxexp * (1 - float(limits.epsneg) / 2)
            near = where(tie & alike(-e[at], below), inside, near)
        off = e[at] - near
        across = near + 2 * off
        tie = cast(cast(across, name), "float64") == across
        near = where(tie & alike(off, below), across, near)
        words.append(cast(near, name))
        e[at] = e[at] - near
    return ties_broken(words)


def ties_broken(words: Terms) -> Terms:
    """Words whose last, or last that is not 0, may have been rounded to half a unit of the next."""
    words, last = [*words], library_of(words[0]).ones_like(words[0]) > 0
    where = library_of(words[0]).where
    for at in range(len(words) - 2, -1, -1):
        high, low = fast_two_sum(words[at], cast(words[at + 1], dtype_name(words[at])))
        low = where(last, cast(low, dtype_name(words[at + 1])), words[at + 1])
        words[at], words[at + 1], last = where(last, high, words[at]), low, last & (low == 0)
    return words


def finish(words: Terms, plain: Any) -> Terms:
    """Words of a result, given what ordinary arithmetic makes of the first ones.

    NaN and infinity stand alone; a zero has the sign that ordinary arithmetic gives it.
    """
    library = library_of(plain)
    where, isfinite = library.where, library.isfinite
    first = words[0]
    same = cast(plain, dtype_name(first))  # which may be infinite where plain is not
    ordinary = ~isfinite(plain) | (first != first) | ((first == 0) & (same == 0))
    first = where(ordinary, same, first)
    fine = isfinite(first)
    rest = ((word, library.zeros_like(word)) for word in words[1:])
    return [
        first,
        *(where(fine & isfinite(word), word, nothing) + nothing for word, nothing in rest),
    ]


def renormalised(terms: Terms, names: tuple[str, ...]) -> Terms:
    """Canonical words, of these dtypes, of the exact sum of any float64 terms."""
    with np.errstate(all="ignore"):
        plain = terms[0]
        for term in terms[1:]:
            plain = plain + term
        plain = library_of(plain).where((plain == 0) & (terms[0] == 0), terms[0], plain)  # -0
        return finish(round_words(grow(terms), names), plain)


def nearest(terms: Terms, name: str) -> Any:
    """The nearest float of this dtype to the exact sum of any float64 terms."""
    return renormalised(terms, (name,))[0]


def shared(words: Terms, names: tuple[str, ...]) -> Terms:
    """Canonical words of these dtypes, the first of which is that of the canonical `words`.

    A word depends on the value and on the words before it alone. So formats that begin with the
    same dtype share their words: missing ones are 0, those too many are left out. Only a float32
    behind a float64 is rounded anew, from all that the first word leaves.
    """
    with np.errstate(all="ignore"):
        if names[-1] != names[0]:
            rest = [cast(word, "float64") for word in words[1:]]
            new = round_words(grow(rest), names[1:], words[:1])
        else:
            new = [cast(word, name) for word, name in zip(words, names, strict=False)]
            new = ties_broken(new) if len(words) > len(names) else new
            nothing = library_of(words[0]).zeros_like(words[0])
            new += [nothing] * (len(names) - len(new))
        return finish(new, words[0])
