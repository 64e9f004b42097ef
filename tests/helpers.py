"""What several test files share: bits compared, operands drawn, the same numbers laid out anew."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import widen.testing as wt
from widen.contract import CONTRACTS
from widen.formats import FORMATS, PLAIN_RESULTS

ACCURACIES = [*CONTRACTS, 40]
"""Every contract by name, and an integer one."""


def dtype_of(name):
    """The NumPy dtype of a format."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def results_for(*names):
    """Results that operands of these formats may be asked for: all, or the complex ones."""
    parts = max(FORMATS[name].parts for name in names)
    return [result for result in PLAIN_RESULTS if FORMATS[result].parts >= parts]


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
