"""What a scope does with each of PyTorch's operators: take it over, open it, report it, or pass.

Operators are known by name, so that one that a later PyTorch adds is reported if its name says
that it multiplies. `tests/emulate/test_operators.py` goes over all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from widen.emulate.products import MADE_OF_PRODUCTS, READERS, Sum
from widen.nn import elementwise


class Action(Enum):
    """What a scope does with an operator."""

    PASS = "it multiplies no matrices"
    TAKE = "it is a product, which widen computes"
    STEADY = "its kernel depends on places, and is replaced if the caller wants that"
    OWN = "it is widen's own operator, in a compiled function"
    OPEN = "it is made of others, which are looked at in turn"
    REPORT = "it multiplies inside, where nobody can see"


class Way(NamedTuple):
    """An action, and what it needs.

    Attributes
    ----------
    action
        What is done.
    read
        For TAKE: how arguments are read.
    made_of
        For OPEN: a function that computes the same by other operators; None for PyTorch's own.
    reason
        For REPORT: why it cannot be taken over.
    """

    action: Action
    read: Callable[..., Sum] | None = None
    made_of: Callable[..., Any] | None = None
    reason: str = ""


PASS = Way(Action.PASS)
OPEN = Way(Action.OPEN)
OWN = Way(Action.OWN)
STEADY = Way(Action.STEADY)

MULTIPLIES = re.compile(
    r"(^|_)(mm|addmm|bmm|baddbmm|addbmm|mv|addmv|addr|dot|vdot|vecdot|matmul|spmm|hspmm|smm"
    r"|sspaddmm|gemm|tensordot|einsum|outer|ger|inner|kron|cov|corrcoef|cholesky|lu|qr|svd|eig"
    r"|eigh|eigvals|lstsq|geqrf|ormqr|orgqr|pinverse|inverse|det|logdet|slogdet|solve|spsolve"
    r"|matrix|cdist|pdist|euclidean|cosine|affine_grid|lobpcg|sdp|flash|fbgemm)(_|$)"
    r"|linear|linalg|conv|attention|lstm|gru|rnn|multi_head|transformer|4bit|pack_mm"
)
"""Names of operators that multiply matrices, or may."""

REASONS = (
    (r"conv", "a convolution: it multiplies inside one kernel"),
    (r"attention|multi_head|transformer|flash", "fused attention: it multiplies inside one kernel"),
    (r"lstm|gru|rnn", "a fused recurrent layer: it multiplies inside one kernel"),
    (r"trilinear|affine_grid", "its kernel calls a product where no scope can see it"),
    (r"cdist|pdist", "distances: sums of differences inside one kernel"),
    (r"int_mm|int8|int4|4bit|quant|fbgemm|prepack", "quantised operands"),
    (r"sparse|spmm|smm|spsolve|sspaddmm|semi_structured|cslt", "sparse operands"),
    (r"scaled|grouped|mixed_dtypes|foreach", "operands with scales or in groups"),
    (r"(^|_)(mm|addmm|bmm|mv|dot|matmul|linear)", "a product of a kind that widen does not have"),
    (r"", "a solver or factorisation (LAPACK): it multiplies inside; see widen.linalg"),
)  # fmt: skip

HARMLESS = frozenset(
    {
        "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo",
        "_cudnn_rnn_flatten_weight", "_use_cudnn_rnn_flatten_weight", "_fused_sdp_choice",
        "_linalg_check_errors", "lu_unpack",
        "_thnn_fused_gru_cell", "_thnn_fused_gru_cell_backward",
        "_thnn_fused_lstm_cell", "_thnn_fused_lstm_cell_backward_impl",
        "_thnn_differentiable_gru_cell_backward", "_thnn_differentiable_lstm_cell_backward",
        "_convert_weight_to_int4pack", "_convert_weight_to_int4pack_for_cpu",
        "mkldnn_reorder_conv2d_weight", "mkldnn_reorder_conv3d_weight", "linalg__powsum",
        "linalg_cross", "linalg_vector_norm", "linalg_diagonal", "slice_inverse",
    }
)  # fmt: skip
"""Operators that the pattern finds and that multiply no matrices: gates, norms, formats, views."""

INTERPOLATES = re.compile(r"upsample|interpolate|grid_sampler")
"""These find values between neighbours, and are called linear for that."""

STRUCTURAL = frozenset(
    {
        "reshape", "reshape_as", "to", "type_as", "contiguous", "flatten", "unflatten", "view_as",
        "expand_as", "chunk", "split", "tensor_split", "hsplit", "vsplit", "dsplit", "narrow",
        "movedim", "moveaxis", "swapaxes", "swapdims", "numpy_T", "matrix_H", "mT", "mH", "adjoint",
        "item", "is_nonzero", "size", "dim", "stride", "numel", "is_floating_point", "is_complex",
        "broadcast_to", "ravel", "squeeze", "unsqueeze", "concat", "concatenate", "stack", "hstack",
        "vstack", "dstack", "where", "dropout", "dropout_", "layer_norm", "group_norm",
        "batch_norm", "rms_norm", "_fused_rms_norm", "softmax", "log_softmax",
        "cross_entropy_loss", "nll_loss_nd", "embedding", "pad", "resolve_conj", "resolve_neg",
        "conj", "real", "imag", "multiply", "divide", "subtract", "greater", "less", "not_equal",
        "true_divide", "square",
    }
)  # fmt: skip
"""Frequent operators made of others none of which multiplies matrices: they are not opened."""

NAMESPACES = frozenset(
    {
        "aten", "prim", "prims", "widen", "profiler", "c10d", "_c10d_functional", "debugprims",
        "rngprims", "inductor", "streams", "functorch", "_test", "higher_order", "c10d_functional",
    }
)  # fmt: skip
"""Namespaces that are known: their operators multiply if their names say so, and not otherwise."""

WAYS: dict[Any, Way] = {}
"""Operators seen so far."""


def way_of(func: Any) -> Way:
    """What a scope does with an operator, which is noted for the next time."""
    way = WAYS[func] = _find(func)
    return way


def _find(func: Any) -> Way:
    if not hasattr(func, "_schema"):
        return Way(Action.REPORT, reason="an operator that calls functions, which nobody sees")
    namespace, _, name = func._schema.name.partition("::")
    if namespace == "aten":
        read = READERS.get(name)
        if read is not None:
            return Way(Action.TAKE, read)
        if name.removesuffix("_") in elementwise.OPERATORS:
            return STEADY
        made_of = MADE_OF_PRODUCTS.get(func)
        if made_of is not None:
            return Way(Action.OPEN, made_of=made_of)
    if namespace == "widen":
        return OWN if name == "gemm" else PASS
    if _is_made_of_others(func):
        return PASS if name in STRUCTURAL else OPEN
    if namespace not in NAMESPACES and not MULTIPLIES.search(name):
        reason = f"an operator of {namespace}: widen does not know whether it multiplies"
        return Way(Action.REPORT, reason=reason)
    if name in HARMLESS or INTERPOLATES.search(name) or not MULTIPLIES.search(name):
        return PASS
    return Way(Action.REPORT, reason=reason_of(name))


def _is_made_of_others(func: Any) -> bool:
    """Whether PyTorch can take an operator apart.

    Some that ask for a property of a tensor (`prim::device`, `aten::sym_size`) are none of the
    dispatcher's, which then raises an error. Where PyTorch calls us from C++, that would end the
    process.
    """
    try:
        return bool(func._can_decompose())
    except RuntimeError:
        return False


def reason_of(name: str) -> str:
    """Why an operator that multiplies cannot be taken over."""
    return next(reason for pattern, reason in REASONS if re.search(pattern, name))
