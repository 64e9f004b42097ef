"""Private names of PyTorch and Triton: all in one table, all there, and a way without them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
import triton
import triton.language as tl

import widen
from widen.gpu.replay import launch as gpu_launch
from widen.gpu.replay import private

SOURCES = Path(widen.__file__).parent


def test_every_private_name_is_there():
    lost = private.missing()
    assert not lost, (
        f"PyTorch {torch.__version__} or Triton {triton.__version__} has no {'; '.join(lost)}. "
        "Launches are slower without (gpu/replay/private.py): find the new names"
    )
    assert private.available()


def test_names_that_are_gone_are_seen(monkeypatch):
    names = {"_C._no_such_thing": "nothing", "_C._len_torch_dispatch_stack": "modes"}
    monkeypatch.setattr(private, "PYTORCH", names)
    assert private.missing() == ["torch._C._no_such_thing (nothing)"]
    assert not private._has("triton", "compiler.compiler.ASTSource.no_such_attribute")
    assert not private._has("triton", "no_such_module.thing")
    assert private._has("triton", "compiler.compiler.ASTSource.signature")


def test_doing_without_them_is_said(monkeypatch, caplog):
    monkeypatch.setattr(private, "TRITON", {"no_such_module.thing": "nothing"})
    assert not private.available.__wrapped__()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("widen", "WARNING")
    assert "triton.no_such_module.thing (nothing)" in record.getMessage()


def test_private_names_stand_nowhere_else():
    """But in papers, whose products are the vendor's, and Dynamo's switch, which may be missing."""
    private_name = re.compile(r"torch\._C\b|\b_current_level\b|_python_dispatch")
    replay = SOURCES / "gpu" / "replay"
    for path in SOURCES.rglob("*.py"):
        if replay not in path.parents:
            assert not private_name.search(path.read_text(encoding="utf-8")), path


def test_without_them_nobody_is_sure(monkeypatch):
    monkeypatch.setattr(torch, "_C", SimpleNamespace())
    assert private.is_mapped()
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert private.is_current(3)
    stream = SimpleNamespace(cuda_stream=7)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    assert private.stream_reader()(0) == 7
    monkeypatch.delattr(torch.autograd.forward_ad, "_current_level")
    assert private.is_forward_mode()


@triton.jit
def doubled(x, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at, mask=at < size, other=0), mask=at < size)


def test_launches_by_triton_itself(monkeypatch):
    """The same kernel, given the same arguments, where private names are missing."""
    monkeypatch.setattr(private, "available", lambda: False)
    on = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.arange(10.0, device=on)
    run = gpu_launch._by_triton
    kernel = doubled
    if on == "cpu":  # the interpreter takes no options of the compiler

        class Kernel:
            arg_names = doubled.arg_names

            def __getitem__(self, grid):
                def launch(*given, num_warps, num_stages, enable_fp_fusion, **named):
                    assert (num_warps, num_stages, enable_fp_fusion) == (4, 3, False)
                    doubled[grid](*given, **named)

                return launch

        kernel = Kernel()
        monkeypatch.setattr(gpu_launch, "JITFunction", Kernel)
    how = gpu_launch.Compilation(4, 3, True, None)
    launching = gpu_launch.Launching(kernel, (2,), (x, 10), (8,), how, (False, False))
    run(launching)(x, 10)
    assert np.array_equal(x.cpu().numpy(), 2 * np.arange(10.0))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_products_without_private_names(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 90)), rng.standard_normal((90, 50))
    monkeypatch.setattr(private, "available", lambda: False)
    for accuracy in ("standard", "correct"):
        wanted = widen.matmul(a, b, accuracy=accuracy)
        for _ in range(2):
            x = widen.matmul(*(torch.from_numpy(z).cuda() for z in (a, b)), accuracy=accuracy)
            assert np.array_equal(x.cpu().numpy().view(np.int64), wanted.view(np.int64))
