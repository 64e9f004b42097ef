"""Every measured figure of README and site, with the command that makes it.

A section that has measured figures names a command, or stands below a section that does. What can
be computed from bench/results is compared with it (`CHECKED`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import rows
import stage

ROOT = Path(__file__).parents[2]
MEASURED = re.compile(
    r"\b\d[\d.,]*(?: to \d[\d.]*)?(?: ?×(?! \d)| ?%| (?:ms|s|seconds|minutes|MB|GB|times|"
    r"TOP/s|GFLOP/s|TFLOP/s|Tbit/s|of torch's speed))(?![\w-])"
)
"""A number with a unit of time, speed, memory or a ratio."""
COMMAND = re.compile(
    r"`((?:python (?:bench|docs)/|widen (?:reproduce (?!--list)|bench|units|plan)|make bench|"
    r"torchrun )[^`]*|\d{3}-[a-z][\w-]+)`"
)
"""What makes figures; `002-fig5` stands for `widen reproduce 002-fig5`."""
NOT_MEASURED = {"method.md", "glossary.md", "architecture.md"}
"""Pages whose numbers are mathematics, or counts."""


@dataclass(frozen=True)
class Section:
    """A part of a page below one heading."""

    page: str
    heading: str
    level: int
    text: str

    @property
    def figures(self) -> list[str]:
        """Measured figures in its sentences and tables."""
        return list(dict.fromkeys(" ".join(found.split()) for found in MEASURED.findall(self.text)))

    @property
    def commands(self) -> list[str]:
        """Commands that it names."""
        named = [" ".join(found.split()) for found in COMMAND.findall(self.text)]
        full = [f"widen reproduce {x}" if x[0].isdigit() else x for x in named]
        return list(dict.fromkeys(full))

    @property
    def pictures(self) -> list[str]:
        """Pictures that it shows."""
        return re.findall(r"!\[[^]]*\]\([^)]*?([\w-]+)\.svg\)", self.text)


def sections(page: str, text: str) -> list[Section]:
    r"""Return the parts of a page, without its blocks of code.

    >>> [part.heading for part in sections("p", "# A\n\n## B\n\nIt took 3 ms.\n")]
    ['A', 'B']
    """
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = [(len(x[1]), x[2], x.end()) for x in re.finditer(r"^(#+) (.*)$", plain, re.MULTILINE)]
    ends = [*(x.start() for x in re.finditer(r"^#+ ", plain, re.MULTILINE)), len(plain)][1:]
    return [
        Section(page, heading, level, plain[start:end])
        for (level, heading, start), end in zip(found, ends, strict=True)
    ]


def pages() -> dict[str, str]:
    """Return the pages whose figures are listed: README and docs/, by name."""
    paths = [ROOT / "README.md", *(p for p in stage.documents() if p.is_relative_to(stage.DOCS))]
    named = {str(path.relative_to(ROOT)).removeprefix("docs/"): path for path in paths}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in named.items()
        if name not in NOT_MEASURED
    }


def listed() -> list[tuple[Section, list[str]]]:
    """Return every section with measured figures or pictures, and the commands that make them."""
    found = []
    for page, text in pages().items():
        above: list[tuple[int, list[str]]] = []
        for section in sections(page, text):
            above = [(level, names) for level, names in above if level < section.level]
            commands = section.commands or next((x for _, x in reversed(above) if x), [])
            above.append((section.level, section.commands))
            if section.figures or section.pictures:
                drawn = ["python docs/site/pictures.py"] if section.pictures else []
                found.append((section, [*commands, *(x for x in drawn if x not in commands)]))
    return found


def missing() -> list[str]:
    """Return places with measured figures for which no command is named."""
    return [f"{s.page}, {s.heading}: {s.figures}" for s, commands in listed() if not commands]


def page() -> str:
    """Return the list as a page."""
    parts = [
        "# Every figure, and the command that makes it\n\nMade from the pages themselves: for "
        "every section with measured figures, what they are and which command makes them. Figures "
        "of a GPU are those of one NVIDIA H200 with CUDA 13.0, PyTorch 2.11 and Triton 3.6. Rows "
        "that the commands wrote are in `bench/results/`.\n"
    ]
    last = ""
    for section, commands in listed():
        if section.page != last:
            parts.append(
                f"\n## {section.page}\n\n| section | figures | made by |\n| --- | --- | --- |\n"
            )
            last = section.page
        shown = [*section.figures, *(f"picture {name}" for name in section.pictures)]
        made = "<br>".join(f"`{command}`" for command in commands)
        heading = re.sub(r"[|`*]", "", section.heading)
        parts.append(f"| {heading} | {', '.join(shown)} | {made} |\n".replace("~", "\\~"))
    return "".join(parts)


# ── figures that rows of bench/results give ──────────────────────────────────


@dataclass(frozen=True)
class Checked:
    """A text that stands on some pages, and the same text made from rows."""

    pages: tuple[str, ...]
    made: Callable[[], str]


def gpu_row(label: str, kind: str) -> str:
    """Return a line of the table of an H200: ratios at four sizes."""
    ratios = [rows.gpu(kind, n)["ratio_to_native"] for n in (2048, 4096, 8192, 16384)]
    return f"| {label} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |"


def error_row(label: str, phi: float) -> str:
    """Return a line of the table of errors."""
    found = rows.accuracy(phi)
    errors = [float(f"{found[name][0]:.2g}") for name in ("numpy", "fast", "standard", "correct")]
    cells = [f"{error:g}" for error in errors]
    return f"| {label} | " + " | ".join(cells) + " |"


def off_row(label: str) -> str:
    """Return the line of elements that are not the nearest float64."""
    found = rows.accuracy(0.5)
    cells = [f"{found[name][1]:,}" for name in ("numpy", "fast", "standard")]
    return f"| {label} | " + " | ".join(cells) + f" | **{found['correct'][1]}** |"


def time_row(label: str) -> str:
    """Return the line of times at n = 1024."""
    named = [rows.cpu(name, (1024, 1024, 1024)) for name in ("fast", "standard", "correct")]
    cells = [f"{named[1]['numpy_ms']:.0f} ms", *(f"{row['widen_ms']:.0f} ms" for row in named)]
    return f"| {label} | " + " | ".join(cells) + " |"


def ratios(n: tuple[int, ...], kind: str = "float64-standard") -> list[str]:
    """Return ratios to the ordinary product on an H200."""
    return [f"{rows.gpu(kind, size)['ratio_to_native']:.2f}" for size in n]


CHECKED = [
    Checked(("performance.md",), lambda: gpu_row('float64, `"fast"`', "float64-fast")),
    Checked(("performance.md",), lambda: gpu_row('float64, `"standard"`', "float64-standard")),
    Checked(("performance.md",), lambda: gpu_row("the same, B encoded before",
                                                 "float64-standard-encoded")),
    Checked(("performance.md",), lambda: gpu_row('float32, `"standard"`', "float32-standard")),
    Checked(("performance.md",),
            lambda: gpu_row('complex128, `"standard"`', "complex128-standard")),
    Checked(("performance.md",), lambda: gpu_row('float64, `"correct"`', "float64-correct")),
    Checked(("accuracy.md",),
            lambda: error_row(r"largest error, n = 256, φ = 0.5, in u·\|A\|\|B\|", 0.5)),
    Checked(("accuracy.md",), lambda: error_row("the same, φ = 2", 2.0)),
    Checked(("accuracy.md",), lambda: off_row(
        "elements that are not the nearest float64, of 65,536, φ = 0.5")),
    Checked(("accuracy.md",), lambda: time_row("time at n = 1024, φ = 0.1")),
    Checked(("comparison.md",), lambda: "{}, {}, {} and {} times the speed of PyTorch's".format(
        *ratios((2048, 4096, 8192, 16384)))),
    Checked(("tutorials/large_gpu.md",), lambda: "{} times as fast as PyTorch's float64 product "
            "at n = 4096, {} times at 8192 and {} times at 16384".format(
                *ratios((4096, 8192, 16384)))),
]  # fmt: skip


def wrong() -> list[str]:
    """Return texts made from rows that do not stand where they should."""
    shown = pages()
    return [
        f"{page}: {text!r} is not there"
        for check in CHECKED
        for text in [check.made()]
        for page in check.pages
        if " ".join(text.split()) not in " ".join(shown[page].split())
    ]
