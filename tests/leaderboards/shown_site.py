"""A site with every kind of board, opened in a browser, and how its tests read it.

A page may be drawn again between two commands to the browser. So tests wait until the page names the
address it shows (`arrived`), and read texts in one command (`texts`), never element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from leaderboards.pages.build import store_site, write_site
from srl_agents.agents.players import ScriptedPolicy
from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from tests.browser import chromium, fresh, requested
from tests.leaderboards.synthetic import fill_store

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

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
    runner = Rollouts(names, root_seed=0)
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
            result = MatchResult(
                match_id=spec.match_id, outcomes=(won, -won), rewards=(won, -won), termination="ok"
            )
            matches.append((spec, result))
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
                **words, "submitter": NASTY, "attempts": {"registered": 3, "owners": 3, "declared": 1},
                "endpoint": {"provider": "", "model": "m", "dated_model": NASTY, "url": "https://x"},
                "verified": "2030-01-02T03:04:05+00:00", "signed": True,
            }  # fmt: skip
    board["protocol"] = board["env_id"]
    for row in board["agents"]:
        row["exploited"] = None
    board["agents"][0]["exploited"] = {
        "mean": 0.25, "low": 0.125, "high": 0.375, "seeds": 80, "exploiter": NASTY,
        "budget": "60 s of one processor, seed 0", "searches": 1, "when": "2030-01-02T03:04:05+00:00",
    }  # fmt: skip
    board["earlier"] = [
        {
            "bundle": "connect_four-v0/ab", "agents": ["alice@2", NASTY],
            "published": "2030-01-02T03:04:05+00:00",
            "changed": "of 60 matches between references, 4 judge the same replies differently",
        }
    ]  # fmt: skip
    data["differences"] = [f"connect_four-v0: {NASTY} is new, rank 3"]
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
    fill_store(folder / "league.db", env_id="commons-v1", seeds=3, root=3)
    with LeagueStore(folder / "league.db") as store:
        add_agents(store, NASTY)
        spec = MatchSpec(env_id="connect_four-v0", seed=0, split="eval", seats=(NASTY, "base"))
        result = MatchResult(
            match_id=spec.match_id, outcomes=(0.0, 0.0), rewards=(0.0, 0.0), termination="ok"
        )
        store.report(spec, result)
        fill_replays(folder, store)
        fill_crowd(store)
        data, episodes = store_site(store, folder / TRANSCRIPTS, command=f"build {NASTY}")
        enter(data)
        return write_site(data, folder / "site", episodes)


@pytest.fixture
def page(browser: WebDriver, site: Path) -> Iterator[Any]:
    """The overview, freshly opened; afterwards: nothing on the console, nothing fetched elsewhere."""
    fresh(browser, site.as_uri())
    arrived(browser, "")
    yield browser
    assert browser.get_log("browser") == []
    urls = requested(browser)
    assert site.as_uri() in [url.partition("#")[0] for url in urls]
    assert [u for u in urls if not u.startswith((site.parent.as_uri(), "data:"))] == []
    assert browser.title.endswith("SRL leaderboards")
    assert browser.find_elements("tag name", "img") == []


def go(page: WebDriver, site: Path, address: str) -> Any:
    """A board or a match."""
    page.get(f"{site.as_uri()}#{address}")
    return arrived(page, address)


def arrived(page: WebDriver, address: str) -> Any:
    """Wait until the page reports the address that it shows."""
    shown = "const {dataset, ariaBusy} = document.querySelector('main'); return !ariaBusy && dataset.shown"
    wait_until(page, lambda p: p.execute_script(shown) == address)
    return page


def wait_until(page: WebDriver, condition: Callable[[Any], Any], seconds: int = 20) -> None:
    """Ask again and again; a condition reads the page in one command."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page, seconds).until(condition)


def texts(page: WebDriver, selector: str) -> list[str]:
    """What all elements say, read in one command."""
    read = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)"
    found: list[str] = page.execute_script(read, selector)
    return found


def all_of(page: WebDriver, selector: str) -> list[Any]:
    return page.find_elements("css selector", selector)


def find(page: WebDriver, selector: str) -> Any:
    return page.find_element("css selector", selector)


def names(page: WebDriver, card: str = "Ranking") -> list[str]:
    read = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return page.execute_script(read, f"[aria-label='{card}'] .grid tbody th .agent > .name")


def head(page: WebDriver, label: str, card: str = "Ranking") -> Any:
    heads = all_of(page, f"[aria-label='{card}'] .grid thead button")
    return next(h for h in heads if h.text.strip("▾▴ ") == label)


def tip(page: WebDriver) -> str:
    return find(page, "#tip").text


def first_match(page: WebDriver, site: Path) -> str:
    go(page, site, "board=nim-v0")
    find(page, "[aria-label='Filter episodes']").send_keys("img")
    links = "return document.querySelector('[aria-label=Replays] tbody a').href.split('#')[1]"
    return str(page.execute_script(links))


def scroll_to(page: WebDriver, element: Any) -> None:
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
