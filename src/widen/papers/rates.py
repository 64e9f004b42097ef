"""How fast a device multiplies, format by format: the raw products that the papers build on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

from widen.papers.items import Setting

ORDINARY = {"FP64": "float64", "FP32": "float32"}
"""What every device multiplies by `a @ b`; on a GPU FP64 tensor cores serve the first."""

TENSOR_CORES = {
    "FP16": ("fp16", 16, 16),
    "INT8": ("int8", 64, 64),
    "FP8": ("fp8", 16, 8),
    "FP8, our kernel": ("fp8", 16, 16),
}
"""What a GPU multiplies besides: the unit, and the largest digits of A and of B. Sums of 128
products of FP8 digits up to 16 and 8 are exact by the vendor's routine on Hopper; of digits up to
16 they leave the accumulator every 64 terms, which is our kernel's work."""


def row_of(name: str, gpu: bool) -> str:
    """Return the name of a format's row in the papers' tables of specifications.

    >>> row_of("FP64", True), row_of("FP64", False), row_of("FP32", True)
    ('FP64 TC', 'FP64', 'FP32')
    """
    return f"{name} TC" if gpu and name != "FP32" else name


def raw_product(setting: Setting, name: str, m: int, k: int) -> Callable[[], object]:
    """Return a call that multiplies an m×k matrix of a format by a k×m one."""
    if name in ORDINARY:
        a = setting.random((m, k), 0.0, 0, ORDINARY[name])
        return partial(matmul, a, setting.random((k, m), 0.0, 1, ORDINARY[name]))
    from widen.gpu.units import STORAGE
    from widen.papers.ozimmu import gpu as integers
    from widen.papers.ozimmu.algorithm import Slices, Sum
    from widen.papers.slicing import gpu as floats

    unit, *digits = TENSOR_CORES[name]
    planes: list[Any] = [
        (2 * digit * setting.random((m, k), 0.0, at)).round().to(STORAGE[unit])
        for at, digit in enumerate(digits)
    ]
    if unit == "int8":
        left, right = (Slices(plane[None, None], None, 7) for plane in planes)
        return partial(integers.multiply, left, right, [Sum(0, 0, 1)])
    ours, theirs = ([plane] for plane in planes)
    largest = digits[0] * digits[1]
    return partial(floats.multiply, ours, theirs, [(0, 0)], unit, largest, slice(0, m))


def raw_rate(setting: Setting, name: str, m: int, k: int) -> float:
    """Return its TFLOP/s (or TOP/s): the best of three after one that compiles."""
    product = raw_product(setting, name, m, k)
    product()
    return 2e-12 * m * m * k / min(setting.machine.seconds(product) for _ in range(3))


Table = dict[str, tuple[float | None, ...]]
"""Specifications by format."""


def measured_beside(setting: Setting, table: Table) -> tuple[dict[str, float], list[Any], str]:
    """Return the rates of all formats that the device has, a table with them, and how they are."""
    n = setting.choose(1024, full=8192, quick=256)
    names = [*ORDINARY, *(TENSOR_CORES if setting.gpu else ())]
    measured = {name: raw_rate(setting, name, n, n) for name in names}
    here = {row_of(name, setting.gpu): x for name, x in measured.items()}
    rows = [[name, *row, here.get(name)] for name, row in table.items()]
    return measured, rows, f"products of n = {n}, best of 3"


def on_hopper(setting: Setting) -> bool:
    """Whether this is a GPU of the generation of the H100, H200 and GH200."""
    if not setting.gpu:
        return False
    from widen.papers.slicing.gpu import hopper

    return hopper(setting.device)
