"""The site in a real browser, opened from disk: sort, filter, replay, themes, phone, no request.

A page may be drawn again between two commands to the browser. So tests wait until the page says which
address it shows (`arrived`), and read texts in one command (`texts`), never element by element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import agents, fill_store

from leaderboards.build import store_site, write_site
from srl_agents.league.store import AgentVersion, LeagueStore
from srl_agents.policies.players import ScriptedPolicy
from srl_agents.records import MatchResult, MatchSpec
from srl_agents.rollouts import Runner
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from tests.browser import CONTRAST, chromium, emulate, fresh, requested

pytestmark = pytest.mark.slow
pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver import ActionChains  # noqa: E402  (after the skip)
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

NASTY = "</script><img src=x onerror=document.title='owned'>"
CROWD = 400


class Injecting(ScriptedPolicy):
    """Replies with markup until the environment moves for it."""

    def player(self, env_id: str, seed: int) -> Any:
        return lambda text: f"<b>bold</b>{NASTY}<script>document.title='owned'</script>"


def add_agents(store: LeagueStore, *names: str) -> None:
    for name in names:
        store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))


def fill_replays(folder: Path, store: LeagueStore) -> None:
    """Real episodes: nim between bots, one of them writing markup."""
    names = {
        "bot:random": ScriptedPolicy("random"),
        NASTY: Injecting("random"),
    }
    specs = [
        MatchSpec(env_id="nim-v0", seed=seed, split="eval", seats=seats, number=seed)
        for seed in range(4)
        for seats in (("bot:random", NASTY), (NASTY, "bot:random"), ("bot:random", "bot:random"))
    ]
    runner = Runner(names, root_seed=0)
    episodes = runner.play(specs, finished=TranscriptLog(folder / TRANSCRIPTS).add)
    runner.close()
    store.report_many((episode.spec, episode.result()) for episode in episodes)


def fill_crowd(store: LeagueStore) -> None:
    """A field too long to keep in the document."""
    rng = np.random.default_rng(0)
    names = [f"agent{k:04d}" for k in range(CROWD)]
    add_agents(store, *names)
    matches = []
    for name in names:
        for pool in ("bot:random", "bot:strong"):
            won = float(rng.choice([-1.0, 1.0]))
            spec = MatchSpec(env_id="blotto-v0", seed=1, split="eval", seats=(name, pool))
            told = MatchResult(
                match_id=spec.match_id, outcomes=(won, -won), rewards=(won, -won), termination="ok"
            )
            matches.append((spec, told))
    store.report_many(matches)


def enter(data: dict[str, Any]) -> None:
    """Say of a board's rows how they came in, as a published board does; all words are hostile."""
    board = next(board for board in data["boards"] if board["env_id"] == "connect_four-v0")
    words = dict.fromkeys(("training_data", "commit", "command", "started", "srl"), NASTY)
    for row in board["agents"]:
        row["level"], row["levels"] = "L3", {"L3": 66}
        if row["agent"].startswith("alice"):
            row["level"], row["levels"] = "L2", {"L2": 40, "L3": 26}
            row["entry"] = {
                **words, "submitter": NASTY, "attempts": {"registered": 3, "declared": 1},
                "endpoint": {"provider": "", "model": "m", "dated_model": NASTY, "url": "https://x"},
                "verified": "2030-01-02T03:04:05+00:00", "signed": True,
            }  # fmt: skip
    data["set_aside"] = [{"bundle": f"nim-v0/{NASTY}", "reason": NASTY}]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("a site")  # a folder with a space, as people have
    fill_store(folder / "league.db", seeds=32)
    fill_store(folder / "league.db", env_id="math_duel-v0", seeds=3, root=1)
    fill_store(folder / "league.db", env_id="split_clues-v0", seeds=3, root=2)
    fill_store(folder / "league.db", env_id="commons-v0", seeds=3, root=3)
    with LeagueStore(folder / "league.db") as store:
        add_agents(store, NASTY)
        spec = MatchSpec(env_id="connect_four-v0", seed=0, split="eval", seats=(NASTY, "base"))
        told = MatchResult(
            match_id=spec.match_id, outcomes=(0.0, 0.0), rewards=(0.0, 0.0), termination="ok"
        )
        store.report(spec, told)
        fill_replays(folder, store)
        fill_crowd(store)
        data, episodes = store_site(store, folder / TRANSCRIPTS, command=f"build {NASTY}")
        enter(data)
        return write_site(data, folder / "site", episodes)


