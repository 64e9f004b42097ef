"""index.html: every item of a folder on one page that needs no other file."""

from collections.abc import Sequence
from html import escape

from widen.cli.records import Record

PAPERS = {
    "000": "Mukunoki, Ozaki, Ogita, Imamura 2020: DGEMM using Tensor Cores",
    "001": "Verschelde, Chen 2026: multiple double arithmetic on FP64 tensor cores",
    "002": "Uchino, Ozaki, Imamura 2025: the Ozaki scheme on integer matrix multiplication units",
    "003": "Triple-single arithmetic on consumer GPUs",
    "004": "Mukunoki 2025: DGEMM without FP64 arithmetic",
}

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
    papers = {paper: [r for r in records if r["paper"] == paper] for paper in PAPERS}
    sections = [section(paper, own) for paper, own in papers.items() if own]
    links = "".join(f'<a href="#{r["id"]}">{r["id"]}</a> ' for r in records)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>widen: the papers, reproduced</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>The papers, reproduced</h1>\n<p>{summary(records)}</p>\n<nav>{links}</nav>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def summary(records: Sequence[Record]) -> str:
    """Return how many claims hold, do not, and cannot be decided here."""
    verdicts = [claim["verdict"] for record in records for claim in record["claims"]]
    words = {
        "holds": "hold", "does not hold": "do not hold", "not decided here": "are not decided here",
    }  # fmt: skip
    counts = ", ".join(f"{verdicts.count(one)} {word}" for one, word in words.items())
    return f"{len(records)} tables and figures, {len(verdicts)} claims: {counts}."


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
        parts.append("<dl>" + "".join(map(claim_lines, record["claims"])) + "</dl>")
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


def claim_lines(claim: Record) -> str:
    """Return a claim, the paper's number, ours, and the verdict."""
    style = STYLES[claim["verdict"]]
    return (
        f"<dt>{escape(claim['sentence'])}</dt><dd>paper: {escape(claim['paper'])}<br>"
        f"here: {escape(claim['ours'])} "
        f'<span class="{style}">— {claim["verdict"]}</span></dd>'
    )


def table(record: Record) -> str:
    """Return the numbers; a long table is folded away."""
    head = "".join(f"<th>{escape(name)}</th>" for name in record["columns"])
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in record["rows"]
    )
    made = f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'
    if len(record["rows"]) <= 16:
        return made
    return f"<details><summary>{len(record['rows'])} rows</summary>{made}</details>"


def circumstances(record: Record) -> str:
    """Return the machine, the versions, the size, the date and how long it took."""
    facts = dict(record["facts"])
    versions = ", ".join(f"{name} {value}" for name, value in facts.items() if name != "machine")
    return (
        f"{facts.get('machine', '')}; {versions}; {record['device']}, {record['size']} sizes, "
        f"seed {record['seed']}; {record['date']}, {record['seconds']:.1f} s; "
        f"widen reproduce {record['id']}"
    )
