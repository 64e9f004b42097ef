"""The picture of a benchmark: TFLOP/s against n, between the ordinary product and the ceiling."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from widen.cli.errors import CommandError
from widen.cli.figures import COLOURS
from widen.cli.results import Row, check_writable

SUFFIXES = (".png", ".pdf", ".svg")


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be drawn in the end, before anything is measured."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise CommandError("--plot needs matplotlib: pip install 'widen[plot]'") from error
    if path.suffix.lower() not in SUFFIXES:
        raise CommandError(f"--plot {path}: name a file that ends in {', '.join(SUFFIXES)}")
    check_writable(path)


def square(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with a place on the axis: single products of square matrices."""
    return [row for row in rows if row["m"] == row["k"] == row["n"] and row["batch"] == 1]


def draw(rows: Sequence[Row], path: Path, machine: str, library: str) -> None:
    """Draw TFLOP/s against n into a file, a panel for every format."""
    from matplotlib.figure import Figure  # not pyplot, which wants to know of windows

    shown = square(rows)
    formats = list(dict.fromkeys(row["dtype"] for row in shown))
    figure = Figure(figsize=(1.5 + 4.5 * len(formats), 4.6), layout="constrained", dpi=150)
    panels = figure.subplots(1, len(formats), squeeze=False)[0]
    for axes, dtype in zip(panels, formats, strict=True):
        panel(axes, [row for row in shown if row["dtype"] == dtype], f"{library} {dtype}")
        axes.set_title(dtype)
    panels[0].set_ylabel("TFLOP/s")
    figure.suptitle(f"Products of n×n matrices, {machine}")
    try:
        figure.savefig(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; name another file") from error


def panel(axes: Any, rows: Sequence[Row], native: str) -> None:
    """Draw one format: a line for every contract, its ceiling, and the ordinary product."""
    names = list(dict.fromkeys(series(row) for row in rows))
    lines = [
        sorted((row for row in rows if series(row) == name), key=lambda row: row["n"])
        for name in names
    ]
    coloured = list(zip(names, lines, COLOURS * len(names), strict=False))
    for name, own, colour in coloured:
        curve(axes, own, "tflops", color=colour, marker="o", label=f"widen {name}")
    sizes = sorted({row["n"] for row in rows})
    speeds = [median(row["native_tflops"] for row in rows if row["n"] == n) for n in sizes]
    axes.plot(sizes, speeds, color="black", linestyle="--", marker="s", markersize=4, label=native)
    for _, own, colour in coloured:
        if all(row["ceiling_tflops"] is not None for row in own):
            style = {"linestyle": ":", "marker": "_", "color": colour}
            label = f"int8 ceiling of {products(own)} products"
            curve(axes, own, "ceiling_tflops", label=label, **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(n) for n in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("n")
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
    axes.legend(fontsize="x-small", frameon=False, **place)


def series(row: Row) -> str:
    """Return the name of the line that a row belongs to."""
    unit = "" if row["unit"] is None else f", {row['unit']}"
    return f"{row['accuracy']}{', B encoded' if row['encoded'] else ''}{unit}, φ = {row['phi']:g}"


def curve(axes: Any, rows: Sequence[Row], key: str, **style: Any) -> None:
    """Draw one column of the rows against n."""
    axes.plot([row["n"] for row in rows], [row[key] for row in rows], **style)


def products(rows: Sequence[Row]) -> str:
    """Return how many products of planes the rows ran.

    >>> products([{"products": 14}, {"products": 15}, {"products": 15}])
    '14–15'
    """
    counts = {row["products"] for row in rows}
    return "–".join(str(count) for count in sorted({min(counts), max(counts)}))
