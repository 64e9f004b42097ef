"""Other people's programs: `widen.emulate`, a scope in which PyTorch code multiplies with widen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from widen.gpu.replay.private import pytorch_for
from widen.options import Accuracy

if TYPE_CHECKING:
    from widen.emulate.scope import Scope

__all__ = ["emulate"]


def emulate(
    accuracy: Accuracy = "standard",
    *,
    dtypes: Iterable[Any] | None = None,
    min_flops: int = 0,
    fused: bool = False,
    missed: Literal["log", "raise"] = "log",
    bounds: bool = True,
    steady: bool = False,
) -> Scope:
    """A scope in which existing PyTorch code multiplies matrices with widen.

    Inside ``with widen.emulate() as log:`` every product of PyTorch tensors that PyTorch lets be
    taken over keeps the contract, forward and backward: ``a @ b``, `torch.nn.Linear`, attention,
    LSTM, `torch.einsum` and all else that comes down to products of matrices. ``print(log)`` says
    what was taken over and what was left alone, and why. Nothing is missed silently.

    Parameters
    ----------
    accuracy
        The contract of every product, as for `widen.matmul`.
    dtypes
        Dtypes (or their names) of the operands to take over; None for all that widen multiplies.
        Products of others are left alone, and listed.
    min_flops
        Products of fewer operations, 2 m k n for every matrix, are left alone, and listed.
    fused
        What `torch.addmm` and its kin do. False: the product is rounded, then the sum is PyTorch's
        own. True: product and sum are exact and rounded once. PyTorch itself chooses between
        ``addmm`` and ``mm`` with a sum by strides and under `torch.vmap`, so that the bits of a
        program with ``fused=True`` depend on that choice.
    missed
        What happens when an operation multiplies matrices and cannot be taken over: ``"log"``
        lists it, ``"raise"`` makes it a RuntimeError.
    bounds
        Whether each product is asked for its largest proven error. False takes less time, and on a
        GPU nothing waits for the device.
    steady
        Whether gelu, silu, sigmoid, softplus, mish, elu and their gradients are computed by
        formulas that do not depend on an element's place in an array, as PyTorch's own kernels on a
        CPU do. It takes several times as long for these. Compiled functions do without.

    Returns
    -------
    Scope
        A context manager that gives a `Log`. It may be entered again, nested (the inner scope
        wins), and by other threads, which are covered only if they enter it.

    Notes
    -----
    Inside the scope, fused attention, the fast path of multi-head attention and the fused LSTMs of
    oneDNN and cuDNN are switched off for the whole process, so that their products can be seen.
    They are restored when the last scope ends. ``docs/programs.md`` has the table of what is taken
    over and what cannot be.

    Examples
    --------
    >>> import torch, widen
    >>> a = torch.tensor([[1e16, 1.0, -1e16]], dtype=torch.float64)
    >>> b = torch.ones(3, 1, dtype=torch.float64)
    >>> with widen.emulate(accuracy="correct") as log:
    ...     c = a @ b
    >>> c.item(), [(row.operator, row.count) for row in log.taken]
    (1.0, [('mm', 1)])
    """
    with pytorch_for("widen.emulate"):
        from widen.emulate.scope import Choices, Scope

    return Scope(
        Choices.checked(accuracy, dtypes, min_flops, fused, missed, bounds=bounds, steady=steady)
    )
