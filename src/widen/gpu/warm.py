"""Kernels of usual calls, compiled before they are asked for; the other wing has the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from widen.gpu.code import store, workers
from widen.gpu.code.variants import Variant
from widen.gpu.replay.launch import architecture_of
from widen.gpu.usual import usual_variants


def warm_steps(device: int = 0) -> list[tuple[str, Callable[[], bool]]]:
    """Every kernel of usual calls on a GPU: its name, and a function that makes sure it is there.

    That gives whether there was anything to do. What is missing is compiled by several processes at
    once (`gpu.code.workers`), from this call on. Steps may be left out, and run again.
    """
    architecture = architecture_of(device)
    variants = usual_variants(architecture)
    workers.ask(variants, architecture)
    return [(variant.name, partial(_warm, variant, architecture)) for variant in variants]


def _warm(variant: Variant, architecture: int) -> bool:
    if store.find(variant.key(architecture), architecture) is not None:
        return False
    workers.compiled(variant, architecture)
    return True
