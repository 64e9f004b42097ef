"""Blocked products of numbers of several words, by their own additions and multiplications.

A job is a tile of the product, for which tiles of both operands are copied together as the inner
dimension goes by. Every element is c = c + a b in the order of the inner dimension, so that tiles
change no bit. Loops run along rows, so that the compiler turns them into vector instructions.
"""

from __future__ import annotations

import numpy as np

from widen.cpu.kernels.cache import compiled, device
from widen.cpu.kernels.floats import fast_two_sum, fma
from widen.cpu.kernels.loops import copy
from widen.cpu.kernels.word_pairs import added, multiplied
from widen.papers.triple_single.kernels.cpu.triples import (
    fused_product,
    fused_sum,
    triple_product,
    triple_sum,
)

ONE, MIXED, PAIR, TRIPLE, FUSED = 0, 1, 2, 3, 4
ROWS, DEPTH, COLUMNS = 32, 32, 128  # paper 003 has 32 x 32 on a GPU; rows are vectors here


@device
def _copy(source, top, start, rows, columns, tile):
    """Copy a tile of (words, rows, columns)."""
    for l in range(source.shape[0]):
        for i in range(rows):
            copy(source[l, top + i, start : start + columns], tile[l, i, :columns])


@device
def _add_ones(c0, a0, b0):
    for j in range(c0.shape[0]):
        c0[j] = fma(a0, b0[j], c0[j])


@device
def _add_pairs(c0, c1, a0, a1, b0, b1):
    for j in range(c0.shape[0]):
        p0, p1 = multiplied(a0, a1, b0[j], b1[j])
        c0[j], c1[j] = added(c0[j], c1[j], p0, p1)


@device
def _narrowed(high, low):
    """A double double as a double and a float32."""
    return fast_two_sum(high, np.float64(np.float32(low)))


@device
def _add_mixed(c0, c1, a0, a1, b0, b1):
    for j in range(c0.shape[0]):
        p0, p1 = multiplied(a0, a1, b0[j], b1[j])
        p0, p1 = _narrowed(p0, p1)
        s0, s1 = added(c0[j], c1[j], p0, p1)
        c0[j], c1[j] = _narrowed(s0, s1)


@device
def _add_triples(c0, c1, c2, a0, a1, a2, b0, b1, b2):
    for j in range(c0.shape[0]):
        p0, p1, p2 = triple_product(a0, a1, a2, b0[j], b1[j], b2[j])
        c0[j], c1[j], c2[j] = triple_sum(c0[j], c1[j], c2[j], p0, p1, p2)


@device
def _add_fused(c0, c1, c2, a0, a1, a2, b0, b1, b2):
    for j in range(c0.shape[0]):
        p0, p1, p2 = fused_product(a0, a1, a2, b0[j], b1[j], b2[j])
        c0[j], c1[j], c2[j] = fused_sum(c0[j], c1[j], c2[j], p0, p1, p2)


@compiled
def multiply(begin, end, kind, a, b, c):
    """The product c of words (words, m, k) and (words, k, n); MIXED has a float32's words."""
    words, n, inner = c.shape[0], c.shape[2], a.shape[2]
    left = np.empty((words, ROWS, DEPTH), a.dtype)
    right = np.empty((words, DEPTH, COLUMNS), a.dtype)
    kept = np.empty((words, ROWS, COLUMNS), a.dtype)
    across, second = (n + COLUMNS - 1) // COLUMNS, min(1, words - 1)
    for job in range(begin, end):
        top, start = job // across * ROWS, job % across * COLUMNS
        kept[:] = 0
        rows, width = min(ROWS, c.shape[1] - top), min(COLUMNS, n - start)
        for first in range(0, inner, DEPTH):
            depth = min(DEPTH, inner - first)
            _copy(a, top, first, rows, depth, left)
            _copy(b, first, start, depth, width, right)
            for h in range(depth):
                b0, b1, b2 = right[0, h, :width], right[second, h, :width], right[-1, h, :width]
                for i in range(rows):
                    a0, a1, a2 = left[0, i, h], left[second, i, h], left[-1, i, h]
                    c0, c1, c2 = kept[0, i, :width], kept[second, i, :width], kept[-1, i, :width]
                    if kind == TRIPLE:
                        _add_triples(c0, c1, c2, a0, a1, a2, b0, b1, b2)
                    elif kind == FUSED:
                        _add_fused(c0, c1, c2, a0, a1, a2, b0, b1, b2)
                    elif kind == PAIR:
                        _add_pairs(c0, c1, a0, a1, b0, b1)
                    elif kind == MIXED:
                        _add_mixed(c0, c1, a0, a1, b0, b1)
                    else:
                        _add_ones(c0, a0, b0)
        for l in range(words):
            for i in range(rows):
                copy(kept[l, i, :width], c[l, top + i, start : start + width])


@device
def _accumulate(c0, c1, c2, x):
    """Add x to c along rows."""
    for e in range(x.shape[0]):
        zero = x[e] - x[e]
        c0[e], c1[e], c2[e] = triple_sum(c0[e], c1[e], c2[e], x[e], zero, zero)


@compiled
def accumulate(begin, end, c, x):
    """Add floats x to numbers of three words, c (3, elements); a job is an element."""
    _accumulate(c[0, begin:end], c[1, begin:end], c[2, begin:end], x[begin:end])