@pytest.fixture
def page(browser, site: Path) -> Iterator[Any]:
    """The overview, freshly opened; afterwards: nothing on the console, nothing fetched elsewhere."""
    fresh(browser, site.as_uri())
    yield browser
    assert browser.get_log("browser") == []
    urls = requested(browser)
    assert site.as_uri() in [url.partition("#")[0] for url in urls]
    assert [u for u in urls if not u.startswith((site.parent.as_uri(), "data:"))] == []
    assert browser.title.endswith("SRL leaderboards")
    assert browser.find_elements(By.TAG_NAME, "img") == []


def go(page, site: Path, address: str) -> Any:
    """A board or a match."""
    page.get(f"{site.as_uri()}#{address}")
    return arrived(page, address)


def arrived(page, address: str) -> Any:
    """Wait until the page says that it shows an address."""
    shown = "const {dataset, ariaBusy} = document.querySelector('main'); return !ariaBusy && dataset.shown"
    WebDriverWait(page, 20).until(lambda p: p.execute_script(shown) == address)
    return page


def texts(page, selector: str) -> list[str]:
    """What all elements say, read in one command."""
    read = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
    return page.execute_script(read, selector)


def all_of(page, selector: str) -> list[Any]:
    return page.find_elements(By.CSS_SELECTOR, selector)


def find(page, selector: str) -> Any:
    return page.find_element(By.CSS_SELECTOR, selector)


def names(page, card: str = "Ranking") -> list[str]:
    read = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return page.execute_script(read, f"[aria-label='{card}'] .grid tbody th .agent > .name")


def head(page, label: str, card: str = "Ranking") -> Any:
    heads = all_of(page, f"[aria-label='{card}'] .grid thead button")
    return next(h for h in heads if h.text.strip("▾▴ ") == label)


def tip(page) -> str:
    return find(page, "#tip").text


def scroll_to(page, element) -> None:
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)


# --- overview --------------------------------------------------------------------------------


def test_the_overview_names_the_best_of_every_environment(page) -> None:
    found = texts(page, "[aria-label=Environments] tbody tr:not(.spacer)")
    rows = {row.split()[0]: row for row in found}
    assert set(rows) == {
        "blotto-v0", "commons-v0", "connect_four-v0", "math_duel-v0", "nim-v0", "split_clues-v0",
    }  # fmt: skip
    assert "bot:strong" in rows["connect_four-v0"] or "alice@8" in rows["connect_four-v0"]
    assert "cooperative" in rows["split_clues-v0"]
    cell = find(page, ".ranks td.more")
    scroll_to(page, cell)
    ActionChains(page).move_to_element(cell).perform()
    assert "rank" in tip(page)


def test_a_board_opens_by_link_and_by_menu_and_back_returns(page, site: Path) -> None:
    page.find_element(By.LINK_TEXT, "math_duel-v0").click()
    assert texts(arrived(page, "board=math_duel-v0"), "h2") == ["math_duel-v0"]
    assert page.title.startswith("math_duel-v0")
    find(page, "#boards option[value='split_clues-v0']").click()
    assert texts(arrived(page, "board=split_clues-v0"), "h2") == ["split_clues-v0"]
    page.back()
    assert texts(arrived(page, "board=math_duel-v0"), "h2") == ["math_duel-v0"]
    page.refresh()
    assert texts(arrived(page, "board=math_duel-v0"), "h2") == ["math_duel-v0"]


def test_unknown_boards_and_matches_are_said(page, site: Path) -> None:
    assert "no board nowhere" in find(go(page, site, "board=nowhere"), "[role=alert]").text
    assert "no match id" in find(go(page, site, "match=../x"), "[role=alert]").text


