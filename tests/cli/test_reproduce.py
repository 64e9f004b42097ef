"""`widen reproduce`: items, their files, and the page, without a browser."""

import csv
import os
import re
from dataclasses import replace
from html import unescape
from itertools import combinations

import pytest
from matplotlib.figure import Figure as Canvas

from widen.cli import main
from widen.cli.claims import HEAD, tally
from widen.cli.figures import draw, png, put_legend
from widen.cli.page import page
from widen.cli.records import load, shown
from widen.papers.items import Claim, Figure, Outcome, Panel, Series, all_items

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


def claim(verdict="holds", **more):
    given = {"sentence": "It is |fast|", "where": "section 4.1, figure 5", "paper": "1.5 times",
             "ours": "1.7 times", "setup": "n = 256, 25 draws", "verdict": verdict}  # fmt: skip
    return Claim(**given | more)


def example(name, claims, figure=None):
    """An item that costs nothing, in the place of a real one."""
    outcome = Outcome(["n", "ratio"], [[256, 1.6543]], claims, figure, ["A <remark>."])
    return replace(ITEMS[name], run=lambda setting: outcome)


def reproduce(monkeypatch, folder, *items, status=0):
    table = {item.id: item for item in items}
    monkeypatch.setattr("widen.papers.items.all_items", lambda: table)
    assert main(["reproduce", "all", "--quick", "--out", str(folder)]) == status


