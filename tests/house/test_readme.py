"""What the README shows runs as it stands, and what documents point at is there."""

import ast
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import examples
from helpers import ROOT

PACKAGE = ROOT / "src" / "widen"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_examples_run():
    """Those of other pages run when the site is built."""
    assert examples.failures(README, "README.md") == []
    (block,) = [block for block in examples.blocks(README) if block.language == "python"]
    assert len(block.text.splitlines()) <= 10


def test_it_is_short():
    """Two screens: `make test-page` measures that in a browser, this when there is none."""
    lines = README.splitlines()
    assert len(lines) <= 72
    assert max(map(len, lines)) <= 150


def test_an_example_that_fails_is_found():
    page = "# A page\n\n```python\nprint(6 * 7)\n```\n\n```output\n{}\n```\n"
    assert examples.failures(page.format("42"), "page") == []
    assert "got:\n42" in examples.failures(page.format("41"), "page")[0]
    (why,) = examples.failures("\n```python\n1 / 0\n```\n", "page")
    assert "page:3:" in why
    assert "ZeroDivisionError" in why
    missing = "```console\n$ make no-such-target\n```\n"
    assert "no-such-target" in examples.failures(missing, "page")[0]


def test_the_sample_of_info_has_the_lines_it_prints_today():
    import widen

    a = np.linspace(0.1, 1, 64).reshape(8, 8)
    printed = str(widen.matmul(a, a, info=True)[1])
    page = (ROOT / "docs" / "info.md").read_text(encoding="utf-8")
    sample = examples.blocks(page)[0].text
    words = [re.findall(r"^  (\w+)", text, re.MULTILINE) for text in (sample, printed)]
    assert set(words[0]) == set(words[1])


def test_the_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


# ── what documents point at ──────────────────────────────────────────────────

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def anchors(path):
    """The places in a document that a link can name, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def exists(name, bases):
    """Whether a path (`<name>` and `*` stand for anything) is there, seen from one of the bases."""
    pattern = re.sub(r"<\w+>", "*", name).rstrip("/")
    return any(any(base.glob(pattern)) for base in bases)


@documents
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    for link in links:
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@documents
def test_files_that_are_named_exist(path):
    """In backquotes, seen from the repository, src/widen, a paper's folder, or one of tests."""
    inside = [*(PACKAGE / "papers").iterdir(), *(ROOT / "tests").rglob("*")]
    bases = [ROOT, PACKAGE, ROOT / "tests", *(folder for folder in inside if folder.is_dir())]
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for word in quoted.split():
            name = word.rstrip(":,.")
            is_file = re.fullmatch(
                r"[\w/<*][\w./<>*-]*\.(py|md|cu|cuh|jsonl|json|toml|svg|cff)", name
            )
            is_folder = "/" in name and re.fullmatch(r"[\w./<>*-]+/", name)
            if is_file or is_folder:
                assert exists(name, bases), f"{name} is not there"


@documents
def test_no_sentence_becomes_a_list(path):
    """As one does whose line begins with a minus: a list follows a full stop or a colon."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for before in re.findall(r"^((?![-+*#]|\d+\. | ).+)\n[-+*] ", text, re.MULTILINE):
        assert before.rstrip().endswith((".", ":", ")", "?")), before


CELL = re.compile(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)")
"""A file and functions (or classes) of it, as the walks of docs/architecture.md have them."""


def walks():
    """Rows of the table: step, CPU, GPU."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text.split("| step | on a CPU | on a GPU |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [row.strip("| ").split(" | ") for row in rows]


def test_functions_of_the_walks_exist():
    cells = [cell for row in walks() for column in row[1:] for cell in CELL.findall(column)]
    assert len(cells) > 20
    for file, names in cells:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        found = {x.name for x in ast.walk(tree) if isinstance(x, (ast.FunctionDef, ast.ClassDef))}
        for name in re.findall(r"`(\w+)`", names):
            assert name in found, f"{file} has no {name}"


def test_a_product_walks_through_them(monkeypatch):
    """On this CPU, as bench/walk.py says."""
    import widen

    monkeypatch.syspath_prepend(ROOT / "bench")
    walk = import_module("walk").walk
    a = np.random.default_rng(1).random((600, 600))
    widen.matmul(a, a)  # compiles, and fills caches
    found = walk(a, a)
    entered = {
        (file, part)
        for files in found.steps.values()
        for file, names in files.items()
        for name in names
        for part in name.split(".")
    }
    launched = {tuple(x.split(": ")) for names in found.kernels.values() for x in names}
    for _, on_cpu, _ in walks():
        for file, names in CELL.findall(on_cpu.split("otherwise")[0]):
            for name in re.findall(r"`(\w+)`", names):
                assert (file, name) in entered | launched


def test_the_picture_is_what_its_script_draws():
    names = {"__file__": str(ROOT / "docs" / "pipeline.py"), "__name__": "pipeline"}
    exec((ROOT / "docs" / "pipeline.py").read_text(encoding="utf-8"), names)
    drawn = names["drawn"]()
    assert (ROOT / "docs" / "pipeline.svg").read_text(encoding="utf-8") == drawn
    for _, _, wing, boxes in names["WINGS"]:
        for host, kernel in boxes:
            assert (PACKAGE / host).exists(), host
            if kernel.startswith("…/"):
                assert list((PACKAGE / wing / "kernels").rglob(Path(kernel).name)), kernel
