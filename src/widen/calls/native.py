"""The ordinary product, for those who ask for it by `native=True`, where it keeps the contract.

`"fast"` promises |c - AB| <= k u (|A||B|). The ordinary product keeps that in any order of sums,
without terms of higher order (Jeannerod and Rump, 2013, "Improved error bounds for inner products
in floating-point arithmetic"), as long as nothing over- or underflows on the way. Its bits depend
on shapes, devices and libraries, which is why nobody gets it unasked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from widen.encoded import Encoded
from widen.formats import Binary
from widen.formats.arrays import is_tensor
from widen.options import Wanted
from widen.plan import Blocks, Info, Layout, Plan
from widen.stages.problem import Call

GAINED = {"float64": (1.8e-14, 1.4e-11, 0.9e-11), "float32": (3.0e-14, 1.1e-11, 0.5e-11)}
"""Seconds that "fast" gains over the ordinary product on a GPU for every term of its m k n, and
loses for every entry of an operand and every element of the result.

From the stages of `python bench/gpu.py` on an H200, whose rows a test compares with this.
"""

LAUNCHED = 1e-4
"""Seconds that it loses however small the product, fitted to the rows at n = 2048."""


def product(call: Call, out: Any, info: Wanted, library: Any) -> Any:
    """The ordinary product of a call (and its Info), or None where it will not do.

    `library` is NumPy or PyTorch, whichever the operands belong to.
    """
    a, b = call.left, call.right
    if isinstance(a, Encoded) or isinstance(b, Encoded) or math.prod(call.dims) == 0:
        return None
    why = _reason(call, a, b, library)
    if why is None:
        return None
    start = time.perf_counter()
    result = library.matmul(a, b)
    seconds = time.perf_counter() - start
    if out is not None:
        out[...] = result
        result = out
    if not info:
        return result
    sizes = library.abs(a), library.abs(b)
    if info == "largest":
        bound = max(float(_bound(call, x).max()) for x in _products(call, *sizes, library))
    else:
        bound = _bound(call, library.matmul(*sizes))
    return result, _record(call, why, bound, seconds)


def _reason(call: Call, a: Any, b: Any, library: Any) -> str | None:
    """Why the ordinary product will do, or None."""
    fmt, k = call.work, call.k
    if call.contract.name != "fast" or not isinstance(fmt, Binary) or fmt != call.fmt or k == 0:
        return None
    if any(str(x.dtype).removeprefix("torch.") != fmt.name for x in (a, b)):
        return None
    if is_tensor(a) and not faster(fmt.name, math.prod(call.batch), call.m, k, call.n):
        return None
    (least, most), (other_least, other_most) = (_range(x, library) for x in (a, b))
    # No product below the normal numbers, no partial sum beyond them; NaN and Inf fail.
    normal = least * other_least >= 2.0 ** (fmt.lowest + 2 * fmt.precision)
    if not (normal and most * other_most * k < 2.0 ** (fmt.highest - 2)):
        return None
    return "native=True: the ordinary product keeps this contract, and is faster here"


def faster(name: str, batch: int, m: int, k: int, n: int) -> bool:
    """Whether the ordinary product counts as the faster one on a GPU.

    >>> faster("float64", 1, 2048, 2048, 2048), faster("float64", 1, 4096, 4096, 4096)
    (True, False)
    """
    term, entry, element = GAINED[name]
    lost = LAUNCHED + batch * (entry * (m * k + k * n) + element * m * n)
    return term * batch * m * k * n < lost


def _range(x: Any, library: Any) -> tuple[float, float]:
    """Smallest magnitude that is not 0, and largest, the first no more than 2^400."""
    if is_tensor(x):  # without zeros two reductions will do, and the device is asked once
        ends = [library.linalg.vector_norm(x, order) for order in (-math.inf, math.inf)]
        least, most = library.stack(ends).tolist()
        if least > 0:
            return min(least, 2.0**400), most
    magnitude = library.abs(x)
    least = library.where(magnitude > 0, magnitude, math.inf).min()
    return min(float(least), 2.0**400), float(magnitude.max())


def _bound(call: Call, size: Any) -> Any:
    """The bound k u (|A||B|), rounded up, and the smallest number for what is below all others."""
    k, u = call.k, 2.0**-call.fmt.precision
    wide = size.double() if hasattr(size, "double") else size.astype("float64")
    return wide * (k * u * (1 + 4 * (k + 2) * u)) + 2.0**call.work.part.lowest


def _products(call: Call, x: Any, y: Any, library: Any) -> Iterator[Any]:
    """The product of two operands in pieces that take no more than the workspace, bounds too."""
    most = max(1, call.workspace // 24)  # elements: as they are, as float64, and scaled
    if math.prod(call.dims) <= most:
        yield library.matmul(x, y)
        return
    left, right = x[None] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y
    left, right = (library.broadcast_to(z, (*call.batch, *z.shape[-2:])) for z in (left, right))
    for piece in _pieces(left, right, most):
        yield library.matmul(*piece)


def _pieces(x: Any, y: Any, most: int) -> Iterator[tuple[Any, Any]]:
    """Views of operands (*batch, m, k) and (*batch, k, n), for parts of the result in halves."""
    sizes = (*x.shape[:-1], y.shape[-1])
    if math.prod(sizes) <= most:
        yield x, y
        return
    axis = next(axis for axis, size in enumerate(sizes) if size > 1)
    half = sizes[axis] // 2
    for piece in (slice(None, half), slice(half, None)):
        along = (*(slice(None),) * axis, piece)
        if axis < len(sizes) - 2:
            yield from _pieces(x[along], y[along], most)
        elif axis == len(sizes) - 2:
            yield from _pieces(x[along], y, most)
        else:
            yield from _pieces(x, y[..., piece], most)


def _record(call: Call, why: str, bound: Any, seconds: float) -> Info:
    """What ran: the ordinary product."""
    k = call.k
    plan = Plan(
        shape=(math.prod(call.batch), call.m, k, call.n), contract=call.contract,
        result=call.fmt.name, unit="native", layout=Layout("none", 1, (0, 0), (), ((),), 0, 0),
        depth=k, cap=None, bits=0.0, blocks=Blocks(1, call.m, call.n, k),
        workspace=call.workspace, why=(why,),
    )  # fmt: skip
    return Info(plan, bound, 0, 1, 0, {"multiply": seconds})
