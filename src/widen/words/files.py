"""`Words` in files, .npz or .safetensors: one array a word, and the name of the format.

Nothing in them is code: no pickled object is written or read. A file appears when it is complete.
"""

from __future__ import annotations

import os
import secrets
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from widen.formats import COMPLEX, PLAIN, WORDS
from widen.formats.arrays import words_of
from widen.words.conversions import on_cpu
from widen.words.foreign import package

if TYPE_CHECKING:
    from widen.words.array import Words

FORMAT = "widen_format"
"""The entry that names the format; words are word0, word1 and so on, (parts, *shape)."""

SUFFIXES = (".npz", ".safetensors")

DAMAGED = (
    ValueError, KeyError, EOFError, OverflowError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a damaged archive raises: RuntimeError where a bit says that it is encrypted."""


def save(x: Words, path: Any) -> None:
    """Write words to a file."""
    target = Path(os.fspath(path))
    suffix = _suffix(target)
    planes = {f"word{at}": np.ascontiguousarray(on_cpu(plane)) for at, plane in enumerate(x.planes)}

    def in_archive(where: Path) -> None:
        np.savez(where, allow_pickle=False, **{FORMAT: np.array(x.format.name)}, **planes)

    def in_tensors(where: Path) -> None:
        library = package("safetensors.numpy", "widen[safetensors]")
        library.save_file(planes, where, metadata={FORMAT: x.format.name})

    written_whole(target, in_archive if suffix == ".npz" else in_tensors)


def written_whole(target: Path, write: Callable[[Path], None]) -> None:
    """Have a file written beside the target, which it then becomes."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp{target.suffix}")
    try:
        write(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _suffix(path: Path) -> str:
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path}: files of words end in {' or '.join(SUFFIXES)}")
    return path.suffix


def load(path: Any) -> Words:
    """The numbers of several words in a file that `Words.save` wrote, as NumPy arrays.

    Parameters
    ----------
    path
        A .npz or .safetensors file. Nothing in it is run: files of strangers are safe to load.

    Examples
    --------
    >>> import os, tempfile, widen
    >>> x = widen.Words(["1/3", "2/7"], dtype=widen.float64x4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     x.save(os.path.join(folder, "x.npz"))
    ...     y = widen.load(os.path.join(folder, "x.npz"))
    >>> bool((x == y).all()), y.dtype
    (True, widen.float64x4)
    """
    source = Path(os.fspath(path))
    read = _archive if _suffix(source) == ".npz" else _tensors
    try:
        name, planes = read(source)
        return _checked(name, planes)
    except DAMAGED as error:
        reason = str(error).strip("'\"").rstrip(".") or type(error).__name__
        raise ValueError(f"{source} holds no words, or is damaged: {reason}") from error


def _archive(source: Path) -> tuple[str, dict[str, Any]]:
    with source.open("rb") as file:
        if file.read(2) != b"PK":
            raise ValueError("it is not a .npz file")
    try:
        with np.load(source, allow_pickle=False) as members:
            if FORMAT not in members:
                raise ValueError(f"there is no {FORMAT} in it; np.load reads other archives")
            entries = {name: members[name] for name in members.files}
    except OSError as error:  # the file was opened: a member lies where there is no such place
        raise ValueError(str(error)) from error
    name = entries.pop(FORMAT)
    if name.dtype.kind != "U" or name.ndim:
        raise ValueError(f"{FORMAT} is no word")
    return str(name), entries


def _tensors(source: Path) -> tuple[str, dict[str, Any]]:
    library = package("safetensors", "widen[safetensors]")
    source.stat()  # an error of its own where there is no such file
    try:
        with library.safe_open(source, framework="numpy") as file:
            known = file.metadata() or {}
            if FORMAT not in known:
                raise ValueError(f"its metadata have no {FORMAT}")
            return known[FORMAT], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except library.SafetensorError as error:
        raise ValueError(str(error)) from error


def _checked(name: str, planes: dict[str, Any]) -> Words:
    """Words of these planes, if they are what words of this format are."""
    from widen.words.array import Words

    formats: dict[str, Any] = {**WORDS, **COMPLEX}
    if name not in formats or name in PLAIN:
        raise ValueError(f"{name!r} is no format of several words")
    fmt = formats[name]
    kinds = words_of(fmt)
    if sorted(planes) != sorted(f"word{at}" for at in range(len(kinds))):
        raise ValueError(f"{name} has {len(kinds)} words; there are {', '.join(sorted(planes))}")
    ordered = [planes[f"word{at}"] for at in range(len(kinds))]
    for at, (plane, kind) in enumerate(zip(ordered, kinds, strict=True)):
        same = plane.shape == ordered[0].shape and plane.shape[:1] == (fmt.parts,)
        if plane.dtype != np.dtype(kind) or not same:
            raise ValueError(f"word{at} has shape {plane.shape} and {plane.dtype}")
    given = Words.of(fmt, ordered)
    again = Words.from_planes(fmt, ordered)
    for ours, theirs in zip(given.planes, again.planes, strict=True):
        if not np.array_equal(ours, theirs, equal_nan=True):
            raise ValueError("its words overlap, or are not in order")
    return again
