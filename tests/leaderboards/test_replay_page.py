"""Replays in a real browser: step, play, choose a view; a board shows no seat's view; replies are text."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from leaderboards.pages.build import store_site, write_site
from srl_agents.agents.players import ScriptedPolicy
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_envs import spec
from tests.browser import emulate, fresh, violations
from tests.leaderboards.shown_site import NASTY, arrived, find, first_match, go, texts, wait_until

pytestmark = pytest.mark.slow
pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver.common.keys import Keys  # noqa: E402  (after the skip)
from selenium.webdriver.remote.webdriver import WebDriver  # noqa: E402


def test_a_replay_is_opened_from_the_list_and_stepped_by_arrow_keys(
    page: WebDriver, site: Path
) -> None:
    match = first_match(page, site)
    page.execute_script("document.querySelector('[aria-label=Replays] tbody a').click()")
    arrived(page, match)
    assert find(page, ".steps output").text.startswith("step 1 of")
    body = find(page, "body")
    body.send_keys(Keys.ARROW_RIGHT)
    assert find(page, ".steps output").text.startswith("step 2 of")
    assert page.current_url.endswith("&turn=2")
    body.send_keys(Keys.ARROW_LEFT)
    assert find(page, ".steps output").text.startswith("step 1 of")
    body.send_keys(Keys.END)
    assert find(page, ".steps output").text == "the end"
    assert find(page, "[aria-label='The end']").get_attribute("disabled")
    body.send_keys(Keys.HOME)
    assert find(page, ".steps output").text.startswith("step 1 of")


def test_a_deep_link_opens_at_its_turn(page: WebDriver, site: Path) -> None:
    match = first_match(page, site).split("&")[0]
    page.get("about:blank")
    go(page, site, f"{match}&turn=2")
    assert find(page, ".steps output").text.startswith("step 2 of")
    page.get(f"{site.as_uri()}#{match}&turn=99999")
    wait_until(page, lambda p: texts(p, ".steps output") == ["the end"])


def test_replies_are_text_and_refused_ones_say_why(page: WebDriver, site: Path) -> None:
    go(page, site, first_match(page, site))
    refused = []
    for _ in range(4):
        refused += texts(page, ".reply.refused")
        words = texts(page, ".tag.bad")
        if refused:
            break
        find(page, "body").send_keys(Keys.ARROW_RIGHT)
    assert f"<b>bold</b>{NASTY}<script>document.title='owned'</script>" in refused
    assert any(word.startswith("not accepted: malformed") for word in words)
    assert "format" in find(page, ".paid").text


def show(page: WebDriver, view: str) -> None:
    """Choose what a replay shows."""
    find(page, f"[aria-label=Shown] option[value='{view}']").click()


def test_a_replay_starts_with_the_game_and_shows_a_seats_view_when_asked(
    page: WebDriver, site: Path
) -> None:
    """The game is not a seat's view; a view names its seat, and stands by itself."""
    go(page, site, first_match(page, site))
    assert texts(page, ".seat .view") == []
    assert "not a seat's view" in texts(page, "figure.board figcaption")[0]
    assert find(page, "figure.board svg").get_attribute("aria-label").startswith("Heaps: ")
    for seat in ("0", "1"):
        show(page, seat)
        assert len(texts(page, ".seat .view")) == 1
        assert any(f"“your” are player_{seat}" in text for text in texts(page, ".seat h4"))
        assert texts(page, "figure.board") == []
    show(page, "all")
    before = texts(page, ".seat .view")
    assert len(before) == 2
    find(page, "body").send_keys(Keys.END)
    find(page, ".steps input[type=checkbox]").click()
    whole = texts(page, ".seat .view")
    assert len(whole) == 2
    assert sorted(whole) != sorted(before)


def test_a_replay_says_which_move_was_played(page: WebDriver, site: Path) -> None:
    go(page, site, first_match(page, site))
    tags = []
    for _ in range(12):
        tags += texts(page, ".seat .tag")
        find(page, "body").send_keys(Keys.ARROW_RIGHT)
    assert any(re.fullmatch(r"plays \d \d", word) for word in tags)
    assert any(re.fullmatch(r"not accepted: malformed, \d \d is played for it", w) for w in tags)
    assert "accepted" not in tags


def test_a_replay_plays_by_itself_until_the_end_or_until_it_is_stopped(
    page: WebDriver, site: Path
) -> None:
    go(page, site, first_match(page, site))
    body = find(page, "body")
    body.send_keys("++")
    assert page.execute_script("return document.querySelector('[aria-label=Speed]').value") == "4"
    body.send_keys(" ")
    assert texts(page, ".play") == ["❚❚ pause"]
    body.send_keys(Keys.HOME)  # a user's step takes over
    assert texts(page, ".play") == ["▶ play"]
    page.execute_script(
        """const output = document.querySelector(".steps output");
        window.seen = [output.textContent];
        const record = () => window.seen.push(output.textContent);
        new MutationObserver(record).observe(output, {childList: true});"""
    )
    find(page, ".play").click()
    wait_until(page, lambda p: texts(p, ".steps output") == ["the end"], 60)
    assert texts(page, ".play") == ["▶ play"]
    seen = page.execute_script("return window.seen")
    total = len(seen) - 1
    assert seen == [*(f"step {n} of {total}" for n in range(1, total + 1)), "the end"]


