"""Tile sizes of the Triton kernels, as measured on an H200."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST_SUM = (1 << 17) - 128
"""Terms of entries up to 128 that an int32 holds, a multiple of every inner tile."""

ELEMENTS, TERMS = 4096, 256
"""Marks looked at together, and terms of a dot product added together, in repairs."""


@dataclass(frozen=True)
class LineTile:
    """Lines and entries of each that a program reads at a time."""

    lines: int
    inner: int
    warps: int


@dataclass(frozen=True)
class ProductTile:
    """Rows and columns of a product, inner length of a step, and rows of tiles taken together."""

    rows: int
    columns: int
    inner: int = 128
    warps: int = 4
    stages: int = 3
    group: int = 8


SURVEY_INNER, SURVEY_LINES = LineTile(2, 512, 4), LineTile(32, 32, 4)
ENCODE_INNER, ENCODE_LINES = LineTile(16, 128, 4), LineTile(32, 64, 4)
MULTIPLY, CERTIFY = ProductTile(128, 128), ProductTile(128, 128)
CERTIFY_PAIRS = ProductTile(128, 64)
RECONSTRUCT = ProductTile(1, 512, inner=0)
RECONSTRUCT_SCALED = ProductTile(1, 128, inner=0)

BLOCKS = 1024
"""Programs that keep a large GPU busy with reading."""


def share(inner: int, blocks: int, step: int) -> int:
    """Entries of a line that one program reads, so that there are BLOCKS programs if possible."""
    pieces = max(1, min(-(-inner // step), BLOCKS // max(blocks, 1)))
    return -(-inner // (pieces * step)) * step
