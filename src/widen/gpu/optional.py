"""PyTorch and Triton, which may not be there: who looks on, and what to say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from widen.formats.arrays import is_tensor
from widen.gpu.replay import private


def is_compiled() -> bool:
    """Whether torch.compile is tracing what happens to tensors here."""
    return bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def is_traced() -> bool:
    """Whether PyTorch maps, traces or watches whatever happens to tensors here."""
    return is_compiled() or private.is_mapped()


def is_transformed(*given: Any) -> bool:
    """Whether PyTorch differentiates, maps or traces what becomes of these."""
    tensors = [x for x in given if is_tensor(x)]
    if not tensors:
        return False
    torch = sys.modules["torch"]
    dual = torch.autograd.forward_ad
    return is_traced() or any(
        (x.requires_grad and torch.is_grad_enabled())
        or type(x) not in (torch.Tensor, torch.nn.Parameter)
        or x.is_meta
        or (private.is_forward_mode() and dual.unpack_dual(x).tangent is not None)
        for x in tensors
    )


@contextmanager
def pytorch_and_triton() -> Iterator[None]:
    """A context for imports that need them, without which the rest of the library does."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"a GPU needs PyTorch and Triton ({error}): pip install 'widen[torch]'"
        ) from error
