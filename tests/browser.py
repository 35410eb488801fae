"""A headless browser for the tests of pages; skipped where there is none."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import pytest

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
)
CONTRAST = """
const channels = (text) => {
  const found = text.match(/[\\d.]+/g).map(Number);
  return text.startsWith("color(") ? found.map((v, k) => (k < 3 ? v * 255 : v)) : found;
};
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
let ground = arguments[0], back;
do { back = channels(getComputedStyle(ground).backgroundColor); ground = ground.parentElement; }
while (back[3] === 0 && ground);
const [one, other] = [light(channels(getComputedStyle(arguments[0]).color)), light(back)];
return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
"""
"""Script: contrast ratio of an element's text to what lies behind it."""


AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations.map((rule) =>
  `${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`)));
"""
"""Script: the rules of axe-core that the page breaks, with the first places."""


def violations(browser: Any) -> list[str]:
    """What axe-core finds wrong with the page for people who cannot see it or use no mouse."""
    pytest.importorskip("axe_core_python", reason="needs the package axe-core-python")
    script = resources.files("axe_core_python") / "axe.min.js"
    browser.execute_script(script.read_text(encoding="utf-8"))
    return list(browser.execute_async_script(AXE))


def one_of(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip(f"needs {' or '.join(names)} on the PATH")
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
    binary = one_of("chromium", "chromium-browser", "google-chrome")
    driver = one_of("chromedriver")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in [*FLAGS.split(), f"--user-data-dir={profile}", "--window-size=1280,900"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=driver)
        browser = webdriver.Chrome(options=options, service=service)
        try:
            yield browser
        finally:
            browser.quit()


def fresh(browser: Any, address: str) -> None:
    """Open a page with empty logs, the default size and no theme chosen."""
    browser.get("about:blank")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(address)


def emulate(browser: Any, *, width: int | None = None, theme: str | None = None) -> None:
    if width:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    if theme:
        feature = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def requested(browser: Any) -> list[str]:
    """Addresses that the page asked for since `fresh`."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
