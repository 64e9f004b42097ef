"""Where a benchmark runs: random matrices, a clock and a name, on this CPU or on a GPU."""

import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from widen.cli.errors import CommandError


class Cpu:
    """NumPy on this CPU."""

    library = "NumPy"

    def facts(self) -> dict[str, str]:
        """Return what a reader of a result must know about the machine."""
        import widen

        return {
            "machine": cpu_name(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "widen": widen.__version__,
        }

    def generator(self, seed: int) -> Any:
        """Return a generator of random numbers."""
        return np.random.default_rng(seed)

    def random(self, generator: Any, shape: tuple[int, ...], dtype: str, phi: float) -> Any:
        """Return (rand - 0.5) exp(phi randn), for complex formats in both parts."""
        if dtype.startswith("complex"):
            part = "float64" if dtype == "complex128" else "float32"
            real, imaginary = (self.random(generator, shape, part, phi) for _ in range(2))
            return self.as_complex(real, imaginary)
        return self.reals(generator, shape, dtype, phi)

    def reals(self, generator: Any, shape: tuple[int, ...], dtype: str, phi: float) -> Any:
        """Return random numbers of a real format."""
        values = generator.random(shape, dtype) - np.dtype(dtype).type(0.5)
        values *= np.exp(generator.standard_normal(shape, dtype) * np.dtype(dtype).type(phi))
        return values

    def as_complex(self, real: Any, imaginary: Any) -> Any:
        """Put two parts together."""
        values = np.empty(real.shape, np.result_type(real, np.complex64))
        values.real, values.imag = real, imaginary
        return values

    def seconds(self, function: Callable[[], object]) -> float:
        """Return the time one call takes."""
        started = perf_counter()
        function()
        return perf_counter() - started

    def fetch(self, values: Any) -> "np.ndarray[Any, Any]":
        """Return values as a NumPy array on the CPU."""
        return np.asarray(values)

    def settle(self) -> None:
        """Wait for kernels that are compiled while slower ones answer, of which a CPU has none."""

    def free(self) -> None:
        """Give back memory that the last row left."""


class Gpu(Cpu):
    """PyTorch on an NVIDIA GPU, as the GPU's wing measures it."""

    library = "torch"

    def __init__(self, index: int) -> None:
        from widen.gpu.measuring import Measured

        self.measured = Measured(index)

    def facts(self) -> dict[str, str]:
        """Return what a reader of a result must know about the machine."""
        return super().facts() | self.measured.facts()

    def generator(self, seed: int) -> Any:
        """Return a generator of random numbers on the GPU."""
        return self.measured.generator(seed)

    def reals(self, generator: Any, shape: tuple[int, ...], dtype: str, phi: float) -> Any:
        """Return random numbers of a real format, made on the GPU."""
        return self.measured.reals(generator, shape, dtype, phi)

    def as_complex(self, real: Any, imaginary: Any) -> Any:
        """Put two parts together."""
        return self.measured.as_complex(real, imaginary)

    def seconds(self, function: Callable[[], object]) -> float:
        """Return the time one call takes, by the GPU's own clock."""
        return self.measured.seconds(function)

    def fetch(self, values: Any) -> "np.ndarray[Any, Any]":
        """Return a tensor as a NumPy array on the CPU."""
        return np.asarray(values.cpu().numpy())

    def settle(self) -> None:
        """Wait for kernels that are compiled while slower ones answer."""
        self.measured.settle()

    def free(self) -> None:
        """Give back memory that the last row left, so that rows do not know of each other."""
        self.measured.free()


def machine(device: str) -> Cpu:
    """Return the machine of a device's name, or say why there is none."""
    if device == "cpu":
        return Cpu()
    name, _, index = device.partition(":")
    if name != "cuda" or not (index.isdecimal() or device == "cuda"):
        raise CommandError(f"--device {device} is not known: use cpu, cuda or cuda:1")
    try:
        from widen.gpu.measuring import how_many
    except ImportError as error:
        raise CommandError(
            f"--device {device} needs PyTorch: pip install 'widen[torch]', or use --device cpu"
        ) from error
    count = how_many()
    if not count:
        raise CommandError(
            f"--device {device}: PyTorch {version('torch')} finds no CUDA GPU here; "
            "use --device cpu, or install a driver and a PyTorch with CUDA"
        )
    if index and int(index) >= count:
        raise CommandError(f"--device {device}: there are {count} GPUs, the first is cuda:0")
    return Gpu(int(index or 0))


def cpu_name() -> str:
    """Return the processor as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
