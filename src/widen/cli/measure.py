"""One row of a benchmark: a product timed beside the ordinary one, and checked exactly."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from widen.cli.exact import Array, exact_products
from widen.cli.machines import Cpu
from widen.cli.results import STAGES

Tick = Callable[[float], None]

SEED = 1
WARM_UPS = 3
TELL_AFTER = 0.1
"""Seconds between two reports of progress."""

SAMPLE = 32
"""Rows and columns whose elements are checked in exact arithmetic."""

MOST_BOUNDS = 1 << 28
"""Results above this many elements are timed only: their bounds are another float64 each."""

SUSTAINED_INT8 = {"H200": 1900.0}
"""TOP/s of a bare loop of int8 products on tensor cores, measured, by a part of the GPU's name."""


@dataclass(frozen=True)
class Case:
    """A product to measure: shape, format, contract and data."""

    m: int
    k: int
    n: int
    batch: int = 1
    dtype: str = "float64"
    accuracy: int | str = "standard"
    phi: float = 0.5
    encoded: bool = False
    unit: str | None = None
    workspace: int | str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `widen.encode`, and of `widen.matmul` with what is encoded."""
        return {"accuracy": self.accuracy, "dtype": self.dtype, "unit": self.unit}

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of both operands."""
        batch = () if self.batch == 1 else (self.batch,)
        return (*batch, self.m, self.k), (*batch, self.k, self.n)

    @property
    def multiplications(self) -> int:
        """Multiplications of one plane by another, and of an ordinary real product."""
        return self.batch * self.m * self.k * self.n

    @property
    def flops(self) -> int:
        """Floating-point operations of the ordinary product."""
        return (8 if self.dtype.startswith("complex") else 2) * self.multiplications


def measure(case: Case, machine: Cpu, repeats: int, tick: Tick) -> dict[str, Any]:
    """Time the ordinary product and widen's, check a sample exactly, and return the row.

    Parameters
    ----------
    case, machine
        What, and where.
    repeats
        Calls that are timed, after three that are not; the median counts.
    tick
        Called with the share of the row that is done.
    """
    import widen

    started = perf_counter()
    generator = machine.generator(SEED)
    a, b = (machine.random(generator, shape, case.dtype, case.phi) for shape in case.shapes)
    native = typical(lambda: a @ b, machine, repeats, lambda share: tick(0.45 * share))
    right = widen.encode(b, side="right", **case.arguments) if case.encoded else b
    options = case.arguments | {"workspace": case.workspace}
    product = partial(widen.matmul, a, right, **options)
    product()
    machine.settle()
    seconds = typical(product, machine, repeats, lambda share: tick(0.45 * (1 + share)))
    facts = described(case, machine, (a, b, right), options)
    tick(1.0)
    return {
        **vars(case),
        "accuracy": str(case.accuracy),
        "repeats": repeats,
        "native_ms": native * 1e3,
        "widen_ms": seconds * 1e3,
        "ratio_to_native": native / seconds,  # of speeds: above 1, widen is faster
        "tflops": case.flops / seconds / 1e12,
        "native_tflops": case.flops / native / 1e12,
        **facts,
        "ceiling_tflops": ceiling(case, facts["products"], machine.facts()["machine"]),
        "seconds": perf_counter() - started,
    }


def typical(function: Callable[[], object], machine: Cpu, repeats: int, tick: Tick) -> float:
    """Return the median time of a call, after warm-up.

    No progress is told of between short calls, so that nothing else comes between them.
    """
    times, shown = [], perf_counter()
    for done in range(1, WARM_UPS + repeats + 1):
        times.append(machine.seconds(function))
        if perf_counter() - shown > TELL_AFTER:
            tick(done / (WARM_UPS + repeats))
            shown = perf_counter()
    tick(1.0)
    return median(times[WARM_UPS:])


def ceiling(case: Case, products: int, name: str) -> float | None:
    """Return the TFLOP/s of a product whose planes are multiplied at full rate, nothing else.

    >>> ceiling(Case(8, 8, 8), 14, "NVIDIA H200")
    135.71428571428572
    """
    rates = (rate for part, rate in SUSTAINED_INT8.items() if part in name)
    return next((rate * case.flops / (2 * products * case.multiplications) for rate in rates), None)


def described(
    case: Case, machine: Cpu, operands: tuple[Any, Any, Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Return what one more call says of itself, and what is true of a sample of its elements."""
    import widen

    a, b, right = operands
    rows, columns = picked(case.m), picked(case.n)

    def last(values: Any) -> Any:
        return values if case.batch == 1 else values[-1]

    def sample(values: Any) -> Array:
        return machine.fetch(last(values)[rows][:, columns])

    lines = machine.fetch(last(a)[rows]), machine.fetch(last(b)[:, columns]).T
    bound = None
    row: dict[str, Any]
    if case.batch * case.m * case.n <= MOST_BOUNDS:
        c, info = widen.matmul(a, right, info=True, **options)
        stages = {name: info.seconds[name] * 1e3 for name in STAGES}  # bounds are no part of it
        multiply = info.seconds["multiply"]
        tops = 2 * info.products * case.multiplications / multiply / 1e12 if multiply else None
        row = {"products": info.products, "stages_ms": stages, "multiply_tops": tops}
        row |= {"repaired": info.repaired, "workspace_mb": info.workspace / 1e6}
        bound = sample(info.bound)
    else:
        c = widen.matmul(a, right, **options)
        row = {"products": widen.plan(a, right, **options).products}
    return row | checked(*lines, sample(c), bound, sample(a @ b))


def picked(size: int) -> list[int]:
    """Return the indices of some lines, the same every time."""
    chosen: list[int] = np.random.default_rng(SEED).permutation(size)[:SAMPLE].tolist()
    return sorted(chosen)


def checked(
    rows: Array,
    columns: Array,
    values: Array,
    bound: Array | None,
    native: Array,
) -> dict[str, Any]:
    """Return the largest errors and bounds of a sample, in units of u(|A||B|).

    Parameters
    ----------
    rows, columns
        Lines of A and of B.
    values, bound, native
        What widen says their products are, how wrong that may be, and the ordinary products.
    """
    from widen.formats import FORMATS

    unit = 2.0 ** -FORMATS[str(values.dtype)].precision
    scale = unit * (np.abs(rows).astype(float) @ np.abs(columns).T.astype(float))
    exact = exact_products(rows, columns)
    squares = squared_errors(values, exact)
    facts: dict[str, Any] = {
        "error_u": largest(squares, scale),
        "native_error_u": largest(squared_errors(native, exact), scale),
    }
    if bound is not None:
        facts["bound_u"] = float((bound / scale).max())
        limits = [Fraction(limit) ** 2 for limit in bound.ravel().tolist()]
        pairs = zip(squares, limits, strict=True)
        facts["within_bound"] = all(square <= limit for square, limit in pairs)
    return facts


def squared_errors(values: Array, exact: list[tuple[Fraction, ...]]) -> list[Fraction]:
    """Return the square of every error's modulus, exactly."""
    parts = (values.real, values.imag) if np.iscomplexobj(values) else (values,)
    flat = zip(*(part.ravel().tolist() for part in parts), strict=True)
    return [
        sum(((Fraction(x) - y) ** 2 for x, y in zip(value, truth, strict=True)), Fraction())
        for value, truth in zip(flat, exact, strict=True)
    ]


def largest(squares: list[Fraction], scale: Array) -> float:
    """Return the largest error in units of a scale."""
    units = scale.ravel().tolist()
    return max(
        math.sqrt(square / Fraction(u) ** 2) for square, u in zip(squares, units, strict=True)
    )
