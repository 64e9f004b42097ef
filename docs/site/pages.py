"""Pages that are generated: reference, examples, gallery of the papers, list of figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import figures
import gallery
import pictures
import programs
import reference


def example_page(path: Path) -> str:
    """Return the page of one program: what it says of itself, its output, its code."""
    head, remark, printed = programs.told(path)
    title, _, text = head.partition("\n")
    code = path.read_text(encoding="utf-8").split('"""\n', 1)[1].strip()
    return (
        f"# {title.rstrip('.')}\n\n{text.strip()}\n\n"
        f"## What it prints\n\n```text\n{printed}\n```\n\n{remark}\n\n"
        f"## The program\n\n`examples/{path.name}`:\n\n"
        f"```py\n{code}\n```\n"
    )


def write(target: Path) -> None:
    """Write all generated pages, and the pictures they show, below a folder of pages."""
    made = {f"reference/{name}.rst": text for name, text in reference.pages().items()}
    for path in programs.PROGRAMS:
        made[f"examples/{path.stem}.md"] = example_page(path)
    made["gallery.md"], drawn = gallery.page()
    made |= {f"pictures/papers/{name}.svg": text for name, text in drawn.items()}
    made |= {f"pictures/{name}.svg": draw() for name, draw in pictures.PICTURES.items()}
    made["figures.md"] = figures.page()
    for name, text in made.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    tables = target / "files" / "bench" / "results" / "papers-h200"
    tables.mkdir(parents=True, exist_ok=True)
    for path in gallery.FOLDER.glob("*.csv"):
        shutil.copyfile(path, tables / path.name)
