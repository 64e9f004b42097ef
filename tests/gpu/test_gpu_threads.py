"""On a GPU: many threads at once, in a process that has compiled, loaded and recorded nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers import ROOT

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

SCRIPT = ROOT / "tests" / "shared" / "cold_threads.py"


def test_first_calls_of_twelve_threads_at_once(tmp_path):
    """Each on its own stream, a shape, a format and a contract of its own: the CPU's bits."""
    empty = {"HOME": str(tmp_path / "home"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    for folder in empty.values():
        Path(folder).mkdir()
    done = subprocess.run(
        [sys.executable, SCRIPT], env=os.environ | empty, capture_output=True, text=True,
        timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
