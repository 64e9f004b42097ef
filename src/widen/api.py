"""matmul, gemm, encode and plan: the user's words."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from widen.calls import check as arguments
from widen.calls import dispatch as routes
from widen.calls.batches import encoded as encoded_on_cpu
from widen.calls.batches import pieces, stack
from widen.calls.call import Accuracy, Progress, check_call, empty_plan, for_call
from widen.calls.check import as_operand, format_of
from widen.contract import as_contract
from widen.cpu import stages
from widen.encoded import Encoded
from widen.formats import FORMATS, default_result
from widen.gpu.optional import eager, for_gpus
from widen.plan import Info, Plan
from widen.planner import check_system, first_cap, make_plan, typical_needs, unit_for
from widen.stages.account import Account
from widen.stages.problem import Encoding
from widen.words import products


@overload
def matmul(
    a: Any, b: Any, *, accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ...,
    system: str | None = ..., workspace: int | str | None = ..., out: Any = ...,
    info: Literal[False] = ..., progress: Progress | None = ..., plan: Plan | None = ...,
    native: bool = ...,
) -> Any: ...  # fmt: skip
@overload
def matmul(
    a: Any, b: Any, *, accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ...,
    system: str | None = ..., workspace: int | str | None = ..., out: Any = ...,
    info: Literal[True], progress: Progress | None = ..., plan: Plan | None = ...,
    native: bool = ...,
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
    info: bool = False,
    progress: Progress | None = None,
    plan: Plan | None = None,
    native: bool = False,
) -> Any:
    """Matrix product with a promise, for every element and on every input.

    Parameters
    ----------
    a, b
        NumPy arrays or PyTorch tensors (both on one device) of float64, float32, float16, bfloat16
        (ml_dtypes), complex128 or complex64, or `Words`, of any strides, with the shapes of
        `np.matmul`; either may be an `Encoded`.
    accuracy
        ``"standard"`` (the default, unless an `Encoded` says otherwise), ``"fast"``,
        ``"correct"``, or a number of bits.
    dtype
        Format of the result: float32, float64, complex64, complex128, or one of several words such
        as ``widen.float64x2``. By default the wider one of the operands', float32 for the half
        formats.
    unit, system
        What multiplies, and how integers are written; chosen by the planner unless given. They
        change the time, never the bits (``system="triangle"`` alone has others for every unit).
    workspace
        Bytes of extra memory, an int or a word like ``"256MB"``; 512 MiB by default, on a GPU a
        quarter of its memory.
    out
        Array (or tensor) to put the result in.
    info
        Also return an `Info`: what ran, and the certified error of every element.
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

    Returns
    -------
    ndarray or tensor, or (ndarray or tensor, Info)

    Notes
    -----
    Products of tensors have gradients, which keep the contract too, and may be mapped by
    `torch.vmap` and compiled by `torch.compile`. There is no gradient with `out`, `info`,
    `progress` or `plan`, of an `Encoded`, or of several words.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.array([[1e16, 1.0, -1e16]]), np.array([[1.0], [1.0], [1.0]])
    >>> a @ b                                        # the ordinary product loses the 1
    array([[0.]])
    >>> widen.matmul(a, b, accuracy="correct")
    array([[1.]])
    """
    choices = (accuracy, dtype, unit, system, workspace)
    return routes.matmul(a, b, choices, out, info, progress, plan, native)


@overload
def gemm(
    a: Any, b: Any, c: Any = ..., *, alpha: complex = ..., beta: complex = ...,
    accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ..., system: str | None = ...,
    workspace: int | str | None = ..., out: Any = ..., info: Literal[False] = ...,
    progress: Progress | None = ...,
) -> Any: ...  # fmt: skip
@overload
def gemm(
    a: Any, b: Any, c: Any = ..., *, alpha: complex = ..., beta: complex = ...,
    accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ..., system: str | None = ...,
    workspace: int | str | None = ..., out: Any = ..., info: Literal[True],
    progress: Progress | None = ...,
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
    info: bool = False,
    progress: Progress | None = None,
) -> Any:
    """Alpha a b + beta c, one exact sum rounded once.

    The contract holds for the product; scaling and addition are exact, so the error is at most
    |alpha| times the contract's bound plus half an ulp of the result, and ``accuracy="correct"``
    gives the correctly rounded value of the whole expression (residuals, for instance).

    Parameters
    ----------
    a, b, accuracy, dtype, unit, system, workspace, out, info, progress
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
    choices = (accuracy, dtype, unit, system, workspace)
    return routes.gemm(a, b, c, (alpha, beta), choices, out, info, progress)


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
) -> Plan:
    """What `matmul` would do with these operands, and why, before paying for it.

    Parameters
    ----------
    a, b
        Arrays (or `Encoded`): their rows and columns are looked at, as `matmul` would. Or shapes,
        ``(m, k)`` and ``(k, n)``: then rows of similar magnitudes are assumed.
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
    if isinstance(a, tuple) and isinstance(b, tuple):
        fmt = arguments.result_format("float64" if dtype is None else dtype, FORMATS["float32"])
        arguments.check_shape(a, "a")
        arguments.check_shape(b, "b")
        batch, m, n = arguments.result_dims(a, b)
        contract = as_contract("standard" if accuracy is None else accuracy)
        k = arguments.matrix_dims(a, "left")[-1]
        if device not in (None, "cpu"):
            arguments.check_gpu(device)
            tensors = for_gpus("widen.gpu.products")
            tensors.check_unit(unit)
            room = tensors.workspace(device, workspace)
            dims = (math.prod(batch), m, k, n)
            typical: Plan = tensors.typical_plan(
                contract, fmt, dims, room, unit=unit, system=system, place=device
            )
            return typical
        cap = first_cap(fmt.precision, k) if contract.correct else None
        return make_plan(
            contract, fmt, (math.prod(batch), m, k, n), typical_needs(contract, fmt, k), unit=unit,
            system=system, cap=cap, workspace=arguments.workspace_bytes(workspace),
            why=("rows and columns of similar magnitudes are assumed",),
        )  # fmt: skip
    place = arguments.library(a=a, b=b)
    if place == "cpu":
        from widen.calls import cpu_tensors as on_cpu

        a, b = on_cpu.as_array(a), on_cpu.as_array(b)
    elif place.startswith("cuda"):
        tensors = for_gpus("widen.gpu.products")
        call = check_call(a, b, accuracy, dtype, unit, system, tensors.workspace(place, workspace))
        return for_call(tensors.plan(call), call)
    call = check_call(a, b, accuracy, dtype, unit, system, workspace)
    if math.prod(call.dims) == 0:
        return empty_plan(call)
    left, right = call.matrices(unread=False)
    shape = (*call.batch, call.m, call.n)
    nowhere = stack(np.empty(())).broadcast(shape)
    first = next(pieces(left, right, call.batch, call.work.parts, nowhere, None, None))
    with np.errstate(all="ignore"):
        found = stages.quantise(call.problem(first.left, first.right), Account()).plan
    return for_call(found, call)


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
        The result's format it shall serve; by default that of a product with itself.
    unit, system
        As for `matmul`.

    Examples
    --------
    >>> import numpy as np, widen
    >>> rng = np.random.default_rng(1)
    >>> b = rng.random((64, 32))
    >>> eb = widen.encode(b, side="right")
    >>> eb.serves
    ('standard',)
    >>> a = rng.random((10, 64))
    >>> bool((widen.matmul(a, eb) == widen.matmul(a, b)).all())
    True
    """
    if side not in ("left", "right"):
        raise ValueError(f"side={side!r} is not known; use 'left' or 'right'")
    place = arguments.library(x=x)
    if place == "cpu":
        from widen.calls import cpu_tensors as on_cpu

        x = on_cpu.as_array(x)
    array = as_operand(x, "x")
    own = format_of(array.dtype, "x")
    fmt = arguments.result_format(dtype, default_result(own, own))
    unit_for(unit)
    check_system(system)
    if place.startswith("cuda"):
        tensors = for_gpus("widen.gpu.products")
        encoded: Encoded = tensors.encode(array, side, as_contract(accuracy), fmt, unit, system)
        return encoded
    with np.errstate(all="ignore"):
        return encoded_on_cpu(
            stack(array), Encoding(side, as_contract(accuracy), fmt, unit, system)
        )


products.use(matmul, gemm)  # x @ y of words
