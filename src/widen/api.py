"""matmul, gemm, encode and plan: the user's words. Arguments are checked, then the stages run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from widen import arguments
from widen.arguments import as_operand, format_of
from widen.backends import numpy as backend
from widen.backends.numpy import Array, Operand
from widen.batches import pieces
from widen.contract import Contract, as_contract
from widen.encoded import Encoded
from widen.formats import FORMATS, Format, default_result
from widen.plan import Info, Plan
from widen.planner import check_system, first_cap, make_plan, typical_needs, unit_for
from widen.ledger import Ledger
from widen.stages import Problem, encode_operand, quantise_both, run

Accuracy = str | int | Contract | None
Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass(frozen=True)
class Call:
    """A checked call: operands, the result's shape and format, and the choices made."""

    left: Array | Encoded
    right: Array | Encoded
    batch: tuple[int, ...]
    m: int
    n: int
    contract: Contract
    fmt: Format
    unit: str | None
    system: str | None
    workspace: int

    @property
    def work(self) -> Format:
        """The format computed in: real if both operands are, whatever the result's."""
        return self.fmt if any(_format(x).parts == 2 for x, _ in self.sides) else self.fmt.part

    @property
    def dims(self) -> tuple[int, ...]:
        """The result's shape: what vectors add to make matrices is taken away again."""
        rows = () if len(_dims(self.left)) == 1 else (self.m,)
        columns = () if len(_dims(self.right)) == 1 else (self.n,)
        return (*self.batch, *rows, *columns)

    def matrices(self, *, unread: bool) -> tuple[Array | Encoded, Array | Encoded]:
        """Both operands as (batches of) matrices; zeros where there is nothing to read."""
        dims = [arguments.matrix_dims(_dims(x), side) for x, side in self.sides]
        if unread or dims[0][-1] == 0:
            zero = np.zeros((), self.work.name)
            shapes = ((*self.batch, self.m, 1), (*self.batch, 1, self.n))
            return np.broadcast_to(zero, shapes[0]), np.broadcast_to(zero, shapes[1])
        left, right = (
            x if isinstance(x, Encoded) else x.reshape(shape)
            for (x, _), shape in zip(self.sides, dims, strict=True)
        )
        return left, right

    @property
    def sides(self) -> tuple[tuple[Array | Encoded, str], tuple[Array | Encoded, str]]:
        """The operands with the names of their sides."""
        return (self.left, "left"), (self.right, "right")

    def as_matrices(self, x: Array) -> Array:
        """An array of the result's shape with the axes that vectors take away, a view."""
        if len(_dims(self.right)) == 1:
            x = x[..., None]
        return x[..., None, :] if len(_dims(self.left)) == 1 else x

    def problem(self, left: Operand | Encoded, right: Operand | Encoded) -> Problem:
        """The product of these two, as this call wants it."""
        return Problem(
            left, right, self.contract, self.work, self.unit, self.system, self.workspace
        )


def _dims(x: Array | Encoded) -> tuple[int, ...]:
    return x.dims if isinstance(x, Encoded) else x.shape


def _format(x: Array | Encoded) -> Format:
    return x.fmt if isinstance(x, Encoded) else format_of(x.dtype, "operand")


def _check(
    a: Any, b: Any, accuracy: Accuracy, dtype: Any, unit: str | None, system: str | None,
    workspace: int | str | None,
) -> Call:  # fmt: skip
    left = a if isinstance(a, Encoded) else as_operand(a, "a")
    right = b if isinstance(b, Encoded) else as_operand(b, "b")
    encoded = [x for x in (left, right) if isinstance(x, Encoded)]
    if accuracy is None:
        accuracy = encoded[0].contract if encoded else "standard"
    contract = as_contract(accuracy)
    unit_for(unit)
    check_system(system)
    fmt = arguments.result_format(dtype, default_result(_format(left), _format(right)))
    batch, m, n = arguments.result_dims(_dims(left), _dims(right))
    call = Call(
        left, right, batch, m, n, contract, fmt, unit, system, arguments.workspace_bytes(workspace)
    )
    options = {"contract": contract, "unit": unit, "system": system}
    for x, side in ((left, "left"), (right, "right")):
        if isinstance(x, Encoded):
            arguments.check_encoded(x, side, call.work, options)
    if encoded:
        choices = {(x.unit, x.system) for x in encoded}
        if len(choices) > 1:
            raise ValueError("a and b were encoded for different units or systems; encode one again")
        call = Call(left, right, batch, m, n, contract, fmt, *choices.pop(), call.workspace)
    return call


