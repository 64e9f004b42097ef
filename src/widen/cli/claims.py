"""claims.md, and the count of verdicts by paper: the same data as the page, for reading as text."""

from collections.abc import Iterator, Sequence
from typing import get_args

from widen.cli.records import Record
from widen.papers.items import Verdict

PAPERS = {
    "000": "Mukunoki, Ozaki, Ogita, Imamura 2020: DGEMM using Tensor Cores",
    "001": "Verschelde, Chen 2026: multiple double arithmetic on FP64 tensor cores",
    "002": "Uchino, Ozaki, Imamura 2025: the Ozaki scheme on integer matrix multiplication units",
    "003": "Triple-single arithmetic on consumer GPUs",
    "004": "Mukunoki 2025: DGEMM without FP64 arithmetic",
}

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
HEAD = ["paper", *VERDICTS, "beyond the paper"]
BEYOND = (
    "Beyond the paper: something that its authors leave for the future, done here; how many of our "
    "own sentences about it hold."
)


def by_paper(records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Return the papers that records are of, with their records."""
    for paper in PAPERS:
        own = [record for record in records if record["paper"] == paper]
        if own:
            yield paper, own


def tally(records: Sequence[Record]) -> list[list[str]]:
    """Return rows under `HEAD`: how many claims of every paper have which verdict, and the sum."""

    def row(name: str, own: Sequence[Record]) -> list[str]:
        claims = [claim for record in own for claim in record["claims"]]
        theirs = [claim["verdict"] for claim in claims if not claim["future"]]
        ours = [claim["verdict"] for claim in claims if claim["future"]]
        beyond = f"{ours.count('holds')} of {len(ours)}" if ours else "–"
        return [name, *(str(theirs.count(verdict)) for verdict in VERDICTS), beyond]

    return [*(row(paper, own) for paper, own in by_paper(records)), row("all", records)]


def markdown(records: Sequence[Record]) -> str:
    """Return claims.md: every claim of the records in a table of its item."""
    parts = [
        "# What the papers say, and what was measured",
        "Written by `widen reproduce` beside `index.html`, from the same data.",
        table([HEAD, *tally(records)]),
        BEYOND,
    ]
    for paper, own in by_paper(records):
        parts.append(f"## {paper} · {PAPERS[paper]}")
        for record in own:
            parts.append(f"### {record['id']}: {record['title']}")
            rows = [
                [claim["sentence"], claim["where"], claim["paper"], claim["ours"],
                 f"{claim['setup']}; {record['machine']}", verdict_words(claim)]
                for claim in record["claims"]
            ]  # fmt: skip
            head = ["claim", "where", "paper", "measured", "sizes, draws, machine", "verdict"]
            parts += [table([head, *rows])] if rows else []
            parts += [*record["remarks"], circumstances(record)]
    return "\n\n".join(parts) + "\n"


def verdict_words(claim: Record) -> str:
    """Return the verdict; of what is beyond the paper, that it is ours."""
    return ("ours: " if claim["future"] else "") + str(claim["verdict"])


def table(rows: Sequence[Sequence[str]]) -> str:
    r"""Return a Markdown table whose first row is its head.

    >>> print(table([["a", "b"], ["|x|", "2"]]))
    | a | b |
    | --- | --- |
    | \|x\| | 2 |
    """
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "| --- " * len(rows[0]) + "|", *lines[1:]])


def circumstances(record: Record) -> str:
    """Return the machine, the versions, the size, the date and how long it took."""
    versions = ", ".join(f"{name} {x}" for name, x in record["facts"].items() if name != "machine")
    return (
        f"{record['machine']}; {versions}; {record['size']} sizes, seed {record['seed']}; "
        f"{record['date']}, {record['seconds']:.1f} s; widen reproduce {record['id']}"
    )
