"""Products of DTensors: the bits of one process, wherever operands lie."""

from __future__ import annotations

import re

import pytest
from torch.distributed.tensor import Replicate, Shard

import sharded_cases as cases
from ranks import ranks
from widen.formats import FORMATS, PLAIN
from widen.testing import matrices

R, S = Replicate(), Shard


def agree(results):
    """All cases are alike in all ranks that took part, and there are some."""
    taken = [found for found in results if found is not None]
    assert taken
    for found in taken:
        assert len(found) > 0
        assert [name for name in found if name is not None] == []


@pytest.mark.parametrize("mesh", [(1,), (2,), (3,), (4,), (2, 2), (1, 3)], ids=str)
def test_every_placement(four, mesh):
    few = mesh == (1, 3)  # all pairs of placements of two axes are those of the mesh before it
    agree(four.run(cases.all_placements, (13, 70, 11), mesh, "float64", {}, None, few))


def test_shapes_and_scalars(four):
    agree(four.run(cases.shapes_and_scalars, (3,)))


def test_words(four):
    agree(four.run(cases.words, (2,)))


def test_gradients(four):
    agree(four.run(cases.gradients, (2,), "standard"))


def test_formats_and_contracts(four):
    formats = ("float64", "float32", "bfloat16", "complex128")
    agree(four.run(cases.contracts, (2,), formats, ("standard", "correct")))


def test_hard_data(four):
    names = ("cancellation", "graded inner", "extremes", "complementary sparsity", "zero lines")
    agree(four.run(cases.inner_families, (20, 90, 17), (4,), names, ("standard", "correct")))


def test_panels_pass_where_gathered_operands_would_not_fit(four):
    agree(four.run(cases.grid, (2, 2), {"workspace": 1 << 17}))


# ── what a plan says ─────────────────────────────────────────────────────────


def one(results):
    return next(found for found in results if found is not None)


@pytest.mark.parametrize(
    ("mesh", "placements", "words"),
    [
        ((4,), ((S(0),), (R,)), ["axis 0 cuts rows", "none"]),
        ((4,), ((S(1),), (S(0),)), ["axis 0 cuts inner", "exact parts"]),
        ((2, 2), ((S(0), S(1)), (R, S(0))), ["axis 0 cuts rows, axis 1 cuts inner"]),
        ((4,), ((S(0),), (S(1),)), ["right operand"]),
    ],
    ids=str,
)
def test_bytes_are_those_of_the_plan(four, mesh, placements, words):
    foreseen, sent, text, _ = one(four.run(cases.bytes_sent, mesh, (40, 300, 36), placements, {}))
    assert foreseen.keys() == sent.keys()
    for step, size in sent.items():
        assert abs(size - foreseen[step]) <= 0.02 * foreseen[step]
    for word in words:
        assert word in text


def test_an_element_takes_fifteen_bytes(four):
    """And so many (R - 1)/R of the elements are sent, by each of R processes."""
    placements = ((S(1),), (S(0),))
    _, sent, _, own = one(four.run(cases.bytes_sent, (4,), (64, 400, 64), placements, {}))
    assert sent == {"exact parts": 4 * 64 * 64 * 15 * 3 // 4}
    assert sum(own.values()) - own["exact parts"] < 0.35 * own["exact parts"]  # scales of lines


def test_short_inner_dimensions_are_gathered(four):
    placements = ((S(1),), (S(0),))
    foreseen, sent, text, _ = one(four.run(cases.bytes_sent, (4,), (64, 8, 64), placements, {}))
    assert "inner" not in text.split("mesh")[2]
    assert sent == foreseen
    assert "exact parts" not in sent


# ── what is refused ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("partial", "ValueError", "a is Partial.*redistribute"),
        ("plain", "TypeError", r"b is a Tensor.*distribute_tensor\(b, mesh, \[Replicate\(\)\]\)"),
        ("shapes", "(Mismatch|Value)Error", r"\(6, 8\) and \(7, 5\) do not match"),
        ("ranks differ: accuracy", "MismatchError", "rank 0: .*standard.*rank 1: .*correct"),
        ("ranks differ: error", "(Mismatch|Value)Error", "foolish"),
        ("ranks differ: shapes", "MismatchError", r"rank 0: a \(5, 8\).*rank 1: a \(5, 6\)"),
        ("out", "(Mismatch|Value)Error", r"out has shape \(6, 6\).*\(6, 5\)"),
        ("meshes", "ValueError", "different meshes"),
        ("c", "(Mismatch|Value)Error", "does not broadcast"),
    ],
)
def test_refusals(four, name, error, said):
    four.start(cases.refused, name)
    answers = [answer for answer in four.answers() if answer != (True, None)]
    assert len(answers) == 2
    for good, value in answers:
        assert good is False
        assert re.fullmatch(error, value[0]), value
        assert re.search(said, value[1], re.DOTALL), value[1]


# ── the rest, slow ───────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(1,), (2,), (3,), (4,), (2, 2), (1, 3)], ids=str)
def test_all_formats_and_contracts(four, mesh):
    formats = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64")
    agree(four.run(cases.contracts, mesh, formats, ("fast", "standard", "correct", 30)))


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(1,), (2,), (3,), (4,), (2, 2), (1, 3)], ids=str)
def test_all_families(four, mesh):
    names = list(matrices.FAMILIES)
    accuracies = ("fast", "standard", "correct", 40)
    agree(four.run(cases.inner_families, (33, 130, 29), mesh, names, accuracies))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex128"])
def test_all_families_in_other_formats(four, dtype):
    names, accuracies = list(matrices.FAMILIES), ("standard", "correct")
    for mesh in ((3,), (2, 2)):
        agree(four.run(cases.inner_families, (17, 90, 13), mesh, names, accuracies, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FORMATS if name not in PLAIN])
def test_all_words(four, name):
    """Complex ones have four rows: one of three processes has none."""
    for mesh in ((1,), (3,), (2, 2)):
        agree(four.run(cases.words, mesh, [name], ("fast", "standard", "correct", 80)))


@pytest.mark.slow
@pytest.mark.parametrize("accuracy", ["standard", "correct"])
def test_panels_of_hard_data(four, accuracy):
    for family in ("cancellation", "extremes", "graded inner", "zero lines"):
        options = {"workspace": 1 << 17, "accuracy": accuracy}
        agree(four.run(cases.grid, (2, 2), options, family))
    agree(four.run(cases.grid, (2, 2), {"workspace": 1 << 17}, None, "complex128"))


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(4,), (2, 2)], ids=str)
def test_gradients_of_correct_products(four, mesh):
    agree(four.run(cases.gradients, mesh, "correct"))


@pytest.mark.slow
def test_shapes_on_a_grid(four):
    agree(four.run(cases.shapes_and_scalars, (2, 2)))


@pytest.mark.slow
def test_eight_processes():
    with ranks(8) as eight:
        agree(eight.run(cases.all_placements, (13, 70, 11), (8,), "float64", {}))
        agree(eight.run(cases.all_placements, (13, 70, 11), (2, 4), "float64", {}))
        agree(eight.run(cases.contracts, (8,), ("float32", "complex128"), ("correct", "fast")))
        names = list(matrices.FAMILIES)
        agree(eight.run(cases.inner_families, (9, 70, 8), (8,), names, ("standard", "correct")))
