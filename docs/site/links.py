"""Links of the built site: each leads to a file and an anchor, and none is fetched."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Names(HTMLParser):
    """What a page links to or loads, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's links and its id."""
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag in ("img", "script") and given.get("src"):
            self.loads.append(given["src"] or "")
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given.get("href") or "")


@cache
def names_of(page: Path) -> Names:
    """Return what a page holds."""
    found = Names()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def broken(site: Path) -> list[str]:
    """Return links of all pages that lead nowhere, and what a reader's browser would fetch."""
    wrong = []
    for page in sorted(site.rglob("*.html")):
        found = names_of(page)
        for link in [*found.links, *found.loads]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or link.startswith("//"):
                if link in found.loads:
                    wrong.append(f"{page.relative_to(site)}: {link} is loaded from the network")
                continue
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            if not target.is_file():
                wrong.append(f"{page.relative_to(site)}: {link} leads nowhere")
            elif anchor and target.suffix == ".html" and anchor not in names_of(target).anchors:
                wrong.append(f"{page.relative_to(site)}: {link}: no such place")
    return wrong
