"""A board of eight simulated providers: planned, run, killed, continued, published; the plan beside the bill.

    python -m benchmarks.league.providers_week [GAMES ...] [--seeds 1] [--json FILE]

Published: nim-v0 kuhn_poker-v0 connect_four-v0.5x5x3 negotiation-v0 hanabi_mini-v0 codewords_duet-v0
schema_relay-v0 plan_path-v0 sudoku-v0 solve_and_verify-v0 math_duel-v0 holdem-v0 word_chain-v0.

The clock of the providers runs `SPEED` times as fast as ours: latency, daily limits and the times in
``Retry-After``. The plan is made with the limits as they are, and the run is given the fast ones, so its
hours are seconds times `SPEED`; the processor time of this machine is in them. Everything is done by the
commands that a user gives. The run is killed (SIGKILL) when half of its matches are kept.

Adaptive seeds: three of the models play `SHORT_SEEDS` seeds of short games. On orders of these seeds drawn
anew, the rule of ``--seeds apart`` stops somewhere; ``fixed`` is the smallest number of seeds, decided
before, that separates a pair as often.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.league.adaptive_seeds import fixed_seeds
from benchmarks.league.simulated_providers import PROVIDERS, Server, Simulated, serving
from srl_agents.league.ratings.intervals import compared, looks

SPEED = 1000.0
_DAY_MINUTES = 1440
REPLY_TOKENS = 12
"""Of the plan: a mean reply."""
SHORT = ("nim-v0", "math_duel-v0.easy3")
SHORT_SEEDS, ORDERS = 32, 400
UNLIKE, ALIKE = (0, 3, 5), (0, 1, 2)
"""Places in `PROVIDERS` of three models that differ much, and of three that differ little."""
JOURNAL = "matches.jsonl"
COMMAND = "import sys; from srl_agents.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Desk:
    """Where a user works: a folder, the variables of the environment, and the agents."""

    folder: Path
    environment: dict[str, str]
    agents: list[str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command of boards in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "leaderboard", *words],
            stdout=subprocess.PIPE, env=self.environment, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        """The output of a command that has to succeed."""
        process = self.start(*words)
        output, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(words[:3])} ... ended with {process.returncode}")
        return output


def desk(folder: Path, servers: Sequence[Server], *, fast: bool) -> Desk:
    """A desk with a providers file.

    Args:
        folder: to work in.
        servers: providers that the file lists.
        fast: whether limits are those of the fast clock.
    """
    speed = servers[0].speed if fast else 1.0
    prices = {
        s.provider.name: {s.provider.model: {"input": s.provider.input, "output": s.provider.output}}
        for s in servers
    }  # fmt: skip
    providers = {s.provider.name: _entry(s, speed) for s in servers}
    name = "fast" if fast else "slow"
    listed = {"date": "2026-11-28", "source": "invented for a simulation", "prices": prices}
    (folder / "prices.yaml").write_text(yaml.safe_dump(listed))
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"prices": "prices.yaml", "providers": providers}))
    known = {"SRL_PROVIDERS": str(path), "SRL_KEYS": str(folder / "keys"), "OMP_NUM_THREADS": "1"}
    agents = [f"--agent={s.provider.name}={s.provider.name}:{s.provider.model}" for s in servers]
    return Desk(folder, {**os.environ, **known}, agents)


def _entry(server: Server, speed: float) -> dict[str, Any]:
    provider = server.provider
    daily = provider.listed_per_day or provider.per_day
    entry: dict[str, Any] = {"url": server.url, "requests_per_minute": daily / _DAY_MINUTES * speed}
    if provider.thoughts:
        entry["models"] = {provider.model: {"max_thought_tokens": provider.thoughts}}
    return entry


def kept(run: Path) -> set[str]:
    """Whole lines of the journals of a run."""
    lines: set[str] = set()
    for path in run.glob(f"*/{JOURNAL}"):
        lines.update(
            line for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"
        )
    return lines


def killed_and_continued(at: Desk, command: Sequence[str], planned: int) -> dict[str, Any]:
    """Run, kill when half as many matches are kept as the models play, give the same command again."""
    out, begun_s = at.folder / "run", time.monotonic()
    process = at.start(*command)
    while process.poll() is None and len(kept(out)) < planned / 2:
        time.sleep(0.2)
    if process.poll() is not None:
        raise SystemExit("the run ended before it was killed")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = kept(out)
    again = at.run(*command)
    after = kept(out)
    return {
        "seconds": time.monotonic() - begun_s,
        "matches_at_the_kill": len(before),
        "matches": len(after),
        "kept_matches_lost": len(before - after),
        "runs": json.loads(again),
    }


def measured(server: Server, plan: Sequence[dict[str, Any]], runs: Any) -> dict[str, Any]:
    """One model: the plan, what the board counts, and what the provider charges."""
    provider, bill = server.provider, server.bill
    planned = [row for row in plan if row["agent"] == provider.name]
    usage = [run["endpoints"][provider.name] for run in runs]
    board = {
        "requests": sum(one["replies"] for one in usage),
        "prompt_tokens": sum(one["prompt_tokens"] or 0 for one in usage),
        "reply_tokens": sum(one["completion_tokens"] or 0 for one in usage),
        "cost": sum(one["cost"] or 0.0 for one in usage),
    }
    names = ("requests", "most_requests", "prompt_tokens", "reply_tokens", "cost", "most_cost")
    return {
        "provider": provider.name,
        "plan": {name: round(sum(row[name] for row in planned), 4) for name in names},
        "board": {**board, "cost": round(board["cost"], 4)},
        "bill": {
            **asdict(bill),
            "faults": {kind: n for kind, n in bill.faults.items() if kind},
            "cost": round(bill.cost(provider), 4),
            "not_on_the_board": bill.written - board["requests"],
        },
    }


def week(
    folder: Path, games: Sequence[str], providers: Sequence[Simulated], seeds: int, speed: float = SPEED
) -> dict[str, Any]:  # fmt: skip
    """A board from its plan to its site."""
    with serving(providers, speed) as servers:
        slow, fast = (desk(folder, servers, fast=fast) for fast in (False, True))
        common = [*(games or ["--all"]), f"--seeds={seeds}", *fast.agents]
        plan = json.loads(slow.run("plan", *common, f"--reply-tokens={REPLY_TOKENS}", "--json"))
        entry, board, out = (str(folder / name) for name in ("entry", "board", "run"))
        fast.run("register", *common, "--out", entry)
        fast.run("draw", entry, "--board", board, "--no-limits")
        matches = sum(row["matches"] for row in plan["agents"])
        command = ["run", *common, "--tickets", entry, "--out", out, "--json", "--timeout-s=10"]
        found = killed_and_continued(fast, command, matches)
        runs = found.pop("runs")
        rows = [measured(server, plan["agents"], runs) for server in servers]
    seconds = found["seconds"]
    fast.run("bundle", out)
    fast.run("publish", f"{out}/bundles", "--board", board)
    fast.run("build", "--board", board, "--out", str(folder / "site"))
    return {
        "games": len(plan["seconds"]), "seeds": seeds, "speed": speed, **found,
        "hours": {
            "plan": round(sum(plan["seconds"].values()) / 3600, 2),
            "run": round(seconds * speed / 3600, 2),
        },
        "site_kb": sum(p.stat().st_size for p in (folder / "site").rglob("*") if p.is_file()) >> 10,
        "models": rows,
    }  # fmt: skip


def adaptive(folder: Path, game: str, providers: Sequence[Simulated]) -> list[dict[str, Any]]:
    """Adaptive and fixed seeds of each pair in one game."""
    out = folder / "pairs"
    with serving(providers, 1000 * SPEED) as servers:
        at = desk(folder, servers, fast=True)
        at.run(
            "run", game, "--unregistered", f"--seeds={SHORT_SEEDS}", *at.agents, "--out", str(out)
        )
    earned = earned_by_seed(out / game / JOURNAL)
    return [
        {"game": game, "pair": [one, other], **stopped(earned[one] - earned[other])}
        for one, other in combinations(sorted(earned), 2)
    ]


def earned_by_seed(journal: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Model -> (S,) mean outcome of its seats per seed, over its matches with bots."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in journal.read_text().splitlines():
        match = json.loads(line)[1]
        models = {name for name in match["seats"] if not name.startswith("bot:")}
        if len(models) != 1 or len({*match["seats"]}) == 1:
            continue
        (model,) = models
        held = zip(match["seats"], match["result"]["outcomes"], strict=True)
        found[model][match["seed"]].append(float(np.mean([x for name, x in held if name == model])))
    seeds = sorted({seed for own in found.values() for seed in own})
    return {model: np.array([np.mean(own[seed]) for seed in seeds]) for model, own in found.items()}


def stopped(gap_S: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Where the rule stops on orders of the seeds drawn anew with replacement, and fixed seeds beside it."""
    rng, planned = np.random.default_rng(0), looks(gap_S.size)
    gap_RS = rng.choice(gap_S, (ORDERS, gap_S.size))
    seeds, apart = [], []
    for order in gap_RS:
        for n in planned:
            found = compared("one", "other", order[:n], len(planned))
            if found.apart or n == planned[-1]:
                seeds.append(n)
                apart.append(found.apart)
                break
    power = float(np.mean(apart))
    return {
        "difference": round(float(gap_S.mean()), 4),
        "apart": round(power, 4),
        "adaptive": round(float(np.mean(seeds)), 1),
        "fixed": fixed_seeds(gap_RS, power) if power > 0.1 else None,
    }


def used() -> dict[str, float]:
    """Minutes of processor time so far: of all, and of the simulated providers among them."""
    ours, children = (
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    everything = sum(u.ru_utime + u.ru_stime for u in (ours, children))
    return {"all": round(everything / 60, 1), "providers": round(ours.ru_utime / 60, 1)}


def keep(found: dict[str, Any], path: Path | None) -> None:
    """Write what was found so far, where a file is named."""
    if path:
        path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("games", nargs="*", help="protocols; all if absent")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--speed", type=float, default=SPEED)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = week(Path(place), options.games, PROVIDERS, options.seeds, options.speed)
    found |= {"load_average": os.getloadavg()[2], "cpu_minutes": used()}
    keep(found, options.json)
    found["adaptive_seeds"] = []
    for places, game in product((UNLIKE, ALIKE), SHORT):
        with tempfile.TemporaryDirectory() as place:
            chosen = [PROVIDERS[k] for k in places]
            found["adaptive_seeds"] += adaptive(Path(place), game, chosen)
    print(json.dumps(found, indent=1))
    keep(found, options.json)


if __name__ == "__main__":
    main()
