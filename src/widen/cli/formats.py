"""Matrices in other files than .npy: members of .npz, .mtx, .csv and .safetensors."""

import json
import zipfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widen.cli.errors import CommandError, reason
from widen.formats.arrays import numpy_dtype
from widen.words.files import DAMAGED

Array = NDArray[Any]

NAMED = (".npz", ".safetensors")
"""Files of several arrays: FILE:NAME says which."""


def split(name: str) -> tuple[Path, str | None]:
    """A file, and the array in it that is meant.

    >>> split("data.npz:weights")[1], split("a:b.npy")[1]
    ('weights', None)
    """
    for suffix in NAMED:
        before, separator, member = name.rpartition(f"{suffix}:")
        if separator:
            return Path(before + suffix), member
    return Path(name), None


def read(name: str) -> Array | None:
    """The array in a file of one of these formats, None if it is of another."""
    path, member = split(name)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        return None
    try:
        return reader(path, member)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {reason(error)}") from error


def _member(path: Path, wanted: str | None, names: list[str]) -> str:
    """Which of several arrays is meant."""
    listed = ", ".join(sorted(names)) or "nothing"
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None:
        raise CommandError(f"{path} holds {listed}: say which, {path}:NAME")
    if wanted not in names:
        raise CommandError(f"{path} has no {wanted}: it holds {listed}")
    return wanted


