"""The one place where a figure, which is plain data, becomes a picture."""

import io
from typing import Any

from widen.cli.errors import CommandError
from widen.papers.items import Figure, Panel, Series

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#666666",
)  # fmt: skip
"""Safe for all eyes."""

MARKERS = "osD^vPX*"
WIDTH, HEIGHT, LEGEND_LINE = 4.9, 3.5, 0.24  # inches


def check_matplotlib() -> None:
    """Say what is missing before anything is computed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise CommandError("reproduce draws figures: pip install 'widen[plot]'") from error


def png(figure: Figure) -> bytes:
    """Return a picture of the figure."""
    from matplotlib.figure import Figure as Canvas  # not pyplot, which wants to know of windows

    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    entries = max(len(panel.series) for panel in figure.panels)
    height = rows * (HEIGHT + LEGEND_LINE * -(-entries // 2))
    canvas = Canvas(figsize=(columns * WIDTH, height), layout="constrained", dpi=110)
    axes = canvas.subplots(rows, columns, squeeze=False).ravel()
    for one, panel in zip(axes, figure.panels, strict=False):
        draw(one, panel)
    canvas.draw_without_rendering()  # how deep labels reach is known then
    for one, panel in zip(axes, figure.panels, strict=False):
        if any(series.label for series in panel.series):
            put_legend(one)
    for unused in axes[len(figure.panels) :]:
        unused.set_axis_off()
    picture = io.BytesIO()
    canvas.savefig(picture, format="png")
    return picture.getvalue()


def draw(axes: Any, panel: Panel) -> None:
    """Draw one panel."""
    if any(series.style in ("bars", "stack") for series in panel.series):
        draw_bars(axes, panel)
    else:
        for index, series in enumerate(panel.series):
            draw_line(axes, series, index)
        if panel.log_x:
            axes.set_xscale("log", base=2)
        if panel.log_x10:
            axes.set_xscale("log")
        ticks = sorted({x for series in panel.series for x in series.x})
        few_integers = len(ticks) <= 12 and all(isinstance(x, int) for x in ticks)
        if panel.log_x or few_integers:
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks], rotation=40 if len(ticks) > 6 else 0)
            axes.minorticks_off()
    if panel.log_y:
        axes.set_yscale("log")
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def put_legend(axes: Any) -> None:
    """Put the legend below all that is written under a panel, however its size will change."""
    from matplotlib.transforms import ScaledTranslation

    canvas = axes.figure
    depth = (axes.get_window_extent().y0 - axes.get_tightbbox().y0) / canvas.dpi
    below = axes.transAxes + ScaledTranslation(0, -depth, canvas.dpi_scale_trans)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, ncols=2,
                fontsize="small", frameon=False)  # fmt: skip


def draw_line(axes: Any, series: Series, index: int) -> None:
    """Draw a line, dashed where it is there for comparison, or points alone."""
    drawn = [(x, y) for x, y in zip(series.x, series.y, strict=True) if y is not None]
    style = {"line": "-", "dashed": "--", "points": ""}[series.style]
    dashed = series.style == "dashed"
    axes.plot(
        [x for x, _ in drawn],
        [y for _, y in drawn],
        linestyle=style,
        color="black" if dashed else COLOURS[index % len(COLOURS)],
        marker=None if dashed else MARKERS[index % len(MARKERS)],
        markersize=4 + 5 * bool(series.marks),
        markerfacecolor="none" if series.marks else None,
        label=series.label,
    )
    texts = [mark for mark, y in zip(series.marks, series.y, strict=False) if y is not None]
    for text, (x, y) in zip(texts, drawn, strict=False):
        axes.annotate(text, (x, y), textcoords="offset points", xytext=(6, 3), fontsize="small")


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
    long = sum(map(len, names)) > 40
    axes.set_xticks(range(len(names)), names, rotation=40 if long else 0, fontsize="small")
