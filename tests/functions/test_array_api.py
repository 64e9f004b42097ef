"""What the array API standard says of products: promoted dtypes, shapes, stacks and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import widen
import widen.numpy as wnp

DTYPES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
]  # fmt: skip
SHAPES = [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 0), (0, 2))]


def numbers(shape, dtype):
    return (np.arange(np.prod(shape)) % 5).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_promoted_dtypes_and_shapes(dtype):
    for other, (left, right) in itertools.product(DTYPES, SHAPES):
        a, b = numbers(left, dtype), numbers(right, other)
        functions = [(widen.matmul, np.matmul), (wnp.matmul, np.matmul)]
        if a.ndim == b.ndim == 1:
            functions += [(widen.vecdot, np.vecdot), (wnp.tensordot, np.tensordot)]
        for ours, theirs in functions:
            axes = (1,) if theirs is np.tensordot else ()
            found, wanted = ours(a, b, *axes), theirs(a, b, *axes)
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert type(found) is type(wanted)
            assert np.array_equal(found, wanted)  # small whole numbers: both are exact


def test_a_stack_has_the_bits_of_its_matrices():
    a, b = np.random.default_rng(0).random((3, 4, 5)), np.random.default_rng(1).random((2, 1, 5, 6))
    whole = widen.matmul(a, b)
    for i, j in np.ndindex(2, 3):
        assert np.array_equal(whole[i, j], widen.matmul(a[j], b[i, 0]))


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("shapes", [
    ((), (3,)), ((3,), ()), ((), ()), ((3,), (4,)), ((3, 4), (3,)), ((3,), (4, 3)),
    ((3, 4), (3, 4)), ((2, 3, 4), (3, 4, 5)),
])  # fmt: skip
def test_shapes_without_a_product(shapes, dtype):
    a, b = (np.ones(shape, dtype) for shape in shapes)
    with pytest.raises(ValueError):  # noqa: PT011
        widen.matmul(a, b)