def test_an_item_writes_its_files_and_the_page(tmp_path, capsys, monkeypatch):
    reproduce(monkeypatch, tmp_path, example("002-table1", [claim()]))
    out = capsys.readouterr().out
    assert "paper: 1.5 times" in out
    assert "1.7 times — holds (n = 256, 25 draws)" in out
    with (tmp_path / "002-table1.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    assert table == [["n", "ratio"], ["256", "1.65"]]
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    cells = [unescape(x) for x in re.findall(r"<t[hd]>(.*?)</t[hd]>", html)]
    records = load(tmp_path)
    verdicts = [HEAD, *tally(records)]
    assert cells == [cell for row in [*verdicts, *table] for cell in row]
    assert html == page(records)
    assert "http" not in html  # it needs no other file


def test_page_and_claims_tell_all_of_a_claim(tmp_path, monkeypatch):
    claims = [claim(), claim("does not hold"), claim("not decided here", sentence="Beyond?")]
    own = [claim(future=True, sentence="Ours is better")]
    reproduce(monkeypatch, tmp_path, example("000-fig3", claims + own),
              example("002-table1", claims[:1]))  # fmt: skip
    text = (tmp_path / "claims.md").read_text(encoding="utf-8")
    html = unescape((tmp_path / "index.html").read_text(encoding="utf-8"))
    for one in claims:
        row = [one.sentence.replace("|", "\\|"), one.where, one.paper, one.ours]
        assert f"| {' | '.join(row)} | {one.setup}; CPU, " in text
        assert re.search(rf"{one.setup}; CPU, [^|]* \| {one.verdict} \|", text)
        for part in (one.sentence, one.where, one.paper, one.ours, one.setup, one.verdict):
            assert part in html
    assert "ours: holds" in text
    assert "ours: holds" in html
    assert text.count("; CPU, ") == html.count("; CPU, ") == 5  # the machine, claim by claim
    assert "A <remark>." in text
    assert tally(load(tmp_path)) == [
        ["000", "1", "1", "1", "1 of 1"],
        ["002", "1", "0", "0", "–"],
        ["all", "2", "1", "1", "1 of 1"],
    ]


def test_a_record_of_another_version_is_refused(tmp_path, capsys, monkeypatch):
    item = example("002-table1", [claim()])
    reproduce(monkeypatch, tmp_path, item)
    path = tmp_path / "002-table1.json"
    path.write_text(path.read_text().replace('"sentence"', '"text"'))
    reproduce(monkeypatch, tmp_path, item, status=2)
    assert "is of another version of widen" in capsys.readouterr().err


def test_a_failure_does_not_lose_the_others(tmp_path, capsys, monkeypatch):
    def broken(setting):
        raise ArithmeticError("no such number")

    bad = replace(ITEMS["002-fig1"], run=broken)
    reproduce(monkeypatch, tmp_path, bad, example("002-table1", []), status=2)
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
    picture = png(Figure([panel, panel]))
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


def drawn(panels, monkeypatch):
    """The canvas that `png` leaves behind."""
    kept = []

    def keep(canvas, *given, **how):
        canvas.draw_without_rendering()
        kept.append(canvas)

    monkeypatch.setattr(Canvas, "savefig", keep)
    png(Figure(panels), "CPU, a processor")
    return kept[0]


def apart(texts):
    boxes = [text.get_window_extent() for text in texts]
    return not any(x.overlaps(y) for x, y in combinations(boxes, 2))


def test_marks_of_points_that_coincide_stand_apart(monkeypatch):
    x, y = [1e-15, 1.1e-15, 1e-9], [1.0, 1.01, 5.0]
    series = [Series(name, x, y, "points", ["10", "9", "8"]) for name in "pq"]
    canvas = drawn([Panel("", "error", "rate", series, log_x10=True, log_y=True)], monkeypatch)
    marks = canvas.axes[0].texts
    assert [text.get_text() for text in marks] == ["10", "9", "8"] * 2
    assert apart(marks)


def test_ticks_of_many_sizes_stand_apart(monkeypatch):
    sizes = list(range(1024, 10241, 1024))
    panel = Panel("", "n", "slices", [Series("d", sizes, sizes)], log_x=True)
    axes = drawn([panel], monkeypatch).axes[0]
    labels = [label for label in axes.get_xticklabels() if label.get_visible()]
    assert {"1024", "2048", "4096", "10240"} <= {label.get_text() for label in labels}
    assert apart(labels)


@pytest.mark.parametrize(
    "names",
    [["way 1, 682×341×8192", "way 2, 8192×341×682", "way 1, 8192×341×8192"],
     ["FP16TC", "FP16TC, FP64emu", "FP8TC", "FP8TC, FP64emu", "FP8TC, digits 16 and 8"]],
)  # fmt: skip
def test_names_of_bars_stand_apart(names, monkeypatch):
    panel = Panel("", "", "", [Series("x", names, [1.0] * len(names), "stack")])
    assert apart(drawn([panel], monkeypatch).axes[0].get_xticklabels())


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(16.0, 59.0, {20, 30, 50}), (3e-9, 6e-7, {1e-8, 1e-7, 2e-8, 5e-8}), (1.0, 2e4, {1, 10, 100})],
)
def test_a_logarithmic_axis_has_three_ticks_or_more(low, high, wanted, monkeypatch):
    panel = Panel("", "n", "rate", [Series("x", [1, 2], [low, high])], log_y=True)
    ticks = drawn([panel], monkeypatch).axes[0].get_yticks()
    assert all(any(tick == pytest.approx(x) for tick in ticks) for x in wanted)


def test_one_legend_serves_panels_of_the_same_lines(monkeypatch):
    def panel(*names):
        return Panel("", "n", "error", [Series(name, [1, 2], [1.0, 2.0]) for name in names])

    canvas = drawn([panel("p", "q"), panel("p", "q")], monkeypatch)
    assert len(canvas.legends) == 1
    assert not any(axes.get_legend() for axes in canvas.axes)
    assert canvas.get_suptitle() == "CPU, a processor"
    canvas = drawn([panel("p", "q"), panel("p", "r")], monkeypatch)
    assert not canvas.legends
    assert all(axes.get_legend() for axes in canvas.axes)


def test_cells():
    assert [shown(x) for x in (0.1 + 0.2, 12, None, "–")] == ["0.3", "12", "–", "–"]
