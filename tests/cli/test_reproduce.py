"""`widen reproduce`: items, their files, and the page, without a browser."""

import csv
import os
import re
from dataclasses import replace
from html import unescape

import pytest
from matplotlib.figure import Figure as Canvas

from widen.cli import main
from widen.cli.figures import draw, png, put_legend
from widen.cli.page import page
from widen.cli.records import load, shown
from widen.papers.items import Figure, Panel, Series, all_items

ITEMS = all_items()


def test_names_say_paper_and_place():
    for name, item in ITEMS.items():
        assert re.fullmatch(rf"{item.paper}-[a-z0-9-]+", name)
        assert item.title
        assert item.claim.endswith(".")


def test_the_list_names_every_item(capsys):
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ITEMS)
    titles = (item.title for item in ITEMS.values())
    assert len({line.index(title) for line, title in zip(lines, titles, strict=True)}) == 1


def test_an_item_writes_its_files_and_the_page(tmp_path, capsys):
    assert main(["reproduce", "002-table1", "--quick", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "paper: 512 and 60" in out
    assert "holds" in out
    with (tmp_path / "002-table1.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    cells = [unescape(x) for x in re.findall(r"<t[hd]>(.*?)</t[hd]>", html)]
    assert cells == [cell for row in table for cell in row]
    assert html == page(load(tmp_path))
    assert "http" not in html  # it needs no other file


def test_a_failure_does_not_lose_the_others(tmp_path, capsys, monkeypatch):
    def broken(setting):
        raise ArithmeticError("no such number")

    items = {name: ITEMS[name] for name in ("002-fig1", "002-table1")}
    items["002-fig1"] = replace(items["002-fig1"], run=broken)
    monkeypatch.setattr("widen.papers.items.all_items", lambda: items)
    assert main(["reproduce", "all", "--quick", "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "ArithmeticError: no such number" in err
    assert err.splitlines()[-1].startswith("widen: 002-fig1 failed")
    assert [record["id"] for record in load(tmp_path)] == ["002-table1"]


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        ([], "--list"),
        (["002-fig99"], "there is no item 002-fig99"),
        (["all", "--full", "--quick"], "exclude each other"),
        (["002-table1", "--device", "tpu"], "use cpu, cuda"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words, mention, capsys, tmp_path):
    assert main(["reproduce", *words, "--out", str(tmp_path / "x")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert mention in err


def test_a_folder_that_cannot_be_made(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "002-table1", "--out", str(tmp_path / "file")]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_a_folder_that_is_of_no_use_is_said_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("widen.cli.reproduce.os.access", lambda path, mode: not mode & os.W_OK)
    assert main(["reproduce", "002-table1", "--out", str(tmp_path)]) == 2
    assert "is read-only; name another folder" in capsys.readouterr().err
    monkeypatch.undo()
    (tmp_path / "000-fig3.json").write_text("{")
    assert main(["reproduce", "002-table1", "--out", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "000-fig3.json is damaged" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["000-fig3.json"]


@pytest.mark.parametrize("style", ["line", "dashed", "points", "bars", "stack"])
def test_figures_are_pictures(style):
    x = ["a", "b", "c"] if style in ("bars", "stack") else [1.0, 2.0, 4.0]
    series = [Series(name, x, [1.0, None, 1e-3], style, ["1", "2", "3"]) for name in "pq"]
    panel = Panel("title", "n", "error", series, log_x=style == "line", log_y=True)
    picture = png(Figure([panel] * 3))
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5000


def test_a_legend_is_below_long_names():
    canvas = Canvas(figsize=(4.9, 4), layout="constrained")
    names = [f"way 1, {n} rows and as many columns" for n in range(3)]
    draw(axes := canvas.subplots(), Panel("", "", "", [Series("x", names, [1.0] * 3, "bars")]))
    canvas.draw_without_rendering()
    put_legend(axes)
    canvas.draw_without_rendering()  # the panel has made room
    lowest = min(label.get_window_extent().y0 for label in axes.get_xticklabels())
    legend = axes.get_legend().get_window_extent()
    assert 0 <= legend.y0 < legend.y1 <= lowest + 1


def test_cells():
    assert [shown(x) for x in (0.1 + 0.2, 12, None, "–")] == ["0.3", "12", "–", "–"]
