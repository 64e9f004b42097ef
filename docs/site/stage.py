"""Pages of the site put together in one folder: docs/, other documents, and what is generated.

Links of a document lead to files of the repository; here they are turned into links to the page
that the file becomes, or to a copy of the file.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "bench" / "results"
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")

OTHERS = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
"""Documents beside README.md that are pages too."""


def documents() -> list[Path]:
    """Return every file of the repository that becomes a page."""
    own = [path for path in DOCS.rglob("*.md") if "site" not in path.relative_to(DOCS).parts]
    return sorted([*own, *(ROOT / name for name in OTHERS), *RESULTS.rglob("*.md")])


def place_of(path: Path) -> Path:
    """Return where a file of the repository is in the folder of pages.

    >>> place_of(ROOT / "docs" / "method.md"), place_of(ROOT / "bench" / "results" / "house.md")
    (PosixPath('method.md'), PosixPath('results/house.md'))
    """
    if path == ROOT / "README.md":
        return Path("index.md")
    if path.parent == ROOT and path.name in OTHERS:
        return Path(OTHERS[path.name])
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS)
    if path.parent == ROOT / "examples" and path.suffix == ".py":
        return Path("examples") / f"{path.stem}.md"  # pages.py makes it
    if path.is_relative_to(RESULTS) and path.suffix == ".md":
        return "results" / path.relative_to(RESULTS)
    return "files" / path.relative_to(ROOT)


def staged_text(path: Path, target: Path) -> str:
    """Return a page with its links turned; files that it links to are copied to `target`."""
    here = place_of(path).parent

    def turned(found: re.Match[str]) -> str:
        linked = (path.parent / found[1]).resolve()
        if not linked.is_relative_to(ROOT) or not linked.is_file():
            return found[1]  # a page that is generated, or an error that Sphinx reports
        place = place_of(linked)
        if place.parts[0] == "files":
            copied = target / place
            if copied.suffix == ".md":
                copied, place = copied.with_suffix(".txt"), place.with_suffix(".txt")
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(linked, copied)
        return os.path.relpath(place, here)

    return LINK.sub(turned, path.read_text(encoding="utf-8"))


def stage(target: Path) -> None:
    """Put all documents, and the pictures that docs/ has, in a new folder."""
    shutil.rmtree(target, ignore_errors=True)
    for path in documents():
        place = target / place_of(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(staged_text(path, target), encoding="utf-8")
    for path in [*DOCS.glob("*.svg"), *DOCS.glob("pictures/*.svg")]:
        place = target / path.relative_to(DOCS)
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, place)
