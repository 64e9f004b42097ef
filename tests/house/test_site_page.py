"""The site in a real browser, every page, phone and desk, light and dark: `make test-page`."""

from __future__ import annotations

from itertools import pairwise

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
    const linear = x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) =>
        0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const numbers = text => text.match(/[\\d.]+/g).map(Number);
    const behind = x => {
        for (; x; x = x.parentElement) {
            const colour = numbers(getComputedStyle(x).backgroundColor);
            if (colour.length === 3 || colour[3] > 0.5) return colour;
        }
        return [255, 255, 255];
    };
    const contrast = x => {
        const [a, b] = [luminance(numbers(getComputedStyle(x).color)), luminance(behind(x))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
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
        headings: [...document.querySelectorAll('article h1, article h2, article h3, article h4')]
            .map(x => Number(x.tagName[1])),
        faint: [...document.querySelectorAll('article p, article li, article td, article th, '
            + 'article a, article code, article pre span, .sidebar-tree a, .toc-tree a')]
            .filter(x => x.innerText.trim()).map(x => [contrast(x), x.innerText.slice(0, 30)])
            .filter(x => x[0] < 4.5).slice(0, 5),
        pictures: [...document.querySelectorAll('article img')]
            .filter(x => x.getClientRects().length)
            .map(x => x.src.match(/-(light|dark)\\.svg$/)?.[1]),
        shrunk: [...document.querySelectorAll('article img')]
            .filter(x => x.naturalWidth && x.getClientRects().length
                && x.getBoundingClientRect().width < 0.72 * x.naturalWidth).map(x => x.src),
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


def faults_of(browser, page, scheme):
    """What is wrong with a page in the browser, by kinds."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(page.as_uri())
    WebDriverWait(browser, 20).until(lambda browser: browser.execute_script(STYLED))
    state = browser.execute_script(STATE)
    bright = luminance(state["background"]), luminance(state["colour"])
    contrast = (max(bright) + 0.05) / (min(bright) + 0.05)
    levels = state["headings"]
    disordered = levels and (levels[0] != 1 or levels.count(1) != 1 or leaps(levels))
    faults = {
        "console": [x["message"] for x in browser.get_log("browser")],
        "pictures that are missing": state["broken"],
        "pictures without words": state["unnamed"],
        "pictures whose letters are tiny": state["shrunk"],
        "wider than the window": state["wide"],
        "from the network": state["foreign"],
        "hard to read": state["faint"],
        "pictures of the other theme": [x for x in state["pictures"] if x not in (None, scheme)],
        "overflow": state["width"] if state["width"] > state["room"] else None,
        "letters below 12 px": state["small"],
        "headings out of order": levels if disordered else None,
        "contrast": contrast if contrast < 7 or (bright[0] < 0.2) != (scheme == "dark") else None,
    }
    return {fault: found for fault, found in faults.items() if found}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [chromium.DESK, chromium.PHONE], ids=["desk", "phone"])
def test_every_page_looks_right(browser, size, scheme):
    chromium.look(browser, size, scheme)
    found = {name: faults_of(browser, SITE / name, scheme) for name in PAGES}
    assert {name: faults for name, faults in found.items() if faults} == {}
    assert len(PAGES) > 40


BAD = """<!doctype html><meta charset="utf-8"><title>Bad</title>
    <style>body { background: #ddd; color: #777 }</style>
    <article><h1>Bad</h1><h3>leaps</h3><img src="missing.png" style="width: 50px; height: 50px">
    <p style="width: 3000px; font-size: 9px">{words}</p>
    <img alt="wide" src="wide-dark.svg" style="width: 300px"></article>
    <script src="http://127.0.0.1:9/far.js"></script>
    <script>throw new Error("broken")</script>"""
WIDE = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="90" viewBox="0 0 900 90"/>'


def test_a_bad_page_is_found(browser, tmp_path):
    """Each check can fail."""
    (tmp_path / "bad.html").write_text(BAD.replace("{words}", "words " * 99), encoding="utf-8")
    (tmp_path / "wide-dark.svg").write_text(WIDE, encoding="utf-8")
    chromium.look(browser, chromium.DESK)
    faults = faults_of(browser, tmp_path / "bad.html", "light")
    assert set(faults) == {
        "console", "pictures that are missing", "pictures without words",
        "pictures whose letters are tiny", "wider than the window", "from the network",
        "hard to read", "pictures of the other theme", "overflow", "letters below 12 px",
        "headings out of order", "contrast",
    }  # fmt: skip
    assert "broken" in " ".join(faults["console"])


def leaps(levels):
    """Headings more than one level below the heading before them."""
    return [(x, y) for x, y in pairwise(levels) if y > x + 1]


def test_search_works_without_a_network(browser):
    """A word typed in the box of a page, a page found, and the word is on it."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    chromium.look(browser, chromium.DESK)
    browser.get((SITE / "index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, ".sidebar-search").send_keys("Karatsuba", Keys.ENTER)
    found = WebDriverWait(browser, 20).until(
        lambda browser: browser.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
    assert len(found) > 1
    found[0].click()
    WebDriverWait(browser, 20).until(lambda browser: "search.html" not in browser.current_url)
    assert "karatsuba" in browser.find_element(By.TAG_NAME, "article").text.lower()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_follow_the_switch_of_the_page(browser, scheme):
    """Whatever the system has, and also the other way round."""
    chromium.look(browser, chromium.DESK, scheme)
    browser.get((SITE / "performance.html").as_uri())
    shown = """
        return [...document.querySelectorAll('article img')]
            .filter(x => x.getClientRects().length)
            .map(x => x.src.match(/-(light|dark)\\.svg$/)[1])"""
    button = browser.find_element("css selector", ".theme-toggle-content .theme-toggle")
    for _ in range(3):
        button.click()
        theme = browser.execute_script("return document.body.dataset.theme")
        wanted = scheme if theme == "auto" else theme
        found = browser.execute_script(shown)
        assert len(found) >= 3
        assert set(found) == {wanted}
    browser.execute_script("localStorage.clear()")


def test_the_keyboard_reaches_the_text(browser):
    """The first stop of the tab key skips the navigation."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    chromium.look(browser, chromium.DESK)
    browser.get((SITE / "start.html").as_uri())
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    focused = browser.switch_to.active_element
    assert focused.get_attribute("href").endswith("#furo-main-content")


READ = """
    body { margin: 0 } article { box-sizing: border-box; width: 1012px; margin: auto; padding: 32px;
    font: 16px/1.5 sans-serif } p, table, pre, ul { margin: 0 0 16px } img { max-width: 100% }
    h1, h2 { line-height: 1.25; margin: 24px 0 16px; padding-bottom: 8px } h1 { margin-top: 0 }
    pre { font-size: 85%; line-height: 1.45; padding: 16px } table { border-collapse: collapse }
    td, th { border: 1px solid; padding: 6px 13px }"""
"""Letters, lines and margins as wide as the hosts of repositories show a README."""


def test_the_readme_is_two_screens(browser, tmp_path):
    from markdown_it import MarkdownIt

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = MarkdownIt("commonmark").enable("table").render(text)
    page = tmp_path / "readme.html"
    base = f'<base href="{ROOT.as_uri()}/"><style>{READ}</style>'
    page.write_text(f'<meta charset="utf-8">{base}<article>{shown}</article>', encoding="utf-8")
    chromium.look(browser, chromium.DESK)
    browser.get(page.as_uri())
    high = browser.execute_script("return document.documentElement.scrollHeight")
    pictures = browser.execute_script(
        "return [...document.images].map(x => x.getBoundingClientRect().height)"
    )
    assert min(pictures) > 100
    assert 1000 < high <= 2 * chromium.DESK["height"]
