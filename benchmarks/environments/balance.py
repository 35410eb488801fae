"""Balance of the environments: bot against bot, and what is known to earn more, with intervals.

    python -m benchmarks.environments.balance [ENV ...] [--quick] [--seeds N] [--rewrite]

A cell of a payoff matrix is the mean outcome of the bot of its row in one seat while the bot of its
column sits in all the others; each seed is played once with the row's bot in every seat, so that
neither a lucky start nor a seat counts. Intervals are at 95 %, by Student's t over seeds, because
games of one seed share their start. What policies without thought earn is taken from the last published
attack of `srl redteam`. Measured environments are merged into the file of numbers, the page is written
from that file, and the program ends with code 1 where a strong bot does not clearly beat a random one.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

import srl_envs
from benchmarks.environments.balance_page import report
from benchmarks.environments.bot_matches import LEAST_SEEDS, Balance, Estimate, measure

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/balance.json"
REPORT = ROOT / "docs/environments/balance.md"
DEFAULT_SEEDS = 60
SEEDS = {
    "chess-v0": 16,
    "code_duel-v0": 6,
    "codewords_duet-v0": 30,
    "commons-v1": 180,
    "connect_four-v0": 12,
    "expedition-v0": 40,
    "holdem-v0": 30,
    "pair_programming-v0": 8,
    "plan_path-v0": 20,
    "puzzles-v0": 60,
    "sudoku-v0": 20,
    "sokoban-v0": 16,
    "spec_golf-v0": 8,
    "test_and_code-v0": 12,
    "treaties-v0": 30,
    "undercover-v0": 30,
    "werewolf-v0": 40,
    "word_chain-v0": 20,
}
"""Environments whose bots search or run programs get fewer."""
LOOK_AHEAD_S, QUICK_LOOK_AHEAD_S = 25.0, 3.0
"""Seconds of processor time per environment."""


def loaded(data: Mapping[str, Any]) -> Balance:
    """The inverse of `dataclasses.asdict`."""

    def read(numbers: Any) -> Any:
        return None if numbers is None else Estimate(**numbers)

    payoffs = {
        row: {column: read(cell) for column, cell in cells.items()}
        for row, cells in data["payoffs"].items()
    }
    by_bot = {
        name: {bot: read(cell) for bot, cell in data[name].items()}
        for name in ("ladder", "beside_strong", "teams")
    }
    names = ("separation", "among_all", "look_ahead", "seat_gap", "mover_gap")
    single = {name: read(data[name]) for name in names}
    return Balance(**{**data, "payoffs": payoffs, **by_bot, **single})


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write numbers and report; 1 where a strong bot does not clearly beat a random one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("envs", nargs="*", metavar="ENV", help="all registered ones by default")
    parser.add_argument("--seeds", type=int, help="a number of its own per environment by default")
    parser.add_argument("--quick", action="store_true", help="a sixth of the seeds, to try it")
    parser.add_argument("--rewrite", action="store_true", help="play nothing, write the page again")
    parser.add_argument("--json", type=Path, default=RESULTS, help="the file of numbers")
    parser.add_argument("--report", type=Path, default=REPORT, help="the page")
    options = parser.parse_args(argv)
    if options.seeds is not None and options.seeds < 2:
        parser.error(f"--seeds {options.seeds}: an interval needs 2 or more.")
    results = _known(options.json)
    chosen = (
        []
        if options.rewrite
        else options.envs
        or [env_id for env_id in srl_envs.list_envs() if srl_envs.spec(env_id).is_installed]
    )
    for env_id in tqdm(chosen, unit="game", disable=None):
        spec = srl_envs.spec(env_id)
        seeds = options.seeds or SEEDS.get(spec.id, DEFAULT_SEEDS)
        ahead_s = QUICK_LOOK_AHEAD_S if options.quick else LOOK_AHEAD_S
        seeds = max(LEAST_SEEDS, seeds // 6) if options.quick else seeds
        found = measure(spec.id, seeds, ahead_s)
        results[spec.id] = asdict(found)
        tqdm.write(f"{spec.id:22} strong - random {found.separation}  ({found.cpu_s:.0f} s)")
        data = {
            "command": "python -m benchmarks.environments.balance",
            "python": platform.python_version(),
            "srl": srl_envs.__version__,
            "environments": dict(sorted(results.items())),
        }
        options.json.write_text(json.dumps(data, indent=1) + "\n")
    balances = [loaded(data) for _, data in sorted(results.items())]
    provenance = f"SRL {srl_envs.__version__}, Python {platform.python_version()}, split train."
    options.report.write_text(report(balances, provenance))
    weak = [b.env for b in balances if not b.separated]
    for env_id in weak:
        print(f"{env_id}: strong does not clearly beat random.", file=sys.stderr)
    return int(bool(weak))


def _known(path: Path) -> dict[str, Any]:
    """What the file of numbers has of environments that there still are."""
    if not path.is_file():
        return {}
    data: dict[str, Any] = json.loads(path.read_text())["environments"]
    fields = set(Balance.__dataclass_fields__)
    listed = srl_envs.list_envs()
    return {env: found for env, found in data.items() if env in listed and set(found) == fields}


if __name__ == "__main__":
    sys.exit(main())
