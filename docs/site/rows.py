"""Rows of bench/results: what was measured, found by what it was measured of."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "bench" / "results"
Row = dict[str, Any]

SHOWN = {
    "accuracy": "2026-11-16T06:57:55",
    "cpu": "2026-11-16T06:29:08",
    "distributed": "2026-11-18T06:39:24",
    "elementwise": "2026-11-15T21:45:23",
    "emulate": "2026-11-18T03:19:31",
    "gpu": "2026-11-20T01:58:48",
    "hard": "2026-11-18T06:46:18",
    "peers": "2026-11-18T05:34:03",
    "shapes": "2026-11-18T23:45:46",
    "words": "2026-11-16T06:51:04",
}
"""The run that README and site show of each file. Newer rows are shown when this date is changed,
and the figures in the text with it (`tests/house/test_site.py` compares them)."""


@cache
def rows(name: str) -> tuple[Row, ...]:
    """Return all rows of a file, oldest first."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines if line.strip())


def shown(name: str) -> list[Row]:
    """Return the rows of a file that are not newer than what is shown."""
    return [row for row in rows(name) if row["date"][:19] <= SHOWN[name]]


def latest(name: str, **wanted: Any) -> Row:
    """Return the last row of a file, not newer than what is shown, that has all these values."""
    found = [row for row in shown(name) if all(row.get(key) == x for key, x in wanted.items())]
    if not found:
        raise LookupError(f"bench/results/{name}.jsonl has no row with {wanted}")
    return found[-1]


def gpu(kind: str, n: int) -> Row:
    """Return the last row of `python bench/gpu.py` for a kind of product of n × n matrices."""
    return latest("gpu", row=kind, n=n, m=n, k=n, machine="NVIDIA H200")


def cpu(accuracy: str, shape: tuple[int, int, int]) -> Row:
    """Return the last row of `python bench/cpu.py` for a contract and a shape, on the EPYC."""
    return latest("cpu", accuracy=accuracy, shape=list(shape), cpu="AMD EPYC")


def accuracy(phi: float) -> dict[str, tuple[float, int, int]]:
    """Return error in u |A||B|, elements off and repaired, by product: `bench/accuracy.py`."""
    found: dict[str, tuple[float, int, int]] = latest("accuracy", phi=phi)[
        "error_u_and_off_and_repaired"
    ]
    return found


def peer(library: str, operand_bits: int, n: int) -> Row:
    """Return the last row of `python bench/peers.py` for a library."""
    return latest("peers", library=library, operand_bits=operand_bits, n=n)


def words_gpu() -> dict[str, Row]:
    """Return ms, TFLOP/s and products of square matrices by format: `bench/words_gpu.py`."""
    text = (RESULTS / "words-h200.md").read_text(encoding="utf-8")
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {
        line[0]: {"n": int(line[1]), "ms": float(line[3]), "tflops": float(line[4])}
        for line in cells[2:]
        if line[1] == line[2]
    }


def thin(name: str) -> Row:
    """Return the last row of `python bench/shapes.py --threads 2` for a shape, on the EPYC."""
    return latest("shapes", shape=name, accuracy="standard", threads=2, machine="AMD EPYC")


def elementwise(on_gpu: bool, fmt: str, operation: str) -> Row:
    """Return the last row of `python bench/elementwise.py` for an operation."""
    device = "NVIDIA H200" if on_gpu else "Intel(R) Xeon(R) Processor @ 2.80GHz"
    return latest("elementwise", device=device, format=fmt, operation=operation)


def hard_gpu() -> dict[str, dict[str, float]]:
    """Return ms of hard data on an H200, n = 4096, by family: native and three contracts."""
    text = (RESULTS / "hard-h200.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (.*?), 4096(?: \*)? \| (.*) \|$", text, re.MULTILINE)
    names = ("native", "fast", "standard", "correct")
    return {
        family: dict(zip(names, (float(x.split()[0]) for x in cells.split(" | ")), strict=False))
        for family, cells in lines
    }
