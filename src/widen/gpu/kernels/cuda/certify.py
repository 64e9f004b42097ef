"""Marks of elements that leading integers do not certify, on Hopper GPUs: `certificate.cuh`."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

from widen.gpu.kernels.cuda.compiler import FOLDER
from widen.gpu.kernels.cuda.launcher import (
    Finish,
    Launcher,
    check_planes,
    options,
    plain_map,
    processors,
    work,
)
from widen.gpu.tiles import HOPPER_CERTIFY, choose
from widen.stages.compiling.once import Once

ADDRESSES = ("marks", *(f"{side}_{row}" for side in ("left", "right") for row in
                        ("level", "flags", "weight")))  # fmt: skip


class Certificate(Finish):
    """`Finish` of certificate.cuh."""

    header = FOLDER / "certificate.cuh"
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ADDRESSES),
        *((name, ctypes.c_int32) for name in ("columns", "shift", "inexact")),
        ("both", ctypes.c_float),
    )


_launchers: Once[Launcher] = Once(512)


def launcher(
    left: Any, right: Any, batch: int, k: int, terms: int, shift: int, both: float, inexact: int
) -> Launcher:
    """What launches the kernel for leading integers like these, at any addresses.

    They are int8 (1 or 2, batch or 1, lines, pitch), k in a row, of which the sums take `terms`
    (and more up to a multiple of 128). The addresses: left, right, marks (batch, m, n) of zeros,
    then rows level, flags and weight, int64, of left's lines and of right's. `shift` and `both` are
    those of `bounds.Certificate`; `inexact` is a bit of the flags.
    """
    key = (left.shape, right.shape, left.device, batch, k, terms, shift, both, inexact)
    finish = {"columns": right.shape[2], "shift": shift, "inexact": inexact, "both": both}
    return _launchers.made(
        key, lambda: _launcher(left, right, batch, k, terms, Certificate(**finish))
    )


def _launcher(
    left: Any, right: Any, batch: int, k: int, terms: int, finish: Certificate
) -> Launcher:
    torch = import_module("torch")
    check_planes(left.device, ("left", left, torch.int8), ("right", right, torch.int8))
    planes = left.shape[0]
    sums = 3 if planes == 2 else 1
    tile = choose(
        left.shape[2], right.shape[2], sums * terms, batch, processors(left.device),
        HOPPER_CERTIFY[planes],
    )  # fmt: skip
    return Launcher(
        left.device, work(left, right, 1, batch, terms, tile), finish,
        (plain_map(left, k, tile.left_box), plain_map(right, k, tile.right_box)),
        tile, options(tile, pairs=planes == 2),
    )  # fmt: skip
