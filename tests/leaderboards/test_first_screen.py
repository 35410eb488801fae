"""First screen and agents' pages in a real browser: the answer, its numbers, a picture, cards on a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.league.big_site import page_bytes
from leaderboards.pages.build import board_data, write_site
from leaderboards.pages.preview import HEIGHT, WIDTH, preview
from srl_agents.league.ratings.overall import overall
from srl_agents.league.ratings.tables import rate
from srl_agents.league.store.history import LeagueStore
from tests.browser import CONTRAST, chromium, emulate, fresh, violations
from tests.leaderboards.shown_site import all_of, arrived, find, go, scroll_to, texts, tip
from tests.leaderboards.synthetic import fill_store

pytestmark = pytest.mark.slow
pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.remote.webdriver import WebDriver  # noqa: E402  (after the skip)

GAMES = ("connect_four-v0", "nim-v0", "blotto-v0")
MINUS = "\u2212"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "league.db"
    for root, env_id in enumerate(GAMES):
        fill_store(path, env_id=env_id, seeds=8, root=root)
    return path


@pytest.fixture(scope="module")
def site(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three games; alice's and bob's versions, their start, and bots; with prices, and matches to show."""
    with LeagueStore(store, mode="read") as opened:
        data = board_data(opened)
    for row in data["all_games"]["agents"]:
        row["cost_per_game"], row["currency"] = row["tokens_per_game"] / 1e6, "USD"
        row["seconds_per_game"] = 3.25
    won = {
        "match": "ab12", "seats": ["alice@8", "bob@8"], "outcomes": [1.0, -1.0], "forfeited": [],
        "steps": 14, "invalid": 0, "termination": "ok",
    }  # fmt: skip
    lost = {**won, "match": "cd34", "outcomes": [-1.0, 1.0], "forfeited": [0], "invalid": 3}
    data["boards"][0]["episodes"] = [won, lost, {**won, "match": "ef56", "outcomes": [0.0, 0.0]}]
    return write_site(data, tmp_path_factory.mktemp("site"))


@pytest.fixture
def page(browser: WebDriver, site: Path) -> Iterator[Any]:
    fresh(browser, site.as_uri())
    arrived(browser, "")
    yield browser
    assert browser.get_log("browser") == []


def rows(page: WebDriver, card: str) -> list[list[str]]:
    read = """return [...document.querySelectorAll(`[aria-label="${arguments[0]}"] tbody tr:not(.spacer)`)]
        .map((tr) => [...tr.children].map((td) => td.innerText.replaceAll("\\u2009", " ")))"""
    found: list[list[str]] = page.execute_script(read, card)
    return found


def test_the_table_has_the_ratings_over_all_games(page: WebDriver, store: Path) -> None:
    """Computed again from the store, not from what the page was made of."""
    with LeagueStore(store, mode="read") as opened:
        anchors = [agent.agent_id for agent in opened.agents() if agent.role == "anchor"]
        tables = {env: rate(opened.pairs(env), anchors=anchors) for env in GAMES}
    expected = overall(tables)
    assert expected is not None
    shown = rows(page, "All games")
    assert [row[1].splitlines()[0] for row in shown] == list(expected.agents)
    for cells, rating in zip(shown, expected.ratings, strict=True):
        value, half = cells[2].replace(MINUS, "-").split(" ± ")
        assert float(value) == pytest.approx(rating.elo, abs=0.51)
        assert float(half) == pytest.approx(rating.half_width, abs=0.51)
        ranks = [int(rank) for rank in cells[0].split("–")]
        assert (ranks[0], ranks[-1]) == (rating.best_rank, rating.worst_rank)
        assert cells[4] == "3 of 3"


def test_the_first_screen_answers_who_how_sure_and_at_what_price(page: WebDriver) -> None:
    (text,) = texts(page, "[aria-label='Best over all games'] .answer")
    for word in ("alice@8", "Elo over 3 games", "of its games clean", "USD"):
        assert word in text
    heads = texts(page, "[aria-label='All games'] thead th")
    assert [h.split()[0] for h in heads[-3:]] == ["Tokens", "Seconds", "Price"]
    assert {cells[-2] for cells in rows(page, "All games")} == {"3.3"}
    assert find(page, "[aria-label='Best over all games'] .answer").rect["y"] < 300
    (text,) = texts(page, "#subsets")
    assert "Every game counts alike" in text
    assert "neither costs nor brings anything" in text
    assert not [row for row in rows(page, "All games") if row[1].startswith("bot:")]
    names = texts(page, "[aria-label='Who is best where'] .bots tr th")
    assert names[0] == "bots, the anchors"
    assert {"bot:random", "bot:middle", "bot:strong"} <= {*names}


