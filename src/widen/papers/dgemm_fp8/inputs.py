"""Paper 004's matrices, and the versions that its figures compare."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from widen.papers.dgemm_fp8.algorithm import dgemm_fp8tc, dgemm_fp16tc
from widen.papers.items import Setting

VERSIONS: dict[str, Callable[..., Any]] = {
    "FP16TC": dgemm_fp16tc,
    "FP16TC, FP64emu": partial(dgemm_fp16tc, fp64emu=True),
    "FP8TC": dgemm_fp8tc,
    "FP8TC, FP64emu": partial(dgemm_fp8tc, fp64emu=True),
    "FP8TC, digits 16 and 8": partial(dgemm_fp8tc, digits=(16, 8)),
}

COUNTED = (
    "Inputs are uniform in (1, 2), whose products Table 3 counts; the paper's, uniform in (1, 10), "
    "fill three bits more and would need one slice more by its own equations."
)

ON_A_CPU = "On a CPU float32 BLAS plays the tensor cores, so times say nothing about the paper's."


def uniform(setting: Setting, shape: tuple[int, int], top: float, stream: int) -> Any:
    """Return numbers uniform in (1, top)."""
    return 1 + (top - 1) * (setting.random(shape, 0.0, stream) + 0.5)


def notes(setting: Setting, *given: str) -> list[str]:
    """Return remarks, and on a CPU that its times are not a GPU's."""
    return [*given, *([] if setting.gpu else [ON_A_CPU])]
