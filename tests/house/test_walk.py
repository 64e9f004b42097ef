"""How many files a product goes through: the last row of the walk in docs/architecture.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
DEVICES = [("cpu", 0), pytest.param("interpreter", 1, marks=pytest.mark.slow)]


def counts(text):
    """Pairs (files, files of kernels) that a text names."""
    return re.findall(r"(\d+)(?: files)?, and (\d+) files of kernels", text)


@pytest.mark.parametrize(("device", "column"), DEVICES)
def test_the_walk_has_as_many_files_as_the_table_says(device, column):
    if device == "interpreter":
        pytest.importorskip("triton")
    command = [sys.executable, "bench/walk.py", "--device", device]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    row = re.search(r"^\| files entered .*$", (HOME / "docs/architecture.md").read_text(), re.M)
    assert counts(done.stdout) == [counts(row[0])[column]]