def test_the_overview_stands_whole_and_says_what_is_measured(page) -> None:
    inner = "const {scrollHeight, clientHeight} = arguments[0]; return scrollHeight - clientHeight"
    box = find(page, "[aria-label=Environments] .grid-scroll")
    assert page.execute_script(inner, box) == 0
    (told,) = texts(page, "#measured")
    for word in ("Elo", "strangers", "per seat", "ranked", "interval"):
        assert word in told
    assert texts(page, "[aria-label='Set aside'] li") == [f"nim-v0/{NASTY} {NASTY}"]


def test_every_page_is_described_and_every_table_and_figure_has_a_caption(page, site: Path) -> None:
    assert find(page, "meta[name=description]").get_attribute("content")
    assert find(page, "html").get_attribute("lang") == "en"
    for mark in ("header", "nav[aria-label]", "main", "footer"):
        assert len(all_of(page, f"body {mark}")) == 1, mark
    addresses = ["board=connect_four-v0", "board=split_clues-v0", "board=commons-v0"]
    for address in ["", *addresses, first_match(page, site)]:
        go(page, site, address)
        for kind, caption in (("table", "caption"), ("figure", "figcaption")):
            named = "const text = (e) => e.querySelector(arguments[1])?.textContent.trim() || '';"
            every = "return [...document.querySelectorAll('main ' + arguments[0])].map(text)"
            found = page.execute_script(named + every, kind, caption)
            assert all(found), (address, kind, found)
            assert found or kind == "figure", address


# --- ranking ---------------------------------------------------------------------------------


