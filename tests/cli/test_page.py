"""index.html of `widen reproduce all --quick` in a real browser: `make test-page`."""

from __future__ import annotations

import csv
import json

import pytest

import chromium
from widen.cli import main
from widen.cli.claims import HEAD, tally
from widen.cli.records import load
from widen.papers.items import all_items

pytestmark = pytest.mark.page


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = chromium.start(tmp_path_factory.mktemp("browser"))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduced")
    assert main(["reproduce", "all", "--quick", "--out", str(out)]) == 0
    return out


@pytest.fixture(params=["desk", "phone"])
def page(request, browser, folder):
    """The page, loaded at either width, with its long tables unfolded."""
    from selenium.webdriver.support.ui import WebDriverWait

    chromium.look(browser, chromium.PHONE if request.param == "phone" else chromium.DESK)
    # An address of its own, waited for: the page is large, and the one before may be there still.
    place = f"?{request.node.originalname}-{request.param}"
    browser.get((folder / "index.html").as_uri() + place)
    whole = "return document.readyState === 'complete' && location.search === arguments[0]"
    WebDriverWait(browser, 60).until(lambda browser: browser.execute_script(whole, place))
    yield browser
    assert browser.get_log("browser") == []  # nothing went wrong, nothing was fetched


def test_it_loads(page):
    assert page.title == "widen: the papers, reproduced"
    ids = page.execute_script("return [...document.querySelectorAll('article')].map(x => x.id)")
    assert ids == list(all_items())
    links = "return [...document.querySelectorAll('nav a')].map(x => x.getAttribute('href'))"
    assert page.execute_script(links) == [f"#{name}" for name in ids]


def test_verdicts_by_paper_are_on_top(page, folder):
    shown = page.execute_script("""
        return [...document.querySelectorAll('#verdicts tr')].map(
            row => [...row.cells].map(cell => cell.innerText))""")
    assert shown == [HEAD, *tally(load(folder))]
    assert page.execute_script("return document.querySelector('#verdicts').offsetTop") < 300


def test_every_figure_is_visible(page, folder):
    seen = page.execute_script("""
        return [...document.querySelectorAll('article img')].map(image => {
            image.scrollIntoView({block: 'center'});
            const box = image.getBoundingClientRect();
            const there = document.elementFromPoint(
                box.left + box.width / 2, Math.max(0, box.top) + 20);
            return {id: image.closest('article').id, pixels: image.naturalWidth,
                    text: image.alt, width: box.width, height: box.height, left: box.left,
                    right: box.right, shown: there === image,
                    room: document.documentElement.clientWidth};
        })""")
    records = [
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in all_items()
    ]
    assert [(image["id"], image["text"]) for image in seen] == [
        (record["id"], picture["title"]) for record in records for picture in record["pictures"]
    ]
    assert seen
    for image in seen:
        assert image["pixels"] > 400
        assert image["width"] > 250
        assert image["height"] > 100
        assert image["left"] >= 0
        assert image["right"] <= image["room"]
        assert image["shown"]
        assert image["text"]


def test_tables_are_those_of_the_files(page, folder):
    tables = page.execute_script("""
        document.querySelectorAll('details').forEach(x => { x.open = true; });
        return Object.fromEntries([...document.querySelectorAll('article')].map(one => [one.id,
            [...one.querySelectorAll('tr')].map(row => [...row.cells].map(x => x.innerText))]))""")
    for name in all_items():
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            assert tables[name] == [[" ".join(x.split()) for x in row] for row in csv.reader(file)]


def test_claims_are_those_of_the_run(page, folder):
    shown = page.execute_script("""
        return Object.fromEntries([...document.querySelectorAll('article')].map(one => [one.id,
            [...one.querySelectorAll('dt')].map(x => x.innerText)]))""")
    for name in all_items():
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert shown[name] == [" ".join(claim["sentence"].split()) for claim in record["claims"]]


def test_nothing_is_wider_than_the_window(page):
    width, room = page.execute_script("""
        document.querySelectorAll('details').forEach(x => { x.open = true; });
        const page = document.documentElement;
        return [page.scrollWidth, page.clientWidth]""")
    assert room in range(1200, 1281) or room == chromium.PHONE["width"]
    assert width <= room
    smallest = page.execute_script("""
        return Math.min(...[...document.querySelectorAll('p, dt, dd, td, th, h3, a')].map(
            x => parseFloat(getComputedStyle(x).fontSize)))""")
    assert smallest >= 12
