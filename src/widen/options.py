"""What a caller may choose: one frozen record that is handed on whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from widen.contract import Contract
from widen.plan import Plan

Accuracy = str | int | Contract | None

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

Wanted = bool | Literal["largest"]
"""What `info` may be: no Info, one with a bound of every element, or with the largest alone."""


@dataclass(frozen=True)
class Options:
    """The options of `widen.matmul` and `widen.gemm`, as a caller gave them."""

    accuracy: Accuracy = None
    dtype: Any = None
    unit: str | None = None
    system: str | None = None
    workspace: int | str | None = None
    plan: Plan | None = None
    native: bool = False
    info: Wanted = False
    progress: Progress | None = None
    device: Any = None

    @property
    def plain(self) -> bool:
        """Whether nothing is asked for but the product."""
        return (
            self.info is False and not self.native and self.progress is None and self.device is None
        )

    @property
    def key(self) -> tuple[Any, ...]:
        """All that a plain product depends on: 40.0 and True equal contracts, and are none."""
        accuracy = self.accuracy
        return (
            accuracy, type(accuracy), self.dtype, self.unit, self.system, self.workspace, self.plan
        )  # fmt: skip
