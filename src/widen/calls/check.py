"""Arguments checked: what a caller may give, and an error that names the fix where it cannot be."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from widen import bounds
from widen.contract import as_contract
from widen.encoded import Encoded
from widen.formats import (
    FORMATS,
    PLAIN,
    WORDS,
    Binary,
    Complex,
    Format,
    Multiple,
    complex_of,
    computed_in,
    default_result,
)
from widen.formats.arrays import format_of_dtype, is_tensor
from widen.gpu.replay.private import is_fake, is_hidden, is_transformed, wants_gradient
from widen.options import Options
from widen.plan import Plan
from widen.planner import DEFAULT_WORKSPACE, SMALLEST_WORKSPACE, check_system, unit_for
from widen.stages.problem import Call, dims_of, format_of_operand, matrix_dims
from widen.words import Words

_UNITS_OF_MEMORY = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip


def is_ours(x: Any) -> bool:
    """Whether x is what products are computed of, or will be refused as what it is."""
    if type(x) is np.ndarray:
        return x.dtype.kind not in "biu"
    if is_tensor(x):
        return bool(x.dtype.is_floating_point or x.dtype.is_complex)
    return x is None or isinstance(x, (Words, Encoded))


def visible(**given: Any) -> None:
    """Refuse tensors whose numbers PyTorch hides, or whose tangents would be lost silently."""
    for name, x in given.items():
        if not is_tensor(x):
            continue
        if is_fake(x):
            raise TypeError(f"{name} has a shape and no numbers, which this function looks at")
        if is_hidden(x):
            raise TypeError(
                f"{name} is mapped or differentiated by torch.func or forward mode, and this "
                "function looks at numbers: call it outside of torch.vmap, torch.func and forward "
                "mode; a batch is an axis more, and .backward() gives gradients"
            )


def library(**given: Any) -> str:
    """Where the given arrays live: "numpy", "cpu" (tensors there) or a GPU's name.

    What was encoded on a CPU has no say, but does not go to a GPU; what is None has none either.
    """
    places: dict[str, str] = {}
    for name, x in given.items():
        if is_tensor(x):
            places[name] = str(x.device)
            format_of(x.dtype, name)
            if wants_gradient(x):
                raise TypeError(
                    f"{name} requires a gradient, which this does not give: use {name}.detach()"
                )
        elif isinstance(x, Encoded):
            if x.device is not None:
                places[name] = str(x.device)
        elif isinstance(x, Words):
            places[name] = str(x.device) if is_tensor(x.planes[0]) else "numpy"
        elif isinstance(x, np.ndarray):
            places[name] = "numpy"
    distinct = dict.fromkeys(places.values())
    if len(distinct) > 1:
        where = ", ".join(
            f"{name} is {'a NumPy array' if place == 'numpy' else 'a tensor on ' + place}"
            for name, place in places.items()
        )
        target = max(distinct, key=lambda place: (place.startswith("cuda"), place != "numpy"))
        moves = [moved(given[name], name, target) for name in places if places[name] != target]
        raise ValueError(f"{where}; move them to one place first: give {', '.join(moves)}")
    place = next(iter(distinct), "numpy")
    if place not in ("numpy", "cpu") and not place.startswith("cuda"):
        raise ValueError(f"tensors on {place} are not served; use a CUDA device or .cpu()")
    for name, x in given.items():
        if isinstance(x, Encoded) and x.device is None and place.startswith("cuda"):
            raise ValueError(f"{name} was encoded on a CPU; encode a tensor that is on {place}")
    return place


def moved(x: Any, name: str, place: str) -> str:
    """What a caller writes to have an operand as a tensor on a device."""
    if isinstance(x, Encoded):
        return f"{name} encoded from a tensor on {place}"
    if isinstance(x, Words):
        return f"{name}.to_torch({place!r})"
    if is_tensor(x):
        return f"{name}.to({place!r})"
    if isinstance(x, np.ndarray):
        tensor = f"torch.from_numpy({name})"
        if x.dtype.name == "bfloat16":  # PyTorch does not know NumPy's
            tensor = f"torch.from_numpy({name}.view(np.int16)).view(torch.bfloat16)"
    else:
        tensor = f"torch.as_tensor({name}, dtype=torch.float64)"
    return tensor if place == "cpu" else f"{tensor}.to({place!r})"


WORDS_OF = "widen.Words({name}, dtype=widen.float64x2)"
"""What keeps numbers of more bits than float64 has, and exact ones of other libraries."""


def as_operand(x: Any, name: str) -> Any:
    """An array or a tensor of a supported format, at least one-dimensional."""
    if is_tensor(x) or isinstance(x, Words):
        format_of(x.dtype, name)
        if x.ndim == 0:
            raise ValueError(f"{name} is a scalar; widen multiplies vectors and matrices: use *")
        return x
    if not isinstance(x, np.ndarray):
        type_name = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
        if hasattr(x, "__dlpack__"):
            raise TypeError(
                f"{name} is a {type_name}; widen multiplies NumPy arrays and PyTorch tensors: give "
                f"np.from_dlpack({name}) or torch.from_dlpack({name})"
            )
        exact = type_name.split(".")[0] in ("mpmath", "flint")
        fix = WORDS_OF if exact else "np.asarray({name}, float)"
        raise TypeError(
            f"{name} is a {type_name}; widen multiplies NumPy arrays: give {fix.format(name=name)}"
        )
    x = without_subclass(x, name)
    format_of(x.dtype, name)
    if x.ndim == 0:
        raise ValueError(f"{name} is a scalar; widen multiplies vectors and matrices: use *")
    return x


def without_subclass(x: Any, name: str) -> Any:
    """An array of NumPy's own class: of `np.matrix`, whose axes never go, and others."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask a product would drop: give {name}.filled(0)"
        )
    return np.asarray(x)


