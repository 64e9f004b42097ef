"""matmul, gemm, encode and plan: the user's words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, overload

from widen.calls import check, dispatch
from widen.calls.cpu_tensors import as_array
from widen.calls.foreign.arrays import taken
from widen.contract import as_contract
from widen.encoded import Encoded
from widen.formats import FORMATS, default_result
from widen.formats.arrays import eager, is_distributed
from widen.options import Accuracy, Options, Progress, Wanted
from widen.plan import Info, Plan
from widen.planner import check_system, unit_for
from widen.stages.problem import Encoding, Scalars, matrix_dims

# Parameters are written out, in the overloads and in `gemm` again: editors and `help` show them.


@overload
def matmul(
    a: Any, b: Any, *, accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ...,
    system: str | None = ..., workspace: int | str | None = ..., out: Any = ...,
    info: Literal[False] = ..., progress: Progress | None = ..., plan: Plan | None = ...,
    native: bool = ..., device: Any = ...,
) -> Any: ...  # fmt: skip
@overload
def matmul(
    a: Any, b: Any, *, accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ...,
    system: str | None = ..., workspace: int | str | None = ..., out: Any = ...,
    info: Literal[True, "largest"], progress: Progress | None = ..., plan: Plan | None = ...,
    native: bool = ..., device: Any = ...,
) -> tuple[Any, Info]: ...  # fmt: skip
def matmul(
    a: Any,
    b: Any,
    *,
    accuracy: Accuracy = None,
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
    workspace: int | str | None = None,
    out: Any = None,
    info: Wanted = False,
    progress: Progress | None = None,
    plan: Plan | None = None,
    native: bool = False,
    device: Any = None,
) -> Any:
    """Matrix product with a promise, for every element and on every input.

    Parameters
    ----------
    a, b
        NumPy arrays or PyTorch tensors (both on one device) of float64, float32, float16, bfloat16
        (ml_dtypes), complex128 or complex64, or `Words`, of any strides, with the shapes of
        `np.matmul`; either may be an `Encoded`. Also lists, arrays of integers that float64 holds,
        and arrays of CuPy, JAX and others that offer DLPack or `__array__`. Both may be DTensors of
        one mesh, placed in any way: the result is one, too, and has the bits of one process.
    accuracy
        ``"standard"`` (the default, unless an `Encoded` says otherwise), ``"fast"``,
        ``"correct"``, or a number of bits.
    dtype
        Format of the result: one of the above, or of several words such as ``widen.float64x2``. By
        default that of the operands, or else the wider one, float32 at least. Results in float16
        and bfloat16 keep the contract of float32, and are rounded once.
    unit, system
        What multiplies, and how integers are written; chosen by the planner unless given. They
        change the time, never the bits (``system="triangle"`` alone has others for every unit).
    workspace
        Bytes of extra memory, an int or a word like ``"256MB"``; 512 MiB by default, on a GPU a
        quarter of its memory.
    out
        Array (or tensor) to put the result in.
    info
        True: also return an `Info`: what ran, and the certified error of every element, an array
        as large as a float64 result. ``"largest"``: the same with the largest of these errors
        alone, a float, found block by block within the workspace.
    progress
        Called now and then with the share of the work done.
    plan
        A plan made beforehand (`widen.plan`), which then says accuracy, unit, system and workspace.
        On a GPU nothing waits for the device, so that the call can be captured in a CUDA graph;
        what the plan's planes do not hold is repaired, so that the contract is kept all the same.
    native
        Allow the ordinary product where it is faster and keeps the contract, which is ``"fast"``
        with numbers far from over- and underflow; `info` says so. Its bits may differ from one
        shape, device or library to the next.
    device
        ``"cuda"`` or ``"cuda:1"``: compute on this GPU while operands and result stay in host
        memory, NumPy arrays (memory maps too) or tensors on a CPU. They are sent in panels, and
        `workspace` is for these, too; `info` says how large they are. There is no `plan`, no
        `Encoded` and no ordinary product then.

    Returns
    -------
    ndarray or tensor, or (ndarray or tensor, Info)
        Of the operands' library, where they are. Integers give integers, exactly, or an
        OverflowError, unless `dtype` says otherwise.

    Notes
    -----
    Products of tensors have gradients, which keep the contract too, and may be mapped by
    `torch.vmap` and compiled by `torch.compile`. There is no gradient with `out`, `info`,
    `progress` or `plan`, of an `Encoded`, or of several words.

    The first call on a machine compiles kernels, some seconds, and keeps them on disk. The
    logger ``"widen"`` says so at level INFO, and warns where there is no folder to keep them in.
    A fork waits until no other thread compiles.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.array([[1e16, 1.0, -1e16]]), np.array([[1.0], [1.0], [1.0]])
    >>> a @ b                                        # the ordinary product loses the 1
    array([[0.]])
    >>> widen.matmul(a, b, accuracy="correct")
    array([[1.]])
    """
    options = Options(
        accuracy, dtype, unit, system, workspace, plan=plan, native=native, info=info,
        progress=progress, device=device,
    )  # fmt: skip
    return dispatch.matmul(a, b, out, options)


@overload
def gemm(
    a: Any, b: Any, c: Any = ..., *, alpha: complex = ..., beta: complex = ...,
    accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ..., system: str | None = ...,
    workspace: int | str | None = ..., out: Any = ..., info: Literal[False] = ...,
    progress: Progress | None = ..., device: Any = ...,
) -> Any: ...  # fmt: skip
@overload
def gemm(
    a: Any, b: Any, c: Any = ..., *, alpha: complex = ..., beta: complex = ...,
    accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ..., system: str | None = ...,
    workspace: int | str | None = ..., out: Any = ..., info: Literal[True, "largest"],
    progress: Progress | None = ..., device: Any = ...,
) -> tuple[Any, Info]: ...  # fmt: skip
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    accuracy: Accuracy = None,
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
    workspace: int | str | None = None,
    out: Any = None,
    info: Wanted = False,
    progress: Progress | None = None,
    device: Any = None,
) -> Any:
    """The sum alpha a b + beta c, exact and rounded once.

    The contract holds for the product; scaling and addition are exact, so the error is at most
    |alpha| times the contract's bound plus half an ulp of the result, and ``accuracy="correct"``
    gives the correctly rounded value of the whole expression (residuals, for instance).

    Parameters
    ----------
    a, b, accuracy, dtype, unit, system, workspace, out, info, progress, device
        As for `matmul`.
    c
        Array (or tensor) that broadcasts to the result's shape. With ``beta=0`` it is not read. It
        may be `out` itself.
    alpha, beta
        Finite numbers. With ``alpha=0``, a and b are not read. They have no gradients; those of a,
        b and c are there as for `matmul`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[0.1, 0.2], [0.3, 0.4]])
    >>> x, c = np.array([1.0, 3.0]), np.array([0.7, 1.5])
    >>> widen.gemm(a, x, c, alpha=-1.0, beta=1.0, accuracy="correct")    # c - a x, exactly rounded
    array([-8.32667268e-17, -5.55111512e-17])
    """
    options = Options(
        accuracy, dtype, unit, system, workspace, info=info, progress=progress, device=device
    )
    return dispatch.gemm(a, b, Scalars(alpha, beta, c), out, options)


@eager
def plan(
    a: Any,
    b: Any,
    *,
    accuracy: Accuracy = None,
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
    workspace: int | str | None = None,
    device: str | None = None,
) -> Any:
    """What `matmul` would do with these operands, and why, before paying for it.

    Parameters
    ----------
    a, b
        Arrays (or `Encoded`): their rows and columns are looked at, as `matmul` would. Or shapes,
        ``(m, k)`` and ``(k, n)``: then rows of similar magnitudes are assumed. Of DTensors the plan
        is a `widen.distributed.DistributedPlan`: what moves where, and how many bytes.
    accuracy, dtype, unit, system, workspace
        As for `matmul`. With shapes, `dtype` is that of the result, float64 by default.
    device
        With shapes, where it shall run: None for this CPU, or ``"cuda"``. Where there is no GPU,
        give `workspace`.

    Examples
    --------
    >>> import widen
    >>> widen.plan((1024, 1024), (1024, 1024)).products
    5
    """
    options = Options(accuracy, dtype, unit, system, workspace)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _plan_of_shapes(a, b, options, device)
    if is_distributed(a) or is_distributed(b):
        return dispatch.distributed_plan(a, b, options)
    for name, x in (("a", a), ("b", b)):
        if isinstance(x, (list, tuple)):
            raise TypeError(
                f"{name} is a {type(x).__name__}, which may be a shape or numbers; give two shapes "
                f"as tuples, or np.asarray({name})"
            )
    a, b = taken(a, "a"), taken(b, "b")
    place = check.library(a=a, b=b)
    if place == "cpu":
        a, b, place = as_array(a), as_array(b), "numpy"
    wing = dispatch.wing_of(place)
    call = check.check_call(a, b, options, dispatch.workspace_of(place, workspace))
    wing.check_unit(call.unit, place)
    return wing.plan(call)


def _plan_of_shapes(
    a: tuple[int, ...], b: tuple[int, ...], options: Options, device: str | None
) -> Plan:
    """A plan for operands of which the shapes alone are known."""
    dtype = "float64" if options.dtype is None else options.dtype
    fmt = check.result_format(dtype, FORMATS["float32"])
    check.check_shape(a, "a")
    check.check_shape(b, "b")
    batch, m, n = check.result_dims(a, b)
    contract = as_contract("standard" if options.accuracy is None else options.accuracy)
    shape = (math.prod(batch), m, matrix_dims(a, "left")[-1], n)
    wanted = Encoding("left", contract, fmt, options.unit, options.system)
    on_gpu = device not in (None, "cpu")
    if on_gpu:
        check.check_gpu(device)
    place = str(device) if on_gpu else "numpy"
    wing = dispatch.wing_of(place)
    wing.check_unit(options.unit)
    room = dispatch.workspace_of(place, options.workspace)
    typical = wing.typical_plan(wanted, shape, room, place if on_gpu else None)
    return replace(typical, result=fmt.name)


@eager
def encode(
    x: Any,
    *,
    side: str,
    accuracy: Accuracy = "standard",
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
) -> Encoded:
    """Quantise and encode an operand once, to multiply it often.

    Parameters
    ----------
    x
        A vector, a matrix or a batch of matrices.
    side
        ``"left"`` or ``"right"``: rows or columns are what is scaled.
    accuracy
        The contract it shall serve; the result has the bits that it would have without `encode`.
    dtype
        The result's format it shall serve; by default that of a product with itself. Or a list of
        formats, all real or all complex: the first is the default of products with it.
    unit, system
        As for `matmul`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> rng = np.random.default_rng(1)
    >>> b = rng.random((64, 32))
    >>> eb = widen.encode(b, side="right", dtype=["float64", "float64x2"])
    >>> eb.formats
    ('float64', 'float64x2')
    >>> eb.serves
    ('standard',)
    >>> a = rng.random((10, 64))
    >>> bool((widen.matmul(a, eb) == widen.matmul(a, b)).all())
    True
    """
    check.visible(x=x)
    if side not in ("left", "right"):
        raise ValueError(f"side={side!r} is not known; use 'left' or 'right'")
    x = taken(x, "x")
    place = check.library(x=x)
    if place == "cpu":
        x, place = as_array(x), "numpy"
    array = check.as_operand(x, "x")
    own = check.format_of(array.dtype, "x")
    formats = check.result_formats(dtype, default_result(own, own))
    unit_for(unit)
    check_system(system)
    contract = as_contract(accuracy)
    wanted = [Encoding(side, contract, fmt, unit, system) for fmt in formats]
    return dispatch.wing_of(place).encode(array, wanted)
