"""A game of each kind, played to its end by clicks in the browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srl_agents.cli import play as command
from srl_agents.cli.pages.desk.handler import desk_server
from srl_agents.cli.pages.desk.questions import Desk
from srl_agents.cli.person.browser import table_in_the_browser
from srl_agents.cli.person.keyboard import PauseGameError
from srl_agents.cli.play import PlayOptions, play
from srl_agents.cli.views.transcript import TranscriptView
from srl_envs.api.episode import load_transcript, replay
from srl_envs.errors import ConfigError
from tests.browser import chromium, emulate, violations

CLICK = """
const controls = document.getElementById("controls");
const state = document.getElementById("state").textContent;
if (state.includes("The game is over")) return "over";
if (document.getElementById("form").hidden || !controls.firstChild) return "";
const inputs = [...controls.querySelectorAll("input")];
inputs.forEach((input, at) => {
  const each = Math.floor(input.max / inputs.length);
  input.value = at ? each : input.max - each * (inputs.length - 1);
  input.dispatchEvent(new Event("input", {bubbles: true}));
});
const moves = [...controls.querySelectorAll("button.move:enabled")];
if (!moves.length) return "";
const move = moves[Math.floor(arguments[0] * moves.length)];
controls.replaceChildren();  // so that no move is clicked twice
move.click();
return "clicked";
"""
"""Script: take one of the moves on the page, and say what happened."""
KINDS = {
    "connect_four-v0": ".board .column:enabled",
    "nim-v0": ".heap .object",
    "blotto-v0": ".field input",
    "kuhn_poker-v0": ".card-face",
    "hanabi_mini-v0": ".hand button",
    "liars_dice-v0": "[aria-label='Legal moves'] button",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def others(env: str) -> tuple[str, ...]:
    return ("random",) * (2 if env == "liars_dice-v0" else 1)


@contextmanager
def game(env: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`srl play ENV human random ... --web` in a thread; gives the address of the page."""
    urls: list[str] = []
    failed: list[BaseException] = []

    @contextmanager
    def noted() -> Iterator[tuple[Desk, str]]:
        with table_in_the_browser() as (desk, url):
            urls.append(url)
            yield desk, url

    def run() -> None:
        try:
            play(options, TranscriptView(live=False))
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            failed.append(error)

    monkeypatch.setattr(command, "table_in_the_browser", noted)
    options = PlayOptions(env=env, policies=("human", *others(env)), save=path, seed=3, web=True)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not urls:
        assert thread.is_alive(), failed
        time.sleep(0.01)
    yield urls[0]
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert failed == []


