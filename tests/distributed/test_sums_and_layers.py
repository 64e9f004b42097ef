"""Exact sums over processes, and layers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import sharded_cases as cases
from helpers import ROOT


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


@pytest.mark.slow
def test_the_example_prints_three_equal_checksums():
    program = ROOT / "examples/torchrun/train_mlp.py"
    settings = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    settings["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", str(program)]
    for _ in range(2):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=280, env=settings, check=False
        )
        # Gloo's threads outlive its groups where DTensor keeps a mesh, and one that lets go of a
        # tensor when Python has begun to finish ends the process (PyTorch's issue 190489).
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    exact = [line.split()[1] for line in lines[1:4]]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "4"]
    assert len(set(exact)) == 1
    assert lines[4] == "the same bits with widen: True, with ordinary sums: False"
