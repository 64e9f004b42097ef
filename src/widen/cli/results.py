"""Rows of a benchmark: as lines of a file, as lines of text, as a table."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from widen.cli.errors import CommandError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Row = dict[str, Any]

STAGES = {
    "quantise": "quan-\ntise",
    "encode": "en-\ncode",
    "multiply": "multi-\nply",
    "certify": "cer-\ntify",
    "reconstruct": "recon-\nstruct",
    "repair": "re-\npair",
}


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written in the end, before anything is measured."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory: name a file in it")
    if not path.parent.is_dir():
        raise CommandError(f"{path.parent} is not a directory: mkdir -p {path.parent}")


def stamped(row: Row, facts: dict[str, str], elapsed: float) -> Row:
    """Return a row with its date, its machine and the seconds since the run began.

    The last row of a run thus says how long all of it took: GPUs slow down in long runs.
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return {"date": date, **facts, **row, "elapsed_s": elapsed}


def append(path: Path, row: Row) -> None:
    """Add a row to a file of JSON lines."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; name another file") from error


def size(row: Row) -> str:
    """Return the shape of a product as people write it.

    >>> size({"m": 8, "k": 8, "n": 8, "batch": 1}), size({"m": 8, "k": 9, "n": 7, "batch": 5})
    ('8³', '8×9×7 ×5')
    """
    m, k, n = row["m"], row["k"], row["n"]
    matrix = f"{m}³" if m == k == n else f"{m}×{k}×{n}"
    return matrix if row["batch"] == 1 else f"{matrix} ×{row['batch']}"


def title(row: Row) -> str:
    """Return format and contract; a star says that B was encoded before."""
    unit = "" if row["unit"] is None else f" {row['unit']}"
    return f"{row['dtype']} {row['accuracy']}{'*' * row['encoded']}{unit}"


def short(value: float | None) -> str:
    """Return a number in three digits or so.

    >>> [short(x) for x in (0.01234, 1.234, 123.4, 12345.0, 0.0, 1.2e-7, None)]
    ['0.012', '1.23', '123', '12345', '0', '1e-07', '–']
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) < 0.001:
        return f"{value:.0e}"
    if abs(value) < 0.1:
        return f"{value:.3f}"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def line(row: Row) -> str:
    """Return a row as one line of text."""
    flag = "" if row.get("within_bound", True) else "  ERROR ABOVE ITS BOUND"
    return (
        f"{size(row):>18}  {title(row):24} native {short(row['native_ms']):>6} ms, "
        f"widen {short(row['widen_ms']):>6} ms, {short(row['tflops']):>5} TFLOP/s, "
        f"{short(row['ratio_to_native'])} x native, {short(row.get('multiply_tops'))} TOP/s{flag}"
    )


def table(rows: Sequence[Row], facts: dict[str, str], library: str) -> "Table":
    """Return the table of all rows; it fits 120 columns."""
    from rich import box
    from rich.table import Table

    first = rows[0]
    phis = ", ".join(f"{phi:g}" for phi in sorted({row["phi"] for row in rows}))
    made = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 0),
        title=f"{facts['machine']}: medians of {first['repeats']}, phi = {phis}",
        caption=caption(rows, library),
    )
    made.add_column("m×k×n", no_wrap=True)
    made.add_column("format, contract")
    heads = [f"{library}\nms", "widen\nms", *STAGES.values(), "TFLOP\n/s", f"×\n{library}"]
    heads += ["TOP/s", "bound\nu", "error\nu"]
    for head in heads:
        made.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(size(row), title(row), *cells(row))
    return made


def cells(row: Row) -> Iterable[str]:
    """Return the numbers of a row."""
    stages = row.get("stages_ms", {})
    yield short(row["native_ms"])
    yield short(row["widen_ms"])
    yield from (short(stages.get(name)) for name in STAGES)
    yield short(row["tflops"])
    yield short(row["ratio_to_native"])
    yield short(row.get("multiply_tops"))
    yield short(row.get("bound_u"))
    error = short(row["error_u"])
    yield error if row.get("within_bound", True) else f"[bold red]{error}![/bold red]"


def caption(rows: Sequence[Row], library: str) -> str:
    """Return the words that explain the table, and say so if a bound does not hold."""
    words = [
        f"× {library}: speed of a @ b in the same run is 1; stages in ms, of one call; TOP/s: of "
        "multiply alone; bound and error: certified and measured, largest of a sample, in u|A||B|"
    ]
    if any(row["encoded"] for row in rows):
        words.append("*: B encoded before")
    if not all(row.get("within_bound", True) for row in rows):
        words.append("[bold red]!: above its certified bound[/bold red]")
    return "; ".join(words)


def screen(least: int) -> "Console":
    """Return a console of `least` columns or more.

    A narrow terminal wraps lines, where rich would drop columns and cut numbers off.
    """
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, least)
    return console


def show(what: object) -> None:
    """Print a table of rows."""
    screen(120).print(what)
