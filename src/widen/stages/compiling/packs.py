"""A pack: one file of many pieces of compiled code by key, which comes with the package.

A head (magic, digest and length of the index), the index, then chunks of pieces, each compressed by
itself: pieces of one chunk resemble each other, which makes them a third as large. A piece is
handed out only if every byte of it is what was written under its key; a file that is damaged
anywhere gives less, or nothing, and never wrong code.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import struct
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from widen.stages.compiling.once import Lock

MAGIC = b"widen pack 1\n"
HEAD = struct.Struct("<32sQ")
CHUNK = 1 << 19
"""Bytes of a chunk, about, before compression: some 5 ms to read."""

FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9}]


class Pack:
    """Pieces of compiled code in a file that may be missing or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last: tuple[int, bytes] | None = None
        self._lock = Lock()

    @cached_property
    def index(self) -> dict[str, tuple[int, int, int, int, str]]:
        """Key -> start and length of its chunk, start and length in it, digest.

        Empty if there is no whole index.
        """
        try:
            with self.path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    return {}
                digest, length = HEAD.unpack(file.read(HEAD.size))
                text = file.read(min(length, self.path.stat().st_size))
        except (OSError, struct.error):
            return {}
        if hashlib.sha256(text).digest() != digest:
            return {}
        known: dict[str, tuple[int, int, int, int, str]] = json.loads(text)
        return known

    def get(self, key: str) -> bytes | None:
        """The piece with this key; None if it is missing or damaged."""
        place = self.index.get(key)
        if place is None:
            return None
        start, size, at, length, digest = place
        data = self._chunk(start, size)[at : at + length]
        return data if _digest(key, data) == digest else None

    def _chunk(self, start: int, size: int) -> bytes:
        """A chunk, of which the last one is kept; nothing if it is damaged."""
        with self._lock:
            if self._last is None or self._last[0] != start:
                try:
                    with self.path.open("rb") as file:
                        file.seek(-start, os.SEEK_END)
                        data = lzma.decompress(file.read(size), lzma.FORMAT_RAW, filters=FILTERS)
                except (OSError, lzma.LZMAError, EOFError):
                    return b""
                self._last = start, data
            return self._last[1]


def write(path: Path, pieces: Mapping[str, bytes]) -> None:
    """Write a pack, or replace it, at once; the same pieces give the same bytes.

    Neighbours should resemble each other.
    """
    chunks: list[dict[str, bytes]] = [{}]
    for key, data in pieces.items():
        if sum(map(len, chunks[-1].values())) + len(data) > CHUNK:
            chunks.append({})
        chunks[-1][key] = data
    packed = [
        lzma.compress(b"".join(chunk.values()), lzma.FORMAT_RAW, filters=FILTERS)
        for chunk in chunks
    ]
    index, left = {}, sum(map(len, packed))  # places are counted from the end of the file
    for chunk, data in zip(chunks, packed, strict=True):
        at = 0
        for key, piece in chunk.items():
            index[key] = (left, len(data), at, len(piece), _digest(key, piece))
            at += len(piece)
        left -= len(data)
    text = json.dumps(index, separators=(",", ":")).encode()
    head = MAGIC + HEAD.pack(hashlib.sha256(text).digest(), len(text))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(b"".join((head, text, *packed)))
    os.replace(fresh, path)


def _digest(key: str, data: bytes) -> str:
    """Of a piece under its key: one that belongs to another key is none."""
    return hashlib.sha256(key.encode() + b"\n" + data).hexdigest()
