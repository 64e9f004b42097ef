"""Values within intervals as what the caller gave, rounded where that is decided, and vectors."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from widen.formats import PLAIN, Format, Part, complex_of
from widen.formats.arrays import cast
from widen.linalg import angles, operands
from widen.linalg.arrays import is_complex, moved_like, on_host
from widen.linalg.bounds import PRECISION, first_words
from widen.linalg.operands import Given
from widen.linalg.records import EigenInfo
from widen.linalg.scaling import each_plane
from widen.linalg.spectrum import Values
from widen.words import Words

TURNED = 256.0
"""Units of words, more than `turned_columns` loses of complex numbers: real operations lose at most
30 of them (`words.bounds`), a modulus 15, a complex quotient 80, a complex product 23."""


def check_matrices(x: Any) -> None:
    """Whether an operand is a matrix, or a batch of them."""
    if x.ndim < 2:
        raise ValueError(f"a has shape {tuple(x.shape)}; give matrices (..., m, n)")


def check_not_empty(x: Any) -> None:
    """The same, and whether there is anything in them."""
    check_matrices(x)
    if 0 in x.shape[-2:]:
        raise ValueError(f"a has shape {tuple(x.shape)}, and nothing in it has no size")


def real_result(dtype: Any, a: Any) -> Given:
    """Checked operands, and a real result."""
    call = operands.given(None, a=a)
    fmt: Format = call.fmt.part
    if dtype is not None:
        fmt = operands.given(dtype, a=operands.real(call.arrays[0])).fmt
        if fmt.parts == 2:
            raise ValueError(f"dtype={fmt.name}: these values are real; use {fmt.part.name}")
    return Given(call.arrays, fmt, call.place)


def each_matrix(call: Given) -> list[Any]:
    """The matrices of the operand, in order."""
    (array,) = call.arrays
    return list(operands.each_matrix(array, tuple(array.shape[:-2])))


def collected(call: Given, each: list[Values], shape: tuple[int, ...], since: float) -> Any:
    """Values of all matrices in a shape, and a record."""
    part = call.fmt.part
    found = [enclosures.intervals.rounded(part) for enclosures in each]
    like = first_words(operands.real(call.arrays[0]))

    def placed(line: Any, name: str) -> Any:
        return moved_like(np.array(line, name).reshape(shape), like)

    planes = [placed([words[k] for words, _, _ in found], w.name) for k, w in enumerate(part.words)]
    if call.fmt.name in PLAIN:
        result: Any = planes[0]
    else:
        result = Words.of(call.fmt, [plane[None] for plane in planes])  # type: ignore[arg-type]
    if not shape and isinstance(result, np.ndarray) and call.place == "numpy":
        result = result[()]
    else:
        result = operands.returned(result, call)
    record = EigenInfo(
        operands.returned(placed([radii for _, _, radii in found], "float64"), call),
        operands.returned(placed([decided for _, decided, _ in found], "bool"), call),
        max((enclosures.words for enclosures in each), default=0),
        perf_counter() - since,
        **_of_vectors(call, each, shape),
    )
    return result, record


def _of_vectors(call: Given, each: list[Values], shape: tuple[int, ...]) -> dict[str, Any]:
    """What a record says of vectors that were rounded to the format of the result."""
    kept = [enclosures.vectors for enclosures in each]
    if not kept or any(vectors is None for vectors in kept):
        return {}
    part, like = call.fmt.part, first_words(operands.real(call.arrays[0]))
    sines, labels, worst = [], [], 0.0
    for enclosures, vectors in zip(each, kept, strict=True):
        assert vectors is not None
        rows = max(max(side.shape) for side in vectors.sides)
        turned = TURNED * 2.0 ** -PRECISION[enclosures.words] if call.parts == 2 else 0.0
        sines.append(angles.rounded_sines(vectors.sines + turned, rows, part))
        labels.append(vectors.labels)
        # |Y'Y - X'X| <= 2 |X||D| + |D|^2 for Y = X + D, and |D|_F <= (2^-p + turned) |X|_F.
        unit = 2.0**-part.precision + turned
        change = unit * rows**0.5 + rows * 2.0 ** max(part.lowest, -1074)
        worst = max(worst, float((vectors.phi + 3 * change) * (1 + 2.0**-10)))

    def placed(line: Any) -> Any:
        return operands.returned(moved_like(np.array(line).reshape(shape), like), call)

    return {"angle": placed(sines), "cluster": placed(labels), "orthogonality": worst}


# ── vectors ──────────────────────────────────────────────────────────────────


def vector_call(call: Given) -> Given:
    """The same call for vectors, which are complex where the matrices are."""
    if call.parts == 1:
        return call
    return Given(call.arrays, complex_of(call.fmt.part), call.place)


def turned_columns(*sides: Any) -> list[Any]:
    """Columns times numbers of modulus 1, so that the largest of the first side is positive."""
    x = sides[0]
    first = on_host(first_words(x))
    at = abs(first).argmax(0)
    across = np.arange(first.shape[1])
    if not is_complex(x):
        signs = moved_like(np.where(first[at, across] < 0, -1.0, 1.0), first_words(x))
        return [each_plane(side, lambda plane: plane * signs + 0.0) for side in sides]
    rows, columns = (moved_like(line, first_words(x)) for line in (at, across))
    top = x[rows, columns]
    size = abs(top)
    phase = (top.conj() / size).reshape(1, len(across))
    turned = [side * phase for side in sides]
    turned[0][rows, columns] = size
    return turned


def planes_for(x: Any, fmt: Format) -> list[Any]:
    """Planes (parts, m, n) of numbers in words, rounded to a format."""
    if fmt.name in PLAIN:
        with np.errstate(all="ignore"):  # what float32 does not hold is infinite
            return [cast(x.planes[0], fmt.part.words[0].name)]
    return list(x.astype(fmt).planes)


def zero_planes(shape: tuple[int, ...], fmt: Format, like: Any) -> list[Any]:
    """Planes of nothing, of empty matrices."""
    words: Part = fmt.part
    return [moved_like(np.zeros((fmt.parts, *shape), word.name), like) for word in words.words]
