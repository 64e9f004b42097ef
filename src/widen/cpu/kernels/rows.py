"""Rows of numbers: expansions whose terms are rows of a tile, one column a number.

All loops run along rows, so that the compiler turns them into vector instructions. Proofs are in
docs/words.md; `widen.words.renormalise` says the same in whole arrays.
"""

from __future__ import annotations

from widen.cpu.kernels.cache import device
from widen.cpu.kernels.floats import fast_two_sum, is_finite, two_product, two_sum


@device
def copy_row(a, b):
    """Copy a into b."""
    for t in range(b.shape[0]):
        b[t] = a[t]


@device
def fill_row(a, value):
    """Set every entry of a."""
    for t in range(a.shape[0]):
        a[t] = value


@device
def negate_rows(rows):
    """Change the sign of all entries."""
    for l in range(rows.shape[0]):
        row = rows[l]
        for t in range(row.shape[0]):
            row[t] = -row[t]


@device
def add_rows(a, b):
    """Make a and b the sum RN(a + b) and its error."""
    for t in range(a.shape[0]):
        a[t], b[t] = two_sum(a[t], b[t])


@device
def multiply_rows(x, y, sign, product, error):
    """Product and error of sign x y."""
    for t in range(product.shape[0]):
        p, e = two_product(x[t], y[t])
        product[t], error[t] = sign * p, sign * e


@device
def deposit(sums, term, first, last):
    """Add a row to sums[first], its error to the next row, and so on; what is left is dropped."""
    for l in range(first, last + 1):
        add_rows(sums[l], term)


@device
def deposit_product(sums, x, y, sign, order, last, spare):
    """Add sign x y exactly at sums[order], its error below it, as far as sums[last]."""
    product, error = spare[0], spare[1]
    multiply_rows(x, y, sign, product, error)
    deposit(sums, product, order, last)
    deposit(sums, error, order + 1, last)


@device
def grow(e):
    """Rows of any numbers become a nonadjacent expansion of the same sum, largest first."""
    last = e.shape[0] - 1
    for i in range(last - 1, -1, -1):
        for l in range(last, i, -1):
            add_rows(e[i], e[l])


@device
def round_words(e, count, total, below):
    """Make e[:count] canonical words of the sum of e, a nonadjacent expansion."""
    last = e.shape[0] - 1
    for l in range(min(count, last)):
        copy_row(e[last], total)
        fill_row(below, e.dtype.type(0))
        for i in range(last - 1, l - 1, -1):
            _absorb(e[i], total, e[i + 1], below)
        copy_row(total, e[l])
    high, low = e[count - 2], e[count - 1]
    for t in range(high.shape[0]):  # the last word may have been rounded to a tie
        high[t], low[t] = fast_two_sum(high[t], low[t])


@device
def _absorb(e, total, rest, below):
    """The total is the nearest float of e and all that was added before; the rest is its error.

    Rounding to nearest gives it, but for a tie that what lies below says how to break: `below` is
    the last rest that was not zero.
    """
    for t in range(total.shape[0]):
        s, r = fast_two_sum(e[t], total[t])
        b = below[t]
        across = s + (r + r)
        alike = ((r > 0) & (b > 0)) | ((r < 0) & (b < 0))
        wrong = (across - s == r + r) & alike
        r = -r if wrong else r
        total[t] = across if wrong else s
        rest[t] = r
        below[t] = r if r != 0 else b


@device
def finish(words, plain):
    """NaN and infinity alone in the first word; a zero with the sign of ordinary arithmetic."""
    first, zero = words[0], words.dtype.type(0)
    for t in range(first.shape[0]):
        f, p = first[t], plain[t]
        ordinary = (not is_finite(p)) | (f != f) | ((f == 0) & (p == 0))
        first[t] = p if ordinary else f
    for l in range(1, words.shape[0]):
        word = words[l]
        for t in range(word.shape[0]):
            fine = is_finite(first[t]) & is_finite(word[t])
            word[t] = (word[t] if fine else zero) + zero
