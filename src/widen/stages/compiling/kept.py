"""Compiled code kept on disk: a file is all there and for these sources, or it is not there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

DIGEST = hashlib.sha256().digest_size


def read(path: Path, stamp: bytes) -> bytes | None:
    """What `write` put there with this stamp; None if it is missing, stale or damaged.

    A disk that was full or a machine that stopped leaves files that are short or full of zeros. No
    code from such a file may run, so every byte is in the digest.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, data = content[:DIGEST], content[DIGEST:]
    return data if digest == _digest(data, stamp) else None


def write(path: Path, stamp: bytes, data: bytes) -> None:
    """Write a file, or replace it, so that other processes see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        written = Path(directory, path.name)
        written.write_bytes(_digest(data, stamp) + data)
        os.replace(written, path)


def _digest(data: bytes, stamp: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(stamp).digest() + data).digest()
