"""`widen units`: what multiplies exactly, and how fast it does so here."""

from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from widen.cli.machines import Gpu

#: The BLAS routine behind NumPy's product, by the dtype a unit's engine multiplies in.
ROUTINES = {"float64": "dgemm", "float32": "sgemm"}

SIZE = 4096
"""Rows, columns and inner length of the products that are measured on a GPU."""


def units(
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            "-d",
            metavar="NAME",
            help="cpu, cuda or cuda:1. Default: this CPU, and a GPU where PyTorch finds one.",
        ),
    ] = None,
) -> None:
    """List the units that multiply small integers exactly, and their speed on this machine.

    A unit without hardware on a CPU runs through BLAS: same results, at the speed of BLAS. Exact
    bits count what a product of planes adds to the width of the result, times its rate.
    """
    from widen.cli.machines import Gpu, machine
    from widen.cli.results import screen
    from widen.units import UNITS

    console = screen(80)
    if device in (None, "cpu"):
        console.print(cpu_table())
    gpu = None if device == "cpu" else _gpu() if device is None else machine(device)
    if isinstance(gpu, Gpu):
        console.print(gpu_table(gpu))
    for unit in UNITS.values():
        console.print(f"{unit.name:5} {unit.note}", markup=False)


def _gpu() -> Any:
    """Return the first GPU, or nothing where there is none, or no PyTorch."""
    from widen.cli.errors import CommandError
    from widen.cli.machines import machine

    try:
        return machine("cuda")
    except CommandError:
        return None


def _table(place: str, rate: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(title=place, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("unit", style="bold")
    table.add_column("digit", justify="right")
    table.add_column("exact to", justify="right")
    table.add_column("runs on")
    table.add_column("exact Tbit/s", justify="right")
    table.add_column(rate, justify="right")
    return table


def cpu_table() -> "Table":
    """Return the units on this CPU: what their engines reach."""
    from widen.planner import exact_bits
    from widen.units import UNITS

    table = _table("This CPU", "GFLOP/s")
    rates = {dtype: rate(dtype) for dtype in ROUTINES}
    for unit in UNITS.values():
        engine = f"BLAS {ROUTINES[unit.engine]}" + ("" if unit.native else ", standing in")
        speed = rates[unit.engine]
        bits = f"{speed / 2e3 * exact_bits(unit):.2f}"
        table.add_row(
            unit.name, number(unit.digit), number(unit.exact), engine, bits, f"{speed:.0f}"
        )
    return table


def gpu_table(gpu: "Gpu") -> "Table":
    """Return the units of a GPU, measured."""
    from widen.planner import exact_bits
    from widen.units import UNITS

    table = _table(gpu.facts()["machine"], "TOP/s")
    for name, speed in gpu_rates(gpu).items():
        unit = UNITS[name]
        engine = "vendor's float64 product" if name == "fp64" else "tensor cores"
        bits = f"{speed / 2 * exact_bits(unit):.0f}"
        table.add_row(name, number(unit.digit), number(unit.exact), engine, bits, f"{speed:.0f}")
    return table


def gpu_rates(gpu: "Gpu", n: int = SIZE) -> dict[str, float]:
    """Return the rate of the multiply stage of each unit in residues, in TOP/s."""
    from widen.gpu.units import available

    units = available(gpu.measured.device)
    return {name: gpu.measured.multiply_rate(name, n) for name in units}


def number(value: int) -> str:
    """Return an integer the short way.

    >>> number(128), number(2**24), number(2**20 - 1), number(94906265)
    ('128', '2^24', '2^20 - 1', '94906265')
    """
    for near, suffix in ((value, ""), (value + 1, " - 1")):
        if near >= 1 << 10 and near & (near - 1) == 0:
            return f"2^{near.bit_length() - 1}{suffix}"
    return str(value)


def rate(dtype: str, n: int = 768, budget: float = 0.25) -> float:
    """Return the best rate of an n×n product in this format, in GFLOP/s, within a time budget."""
    import numpy as np

    a = np.ones((n, n), dtype)
    out = np.empty_like(a)
    np.matmul(a, a, out=out)  # the first one wakes the threads
    best, end = float("inf"), perf_counter() + budget
    while (started := perf_counter()) < end:
        np.matmul(a, a, out=out)
        best = min(best, perf_counter() - started)
    return 2 * n**3 / best / 1e9
