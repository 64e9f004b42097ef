"""Usual calls: what ships with the package, and what `widen warm` prepares, are their kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any

import torch

from widen.contract import as_contract
from widen.formats import FORMATS
from widen.gpu import batches, products
from widen.gpu.code.variants import Variant
from widen.gpu.foresight import ORDINARY, Numbers, kernels_of
from widen.gpu.limbs import expecting
from widen.options import Wanted
from widen.stages.problem import Call

WORKSPACE = 1 << 35
HOST = torch.device("cpu")


@dataclass(frozen=True)
class UsualCall:
    """A kind of call: the format of operands, (batch, m, k, n), the contract, and so on.

    The result has the operands' format unless another is given. With `info` there are bounds too.
    """

    dtype: str
    shape: tuple[int, int, int, int]
    accuracy: str = "standard"
    numbers: Numbers = ORDINARY
    transposed: tuple[bool, bool] = (False, False)
    result: str | None = None
    info: Wanted = False


# ── the calls ────────────────────────────────────────────────────────────────────────────────────

ACCURACIES = ("standard", "fast", "correct")
DTYPES = ("float64", "float32", "complex128", "complex64")
SIZES = (1000, 1024, 999, 500)
"""Products with kernels of their own; those that are multiples of 16 have others again."""

SMALL_SIZES = (32, 64, 100, 128, 256, 500, 640, 700)
BATCHES = ((100, 64), (1000, 16), (100, 32), (50, 100), (16, 128), (16, 256), (4, 500), (2, 1000))
THIN = ((1, 2000, 2000), (2000, 2000, 1), (64, 4096, 4096), (4096, 4096, 64), (3000, 100, 3000),
        (10, 10000, 10), (5000, 512, 512), (1, 4096, 4096), (4096, 4096, 1))  # fmt: skip
TURNED = ((True, False), (False, True), (True, True))
EXTRA_BITS = range(-12, 25, 4)
"""Beside these, integers of as many moduli come along as ordinary numbers may need."""

HARD_BITS = {"float64": range(28, 229, 4), "float32": range(28, 101, 4),
             "complex128": range(28, 101, 4)}  # fmt: skip
"""Of numbers that range widely, by format: one list of moduli after the other."""

AGAIN_BITS = range(28, 141, 4)
"""Under "correct", which is what many open elements of "standard" are computed again by."""

ONE_WORD_BITS = range(-96, 0, 16)
"""Fewer bits in results of two words than operands of two would need: operands have one."""

INFOS: tuple[Wanted, ...] = (True, "largest")
"""With a bound of every element, or of all of them."""

ALL_OPEN = Numbers(hard=True, all_open=True)
"""Numbers of lines that are graded against each other."""


def usual_calls() -> Iterator[UsualCall]:
    """The most usual first."""
    for accuracy, dtype in product(ACCURACIES, DTYPES):
        yield from (
            UsualCall(dtype, (1, n, n, n), accuracy) for n in (*SIZES, 100, 64, 512, 2048, 4096)
        )
    for accuracy, n in product(ACCURACIES, (1000, 1024, 100)):
        yield UsualCall("float64x2", (1, n, n, n), accuracy)
        yield UsualCall("float64", (1, n, n, n), accuracy, result="float64x2")
        yield UsualCall("float32", (1, n, n, n), accuracy, result="float64")
    for dtype, accuracy, (batch, n) in product(DTYPES, ACCURACIES, BATCHES):
        yield UsualCall(dtype, (batch, n, n, n), accuracy)
    for accuracy, (m, k, n) in product(ACCURACIES, product(SMALL_SIZES, repeat=3)):
        yield UsualCall("float64", (1, m, k, n), accuracy)
    for dtype, accuracy, more in product(DTYPES, ACCURACIES, EXTRA_BITS):
        for n, exact in product((1000, 1024), (False, True) if accuracy == "correct" else (False,)):
            yield UsualCall(dtype, (1, n, n, n), accuracy, Numbers(more, exact))
    for accuracy, n in product(ACCURACIES, (1000, 1024)):
        for more in (*ONE_WORD_BITS, *EXTRA_BITS):
            yield UsualCall("float64", (1, n, n, n), accuracy, Numbers(more), result="float64x2")
    for dtype, accuracy, more in product(DTYPES, ACCURACIES, EXTRA_BITS):
        yield UsualCall(dtype, (100, 64, 64, 64), accuracy, Numbers(more))
    for accuracy, more, n in product(ACCURACIES, (-8, -4, 4, 8), (64, 100)):
        for k in SMALL_SIZES:  # many rows: a few have kernels for any numbers
            yield UsualCall("float64", (1, 700, k, 7 * n), accuracy, Numbers(more))
    for dtype, accuracy, n in product(DTYPES, ACCURACIES, (1000, 1024, 100)):
        for numbers in (Numbers(zeros=True), Numbers(hard=True), Numbers(12, hard=True)):
            yield UsualCall(dtype, (1, n, n, n), accuracy, numbers)
        if n > 100:
            many_open = Numbers(hard=True, many_open=True)
            for numbers in (many_open, replace(many_open, zeros=True), ALL_OPEN):
                yield UsualCall(dtype, (1, n, n, n), accuracy, numbers)
    for dtype, accuracy, n in product(DTYPES, ("standard", "fast"), (4096, 4000)):
        yield UsualCall(dtype, (1, n, n, n), accuracy, Numbers(hard=True))
    for dtype, more_bits in HARD_BITS.items():
        for more, n in product(more_bits, (1000, 1024)):
            yield UsualCall(dtype, (1, n, n, n), "standard", Numbers(more, hard=True))
    for more, n in product(AGAIN_BITS, (1000, 1024)):
        yield UsualCall("float64", (1, n, n, n), "correct", Numbers(more, hard=True))
    for dtype, accuracy, transposed in product(DTYPES, ACCURACIES, TURNED):
        for n in (1000, 1024, 100):
            yield UsualCall(dtype, (1, n, n, n), accuracy, transposed=transposed)
    for dtype, (m, k, n) in product(("float64", "float32"), THIN):
        yield UsualCall(dtype, (1, m, k, n))
    for dtype, info in product((*DTYPES, "float64x2"), INFOS):
        yield UsualCall(dtype, (1, 1000, 1000, 1000), info=info)


def variants_of(call: UsualCall) -> list[Variant]:
    """The kernels that a call launches, in their order."""
    batch, m, k, n = call.shape
    lead = () if batch == 1 else (batch,)
    ours, theirs = (
        _operand(call.dtype, (*lead, *sides), transposed)
        for sides, transposed in zip(((m, k), (k, n)), call.transposed, strict=True)
    )
    contract, fmt = as_contract(call.accuracy), FORMATS[call.result or call.dtype]
    made = Call(ours, theirs, lead, m, n, contract, fmt, None, None, WORKSPACE)
    return kernels_of(made, partial(products.run_nowhere, info=call.info), call.numbers)


def _operand(dtype: str, dims: tuple[int, ...], transposed: bool) -> Any:
    if transposed:
        return batches.empty(FORMATS[dtype], (*dims[:-2], dims[-1], dims[-2]), HOST).mT
    return batches.empty(FORMATS[dtype], dims, HOST)


def usual_variants(architecture: int = 90) -> list[Variant]:
    """The kernels of all usual calls on a GPU, the most usual first."""
    with expecting(architecture):
        return list(dict.fromkeys(chain.from_iterable(map(variants_of, usual_calls()))))