def test_the_picture_has_every_rated_agent_and_says_what_it_shows(page: WebDriver) -> None:
    dots = all_of(page, ".priced .dot")
    assert len(dots) == len(rows(page, "All games"))
    assert "alice@8" in find(page, ".priced svg").get_attribute("aria-label")
    assert "money per game" in find(page, ".priced figcaption").text
    scroll_to(page, dots[0])
    page.execute_script(
        "arguments[0].dispatchEvent(new Event('pointerover', {bubbles: true}))", dots[0]
    )
    assert "Elo, rank" in tip(page)


def test_skill_and_legality_stand_apart(page: WebDriver) -> None:
    with_gain = rows(page, "Skill and legality")
    assert len(with_gain) == len(rows(page, "All games"))
    for _, played, clean, gain, share, own, others, *_ in with_gain:
        assert "±" in played
        assert "±" in clean
        assert gain
        parts = [float(text.rstrip("\u202f%")) for text in (share, own, others)]
        assert sum(parts) == pytest.approx(100, abs=2)


def test_the_matrix_shows_ranks_elo_and_clean_games(page: WebDriver) -> None:
    card = "[aria-label='Who is best where']"
    assert len(all_of(page, f"{card} thead th")) == 3
    for view, sign in (("Elo", "+"), ("clean games", "9"), ("rank", "1")):
        button = next(b for b in all_of(page, f"{card} .choice button") if b.text == view)
        page.execute_script("arguments[0].click()", button)
        assert any(sign in text for text in texts(page, f"{card} td.more")), view


def test_an_agents_page_tells_what_it_did_in_sentences(page: WebDriver, site: Path) -> None:
    page.execute_script("document.querySelector('[aria-label=\"All games\"] tbody a').click()")
    address = page.current_url.partition("#")[2]
    arrived(page, address)
    assert texts(page, "h2") == ["alice@8"]
    assert len(rows(page, "Games of this agent")) == 3
    assert texts(page, "[aria-label='Sample matches'] li") == [
        "alice@8 beat bob@8 in 14 moves.",
        "alice@8 forfeited against bob@8 after 14 moves; 3 replies were refused.",
        "alice@8 and bob@8 drew after 14 moves.",
    ]
    for card in ("What it is", "Who sent it", "Exploitability"):
        assert find(page, f"[aria-label='{card}']").text
    assert "no page of an agent nobody" in find(go(page, site, "agent=nobody"), "[role=alert]").text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_cards_that_name_their_values(
    page: WebDriver, site: Path, theme: str
) -> None:
    emulate(page, width=390, theme=theme)
    key = json.loads(site.with_name("data.json").read_text())["all_games"]["agents"][0]["id"]
    for address, card in (("", "All games"), (f"agent={key}", "Games of this agent")):
        page.refresh()
        go(page, site, address)
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
        cells = all_of(page, f"[aria-label='{card}'] tbody tr:not(.spacer) > *")
        read = """return arguments[0].map((e) =>
            [e.getBoundingClientRect().right, getComputedStyle(e, "::before").content])"""
        found = page.execute_script(read, cells)
        assert max(right for right, _ in found) <= 390 - 12
        assert violations(page) == [], address
        labels = {label.strip('"') for _, label in found}
        assert {"Rank", "Clean", "Tokens"} <= labels, labels
        for selector in (".answer", ".quiet", f"[aria-label='{card}'] td"):
            for element in all_of(page, selector)[:5]:
                assert page.execute_script(CONTRAST, element) >= 4.5, (address, selector)


def test_a_link_to_the_site_has_a_picture_of_its_best_agents(site: Path, tmp_path: Path) -> None:
    text = site.read_text()
    found = dict(re.findall(r'<meta property="og:(\S+)" content="([^"]*)">', text))
    assert found["image"] == "preview.png"
    assert found["description"].endswith("who is best, how sure that is")
    with Image.open(site.parent / found["image"]) as image:
        image.load()
        assert image.format == "PNG"
        assert (
            image.size == (int(found["image:width"]), int(found["image:height"])) == (WIDTH, HEIGHT)
        )
    assert (site.parent / "preview.png").stat().st_size < 60_000


def test_the_picture_stands_for_what_the_page_shows() -> None:
    """Another order of agents and no agents at all make other pictures; long names fit."""
    keys = ["agent", "value", "low", "high", "half_width"]
    rows = [["alice@8", 120.0, 60.0, 180.0, 60.0], ["bob@8" * 20, -120.0, None, None, None]]

    def picture(rows: list[list[Any]]) -> bytes:
        found = {"agents": {"keys": keys, "rows": rows}}
        return preview({"agents": len(rows), "boards": [{}], "all_games": found})

    assert picture(rows) == picture([*rows])
    many = [[f"agent {k}" * 9, 10.0 * k, 10.0 * k - 5, 10.0 * k + 5, 5.0] for k in range(40)]
    assert len({picture(rows), picture(rows[1:]), picture([]), picture(many)}) == 4
    assert len(picture(many)) < 60_000


def test_the_first_page_is_light_and_loads_no_chart(page: WebDriver, site: Path) -> None:
    assert page_bytes(site.parent) < 200_000
    assert page.execute_script("return typeof uPlot") == "undefined"