@overload
def matmul(
    a: Any, b: Any, *, accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ...,
    system: str | None = ..., workspace: int | str | None = ..., out: Array | None = ...,
    info: Literal[False] = ..., progress: Progress | None = ...,
) -> Array: ...  # fmt: skip
@overload
def matmul(
    a: Any, b: Any, *, accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ...,
    system: str | None = ..., workspace: int | str | None = ..., out: Array | None = ...,
    info: Literal[True], progress: Progress | None = ...,
) -> tuple[Array, Info]: ...  # fmt: skip
def matmul(
    a: Any,
    b: Any,
    *,
    accuracy: Accuracy = None,
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
    workspace: int | str | None = None,
    out: Array | None = None,
    info: bool = False,
    progress: Progress | None = None,
) -> Array | tuple[Array, Info]:
    """Matrix product with a promise, for every element and on every input.

    Parameters
    ----------
    a, b
        NumPy arrays of float64, float32, float16, bfloat16 (ml_dtypes), complex128 or complex64,
        of any strides, with the shapes of `np.matmul`; either may be an `Encoded`.
    accuracy
        ``"standard"`` (the default, unless an `Encoded` says otherwise), ``"fast"``,
        ``"correct"``, or a number of bits.
    dtype
        Format of the result: float32, float64, complex64 or complex128. By default the operands'
        own, float32 for the half formats.
    unit, system
        What multiplies, and how integers are written; chosen by the planner unless given. They
        change the time, never the bits (but for ``system="triangle"``).
    workspace
        Bytes of extra memory, an int or a word like ``"256MB"``; 512 MiB by default.
    out
        Array to put the result in.
    info
        Also return an `Info`: what ran, and the certified error of every element.
    progress
        Called now and then with the share of the work done.

    Returns
    -------
    ndarray, or (ndarray, Info)

    Examples
    --------
    >>> import numpy as np, widen
    >>> a, b = np.array([[1e16, 1.0, -1e16]]), np.array([[1.0], [1.0], [1.0]])
    >>> a @ b                                        # the ordinary product loses the 1
    array([[0.]])
    >>> widen.matmul(a, b, accuracy="correct")
    array([[1.]])
    """
    call = _check(a, b, accuracy, dtype, unit, system, workspace)
    return _product(call, 1.0, 0.0, None, out, info, progress)


@overload
def gemm(
    a: Any, b: Any, c: Array | None = ..., *, alpha: complex = ..., beta: complex = ...,
    accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ..., system: str | None = ...,
    workspace: int | str | None = ..., out: Array | None = ..., info: Literal[False] = ...,
    progress: Progress | None = ...,
) -> Array: ...  # fmt: skip
@overload
def gemm(
    a: Any, b: Any, c: Array | None = ..., *, alpha: complex = ..., beta: complex = ...,
    accuracy: Accuracy = ..., dtype: Any = ..., unit: str | None = ..., system: str | None = ...,
    workspace: int | str | None = ..., out: Array | None = ..., info: Literal[True],
    progress: Progress | None = ...,
) -> tuple[Array, Info]: ...  # fmt: skip
def gemm(
    a: Any,
    b: Any,
    c: Array | None = None,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    accuracy: Accuracy = None,
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
    workspace: int | str | None = None,
    out: Array | None = None,
    info: bool = False,
    progress: Progress | None = None,
) -> Array | tuple[Array, Info]:
    """alpha a b + beta c, one exact sum rounded once.

    The contract holds for the product; scaling and addition are exact, so the error is at most
    |alpha| times the contract's bound plus half an ulp of the result, and ``accuracy="correct"``
    gives the correctly rounded value of the whole expression (residuals, for instance).

    Parameters
    ----------
    a, b, accuracy, dtype, unit, system, workspace, out, info, progress
        As for `matmul`.
    c
        Array that broadcasts to the result's shape. With ``beta=0`` it is not read. It may be
        `out` itself.
    alpha, beta
        Finite numbers. With ``alpha=0``, a and b are not read.

    Examples
    --------
    >>> import numpy as np, widen
    >>> a = np.array([[0.1, 0.2], [0.3, 0.4]])
    >>> x = np.array([1.0, 3.0])
    >>> widen.gemm(a, x, a @ x, alpha=-1.0, beta=1.0, accuracy="correct")   # what a @ x lost
    array([8.32667268e-17, 0.00000000e+00])
    """
    call = _check(a, b, accuracy, dtype, unit, system, workspace)
    alpha, beta = arguments.scalar(alpha, "alpha"), arguments.scalar(beta, "beta")
    if beta != 0:
        if c is None:
            raise ValueError(f"beta={beta} but there is no c; give c, or beta=0")
        c = as_operand(np.atleast_1d(c) if isinstance(c, np.ndarray) else c, "c")
    complex_scalars = isinstance(alpha, complex) or (isinstance(beta, complex) and beta != 0)
    if call.fmt.parts == 1 and (complex_scalars or (beta != 0 and np.iscomplexobj(c))):
        raise ValueError(
            f"alpha, beta or c is complex but the result is {call.fmt.name}; use dtype='complex128'"
        )
    return _product(call, alpha, beta, c if beta != 0 else None, out, info, progress)


