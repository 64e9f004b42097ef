"""The one place where a figure, which is plain data, becomes a picture."""

import io
import math
from itertools import product
from textwrap import wrap
from typing import Any

from widen.cli.errors import CommandError
from widen.papers.items import Figure, Panel, Series

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#666666",
)  # fmt: skip
"""Safe for all eyes."""

MARKERS = "osD^vPX*"
LINES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (7, 2, 2, 2)))
AROUND = ((0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0))
"""Where a mark may stand, best first: above and below a point it is seldom on its line."""

WIDTH, HEIGHT, LEGEND_LINE = 4.9, 3.5, 0.24  # inches


def check_matplotlib() -> None:
    """Say what is missing before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise CommandError("reproduce draws figures: pip install 'widen[plot]'") from error


def png(figure: Figure, note: str = "") -> bytes:
    """Return a picture of the figure; `note` says in small print where its numbers come from."""
    from matplotlib.figure import Figure as Canvas  # not pyplot, which wants to know of windows

    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    entries = [[series.label for series in panel.series] for panel in figure.panels]
    shared = len(entries) > 1 and all(labels == entries[0] for labels in entries)
    lines = max(-(-len(labels) // columns_of(labels)) for labels in entries)
    height = rows * HEIGHT + (1 if shared else rows) * lines * LEGEND_LINE
    canvas = Canvas(figsize=(columns * WIDTH, height), layout="constrained", dpi=110)
    if note:
        canvas.suptitle(note, fontsize="x-small", color="0.4", x=0.99, horizontalalignment="right")
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    drawn = list(zip(axes, figure.panels, strict=False))
    for one, panel in drawn:
        draw(one, panel)
    if shared and any(entries[0]):
        wide = columns * columns_of(entries[0])
        canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=wide,
                      fontsize="small", frameon=False)  # fmt: skip
    canvas.draw_without_rendering()  # how deep labels reach is known then
    for one, panel in drawn:
        thin_out(one)
        if not shared and any(series.label for series in panel.series):
            put_legend(one, columns_of([series.label for series in panel.series]))
    for unused in axes[len(figure.panels) :]:
        unused.set_axis_off()
    canvas.draw_without_rendering()  # panels have the size they keep
    for one, panel in drawn:
        put_marks(one, panel)
    picture = io.BytesIO()
    canvas.savefig(picture, format="png")
    return picture.getvalue()


def draw(axes: Any, panel: Panel) -> None:
    """Draw one panel."""
    if any(series.style in ("bars", "stack") for series in panel.series):
        draw_bars(axes, panel)
    else:
        for index, series in enumerate(panel.series):
            draw_line(axes, panel, series, index)
        if panel.log_x:
            axes.set_xscale("log", base=2)
        if panel.log_x10:
            axes.set_xscale("log")
        ticks = sorted({x for series in panel.series for x in series.x})
        few_integers = len(ticks) <= 12 and all(isinstance(x, int) for x in ticks)
        if panel.log_x or few_integers:
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize="small")
            axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log")
        set_log_ticks(axes, [y for series in panel.series for y in series.y if y])
    elif all(float(y or 0).is_integer() for series in panel.series for y in series.y):
        axes.yaxis.get_major_locator().set_params(integer=True)
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def columns_of(labels: list[str]) -> int:
    """Return how many labels of a legend stand side by side under a panel."""
    return 2 if max(map(len, labels), default=0) <= 27 else 1


def put_legend(axes: Any, columns: int = 2) -> None:
    """Put the legend below all that is written under a panel, however its size will change."""
    from matplotlib.transforms import ScaledTranslation

    canvas = axes.figure
    depth = (axes.get_window_extent().y0 - axes.get_tightbbox().y0) / canvas.dpi
    below = axes.transAxes + ScaledTranslation(0, -depth, canvas.dpi_scale_trans)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=columns,
                fontsize="small", frameon=False)  # fmt: skip


def set_log_ticks(axes: Any, values: list[float]) -> None:
    """Ticks at powers of ten; where they would be fewer than three, also at multiples of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = min(values, default=1.0), max(values, default=1.0)
    narrow = math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 2
    multiples = (1, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5)
    axes.yaxis.set_major_locator(LogLocator(subs=multiples if narrow else (1,), numticks=9))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: power_of_ten(y)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if narrow:
        axes.yaxis.set_minor_locator(LogLocator(subs=()))


def power_of_ten(y: float) -> str:
    """Return a tick's label.

    >>> power_of_ten(0.002), power_of_ten(50000.0), power_of_ten(1e-16), power_of_ten(2e-22)
    ('0.002', '50000', '$10^{-16}$', '$2·10^{-22}$')
    """
    if 1e-3 <= y < 1e5:
        return f"{y:g}"
    digits, exponent = f"{y:.0e}".split("e")
    return f"${'' if digits == '1' else digits + '·'}10^{{{int(exponent)}}}$"


