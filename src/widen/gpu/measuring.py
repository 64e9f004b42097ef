"""What a benchmark needs of a GPU: its name, random numbers, a clock, and the rate of a unit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from widen.contract import CONTRACTS
from widen.formats import FORMATS
from widen.gpu.code import workers
from widen.gpu.operands import Tensor
from widen.gpu.products import typical_plan
from widen.gpu.units import STORAGE, engine_of
from widen.stages.problem import Encoding


def how_many() -> int:
    """GPUs that PyTorch finds."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


class Measured:
    """A GPU, timed by events on its own stream."""

    def __init__(self, index: int) -> None:
        self.device = torch.device("cuda", index)
        torch.cuda.set_device(self.device)  # events are recorded on the current device's stream
        torch.set_float32_matmul_precision("highest")  # float32 is float32, not TF32

    def facts(self) -> dict[str, str]:
        """What a reader of a result must know about the GPU."""
        try:
            triton = version("triton")
        except PackageNotFoundError:
            triton = "unknown"
        return {
            "machine": torch.cuda.get_device_name(self.device), "torch": torch.__version__,
            "cuda": str(torch.version.cuda), "triton": triton,
        }  # fmt: skip

    def generator(self, seed: int) -> torch.Generator:
        """A generator of random numbers on the GPU."""
        return torch.Generator(device=self.device).manual_seed(seed)

    def reals(
        self, generator: torch.Generator, shape: tuple[int, ...], dtype: str, phi: float
    ) -> Tensor:
        """(rand - 0.5) exp(phi randn) of a real format, made on the GPU."""
        like: dict[str, Any] = {
            "generator": generator, "dtype": getattr(torch, dtype), "device": self.device,
        }  # fmt: skip
        factor = torch.randn(shape, **like).mul_(phi).exp_()
        return torch.rand(shape, **like).sub_(0.5).mul_(factor)

    def as_complex(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Two parts together."""
        return torch.complex(real, imaginary)

    def seconds(self, function: Callable[[], object]) -> float:
        """The time one call takes, between two events on the stream it runs on.

        The device is idle before, so the time that the CPU needs to launch kernels counts.
        """
        cuda: Any = torch.cuda
        start, stop = (cuda.Event(enable_timing=True) for _ in range(2))
        cuda.synchronize(self.device)
        start.record()
        function()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3

    def settle(self) -> None:
        """Wait for kernels that are compiled while slower ones answer."""
        workers.wait()

    def free(self) -> None:
        """Give back memory, so that measurements do not know of each other."""
        gc.collect()  # an exception's traceback may hold tensors in a cycle
        torch.cuda.synchronize(self.device)
        torch.cuda.empty_cache()

    def multiply_rate(self, unit: str, n: int) -> float:
        """TOP/s of the multiply stage of a unit in residues: the median of five, after two."""
        self.free()
        wanted = Encoding("left", CONTRACTS["standard"], FORMATS["float64"], unit, "residues")
        plan = typical_plan(wanted, (1, n, n, n), 1 << 40, str(self.device))
        # A few rows more than there are, for the Hopper kernel reads whole tiles of 64.
        size = (plan.layout.planes[0] * n + 64, n)
        entries = torch.randint(-8, 9, size, dtype=torch.int8, device=self.device)
        planes = entries.to(STORAGE[unit])[:-64].view(-1, 1, n, n)
        multiply = partial(engine_of(plan).multiply, planes, planes)
        times = [self.seconds(multiply) for _ in range(7)]
        return 2e-12 * n**3 * plan.products / sorted(times[2:])[2]
