"""Panels and small triangles of `Words` in kernels of their own: the bits of `linalg.triangles`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from widen.cpu import kernels
from widen.cpu.threads import launch
from widen.formats.arrays import dtype_name, is_tensor
from widen.gpu.replay.private import pytorch_and_triton
from widen.words.exchanges import Exchanges

if TYPE_CHECKING:
    from widen.words.array import Words

PANEL, LOWER, UPPER = range(3)
"""Tasks of the kernel (cpu/kernels/panels.py)."""
TILE = 128
"""Numbers of a job of a substitution there."""


def are_served(*given: Words) -> bool:
    """Whether there are kernels for numbers of this format, and where they are."""
    planes = [plane for x in given for plane in x.planes]
    if any(dtype_name(plane) != "float64" for plane in planes):
        return False
    if not is_tensor(planes[0]):
        return True
    return planes[0].device.type == "cuda" and bool(_of_gpus().are_served(*given))


def _of_gpus() -> Any:
    with pytorch_and_triton():
        from widen.words import elementwise_panels_gpu
    return elementwise_panels_gpu


def eliminate(panel: Words) -> Exchanges:
    """Overwrite a panel (m, b) with both triangles, and tell how rows were exchanged."""
    if is_tensor(panel.planes[0]):
        exchanges: Exchanges = _of_gpus().eliminate(panel)
        return exchanges
    lines = _columns(panel)
    pivots = np.arange(min(panel.shape))
    launch(kernels.panels.eliminate, 1, 0, PANEL, lines, panel.format.parts, pivots, lines)
    _put_back(lines.transpose(1, 2, 0), panel)
    return Exchanges.of(pivots, panel.shape[0])


def substitute(t: Words, w: Words, *, upper: bool) -> None:
    """Overwrite w with T^-1 w for a small triangle, the upper one or the unit lower one."""
    if is_tensor(w.planes[0]):
        _of_gpus().substitute(t, w, upper=upper)
        return
    sides = np.ascontiguousarray(_block(w).transpose(1, 0, 2))
    jobs = -(-w.shape[1] // TILE)
    work = w.size * t.shape[0] * len(w.planes) ** 2 * w.format.parts**2
    launch(
        kernels.panels.eliminate, jobs, work, UPPER if upper else LOWER, _columns(t),
        w.format.parts, np.arange(0), sides,
    )  # fmt: skip
    _put_back(sides.transpose(1, 0, 2), w)


def take_off(w: Words, other: Words) -> None:
    """Overwrite a matrix w with w - other."""
    if is_tensor(w.planes[0]):
        _of_gpus().take_off(w, other)
    else:
        w[...] = w - other


def _block(x: Words) -> Any:
    """All words (parts and words, rows, columns): of real parts first."""
    return np.stack([plane[part] for part in range(x.format.parts) for plane in x.planes])


def _columns(x: Words) -> Any:
    return np.ascontiguousarray(_block(x).transpose(2, 0, 1))


def _put_back(block: Any, x: Words) -> None:
    pairs = [plane[part] for part in range(x.format.parts) for plane in x.planes]
    for target, plane in zip(pairs, block, strict=True):
        target[...] = plane
