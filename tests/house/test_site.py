"""What the site is made of: pictures, figures, reference, links; `make docs` builds all of it."""

import doctest
import html
import inspect
import re
from itertools import pairwise

import pytest

import checked
import examples
import figures
import gallery
import links
import pictures
import programs
import reference
import stage
import themes
import widen
from helpers import ROOT


def test_docstrings_of_the_scripts():
    for module in (checked, examples, figures, gallery, programs, reference, stage, themes):
        assert doctest.testmod(module).failed == 0
        assert doctest.testmod(module).attempted > 0


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_pictures_are_those_of_the_rows(name):
    drawn = pictures.PICTURES[name]()
    assert drawn == (ROOT / "docs" / "pictures" / f"{name}.svg").read_text(encoding="utf-8"), (
        "draw it again: python docs/site/pictures.py"
    )
    assert "nan" not in drawn


def test_every_figure_has_a_command():
    assert len(figures.listed()) > 15
    assert figures.missing() == []


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("It takes 12 ms.", "12 ms"),
        ("It is two times as fast.", "two times as"),
        ("0.5 to 0.7 of a second, 20 % less", "0.5 to 0.7', '20 %"),
        ('With `"fast"` it has 1.33 to 1.92.', "1.33 to 1.92"),
        ("It takes 12\ntimes as long.", "12 times as"),
        ("| a | b |\n| --- | --- |\n| x | 0.71 |", "table with 0.71"),
    ],
)
def test_a_figure_without_a_command_is_found(monkeypatch, text, figure):
    """The build fails then."""
    page = f"# P\n\n## Q\n\n{text}\n"
    monkeypatch.setattr(figures, "pages", lambda: {"p.md": page})
    monkeypatch.setattr(checked, "CHECKED", [])
    assert figures.faults() == [f"no command: p.md, Q: ['{figure}']"]
    named = page + "\n(`python bench/cpu.py`)\n"
    monkeypatch.setattr(figures, "pages", lambda: {"p.md": named})
    assert figures.faults() == []


def test_every_picture_says_what_measured_it():
    assert set(figures.ROWS_OF) == {name.removesuffix("-wide") for name in pictures.PICTURES}
    named = {name for names in figures.ROWS_OF.values() for name in names}
    assert all((ROOT / "bench" / f"{name}.py").is_file() for name in named)


def test_figures_are_those_of_the_rows():
    assert checked.wrong(figures.pages()) == []


def test_another_digit_is_found():
    """In each text that is made of rows, on each of its pages."""
    shown = {page: " ".join(text.split()) for page, text in figures.pages().items()}
    for check in checked.CHECKED:
        made = " ".join(check.made().split())
        at = [found.start() for found in re.finditer(r"\d", made)][-1]
        other = made[:at] + str((int(made[at]) + 1) % 10) + made[at + 1 :]
        for page in check.pages:
            changed = shown | {page: shown[page].replace(made, other)}
            assert checked.wrong(changed, [check]) == [f"{page}: {made!r} is not there"]


def test_tables_of_speed_are_checked():
    """Every row of a table on the page of speeds is made of rows, or in a section named here."""
    by_hand = {
        "Numbers of several words on a CPU": 10,  # plans, not times
        "Gradients": 2,  # no rows are kept
        "The units of an H200": 2,
    }
    made = {" ".join(check.made().split()) for check in checked.CHECKED}
    for section in figures.sections("performance.md", figures.pages()["performance.md"]):
        lines = re.findall(r"^\|.*\|$", section.text, re.MULTILINE)
        heads = {x for x, y in pairwise(lines) if y.startswith("| --- ")}
        rows = [x for x in lines if x not in heads and not x.startswith("| --- ")]
        other = [x for x in rows if " ".join(x.split()) not in made]
        assert len(other) == by_hand.get(section.heading, 0), other


def test_pictures_have_both_themes(tmp_path):
    for path in [*ROOT.glob("docs/*.svg"), *ROOT.glob("docs/pictures/*.svg")]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    themes.write(tmp_path)
    made = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert len(made) == 2 * (len(pictures.PICTURES) + 1)
    for name, drawn in made.items():
        assert "prefers-color-scheme" not in drawn
        assert drawn != made[name.replace("-light", "-dark")] or "-dark" in name
        assert drawn.count("{") == drawn.count("}")


