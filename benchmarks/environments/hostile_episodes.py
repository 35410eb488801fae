"""Thousands of episodes of random and hostile replies per game: no exception, no leak, an end.

    python -m benchmarks.environments.hostile_episodes [ENV ...] [--episodes 10000] [--seconds 600]

Every seat replies legally or with one of the hostile forms: noise, torn blocks, numbers that no integer
holds, brackets without end. Each reply carries a mark of its own outside of the move; a seat that reads the
mark of another one has seen what it must not. The rows of other games stay in the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import srl_envs
from srl_envs.parallel import GameEnv
from srl_envs.testing.hostile import BODIES, NEAR_MISSES
from srl_envs.turns.grammar import action

RESULTS = Path(__file__).parents[1] / "results/hostile_episodes.json"
MARK = "zqmark"
_HOSTILE = (0.02, 0.15, 0.6)
"""Chances of a hostile reply, one per episode in turn: games go to their end, or stop early."""
_NOISE = 0.2
"""Part of the hostile replies that is noise."""


def main() -> int:
    """Play, print a line per game, write the rows; 1 where a game failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", metavar="ENV", help="all registered ones by default")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0, help="of processor time, per game")
    parser.add_argument("--json", type=Path, default=RESULTS)
    asked = parser.parse_args()
    data = json.loads(asked.json.read_text()) if asked.json.is_file() else {"games": {}}
    data["command"] = "python -m benchmarks.environments.hostile_episodes"
    failed = False
    for env_id in asked.envs or srl_envs.list_envs():
        row = measure(env_id, asked.episodes, asked.seconds)
        data["games"] = dict(sorted({**data["games"], env_id: row}.items()))
        asked.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        failed |= bool(row["faults"])
        sys.stdout.write(f"{env_id} {json.dumps(row)}\n")
        sys.stdout.flush()
    return int(failed)


def measure(env_id: str, episodes: int, seconds: float) -> dict[str, Any]:
    """Episodes, replies, refusals and faults of one game.

    Args:
        env_id: a registered id.
        episodes: to play.
        seconds: of this process, after which no further episode begins.
    """
    env = srl_envs.make(env_id)
    started = time.process_time()
    row: dict[str, Any] = {"episodes": 0, "replies": 0, "refused": 0, "faults": []}
    for seed in range(episodes):
        if time.process_time() - started > seconds:
            break
        try:
            replies, refused = episode(env, seed)
        except Exception as error:  # noqa: BLE001 - what any game raises is what is counted
            row["faults"] = [*row["faults"], f"seed {seed}: {type(error).__name__}: {error}"[:300]]
            env = srl_envs.make(env_id)
            continue
        row["episodes"] += 1
        row["replies"] += replies
        row["refused"] += refused
    env.close()
    return {**row, "cpu_s": round(time.process_time() - started, 1)}


def episode(env: GameEnv, seed: int) -> tuple[int, int]:
    """Play one; returns the number of replies, and of those that were refused.

    Raises:
        AssertionError: a seat read another's mark, an outcome is out of range, or there was no end.
    """
    rng = np.random.default_rng([seed, 1])
    chance = _HOSTILE[seed % len(_HOSTILE)]
    observations, _ = env.reset(seed=seed)
    most = env.game.max_turns * env.game.seats * (env.max_retries + 2)
    replies = refused = 0
    while env.agents:
        _require(replies <= most, f"{replies} replies, and no end")
        sent = {
            agent: hostile(env, seat, rng) if rng.random() < chance else legal(env, seat, rng)
            for seat, agent in enumerate(env.possible_agents)
            if observations[agent]["can_act"]
        }
        marked = {a: f"{MARK}{seat_of(env, a)} {reply}" for a, reply in sent.items()}
        observations, _, _, _, infos = env.step(marked)
        replies += len(sent)
        refused += sum(infos[agent]["invalid"] is not None for agent in sent)
        for agent, seen in observations.items():
            others = (a for a in env.possible_agents if a != agent)
            read = [a for a in others if f"{MARK}{seat_of(env, a)} " in seen["text"]]
            _require(not read, f"{agent} reads what {read} wrote outside of the move")
    outcomes = env.outcomes or env.paid
    _require(all(-1 <= x <= 1 for x in outcomes), f"outcomes {outcomes}")
    return replies, refused


def legal(env: GameEnv, seat: int, rng: np.random.Generator) -> str:
    """A random legal reply."""
    return action(env.sample_legal(seat, rng))


def hostile(env: GameEnv, seat: int, rng: np.random.Generator) -> str:
    """Noise, a torn block, or a twisted body."""
    if rng.random() < _NOISE:
        noise = rng.bytes(int(rng.integers(1, 200))).decode("latin-1")
        return action(noise) if rng.random() < 0.5 else noise
    forms: tuple[Callable[[str], str], ...] = (
        NEAR_MISSES if rng.random() < 0.5 else tuple(_in_block(twist) for twist in BODIES)
    )
    return forms[int(rng.integers(len(forms)))](env.sample_legal(seat, rng))


def _in_block(twist: Callable[[str], str]) -> Callable[[str], str]:
    return lambda body: action(twist(body))


def seat_of(env: GameEnv, agent: str) -> int:
    """Number of an agent's seat."""
    return env.possible_agents.index(agent)


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)


if __name__ == "__main__":
    sys.exit(main())
