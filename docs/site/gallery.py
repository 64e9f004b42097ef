"""The gallery of the papers: what bench/results/papers-h200 holds, drawn and told."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from charts import Axis, Series, line_chart
from pictures import H200
from rows import RESULTS

FOLDER = RESULTS / "papers-h200"
SIGNS = {"holds": "✓", "does not hold": "✗", "not decided here": "–"}
Table = list[dict[str, str]]


def table(item: str) -> Table:
    """Return the rows of an item by the names of its columns."""
    with (FOLDER / f"{item}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Drawing:
    """How an item's table is drawn: lines over x, one for each column or each value of `split`."""

    x: str
    label: str
    columns: Sequence[str]
    only: dict[str, str] = field(default_factory=dict)
    split: str = ""
    named: Callable[[str], str] = str


def short(name: str) -> str:
    """Return a column's name without its unit."""
    return re.sub(r", (GFLOP/s|s)$|^error of ", "", name)


DRAWN = {
    "000-fig3": Drawing("n", "largest relative error, φ = 1",
                        ["error of DGEMM", "error of DGEMM-TC-DP"], {"φ": "1"}, named=short),
    "000-fig4-5": Drawing("n", "GFLOP/s, φ = 0.1", ["GFLOP/s", "ordinary, GFLOP/s"], {"φ": "0.1"}),
    "000-fig6-7": Drawing("n", "GFLOP/s, φ = 0.1", ["GFLOP/s", "ordinary, GFLOP/s"], {"φ": "0.1"}),
    "002-fig12-13": Drawing("n", "times as fast as float64, 8 slices", ["ratio to FP64"],
                            {"slices": "8"}, "method"),
    "002-future-blocks": Drawing("n", "error / |A||B|", ["ozIMMU-7", "ozIMMU-7, blocks"]),
    "003-fig19-22": Drawing("n", "GFLOP/s", ["TS, GFLOP/s", "DF, GFLOP/s", "D+S, GFLOP/s",
                                             "DD, GFLOP/s", "double, GFLOP/s"], named=short),
    "003-fig23-24": Drawing("n", "seconds", ["blocked TS, s", "Ozaki scheme, 9 slices, s",
                                             "Ozaki scheme, 12 slices, s"], named=short),
    "003-fig25": Drawing("n", "largest relative error, numbers of 53 bits",
                         ["largest relative error"], {"numbers": "numbers of 53 bits"}, "product"),
    "004-fig1": Drawing("m", "TFLOP/s, k = m",
                        ["FP64, k = m", "FP16, k = m", "FP8, k = m"]),
    "004-fig2": Drawing("m", "GFLOP/s", ["ordinary product, GFLOP/s", "FP16TC, GFLOP/s",
                                         "FP8TC, GFLOP/s"], named=short),
    "004-fig3": Drawing("m", "largest relative error", ["ordinary product", "FP16TC", "FP8TC"]),
    "004-future-groups": Drawing("m", "TFLOP/s", ["TFLOP/s"], {}, "version"),
}  # fmt: skip


def decades(values: Sequence[float]) -> list[float]:
    """Return powers of ten around some numbers, at most about six of them.

    >>> decades([0.02, 3.0, 40.0])
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    step = max(1, math.ceil((high - low) / 6))
    count = math.ceil((high - low) / step)
    return [float(f"1e{low + step * at}") for at in range(count + 1)]


def picture(item: str) -> str:
    """Return an item's chart."""
    drawing = DRAWN[item]
    kept = [row for row in table(item) if all(row[k] == x for k, x in drawing.only.items())]
    if drawing.split:
        names = list(dict.fromkeys(row[drawing.split] for row in kept))
        chosen = {name: [row for row in kept if row[drawing.split] == name] for name in names}
        lines = {name: (own, drawing.columns[0]) for name, own in chosen.items()}
    else:
        lines = {column: (kept, column) for column in drawing.columns}
    series = []
    for name, (own, column) in lines.items():
        points = [(float(row[drawing.x]), float(row[column])) for row in own if row[column] != "–"]
        series.append(Series(drawing.named(name), points))
    across = sorted({x for one in series for x, _ in one.points})
    heights = [y for one in series for _, y in one.points]
    ticks = [across[0]]
    for x in across[1:]:  # those that have room beside the one before, and the last
        if math.log(x / ticks[-1]) > 0.13 * math.log(across[-1] / across[0]):
            ticks.append(x)
    ticks[-1] = across[-1]
    # The title of the page's section stands above it: the chart begins with what it measures.
    return line_chart(drawing.label, Axis(drawing.x, ticks), Axis("", decades(heights)),
                      series[:6], H200)  # fmt: skip


def sections(text: str) -> list[tuple[int, str, list[str]]]:
    """Return claims.md by headings: level, heading, and the lines of claims below it."""
    found: list[tuple[int, str, list[str]]] = []
    for line in text.splitlines():
        heading = re.fullmatch(r"(##+) (.*)", line)
        if heading:
            found.append((len(heading[1]), heading[2], []))
        elif found and line.startswith("| ") and not line.startswith(("| claim", "| ---")):
            found[-1][2].append(line)
    return found


def claim(line: str) -> str:
    """Return one claim in two lines."""
    sentence, where, _, measured, _, verdict = line.strip("| ").split(" | ")
    sign = next(sign for words, sign in SIGNS.items() if verdict.endswith(words))
    return f"- {sign} **{sentence}** ({where}; {verdict}). Measured: {measured}.\n"


def page() -> tuple[str, dict[str, str]]:
    """Return the page, and its pictures by name."""
    text = (FOLDER / "claims.md").read_text(encoding="utf-8")
    tally = re.search(r"^\| paper \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    parts = [
        "# Gallery of the papers\n\nTables and figures of five papers, made on one NVIDIA H200 "
        "(CUDA 13.0, PyTorch 2.11, Triton 3.6) by `widen reproduce all --device cuda --full`. "
        "✓ a claim that holds, ✗ one that does not, – one that this machine cannot decide. "
        "[The five papers, reproduced](papers.md) tells what they mean, and [all claims]("
        "results/papers-h200/claims.md) has sizes and draws.\n\n",
        tally[0] if tally else "",
    ]
    pictures = {}
    for level, heading, lines in sections(text):
        parts.append(f"{'#' * level} {heading}\n\n")
        item = heading.partition(":")[0]
        if item in DRAWN:
            title = heading.partition(": ")[2]
            pictures[item] = picture(item)
            parts.append(f"![{title}](pictures/papers/{item}.svg)\n\n")
        parts.append("".join(map(claim, lines)) + "\n")
        if level == 3:
            parts.append(f"[The numbers](files/bench/results/papers-h200/{item}.csv) · "
                         f"`widen reproduce {item} --device cuda --full`\n\n")  # fmt: skip
    return "".join(parts), pictures
