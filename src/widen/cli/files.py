"""Matrices in files: .npy ones mapped, not read; all written whole or not at all."""

import errno
import math
import os
import secrets
import shutil
import signal
import stat
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from widen.cli import formats
from widen.cli.errors import CommandError, output_errors, reason
from widen.formats import PLAIN

Array = NDArray[Any]


STANDARD = "-"
"""What stands for standard input or output in the place of a file's name."""


def map_matrix(name: str) -> Array:
    """Map the array of floats in a .npy file, without reading it; read that of another file."""
    if name == STANDARD:
        raise CommandError(
            "- is standard input, and inputs are mapped, not read: save it in a file, cat > A.npy, "
            "and give that (./- for a file of this name)"
        )
    path, _ = formats.split(name)
    if path.suffix.lower() in formats.READERS:
        check_regular(path)
        array = formats.read(name)
        assert array is not None
        check_numbers(path, array.dtype)
        return array
    path = Path(name)
    check_magic(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's about a size that overflows: it is an error
            check_shape(path)
            array = np.asarray(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, TypeError, OverflowError) as error:  # whatever a header may hold
        if "Python objects" in str(error):
            raise CommandError(
                f"{path} holds pickled Python objects: save an array of floats, "
                "np.save(path, a.astype(float))"
            ) from error
        raise CommandError(f"{path} is damaged ({error}): save it again with np.save") from error
    except OSError as error:
        raise CommandError(f"cannot map {path}: {reason(error)}") from error
    check_numbers(path, array.dtype)
    return array


def check_shape(path: Path) -> None:
    """Raise a ValueError where a header has a shape that its file does not hold."""
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        if version not in readers:
            return
        shape, _, dtype = readers[version](file)
        wanted, there = math.prod(shape) * dtype.itemsize, path.stat().st_size - file.tell()
    if any(size < 0 for size in shape):
        raise ValueError(f"its header has a negative shape, {shape}")
    if wanted > there and not dtype.hasobject:
        raise ValueError(f"its header has the shape {shape}, {wanted} bytes; it holds {there}")


def check_regular(path: Path) -> bytes:
    """Refuse what is no file that can be read, saying what to do instead; give its first bytes."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # to open a pipe is to wait for it
            raise CommandError(
                f"{path} is not a regular file: a pipe, as <(...) is one, cannot be mapped; save "
                "it in a file, ... > A.npy, and give that"
            )
        with path.open("rb") as file:
            return file.read(6)
    except FileNotFoundError as error:
        raise CommandError(f"{path} does not exist: check the name") from error
    except IsADirectoryError as error:
        raise CommandError(f"{path} is a directory: name a .npy file in it") from error
    except OSError as error:
        raise CommandError(f"cannot read {path}: {reason(error)}") from error


def check_magic(path: Path) -> None:
    """Refuse what is not a .npy file, saying what to do instead."""
    magic = check_regular(path)
    if magic[:4] == b"PK\x03\x04":
        raise CommandError(
            f"{path} is an archive of arrays: name it .npz, or save the one you mean with "
            "np.save(path, a)"
        )
    if magic != b"\x93NUMPY":
        raise CommandError(
            f"{path} is not a .npy file: write it with np.save(path, a); .npz, .mtx, .csv and "
            ".safetensors files are known by their names"
        )


def check_numbers(path: Path, dtype: np.dtype[Any]) -> None:
    """Refuse what is not an array of real or complex floats."""
    if dtype.name in PLAIN:
        return
    if dtype.kind in "fc":
        raise CommandError(
            f"{path} holds {dtype}: save it with np.save(path, a.astype(np.float64)), or give "
            "widen.Words(a, dtype=widen.float64x2) in Python, which keeps all bits"
        )
    if dtype.kind == "V" and dtype.names is None:
        raise CommandError(
            f"{path} holds raw {dtype.itemsize}-byte items: .npy files cannot name bfloat16 or "
            "float8; save it as float32, np.save(path, a.astype(np.float32))"
        )
    raise CommandError(
        f"{path} holds {dtype}: widen multiplies floats; save it with "
        "np.save(path, a.astype(float))"
    )


@contextmanager
def new_matrix(target: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Array]:
    """Give a mapped array that becomes the file `target` when the block ends well.

    The array lies in a temporary .npy file beside the target, which another is written from if the
    target's name ends in .npz, .mtx or .safetensors. An error, Ctrl-C or a request to
    terminate removes it and leaves the target as it was.
    """
    check_target(target)
    formats.check_writable(target, shape, dtype)
    writer = formats.WRITERS.get(target.suffix.lower())
    target = Path(os.path.realpath(target))  # a link stays a link
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    written = temporary if writer is None else temporary.with_suffix(f".tmp{target.suffix}")
    with terminate_by_exception():
        try:
            with write_errors(target):
                array = create(temporary, shape, dtype)
            yield np.asarray(array)
            with write_errors(target):
                array.flush()
                if writer is not None:
                    writer(np.asarray(array), written)
                if target.exists():
                    shutil.copymode(target, written)
                written.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
            written.unlink(missing_ok=True)


@contextmanager
def standard_output(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Array]:
    """Give a mapped array that is written to standard output when the block ends well.

    Until then it lies in a temporary file: nothing is written of a product that fails, and no
    memory of its size is taken.
    """
    if sys.stdout is None or sys.stdout.isatty():
        raise CommandError(
            "standard output is a terminal: send it to a file or a program, as in "
            "widen matmul A.npy B.npy -o - | ..., or name a file with -o"
        )
    formats.check_writable(Path("C.npy"), shape, dtype)
    with terminate_by_exception(), temporary_directory() as directory:
        file = directory / "C.npy"
        try:
            array = create(file, shape, dtype)
        except OSError as error:
            raise temporary_error(error) from error
        yield np.asarray(array)
        array.flush()
        with file.open("rb") as written, output_errors():
            shutil.copyfileobj(written, sys.stdout.buffer, 1 << 20)
            sys.stdout.buffer.flush()


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Give a directory that is removed afterwards."""
    try:
        directory = tempfile.TemporaryDirectory(prefix="widen-")
    except OSError as error:
        raise temporary_error(error) from error
    with directory as name:
        yield Path(name)


def temporary_error(error: OSError) -> CommandError:
    """Say that there is no room for temporary files."""
    return CommandError(
        f"cannot write a temporary file: {reason(error)}; set TMPDIR to a directory with room for "
        "the product, or name a file with -o"
    )


def check_target(target: Path) -> None:
    """Refuse a target that cannot be written, before any work is done."""
    directory = target.parent
    if not directory.exists():
        raise CommandError(
            f"the directory {directory} does not exist: make it, mkdir -p {directory}"
        )
    if not directory.is_dir():
        raise CommandError(f"{directory} is not a directory: choose another output with -o")
    if target.is_dir():
        raise CommandError(f"{target} is a directory: name a file in it, -o {target / 'C.npy'}")
    if target.exists() and not target.is_file():
        raise CommandError(f"{target} is not a regular file: choose another output with -o")
    if target.exists() and not os.access(target, os.W_OK):
        raise CommandError(f"{target} is read-only: choose another output with -o")


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> "np.memmap[Any, Any]":
    """Create a .npy file and map it, with its space on the disk reserved."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666))
    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    # A mapped file is sparse: without this a full disk is a bus error in the middle of the work.
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, max(1, path.stat().st_size))
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
    return array


@contextmanager
def write_errors(target: Path) -> Iterator[None]:
    """Explain why a file could not be written."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "free some space, or " if full else ""
        raise CommandError(
            f"cannot write {target}: {reason(error)}; {advice}choose another output with -o"
        ) from error


@contextmanager
def terminate_by_exception() -> Iterator[None]:
    """Let SIGTERM, which batch systems send, and SIGHUP, which a lost terminal sends, unwind.

    The stack unwinds as after Ctrl-C. What is ignored, as under nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    previous = [signal.signal(number, stop) for number in handled]
    try:
        yield
    finally:
        for number, handler in zip(handled, previous, strict=True):
            signal.signal(number, handler)
