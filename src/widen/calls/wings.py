"""The two wings as a call sees them: products of arrays, products of tensors on a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

from widen.encoded import Encoded
from widen.gpu.replay.private import pytorch_and_triton
from widen.options import Options
from widen.plan import Plan
from widen.stages.call import Call, Scalars
from widen.stages.problem import Encoding


class Wing(Protocol):
    """`cpu.products` and `gpu.products`."""

    def default_workspace(self, place: str) -> int:
        """Bytes of workspace where the caller does not say."""

    def check_unit(self, unit: str | None, place: Any = None) -> None:
        """Whether the unit that was asked for runs there."""

    def ordinary_is_fast(self, call: Call) -> bool:
        """Whether the ordinary product of these operands may be the faster one."""

    def ready(self, call: Call, options: Options) -> AbstractContextManager[None]:
        """A context to compute in."""

    def replayed(self, a: Any, b: Any, out: Any, options: Options) -> Any:
        """The product by launches recorded of a call of this kind, or None."""

    def product(self, call: Call, scalars: Scalars, out: Any, options: Options) -> Any:
        """The sum alpha a b + beta c, and an Info if asked for."""

    def plan(self, call: Call) -> Plan:
        """What a call would run."""

    def typical_plan(
        self,
        wanted: Encoding,
        shape: tuple[int, int, int, int],
        workspace: int,
        place: str | None = None,
    ) -> Plan:
        """A plan for rows and columns of similar magnitudes, made without looking at any."""

    def encode(self, x: Any, wanted: Encoding) -> Encoded:
        """An operand, encoded."""


def wing_of(place: str) -> Wing:
    """The wing where arrays or tensors of this place are multiplied."""
    return on_gpu() if place.startswith("cuda") else _on_cpu()


@cache
def on_gpu() -> Wing:
    """The wing of tensors on a GPU; importing it anew would take 3 us of every call."""
    with pytorch_and_triton():
        from widen.gpu import products

        return products


@cache
def _on_cpu() -> Wing:
    from widen.cpu import products

    return products
