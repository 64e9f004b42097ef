"""Every measured figure of README and site, with the command that makes it.

A section that has measured figures names a command, or stands below a section that does. What can
be computed from bench/results is compared with it (`CHECKED`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import checked
import stage

ROOT = Path(__file__).parents[2]
COUNT = (
    r"(?:\d[\d.,]*(?: to \d[\d.]*)?|two|three|four|five|six|seven|eight|nine|ten|twelve|half an|"
    r"hundreds of|a few)"
)
MEASURED = re.compile(
    rf"(?<![\w-]){COUNT}(?: ?×(?! \d)| ?%| (?:ns|µs|ms|s|CPU seconds|seconds|minutes|hours?|"
    r"kB|KB|MB|GB|TB|TOP/s|GFLOP/s|TFLOP/s|Tbit/s|GB/s|TB/s|of PyTorch's speed|"
    r"times (?:as|at|the|faster|slower|longer|NumPy|PyTorch)))(?![\w-])"
    r"|(?<![\w.-])\d+\.\d+(?:, \d+\.\d+)* (?:to|and) \d+\.\d+"
)
"""A number with a unit of time, speed, memory or a ratio; or several decimals."""
CELL = re.compile(r"^\|.*\| (\d+\.\d+) \|.*$", re.MULTILINE)
"""A row of a table with a number that is no integer."""
COMMAND = re.compile(
    r"`((?:python\s+(?:bench|docs)/|widen (?:reproduce (?!--list)|bench|units|plan|warm|demo)|"
    r"make |torchrun )[^`]*|\d{3}-[a-z][\w-]+)`"
)
"""What makes figures; `002-fig5` stands for `widen reproduce 002-fig5`."""
DRAWN = "python docs/site/pictures.py"
ROWS_OF = {
    "digits-and-speed": ("gpu", "cpu", "accuracy", "words", "words_gpu"),
    "gpu-speed": ("gpu",),
    "cpu-speed": ("cpu",),
    "errors": ("accuracy",),
    "words-speed": ("words", "words_gpu"),
    "hard-data": ("hard",),
    "stages": ("gpu",),
}
"""The benchmarks whose rows a picture shows."""
MATHEMATICS = "Proofs"
"""A heading below which numbers are not measured."""
ITEM = re.compile(r"^(\d{3}-[a-z][\w-]+):")
"""A heading of the papers' results, which is what `widen reproduce` calls the item."""


@dataclass(frozen=True)
class Section:
    """A part of a page below one heading; `above` is the chapter that it stands in."""

    page: str
    heading: str
    level: int
    text: str
    above: str = ""

    @property
    def figures(self) -> list[str]:
        """Measured figures in its sentences and tables; not what links are called."""
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", "", self.text)
        found = list(dict.fromkeys(MEASURED.findall(" ".join(plain.split()))))
        return found or [f"table with {x}" for x in CELL.findall(plain)[:1]]

    @property
    def parts(self) -> list[Section]:
        """Its paragraphs, tables and items of lists that have figures or pictures."""
        texts = re.split(r"\n\n+|\n(?=- |\d+\. )", self.text)
        parts = [replace(self, text=text) for text in texts]
        return [part for part in parts if part.figures or part.pictures]

    @property
    def commands(self) -> list[str]:
        """Commands that it names."""
        found = [*ITEM.findall(self.heading), *COMMAND.findall(self.text)]
        named = [" ".join(x.split()) for x in found]
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
    """Return README and all documents of the site, by name."""
    paths = [
        ROOT / "README.md",
        *sorted(stage.documents(), key=lambda x: stage.RESULTS in x.parents),
    ]
    return {
        str(path.relative_to(ROOT)).removeprefix("docs/"): path.read_text(encoding="utf-8")
        for path in paths
    }


def listed() -> list[tuple[Section, list[str]]]:
    """Return every section with measured figures or pictures, and the commands that make them."""
    found = []
    for page, text in pages().items():
        above: list[Section] = []
        for section in sections(page, text):
            above = [*(one for one in above if one.level < section.level), section]
            commands = next((one.commands for one in reversed(above) if one.commands), [])
            if any(one.heading == MATHEMATICS for one in above):
                continue
            if section.figures or section.pictures:
                made = [*commands, *(drawn_by(section) if section.pictures else [])]
                chapter = next((one.heading for one in above[:-1] if one.level > 1), "")
                found.append((replace(section, above=chapter), list(dict.fromkeys(made))))
    return found


def missing() -> list[str]:
    """Return places with measured figures for which no command is named."""
    return [f"{s.page}, {s.heading}: {s.figures}" for s, commands in listed() if not commands]


def faults() -> list[str]:
    """Return figures without a command, and figures that are not those of the rows."""
    return [*(f"no command: {place}" for place in missing()), *checked.wrong(pages())]


def drawn_by(part: Section) -> list[str]:
    """Return what draws the pictures of a part, and what measured their rows."""
    if part.pictures == ["pipeline"]:
        return ["python docs/pipeline.py"]
    names = [name.removesuffix("-wide") for name in part.pictures]
    measured = [f"python bench/{one}.py" for name in names for one in ROWS_OF[name]]
    return list(dict.fromkeys([*measured, DRAWN]))


def row_of(part: Section, commands: list[str]) -> str:
    """Return a line of the list; commands in the part itself say more than those of its section."""
    named = part.commands or [command for command in commands if command != DRAWN]
    if part.pictures:
        named = drawn_by(part)
    shown = [*part.figures, *(f"picture {name}" for name in part.pictures)]
    made = "<br>".join(f"`{command}`" for command in named)
    places = [part.above.partition(" (")[0], part.heading]
    heading = re.sub(r"[|`*]", "", ": ".join(filter(None, places)))
    return f"| {heading} | {', '.join(shown)} | {made} |\n".replace("~", "\\~")


def page() -> str:
    """Return the list as a page."""
    parts = [
        "# Every figure, and the command that makes it\n\nMade from the pages themselves: for "
        "every section with measured figures, what they are and which command makes them. Figures "
        "of a GPU are those of one NVIDIA H200 with CUDA 13.0, PyTorch 2.11 and Triton 3.6. Rows "
        "that the commands wrote are in `bench/results/`. When the site is built, "
        f"{len(checked.CHECKED)} sentences and rows of tables are made of these again, and the "
        "build fails if one of them is not on its page. (They also include what is counted: "
        "digits of formats, and products with a known SHA-256.) What examples print is not listed: "
        "they run when the site is built.\n"
    ]
    last = ""
    for section, commands in listed():
        if section.page != last:
            parts.append(
                f"\n## {section.page}\n\n| section | figures | made by |\n| --- | --- | --- |\n"
            )
            last = section.page
        parts += [row_of(part, commands) for part in section.parts]
    return "".join(parts)
