"""Exact parts on GPUs, in Triton's interpreter: the bits of one process, wherever operands lie.

Operands are a CPU's that count as GPUs', and communication is gloo's. `test_gpu_exact.py` has the
same with a GPU.
"""

from __future__ import annotations

import pytest

pytest.importorskip("triton")
import sharded_cases as cases
from device import ON
from sharded_cases import agree
from widen.testing import matrices

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(ON == "cuda", reason="test_gpu_exact.py runs the kernels on the GPU"),
]


@pytest.mark.parametrize(
    ("mesh", "dtype", "accuracy"),
    [((1,), "float64", "standard"), ((2,), "complex128", "standard"), ((3,), "float32", "fast"),
     ((3,), "float64", "correct")],
    ids=str,
)  # fmt: skip
def test_formats_and_contracts(four, mesh, dtype, accuracy):
    given = (mesh, (dtype,), (accuracy,))
    results = four.run(cases.as_if_on_gpus, cases.cut_by, "inner", cases.contracts, *given)
    agree(results, most_open=0.5)


def test_halves(four):
    agree(four.run(cases.as_if_on_gpus, cases.contracts, (3,), ("bfloat16",), ("standard", 30)))


def test_numbers_of_similar_magnitudes_are_all_certified(four):
    """So that the bits are those of the residues, and no product of whole lines mends them."""
    for accuracy in ("fast", "standard"):
        given = ((2,), ("plain",), (accuracy,), "float64", (19, 200, 23))
        results = four.run(cases.as_if_on_gpus, cases.inner_cut, *given)
        agree(results, most_open=0.0)


@pytest.mark.slow
def test_hard_data(four):
    names = ("cancellation", "graded inner", "extremes", "zero lines")
    given = ((9, 40, 8), (3,), names, ("standard", "correct"))
    agree(four.run(cases.as_if_on_gpus, cases.cut_by, "inner", cases.inner_families, *given))


@pytest.mark.slow
def test_scalars_and_stretches_of_nothing(four):
    """c of every kind; of five entries the fourth of four processes has none."""
    agree(four.run(cases.as_if_on_gpus, cases.scaled_and_short, (4,)))


def test_what_is_not_served_is_gathered(four):
    served = ({}, {"unit": "int8"}, {"accuracy": "correct"}, {"dtype": "float32"})
    others = ({"unit": "fp64"}, {"system": "digits"}, {"dtype": "float64x2"})
    results = four.run(cases.as_if_on_gpus, cases.plans_of, (4,), (40, 300, 36), (*served, *others))
    for forms, _ in results:
        assert forms[: len(served)] == [("inner",)] * len(served)
        assert ("inner",) not in forms[len(served) :]


def test_bytes_are_those_of_the_plan(four):
    """14 moduli and a share for the certificate; scales take less."""
    placements = ((cases.S(1),), (cases.S(0),))
    given = ((4,), (40, 300, 36), placements, {})
    results = four.run(cases.as_if_on_gpus, cases.bytes_sent, *given)
    for (foreseen, sent, text, own), _ in results:
        assert foreseen == sent == {"exact parts": 4 * 40 * 36 * 15 * 3 // 4}
        assert "axis 0 cuts inner" in text
        assert own["scales"] == 7 * 8 * (40 + 36) * 2 * 3 // 4


@pytest.mark.slow
def test_panels_pass_on_a_grid(four):
    given = ((2, 2), {"workspace": 1 << 16}, None, "float64", (13, 200, 11))
    agree(four.run(cases.as_if_on_gpus, cases.cut_by, "panels", cases.grid, *given))


def test_little_workspace(four):
    """Panels of columns, and stretches of a process's own stretch, one after the other."""
    given = ((2,), ("plain",), ("standard",), "complex64", (7, 90, 30), {"workspace": 1 << 16})
    agree(four.run(cases.as_if_on_gpus, cases.inner_cut, *given), most_open=0.5)


# ── the rest, slow ───────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(3,), (2, 2)], ids=str)
def test_all_formats_and_contracts(four, mesh):
    formats = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64")
    given = (mesh, formats, ("fast", "standard", "correct", 30))
    agree(four.run(cases.as_if_on_gpus, cases.cut_by, "inner", cases.contracts, *given))


@pytest.mark.slow
def test_every_placement(four):
    agree(four.run(cases.as_if_on_gpus, cases.all_placements, (13, 70, 11), (3,), "float64", {}))


@pytest.mark.slow
def test_shapes_and_scalars(four):
    agree(four.run(cases.as_if_on_gpus, cases.shapes_and_scalars, (3,)))


@pytest.mark.slow
def test_gradients(four):
    agree(four.run(cases.as_if_on_gpus, cases.gradients, (2,), "standard"))


@pytest.mark.slow
@pytest.mark.parametrize("at", range(len(matrices.FAMILIES)))
def test_all_families(four, at):
    """Real and complex ones in turn."""
    name, dtype = list(matrices.FAMILIES)[at], ("float64", "complex64")[at % 2]
    given = ((9, 40, 8), (3,), (name,), ("standard", "correct"), dtype)
    agree(four.run(cases.as_if_on_gpus, cases.cut_by, "inner", cases.inner_families, *given))
