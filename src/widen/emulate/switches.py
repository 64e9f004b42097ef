"""Switches of PyTorch that are set while a scope is open, so that products can be seen.

They belong to the process, not to a thread: the first scope that is entered sets them, and the last
one that ends restores what it found.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch.backends import mha


class Switch(NamedTuple):
    """One switch: what it does, how it is read and set, and what a scope sets it to."""

    purpose: str
    read: Callable[[], bool]
    write: Callable[[bool], None]
    wanted: bool


def _library(library: Any, purpose: str) -> Switch:
    """Whether PyTorch uses a library; its other flags stay as they are."""

    def write(on: bool) -> None:
        library.set_flags(_enabled=on, _fp32_precision=None)

    return Switch(purpose, lambda: library.enabled, write, False)


_cuda = torch.backends.cuda
SWITCHES = (
    Switch("attention by products", _cuda.math_sdp_enabled, _cuda.enable_math_sdp, True),
    Switch("fused attention", _cuda.flash_sdp_enabled, _cuda.enable_flash_sdp, False),
    Switch("fused attention that saves memory", _cuda.mem_efficient_sdp_enabled,
           _cuda.enable_mem_efficient_sdp, False),
    Switch("fused attention of cuDNN", _cuda.cudnn_sdp_enabled, _cuda.enable_cudnn_sdp, False),
    Switch("the fast path of multi-head attention", mha.get_fastpath_enabled,
           mha.set_fastpath_enabled, False),
    _library(torch.backends.mkldnn, "LSTM of oneDNN; convolutions then run without it"),
    _library(torch.backends.cudnn, "recurrent layers of cuDNN; convolutions then run without it"),
)  # fmt: skip

_lock = RLock()
_found: list[bool] = []
_open = 0


def enter() -> None:
    """Set the switches, if no other scope is open."""
    global _open
    with _lock:
        if _open == 0:
            _found[:] = [switch.read() for switch in SWITCHES]
            for switch in SWITCHES:
                switch.write(switch.wanted)
        _open += 1


def leave() -> bool:
    """Restore what was found if no other scope is open, and say whether that is so."""
    global _open
    with _lock:
        _open -= 1
        if _open == 0:
            for switch, was in zip(SWITCHES, _found, strict=True):
                switch.write(was)
        return _open == 0