def test_connect_four_is_drawn_with_the_new_piece_ringed(page: WebDriver) -> None:
    """Of a board of two pieces: one disc per seat, and words for those who do not see it."""
    before, after = (f".....\n.....\n{row}\n12345\nX is player_0." for row in ("..X..", "..XO."))
    drawn = page.execute_script(
        """document.querySelector("main").append(SRL.boardFigure("connect_four-v0", arguments[1],
        arguments[0], [arguments[2], "b"], "now"));
        const count = (s) => document.querySelectorAll(`figure.board ${s}`).length;
        return ["circle", ".disc.c0", ".disc.c1", ".disc.c1.fresh", ".fresh"].map(count);""",
        before, after, NASTY,
    )  # fmt: skip
    assert drawn == [15, 1, 1, 1, 1]
    assert find(page, "figure.board svg").get_attribute("aria-label").endswith("..... / ..XO.")
    assert texts(page, "figure.board .seat-name") == [f"X: seat 0, {NASTY}", "O: seat 1, b"]


DRAWN = {
    "kuhn_poker-v0": r"Hand \d: own card [JQK], the other's (hidden|[JQK]); ",
    "blotto-v0": r"Fields worth [\d, ]+; in round \d you sent [\d ]+, the other [\d ]+",
    "hanabi_mini-v0": r"played: red \d, .*your cards: ",
    "holdem-v0": r"Hand \d: own cards \w\w \w\w; table .+; their cards (not shown|\w\w \w\w)",
    "liars_dice-v0": r"Own dice [1-6 ]+; bids of this round: ",
    "plan_path-v0": r"Grid, rows from the top: (?:[.#SG]{10} / ){9}[.#SG]{10}$",
    "sokoban-v0": r"Grid, rows from the top: #{6} / (?:[#_$o@*+]{6} / ){4}#{6}$",
    "sudoku-v0": r"Grid, rows from the top: (?:[.1-4]{4} / ){3}[.1-4]{4}$",
    "expedition-v0": r"Grid, rows from the top: (?:[?.fhsC~^=!@\d]{15} / ){14}",
    "chess-v0": r"Chess board, (White|Black) to move: (?:[\w]+/){7}\w+$",
}


@pytest.fixture(scope="module")
def drawn_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real episodes of games whose seats see cards or fields."""
    folder = tmp_path_factory.mktemp("drawn")
    names = {"bot:random": ScriptedPolicy("random"), "bot:strong": ScriptedPolicy("strong")}
    seats = ("bot:strong", "bot:random", "bot:strong")
    runner = Rollouts(names, root_seed=0)
    with LeagueStore(folder / "league.db") as store:
        for name in names:
            store.add_agent(AgentVersion(agent_id=name, lineage=name, role="anchor"))
        specs = [
            MatchSpec(env_id=env, seed=seed, split="eval", seats=seats[: spec(env).seats])
            for env in DRAWN if env != "chess-v0" or find_spec("pyspiel") for seed in range(2)
        ]  # fmt: skip
        episodes = runner.play(specs, finished=TranscriptLog(folder / TRANSCRIPTS).add)
        runner.close()
        store.report_many((episode.spec, episode.result()) for episode in episodes)
        data, shown = store_site(store, folder / TRANSCRIPTS)
        return write_site(data, folder / "site", shown)


@pytest.mark.parametrize("env", DRAWN)
def test_cards_and_fields_of_a_seat_are_drawn(env: str, browser: Any, drawn_site: Path) -> None:
    if env == "chess-v0":
        pytest.importorskip("pyspiel")
    fresh(browser, drawn_site.as_uri())
    go(browser, drawn_site, f"board={env}")
    links = "return document.querySelector('[aria-label=Replays] tbody a').href.split('#')[1]"
    match = str(browser.execute_script(links))
    go(browser, drawn_site, match)
    for width in (1400, 390):
        for theme in ("light", "dark"):
            emulate(browser, width=width, theme=theme)
            assert violations(browser) == [], (width, theme)
    show(browser, "all")
    find(browser, "body").send_keys(Keys.END)
    labels = "return [...document.querySelectorAll('.seat figure svg')].map((e) => e.ariaLabel)"
    found = browser.execute_script(labels)
    if not found:  # the table is cleared at the end
        find(browser, "body").send_keys(Keys.ARROW_LEFT)
        found = browser.execute_script(labels)
    assert found
    assert all(re.search(DRAWN[env], label) for label in found), found
    assert browser.get_log("browser") == []
