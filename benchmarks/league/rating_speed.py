"""Fit a million matches between 100 agents: seconds, memory, rank correlation, beside other packages.

    python -m benchmarks.league.rating_speed [--peers PYTHON] [--matches 1000000] [--json FILE]

Every contestant is a process of its own: it makes the same matches, then fits under the clock (CPU
seconds of the process; making and converting the input is not counted). Memory is the peak
resident size during the fit above that before it (Linux). ``--peers`` is the Python of an environment
that has evalica, openskill and choix. SRL gives an interval for every agent and pair in that time; the
others do not. openskill is an online system, one Python call per match, and gets a tenth of the
matches; its seconds are multiplied by ten. choix does not support ties: they are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

AGENTS = 100
CONTESTANTS = ("SRL", "evalica bradley_terry", "choix ilsr_pairwise", "openskill PlackettLuce")
TENTH = "openskill PlackettLuce"


def data(matches: int) -> tuple[Any, Any, Any, Any]:
    """Skills, and the columns a, b, score of matches; 15 % ties between equals."""
    rng = np.random.default_rng(1)
    skill = np.random.default_rng(0).normal(0, 1, AGENTS)
    a = rng.integers(0, AGENTS, matches)
    b = (a + rng.integers(1, AGENTS, matches)) % AGENTS
    d = (skill[a] - skill[b]) / 2
    win, loss = np.exp(d), np.exp(-d)
    total, u = win + loss + 0.35, rng.random(matches)
    score = np.where(u < win / total, 1.0, np.where(u < (win + 0.35) / total, 0.5, 0.0))
    return skill, a, b, score


def prepare(name: str, matches: int) -> tuple[Any, Any]:
    """(true skills, function that fits and returns a number per agent)."""
    skill, a, b, score = data(matches // 10 if name == TENTH else matches)
    if name == "SRL":
        from srl_agents.league.ratings.tables import Pairs, rate

        names = tuple(f"a{k:03}" for k in range(AGENTS))
        pairs = Pairs(names, a, b, score, np.arange(a.size) // 2)

        def fit() -> Any:
            table = rate(pairs)
            return np.array([table[name].elo for name in names])

        return skill, fit
    if name.startswith("evalica"):
        import evalica

        winner = {1.0: evalica.Winner.X, 0.5: evalica.Winner.Draw, 0.0: evalica.Winner.Y}
        xs, ys = [f"a{k:03}" for k in a], [f"a{k:03}" for k in b]
        winners = [winner[s] for s in score.tolist()]
        return skill, lambda: evalica.bradley_terry(xs, ys, winners).scores.sort_index().to_numpy()
    if name.startswith("choix"):
        import choix

        won = [(i, j) if s else (j, i) for i, j, s in zip(a, b, score, strict=True) if s != 0.5]
        return skill, lambda: choix.ilsr_pairwise(AGENTS, won, alpha=0.01)
    from openskill.models import PlackettLuce

    model = PlackettLuce()
    rows = list(zip(a.tolist(), b.tolist(), score.tolist(), strict=True))

    def online() -> Any:
        players = [model.rating() for _ in range(AGENTS)]
        for i, j, s in rows:
            (one,), (other,) = model.rate([[players[i]], [players[j]]], scores=[s, 1 - s])
            players[i], players[j] = one, other
        return np.array([p.mu for p in players])

    return skill, online


def memory_mib(line: str) -> float:
    """A line of the process's status: VmRSS now, VmHWM at its peak."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(row for row in status if row.startswith(line)).split()[1]) / 1024


def contest(name: str, matches: int) -> dict[str, float]:
    """Run one contestant in this process; the best CPU time of up to three rounds."""
    skill, fit = prepare(name, matches)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the input
    before, seconds = memory_mib("VmRSS"), list[float]()
    while len(seconds) < 3 and sum(seconds) < 5:
        start = time.process_time()
        found = fit()
        seconds.append(time.process_time() - start)
    added = memory_mib("VmHWM") - before
    signs = np.sign(found[:, None] - found[None, :]) * np.sign(skill[:, None] - skill[None, :])
    return {
        "cpu_s": min(seconds) * (10 if name == TENTH else 1),
        "added_mib": added,
        "kendall": float(signs.sum() / (AGENTS * (AGENTS - 1))),
    }


def main() -> None:
    """Print one row per contestant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peers", help="Python that has evalica, openskill and choix")
    parser.add_argument("--matches", type=int, default=1_000_000)
    parser.add_argument("--only", help="run one contestant in this process and print JSON")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(contest(options.only, options.matches)))
        return
    found: dict[str, Any] = {"matches": options.matches, "agents": AGENTS}
    print(f"{'':26} {'CPU s':>8} {'added MiB':>10} {'tau':>6}")
    for name in CONTESTANTS if options.peers else CONTESTANTS[:1]:
        python = sys.executable if name == "SRL" else options.peers
        command = [python, __file__, "--only", name, "--matches", str(options.matches)]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        if answer.returncode:
            print(f"{name:26} failed: {answer.stderr.strip().splitlines()[-1]}")
            continue
        row = found[name] = json.loads(answer.stdout)
        print(
            f"{name:26} {row['cpu_s']:8.3f} {row['added_mib']:10.1f} {row['kendall']:6.3f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
