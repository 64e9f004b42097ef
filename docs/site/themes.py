"""Pictures in light and dark: two files of each, of which the switch of the page shows one.

A picture in docs/ follows the reader's system (`prefers-color-scheme`), as README.md needs it. The
site has a switch of its own, and a file cannot know it. So the site gets both versions, and the
classes `only-light` and `only-dark` of its theme choose (`BothThemes` in conf.py names both).
Nothing here needs Sphinx: the tests run without it.
"""

from __future__ import annotations

import re
from pathlib import Path

THEMES = ("light", "dark")
DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{((?:[^{}]*\{[^{}]*\})*\s*)\}")


def themed(picture: str, theme: str) -> str:
    """Return a picture that is light or dark whatever the system is.

    >>> drawn = "a { b } @media (prefers-color-scheme: dark) { a { c } }"
    >>> themed(drawn, "light"), themed(drawn, "dark")
    ('a { b } ', 'a { b }  a { c } ')
    """
    return DARK.sub("" if theme == "light" else r"\1", picture)


def write(folder: Path) -> None:
    """Write both versions of every picture in a folder of pages, in place of the picture."""
    for path in sorted(folder.rglob("*.svg")):
        drawn = path.read_text(encoding="utf-8")
        for theme in THEMES:
            path.with_stem(f"{path.stem}-{theme}").write_text(themed(drawn, theme), "utf-8")
        path.unlink()
