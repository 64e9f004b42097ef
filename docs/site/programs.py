"""The programs in examples/: what they say that they print, and what they print."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))


def told(path: Path) -> tuple[str, str, str]:
    """Return what a program says of itself, a remark on its output, and its output."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    head, remark, printed = re.split(r"^It prints(.*?):\n\n", text, flags=re.MULTILINE)
    return head, remark.strip(), dedent(printed)


def comparable(text: str) -> list[str]:
    """Return the words of an output; numbers that depend on the machine, marked ~, all alike.

    >>> comparable("float64: ~3e-14 or 5") == comparable("float64: ~1e-13 or 5")
    True
    """
    return re.sub(r"~\S+", "~", text).split()


def failure(path: Path) -> str:
    """Run a program; return what is wrong with what it prints, or nothing."""
    settings = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    settings.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=280, env=settings
    )
    if done.returncode:
        return f"{path.name} ended with {done.returncode}:\n{done.stderr[-2000:]}"
    printed = told(path)[2]
    if comparable(done.stdout) != comparable(printed):
        return f"{path.name}: expected:\n{printed}\ngot:\n{done.stdout}"
    return ""


def failures() -> list[str]:
    """Run all programs, two at a time; return what went wrong."""
    with ThreadPoolExecutor(2) as pool:
        return [wrong for wrong in pool.map(failure, PROGRAMS) if wrong]