@lru_cache(maxsize=64)
def format_of(dtype: Any, name: str) -> Format:
    """The format of an array's (or a tensor's) numbers."""
    with suppress(KeyError):
        return format_of_dtype(dtype)
    word = getattr(dtype, "name", str(dtype).removeprefix("torch."))
    known = f"widen multiplies {', '.join(PLAIN)} and widen.Words"
    if not isinstance(dtype, np.dtype):
        wide = "complex128" if word.startswith("complex") else "float64"
        raise TypeError(f"{name} holds {word}; {known}: give {name}.to(torch.{wide})")
    fix = f"{name}.astype(float)"
    if dtype.kind == "c" or (dtype.kind == "f" and dtype.itemsize > 8):
        # A long double: 64 bits, or 113, where two words have 107.
        part = "complex128" if dtype.kind == "c" else "float64"
        wide = f"{part}x{2 if np.finfo(dtype).nmant < 107 else 3}"
        fix = f"widen.Words({name}, dtype=widen.{wide}), which keeps all bits"
    elif dtype.kind == "V" and dtype.itemsize == 2:
        fix = f"{name}.view(ml_dtypes.bfloat16) if these are bfloat16 bits"
    elif dtype.kind == "O":
        fix += " or " + WORDS_OF.format(name=name)
    raise TypeError(f"{name} holds {dtype.name}; {known}: give {fix}")


def result_format(dtype: Any, default: Format) -> Format:
    """The format asked for by ``dtype=``, or the default one."""
    if dtype is None:
        return default
    if isinstance(dtype, (Binary, Multiple, Complex)):
        name = dtype.name
    else:
        name = str(dtype).removeprefix("torch.")
        if name not in FORMATS:
            with suppress(TypeError):
                name = np.dtype(dtype).name
    if name not in FORMATS:
        raise ValueError(
            f"dtype={name} is not a result's format; use one of {', '.join(PLAIN)}, or of "
            f"several words: {', '.join(WORDS)}, and complex ones"
        )
    if FORMATS[name].parts < default.parts:
        raise ValueError(
            f"dtype={name} would drop imaginary parts; use {complex_of(FORMATS[name].part).name}, "
            "then .real"
        )
    return FORMATS[name]


