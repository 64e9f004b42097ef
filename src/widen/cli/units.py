"""`widen units`: what multiplies exactly, and how fast it does so here."""

from time import perf_counter

#: The BLAS routine behind NumPy's product, by the dtype a unit's engine multiplies in.
ROUTINES = {"float64": "dgemm", "float32": "sgemm"}


def units() -> None:
    """List the units that multiply small integers exactly, and their speed on this CPU.

    A unit without hardware here runs through BLAS: same results, at the speed of BLAS.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from widen.units import UNITS

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("unit", style="bold")
    table.add_column("largest digit", justify="right")
    table.add_column("exact up to", justify="right")
    table.add_column("runs here on")
    table.add_column("GFLOP/s", justify="right")
    rates = {dtype: rate(dtype) for dtype in ROUTINES}
    for unit in UNITS.values():
        engine = f"BLAS {ROUTINES[unit.engine]}" + ("" if unit.native else ", standing in")
        speed = f"{rates[unit.engine]:.0f}"
        table.add_row(unit.name, number(unit.digit), number(unit.exact), engine, speed)
    console = Console(highlight=False)
    console.print(table)
    for unit in UNITS.values():
        console.print(f"{unit.name:5} {unit.note}", markup=False)


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
