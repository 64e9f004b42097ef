"""On a GPU: what was compiled for it. No float64 arithmetic, and the portable product is right."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
import torch

from widen.stages.compiling.once import Once

pytest.importorskip("triton")
import widen
from widen.gpu import multiply as gpu_multiply
from widen.gpu import recorded as gpu_recorded
from widen.gpu import tiles
from widen.gpu.replay import launch as gpu_launch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 40, 50)), RNG.standard_normal((3, 50, 30))


def gpu(x):
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


CERTIFYING = {"scale", "certify", "certify_closely", "repair", "judge"}
"""Kernels that weigh lines and test elements: a float64 product a line, a few sums an element."""

FLOAT64 = re.compile(r"\b(DADD|DMUL|DFMA|DSETP|DMMA|[IF]2F\.F64|F2F\.F64|I2D|D2I)")


def machine_code(binary, path):
    path.write_bytes(binary)
    code = subprocess.run(["cuobjdump", "-sass", path], capture_output=True, text=True).stdout
    assert "EXIT" in code
    return code


@pytest.mark.parametrize("small", [1 << 17, 0])
def test_machine_code_has_no_float64_arithmetic(tmp_path, monkeypatch, small):
    """Paper 004's aim: what Triton compiled to compute products has no FP64 instruction.

    Kernels of small products, and those that others have; batches share tiles. Whether an element
    is certified is defined in float64.
    """
    # The unit fp64 is made of such instructions: its kernels are not looked at.
    monkeypatch.setattr(gpu_launch, "_compiled", Once())
    monkeypatch.setattr(gpu_recorded, "_recordings", gpu_recorded.Recordings())
    monkeypatch.setattr(tiles, "SMALL", small)
    for dtype in (np.float64, np.complex128):
        x, y = gpu(A.astype(dtype)), gpu(B.astype(dtype))
        widen.matmul(x, y)
        for accuracy in ("standard", "correct"):
            c = widen.matmul(x[0], y[0], accuracy=accuracy)
            widen.gemm(x[0], y[0], c, beta=0.5, accuracy=accuracy)
    kernels = [loaded.code for loaded in gpu_launch._compiled.values()]
    assert len(kernels) >= 8
    for at, kernel in enumerate(kernels):
        code = machine_code(kernel.binary, tmp_path / f"{at}.cubin")
        assert kernel.entry in CERTIFYING or not FLOAT64.findall(code), kernel.entry
    names = {kernel.entry for kernel in kernels}
    assert small or {"residues", "round_residues", "certify"} <= names


def test_machine_code_of_hopper_has_no_float64_arithmetic(tmp_path, monkeypatch):
    """The same of what NVRTC compiled: products, and certificates."""
    from widen.gpu.kernels.cuda import certify, compiler, launcher, multiply

    if not launcher.is_hopper(torch.device("cuda")):
        pytest.skip("there is no Hopper GPU")
    found = []

    def binary(end, options, _binary=compiler._binary):
        found.append((end, _binary(end, options)))
        return found[-1][1]

    monkeypatch.setattr(compiler, "_binary", binary)
    monkeypatch.setattr(gpu_recorded, "_recordings", gpu_recorded.Recordings())
    for module in (certify, multiply):
        monkeypatch.setattr(module, "_launchers", Once())
    monkeypatch.setattr(compiler, "shipped_key", lambda *given: "none")
    compiler._functions.clear()
    for k in (50, 2000):
        widen.matmul(gpu(RNG.standard_normal((40, k))), gpu(RNG.standard_normal((k, 30))))
    assert len({end for end, _ in found}) >= 2
    for at, (end, binary_code) in enumerate(found):
        code = machine_code(binary_code, tmp_path / f"{at}")
        assert "certificate" in end.name or not FLOAT64.findall(code), end.name


def test_the_portable_kernel_multiplies_what_hopper_s_does(monkeypatch):
    """Bytes and 16-bit numbers, sums that are cut, batches, and the largest digits of one sign."""
    generator = torch.Generator("cuda").manual_seed(2)
    for planes, dtype in (((256, 255), (251, 100)), torch.uint8), (((16381, 16380),), torch.int16):
        for batches, m, k, n in (((2, 1), 65, 100, 130), ((1, 1), 3, 300_000, 5)):
            pitch = -(-k // 16) * 16
            for low, high in ((-128, 128), (-128, -127), (127, 128)):
                left, right = (
                    torch.randint(
                        low, high, (len(planes), batch, lines, pitch), dtype=torch.int8,
                        device="cuda", generator=generator,
                    )
                    for batch, lines in zip(batches, (m, n), strict=True)
                )  # fmt: skip
                with monkeypatch.context() as patch:
                    patch.setattr(gpu_multiply, "is_hopper", lambda device: False)
                    found = gpu_multiply.products(left, right, planes, k, dtype)[..., :n].long()
                exact = (left[..., :k].double() @ right[..., :k].double().mT).long()
                p, w = torch.tensor(planes, device="cuda")[:, :, None, None, None].unbind(1)
                assert torch.equal(found % p, exact % p * w % p)