def shown(browser: Any, selector: str) -> None:
    read = "return document.querySelectorAll(arguments[0]).length"
    end_s = time.monotonic() + 30
    while not browser.execute_script(read, selector):
        assert time.monotonic() < end_s, browser.page_source
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("env", KINDS)
def test_a_game_is_played_to_its_end_by_clicks(
    env: str, browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every click is a legal move, on a wide page and on a phone, light and dark, without a fault for axe."""
    path = tmp_path / "game.jsonl"
    with game(env, path, monkeypatch) as url:
        emulate(browser, width=1400, theme="light")
        browser.get(url)
        shown(browser, KINDS[env])
        line = browser.execute_script("return document.getElementById('match').textContent")
        assert line == f"{env}: you are player_0 with {', '.join(others(env))}"
        for width in (1400, 390):
            for theme in ("light", "dark"):
                emulate(browser, width=width, theme=theme)
                assert violations(browser) == [], (width, theme)
                over = "return document.documentElement.scrollWidth - innerWidth"
                assert browser.execute_script(over) <= 0, (width, theme)
        clicks, end_s = 0, time.monotonic() + 120
        while (did := browser.execute_script(CLICK, (clicks * 0.37) % 1)) != "over":
            assert time.monotonic() < end_s
            clicks += did == "clicked"
            time.sleep(0.02)
        text = browser.execute_script("return document.getElementById('state').textContent")
        assert "player_0 (human)" in text
    played = load_transcript(path)
    mine = [step.invalid[0] for step in played.steps if 0 in step.replies]
    assert len(mine) == clicks > 0
    assert set(mine) == {None}
    assert played.forfeited == ()


def answered(desk: Desk, act: Callable[[int], bool]) -> None:
    """Wait for the next question, and do something about it."""
    end_s = time.monotonic() + 30
    while not (waiting := desk.waiting()):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    assert act(waiting[0]["number"])


def pausing(desk: Desk) -> Callable[[int], bool]:
    def act(_: int) -> bool:
        desk.pause()
        return desk.paused

    return act


@contextmanager
def table(
    options: PlayOptions, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Desk, list[BaseException]]]:
    """A game in a thread whose desk the test holds, and what it raised."""
    raised: list[BaseException] = []
    desk = Desk(pausable=True)

    @contextmanager
    def held() -> Iterator[tuple[Desk, str]]:
        yield desk, "http://desk"

    def run() -> None:
        try:
            play(options, TranscriptView(live=False))
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    monkeypatch.setattr(command, "table_in_the_browser", held)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield desk, raised
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_who_resigns_loses_by_the_rules_and_is_asked_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "game.jsonl"
    options = PlayOptions(env="connect_four-v0", policies=("human", "random"), save=path, web=True)
    with table(options, monkeypatch) as (desk, raised):
        answered(desk, lambda number: desk.answer(number, "4"))
        answered(desk, desk.resign)
    assert raised == []
    assert desk.answered == 2
    played = load_transcript(path)
    assert played.forfeited == (0,)
    assert played.outcomes == (-1.0, 1.0)
    assert "player_0 (human) -1" in desk.news
    assert replay(played) == played


def test_a_paused_game_goes_on_where_it_was_with_the_same_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played with a pause and without, every reply is the same."""
    monkeypatch.chdir(tmp_path)
    agents = ("human", "random")
    moves = ["1", "2", "3"]

    def first(desk: Desk, bodies: list[str]) -> None:
        for body in bodies:
            answered(desk, lambda number, body=body: desk.answer(number, body))  # type: ignore[misc]

    whole, rest = Path("whole.jsonl"), Path("rest.jsonl")
    options = PlayOptions(env="connect_four-v0", policies=agents, seed=5, web=True)
    with table(replace(options, save=whole), monkeypatch) as (desk, raised):
        first(desk, moves)
        answered(desk, desk.resign)
    with table(options, monkeypatch) as (desk, raised):
        first(desk, moves[:2])
        answered(desk, pausing(desk))
    (left,) = raised
    paused = Path("paused-connect_four-v0-seed5.jsonl")
    assert isinstance(left, PauseGameError)
    assert f"with {paused} instead of connect_four-v0" in str(left) == desk.news
    again = replace(options, seed=0, env=str(paused), save=rest)
    with table(again, monkeypatch) as (desk, raised):
        first(desk, moves[2:])
        answered(desk, desk.resign)
    assert raised == []
    assert load_transcript(rest) == load_transcript(whole)

    with table(options, monkeypatch) as (desk, raised):
        answered(desk, pausing(desk))  # before the first move
    with table(again, monkeypatch) as (desk, raised):
        answered(desk, desk.resign)
    assert raised == []
    for wrong, words in (
        (replace(again, env="absent.jsonl"), "absent.jsonl"),
        (replace(again, env=str(rest)), "this game is over"),
        (replace(again, mirror=True), "leave out --episodes, --mirror and --option"),
    ):
        with table(wrong, monkeypatch) as (_, raised):
            pass
        assert words in str(raised[0])


@pytest.mark.slow
def test_resign_asks_twice_and_pause_keeps_the_game(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = "return document.getElementById('state').textContent"
    click = "document.getElementById(arguments[0]).click()"

    def until_shown(words: str) -> None:
        end_s = time.monotonic() + 30
        while words not in browser.execute_script(state):
            assert time.monotonic() < end_s
            time.sleep(0.05)

    options = PlayOptions(env="connect_four-v0", policies=("human", "random"), web=True)
    with table(options, monkeypatch) as (desk, raised), desk_server(desk, "127.0.0.1", 0) as url:
        browser.get(url)
        shown(browser, ".board .column:enabled")
        browser.execute_script(click, "resign")
        label = "return document.getElementById('resign').textContent"
        assert browser.execute_script(label) == "Resign this game?"
        assert violations(browser) == []
        browser.execute_script(click, "resign")
        until_shown("player_0 (human) -1")
    assert raised == []
    options = replace(options, env="nim-v0", seed=3)
    with table(options, monkeypatch) as (desk, raised), desk_server(desk, "127.0.0.1", 0) as url:
        browser.get(url)
        shown(browser, "#pause")
        browser.execute_script(click, "pause")
        until_shown("the same command with paused-nim-v0-seed3.jsonl instead of nim-v0")
    assert isinstance(raised[0], PauseGameError)
    assert (tmp_path / "paused-nim-v0-seed3.jsonl").is_file()


@pytest.mark.slow
def test_words_are_written_where_no_list_is_known_and_the_text_stays(browser: Any) -> None:
    desk = Desk()
    with desk_server(desk, "127.0.0.1", 0) as url:
        for text, legal in (
            ("Say something.", None),
            ("Possible: <b>x</b> or y", None),
            ("Choose.", ["a", "<i>b</i>"]),
            ("Too many.", [str(k) for k in range(500)]),
            (
                "Heap 1: (999999999)\n",
                None,
            ),  # another seat's words; as buttons they would fill the memory
            ("Possible: a, b" + "\n.\n1\n" * 10_000, None),  # longer than a game's; slow to search
        ):
            question = desk._new([{"role": "user", "content": text}], lambda: False)
            question.about = {} if legal is None else {"legal": legal}
        browser.get(url)
        counts = []
        for number in range(1, 7):
            shown(browser, "#form:not([hidden])")
            words = "return [document.getElementById('observation').textContent, " + (
                "[...document.querySelectorAll('#controls button')].map((b) => b.textContent)]"
            )
            _, buttons = browser.execute_script(words)
            counts.append(buttons)
            assert browser.find_elements("css selector", "#controls b, #controls i") == []
            browser.execute_script("submit('my words')")
            end_s = time.monotonic() + 20
            while desk._questions[number].reply is None:
                assert time.monotonic() < end_s
                time.sleep(0.02)
            browser.get(url)
        assert counts == [[], [], ["a", "<i>b</i>"], [], [], []]


@pytest.mark.slow
def test_how_a_game_ended_stays_when_its_command_has_ended(browser: Any) -> None:
    desk = Desk()
    with desk_server(desk, "127.0.0.1", 0) as url:
        desk.tell("The game is over: you won.")
        browser.get(url)
        end_s = time.monotonic() + 20
        while not desk.fetched:
            assert time.monotonic() < end_s
            time.sleep(0.02)
    state = "return document.getElementById('state').textContent"
    while "does not answer" not in (text := browser.execute_script(state)):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    assert text.startswith("The game is over: you won.")


def test_the_page_is_for_a_person() -> None:
    with pytest.raises(ConfigError, match="give `human` a seat"):
        PlayOptions(env="nim-v0", policies=("random", "strong"), web=True).check()
