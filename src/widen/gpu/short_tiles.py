"""Tiles of short lines, which programs look at as a whole (`kernels.triton.short_lines`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

SHORT, SHORT_PROGRAMS = 2048, 132
"""Numbers of a line that a program can hold, with some others, if that makes so many programs."""

HELD = 32
"""Numbers of columns that a thread holds: twice as many registers."""


@dataclass(frozen=True)
class ShortTile:
    """Whole lines that a program looks at: `chunks` times `inner` entries, one load a chunk."""

    lines: int
    inner: int
    chunks: int
    warps: int

    @property
    def named(self) -> dict[str, Any]:
        """As kernels name it."""
        return {"LINES": self.lines, "INNER": self.inner, "CHUNKS": self.chunks}


class Side(NamedTuple):
    """Bytes of an operand's floats, their parts, and whether its lines lie near each other."""

    size: int
    parts: int
    near: bool

    @property
    def across(self) -> int:
        """Entries that a thread loads at a time: 16 bytes, or a few halves."""
        return max(1, min(16 // (self.size * self.parts), 4))


@lru_cache(maxsize=256)
def short_tiles(sides: tuple[Side, ...], inner: int) -> tuple[ShortTile, ...]:
    """Tiles for lines of so many entries, of the same number of warps.

    Of lines that are near, four threads (two of very many) have stripes of 64 bytes, and others the
    next entries; else neighbouring threads have neighbours of a line.
    """
    length = max(16, 1 << (inner - 1).bit_length())
    depths = [length // _chunks_near(side, length) for side in sides if side.near]
    threads = max((depth * (4 if depth <= 128 else 2) for depth in depths), default=128)
    warps = max(1, threads // 32)
    return tuple(_short_tile(side, length, warps) for side in sides)


def _chunks_near(side: Side, length: int) -> int:
    """Chunks of columns: eight leads of one byte are stored at a time."""
    return 8 if length < 64 else max(8, HELD // (side.across * side.parts))


def _short_tile(side: Side, length: int, warps: int) -> ShortTile:
    if side.near:
        chunks = _chunks_near(side, length)
        width = length // chunks
    else:
        width = max(length // 8, side.across)
        chunks = length // width
    return ShortTile(32 * warps * side.across // width, width, chunks, warps)
