"""Arguments of `linalg` as real matrices of float64 words, and results as what the caller gave.

Complex matrices are real ones of twice the size: (A + iB)(x + iy) = c + id is [[A, -B], [B, A]]
times (x, y) = (c, d). So one proof serves both, for twice the work of complex arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from widen.calls import check
from widen.calls.cpu_tensors import as_array
from widen.formats import PLAIN, Format, computed_in, default_result
from widen.formats.arrays import (
    as_tensor,
    cast,
    empty,
    is_tensor,
    is_uniform,
    library_of,
    new_planes,
    place_of,
    words_of,
)
from widen.linalg.arrays import complex_of
from widen.linalg.bounds import FORMATS, above
from widen.words import Words
from widen.words.joining import joined

ACCURACIES = ("correct", "enclosed")


@dataclass(frozen=True)
class Given:
    """Checked operands of one call.

    Attributes
    ----------
    arrays
        The operands, (..., rows, columns), real or complex, float64 or `Words` of float64.
    fmt
        The format of the result.
    place
        Where they came from: "numpy", "cpu" for tensors there, or a GPU's name.
    """

    arrays: tuple[Any, ...]
    fmt: Format
    place: str

    @property
    def parts(self) -> int:
        """2 where the matrix of the system is complex."""
        return parts_of(self.arrays[0])


def parts_of(x: Any) -> int:
    """2 for complex numbers."""
    return check.format_of(x.dtype, "x").parts


def wants_gradient(*tensors: Any) -> bool:
    """Whether PyTorch shall differentiate what becomes of these."""
    asked = [x for x in tensors if is_tensor(x) and x.requires_grad]
    return bool(asked) and bool(library_of(asked[0]).is_grad_enabled())


def given(dtype: Any, **operands: Any) -> Given:
    """Check operands: their library, formats, and that all numbers are finite."""
    place = check.library(**operands)
    checked = {name: check.as_operand(x, name) for name, x in operands.items()}
    formats = [check.format_of(x.dtype, name) for name, x in checked.items()]
    default = computed_in(default_result(formats[0], formats[-1]))
    fmt = check.result_format(dtype, default)
    if fmt != computed_in(fmt):
        raise ValueError(f"dtype={fmt.name}: linalg gives float32 or more; round its answer")
    arrays = []
    for name, x in checked.items():
        wide = widened(as_array(x) if place == "cpu" else x)
        first = wide.planes[0] if isinstance(wide, Words) else wide
        if not bool(library_of(first).isfinite(first).all()):
            raise ValueError(f"{name} holds NaN or infinity, for which there is no exact answer")
        arrays.append(wide)
    return Given(tuple(arrays), fmt, place)


def widened(x: Any) -> Any:
    """The same numbers in float64 or complex128, or in `Words` of these."""
    if not isinstance(x, Words):
        name = "complex128" if parts_of(x) == 2 else "float64"
        return cast(x.astype(x.dtype.newbyteorder("=")) if isinstance(x, np.ndarray) else x, name)
    if is_uniform(x.format) and words_of(x.format)[0] == "float64":
        return x
    real = FORMATS[len(x.planes)]
    return x.astype(real if x.format.parts == 1 else real.replace("float64", "complex128"))


def check_square(x: Any, name: str = "a") -> None:
    """Whether an operand is a square matrix, or a batch of them."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} has shape {tuple(x.shape)}; give square matrices (..., n, n)")


def check_accuracy(accuracy: Any) -> bool:
    """Whether only an enclosure is asked for."""
    if accuracy not in ACCURACIES:
        raise ValueError(f"accuracy={accuracy!r} is not known; use 'correct' or 'enclosed'")
    return bool(accuracy == "enclosed")


# ── real parts ───────────────────────────────────────────────────────────────


def real(x: Any) -> Any:
    """Real parts."""
    return x.real if parts_of(x) == 2 else x


def imaginary(x: Any) -> Any:
    """Imaginary parts of complex numbers."""
    return x.imag


def beside(arrays: list[Any], axis: int) -> Any:
    """Matrices joined along an axis."""
    if len(arrays) == 1:
        return arrays[0]
    if any(isinstance(x, Words) for x in arrays):
        return joined(arrays, axis, "concatenate")
    return library_of(arrays[0]).concatenate(arrays, axis)


def real_matrix(a: Any) -> Any:
    """A complex matrix as a real one of twice the size; a real one as it is."""
    if parts_of(a) == 1:
        return a
    re, im = real(a), imaginary(a)
    return beside([beside([re, -im], 1), beside([im, re], 1)], 0)


def real_sides(b: Any, parts: int, wanted: int) -> Any:
    """Right-hand sides of a matrix of so many parts, for results of `wanted` parts.

    Both parts stand below one another for a complex matrix, beside one another for a real one.
    """
    if wanted == 1:
        return b
    both = [b, b * 0] if parts_of(b) == 1 else [real(b), imaginary(b)]
    return beside(both, 0 if parts == 2 else 1)


def split(planes: list[Any], parts: int, fmt: Format) -> list[Any]:
    """Planes of a real solution as planes (parts, n, m)."""
    if fmt.parts == 1:
        return [plane[None] for plane in planes]
    library = library_of(planes[0])
    if parts == 2:
        half = planes[0].shape[0] // 2
        return [library.stack([plane[:half], plane[half:]]) for plane in planes]
    half = planes[0].shape[1] // 2
    return [library.stack([plane[:, :half], plane[:, half:]]) for plane in planes]


# ── batches and results ──────────────────────────────────────────────────────


def batch_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that batches have together."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise ValueError(f"batches of shapes {' and '.join(map(str, shapes))} do not broadcast; "
                         "NumPy's rules apply") from None  # fmt: skip


def each_matrix(x: Any, batch: tuple[int, ...]) -> Iterator[Any]:
    """The matrices of an operand, broadcast to a batch, in order."""
    own = tuple(x.shape[:-2])
    padded = (1,) * (len(batch) - len(own)) + own
    for at in np.ndindex(*batch):
        key = tuple(0 if size == 1 else i for i, size in zip(at, padded, strict=True))
        yield x[key[len(batch) - len(own) :]] if own else x


def assembled(pieces: list[list[Any]], shape: tuple[int, ...], call: Given, like: Any) -> Any:
    """Results of the caller's kind from planes (parts, n, m) of every matrix."""
    fmt, place = call.fmt, place_of(like)
    whole = (fmt.parts, *shape)
    if fmt.name in PLAIN:
        planes: Any = [empty(whole, fmt.part.words[0].name, place)]
    else:
        planes = new_planes(fmt, whole, place)  # type: ignore[arg-type]
    for k, target in enumerate(planes):
        flat = target.reshape(fmt.parts, len(pieces), *shape[-2:])
        for at, piece in enumerate(pieces):
            flat[:, at] = piece[k]
    if fmt.name not in PLAIN:
        result: Any = Words.of(fmt, planes)  # type: ignore[arg-type]
    else:
        result = planes[0][0] if fmt.parts == 1 else complex_of(planes[0])
    return returned(result, call)


def returned(x: Any, call: Given) -> Any:
    """A result where the operands came from: tensors on a CPU were arrays meanwhile."""
    if call.place != "cpu":
        return x
    if isinstance(x, Words):
        return Words.of(x.format, [as_tensor(plane) for plane in x.planes])
    return as_tensor(x)


def joined_radius(radius: Any, parts: int, fmt: Format) -> Any:
    """Bounds of the modulus of errors, from those of both parts."""
    if fmt.parts == 1:
        return radius
    both = split([radius], parts, fmt)[0]
    return above(library_of(radius).hypot(both[0], both[1]))
