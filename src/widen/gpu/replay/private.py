"""PyTorch and Triton where they may be missing, have changed, or look on.

All private names of theirs stand here, in one table, which a test reads aloud. Where one is
missing (a release that renamed it), launches go by Triton's own way and nothing is recorded:
slower, and the same bits. The driver's functions are public (`driver`). This module may be imported
without PyTorch, and looks it up among the modules that are there: with an `import` in it,
`is_watched` takes 180 ns instead of 123, and every operation in a scope of `widen.emulate` asks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import getattr_static
from typing import Any

from widen.formats.arrays import is_tensor
from widen.stages.compiling.notices import logger

PYTORCH = {
    "_C._cuda_getCurrentRawStream": "the current stream, as a number",
    "_C._cuda_getDevice": "the current GPU, without asking whether there is one",
    "_C._are_functorch_transforms_active": "whether torch.func maps or differentiates here",
    "_C._len_torch_dispatch_stack": "whether a dispatch mode watches operations here",
    "_C._get_dispatch_stack_at": "which one",
    "_C._functorch.is_functorch_wrapped_tensor": "whether torch.func has a tensor in its hands",
    "_functorch.pyfunctorch.retrieve_current_functorch_interpreter": "what torch.func does here",
    "autograd.forward_ad._current_level": "whether forward mode is on",
    "_C._dispatch_tls_is_dispatch_key_excluded": "whether autograd has seen an operator already",
    "utils._python_dispatch.TorchDispatchMode": "what listens to a call that is recorded",
    "utils._python_dispatch.TorchDispatchMode._should_skip_dynamo": "listening without a compiler",
    "utils._python_dispatch._disable_current_modes": "operations that are not listened to",
}
"""Of `torch`, and what each is for."""

TRITON = {
    "runtime.jit.JITFunction.arg_names": "a kernel's parameters, in order",
    "runtime.jit.JITFunction.params": "which of them are constants, which it specialises on",
    "tools.tensor_descriptor.TensorDescriptor": "a matrix as bulk copies read it",
    "_C.libtriton.ir": "what kernels are compiled in",
    "backends.compiler.GPUTarget": "which GPUs they are compiled for",
    "compiler.compiler.ASTSource": "a kernel for arguments of some types",
    "compiler.compiler.ASTSource.make_ir": "its first form",
    "compiler.compiler.make_backend": "the stages that make machine code of it",
}
"""Of `triton`, likewise."""


def missing() -> list[str]:
    """Names that are not there, with what they are for; of packages that are imported.

    A PyTorch built without CUDA has none of CUDA's, and nobody asks for them.
    """
    return [
        f"{package}.{name} ({purpose})"
        for package, names in (("torch", PYTORCH), ("triton", TRITON))
        for name, purpose in names.items()
        if package in sys.modules
        and not _has(package, name)
        and not ("_cuda_" in name and not sys.modules["torch"].backends.cuda.is_built())
    ]


def _has(package: str, name: str) -> bool:
    """Whether a dotted name leads somewhere; what instances have counts if `__init__` sets it.

    Nothing is called on the way: Triton's driver would look for a GPU.
    """
    place: Any = sys.modules[package]
    for part in name.split("."):
        module = sys.modules.get(f"{getattr(place, '__name__', '')}.{part}")
        value = getattr_static(place, part, module)
        if value is None:
            code = getattr(getattr(place, "__init__", None), "__code__", None)
            return part in getattr(code, "co_names", ())
        place = value
    return True


@cache
def available() -> bool:
    """Whether launches may be made past Triton's own way, and recorded. Triton is imported.

    Where not, the logger says so once: results are the same, calls are slower.
    """
    lost = missing()
    if lost:
        logger.warning("launches are slower, and not recorded: there is no %s", "; ".join(lost))
    return not lost


def is_mapped() -> bool:
    """Whether torch.func or a dispatch mode sees what happens to tensors; True if nobody can tell.

    Then products go through PyTorch's operator, which is slower and always right.
    """
    core = sys.modules["torch"]._C
    try:
        return bool(core._are_functorch_transforms_active() or core._len_torch_dispatch_stack())
    except AttributeError:
        return True


def is_forward_mode() -> bool:
    """Whether forward mode is on; True if nobody can tell."""
    return bool(getattr(sys.modules["torch"].autograd.forward_ad, "_current_level", 0) >= 0)


def is_below_autograd() -> bool:
    """Whether an operator runs that autograd has seen already: PyTorch has no tangents to give.

    In `torch.func.linearize`, which traces inside of forward mode, asking for one is an error.
    """
    core = sys.modules["torch"]._C
    excluded = getattr(core, "_dispatch_tls_is_dispatch_key_excluded", None)
    return excluded is not None and bool(excluded(core.DispatchKey.ADInplaceOrView))


def is_fake(x: Any) -> bool:
    """Whether a tensor has a shape and no numbers."""
    return bool(x.is_meta) or type(x).__name__ == "FakeTensor"


def is_hidden(x: Any) -> bool:
    """Whether torch.func or forward mode maps or differentiates a tensor.

    Its numbers are not there to be looked at, or what is made of them would lose its tangent.
    """
    torch = sys.modules["torch"]
    wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)
    if wrapped is not None and wrapped(x):
        return True
    if not is_forward_mode() or is_below_autograd():
        return False
    return torch.autograd.forward_ad.unpack_dual(x).tangent is not None


def stream_reader() -> Callable[[int], int]:
    """What gives the current stream of a GPU, as a number."""
    torch = sys.modules["torch"]
    public = lambda device: int(torch.cuda.current_stream(device).cuda_stream)  # noqa: E731
    reader: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", public)
    return reader


def is_current(device: int) -> bool:
    """Whether a GPU is the current one."""
    torch = sys.modules["torch"]
    ask = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
    return bool(ask() == device)


def is_backward() -> bool:
    """Whether a backward pass calls; False if nobody can tell."""
    task = getattr(sys.modules["torch"]._C, "_current_graph_task_id", None)
    return bool(task is not None and task() != -1)


def is_watched() -> bool:
    """Whether a dispatch mode sees operators here."""
    return bool(sys.modules["torch"]._C._len_torch_dispatch_stack())


def is_watched_by_others() -> bool:
    """Whether torch.func, or a dispatch mode that is no scope of `widen.emulate`, sees them."""
    core = sys.modules["torch"]._C
    return bool(core._are_functorch_transforms_active()) or not all(
        getattr(core._get_dispatch_stack_at(at), "is_widen_scope", False)
        for at in range(core._len_torch_dispatch_stack())
    )


def innermost_scope() -> Any:
    """The innermost scope of `widen.emulate` that is open in this thread, or None."""
    core = sys.modules["torch"]._C
    for at in reversed(range(core._len_torch_dispatch_stack())):
        mode = core._get_dispatch_stack_at(at)
        if getattr(mode, "is_widen_scope", False):
            return mode
    return None


def is_in_scope() -> bool:
    """Whether scopes of `widen.emulate` see operators here, and nobody else; no compiler either."""
    if is_compiled():
        return False
    return is_watched() and not is_watched_by_others()


# ── who looks on, and what to say where there is no PyTorch ──────────────────────────────────────


def is_compiled() -> bool:
    """Whether torch.compile is tracing what happens to tensors here."""
    return bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def is_differentiated_in_graph() -> bool:
    """Whether torch.compile traces a function that torch.func differentiates, or forward mode.

    A custom operator can tell PyTorch its gradient and how it is mapped, no more: in forward mode
    it would lose tangents silently. Maps of maps may be maps of gradients.
    """
    if not is_compiled():
        return False
    torch = sys.modules["torch"]
    if is_forward_mode():
        return True
    if not torch._C._are_functorch_transforms_active():
        return False
    inner = torch._functorch.pyfunctorch.retrieve_current_functorch_interpreter()
    return bool(inner.key().name != "Vmap" or inner.level() > 1)


def is_traced() -> bool:
    """Whether PyTorch maps, traces or watches whatever happens to tensors here."""
    return is_compiled() or is_mapped()


def wants_gradient(*given: Any) -> bool:
    """Whether PyTorch records what becomes of these for a gradient."""
    tensors = [x for x in given if is_tensor(x)]
    return any(x.requires_grad for x in tensors) and bool(sys.modules["torch"].is_grad_enabled())


def is_transformed(*given: Any) -> bool:
    """Whether PyTorch differentiates, maps or traces what becomes of these."""
    tensors = [x for x in given if is_tensor(x)]
    if not tensors:
        return False
    torch = sys.modules["torch"]
    return is_traced() or any(
        (x.requires_grad and torch.is_grad_enabled())
        or type(x) not in (torch.Tensor, torch.nn.Parameter)
        or x.is_meta
        or is_hidden(x)
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


@contextmanager
def pytorch_for(what: str) -> Iterator[None]:
    """A context for the import of PyTorch, which one function needs."""
    try:
        yield
    except ImportError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"{what} needs PyTorch: pip install 'widen[torch]'") from error
