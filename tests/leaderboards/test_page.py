"""The page in a real browser, opened from disk: sort, filter, tooltips, tabs, no request."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic import agents, fill_store

from leaderboards.build import board_data, write_site
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec

webdriver = pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.by import By  # noqa: E402  (after the skip)
from selenium.webdriver.common.keys import Keys  # noqa: E402

NASTY = "</script><img src=x onerror=document.title='owned'>"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
)


def one_of(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip(f"needs {' or '.join(names)} on the PATH")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
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
        yield browser
        browser.quit()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    fill_store(folder / "league.db", seeds=32)
    fill_store(folder / "league.db", env_id="math_duel-v0", seeds=3, root=1)
    with LeagueStore(folder / "league.db") as store:
        store.add_agent(AgentVersion(agent_id=NASTY, lineage="x", role="frozen"))
        spec = MatchSpec(env_id="connect_four-v0", seed=0, split="eval", seats=(NASTY, "base"))
        told = MatchResult(
            match_id=spec.match_id, outcomes=(0.0, 0.0), rewards=(0.0, 0.0), termination="ok"
        )
        store.report(spec, told)
        index, _ = write_site(board_data(store, f"build {NASTY}"), folder / "site")
    return index


@pytest.fixture
def page(browser, site: Path) -> Iterator[Any]:
    """The page, freshly opened; afterwards: nothing on the console, nothing fetched."""
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(site.as_uri())
    yield browser
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert site.as_uri() in urls
    assert [u for u in urls if not u.startswith((site.as_uri(), "data:"))] == []
    assert browser.title == "SRL leaderboard"


def names(page) -> list[str]:
    cells = page.find_elements(By.CSS_SELECTOR, ".board:not([hidden]) .ranking tbody .name")
    return [cell.get_attribute("textContent") for cell in cells]


def head(page, label: str):
    heads = page.find_elements(By.CSS_SELECTOR, ".board:not([hidden]) .ranking thead button")
    return next(h for h in heads if h.text.strip("▾▴ ") == label)


def tip(page) -> str:
    return page.find_element(By.ID, "tip").text


def find(page, selector: str):
    return page.find_element(By.CSS_SELECTOR, f".board:not([hidden]) {selector}")


def test_the_table_shows_the_ratings_best_first(page) -> None:
    truth = {agent.agent_id: elo for agent, elo in agents()}
    shown = names(page)
    assert len(shown) == len(truth) + 1
    assert {shown[0], shown[1]} == {"bot:strong", "alice@8"}
    assert shown[-1] == "bot:random"
    rows = page.find_elements(By.CSS_SELECTOR, ".board:not([hidden]) .ranking tbody tr")
    assert "±" in rows[0].text
    assert "%" in rows[0].text
    assert "seeds" in find(page, ".facts").text


def test_names_are_text_whatever_they_contain(page) -> None:
    assert NASTY in names(page)
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert page.find_element(By.ID, "command").text == f"build {NASTY}"


def test_sorting_by_mouse_and_by_keyboard(page) -> None:
    agent = head(page, "Agent")
    agent.click()
    assert names(page) == sorted(names(page), key=str.lower)
    assert agent.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    agent.send_keys(Keys.ENTER)
    assert names(page) == sorted(names(page), key=str.lower, reverse=True)
    head(page, "Rating").send_keys(Keys.SPACE)
    assert names(page)[-1] == "bot:random"
    marked = page.find_elements(By.CSS_SELECTOR, ".board:not([hidden]) th[aria-sort]")
    assert [m.text.strip("▾▴ ") for m in marked] == ["Rating"]


@pytest.mark.parametrize(
    "label", ["Rank", "95 % interval", "Score", "Games", "W / D / L", "Invalid", "Forfeits"]
)
def test_every_column_sorts_without_losing_a_row(page, label: str) -> None:
    everyone = sorted(names(page))
    for _ in range(2):
        head(page, label).click()
        assert sorted(names(page)) == everyone


def test_filtering_counts_what_is_left(page) -> None:
    box = find(page, "input[type=search]")
    box.send_keys("ALICE")
    assert sorted(names(page)) == ["alice@2", "alice@4", "alice@8"]
    assert find(page, "output").text == "3 of 12 agents"
    box.clear()
    box.send_keys("nobody at all")
    assert names(page) == []
    box.send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    assert len(names(page)) == 12
    find(page, "input[type=checkbox]").click()
    assert NASTY not in names(page)


def test_a_matrix_cell_explains_itself(page) -> None:
    cell = find(page, ".matrix tbody tr:nth-child(1) td:nth-of-type(2)")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
    webdriver.ActionChains(page).move_to_element(cell).perform()
    matrix = json.loads(page.execute_script("return document.getElementById('data').textContent"))[
        "boards"
    ][0]["matrix"]
    first, second = matrix["agents"][:2]
    lines = tip(page).splitlines()
    assert lines[0] == f"{first} against {second}"
    assert lines[1].startswith(f"{100 * matrix['score'][0][1]:.1f}")
    assert "95 %:" in lines[1]
    assert lines[2] == f"{matrix['games'][0][1]} games"


def test_the_matrix_is_walked_by_arrow_keys(page) -> None:
    cell = find(page, ".matrix tbody tr:nth-child(1) td:nth-of-type(2)")
    page.execute_script("arguments[0].focus()", cell)
    first = tip(page).splitlines()[0]
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    second = tip(page).splitlines()[0]
    assert second.split(" against ")[0] == first.split(" against ")[0]
    assert second != first
    page.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)  # over the diagonal
    assert "against" in tip(page)
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not page.find_element(By.ID, "tip").is_displayed()


def test_few_games_are_grey_and_say_so(page) -> None:
    few = page.find_elements(By.CSS_SELECTOR, ".board:not([hidden]) .matrix td.few")
    assert len(few) == 2
    assert "1 game, too few" in few[0].get_attribute("data-tip")


def test_curves_are_drawn_with_what_they_mean(page) -> None:
    dots = page.find_elements(By.CSS_SELECTOR, ".board:not([hidden]) .curve .dot")
    assert len(dots) == 8
    assert dots[0].get_attribute("data-tip").startswith("base\nstep 0: ")
    assert "better" in find(page, ".plain").text


def test_provisional_says_why(page) -> None:
    badge = find(page, ".tag.provisional")
    page.execute_script("arguments[0].focus()", badge)
    assert "fewer than 30 seeds" in tip(page)


def test_tabs_switch_by_click_and_arrow_and_survive_a_reload(page) -> None:
    tabs = page.find_elements(By.CSS_SELECTOR, "#tabs [role=tab]")
    assert [t.text for t in tabs] == ["connect_four-v0", "math_duel-v0"]
    tabs[1].click()
    assert find(page, "h2").text == "math_duel-v0"
    page.refresh()
    assert find(page, "h2").text == "math_duel-v0"
    page.find_element(By.CSS_SELECTOR, "#tabs [aria-selected=true]").send_keys(Keys.ARROW_RIGHT)
    assert find(page, "h2").text == "connect_four-v0"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_sideways_scrolling_and_readable_contrast(page, width: int, theme: str) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": theme}]},
    )
    try:
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        for selector in ("h2", ".quiet", ".tag.provisional", ".bad", ".matrix td.few", ".lead"):
            assert page.execute_script(CONTRAST, find(page, selector)) >= 4.5, selector
        cells = page.find_elements(
            By.CSS_SELECTOR, ".board:not([hidden]) .matrix :is(td.more, td.less)"
        )
        assert min(page.execute_script(CONTRAST, cell) for cell in cells) >= 4.5
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


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
