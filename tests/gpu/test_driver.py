"""The CUDA driver as `gpu.replay.driver` calls it: numbers of cuda.h, and what it is handed."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from widen.gpu.replay import driver

triton = pytest.importorskip("triton")
HEADER = Path(triton.__file__).parent / "backends/nvidia/include/cuda.h"


def number_of(name):
    """The number of a name of cuda.h: its own, or one more than that of the name before it."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    before = text[: re.search(rf"\b{name}\b", text).end()]
    entries = re.findall(r"(\w+)(?:\s*=\s*(\w+))?\s*(?=,|$)", before.rpartition("{")[2])
    own = re.match(r"\s*=\s*(\w+)", text[len(before) :])
    if own:
        return int(own.group(1), 0)
    number = -1
    for _, given in entries:
        number = int(given, 0) if given else number + 1
    return number


def test_numbers_are_those_of_the_header():
    for name, ours in {
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": driver.MAX_DYNAMIC_SHARED_SIZE_BYTES,
        "CU_FUNC_CACHE_PREFER_SHARED": driver.PREFER_SHARED,
        "CU_LAUNCH_ATTRIBUTE_COOPERATIVE": driver.LAUNCH_ATTRIBUTE_COOPERATIVE,
        "CUDA_ERROR_INVALID_CONTEXT": driver.INVALID_CONTEXT,
        "CU_TENSOR_MAP_DATA_TYPE_UINT8": driver.UINT8,
        "CU_TENSOR_MAP_SWIZZLE_128B": driver.SWIZZLE_128B,
        "CU_TENSOR_MAP_L2_PROMOTION_L2_128B": driver.L2_128B,
        "CU_TENSOR_MAP_L2_PROMOTION_L2_256B": driver.L2_256B,
        "CU_TENSOR_MAP_INTERLEAVE_NONE": 0,
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE": 0,
    }.items():
        assert number_of(name) == ours, name


def test_a_tensor_map_is_what_the_driver_writes(monkeypatch):
    """Aligned, and of sizes, strides and boxes of the types that cuda.h has for them."""
    given = []

    def encode(target, *others):
        assert target.value % 128 == 0
        given.append([list(x) if isinstance(x, ctypes.Array) else x for x in others])
        given[0][2] = others[2].value
        given.append([ctypes.sizeof(x) // len(x) for x in others[3:7]])
        ctypes.memmove(target, bytes(range(128)), 128)
        return 0

    monkeypatch.setattr(driver, "calls", lambda: SimpleNamespace(cuTensorMapEncodeTiled=encode))
    address = 0x7F00_0000_1000
    found = driver.tensor_map(address, (100, 30, 4), (112, 3360), (128, 64, 1))
    assert found == bytes(range(128))
    assert given == [
        [0, 3, address, [100, 30, 4], [112, 3360], [128, 64, 1], [1, 1, 1], 0, 3, 3, 0],
        [8, 8, 4, 4],
    ]


@pytest.mark.parametrize("together", [False, True])
def test_a_launch_says_whether_programs_wait_for_one_another(together, monkeypatch):
    """As cuda.h has it: a number, bytes up to the eighth, and a value of 64 bytes."""
    seen = []

    def run(config, *_):
        config = config._obj
        seen.append((list(config.grid), config.attribute_count))
        if config.attributes:
            seen.append(list((ctypes.c_uint32 * 18).from_address(config.attributes)))
        return 0

    monkeypatch.setattr(driver, "calls", lambda: SimpleNamespace(cuLaunchKernelEx=run))
    monkeypatch.setattr(driver, "stream", lambda device: 5)
    driver.start(7, (3, 2, 1), 64, 0, arguments=[1, 2], long={}, device=0, together=together)
    assert seen[0] == ([3, 2, 1], int(together))
    assert seen[1:] == [[2, 0, 1, *[0] * 15]] * together
    assert ctypes.sizeof(driver._Attribute) == 72


def test_a_kernel_is_loaded_with_its_shared_memory(monkeypatch):
    seen = []

    def load(module, binary):
        module._obj.value = 11
        seen.append(binary)
        return 0

    def get(function, module, name):
        function._obj.value = 22
        seen.append((module.value, name))
        return 0

    def attribute(function, which, value):
        seen.append((function.value, which, value))
        return 0

    calls = SimpleNamespace(
        cuModuleLoadData=load, cuModuleGetFunction=get, cuFuncSetAttribute=attribute
    )
    monkeypatch.setattr(driver, "calls", lambda: calls)
    assert driver.load(b"cubin", b"multiply", 1000) == 22
    assert seen == [b"cubin", (11, b"multiply"), (22, 8, 1000)]
    calls.cuModuleLoadData = lambda *given: 209
    with pytest.raises(RuntimeError, match="the CUDA driver answered 209"):
        driver.load(b"cubin", b"multiply", 1000)
