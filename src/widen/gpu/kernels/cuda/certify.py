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
    left: Tensor, right: Tensor, k: int, terms: int, *, shift: int, both: float, inexact: int
) -> Launcher:
    """What launches the kernel for leading integers like these, at any addresses.

    They are int8 (1 or 2, batch or 1, lines, pitch), k in a row, of which the sums take `terms`
    (and more up to a multiple of 128). The addresses: left, right, marks (batch, m, n) of zeros,
    then rows level, flags and weight, int64, of left's lines and of right's. `shift` and `both` are
    those of `bounds.Certificate`; `inexact` is a bit of the flags.
    """
    key = (left.shape, right.shape, left.device, k, terms, shift, both, inexact)
    finish = {"columns": right.shape[2], "shift": shift, "inexact": inexact, "both": both}
    return _launchers.made(key, lambda: _launcher(left, right, k, terms, Certificate(**finish)))


def _launcher(left: Tensor, right: Tensor, k: int, terms: int, finish: Certificate) -> Launcher:
    check_planes(left.device, torch.int8, left=left, right=right)
    planes, batch = left.shape[0], max(left.shape[1], right.shape[1])
    shape = left.shape[2], right.shape[2], (3 if planes == 2 else 1) * terms, batch
    tile = choose(*shape, processors(left.device), HOPPER_CERTIFY[planes])
    return Launcher(
        left, right, finish, tile, planes=1, batch=batch, k=k, terms=terms, pairs=planes == 2
    )
