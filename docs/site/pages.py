"""Pages that are generated: reference, examples, gallery of the papers, list of figures."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from textwrap import dedent

import figures
import gallery
import pictures
import reference

ROOT = Path(__file__).parents[2]


def example_page(path: Path) -> str:
    """Return the page of one program: what it says of itself, its output, its code."""
    source = path.read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(source)) or ""
    head, remark, printed = re.split(r"^It prints(.*?):\n\n", told, flags=re.MULTILINE)
    title, _, text = head.partition("\n")
    code = source.split('"""\n', 1)[1].strip()
    return (
        f"# {title.rstrip('.')}\n\n{text.strip()}\n\n"
        f"## What it prints\n\n```text\n{dedent(printed)}\n```\n\n{remark.strip()}\n\n"
        f"## The program\n\n`examples/{path.name}`:\n\n"
        f"```py\n{code}\n```\n"
    )


def write(target: Path) -> None:
    """Write all generated pages, and the pictures they show, below a folder of pages."""
    made = {f"reference/{name}.rst": text for name, text in reference.pages().items()}
    for path in sorted((ROOT / "examples").glob("*.py")):
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
