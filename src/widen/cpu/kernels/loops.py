"""Short loops that NumPy has words for: Numba compiles these in a fraction of the time.

An assignment of one array to another brings the code of its error message along, with all of
Numba's strings: 3 of 6.6 s for `repair.dots`. A first `x.max()` takes 0.4 s.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from widen.cpu.kernels.cache import device


@device
def alive(*arrays):
    """Nothing: arrays that are named here are not given back before."""


@device
def copy(source, target):
    """Copy entries of any strides, as many as the target has."""
    for t in range(target.shape[0]):
        target[t] = source[t]


def _view(context, builder, x, value, found, strides=None):
    """The same entries as another type of array, which keeps nothing alive."""
    source, target = (
        make_array(x)(context, builder, value=value),
        make_array(found)(context, builder),
    )
    populate_array(
        target, data=source.data, shape=source.shape, strides=strides or source.strides,
        itemsize=source.itemsize, meminfo=None,
    )  # fmt: skip
    return impl_ret_borrowed(context, builder, found, target._getvalue())


def _borrowed(typing_context, x):
    """An array that is not counted: of a kernel's argument, or of one that is `alive` later on.

    Every slice of a counted array counts, by an atomic operation that takes as long as copying 50
    entries.
    """

    def generate(context, builder, signature, arguments):
        return _view(context, builder, x, arguments[0], x)

    return x(x), generate


def _known_neighbours(typing_context, x):
    """A 1-D array whose entries are neighbours in memory, as one that is known to be such.

    Loops over it are compiled for several entries at a time. It is not to be written to.
    """
    found = types.Array(x.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        itemsize = make_array(x)(context, builder, value=arguments[0]).itemsize
        return _view(context, builder, x, arguments[0], found, [itemsize])

    return found(x), generate


borrowed: Any = intrinsic(_borrowed)
_neighbours: Any = intrinsic(_known_neighbours)


@device
def side_by_side(source, buffer):
    """Entries of a `borrowed` array as they lie in memory; where they are apart, in the buffer."""
    if source.strides[0] == source.itemsize:
        return _neighbours(source)
    target = buffer[: source.shape[0]]
    copy(source, target)
    return target


@device
def largest_of(x):
    """The largest of int64 numbers; there is at least one."""
    largest = x[0]
    for t in range(x.shape[0]):
        largest = max(largest, x[t])
    return largest


@device
def least_of(x):
    """The least of int64 numbers; there is at least one."""
    least = x[0]
    for t in range(x.shape[0]):
        least = min(least, x[t])
    return least


@device
def place_of(x, value):
    """The first place in sorted numbers that are not below a value; their count if all are."""
    low, high = 0, x.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if x[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
