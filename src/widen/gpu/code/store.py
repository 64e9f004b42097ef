"""Where machine code is found: what came with the package, then what was kept on disk.

Both are keyed by content (`variants`), and no byte of a file is used before its digest was checked.
What cannot be written is compiled by every process anew; what is damaged is compiled and replaced.
Processes that begin at once compile a kernel once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from widen.stages.compiling import kept
from widen.stages.compiling.packs import Pack
from widen.stages.compiling.turns import Turn

SHIPPED = Path(__file__).parent.parent / "shipped"
"""Packs that came with the package, one for each compute capability; none in a checkout."""


@cache
def pack_of(architecture: int) -> Pack:
    """The pack for a compute capability, 90 for 9.0; there may be nothing in it."""
    return Pack(SHIPPED / f"sm_{architecture}.pack")


def directory() -> Path:
    """Where code is kept that was compiled here."""
    return Path.home() / ".cache" / "widen" / "gpu"


def copies(key: str, architecture: int) -> Iterator[bytes]:
    """What is there under a key, whole and unchanged: in the package, on disk."""
    shipped = pack_of(architecture).get(key)
    if shipped is not None:
        yield shipped
    here = read(key)
    if here is not None:
        yield here


def find(key: str, architecture: int) -> bytes | None:
    """The first of these, or None."""
    return next(copies(key, architecture), None)


def read(key: str) -> bytes | None:
    """What is kept on disk under a key, or None."""
    with suppress(RuntimeError):  # there is no home at all
        return kept.read(directory() / key, stamp=key.encode())
    return None


def keep(key: str, data: bytes) -> None:
    """Keep what was compiled for other processes, if there is a place to write."""
    with suppress(OSError, RuntimeError):
        kept.write(directory() / key, key.encode(), data)


@contextmanager
def turn(key: str) -> Iterator[None]:
    """A context for making what is kept under a key: one process at a time, others wait."""
    try:
        ours = Turn(directory() / key)
    except RuntimeError:  # there is no home at all
        yield
        return
    ours.take(wait=True)
    try:
        yield
    finally:
        ours.leave()