def result_formats(dtype: Any, default: Format) -> list[Format]:
    """The formats asked for by ``dtype=``, one or a list of them; no precision is there twice."""
    if not isinstance(dtype, (list, tuple)):
        return [result_format(dtype, default)]
    if not dtype:
        raise ValueError("dtype=[] has no format; give at least one, or None for the default")
    formats = [result_format(one, default) for one in dtype]
    if len({fmt.parts for fmt in formats}) > 1:
        raise ValueError(
            f"dtype={[fmt.name for fmt in formats]}: an operand is encoded for real results or for "
            "complex ones; give formats of one kind, and encode it again for the other"
        )
    by_precision: dict[int, Format] = {}
    for fmt in formats:
        by_precision.setdefault(computed_in(fmt).precision, fmt)
    return list(by_precision.values())


def check_gpu(device: Any) -> None:
    """Whether this is what PyTorch calls a GPU."""
    if not re.fullmatch(r"cuda(:\d+)?", str(device)):
        raise ValueError(f"device={device!r}: expected None or 'cpu', 'cuda' or 'cuda:1'")


def workspace_bytes(workspace: Any, name: str = "workspace") -> int:
    """Bytes of workspace from an int or a word such as "256MB".

    >>> workspace_bytes("256MB"), workspace_bytes("1 GiB"), workspace_bytes(None)
    (256000000, 1073741824, 536870912)
    """
    if workspace is None:
        return DEFAULT_WORKSPACE
    size = math.nan
    if isinstance(workspace, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", workspace)
        if match and match[2].upper() in _UNITS_OF_MEMORY:
            size = float(match[1]) * _UNITS_OF_MEMORY[match[2].upper()]
    elif isinstance(workspace, (int, float, np.number)) and not isinstance(workspace, bool):
        size = float(workspace)
    if not math.isfinite(size):
        raise ValueError(f"{name}={workspace!r} is not a size; use bytes or a word like '256MB'")
    if size < SMALLEST_WORKSPACE:
        raise ValueError(
            f"{name}={workspace!r} is too small; {SMALLEST_WORKSPACE} bytes are the least"
        )
    return int(size)


def result_dims(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[tuple[int, ...], int, int]:
    """Batch dimensions, m and n of a product, from the operands' own dimensions."""
    ours, theirs = matrix_dims(left, "left"), matrix_dims(right, "right")
    if ours[-1] != theirs[-2]:
        raise ValueError(
            f"shapes {left} and {right} do not match: a has {ours[-1]} columns, b has "
            f"{theirs[-2]} rows; np.matmul's rules apply"
        )
    if ours[-1] > bounds.LARGEST_INNER:
        raise ValueError(f"inner dimension {ours[-1]} is above {bounds.LARGEST_INNER}; cut it")
    try:
        batch = np.broadcast_shapes(ours[:-2], theirs[:-2])
    except ValueError:
        raise ValueError(
            f"batch dimensions {ours[:-2]} and {theirs[:-2]} of shapes {left} and {right} do not "
            "broadcast; np.matmul's rules apply"
        ) from None
    return batch, ours[-2], theirs[-1]


def check_encoded(encoded: Encoded, side: str, call: Call) -> Encoded:
    """What an encoded operand holds for a call, if it serves it."""
    fmt = call.work
    if encoded.side != side:
        raise ValueError(
            f"this operand was encoded for the {encoded.side} side and is given on the {side}; "
            f"use widen.encode(x, side={side!r})"
        )
    wanted = call.contract
    if wanted != encoded.contract:
        word = wanted.bits or repr(wanted.name)
        raise ValueError(
            f"this operand was encoded for accuracy={', '.join(encoded.serves)}, the call asks for "
            f"{wanted}; use widen.encode(x, accuracy={word})"
        )
    member = encoded.serving(fmt)
    if member is None:
        raise ValueError(
            f"this operand was encoded for {', '.join(encoded.formats)} results, the call gives "
            f"{fmt.name}; use widen.encode(x, dtype={fmt.name!r})"
        )
    for word in ("unit", "system"):
        chosen = getattr(call, word)
        if chosen not in (None, getattr(member, word)):
            raise ValueError(
                f"this operand was encoded for {word}={getattr(member, word)!r}, the call asks "
                f"for {chosen!r}; encode it again"
            )
    return member


def as_addend(c: Any) -> Any:
    """The array or tensor c of gemm; a float will do where an array of one element would."""
    if isinstance(c, (float, complex, np.generic)):
        c = np.asarray(c)
    if (isinstance(c, (np.ndarray, Words)) or is_tensor(c)) and c.ndim == 0:
        as_operand(c[None], "c")
        return c
    return as_operand(c, "c")


def check_shape(shape: tuple[Any, ...], name: str) -> None:
    """Whether a tuple can be an operand's shape."""
    if not shape or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"{name}={shape!r} is not a shape; give sizes such as (1024, 512)")


def scalar(value: Any, name: str) -> complex | float:
    """A scalar, alpha or beta: a finite number that float64 (or its parts) holds exactly."""
    types = (int, float, complex, np.integer, np.floating, np.complexfloating)
    value = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if is_tensor(value) and value.ndim == 0:
        if value.device.type != "cpu":
            raise TypeError(
                f"{name} is a tensor on {value.device}, and reading it would wait for the device; "
                f"give {name}.item(), or a tensor on the CPU"
            )
        if is_transformed(value):
            raise TypeError(f"{name} has no gradient and no vmap; give a number, {name}.item()")
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, types):
        raise TypeError(f"{name}={value!r} is not a number; give a float or a complex number")
    try:
        number = complex(value)
    except OverflowError:
        number = complex(math.inf)
    if not (math.isfinite(number.real) and math.isfinite(number.imag)):
        raise ValueError(f"{name}={value!r} is not finite; apply it to the result instead")
    if number != value:
        raise ValueError(f"{name}={value!r} is not a float64; give {name}=float({value!r})")
    return number if number.imag else number.real


