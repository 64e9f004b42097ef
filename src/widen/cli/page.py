"""index.html: every item of a folder on one page that needs no other file."""

from collections.abc import Sequence
from html import escape

from widen.cli.claims import BEYOND, HEAD, PAPERS, by_paper, circumstances, tally, verdict_words
from widen.cli.records import Record

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #c62828; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem;
  border-bottom: 1px solid var(--line); } h3 { font-size: 1.05rem; margin-top: 2rem; }
.figure { display: grid; gap: .5rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
img { display: block; width: 100%; max-width: 34rem; height: auto; background: white; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .6rem; text-align: right;
  overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
dl { margin: 1rem 0; } dt { font-weight: 600; margin-top: .6rem; } dd { margin-left: 1rem; }
.holds { color: var(--good); } .fails { color: var(--bad); } .open { opacity: .7; }
small, .facts { opacity: .75; font-size: .85rem; }
nav a { display: inline-block; margin-right: .8rem; }
"""

STYLES = {"holds": "holds", "does not hold": "fails", "not decided here": "open"}


def page(records: Sequence[Record]) -> str:
    """Return the page of some items."""
    sections = [section(paper, own) for paper, own in by_paper(records)]
    links = "".join(f'<a href="#{r["id"]}">{r["id"]}</a> ' for r in records)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>widen: the papers, reproduced</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>The papers, reproduced</h1>\n{summary(records)}\n<nav>{links}</nav>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def summary(records: Sequence[Record]) -> str:
    """Return how many claims of every paper hold, do not, and cannot be decided here."""
    return f'<div id="verdicts">{cells(HEAD, tally(records))}<small>{escape(BEYOND)}</small></div>'


def section(paper: str, records: Sequence[Record]) -> str:
    """Return one paper's part of the page."""
    items = "\n".join(map(article, records))
    return f"<h2>{paper} · {escape(PAPERS[paper])}</h2>\n{items}"


def article(record: Record) -> str:
    """Return one item: what the paper says, claim by claim, the figure, the numbers."""
    name = record["id"]
    parts = [f'<article id="{name}">', f"<h3>{name} · {escape(record['title'])}</h3>"]
    parts.append(f"<p>{escape(record['claim'])}</p>")
    if record["claims"]:
        lines = (claim_lines(claim, record["machine"]) for claim in record["claims"])
        parts.append("<dl>" + "".join(lines) + "</dl>")
    if record["pictures"]:
        parts.append('<div class="figure">' + "".join(map(image, record["pictures"])) + "</div>")
    parts += [f"<p>{escape(remark)}</p>" for remark in record["remarks"]]
    parts.append(table(record))
    parts.append(f'<p class="facts">{escape(circumstances(record))}</p>')
    return "\n".join([*parts, "</article>"])


def image(picture: Record) -> str:
    """Return one panel of a figure."""
    label = escape(picture["title"], quote=True)
    return f'<img alt="{label}" src="data:image/png;base64,{picture["png"]}">'


def claim_lines(claim: Record, machine: str) -> str:
    """Return a claim, its place in the paper, the paper's number, ours, and the verdict."""
    style = STYLES[claim["verdict"]]
    return (
        f"<dt>{escape(claim['sentence'])}</dt><dd><small>{escape(claim['where'])}</small><br>"
        f"paper: {escape(claim['paper'])}<br>here: {escape(claim['ours'])} "
        f'<span class="{style}">— {escape(verdict_words(claim))}</span><br>'
        f"<small>{escape(claim['setup'])}; {escape(machine)}</small></dd>"
    )


def table(record: Record) -> str:
    """Return the numbers; a long table is folded away."""
    made = f'<div class="wide">{cells(record["columns"], record["rows"])}</div>'
    if len(record["rows"]) <= 16:
        return made
    return f"<details><summary>{len(record['rows'])} rows</summary>{made}</details>"


def cells(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts."""
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    rest = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{first}</tr>{rest}</table>"
