"""A leaderboard of ten thousand agents and a million matches: build its site, open it, scroll it.

    python -m benchmarks.league.big_site [--agents 10000] [--matches 1000000] [--games 1] [--json FILE]
    python -m benchmarks.league.big_site --agents 200 --matches 5000 --games 22

Every agent meets a pool of anchors in mirrored pairs on common seeds, as the protocols have it. The
store is filled (not part of the measurement), `srl leaderboard build` runs as a process of its own
(wall time, processor time, peak memory), and the site is opened in Chromium from disk: time from the
click on the board to its drawn table, frames while the table scrolls by most of a screen each, sorting,
filtering, and the number of table rows in the document. Of the first page: the bytes that it loads, and the
time from its request to its first drawn content. With several games each agent plays as many matches of each,
and half of the agents leave every third game out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec
from srl_envs import list_envs

ENV = "connect_four-v0"
POOL = 10
BATCH = 10_000
FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
SCROLL = """
const [box, done] = [document.querySelector("[aria-label=Ranking] .grid-scroll"), arguments[0]];
const frames = [];
let last = performance.now();
requestAnimationFrame(function step(now) {
  frames.push(now - last);
  last = now;
  box.scrollTop = (box.scrollTop + 600) % (box.scrollHeight - box.clientHeight);
  frames.length < 300 ? requestAnimationFrame(step) : done(frames.slice(10));
});
"""
OPEN = """
const [slug, done] = arguments, started = performance.now();
new MutationObserver((_, observer) => {
  if (!document.querySelector("[aria-label=Ranking] tbody tr:nth-child(5)")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
}).observe(document.body, {childList: true, subtree: true});
location.hash = "board=" + slug;
"""
TIMED = """
const [selector, done] = arguments, started = performance.now();
const target = [...document.querySelectorAll(selector)].at(-1);
if (target.tagName === "INPUT") {
  target.value = "agent012";
  target.dispatchEvent(new Event("input"));
} else target.click();
requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
"""


def rows(
    agents: int, per_agent: int, env_id: str = ENV, game: int = 0
) -> Iterator[tuple[MatchSpec, MatchResult]]:
    """Matches of agents against the pool: seeds x seats, outcomes by Bradley-Terry with ties."""
    rng = np.random.default_rng(game)
    skill = rng.normal(0, 1.2, agents + POOL)
    seeds = max(1, per_agent // (2 * POOL))
    for number in range(agents):
        if game % 3 == 2 and number % 2:
            continue
        for k in range(POOL):
            for seed in range(seeds):
                for turned in (False, True):
                    seats = (f"bot:pool{k}", f"agent{number:05d}")[:: 1 if turned else -1]
                    gap = skill[number] - skill[agents + k]
                    won = 1.0 if rng.random() < 1 / (1 + np.exp(-gap)) else -1.0
                    won = 0.0 if rng.random() < 0.08 else won
                    spec = MatchSpec(
                        env_id=env_id, seed=seed, split="eval", seats=seats, cluster=f"seed {seed}/{k}",
                        schedule="board/big", number=number,
                    )  # fmt: skip
                    outcomes = (-won, won) if turned else (won, -won)
                    yield (
                        spec,
                        MatchResult(
                            match_id=spec.match_id, outcomes=outcomes, rewards=outcomes, termination="ok",
                            invalid_replies=(0, int(rng.random() < 0.02)), turns=20,
                            tokens=(0, 30 + number % 97),
                        ),
                    )  # fmt: skip


def fill(path: Path, agents: int, matches: int, games: int = 1) -> int:
    """Make the store; returns the number of its matches."""
    count, batch = 0, []
    with LeagueStore(path) as store:
        for name in (f"bot:pool{k}" for k in range(POOL)):
            store.add_agent(AgentVersion(agent_id=name, lineage=name, role="anchor"))
        for number in range(agents):
            name = f"agent{number:05d}"
            store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
        envs = [ENV, *(env for env in list_envs() if env != ENV)][:games]
        for row in chain.from_iterable(
            rows(agents, matches // agents, env, game) for game, env in enumerate(envs)
        ):
            batch.append(row)
            count += 1
            if len(batch) == BATCH:
                store.report_many(batch)
                batch = []
                print(f"\r{count:,} matches stored", end="", flush=True)
        store.report_many(batch)
    print(f"\r{count:,} matches stored")
    return count


def build(store: Path, site: Path) -> dict[str, float]:
    """Run the command; wall and processor seconds, and its peak memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    command = ["leaderboard", "build", "--store", str(store), "--out", str(site)]
    subprocess.run([sys.executable, "-m", "srl_agents.cli.main", *command], check=True)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall_s": round(wall, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mib": round(after.ru_maxrss / 1024, 0),
        "site_mib": round(sum(f.stat().st_size for f in site.rglob("*") if f.is_file()) / 2**20, 1),
    }


def page_bytes(site: Path) -> int:
    """Bytes of the first page and of everything that it loads."""
    page = (site / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'(?:src|href)="(assets/[^"]+)"', page)
    return len(page.encode()) + sum(int((site / name).stat().st_size) for name in loaded)


def browse(site: Path) -> dict[str, Any]:
    """What a reader waits for, in milliseconds."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in [*FLAGS.split(), f"--user-data-dir={tempfile.mkdtemp()}", "--window-size=1280,900"]:
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_script_timeout(240)
    try:
        browser.get((site / "index.html").as_uri())
        timing = browser.execute_script(
            "const t = performance.getEntriesByType('navigation')[0];"
            "return t.loadEventEnd - t.startTime;"
        )
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        drawn = browser.execute_script(f"return {paint}")
        kilobytes = page_bytes(site) / 1000
        board = browser.execute_async_script(OPEN, ENV)
        frames = np.array(browser.execute_async_script(SCROLL))
        in_document = "return document.querySelectorAll('[aria-label=Ranking] tbody tr').length"
        found = {
            "overview_load_ms": timing,
            "overview_drawn_ms": drawn,
            "overview_kb": kilobytes,
            "board_open_ms": board,
            "scroll_frame_ms": {
                "median": float(np.median(frames)),
                "p95": float(np.quantile(frames, 0.95)),
                "max": float(frames.max()),
            },
            "table_rows_in_document": browser.execute_script(in_document),
            "sort_ms": browser.execute_async_script(
                TIMED, "[aria-label=Ranking] thead th:nth-child(2) button"
            ),
            "filter_ms": browser.execute_async_script(TIMED, "[aria-label='Filter agents']"),
        }
    finally:
        browser.quit()
    rounded: dict[str, Any] = json.loads(
        json.dumps(found), parse_float=lambda x: round(float(x), 1)
    )
    return rounded


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--matches", type=int, default=1_000_000)
    parser.add_argument("--games", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for store and site; used again if there")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / "league.db"
        if not store.exists():
            fill(store, options.agents, options.matches, options.games)
        with LeagueStore(store, mode="read") as read:
            matches = read.count()
        result = {
            "agents": options.agents + POOL,
            "matches": matches,
            "build": build(store, folder / "site"),
            "browser": browse(folder / "site"),
            "load_average": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
