"""Paper 001's slides, step by step, in Python floats and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from widen.papers.multiple_double.parts import widths


def split_number(x, bits):
    """Cut the 53-bit fraction of a double in integers of so many bits; the rest in the last."""
    fraction, exponent = math.frexp(abs(x))
    rest, parts = int(fraction * 2**53), []
    left = 53
    for count in bits[:-1]:
        left -= count
        parts.append(math.ldexp(rest >> left, exponent - 53 + left))
        rest &= (1 << left) - 1
    parts.append(math.ldexp(rest, exponent - 53))
    return [math.copysign(part, x) if part else 0.0 for part in parts]


def equalise_number(words):
    """b := 2^-52; x_h := x_h - b; x_l := x_l + b, where x_h and x_l differ in sign."""
    kept = [float(word) for word in words]
    for at in range(len(kept) - 1):
        if not min(kept[at], kept[at + 1]) < 0 < max(kept[at], kept[at + 1]):
            continue
        b = math.copysign(math.ldexp(1.0, math.frexp(kept[at])[1] - 52), kept[at])
        kept[at] -= b
        for below in range(at + 1, len(kept)):
            exact = Fraction(kept[below]) + Fraction(b)
            kept[below] = float(exact)
            b = float(exact - Fraction(kept[below]))
    return kept


def balance_number(parts, bits):
    """b := 2^-14; x_0 := x_0 - b; x_1 := x_1 + b, where x_1's exponent is not the expected one."""
    kept = list(parts)
    top, place = math.frexp(kept[0])[1], 0
    for at in range(len(kept) - 1):
        place += bits[at]
        if kept[at] and kept[at + 1] and top - math.frexp(kept[at + 1])[1] > place:
            b = math.copysign(math.ldexp(1.0, top - place - 1), kept[at])
            kept[at] -= b
            kept[at + 1] += b
    return kept


def parts_of_number(words, equalise, balance):
    words = equalise_number(words) if equalise else list(words)
    found = []
    for word, bits in zip(words, widths(len(words)), strict=True):
        parts = split_number(word, bits)
        found += balance_number(parts, bits) if balance else parts
    return found


def sum_number(parts, words):
    """Add doubles to a multiple double one by one; for two words the QD library's dd + d."""
    kept = [0.0] * words
    for rest in parts:
        for at in range(words):
            exact = Fraction(kept[at]) + Fraction(rest)
            kept[at] = float(exact)
            rest = float(exact - Fraction(kept[at]))
        total = kept[-1]
        for at in range(words - 2, -1, -1):
            exact = Fraction(kept[at]) + Fraction(total)
            total, kept[at + 1] = float(exact), float(exact - Fraction(float(exact)))
        kept[0] = total
    return kept


def product_of(a, b, equalise, balance):
    """The first way for matrices whose part sums are exact: 12 x 12 blocks times 12 x 1 blocks."""
    words, m, k = a.shape
    n, parts = b.shape[2], sum(map(len, widths(words)))
    left = [[parts_of_number(a[:, i, h], equalise, balance) for h in range(k)] for i in range(m)]
    right = [[parts_of_number(b[:, h, j], equalise, balance) for j in range(n)] for h in range(k)]
    found = np.empty((words, m, n))
    for i in range(m):
        for j in range(n):
            exact = [Fraction(0)] * parts
            for h in range(k):
                for s in range(parts):
                    for q in range(s + 1):
                        exact[s] += Fraction(left[i][h][s - q]) * Fraction(right[h][j][q])
            rounded = [float(x) for x in exact]
            assert [Fraction(x) for x in rounded] == exact
            found[:, i, j] = sum_number(rounded, words)
    return found
