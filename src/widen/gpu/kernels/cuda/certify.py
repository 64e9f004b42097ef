"""Marks of elements that leading integers do not certify, on Hopper GPUs: `certificate.cuh`."""

from __future__ import annotations

import ctypes

import torch

from widen.gpu.kernels.cuda.compiler import FOLDER
from widen.gpu.kernels.cuda.launcher import Finish, Launcher, check_planes
from widen.gpu.replay.driver import processors
from widen.gpu.tiles import HOPPER_CERTIFY, choose
from widen.stages.compiling.once import Once

Tensor = torch.Tensor

ROWS = ("step", "weight", "sum", "nonzeros")
ADDRESSES = ("marks", "doubtful", *(f"{side}_{row}" for side in ("left", "right") for row in ROWS))


class Certificate(Finish):
    """`Finish` of certificate.cuh."""

    header = FOLDER / "certificate.cuh"
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ADDRESSES),
        *((name, ctypes.c_int32) for name in ("columns", "unit", "lift", "saturated")),
        ("both", ctypes.c_float),
    )


_launchers: Once[Launcher] = Once(512)


def launcher(
    left: Tensor, right: Tensor, k: int, terms: int, *, unit: int, lift: int, saturated: bool,
    both: float,
) -> Launcher:  # fmt: skip
    """What launches the kernel for leading integers like these, at any addresses.

    They are int8 (1, batch or 1, lines, pitch), k in a row, of which the sums take `terms`
    (and more up to a multiple of 128). The addresses: left, right, marks (batch, m, n) of zeros, a
    count of those that are left open, then rows of left's lines and of right's table. `unit`,
    `lift` and `both` are those of `certified` in kernels/triton/multiply.py.
    """
    key = (left.shape, right.shape, left.device, k, terms, unit, lift, saturated, both)
    finish = {
        "columns": right.shape[2], "unit": unit, "lift": lift, "saturated": saturated, "both": both,
    }  # fmt: skip
    return _launchers.made(key, lambda: _launcher(left, right, k, terms, Certificate(**finish)))


def _launcher(left: Tensor, right: Tensor, k: int, terms: int, finish: Certificate) -> Launcher:
    check_planes(left.device, torch.int8, left=left, right=right)
    batch = max(left.shape[1], right.shape[1])
    shape = left.shape[2], right.shape[2], terms, batch
    tile = choose(*shape, processors(left.device), HOPPER_CERTIFY)
    return Launcher(left, right, finish, tile, planes=1, batch=batch, k=k, terms=terms)