def check_call(
    a: Any, b: Any, options: Options, workspace: int, *, complex_scalars: bool = False
) -> Call:
    """Check what every function of the interface takes; `workspace` is the default."""
    left = a if isinstance(a, Encoded) else as_operand(a, "a")
    right = b if isinstance(b, Encoded) else as_operand(b, "b")
    encoded = [x for x in (left, right) if isinstance(x, Encoded)]
    accuracy = options.accuracy
    if accuracy is None:
        accuracy = encoded[0].contract if encoded else "standard"
    contract, unit, system = as_contract(accuracy), options.unit, options.system
    unit_for(unit)
    check_system(system)
    default = default_result(format_of_operand(left), format_of_operand(right))
    fmt = result_format(options.dtype, default)
    batch, m, n = result_dims(dims_of(left), dims_of(right))
    room = workspace if options.workspace is None else workspace_bytes(options.workspace)
    call = Call(left, right, batch, m, n, contract, fmt, unit, system, room, complex_scalars)
    if complex_scalars and fmt.parts == 1:
        raise ValueError(
            f"alpha, beta or c is complex but the result is {fmt.name}; "
            f"use dtype={complex_of(fmt.part).name!r}"
        )
    if encoded:
        left, right = (
            check_encoded(x, side, call) if isinstance(x, Encoded) else x for x, side in call.sides
        )
        call = replace(call, left=left, right=right)
        encoded = [x for x in (left, right) if isinstance(x, Encoded)]
        choices = {(x.unit, x.system) for x in encoded}
        if len(choices) > 1:
            raise ValueError(
                "a and b were encoded for different units or systems; encode one again"
            )
        chosen_unit, chosen_system = choices.pop()
        call = replace(call, unit=chosen_unit, system=chosen_system)
    return call


def check_plan(call: Call, plan: Plan) -> None:
    """Whether a plan made beforehand is one for this call."""
    shape = call.shape
    if plan.shape != shape or plan.layout.parts != call.work.parts:
        names = {1: "real", 2: "complex"}
        raise ValueError(
            f"the plan is for {names[plan.layout.parts]} numbers and (batch, m, k, n) = "
            f"{plan.shape}; the call has {names[call.work.parts]} ones and {shape}: make a plan "
            "for these"
        )