def _read_npz(path: Path, member: str | None) -> Array:
    try:
        archive = np.load(path, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise CommandError(f"{path} is not a .npz file: write it with np.savez(path, a=a)")
        with archive:
            return np.asarray(archive[_member(path, member, list(archive.files))])
    except DAMAGED as error:
        if "allow_pickle" in str(error) and zipfile.is_zipfile(path):
            raise CommandError(
                f"{path} holds pickled Python objects: save arrays of floats with np.savez"
            ) from error
        raise CommandError(f"{path} is damaged, or no .npz file: save it with np.savez") from error


def _read_safetensors(path: Path, member: str | None) -> Array:
    library = _safetensors()
    path.stat()  # an error of its own where there is no such file
    try:
        with library.safe_open(path, framework="numpy") as file:
            name = _member(path, member, list(file.keys()))
            kind = file.get_slice(name).get_dtype()
            if kind == "BF16":
                return _read_bfloat16(path, name)
            if kind.startswith("F") and kind not in ("F64", "F32", "F16"):
                raise CommandError(
                    f"{name} of {path} holds {kind}: save it as float16, bfloat16 or float32"
                )
            return np.asarray(file.get_tensor(name))
    except library.SafetensorError as error:
        raise CommandError(f"{path} is damaged, or no .safetensors file ({error})") from error


def _read_bfloat16(path: Path, name: str) -> Array:
    """A tensor whose dtype NumPy does not name; the library has checked the header."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[name]
        file.seek(8 + size + entry["data_offsets"][0])
        data = file.read(entry["data_offsets"][1] - entry["data_offsets"][0])
    return np.frombuffer(data, numpy_dtype("bfloat16")).reshape(entry["shape"])


def _safetensors() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise CommandError(
            "safetensors is not here: install it, pip install 'widen[safetensors]'"
        ) from error
    return safetensors


# ── text ─────────────────────────────────────────────────────────────────────


def _read_csv(path: Path, member: str | None) -> Array:
    """Rows of numbers, separated by commas; every number is rounded once."""
    rows: list[list[complex]] = []
    for place, line in _lines(path):
        if line and not line.startswith("#"):
            rows.append([_number(word, path, place) for word in line.split(",")])
            if len(rows[-1]) != len(rows[0]):
                raise CommandError(
                    f"{path}, line {place}: {len(rows[-1])} numbers, the first row has "
                    f"{len(rows[0])}"
                )
    if not rows:
        raise CommandError(f"{path} is empty: write rows of numbers, separated by commas")
    is_complex = any(isinstance(x, complex) for row in rows for x in row)
    return np.array(rows, complex if is_complex else float)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines by their numbers, from 1, without what is around them."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for place, line in enumerate(file, 1):
                yield place, line.strip()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not text in UTF-8: save it so") from error


def _number(word: str, path: Path, place: int) -> Any:
    plain = word.strip()
    for kind in (float, complex):
        try:
            if "_" not in plain:  # which Python's own numbers may have
                return kind(plain.replace(" ", "") if kind is complex else plain)
        except ValueError:
            continue
    raise CommandError(f"{path}, line {place}: {plain!r} is not a number{_advice(plain, path)}")


def _advice(word: str, path: Path) -> str:
    """What may be meant by a word that is no number, and what to do then."""
    if not word:
        return ": write nan where none is known, and no comma at the end of a line"
    if ";" in word or "\t" in word:
        return ": separate numbers by commas"
    if word[0] in "\"'":
        return ": write numbers without quotation marks"
    if path.suffix.lower() == ".csv" and word[0].isalpha():
        return ": take names of columns or rows out, or begin their line with #"
    return ""


SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


def _read_mtx(path: Path, member: str | None) -> Array:
    """A dense matrix in Matrix Market's format: columns, one after the other."""
    lines = _lines(path)
    _, banner = next(lines, (0, ""))
    words = banner.lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise CommandError(f"{path} is no Matrix Market file: it begins with %%MatrixMarket matrix")
    _, _, kind, field, symmetry = words
    if kind != "array":
        raise CommandError(f"{path} is sparse ({kind}): widen multiplies dense ones, 'array'")
    if field not in ("real", "integer", "double", "complex") or symmetry not in SYMMETRIES:
        raise CommandError(f"{path}: {field} {symmetry} is not read here")
    entries = ((place, line) for place, line in lines if line and not line.startswith("%"))
    place, sizes = next(entries, (0, ""))
    rows, columns = _sizes(sizes, path, place)
    width = 2 if field == "complex" else 1
    if symmetry != "general" and rows != columns:
        raise CommandError(f"{path} is {symmetry}, and has {rows} rows and {columns} columns")
    if rows * columns > 4 * path.stat().st_size:  # a number and its end are two bytes at least
        raise CommandError(f"{path} ends too early: it has {rows} rows and {columns} columns")
    values = np.zeros((rows, columns), complex if width == 2 else float)
    for i, j in _places(rows, columns, symmetry):
        place, line = next(entries, (0, ""))
        numbers = line.split()
        if not place:
            raise CommandError(f"{path} ends too early: it has {rows} rows and {columns} columns")
        if len(numbers) != width:
            raise CommandError(f"{path}, line {place}: {len(numbers)} numbers instead of {width}")
        parts = [_number(word, path, place) for word in numbers]
        if field == "integer" and line.lstrip("+-").isdigit() and int(line) != parts[0]:
            raise CommandError(
                f"{path}, line {place}: no float64 holds the integer {line}; widen.Words does"
            )
        if any(isinstance(part, complex) for part in parts):
            raise CommandError(f"{path}, line {place}: {line!r} are not real numbers")
        values[i, j] = complex(*parts) if width == 2 else parts[0]
        if i != j and symmetry != "general":
            other = values[i, j].conjugate() if symmetry == "hermitian" else values[i, j]
            values[j, i] = -other if symmetry == "skew-symmetric" else other
    for place, _ in islice(entries, 1):
        raise CommandError(f"{path}, line {place}: more numbers than its sizes say")
    return values


def _places(rows: int, columns: int, symmetry: str) -> Iterator[tuple[int, int]]:
    """Rows and columns of the entries that are written."""
    for j in range(columns):
        first = {"general": 0, "skew-symmetric": j + 1}.get(symmetry, j)
        yield from ((i, j) for i in range(first, rows))


def _sizes(line: str, path: Path, place: int) -> tuple[int, int]:
    words = line.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        raise CommandError(f"{path}, line {place}: two sizes are expected, not {line!r}")
    return int(words[0]), int(words[1])


READERS: dict[str, Callable[[Path, str | None], Array]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".mtx": _read_mtx,
    ".csv": _read_csv,
}


# ── writing ──────────────────────────────────────────────────────────────────


def check_writable(target: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what a format cannot hold, before any work is done."""
    suffix = target.suffix.lower()
    if suffix == ".csv":
        raise CommandError(".csv files are read, not written: use -o C.npy, .npz, .mtx or another")
    if suffix == ".safetensors":
        _safetensors()
        if dtype == np.complex128:
            raise CommandError(".safetensors files hold no complex128: use -o C.npy, or complex64")
        return
    if dtype.name == "bfloat16":
        raise CommandError(
            "only .safetensors files can name bfloat16: use -o C.safetensors, or --dtype float32"
        )
    if suffix == ".mtx" and len(shape) > 2:
        raise CommandError(f".mtx files hold matrices, not shape {shape}: use -o C.npy")


def _write_npz(array: Array, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, C=array)


def _write_safetensors(array: Array, path: Path) -> None:
    _safetensors().numpy.save_file({"C": np.ascontiguousarray(array)}, path)


def _write_mtx(array: Array, path: Path) -> None:
    """Every number in the fewest digits that give it back."""
    matrix = array.reshape(len(array), -1) if array.ndim else array.reshape(1, 1)
    is_complex = matrix.dtype.kind == "c"
    with path.open("w", encoding="ascii") as file:
        file.write(f"%%MatrixMarket matrix array {'complex' if is_complex else 'real'} general\n")
        file.write(f"{matrix.shape[0]} {matrix.shape[1]}\n")
        for column in matrix.T:
            for x in column.tolist():
                file.write(f"{x.real!r} {x.imag!r}\n" if is_complex else f"{x!r}\n")


WRITERS: dict[str, Callable[[Array, Path], None]] = {
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
    ".mtx": _write_mtx,
}
