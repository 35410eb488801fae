"""Kill a running league with scripted bots at random moments; see what was lost and how it ends.

    python -m benchmarks.league.kills [--kills 50] [--json FILE]

A run of nim plays in a process of its own and is killed (SIGKILL, the whole group) at a random number
of stored matches, over and over, each time continued by the same command. Before each kill a reader
notes every match in the store: those were acknowledged. After it, all of them must be there unchanged,
and every match that was leased must later be played under the same id, hence the same seed. In the
end the contents and the ratings must be those of an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.ratings.tables import rate
from srl_agents.league.store.history import LeagueStore
from srl_agents.records import MatchResult
from srl_envs.errors import StoreError

RECIPE = """
name: kills
env: nim-v0
agents:
  - {bot: random, role: anchor}
  - {bot: middle}
  - {bot: strong, role: main}
  - {bot: held_out, role: heldout}
matches: 12800
batch: 8
matchmaking: {block: 64, evaluation_share: 0.5, sampler: pfsp_variance}
"""
CHILD = """
import sys
from pathlib import Path
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.training.population.rounds import PopulationRun
run = PopulationRun(read_recipe(Path(sys.argv[1])), Path(sys.argv[2]))
run.run()
run.close()
"""


def start(recipe: Path, run: Path) -> subprocess.Popen[bytes]:
    """The league in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(recipe), str(run)], start_new_session=True
    )


def stored(run: Path) -> int:
    """Matches in the store; 0 before there is one."""
    try:
        with LeagueStore(run / "league.db", mode="read") as store:
            return store.count()
    except StoreError:
        return 0


def acknowledged(run: Path) -> dict[str, MatchResult]:
    """Every match that a reader sees."""
    with LeagueStore(run / "league.db", mode="read") as store:
        return {result.match_id: result for _, result in store.matches()}


def leased(run: Path) -> set[str]:
    """Ids of the matches that were being played."""
    with LeagueStore(run / "league.db", mode="read") as store:
        return {lease.spec.match_id for lease in store.leases()}


def outcome(run: Path) -> tuple[str, list[tuple[str, float, float]]]:
    """Digest of the contents, and the ratings."""
    with LeagueStore(run / "league.db", mode="read") as store:
        table = rate(store.pairs("nim-v0"), anchors=["bot:random"])
        return store.content_digest(), [(r.agent, r.elo, r.half_width) for r in table.ratings]


def main() -> None:
    """Print what was lost and whether the ends are equal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        recipe, run, calm = (Path(folder) / name for name in ("recipe.yaml", "run", "calm"))
        recipe.write_text(RECIPE)
        aims = np.sort(rng.integers(1, 12_000, size=options.kills))
        lost = changed = kills = in_flight = 0
        open_leases: set[str] = set()
        for aim in aims:
            process = start(recipe, run)
            while process.poll() is None and stored(run) < aim:
                time.sleep(0.005)
            time.sleep(float(rng.random()) * 0.05)
            before = acknowledged(run)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
            process.wait()
            after = acknowledged(run)
            lost += sum(key not in after for key in before)
            changed += sum(key in after and after[key] != result for key, result in before.items())
            interrupted = leased(run)
            in_flight += len(interrupted)
            open_leases |= interrupted
            print(f"kill {kills}: {len(after)} matches, {len(interrupted)} in flight", flush=True)
        if start(recipe, run).wait() or start(recipe, calm).wait():
            raise SystemExit("an undisturbed run did not finish")
        final = acknowledged(run)
        found: dict[str, Any] = {
            "kills": kills,
            "acknowledged_lost": lost,
            "acknowledged_changed": changed,
            "in_flight_at_kills": in_flight,
            "in_flight_never_played": sum(key not in final for key in open_leases),
            "matches": len(final),
            "equal_contents": outcome(run)[0] == outcome(calm)[0],
            "equal_ratings": outcome(run)[1] == outcome(calm)[1],
        }
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
