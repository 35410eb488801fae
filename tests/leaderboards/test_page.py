"""The site in a real browser, opened from disk: sort, filter, origins, themes, phone, no request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import CONTRAST, emulate, violations
from tests.leaderboards.shown_site import (
    CROWD,
    NASTY,
    all_of,
    arrived,
    find,
    first_match,
    go,
    head,
    names,
    scroll_to,
    texts,
    tip,
    wait_until,
)
from tests.leaderboards.synthetic import agents

pytestmark = pytest.mark.slow
pytest.importorskip("selenium.webdriver", reason="needs the package selenium")
from selenium.webdriver import ActionChains  # noqa: E402  (after the skip)
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webdriver import WebDriver  # noqa: E402

# --- overview --------------------------------------------------------------------------------


def test_the_overview_names_the_best_of_every_environment(page: WebDriver) -> None:
    found = texts(page, "[aria-label=Environments] tbody tr:not(.spacer)")
    rows = {row.split()[0]: row for row in found}
    assert set(rows) == {
        "blotto-v0", "commons-v1", "connect_four-v0", "math_duel-v0", "nim-v0", "split_clues-v0",
    }  # fmt: skip
    assert "bot:strong" in rows["connect_four-v0"] or "alice@8" in rows["connect_four-v0"]
    assert "cooperative" in rows["split_clues-v0"]
    cell = find(page, ".ranks td.more")
    scroll_to(page, cell)
    ActionChains(page).move_to_element(cell).perform()
    assert "rank" in tip(page)


def test_a_board_opens_by_link_and_by_menu_and_back_returns(page: WebDriver, site: Path) -> None:
    page.find_element(By.LINK_TEXT, "math_duel-v0").click()
    assert texts(arrived(page, "board=math_duel-v0"), "h2") == ["math_duel-v0"]
    assert page.title.startswith("math_duel-v0")
    find(page, "#boards option[value='split_clues-v0']").click()
    assert texts(arrived(page, "board=split_clues-v0"), "h2") == ["split_clues-v0"]
    page.back()
    assert texts(arrived(page, "board=math_duel-v0"), "h2") == ["math_duel-v0"]
    page.refresh()
    assert texts(arrived(page, "board=math_duel-v0"), "h2") == ["math_duel-v0"]


def test_unknown_boards_and_matches_are_said(page: WebDriver, site: Path) -> None:
    assert "no board nowhere" in find(go(page, site, "board=nowhere"), "[role=alert]").text
    assert "not a match id" in find(go(page, site, "match=../x"), "[role=alert]").text


def test_the_overview_stands_whole_and_says_what_is_measured(page: WebDriver) -> None:
    inner = "const {scrollHeight, clientHeight} = arguments[0]; return scrollHeight - clientHeight"
    box = find(page, "[aria-label=Environments] .grid-scroll")
    assert page.execute_script(inner, box) == 0
    (text,) = texts(page, "#measured")
    for word in ("Elo", "strangers", "per seat", "ranked", "interval", "the farther one"):
        assert word in text
    assert texts(page, "[aria-label='Set aside'] li") == [f"nim-v0/{NASTY} {NASTY}"]


def test_every_page_is_described_and_every_table_and_figure_has_a_caption(
    page: WebDriver, site: Path
) -> None:
    assert find(page, "meta[name=description]").get_attribute("content")
    assert find(page, "html").get_attribute("lang") == "en"
    for mark in ("header", "nav[aria-label]", "main", "footer"):
        assert len(all_of(page, f"body {mark}")) == 1, mark
    addresses = ["board=connect_four-v0", "board=split_clues-v0", "board=commons-v1"]
    for address in ["", *addresses, first_match(page, site)]:
        go(page, site, address)
        for kind, caption in (("table", "caption"), ("figure", "figcaption")):
            named = "const text = (e) => e.querySelector(arguments[1])?.textContent.trim() || '';"
            every = "return [...document.querySelectorAll('main ' + arguments[0])].map(text)"
            found = page.execute_script(named + every, kind, caption)
            assert all(found), (address, kind, found)
            assert found or kind == "figure", address


# --- ranking ---------------------------------------------------------------------------------


def test_the_table_shows_the_ratings_best_first(page: WebDriver, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    truth = {agent.agent_id: elo for agent, elo in agents()}
    shown = names(page)
    assert len(shown) == len(truth) + 1
    assert {shown[0], shown[1]} == {"bot:strong", "alice@8"}
    assert "bot:random" in shown[-3:]
    row = find(page, "[aria-label=Ranking] tbody tr:not(.spacer)").text
    assert "±" in row
    assert "%" in row


def test_names_are_text_whatever_they_contain(page: WebDriver, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    assert NASTY in names(page)
    assert find(page, "#command").text == f"build {NASTY}"


def test_sorting_by_mouse_and_by_keyboard(page: WebDriver, site: Path) -> None:
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


def test_every_column_of_every_mode_sorts_without_losing_a_row(page: WebDriver, site: Path) -> None:
    for board in ("connect_four-v0", "split_clues-v0", "commons-v1"):
        go(page, site, f"board={board}")
        everyone = sorted(names(page))
        for button in all_of(page, "[aria-label=Ranking] .grid thead button"):
            for _ in range(2):
                page.execute_script("arguments[0].click()", button)
                assert sorted(names(page)) == everyone, (board, button.text)


def test_every_mode_says_what_its_number_is(page: WebDriver, site: Path) -> None:
    for board, words in (
        ("connect_four-v0", ("Elo", "the mean of the anchors", "64 %")),
        ("split_clues-v0", ("cross-play", "neither itself nor of its lineage")),
        ("commons-v1", ("focal return", "per seat")),
    ):
        (text,) = texts(go(page, site, f"board={board}"), "#measured")
        for word in (*words, "ranked by it", "95 % interval over seeds"):
            assert word in text, (board, word)
        assert ("farther side" in text) is ("Elo" in text)
        assert ("half of the 95 %" in text) is ("Elo" not in text)


def test_names_that_have_room_are_not_cut(page: WebDriver, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    cut = """return [...document.querySelectorAll(".agent > .name")]
        .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"""
    assert page.execute_script(cut) in ([], [NASTY])
    go(page, site, "")
    cut = """return [...document.querySelectorAll(".ranks thead span, .grid tbody .name")]
        .filter((e) => Math.max(e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth) > 1
          && getComputedStyle(e).display !== "inline").map((e) => e.textContent)"""
    assert page.execute_script(cut) == []


def test_a_row_says_who_submitted_it_and_how_it_was_checked(page: WebDriver, site: Path) -> None:
    """On request, all of it; whatever the submitter wrote is text."""
    go(page, site, "board=connect_four-v0")
    box = find(page, "[aria-label='Filter agents']")
    box.send_keys("alice@8")
    (row,) = texts(page, "[aria-label=Ranking] tbody tr:not(.spacer)")
    for word in ("endpoint", f"by {NASTY}", "3 / 1", "L2", "× 40", "L3", "× 26"):
        assert word in row.replace("\u2009", " "), word
    button = find(page, ".agent > .name")
    button.send_keys(Keys.ENTER)
    (text,) = texts(page, "dialog")
    for word in (
        "Its weights cannot be proven", "3 registrations of this agent with the board, 1 declared",
        "L2, the lowest of 66",
        "40 matches at L2, 26 matches at L3", "signed with the board's key", "2030-01-02 03:04",
    ):  # fmt: skip
        assert word in text, word
    assert text.count(NASTY) == 6  # submitter, dated model, training data, srl, commit, command
    assert all_of(page, "dialog img") == all_of(page, "dialog a") == []
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert texts(page, "dialog") == []
    assert page.switch_to.active_element == button
    box.clear()
    box.send_keys("bot:strong")
    find(page, ".agent > .name").click()
    assert "plays in every bundle: it has no submitter" in texts(page, "dialog")[0]


def test_a_row_says_how_far_it_can_be_beaten_or_that_nobody_tried(
    page: WebDriver, site: Path
) -> None:
    go(page, site, "board=connect_four-v0")
    cells = texts(page, "[aria-label=Ranking] td[data-label=Exploitable]") or texts(
        page, "[aria-label=Ranking] tbody tr:not(.spacer)"
    )
    assert "\u2265 0.125 to 0.375" in cells[0]
    assert "not tried" in cells[1]
    find(page, ".agent > .name").click()
    (text,) = texts(page, "dialog")
    assert (
        f"at least 0.125: {NASTY}, +0.250 in [+0.125, +0.375] over 80 held-out seeds; 60 s" in text
    )


def test_earlier_epochs_say_what_changed_and_the_first_page_what_is_new(
    page: WebDriver, site: Path
) -> None:
    (card,) = texts(page, "[aria-label='Earlier epochs']")
    assert "connect_four-v0 1 bundle of earlier epochs" in card
    (card,) = texts(page, "[aria-label='Since the last site'] li")
    assert card == f"connect_four-v0: {NASTY} is new, rank 3"
    go(page, site, "board=connect_four-v0")
    card, *_ = texts(page, "[aria-label='Earlier epochs']")
    for word in ("2030-01-02", f"alice@2, {NASTY}", "4 judge the same replies differently"):
        assert word in card
    go(page, site, "board=nim-v0")
    assert texts(page, "[aria-label='Earlier epochs']") == []


def test_filters_count_what_is_left(page: WebDriver, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    box = find(page, "[aria-label='Filter agents']")
    box.send_keys("ALICE")
    assert sorted(names(page)) == ["alice@2", "alice@4", "alice@8"]
    assert find(page, "[aria-label=Ranking] output").text == "3 of 12 agents"
    box.clear()
    box.send_keys("no such agent")
    assert names(page) == []
    box.send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    assert len(names(page)) == 12
    find(page, "[aria-label=Ranking] input[type=checkbox]").click()
    assert NASTY not in names(page)
    find(page, "[aria-label=Role] option[value=anchor]").click()
    assert sorted(names(page)) == ["bot:middle", "bot:random", "bot:strong"]


def test_provisional_says_why(page: WebDriver, site: Path) -> None:
    go(page, site, "board=math_duel-v0")
    badge = find(page, ".tag.note")
    page.execute_script("arguments[0].focus()", badge)
    assert "fewer than 30 seeds" in tip(page)
    assert badge.get_attribute("aria-describedby") == "tip"


def test_only_rows_in_view_are_in_the_document_and_scrolling_shows_the_rest(
    page: WebDriver, site: Path
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


def test_matrix_cells_explain_themselves_and_are_walked_by_arrow_keys(
    page: WebDriver, site: Path
) -> None:
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


def test_the_matrix_shows_points_games_and_surprises(page: WebDriver, site: Path) -> None:
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


def test_modes_show_their_own_tables(page: WebDriver, site: Path) -> None:
    go(page, site, "board=split_clues-v0")
    assert find(page, "[aria-label='Who plays well with whom'] .matrix")
    assert all_of(page, "[aria-label='Who beats whom']") == []
    go(page, site, "board=commons-v1")
    assert "of 2" in find(page, "[aria-label='Visitor and resident'] tbody").text


def test_curves_are_drawn_and_read_by_keys(page: WebDriver, site: Path) -> None:
    go(page, site, "board=connect_four-v0")
    plot = find(page, ".plot")
    scroll_to(page, plot)
    wait_until(page, lambda p: all_of(p, ".plot canvas"))
    page.execute_script("arguments[0].focus()", plot)
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    output = find(page, ".chart output")
    wait_until(page, lambda p: output.text.startswith("step 0: "))
    assert "alice" in output.text
    assert "better" in find(page, "[aria-label=Learning] .plain").text


# --- themes and sizes ------------------------------------------------------------------------


def ground(page: WebDriver) -> str:
    return page.execute_script("return getComputedStyle(document.body).backgroundColor")


def test_the_switch_goes_through_the_themes_and_is_remembered(page: WebDriver, site: Path) -> None:
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
    page: WebDriver, site: Path, width: int, theme: str
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
        assert violations(page) == [], address
        for selector in selectors:
            for element in all_of(page, selector)[:4]:
                assert page.execute_script(CONTRAST, element) >= 4.5, (address, selector)
    for address in ("", "board=split_clues-v0", "board=commons-v1", "board=blotto-v0"):
        assert violations(go(page, site, address)) == [], address
    go(page, site, "board=connect_four-v0")
    cells = all_of(page, ".matrix :is(td.more, td.less)")
    assert min(page.execute_script(CONTRAST, cell) for cell in cells) >= 4.5


def test_a_phone_shows_the_values_without_scrolling(page: WebDriver, site: Path) -> None:
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


@pytest.mark.nightly
def test_nothing_moves_while_a_board_is_drawn(page: WebDriver, site: Path) -> None:
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
    wait_until(page, lambda p: all_of(p, ".plot canvas"))
    page.execute_async_script("setTimeout(arguments[0], 300)")
    assert page.execute_script("return window.moved") < 0.02
