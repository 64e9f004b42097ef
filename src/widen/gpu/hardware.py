"""What a GPU has: units, multiprocessors, instructions of its vendor."""

from __future__ import annotations

from functools import lru_cache

import torch


@lru_cache(maxsize=16)
def assembly(device: torch.device) -> bool:
    """Whether kernels may use NVIDIA's instructions on a device."""
    return device.type == "cuda" and torch.version.hip is None


def programs(device: torch.device, tile_count: int, warps: int) -> int:
    """Programs of a persistent launch."""
    return min(tile_count, processors(device) * max(1, 8 // warps))


@lru_cache(maxsize=16)
def processors(device: torch.device) -> int:
    """Multiprocessors of a GPU; in Triton's interpreter, one."""
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@lru_cache(maxsize=16)
def is_hopper(device: torch.device) -> bool:
    """Whether the kernels written for Hopper GPUs run on a device."""
    if device.type != "cuda":
        return False
    from widen.gpu.kernels.cuda.launcher import available

    return available(device)


STORAGE = {
    "int8": torch.int8,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "fp64": torch.float64,
}
"""The units a GPU has, and the format of their planes."""

CAPABILITY = {"fp8": (8, 9), "bf16": (8, 0)}
"""The compute capability that units need, where not every GPU that runs Triton has it."""


@lru_cache(maxsize=16)
def available(device: torch.device | None) -> tuple[str, ...]:
    """The units that a GPU has; all of them where it is not known which."""
    if device is None or device.type != "cuda":
        return tuple(STORAGE)
    held = torch.cuda.get_device_capability(device)
    return tuple(name for name in STORAGE if held >= CAPABILITY.get(name, (0, 0)))


@lru_cache(maxsize=16)
def name_of(index: int | None) -> str:
    """A GPU's name; in Triton's interpreter, none."""
    return torch.cuda.get_device_name(index) if torch.cuda.is_available() else ""
