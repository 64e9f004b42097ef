"""Panels in one launch: the bits of the same steps in elementwise operations on `Words`."""

from __future__ import annotations

import numpy as np
import pytest

import widen
from panel_cases import assert_same, matrix_of
from widen.linalg import triangles
from widen.linalg.bounds import as_words
from widen.words import elementwise_panels

SHAPES = [(1, 1), (5, 1), (1, 4), (0, 3), (3, 0), (33, 5), (5, 33), (140, 9)]
MATRICES = ["random", "zeros", "a column of zeros", "ties", "far apart", "infinite"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.covering(2)
def test_a_panel_has_the_bits_of_its_columns(shape, kind, count, parts):
    w = matrix_of(kind, shape, parts, count)
    one, other = w.copy(), w.copy()
    assert elementwise_panels.are_served(one)
    with np.errstate(all="ignore"):
        pivots = triangles.eliminated(one).pivots
        assert pivots.tolist() == triangles.eliminated_by_columns(other).pivots.tolist()
    assert_same(one, other)


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (31, 3), (32, 140), (9, 0), (0, 2)])
@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.covering(2)
def test_a_substitution_has_the_bits_of_its_rows(shape, count, parts, upper):
    t, w = (matrix_of("random", s, parts, count) for s in ((shape[0], shape[0]), shape))
    one, other = w.copy(), w.copy()
    elementwise_panels.substitute(t, one, upper=upper)
    triangles.solve_by_rows(t, other, upper=upper)
    assert_same(one, other)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("shape", [(140, 130), (130, 70), (70, 130)])
def test_a_matrix_of_several_panels_has_the_bits_of_the_plain_way(shape, kind, monkeypatch):
    w = matrix_of("random", shape, 1 + (kind == "complex"), 2)
    one, other = w.copy(), w.copy()
    pivots = triangles.factor_words(one).pivots
    monkeypatch.setattr(elementwise_panels, "are_served", lambda *given: False)
    assert pivots.tolist() == triangles.factor_words(other).pivots.tolist()
    assert_same(one, other)


def test_the_first_of_equal_pivots_is_taken():
    a = np.array([[1.0, 2.0, 3.0], [-2.0, 1.0, 0.0], [2.0, 5.0, 1.0]])
    assert widen.linalg.lu_factor(a)[1][0] == 1
    turned = np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 1.0]]) @ np.diag([1.0, 1.0]) + 0j
    turned[2, 0] = 1 + 2j  # |re| + |im| as large as the 3 before it, the modulus smaller
    assert widen.linalg.lu_factor(turned)[1][0] == 1


def test_blocks_of_reflections_leave_the_matrix_alone():
    """Columns next to 1 are not scaled, and must be copied before they are changed."""
    a = as_words(np.array([[0.75, 0.5], [0.5, 0.25]]), 3)
    before = a.copy()
    q, r = widen.linalg.qr(a, dtype="float64x3")
    assert_same(a, before)
    assert abs((q @ r - a).to_numpy()).max() < 2.0**-155