def test_the_table_shows_the_ratings_best_first(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    truth = {agent.agent_id: elo for agent, elo in agents()}
    shown = names(page)
    assert len(shown) == len(truth) + 1
    assert {shown[0], shown[1]} == {"bot:strong", "alice@8"}
    assert "bot:random" in shown[-3:]
    row = find(page, "[aria-label=Ranking] tbody tr:not(.spacer)").text
    assert "±" in row
    assert "%" in row


def test_names_are_text_whatever_they_contain(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    assert NASTY in names(page)
    assert find(page, "#command").text == f"build {NASTY}"


def test_sorting_by_mouse_and_by_keyboard(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    agent = head(page, "Agent")
    agent.click()
    assert names(page) == sorted(names(page), key=str.lower)
    assert agent.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    agent.send_keys(Keys.ENTER)
    assert names(page) == sorted(names(page), key=str.lower, reverse=True)
    head(page, "Rating").send_keys(Keys.SPACE)
    assert names(page)[-1] == "bot:random"
    marked = all_of(page, "[aria-label=Ranking] th[aria-sort]")
    assert [m.text.strip("▾▴ ") for m in marked] == ["Rating"]


def test_every_column_of_every_mode_sorts_without_losing_a_row(page, site: Path) -> None:
    for board in ("connect_four-v0", "split_clues-v0", "commons-v0"):
        go(page, site, f"board={board}")
        everyone = sorted(names(page))
        for button in all_of(page, "[aria-label=Ranking] .grid thead button"):
            for _ in range(2):
                page.execute_script("arguments[0].click()", button)
                assert sorted(names(page)) == everyone, (board, button.text)


def test_every_mode_says_what_its_number_is(page, site: Path) -> None:
    for board, words in (
        ("connect_four-v0", ("Elo", "the mean of the anchors", "64 %")),
        ("split_clues-v0", ("cross-play", "partners it was not trained with")),
        ("commons-v0", ("focal return", "per seat")),
    ):
        (told,) = texts(go(page, site, f"board={board}"), "#measured")
        for word in (*words, "ranked by it", "95 % interval over seeds"):
            assert word in told, (board, word)


def test_names_that_have_room_are_not_cut(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    cut = """return [...document.querySelectorAll(".agent > .name")]
        .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""
    assert page.execute_script(cut) in ([], [NASTY])
    go(page, site, "")
    cut = """return [...document.querySelectorAll(".ranks thead span, .grid tbody .name")]
        .filter((e) => Math.max(e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth) > 1
          && getComputedStyle(e).display !== "inline").map((e) => e.textContent)"""
    assert page.execute_script(cut) == []


def test_a_row_says_who_submitted_it_and_how_it_was_checked(page, site: Path) -> None:
    """On request, all of it; whatever the submitter wrote is text."""
    go(page, site, "board=connect_four-v0")
    box = find(page, "[aria-label='Filter agents']")
    box.send_keys("alice@8")
    (row,) = texts(page, "[aria-label=Ranking] tbody tr:not(.spacer)")
    for word in ("endpoint", f"by {NASTY}", "3 / 1", "L2", "× 40", "L3", "× 26"):
        assert word in row.replace("\u2009", " "), word
    button = find(page, ".agent > .name")
    button.send_keys(Keys.ENTER)
    (told,) = texts(page, "dialog")
    for word in (
        "Its weights cannot be proven", "3 registered with the board, 1 declared", "L2, the lowest of 66",
        "40 matches at L2, 26 matches at L3", "signed with the board's key", "2030-01-02 03:04",
    ):  # fmt: skip
        assert word in told, word
    assert told.count(NASTY) == 6  # submitter, dated model, training data, srl, commit, command
    assert all_of(page, "dialog img") == all_of(page, "dialog a") == []
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert texts(page, "dialog") == []
    assert page.switch_to.active_element == button
    box.clear()
    box.send_keys("bot:strong")
    find(page, ".agent > .name").click()
    assert "nobody submitted the agent" in texts(page, "dialog")[0]


def test_filters_count_what_is_left(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    box = find(page, "[aria-label='Filter agents']")
    box.send_keys("ALICE")
    assert sorted(names(page)) == ["alice@2", "alice@4", "alice@8"]
    assert find(page, "[aria-label=Ranking] output").text == "3 of 12 agents"
    box.clear()
    box.send_keys("nobody at all")
    assert names(page) == []
    box.send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    assert len(names(page)) == 12
    find(page, "[aria-label=Ranking] input[type=checkbox]").click()
    assert NASTY not in names(page)
    find(page, "[aria-label=Role] option[value=anchor]").click()
    assert sorted(names(page)) == ["bot:middle", "bot:random", "bot:strong"]


def test_provisional_says_why(page, site: Path) -> None:
    go(page, site, "board=math_duel-v0")
    badge = find(page, ".tag.note")
    page.execute_script("arguments[0].focus()", badge)
    assert "fewer than 30 seeds" in tip(page)
    assert badge.get_attribute("aria-describedby") == "tip"


def test_only_rows_in_view_are_in_the_document_and_scrolling_shows_the_rest(
    page, site: Path
) -> None:
    go(page, site, "board=blotto-v0")
    total = CROWD + 2
    assert find(page, "[aria-label=Ranking] .grid").get_attribute("aria-rowcount") == str(total + 1)
    assert 10 < len(names(page)) < 80
    seen, box = set(names(page)), find(page, "[aria-label=Ranking] .grid-scroll")
    for top in range(0, total * 52, 400):
        page.execute_script("arguments[0].scrollTop = arguments[1]", box, top)
        page.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )
        seen |= set(names(page))
    assert len(seen) == total
    assert len(names(page)) < 80
    head(page, "Agent").click()
    assert names(page)[0] == "agent0000"  # and back at the top


# --- matrices, curves ------------------------------------------------------------------------


def test_matrix_cells_explain_themselves_and_are_walked_by_arrow_keys(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    cell = find(page, ".matrix tbody tr:nth-child(1) td:nth-of-type(2)")
    scroll_to(page, cell)
    ActionChains(page).move_to_element(cell).perform()
    lines = tip(page).splitlines()
    assert " against " in lines[0]
    assert "95 %:" in lines[1]
    assert "won" in lines[2]
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
    assert not find(page, "#tip").is_displayed()


def test_the_matrix_shows_points_games_and_surprises(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    few = all_of(page, ".matrix td.few")
    assert len(few) == 2
    for kind, sign in (("games", "6"), ("surprise", ".")):
        button = next(
            b for b in all_of(page, "[aria-label='What the cells show'] button") if b.text == kind
        )
        page.execute_script("arguments[0].click()", button)
        assert button.get_attribute("aria-pressed") == "true"
        assert sign in find(page, ".matrix tbody tr:nth-child(1) td:nth-of-type(2)").text


def test_modes_show_their_own_tables(page, site: Path) -> None:
    go(page, site, "board=split_clues-v0")
    assert find(page, "[aria-label='Who plays well with whom'] .matrix")
    assert all_of(page, "[aria-label='Who beats whom']") == []
    go(page, site, "board=commons-v0")
    assert "of 2" in find(page, "[aria-label='Visitor and resident'] tbody").text


def test_curves_are_drawn_and_read_by_keys(page, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    plot = find(page, ".plot")
    scroll_to(page, plot)
    WebDriverWait(page, 20).until(lambda p: all_of(p, ".plot canvas"))
    page.execute_script("arguments[0].focus()", plot)
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    told = find(page, ".chart output")
    WebDriverWait(page, 20).until(lambda p: told.text.startswith("step 0: "))
    assert "alice" in told.text
    assert "better" in find(page, "[aria-label=Learning] .plain").text


# --- replay ----------------------------------------------------------------------------------


def first_match(page, site: Path) -> str:
    go(page, site, "board=nim-v0")
    find(page, "[aria-label='Filter episodes']").send_keys("img")
    links = "return document.querySelector('[aria-label=Replays] tbody a').href.split('#')[1]"
    return page.execute_script(links)


def test_a_replay_is_opened_from_the_list_and_stepped_by_arrow_keys(page, site: Path) -> None:
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


def test_a_deep_link_opens_at_its_turn(page, site: Path) -> None:
    match = first_match(page, site).split("&")[0]
    page.get("about:blank")
    go(page, site, f"{match}&turn=2")
    assert find(page, ".steps output").text.startswith("step 2 of")
    page.get(f"{site.as_uri()}#{match}&turn=99999")
    WebDriverWait(page, 20).until(lambda p: texts(p, ".steps output") == ["the end"])


def test_replies_are_text_and_refused_ones_say_why(page, site: Path) -> None:
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


def show(page, view: str) -> None:
    """Choose what a replay shows."""
    find(page, f"[aria-label=Shown] option[value='{view}']").click()


def test_a_replay_starts_with_the_game_and_shows_a_seats_view_when_asked(page, site: Path) -> None:
    """The game is nobody's view; a view says whose it is, and stands alone."""
    go(page, site, first_match(page, site))
    assert texts(page, ".seat .view") == []
    assert "nobody's own view" in texts(page, "figure.board figcaption")[0]
    assert find(page, "figure.board svg").get_attribute("aria-label").startswith("Heaps: ")
    for seat in ("0", "1"):
        show(page, seat)
        assert len(texts(page, ".seat .view")) == 1
        assert f"“your” are seat {seat}" in texts(page, ".seat h4")[0]
        assert texts(page, "figure.board") == []
    show(page, "all")
    before = texts(page, ".seat .view")
    assert len(before) == 2
    find(page, "body").send_keys(Keys.END)
    find(page, ".steps input[type=checkbox]").click()
    whole = texts(page, ".seat .view")
    assert len(whole) == 2
    assert sorted(whole) != sorted(before)


def test_a_replay_says_which_move_was_played(page, site: Path) -> None:
    go(page, site, first_match(page, site))
    told = []
    for _ in range(12):
        told += texts(page, ".seat .tag")
        find(page, "body").send_keys(Keys.ARROW_RIGHT)
    assert any(re.fullmatch(r"plays \d \d", word) for word in told)
    assert any(re.fullmatch(r"not accepted: malformed, \d \d is played for it", w) for w in told)
    assert "accepted" not in told


def test_a_replay_plays_by_itself_until_the_end_or_until_it_is_stopped(page, site: Path) -> None:
    go(page, site, first_match(page, site))
    body = find(page, "body")
    body.send_keys("++")
    assert page.execute_script("return document.querySelector('[aria-label=Speed]').value") == "4"
    body.send_keys(" ")
    assert texts(page, ".play") == ["❚❚ pause"]
    body.send_keys(Keys.HOME)  # whoever steps takes over
    assert texts(page, ".play") == ["▶ play"]
    page.execute_script(
        """const told = document.querySelector(".steps output");
        window.seen = [told.textContent];
        new MutationObserver(() => window.seen.push(told.textContent)).observe(told, {childList: true});"""
    )
    find(page, ".play").click()
    WebDriverWait(page, 60).until(lambda p: texts(p, ".steps output") == ["the end"])
    assert texts(page, ".play") == ["▶ play"]
    seen = page.execute_script("return window.seen")
    total = len(seen) - 1
    assert seen == [*(f"step {n} of {total}" for n in range(1, total + 1)), "the end"]


def test_connect_four_is_drawn_with_the_new_piece_ringed(page) -> None:
    """Of a board of two pieces: one disc per seat, and words for those who do not see it."""
    before, after = (f".....\n.....\n{row}\n12345\nX is seat 0." for row in ("..X..", "..XO."))
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


# --- themes and sizes ------------------------------------------------------------------------


def ground(page) -> str:
    return page.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_the_switch_goes_through_the_themes_and_is_remembered(page, site: Path) -> None:
    emulate(page, theme="light")
    light = ground(page)
    button = find(page, ".theme button")
    button.click()  # light
    assert ground(page) == light
    button.click()  # dark
    dark = ground(page)
    assert dark != light
    page.refresh()
    assert ground(page) == dark
    find(page, ".theme button").click()  # auto
    assert ground(page) == light
    emulate(page, theme="dark")
    assert ground(page) == dark


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_sideways_scrolling_and_readable_contrast(
    page, site: Path, width: int, theme: str
) -> None:
    emulate(page, width=width, theme=theme)
    wide = "return document.documentElement.scrollWidth"
    assert page.execute_script(wide) <= width
    for address, selectors in (
        ("board=connect_four-v0", ("h2", ".quiet", ".matrix td.few", ".lead", ".facts dt")),
        ("board=math_duel-v0", (".tag.note",) if width > 500 else ()),
        (
            first_match(page, site),
            ("h4", ".tag.good", ".tag.bad", ".seat-name", ".paid", "figcaption"),
        ),
    ):
        go(page, site, address)
        if "match" in address:
            for _ in range(4):
                if all_of(page, ".tag.bad") and all_of(page, ".paid"):
                    break
                find(page, "body").send_keys(Keys.ARROW_RIGHT)
        assert page.execute_script(wide) <= width, address
        for selector in selectors:
            for element in all_of(page, selector)[:4]:
                assert page.execute_script(CONTRAST, element) >= 4.5, (address, selector)
    go(page, site, "board=connect_four-v0")
    cells = all_of(page, ".matrix :is(td.more, td.less)")
    assert min(page.execute_script(CONTRAST, cell) for cell in cells) >= 4.5


def test_a_phone_shows_the_values_without_scrolling(page, site: Path) -> None:
    emulate(page, width=390)
    right = """return Math.max(...[...document.querySelectorAll(arguments[0])]
        .map((e) => e.getBoundingClientRect().right))"""
    for address, cells in (
        ("", "[aria-label=Environments] tbody td:nth-child(3) > *"),
        ("board=connect_four-v0", "[aria-label=Ranking] tbody td:nth-child(3) > *"),
        ("board=split_clues-v0", "[aria-label=Ranking] tbody td:nth-child(3) > *"),
    ):
        go(page, site, address)
        assert 0 < page.execute_script(right, cells) <= 390 - 12, address


def test_nothing_moves_while_a_board_is_drawn(page, site: Path) -> None:
    page.execute_script(
        "window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach("
        "(e) => { window.moved += e.hadRecentInput ? 0 : e.value; }))"
        ".observe({type: 'layout-shift', buffered: false});"
    )
    page.execute_script("location.hash = 'board=connect_four-v0'")
    arrived(page, "board=connect_four-v0")
    box = find(page, "[aria-label=Ranking] .grid-scroll")
    page.execute_script("window.moved = 0; arguments[0].scrollTop = 500", box)
    scroll_to(page, find(page, ".plot"))
    WebDriverWait(page, 20).until(lambda p: all_of(p, ".plot canvas"))
    page.execute_async_script("setTimeout(arguments[0], 300)")
    assert page.execute_script("return window.moved") < 0.02
