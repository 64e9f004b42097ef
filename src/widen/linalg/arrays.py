"""What NumPy and PyTorch do alike under different names, for the matrices of a system."""

from __future__ import annotations

from typing import Any

import numpy as np

from widen.formats.arrays import empty, is_tensor, library_of, place_of
from widen.words import Words
from widen.words.arithmetic import plane_times_power
from widen.words.conversions import on_cpu


def eye_like(x: Any, n: int) -> Any:
    """The identity in float64, where x is."""
    whole = empty((n, n), "float64", place_of(x))
    whole[...] = 0
    whole.reshape(-1)[:: n + 1] = 1  # a view of it
    return whole


def diagonal_of(x: Any) -> Any:
    """The diagonal of a matrix of numbers or of words."""
    if isinstance(x, Words):
        return Words.of(x.format, [library_of(p).diagonal(p, 0, -2, -1) for p in x.planes])
    return library_of(x).diagonal(x)


def diagonal_view(x: Any) -> Any:
    """The diagonal of a square matrix, to be written to."""
    return x.diagonal() if is_tensor(x) else np.einsum("ii->i", x)


def filled(like: Any, shape: tuple[int, ...], value: float) -> Any:
    """An array of float64 full of one value, where `like` is; real, whatever that is."""
    made = empty(shape, "float64", place_of(like))
    made[...] = value
    return made


def moved_like(values: Any, like: Any) -> Any:
    """A NumPy array where `like` is."""
    if not is_tensor(like):
        return values
    torch = library_of(like)
    tensor = torch.from_numpy(np.ascontiguousarray(values))  # which makes a vector of a number
    return tensor.reshape(values.shape).to(like.device)


def on_host(x: Any) -> Any:
    """Numbers (an array, a tensor or `Words`) in NumPy arrays."""
    return x.to_arrays() if isinstance(x, Words) else on_cpu(x)


def chosen(mask: Any) -> Any:
    """The indices where a vector of True and False is True, as a vector of integers."""
    library = library_of(mask)
    return library.nonzero(mask)[0] if library is np else mask.nonzero().reshape(-1)


def adjoint(x: Any) -> Any:
    """The transpose of a matrix of numbers or of words, conjugated if it is complex."""
    if isinstance(x, Words):
        turned = Words.of(x.format, [library_of(p).swapaxes(p, -1, -2) for p in x.planes])
        return turned.conj() if x.format.parts == 2 else turned
    turned = library_of(x).swapaxes(x, -1, -2)
    return turned.conj() if is_complex(x) else turned


def is_complex(x: Any) -> bool:
    """Whether numbers (an array, a tensor or `Words`) have two parts."""
    if isinstance(x, Words):
        return x.format.parts == 2
    return bool(library_of(x).is_complex(x)) if is_tensor(x) else x.dtype.kind == "c"


def complex_of(plane: Any) -> Any:
    """Complex numbers from a plane of both parts."""
    if is_tensor(plane):
        return library_of(plane).complex(plane[0], plane[1])
    result = np.empty(plane.shape[1:], "complex64" if plane.itemsize == 4 else "complex128")
    result.real, result.imag = plane
    return result


def columns(x: Any, which: Any) -> Any:
    """Some columns of a matrix."""
    return x[:, which]


def scaled(x: Any, exponents: Any) -> Any:
    """The array x 2^exponents in two steps; exact where it stays among the normal numbers."""
    half = exponents >> 1
    with np.errstate(all="ignore"):
        return plane_times_power(plane_times_power(x, half), exponents - half)


def inverse(x: Any) -> Any:
    """The ordinary inverse, or None where the library refuses or it is not finite."""
    library = library_of(x)
    with np.errstate(all="ignore"):
        try:
            result = library.linalg.inv(x)
        except library.linalg.LinAlgError:
            return None
        return result if bool(library.isfinite(result).all()) else None