def test_letters_of_pictures_do_not_leave_them():
    """By letters that are 0.6 of their height wide, as those of wide typefaces are on average."""
    letters = re.compile(r'<text x="([^"]+)" y="[^"]+" text-anchor="(\w+)"([^>]*)>([^<]+)<')
    for name, drawn in pictures.PICTURES.items():
        made = drawn()
        right = float(re.search(r'viewBox="0 0 (\S+)', made)[1])
        lines = letters.findall(made)
        assert len(lines) > 5
        for x, anchor, kind, text in lines:
            width = 0.6 * (13.5 if "faint" in kind else 15) * len(html.unescape(text))
            begin = float(x) - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
            assert begin >= 0, (name, text)
            assert begin + width <= right, (name, text)


def test_claims_of_the_gallery_are_all_there():
    page, drawn = gallery.page()
    claims = (gallery.FOLDER / "claims.md").read_text(encoding="utf-8")
    held = len(re.findall(r"\| (?:ours: )?holds \|$", claims, re.MULTILINE))
    assert page.count("- ✓") == held > 50
    assert set(drawn) == set(gallery.DRAWN)


def test_versions_agree():
    version = widen.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"Version {version}," in (ROOT / "docs" / "cite.md").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == version


def test_papers_to_cite_are_those_of_the_file():
    """CITATION.cff and the page name the same papers, in one order."""
    told = (ROOT / "CITATION.cff").read_text(encoding="utf-8").partition("references:")[2]
    page = (ROOT / "docs" / "cite.md").read_text(encoding="utf-8").partition("## The method")[2]
    titles = re.findall(r'^    title: "(.*)"$', told, re.MULTILINE)
    assert [" ".join(x.split()) for x in re.findall(r"\*(.*?)\.\*", page, re.DOTALL)] == titles
    years = re.findall(r"^    year: (\d+)$", told, re.MULTILINE)
    assert re.findall(r" (\d{4})\.$", page, re.MULTILINE) == years


# ── the reference ────────────────────────────────────────────────────────────


def test_the_reference_has_every_public_name():
    text = "\n".join(reference.pages().values())
    names = [f"widen.{name}" for name in widen.__all__]
    names += [f"widen.linalg.{name}" for name in widen.linalg.__all__]
    for name in names:
        assert re.search(rf"(::|`) ?{re.escape(name)}\b", text), name


def mistaken_docstrings(things):
    """Names whose docstrings napoleon reads as something else.

    It takes what stands before a colon, in the first line of a property, for a type; and a line
    of several attributes for one name with a type.
    """
    for name, thing in things.items():
        text = inspect.getdoc(thing) or ""
        first = re.sub(r"`+[^`]*`+", "", text.partition("\n")[0])
        if isinstance(thing, property) and re.search(r":(\s|$)", first):
            yield name
        attributes = re.search(r"^Attributes\n-+\n(.*?)(?=\n\n\w+\n---|\Z)", text, re.DOTALL | re.M)
        if attributes and re.search(r"^\w+(, \w+)+$", attributes[1], re.MULTILINE):
            yield name


def test_docstrings_are_read_as_they_are_meant():
    assert list(mistaken_docstrings(reference.documented())) == []


def test_mistaken_docstrings_are_found():
    class Two:
        """Two numbers.

        Attributes
        ----------
        left, right
            Both of them.
        """

        @property
        def total(self):
            """Both together: a sum."""

    assert list(mistaken_docstrings({"Two": Two, "total": Two.total})) == ["Two", "total"]


def test_every_page_is_in_a_table_of_contents():
    """Else nobody finds it, and Sphinx refuses it."""
    text = "".join(path.read_text(encoding="utf-8") for path in stage.documents())
    trees = "\n".join(re.findall(r"```{toctree}(.*?)```", text, re.DOTALL))
    named = set(re.findall(r"^[\w/.*-]+$", trees, re.MULTILINE))
    for path in stage.documents():
        place = str(stage.place_of(path).with_suffix(""))
        globbed = place.startswith("results/") and "results/*" in named
        assert place in named | {"index"} or globbed, f"name {place} in a toctree of docs/index.md"


# ── links ────────────────────────────────────────────────────────────────────


def test_links_lead_to_pages(tmp_path):
    page = stage.staged_text(ROOT / "docs" / "performance.md", tmp_path)
    assert "](results/words-h200.md)" in page
    assert "../" not in "".join(re.findall(r"\]\((\S+)\)", page))


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a id="x" href="b.html#y">b</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#x">a</a><img src="https://far.away/p.png">')
    found = links.broken(tmp_path)
    assert len(found) == 3
    assert "no such place" in found[0]
    assert "leads nowhere" in found[1]
    assert "from the network" in found[2]
