"""What an item left in the folder: a table, a picture and a record that the page is made from."""

import base64
import csv
import io
import json
import math
import os
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from widen.cli.errors import CommandError
from widen.cli.figures import png
from widen.papers.items import Cell, Claim, Figure, Item, Outcome, Setting, all_items

Record = dict[str, Any]
CLAIM = {field.name for field in fields(Claim)}


def shown(cell: Cell) -> str:
    """Return a cell as table and page show it.

    >>> [shown(x) for x in (3, 0.12345678, 56894.2, 1.5e-17, None, True, "a", float("nan"))]
    ['3', '0.123', '56900', '1.5e-17', '–', 'yes', 'a', '–']
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{float(f'{cell:.3g}'):g}" if isinstance(cell, float) else str(cell)


def record_of(
    item: Item, outcome: Outcome, setting: Setting, facts: dict[str, str], seconds: float
) -> Record:
    """Return all that the page shows of an item, a picture for every panel."""
    panels = [] if outcome.figure is None else outcome.figure.panels
    machine = facts["machine"] if setting.gpu else f"CPU, {facts['machine']}"
    return {
        "id": item.id,
        "paper": item.paper,
        "title": item.title,
        "claim": item.claim,
        "columns": list(outcome.columns),
        "rows": [[shown(cell) for cell in row] for row in outcome.rows],
        "claims": [asdict(claim) for claim in outcome.claims],
        "remarks": list(outcome.remarks),
        "pictures": [
            {"title": panel.title, "png": base64.b64encode(png(Figure([panel]), machine)).decode()}
            for panel in panels
        ],
        "facts": facts,
        "machine": machine,
        "size": setting.choose("default", full="full", quick="quick"),
        "seed": setting.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": seconds,
    }


def save(folder: Path, record: Record, outcome: Outcome) -> list[Path]:
    """Write an item's files, each whole or not at all; return their names."""
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([record["columns"], *record["rows"]])
    stem = folder / record["id"]
    files = {stem.with_suffix(".csv"): table.getvalue().encode()}
    if outcome.figure is not None:
        files[stem.with_suffix(".png")] = png(outcome.figure, record["machine"])
    files[stem.with_suffix(".json")] = (json.dumps(record, indent=1) + "\n").encode()
    for path, content in files.items():
        write(path, content)
    return list(files)


def load(folder: Path) -> list[Record]:
    """Return the records of all items that a folder holds, in the order of `--list`."""
    paths = (folder / f"{name}.json" for name in all_items())
    return [read(path) for path in paths if path.exists()]


def read(path: Path) -> Record:
    """Return one record."""
    try:
        record: Record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} is damaged ({error}): remove it") from error
    if any(set(claim) != CLAIM for claim in record["claims"]):
        raise CommandError(f"{path} is of another version of widen: remove it, or make it anew")
    return record


def write(path: Path, content: bytes) -> None:
    """Put a file in its place at once."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}; name another folder") from error
