"""Chromium, driven by selenium, for the tests of pages."""

import shutil
from importlib.util import find_spec

import pytest

PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
DESK = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--allow-file-access-from-files", "--window-size=1280,900",
]  # fmt: skip


def program(*names):
    """The first program of these names that is installed."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.fail(
            f"{' or '.join(names)} is missing, and the page cannot be looked at: install Chromium "
            "and its driver, on Debian with apt-get install chromium chromium-driver"
        )
    return found


def start(folder):
    """A browser that keeps its files in a folder; whoever starts it calls `quit`."""
    binary = program("chromium", "chromium-browser", "google-chrome")
    driver = program("chromedriver", "chromium.chromedriver")
    if find_spec("selenium") is None:
        pytest.fail("selenium is missing, which drives the browser: pip install 'widen[page]'")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


def look(browser, size, scheme="light"):
    """Show pages at a size, in light or dark."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
