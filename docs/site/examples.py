"""The examples of a page, run: blocks of Python and commands, compared with the output shown.

A page's ```python blocks are run in order, in one namespace. A ```output block says what the block
before it prints. A ```console block has lines `$ widen …`, which are run, and below each what it
prints; `$ make …` must be a target of the Makefile. "..." stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line that it begins in."""

    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    r"""Return all fenced blocks of a page.

    >>> blocks("A\n\n```python\nx = 1\n```\n")
    [Block(language='python', text='x = 1\n', line=4)]
    """
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        for found in FENCE.finditer(text)
    ]


def alike(wanted: str, got: str) -> bool:
    """Whether a program printed what a page shows."""
    return doctest.OutputChecker().check_output(wanted, got, FLAGS)


def difference(wanted: str, got: str) -> str:
    """Return what a failed comparison says."""
    return f"expected:\n{wanted}\ngot:\n{got}"


def run_python(block: Block, names: dict[str, Any], page: str) -> tuple[str, str]:
    """Run a block; return what it printed and, if it failed, why."""
    printed = io.StringIO()
    try:
        # The page's lines are those of the traceback.
        code = compile("\n" * (block.line - 1) + block.text, page, "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
    except Exception:
        return printed.getvalue(), traceback.format_exc(limit=-3)
    return printed.getvalue(), ""


def run_console(block: Block) -> str:
    """Run the commands of a block; return what is wrong, or nothing."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        words = shlex.split(command, comments=True)
        if words[0] == "make":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            if not re.search(rf"^{words[1]}:", makefile, re.MULTILINE):
                return f"the Makefile has no target {words[1]}"
            continue
        if words[0] not in ("widen", "python"):
            continue
        start = [sys.executable, *(["-m", "widen"] if words[0] == "widen" else []), *words[1:]]
        done = subprocess.run(start, capture_output=True, text=True, timeout=300)
        if done.returncode:
            return f"{command} ended with {done.returncode}:\n{done.stderr[-2000:]}"
        if wanted.strip() and not alike(wanted, done.stdout):
            return f"{command}\n{difference(wanted, done.stdout)}"
    return ""


def failures(text: str, page: str) -> list[str]:
    r"""Run all examples of a page in an empty folder; return what went wrong, with its place.

    >>> failures("```python\nprint(1 + 1)\n```\n```output\n3\n```\n", "page")
    ['page:5: expected:\n3\n\ngot:\n2\n']
    """
    names: dict[str, Any] = {"__name__": "page"}
    wrong, printed = [], ""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks(text):
            why = ""
            if block.language == "python":
                printed, why = run_python(block, names, page)
            elif block.language == "console":
                why = run_console(block)
            elif block.language == "output" and not alike(block.text, printed):
                why = difference(block.text, printed)
            if why:
                wrong.append(f"{page}:{block.line}: {why}")
    return wrong
