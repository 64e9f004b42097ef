"""Exact parts on a GPU that several processes share, joined by gloo; and one joined by NCCL.

What they are compared with is the CPU's product of one process.
"""

from __future__ import annotations

import pytest

pytest.importorskip("triton")
import sharded_cases as cases
from ranks import ranks
from sharded_cases import agree

pytestmark = pytest.mark.gpu

FORMATS = ("float64", "float32", "bfloat16", "complex128")


@pytest.fixture(scope="module")
def four():
    with ranks(4, timeout=600.0) as held:
        yield held


@pytest.mark.parametrize("mesh", [(2,), (4,)], ids=str)
@pytest.mark.parametrize("accuracy", ["fast", "standard", "correct", 30])
def test_formats_and_contracts(four, mesh, accuracy):
    given = (mesh, FORMATS, (accuracy,), (130, 700, 110))
    results = four.run(cases.on_gpus, cases.cut_by, "inner", cases.contracts, *given)
    agree(results, most_open=0.5)


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_numbers_of_similar_magnitudes_are_all_certified(four, dtype):
    for accuracy in ("fast", "standard"):
        given = ((4,), ("plain",), (accuracy,), dtype, (300, 2000, 500))
        agree(four.run(cases.on_gpus, cases.inner_cut, *given), most_open=1e-3)


def test_hard_data(four):
    names = ("cancellation", "graded inner", "extremes", "complementary sparsity", "zero lines")
    given = ((40, 300, 35), (4,), names, ("standard", "correct"))
    agree(four.run(cases.on_gpus, cases.cut_by, "inner", cases.inner_families, *given))


def test_scalars_and_stretches_of_nothing(four):
    agree(four.run(cases.on_gpus, cases.scaled_and_short, (4,)))


def test_shapes_and_scalars(four):
    agree(four.run(cases.on_gpus, cases.shapes_and_scalars, (3,)))


def test_panels_pass_on_a_grid(four):
    given = ((2, 2), {"workspace": 1 << 20}, None, "float64", (200, 700, 180))
    agree(four.run(cases.on_gpus, cases.cut_by, "panels", cases.grid, *given))


def test_little_workspace(four):
    given = ((2,), ("plain",), ("standard",), "complex64", (70, 900, 300), {"workspace": 1 << 20})
    agree(four.run(cases.on_gpus, cases.inner_cut, *given), most_open=0.5)


def test_one_process_with_nccl():
    with ranks(1, timeout=600.0, backend="nccl") as one:
        given = ((1,), FORMATS, ("standard", "correct"), (130, 700, 110))
        agree(one.run(cases.on_gpus, cases.cut_by, "inner", cases.contracts, *given))
        agree(one.run(cases.on_gpus, cases.scaled_and_short, (1,)))
