"""Paper 002's tables and figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from widen.papers.items import Claim, Item, Outcome, Setting

SPECIFICATIONS: dict[str, tuple[float | None, ...]] = {
    "FP64": (1.29, 9.7, 34, 40, 90),
    "FP64 TC": (None, 19.5, 67, 40, 90),
    "FP32": (82.6, 19.5, 67, 80, 180),
    "TF32 TC": (82.6, 156, 494, 1100, 5000),
    "BF16 TC": (165, 312, 989, 2250, 5000),
    "FP16 TC": (165, 312, 989, 2250, 5000),
    "INT8 TC": (661, 624, 1979, 4500, 10000),
    "FP8 TC": (661, None, 1979, 4500, 10000),
    "FP6 TC": (None, None, None, 4500, 10000),
    "INT4 TC": (1321, None, None, None, None),
    "FP4 TC": (None, None, None, 9000, 20000),
}
"""Table 1: TFLOPS or TOPS of dense products; H100 and H200 are as GH200."""

GPUS = ("RTX 4090", "A100", "GH200", "B200", "GB200")


def table1(setting: Setting) -> Outcome:
    """Table 1, and what the native products reach here."""
    n = setting.choose(1024, full=4096, quick=256)
    a, b = (setting.random((n, n), 0.0, stream) for stream in (1, 2))
    rates = {"FP64 TC" if setting.gpu else "FP64": rate(setting, lambda: a @ b, n)}
    rows = [[name, *row, rates.get(name)] for name, row in SPECIFICATIONS.items()]
    int8, fp64 = (SPECIFICATIONS[name] for name in ("INT8 TC", "FP64"))
    ratios = [round(x / y) for x, y in zip(int8, fp64, strict=True) if x and y]
    claim = Claim(
        "INT8 tensor cores are nearly 512 times (RTX 4090) and 60 times (GH200) as fast as FP64",
        "512 and 60",
        f"{ratios[0]} and {ratios[2]} by the table's own numbers",
        abs(ratios[0] - 512) <= 1 and abs(ratios[2] - 60) <= 2,
    )
    remark = f"The last column is a @ b in float64 here at n = {n}, in TFLOP/s."
    return Outcome(["TFLOPS or TOPS", *GPUS, "measured here"], rows, [claim], remarks=[remark])


def rate(setting: Setting, product: Callable[[], Any], n: int) -> float:
    """Return the TFLOP/s of a product of n×n matrices."""
    return 2 * n**3 / setting.seconds(product) / 1e12


ITEMS = [
    Item(
        "002-table1",
        "002",
        "Specifications of NVIDIA GPUs for dense data",
        "Low-precision units are far faster than FP64, and more so with every generation.",
        table1,
    ),
]
