"""`make docs`: pages put together, their examples run, the site built in build/site and checked."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

import examples
import figures
import links
import pages
import programs
import reference
import stage
import themes

ROOT = Path(__file__).parents[2]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"


def example_failures() -> list[str]:
    """Run every example that the site shows; return what went wrong."""
    wrong = [*reference.failures(), *programs.failures()]
    for path in [ROOT / "README.md", *stage.documents()]:
        name = str(path.relative_to(ROOT))
        wrong += examples.failures(path.read_text(encoding="utf-8"), name)
    return wrong


def main() -> int:
    """Build the site; return 0 if nothing is wrong with it."""
    started = time.perf_counter()
    stage.stage(SOURCE)
    pages.write(SOURCE)
    themes.write(SOURCE)
    print(f"{time.perf_counter() - started:.0f} s: pages are put together; now their examples")
    wrong = [*example_failures(), *figures.faults()]
    print(f"{time.perf_counter() - started:.0f} s: examples have run, {len(wrong)} failed")
    arguments = ["-b", "html", "-c", str(Path(__file__).parent), "-W", "--keep-going", "-q", "-E"]
    failed = build_main([*arguments, "-d", str(SITE.parent / "site-cache"), str(SOURCE), str(SITE)])
    broken = [] if failed else links.broken(SITE)
    for line in [*wrong, *broken]:
        print(line, file=sys.stderr)
    print(f"{time.perf_counter() - started:.0f} s: {SITE}/index.html")
    return 1 if wrong or failed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