def _product(
    call: Call, alpha: complex, beta: complex, c: Array | None, out: Array | None, info: bool,
    progress: Progress | None,
) -> Any:  # fmt: skip
    dims = call.dims
    target = np.empty(dims, call.fmt.name) if out is None else out
    arguments.check_out(target, dims, call.fmt)
    sources = [x for x in (call.left, call.right) if isinstance(x, np.ndarray)]
    if out is not None and any(np.may_share_memory(out, x) for x in sources):
        target = np.empty(dims, call.fmt.name)
    addend = None if c is None else _addend(call, c, target)
    bound = np.empty(dims) if info else None
    plan, ledger = _run(call, (alpha, beta), target, addend, bound, progress)
    if out is not None and target is not out:
        out[...] = target
    result = out if out is not None else target if target.ndim else target[()]
    if bound is None:
        return result
    return result, Info(
        plan, bound, ledger.repaired, plan.products, ledger.workspace, ledger.seconds
    )


def _addend(call: Call, c: Array, out: Array) -> Array:
    try:
        full = np.broadcast_to(c, call.dims)
    except ValueError:
        raise ValueError(
            f"c has shape {c.shape}, which does not broadcast to the result's {call.dims}"
        ) from None
    # c is read again where elements are repaired, after `out` was first written.
    return full.copy() if np.may_share_memory(full, out) else full


def _run(
    call: Call, scalars: tuple[complex, complex], out: Array, addend: Array | None,
    bound: Array | None, progress: Progress | None,
) -> tuple[Plan, Ledger]:  # fmt: skip
    """Run the product, or those that a batch falls into."""
    ledger = Ledger()
    parts = 2 if any(np.iscomplexobj(x) for x in (*scalars, addend)) else call.work.parts
    left, right = call.matrices(unread=scalars[0] == 0)
    views = [None if x is None else call.as_matrices(x) for x in (out, addend, bound)]
    if call.fmt.parts > parts:
        out.imag = 0
    plan = _empty_plan(call) if out.size == 0 else None
    todo = list(pieces(left, right, call.batch, parts, *views)) if out.size else []
    for at, piece in enumerate(todo):
        scaling = None
        if scalars[0] != 1 or piece.addend is not None:
            scaling = backend.scaling(*scalars, piece.addend, piece.out.shape)

        def report(done: float, at: int = at) -> None:
            if progress is not None:
                progress((at + done) / len(todo))

        plan = run(
            call.problem(piece.left, piece.right), piece.out, scaling, piece.bound, report, ledger
        )
    assert plan is not None
    return plan, ledger


def _empty_plan(call: Call) -> Plan:
    k = _dims(call.left)[-1]
    shape = (math.prod(call.batch), call.m, k, call.n)
    needs = typical_needs(call.contract, call.work, k)
    return make_plan(
        call.contract, call.work, shape, needs, unit=call.unit, system=call.system,
        workspace=call.workspace, why=("the result is empty",),
    )  # fmt: skip


def plan(
    a: Any,
    b: Any,
    *,
    accuracy: Accuracy = None,
    dtype: Any = None,
    unit: str | None = None,
    system: str | None = None,
    workspace: int | str | None = None,
) -> Plan:
    """What `matmul` would do with these operands, and why, before paying for it.

    Parameters
    ----------
    a, b
        Arrays (or `Encoded`): their rows and columns are looked at, as `matmul` would. Or shapes,
        ``(m, k)`` and ``(k, n)``: then rows of similar magnitudes are assumed.
    accuracy, dtype, unit, system, workspace
        As for `matmul`. With shapes, `dtype` is that of the result, float64 by default.

    Examples
    --------
    >>> import widen
    >>> widen.plan((1024, 1024), (1024, 1024)).products
    5
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        fmt = arguments.result_format(dtype, FORMATS["float32"])
        fmt = fmt if dtype is not None else FORMATS["float64"]
        batch, m, n = arguments.result_dims(a, b)
        contract = as_contract("standard" if accuracy is None else accuracy)
        k = arguments.matrix_dims(a, "left")[-1]
        cap = first_cap(fmt.precision, k) if contract.correct else None
        return make_plan(
            contract, fmt, (math.prod(batch), m, k, n), typical_needs(contract, fmt, k), unit=unit,
            system=system, cap=cap, workspace=arguments.workspace_bytes(workspace),
            why=("rows and columns of similar magnitudes are assumed",),
        )  # fmt: skip
    call = _check(a, b, accuracy, dtype, unit, system, workspace)
    if math.prod(call.dims) == 0:
        return _empty_plan(call)
    left, right = call.matrices(unread=False)
    shape = (*call.batch, call.m, call.n)
    nowhere = np.broadcast_to(np.empty((), call.work.name), shape)
    first = next(pieces(left, right, call.batch, call.work.parts, nowhere, None, None))
    return quantise_both(call.problem(first.left, first.right), Ledger())[2]


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
    array = as_operand(x, "x")
    own = format_of(array.dtype, "x")
    fmt = arguments.result_format(dtype, default_result(own, own))
    chosen, _ = unit_for(unit)
    check_system(system)
    return encode_operand(array, side, as_contract(accuracy), fmt, chosen, system)
