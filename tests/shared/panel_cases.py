"""Panels of numbers in words, and how two of them are compared."""

from __future__ import annotations

import numpy as np

from widen.linalg.bounds import as_words


def matrix_of(kind, shape, parts, count):
    """A matrix in words, all of them in use but where numbers are special."""
    rng = np.random.default_rng([*shape, parts, count])
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape) * (parts - 1)
    if kind == "zeros":
        x = x * 0
    elif kind == "a column of zeros":
        x[:, :: max(1, shape[1] // 2)] = 0
    elif kind == "ties":
        x = np.sign(x.real) + 1j * np.sign(x.imag)
    elif kind == "far apart":
        x = x * 2.0 ** rng.integers(-900, 900, shape)
    elif kind == "infinite":
        x[shape[0] // 2 :, -1:] = np.inf
    with np.errstate(all="ignore"):
        words = as_words(x if parts == 2 else x.real.copy(), count)
        return words if kind in ("ties", "zeros") or not words.size else words / 3


def assert_same(x, y):
    """The same bits, but that all NaN are one."""
    for p, q in zip(x.planes, y.planes, strict=True):
        bits = [np.where(np.isnan(plane), 0, plane).view(np.int64) for plane in (p, q)]
        assert np.array_equal(np.isnan(p), np.isnan(q))
        assert np.array_equal(*bits)
