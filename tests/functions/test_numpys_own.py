"""NumPy's own tests of `matmul`, with `widen.matmul` and `widen.numpy.matmul` in its place."""

from __future__ import annotations

import numpy as np
import pytest

import widen
import widen.numpy as wnp

multiarray = pytest.importorskip("numpy._core.tests.test_multiarray")

pytestmark = pytest.mark.slow


class TestMatmul(multiarray.MatmulCommon):
    """All types but object and long double, which `widen.Words` serves."""

    types = "?bhilqBHILQefdFD"
    matmul = staticmethod(widen.matmul)


class TestNamespace(TestMatmul):
    """The same by NumPy's name, with NumPy's positions."""

    matmul = staticmethod(wnp.matmul)


def test_all_types_but_two_kinds_are_there():
    left_out = set(multiarray.MatmulCommon.types) - set(TestMatmul.types)
    assert left_out == {"O", "g", "G"}
    assert {np.dtype(kind).kind for kind in TestMatmul.types} == set("biufc")
