"""The site in a real browser, every page, phone and desk, light and dark: `make test-page`."""

from __future__ import annotations

import pytest

import chromium
from helpers import ROOT

pytestmark = pytest.mark.page

SITE = ROOT / "build" / "site"
PAGES = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))

STYLED = """
    return document.readyState === 'complete'
        && getComputedStyle(document.body).backgroundColor !== 'rgba(0, 0, 0, 0)'"""
STATE = """
    const page = document.documentElement;
    const shown = getComputedStyle(document.body);
    const inside = [...document.querySelectorAll('article p, article li, article h1, article h2')];
    return {
        width: page.scrollWidth, room: page.clientWidth, title: document.title,
        background: shown.backgroundColor, colour: shown.color,
        broken: [...document.images].filter(x => x.complete && !x.naturalWidth).map(x => x.src),
        unnamed: [...document.images].filter(x => !x.alt).map(x => x.src),
        wide: inside.filter(x => !x.closest('table, pre')
            && x.getBoundingClientRect().right > page.clientWidth + 1)
            .map(x => x.innerText.slice(0, 60)),
        small: [...document.querySelectorAll('article p, article li, article td')]
            .filter(x => parseFloat(getComputedStyle(x).fontSize) < 12).length,
        foreign: performance.getEntriesByType('resource').map(x => x.name)
            .filter(x => x.startsWith('http')),
    }"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not PAGES:
        pytest.fail("build/site is empty: run `make docs` first")
    started = chromium.start(tmp_path_factory.mktemp("browser"))
    yield started
    started.quit()


def luminance(colour):
    """How bright "rgb(r, g, b)" is, 0 to 1."""
    parts = [float(x) / 255 for x in colour.split("(")[1].rstrip(")").split(",")[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [chromium.DESK, chromium.PHONE], ids=["desk", "phone"])
def test_every_page_looks_right(browser, size, scheme):
    from selenium.webdriver.support.ui import WebDriverWait

    chromium.look(browser, size, scheme)
    wrong = []
    for name in PAGES:
        browser.get((SITE / name).as_uri())
        WebDriverWait(browser, 20).until(lambda browser: browser.execute_script(STYLED))
        state = browser.execute_script(STATE)
        bright = luminance(state["background"]), luminance(state["colour"])
        contrast = (max(bright) + 0.05) / (min(bright) + 0.05)
        faults = {
            "console": [x["message"] for x in browser.get_log("browser")],
            "pictures that are missing": state["broken"],
            "pictures without words": state["unnamed"],
            "wider than the window": state["wide"],
            "from the network": state["foreign"],
        }
        faults = {fault: found for fault, found in faults.items() if found}
        if state["width"] > state["room"]:
            faults["overflow"] = state["width"]
        if state["small"]:
            faults["letters below 12 px"] = state["small"]
        if contrast < 7 or (bright[0] < 0.2) != (scheme == "dark"):
            faults["contrast"] = contrast
        if faults:
            wrong.append((name, faults))
    assert wrong == []
    assert len(PAGES) > 40


def test_search_works_without_a_network(browser):
    from selenium.webdriver.support.ui import WebDriverWait

    chromium.look(browser, chromium.DESK)
    browser.get((SITE / "search.html").as_uri() + "?q=residue")
    results = "return document.querySelectorAll('#search-results li').length"
    WebDriverWait(browser, 20).until(lambda browser: browser.execute_script(results) > 0)
    assert browser.execute_script(results) > 1
