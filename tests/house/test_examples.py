"""The programs in examples/ are short and print what they say they print."""

import ast
import os
import re
import subprocess
import sys

import pytest

from helpers import ROOT, slow_except

PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
QUICK = [path for path in PROGRAMS if path.stem in ("eigenvalues", "stiff_system", "training_step")]


def promised(path):
    """What a program says that it prints: the end of its docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return re.split(r"^It prints.*:\n\n", text, flags=re.MULTILINE)[1]


def comparable(text):
    """Words of an output; numbers that depend on the machine, marked ~, all alike."""
    return re.sub(r"~\S+", "~", text).split()


def test_there_are_six():
    assert len(PROGRAMS) == 6


@pytest.mark.parametrize("path", slow_except(QUICK, PROGRAMS), ids=lambda path: path.stem)
def test_it_is_short_and_prints_what_it_says(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    settings.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=280, env=settings
    )
    assert done.returncode == 0, done.stderr
    assert comparable(done.stdout) == comparable(promised(path))
