"""What several test files share: bits compared, operands drawn, the same numbers laid out anew."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import ml_dtypes
import numba
import numpy as np
import pytest

import widen
import widen.testing as wt
from widen.contract import CONTRACTS
from widen.formats import FORMATS, PLAIN

ROOT = Path(__file__).parents[2]
"""The repository."""

ACCURACIES = [*CONTRACTS, 40]
"""Every contract by name, and an integer one."""


def slow_except(kept, values):
    """Parameters of a test, of which all but those kept are slow."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.slow)
            for value in values]  # fmt: skip


@contextmanager
def kernel_threads(count):
    """So many threads in the kernels; the test is skipped where Numba was started with fewer."""
    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip(f"Numba has {numba.config.NUMBA_NUM_THREADS} thread; set NUMBA_NUM_THREADS=2")
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def dtype_of(name):
    """The NumPy dtype of a format."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def results_for(*names):
    """Results that operands of these formats may be asked for: all, or the complex ones."""
    parts = max(FORMATS[name].parts for name in names)
    return [result for result in PLAIN if FORMATS[result].parts >= parts]


def draw(family, shape, seed, left="float64", right=None):
    """A pair of a family in the given formats, one formula for all of them."""
    rng = np.random.default_rng([seed, *shape])
    names = (left, left if right is None else right)
    if any(FORMATS[name].parts == 2 for name in names):
        pair = wt.complex_pair(wt.FAMILIES[family], rng, *shape)
    else:
        pair = wt.FAMILIES[family].make(rng, *shape)
    return tuple(
        wt.as_format(x if FORMATS[name].parts == 2 else x.real, dtype_of(name))
        for x, name in zip(pair, names, strict=True)
    )


def draw_words(family, shape, seed, name):
    """The same for numbers of several words: lower words are random, where there is room for them.

    Every third number ends in its first word, as plain floats do.
    """
    fmt = FORMATS[name]
    pair = draw(family, shape, seed, "complex128" if fmt.parts == 2 else "float64")
    rng = np.random.default_rng([seed, *shape, 1])
    return tuple(words_near(rng, x, fmt) for x in pair)


def words_near(rng, x, fmt):
    """Numbers of several words whose first words are those of an array."""
    kind = {53: "float64", 24: "float32"}[fmt.part.words[0].precision]
    if fmt.parts == 2:
        kind = {"float64": "complex128", "float32": "complex64"}[kind]
    first = np.where(np.isfinite(x), wt.as_format(x, dtype_of(kind)).astype(x.dtype), x)
    words, scale = [first], np.where(rng.integers(3, size=x.shape) == 0, 0.0, 0.5)
    for word in fmt.part.words[:-1]:
        scale = scale * 2.0**-word.precision
        words.append(np.where(np.isfinite(first), first, 0) * scale * rng.uniform(-1, 1, x.shape))
    return widen.Words.from_words(np.array(words), fmt)


def word_arrays(x):
    """The words of `Words` as arrays, in float64 or complex128, as the definition takes them."""
    planes = [np.moveaxis(np.asarray(plane).astype(np.float64), 0, -1) for plane in x.planes]
    kind = complex if x.format.parts == 2 else float
    return tuple(np.ascontiguousarray(plane).view(kind)[..., 0] for plane in planes)


def assert_same_words(found, wanted):
    """Fail with the places where the bits of words differ; `wanted` may be their arrays."""
    arrays = word_arrays(wanted) if isinstance(wanted, widen.Words) else wanted
    for ours, theirs in zip(word_arrays(found), arrays, strict=True):
        assert_same_bits(ours, theirs)


def bits_of(x):
    """Integers that are equal where the bits are; every NaN is the same."""
    x = np.asarray(x)
    parts = np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x[None]
    parts = np.ascontiguousarray(parts)
    unsigned = parts.view(f"u{parts.itemsize}")
    return np.where(np.isnan(parts), np.array(-1).astype(unsigned.dtype), unsigned)


def same_bits(x, y):
    """Whether two arrays have the same shape, dtype and bits."""
    x, y = np.asarray(x), np.asarray(y)
    return x.shape == y.shape and x.dtype == y.dtype and bool((bits_of(x) == bits_of(y)).all())


def assert_same_bits(found, wanted):
    """Fail with the places where bits differ."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    wrong = (bits_of(found) != bits_of(wanted)).any(axis=0)
    if wrong.any():
        place = tuple(int(at[0]) for at in np.nonzero(np.atleast_1d(wrong)))
        values = np.atleast_1d(found)[place], np.atleast_1d(wanted)[place]
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.size} elements differ, first at {place}: "
            f"{values[0]!r}, wanted {values[1]!r}"
        )


def _sliced(x):
    base = np.full((*x.shape[:-2], 2 * x.shape[-2] + 3, 3 * x.shape[-1] + 2), np.nan, x.dtype)
    base[..., 2 : 2 + 2 * x.shape[-2] : 2, 1 : 1 + 3 * x.shape[-1] : 3] = x
    return base[..., 2 : 2 + 2 * x.shape[-2] : 2, 1 : 1 + 3 * x.shape[-1] : 3]


def _read_only(x):
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    view = memory[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    assert not view.flags.aligned
    return view


VIEWS = {
    "C order": lambda x: x.copy(),
    "Fortran order": np.asfortranarray,
    "sliced": _sliced,
    "sliced, transposed": lambda x: _sliced(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "rows backwards": lambda x: x[..., ::-1, :].copy()[..., ::-1, :],
    "columns backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
    "all backwards": lambda x: np.asfortranarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "read-only": _read_only,
    "unaligned": _unaligned,
    "byte-swapped": lambda x: x.astype(x.dtype.newbyteorder()),
}
"""The same numbers, elsewhere in memory."""