def thin_out(axes: Any) -> None:
    """Take away labels of ticks that touch others: the largest and powers of two stay longest."""
    labels = [label for label in axes.get_xticklabels() if label.get_text().isdecimal()]
    sizes = [int(label.get_text()) for label in labels]
    boxes = [label.get_window_extent().expanded(1.15, 1) for label in labels]
    kept: list[Any] = []
    top = max(sizes, default=0)
    order = sorted(
        range(len(sizes)),
        key=lambda i: (sizes[i] != top, sizes[i] & (sizes[i] - 1) != 0, -sizes[i]),
    )
    for at in order:
        if any(boxes[at].overlaps(other) for other in kept):
            labels[at].set_visible(False)
        else:
            kept.append(boxes[at])


def put_marks(axes: Any, panel: Panel) -> None:
    """Write marks beside their points, each at the first place around it that is free."""
    from matplotlib.transforms import Bbox

    marked = [
        (mark, tuple(axes.transData.transform((x, y))))
        for series in panel.series
        for x, y, mark in points(panel, series)
        if mark and not isinstance(x, str)
    ]
    scale = axes.figure.dpi / 72
    half = 5 * scale  # of a marker
    taken = [Bbox.from_extents(x - half, y - half, x + half, y + half) for _, (x, y) in marked]
    for text, (x, y) in marked:
        wide, high = 3.2 * scale * len(text), 4.5 * scale
        for far, (right, up) in product((9, 15, 22, 30), AROUND):
            centre = x + right * (far * scale + wide - half), y + up * far * scale
            box = Bbox.from_extents(
                centre[0] - wide, centre[1] - high, centre[0] + wide, centre[1] + high
            )
            inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
            if inside and not any(box.overlaps(other) for other in taken):
                break
        taken.append(box)
        shift = (centre[0] - x) / scale, (centre[1] - y) / scale
        axes.annotate(text, axes.transData.inverted().transform((x, y)), fontsize="small",
                      textcoords="offset points", xytext=shift, ha="center", va="center",
                      annotation_clip=False)  # fmt: skip


def points(panel: Panel, series: Series) -> list[tuple[Any, float, str]]:
    """Return what is there to be drawn, with its marks; 0 has no place on a logarithmic axis."""
    marks = [*series.marks, *[""] * (len(series.x) - len(series.marks))]
    every = zip(series.x, series.y, marks, strict=True)
    return [(x, y, mark) for x, y, mark in every if y is not None and (y > 0 or not panel.log_y)]


def draw_line(axes: Any, panel: Panel, series: Series, index: int) -> None:
    """Draw a line, dashed where it is there for comparison, or points alone.

    Markers are hollow and smaller from line to line, and lines are broken in several ways, so that
    those which coincide are all seen.
    """
    drawn = points(panel, series)
    line = LINES[1 + (index - 1) % (len(LINES) - 1)] if index else LINES[0]
    style = {"line": line, "dashed": "--", "points": ""}[series.style]
    plain = series.style == "dashed" and series.colour is None
    colour = index if series.colour is None else series.colour
    axes.plot(
        [x for x, _, _ in drawn],
        [y for _, y, _ in drawn],
        linestyle=style,
        color="black" if plain else COLOURS[colour % len(COLOURS)],
        marker=None if plain else MARKERS[index % len(MARKERS)],
        markersize=9 if series.marks else 8 - 4 * index / max(len(panel.series) - 1, 1),
        markerfacecolor="none",
        label=series.label,
    )


def draw_bars(axes: Any, panel: Panel) -> None:
    """Draw bars side by side or on top of each other, at names; lines among them keep style."""
    bars = [series for series in panel.series if series.style in ("bars", "stack")]
    names = [str(x) for x in bars[0].x]
    beside = [series for series in bars if series.style == "bars"]
    width = 0.8 / max(len(beside), 1)
    floor = [0.0] * len(names)
    for index, series in enumerate(bars):
        heights = [y or 0.0 for y in series.y]
        colour = COLOURS[index % len(COLOURS)]
        if series.style == "stack":
            axes.bar(range(len(names)), heights, 0.8, floor, color=colour, label=series.label)
            floor = [low + high for low, high in zip(floor, heights, strict=True)]
        else:
            at = [i + (index - (len(beside) - 1) / 2) * width for i in range(len(names))]
            axes.bar(at, heights, width, color=colour, label=series.label)
    for series in panel.series:
        if series.style not in ("bars", "stack"):
            style = {"line": "-", "dashed": "--", "points": ""}[series.style]
            axes.plot(range(len(names)), series.y, style, color="black", marker="o", markersize=4,
                      label=series.label)  # fmt: skip
    room = 56 // len(names)  # letters, of which digits are wide ones
    turned = room < 11 and max(map(len, names)) > room
    labels = names if turned else ["\n".join(wrap(name, room) or [""]) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=40 if turned else 0, fontsize="small")
