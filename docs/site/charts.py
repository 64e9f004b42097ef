"""Charts as SVG, written by hand: the same text on every machine, readable in light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ["#3b7fc4", "#d07a1d", "#2f9e62", "#c94f4f", "#8a6cc2", "#8a8a8a", "#2aa3a3"]
STYLE = """
  .card { fill: #ffffff; stroke: #d5d9df; }
  text { fill: #1f2733; font: 15px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
  .title { font-weight: 600; font-size: 15px; }
  .faint { fill: #5c6675; font-size: 13.5px; }
  .grid { stroke: #d5d9df; stroke-width: 1; }
  .one { stroke: #5c6675; stroke-width: 1.2; stroke-dasharray: 5 4; }
  .line { fill: none; stroke-width: 2.2; }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1b2029; stroke: #3a4250; }
    text { fill: #e4e8ee; }
    .faint { fill: #a3adbb; }
    .grid { stroke: #343c49; }
    .one { stroke: #a3adbb; }
  }
"""


def svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Return a whole picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(title, True)}">\n'
    )
    card = (
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>'
    )
    return head + f"<style>{STYLE}</style>\n" + "\n".join([card, *parts]) + "\n</svg>\n"


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(words)}</text>'


# ── bars ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Bar:
    """One row of a chart of bars: what it is, a remark, its length, and the number shown."""

    label: str
    remark: str
    value: float
    shown: str
    colour: int = 0


@dataclass(frozen=True)
class Panel:
    """Bars below one heading, with a scale of their own."""

    heading: str
    remark_heading: str
    bars: Sequence[Bar]
    source: str


def panel_parts(panel: Panel, x: float, y: float, width: float) -> tuple[list[str], float]:
    """Return the shapes of one panel whose corner is at x and y, and where it ends."""
    left, remark_at, row = x + 14.0, x + 148.0, 25.0
    bar_at = x + (222.0 if any(bar.remark for bar in panel.bars) else 172.0)
    parts = [text(left, y + 28, panel.heading, "title")]
    parts.append(text(remark_at, y + 50, panel.remark_heading, "faint"))
    y += 58 if panel.remark_heading else 40
    longest = max(bar.value for bar in panel.bars)
    for bar in panel.bars:
        length = max(1.5, (x + width - bar_at - 70) * bar.value / longest)
        parts.append(text(left, y + 15, bar.label))
        parts.append(text(remark_at, y + 15, bar.remark))
        parts.append(
            f'<rect x="{bar_at:g}" y="{y + 3:g}" width="{length:.1f}" height="16" rx="2" '
            f'fill="{COLOURS[bar.colour]}"/>'
        )
        parts.append(text(bar_at + length + 7, y + 15, bar.shown))
        y += row
    parts.append(text(left, y + 16, panel.source, "faint"))
    return parts, y + 24


def bar_chart(title: str, panels: Sequence[Panel], columns: int = 1, width: float = 480) -> str:
    """Return panels of horizontal bars: one below the other, or beside each other in columns."""
    parts: list[str] = []
    ends = [0.0] * columns
    for at, panel in enumerate(panels):
        column = at % columns
        shapes, ends[column] = panel_parts(panel, column * width, ends[column], width)
        parts += shapes
    return svg(columns * width, max(ends) + 10, title, parts)


# ── lines ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Series:
    """Points that a line joins, and their name."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """What an axis shows, and which values are written beside it."""

    label: str
    ticks: Sequence[float]
    logarithmic: bool = True

    def shown(self, value: float) -> str:
        """Return how a value is written; large powers of two are 2^k."""
        exponent = math.log2(value) if value > 0 else 0.0
        return f"2^{exponent:.0f}" if exponent >= 16 and exponent.is_integer() else f"{value:g}"

    def share(self, value: float) -> float:
        """Return where between the first and the last tick a value lies, from 0 to 1."""
        scale = math.log if self.logarithmic else float
        low, high = scale(self.ticks[0]), scale(self.ticks[-1])
        return (scale(value) - low) / (high - low)


def legend(names: Sequence[str], width: float, top: float) -> tuple[list[str], float]:
    """Return the names of series beside their colours, in rows, and where the rows end."""
    parts, x, y = [], 16.0, top
    for name, colour in zip(names, COLOURS, strict=False):
        room = 30 + 8.4 * len(name)
        if x + room > width and x > 16:
            x, y = 16.0, y + 19
        parts.append(f'<rect x="{x:.1f}" y="{y - 6:g}" width="11" height="4" fill="{colour}"/>')
        parts.append(text(x + 15, y, name, "faint"))
        x += room
    return parts, y


def line_chart(title: str, across: Axis, up: Axis, series: Sequence[Series], source: str) -> str:
    """Return lines over one scale, with a dashed line at 1 where the scale has one."""
    width, left, right, high, bottom = 480.0, 66.0, 26.0, 200.0, 68.0
    named, end = legend([one.name for one in series], width, 62.0 if up.label else 46.0)
    top = end + 18
    height = top + high + bottom

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (width - left - right) * across.share(x), top + high * (1 - up.share(y))

    parts = [text(16, 24, title, "title"), text(16, 43, up.label, "faint"), *named]
    for tick in up.ticks:
        x, y = place(across.ticks[0], tick)
        style = "one" if tick == 1 else "grid"
        parts.append(f'<path class="{style}" d="M{x:.1f} {y:.1f}H{width - right:g}"/>')
        parts.append(text(x - 8, y + 4, up.shown(tick), "faint", "end"))
    for tick in across.ticks:
        x, y = place(tick, up.ticks[0])
        parts.append(text(x, y + 19, across.shown(tick), "faint", "middle"))
    parts.append(text(width - right, height - bottom + 38, across.label, "faint", "end"))
    for one, colour in zip(series, COLOURS, strict=False):
        points = [place(*point) for point in one.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    parts.append(text(16, height - 12, source, "faint"))
    return svg(width, height, title, parts)
