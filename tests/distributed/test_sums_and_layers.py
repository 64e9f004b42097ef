"""Exact sums over processes, layers, systems; and what happens when a process does not answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import sharded_cases as cases
from helpers import ROOT
from ranks import ranks


def agree(results):
    """All cases are alike in all ranks that took part, and there are some."""
    taken = [found for found in results if found is not None]
    assert taken
    for found in taken:
        assert len(found) > 0
        assert [name for name in found if name is not None] == []


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sums(four, size):
    agree(four.run(cases.sums, size))


@pytest.mark.parametrize(("accuracy", "dtype"), [("standard", "float32"), ("correct", "float64")])
def test_layers_have_the_same_bits_on_any_number_of_processes(four, accuracy, dtype):
    found = {}
    for size in (1, 2, 3, 4):
        of_ranks = [x for x in four.run(cases.layers, size, accuracy, dtype) if x is not None]
        assert len(of_ranks) == size
        assert all(digests == of_ranks[0] for digests in of_ranks)
        found[size] = of_ranks[0]
    assert len(found[1]) == 7
    assert found[1][0] == found[1][2]  # parallelize_module gives the same layers
    assert found[1] == found[2] == found[3] == found[4]


def test_results_lie_where_they_are_wanted(four):
    agree(four.run(cases.wanted_placements, (3,)))


@pytest.mark.slow
def test_results_on_a_grid_lie_where_they_are_wanted(four):
    agree(four.run(cases.wanted_placements, (2, 2)))


@pytest.mark.parametrize("mesh", [(2,), pytest.param((2, 2), marks=pytest.mark.slow)], ids=str)
def test_systems(four, mesh):
    agree(four.run(cases.systems, mesh))


def test_singular_systems_are_refused_everywhere(four):
    four.start(cases.singular)
    answers = [answer for answer in four.answers() if answer != (True, None)]
    assert [value[0] for _, value in answers] == ["SingularMatrixError"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("after", ["exchange", "reduce"])
def test_a_process_that_stops_is_an_error_everywhere_else(after):
    with ranks(3, timeout=20) as three:
        three.start(cases.one_stops, after)
        answers = three.answers(60)
    assert answers[1] == (None, "stopped")
    for rank in (0, 2):
        good, (text, untouched) = answers[rank]
        assert good
        assert re.search(r"did not answer during '[a-z ]+'.*all processes still run", text), text
        assert untouched


@pytest.mark.slow
def test_a_process_that_is_late_is_an_error_within_the_timeout():
    with ranks(2, timeout=6) as two:
        two.start(cases.one_sleeps, 15)
        answers = two.answers(60)
    good, (text, seconds) = answers[0]
    assert good
    assert "did not answer" in text
    assert seconds < 12
    assert "did not answer" in answers[1][1][0]


@pytest.mark.slow
def test_the_example_prints_three_equal_checksums():
    program = ROOT / "examples/torchrun/train_mlp.py"
    settings = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    settings["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env=settings, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    exact = [line.split()[1] for line in lines[1:4]]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "4"]
    assert len(set(exact)) == 1
    assert lines[4] == "the same bits with widen: True, with ordinary sums: False"
