"""What is reproduced: an item is one table or figure of a paper; running it gives an outcome.

Plain data, drawn and written by the command line. A paper's items are the list ``ITEMS`` of its
``papers/<name>/items.py``; a new paper is one new folder and one line in `all_items`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, Protocol, TypeVar

Cell = str | int | float | bool | None
"""What a table holds; None is shown as a dash."""

Choice = TypeVar("Choice")


class Machine(Protocol):
    """Where an item runs: random matrices and a clock (`cli.machines`)."""

    def generator(self, seed: int) -> Any:
        """Return a generator of random numbers."""

    def random(self, generator: Any, shape: tuple[int, ...], dtype: str, phi: float) -> Any:
        """Return (rand - 0.5) exp(phi randn)."""

    def seconds(self, function: Callable[[], object]) -> float:
        """Return the time one call takes."""

    def fetch(self, values: Any) -> Any:
        """Return values as a NumPy array."""

    def free(self) -> None:
        """Give back memory."""


@dataclass(frozen=True)
class Setting:
    """How an item is to be run.

    Attributes
    ----------
    machine
        Makes matrices on the device and times calls there.
    device
        "cpu", "cuda" or "cuda:1".
    full
        The paper's sizes instead of those that take a minute on two cores.
    quick
        The smallest sizes that still draw the figure: for tests of the page.
    seed
        Of random numbers.
    progress
        To be called with the share done, 0 to 1.
    """

    machine: Machine
    device: str = "cpu"
    full: bool = False
    quick: bool = False
    seed: int = 1
    progress: Callable[[float], None] = lambda done: None

    @property
    def gpu(self) -> bool:
        """Whether times are those of a GPU."""
        return self.device != "cpu"

    def choose(self, default: Choice, *, full: Choice, quick: Choice) -> Choice:
        """Return one of three sizes."""
        return full if self.full else quick if self.quick else default

    def random(
        self, shape: tuple[int, ...], phi: float, stream: int, dtype: str = "float64"
    ) -> Any:
        """Return (rand - 0.5) exp(phi randn) on the device; another stream, other numbers."""
        generator = self.machine.generator(1000 * self.seed + stream)
        return self.machine.random(generator, shape, dtype, phi)

    def seconds(
        self, function: Callable[[], object], repeats: int = 10, warm_ups: int = 3
    ) -> float:
        """Return the median time of some calls after some that are not counted."""
        for _ in range(warm_ups):
            function()
        return median(self.machine.seconds(function) for _ in range(repeats))


Verdict = Literal["holds", "does not hold", "not decided here"]


def verdict_of(holds: bool | None) -> Verdict:
    """Return the verdict on a claim; None where this run cannot tell (a GPU's speed on a CPU).

    >>> [verdict_of(holds) for holds in (True, False, None)]
    ['holds', 'does not hold', 'not decided here']
    """
    if holds is None:
        return "not decided here"
    return "holds" if holds else "does not hold"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper beside what was measured, and whether it holds.

    Attributes
    ----------
    sentence
        What the paper says, in our words.
    where
        Its place there, as "section 4.1, figure 5".
    paper
        The paper's figures for it.
    ours
        What was measured.
    setup
        Sizes and number of draws, as "n = 256, 25 draws"; the record adds the machine.
    verdict
        From a rule that data can contradict.
    future
        Something that the authors leave for the future, done here; it confirms no sentence of
        theirs.
    """

    sentence: str
    where: str
    paper: str
    ours: str
    setup: str
    verdict: Verdict
    future: bool = False


@dataclass(frozen=True)
class Series:
    """One line, set of points or set of bars.

    ``marks`` are short texts written at the points. Of one panel's series, "bars" stand side by
    side and those of "stack" on top of each other; they share their x, which are names. Series of
    one ``colour`` belong together; without, each has its own, and dashed ones are black.
    """

    label: str
    x: Sequence[float | str]
    y: Sequence[float | None]
    style: Literal["line", "dashed", "points", "bars", "stack"] = "line"
    marks: Sequence[str] = ()
    colour: int | None = None


def lines(
    names: Sequence[str], rows: Sequence[Sequence[Any]], first: Literal["line", "dashed"] = "line"
) -> list[Series]:
    """Return a line for each named column of a table, whose first column is x.

    >>> [series.y for series in lines(["p", "q"], [[1, 10, 100], [2, 20, 200]], "dashed")]
    [[10, 20], [100, 200]]
    """
    x = [row[0] for row in rows]
    return [
        Series(name, x, [row[at + 1] for row in rows], "line" if at else first)
        for at, name in enumerate(names)
    ]


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series; labels name the units."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False  # base 2, a tick at every x
    log_x10: bool = False
    log_y: bool = False
    y_range: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class Figure:
    """Panels side by side, ``columns`` of them in a row."""

    panels: Sequence[Panel]
    columns: int = 2


@dataclass(frozen=True)
class Outcome:
    """What running an item gave."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    claims: Sequence[Claim] = ()
    figure: Figure | None = None
    remarks: Sequence[str] = ()
    """What a reader must know: sizes, what differs from the paper's experiment."""


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper.

    Attributes
    ----------
    id
        Paper and place in it, as "002-fig5".
    paper
        Its number, as "002".
    title
        What is shown.
    claim
        What the paper says about it, in a sentence.
    run
        Computes it.
    """

    id: str
    paper: str
    title: str
    claim: str
    run: Callable[[Setting], Outcome] = field(compare=False)


def all_items() -> dict[str, Item]:
    """Return every paper's items by their names, in the order of the papers.

    >>> [name for name in all_items() if name.startswith("002")][0]
    '002-table1'
    """
    import widen.papers.dgemm_fp8.items as paper_004
    import widen.papers.multiple_double.items as paper_001
    import widen.papers.ozimmu.items as paper_002
    import widen.papers.ozimmu.speed_items as paper_002_speed
    import widen.papers.tensor_core_dgemm.future_items as paper_000_future
    import widen.papers.tensor_core_dgemm.items as paper_000
    import widen.papers.tensor_core_dgemm.speed_items as paper_000_speed
    import widen.papers.triple_single.items as paper_003

    papers = (
        paper_000, paper_000_speed, paper_000_future, paper_001, paper_002, paper_002_speed,
        paper_003, paper_004,
    )  # fmt: skip
    return {item.id: item for paper in papers for item in paper.ITEMS}
