"""What answers while other processes compile: its bits are those of what is waited for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import widen
from device import ON, product, words_product
from helpers import assert_same_bits, assert_same_words, draw, draw_words
from widen.gpu import tiles
from widen.gpu.replay import meanwhile

pytestmark = pytest.mark.device

SHAPE = (3, 9, 4) if ON == "cpu" else (70, 200, 130)
LATE = {
    "encode.residues", "reconstruct.round_residues", "repair.repair", "repair_words.repair",
    "close.settle",
}  # fmt: skip
MARKED = {"repair.repair", "repair_words.repair", "close.settle"}


def with_specials(a, b):
    a[0, :3], b[1, 0] = (np.nan, np.inf, -0.0), -np.inf


def with_zeros(a, b):
    a[:, ::2], b[0] = 0.0, -0.0


def with_subnormals(a, b):
    a[1], b[:, 1] = 2.0**-1070, 2.0**1000


def with_opposites(a, b):
    """Large meets small: no certificate of norms holds."""
    a[:, 0] *= 2.0**80
    b[0] *= 2.0**-80


HOSTILE = [with_specials, with_zeros, with_subnormals, with_opposites]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
@pytest.mark.parametrize("layout", [(False, False), (True, False), (False, True)])
def test_formats_and_layouts(late, dtype, layout):
    names, launched = late
    names |= LATE
    a, b = draw("phi0", SHAPE, 1, dtype, dtype)
    turned = [x.T.copy().T if turn else x for x, turn in zip((a, b), layout, strict=True)]
    _, found = product(*turned, dtype=dtype)
    assert_same_bits(found, widen.matmul(a, b))
    assert {"planes.residues", "crt.round_any"} <= set(launched)
    assert not LATE & set(launched)


@pytest.mark.parametrize("accuracy", ["standard", "correct"])
@pytest.mark.parametrize("change", HOSTILE)
def test_marked_elements_wait_for_their_kernels(late, change, accuracy):
    """Special values and elements that are open are final in the first call, too."""
    names, launched = late
    names |= LATE
    a, b = draw("phi1", SHAPE, 2)
    change(a, b)
    _, found = product(a, b, accuracy)
    assert_same_bits(found, widen.matmul(a, b, accuracy=accuracy))
    assert not {"encode.residues", "reconstruct.round_residues"} & set(launched)
    if change is with_specials:
        assert "repair.repair" in launched


def test_batches_and_one_operand_for_all(late):
    names, launched = late
    names |= LATE
    (a, b), (c, _) = draw("phi0", SHAPE, 3), draw("phi1", SHAPE, 4)
    left = np.stack([a, c])
    _, found = product(left, b)
    assert_same_bits(found, widen.matmul(left, b))
    assert not LATE & set(launched)


@pytest.mark.parametrize("name", ["float64x2"])
@pytest.mark.parametrize("special", [False, True])
def test_words_are_repaired_only_where_something_is_marked(late, name, special):
    names, launched = late
    names |= LATE
    a, b = draw_words("phi0", (1, 4, 2), 5, name)
    if special:
        a.planes[0][0, 0] = np.inf
        a.planes[1][0, 0] = 0.0
    _, found = words_product(a, b, name)
    assert_same_words(found, widen.matmul(a, b, dtype=name))
    assert ("repair_words.repair" in launched) == special


def test_a_second_pass_is_rounded_by_what_is_there(late, monkeypatch):
    names, launched = late
    names |= LATE - MARKED
    monkeypatch.setattr("widen.gpu.exact_products.FEWEST_TERMS", 2)
    a, b = draw("phi1", SHAPE, 6)
    with_opposites(a, b)
    _, found = product(a, b)
    assert_same_bits(found, widen.matmul(a, b))
    assert launched.count("crt.round_any") >= 1
    assert "reconstruct.round_residues" not in launched


@pytest.mark.parametrize("why", ["nobody compiles", "a graph captures", "large"])
def test_kernels_are_waited_for_where_nothing_else_should_answer(late, monkeypatch, why):
    """A graph would keep slow launches for good; large operands have their own kernels at once."""
    names, launched = late
    names |= LATE
    if why == "nobody compiles":
        monkeypatch.setattr("widen.gpu.replay.launch.Launching.is_coming", lambda self: False)
    if why == "a graph captures":
        monkeypatch.setattr(meanwhile, "_is_captured", lambda: True)
    if why == "large":
        monkeypatch.setattr(tiles, "MEANWHILE", 1)
        monkeypatch.setattr(meanwhile, "_has", lambda marks, below: True)
    a, b = draw("phi0", SHAPE, 7)
    _, found = product(a, b)
    assert_same_bits(found, widen.matmul(a, b))
    assert {"encode.residues", "reconstruct.round_residues", "repair.repair"} <= set(launched)
    assert "planes.residues" not in launched


@pytest.mark.parametrize("mark", range(9))
def test_which_marks_are_to_be_worked_on(late, mark):
    marks = torch.zeros((2, 3, 5), dtype=torch.uint8, device=ON)
    marks[1, 2, 3] = mark
    assert meanwhile._has(marks, 6) == (0 < mark < 6)
