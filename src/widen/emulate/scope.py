"""The scope itself: a dispatch mode of PyTorch that sees every operator and takes over products."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from widen import bounds as inequalities
from widen.calls import autograd, dispatch
from widen.contract import Contract, as_contract
from widen.emulate import compiled, switches
from widen.emulate.log import Kind, Log, MissedProductError, caller, operator_name
from widen.emulate.operators import WAYS, Action, Way, way_of
from widen.emulate.products import READERS, Sum, addend_fits, flops, operands_fit
from widen.formats import PLAIN
from widen.gpu.replay import private
from widen.gpu.replay.modes import TorchDispatchMode, uncovered, unwatched
from widen.nn import elementwise
from widen.options import Accuracy, Options
from widen.stages.problem import Scalars

Tensor = torch.Tensor
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
NAMES = {getattr(torch, name): name for name in PLAIN}
"""Dtypes that widen multiplies, and its names for them."""


@dataclass(frozen=True)
class Choices:
    """What the caller of `widen.emulate` chose."""

    contract: Contract
    dtypes: frozenset[Any]
    min_flops: int
    fused: bool
    missed: Literal["log", "raise"]
    bounds: bool
    steady: bool

    @staticmethod
    def checked(
        accuracy: Accuracy, dtypes: Iterable[Any] | None, min_flops: Any, fused: bool, missed: Any,
        *, bounds: bool, steady: bool,
    ) -> Choices:  # fmt: skip
        """The record, or an error that says what is wrong."""
        if missed not in ("log", "raise"):
            raise ValueError(f"missed={missed!r} is not known; use 'log' or 'raise'")
        if isinstance(min_flops, bool) or not isinstance(min_flops, (int, float)) or min_flops < 0:
            raise ValueError(f"min_flops={min_flops!r} is no count of operations; give 0 or more")
        contract = as_contract("standard" if accuracy is None else accuracy)
        switches = bool(bounds), bool(steady)
        return Choices(contract, _dtypes(dtypes), int(min_flops), bool(fused), missed, *switches)


def _dtypes(given: Iterable[Any] | None) -> frozenset[Any]:
    if given is None:
        return frozenset(NAMES)
    words = [given] if isinstance(given, (str, torch.dtype)) else list(given)
    known = {name: dtype for dtype, name in NAMES.items()}
    formats = [known.get(str(word).removeprefix("torch.")) for word in words]
    if None in formats:
        word = words[formats.index(None)]
        raise ValueError(f"dtypes has {word!r}, which widen does not multiply; use {list(known)}")
    return frozenset(formats)


class Scope(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """What `widen.emulate` gives: a context manager whose `log` says what happened.

    Attributes
    ----------
    choices
        What the caller chose.
    log
        The `Log`, which entering the scope gives, too.
    """

    is_widen_scope = True
    supports_higher_order_operators = True

    def __init__(self, choices: Choices) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.choices = choices
        self.log = Log()

    def __reduce__(self) -> Any:
        """A copy has the same choices, and a log of its own."""
        return Scope, (self.choices,)

    def __repr__(self) -> str:
        return f"widen.emulate({str(self.choices.contract)!r})"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch's way to hide a mode from its compiler would import that, three seconds."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """PyTorch asks whether it may compile functions inside the scope."""
        return compiled.is_served()

    def __enter__(self) -> Log:
        compiled.prepare(_hide)
        switches.enter()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self.log

    def __exit__(self, *error: Any) -> None:
        with uncovered(self):
            super().__exit__(*error)  # type: ignore[no-untyped-call]
        if switches.leave():
            compiled.release()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Every operator comes here; most go on as they are."""
        way = WAYS.get(func) or way_of(func)
        if way.action is Action.PASS:
            return func(*args, **kwargs) if kwargs else func(*args)
        if way.action is Action.STEADY:
            return self._steady(func, args, kwargs or {})
        if way.action is not Action.REPORT and _is_made_of_tensors(types):
            return NotImplemented  # its own handler goes first, and calls operators that come here
        return self._handle(way, func, args, kwargs or {})

    def _steady(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An activation, by a kernel that does not depend on places if the caller chose that."""
        if not self.choices.steady or not args[0].is_floating_point():
            return func(*args, **kwargs)
        return elementwise.run(operator_name(func), args, kwargs)

    def _handle(self, way: Way, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nested = [x for x in args if isinstance(x, Tensor) and x.is_nested]
        if way.action is Action.OPEN and nested:  # which cannot be taken apart
            self._leave(func, nested, "an operand has the layout nested", missed=True)
            return func(*args, **kwargs)
        if way.action is Action.OPEN:
            return self._opened(way.made_of or func.decompose, args, kwargs)
        if way.action is Action.OWN:
            return self._own(func, args)
        if way.read is None:
            tensors = [x for x in args if isinstance(x, Tensor)]
            self._leave(func, tensors, way.reason, missed=True)
            return func(*args, **kwargs)
        whole = way.read(args, kwargs)
        reason, missed = self._obstacle(whole)
        if reason is None:
            return self._take(func, whole)
        if reason:
            self._leave(func, [whole.a, whole.b], reason, missed=missed)
        return func(*args, **kwargs)

    def traced(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A product in a graph that is compiled: the operator and sums, or NotImplemented."""
        read = READERS[func._schema.name.removeprefix("aten::")]
        whole = read(args, kwargs)
        reason, missed = self._obstacle(whole)
        if reason is None:
            result, _ = self._computed(whole)
            return result if whole.finish is None else whole.finish(result)
        if reason:
            self._leave(func, [whole.a, whole.b], reason, missed=missed, note="compiled")
        return NotImplemented

    def _opened(self, made_of: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator made of others, run with the scope open, so that it sees them."""
        super().__enter__()  # type: ignore[no-untyped-call]
        try:
            return made_of(*args, **kwargs)
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _obstacle(self, whole: Sum) -> tuple[str | None, bool]:
        """Why a product is left alone, and whether the caller would call that missed.

        None if nothing is in the way. An empty reason if PyTorch will raise an error of its own.
        """
        a, b, chosen = whole.a, whole.b, self.choices
        rest = [x for x in (whole.c, whole.out) if x is not None]
        for x in (a, b, *rest):
            if x.layout is not torch.strided or x.is_nested:
                layout = "nested" if x.is_nested else str(x.layout).removeprefix("torch.")
                return f"an operand has the layout {layout}", True
        name = NAMES.get(a.dtype)
        if name is None:
            return f"{_name(a.dtype)}: PyTorch's own product of integers does not round", False
        if not operands_fit(a, b) or not addend_fits(whole):
            return "", False
        result = a.dtype if whole.dtype is None else whole.dtype
        if any(x.dtype != result for x in rest):
            return "", False
        if whole.c is not None and _is_complex(whole.alpha, whole.beta) and not result.is_complex:
            return "", False
        if a.dtype not in chosen.dtypes:
            return f"dtypes= leaves {name} out", False
        if flops(a, b) < chosen.min_flops:
            return f"fewer operations than min_flops={chosen.min_flops}", False
        if NAMES.get(result) not in PLAIN:
            return f"widen has no results in {_name(result)}", True
        if a.device.type not in ("cpu", "cuda", "meta"):
            return f"widen does not multiply on {a.device.type}", True
        if b.shape[0 if b.ndim == 1 else -2] > inequalities.LARGEST_INNER:
            return f"the inner dimension is above {inequalities.LARGEST_INNER}", True
        if whole.c is not None and chosen.fused and not _are_finite(whole.alpha, whole.beta):
            return "alpha or beta is not finite", True
        return None, False

    def _take(self, func: Any, whole: Sum) -> Any:
        """The product by widen, and the sum as the caller chose."""
        started = time.perf_counter()
        try:
            result, bound = self._computed(whole)
        except TypeError as error:  # `a @ b` would make "unsupported operand" of it
            raise RuntimeError(f"widen.emulate: {error}") from error
        if whole.finish is not None:
            result = whole.finish(result)
        out = whole.out
        if out is not None:
            if out.shape != result.shape:
                out.resize_(result.shape)
            result = out.copy_(result)
        if not private.is_fake(whole.a):
            elapsed = time.perf_counter() - started
            self.log.note(self._kind(func, [whole.a, whole.b], ""), elapsed, bound)
        return result

    def _own(self, func: Any, args: tuple[Any, ...]) -> Any:
        """A product that a compiled function takes over itself."""
        started = time.perf_counter()
        a, b, scalars, options = autograd.read(args)
        result, bound = self._product(a, b, scalars, options)
        kind = self._kind(func, [a, b], "", "compiled")
        self.log.note(kind, time.perf_counter() - started, bound)
        return result

    def _computed(self, whole: Sum) -> tuple[Tensor, float]:
        """The result in PyTorch's dtype, and the largest proven error of the product."""
        c, alpha, beta = whole.c, whole.alpha, whole.beta
        dtype = NAMES[whole.a.dtype if whole.dtype is None else whole.dtype]
        options = Options(self.choices.contract, dtype)
        if c is None or not self.choices.fused:
            result, bound = self._product(whole.a, whole.b, Scalars(), options)
            return (result if c is None else _added(result, c, alpha, beta)), bound
        scalars = Scalars(_scalar(alpha), _scalar(beta), None if beta == 0 else c)
        return self._product(whole.a, whole.b, scalars, options)

    def _product(
        self, a: Tensor, b: Tensor, scalars: Scalars, options: Options
    ) -> tuple[Tensor, float]:
        """One call of widen: past autograd, which has seen the operator already.

        Where others look on (compilers, modes of other people), one operator that they can see.
        """
        operands = (a, b) if scalars.c is None else (a, b, scalars.c)
        plain = all(type(x) in PLAIN_TYPES and not x.is_meta for x in operands)
        if private.is_watched_by_others() or not plain:
            return autograd.seen(a, b, scalars, options), math.nan
        options = replace(options, info="largest" if self.choices.bounds else False)
        if scalars.c is not None:
            scalars = replace(scalars, c=scalars.c.detach())
        with unwatched() if private.is_watched() else nullcontext():
            result = dispatch.below_autograd(a.detach(), b.detach(), scalars, options)
        return (result[0], result[1].bound) if self.choices.bounds else (result, math.nan)

    # ── the log ──────────────────────────────────────────────────────────────────────────────────

    def _leave(
        self, func: Any, tensors: list[Tensor], reason: str, *, missed: bool, note: str = ""
    ) -> None:
        kind = self._kind(func, tensors, reason, note)
        self.log.note(kind)
        if missed and self.choices.missed == "raise":
            raise MissedProductError(
                f"widen.emulate left {operator_name(func)} alone: {reason}; "
                "use missed='log' to go on"
            )

    def _kind(self, func: Any, tensors: list[Tensor], reason: str, note: str = "") -> Kind:
        notes = [note] if note else []
        if private.is_backward():
            notes.append("backward")
        first = tensors[0] if tensors else None
        if first is not None and _is_autocast(first):
            notes.append("autocast")
        code, line = caller(sys._getframe(1))
        dtype = None if first is None else first.dtype
        shapes = tuple(x.shape for x in tensors if not x.is_nested)  # which have no shape
        return Kind(func, code, line, shapes, dtype, tuple(notes), reason)


def _hide(hidden: Callable[[Any], Any]) -> None:
    """Have the compiler not look into the scope; without it, that would take time for nothing."""
    Scope.__torch_dispatch__ = hidden(Scope.__torch_dispatch__)  # type: ignore[method-assign]


def _is_made_of_tensors(types: Any) -> bool:
    """Whether an operand is made of other tensors (a DTensor, a jagged tensor), with a handler.

    Tensors of compilers are not meant: they look at what a scope makes of a product.
    """
    return any(
        cls not in PLAIN_TYPES
        and cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        and cls.__name__ not in ("FakeTensor", "FunctionalTensor")
        for cls in types
    )


def _is_autocast(x: Tensor) -> bool:
    """Whether autocast made an operand what it is.

    Autocast switches itself off before it calls the operator, so that
    `torch.is_autocast_enabled` does not tell; how deep its contexts are nested does.
    """
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth > 0 and not x.is_meta and x.dtype == torch.get_autocast_dtype(x.device.type)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _scalar(x: Any) -> complex:
    return x if isinstance(x, complex) else float(x)


def _is_complex(*scalars: Any) -> bool:
    return any(isinstance(x, complex) for x in scalars)


def _are_finite(*scalars: Any) -> bool:
    return all(math.isfinite(abs(complex(x))) for x in scalars)


def _added(product: Tensor, c: Tensor, alpha: Any, beta: Any) -> Tensor:
    """The sum beta c + alpha product, step by step.

    `torch.add` with alpha would round once in the middle of an array and twice at its end.
    """
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return torch.add(c if beta == 1 else c * beta, scaled)
