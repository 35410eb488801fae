"""Steps per second of connect four: SRL, TextArena and PettingZoo, same moves, same process.

    python -m benchmarks.speed.env_steps [--seconds 2] [--rounds 3] [--json FILE]

Every contestant plays whole games of uniformly random columns, drawn before the clock starts. A
move into a full column costs SRL a retry, TextArena an error turn, and PettingZoo (which would end
the game) is only given open columns, from its action mask. One step is one reply of one player.
CPU seconds of the process are counted; rounds alternate between the contestants and the best
counts, because a busy machine only ever slows a round down.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

import srl_envs

Episode = Callable[[int, list[int]], int]
MOVES = 200


def srl_texts() -> Episode:
    """The texts of the seats on move, and nothing else."""
    env = srl_envs.make("connect_four-v0")
    replies = [f"I think about it. <action>{c}</action>" for c in range(1, 8)]

    def episode(seed: int, columns: list[int]) -> int:
        env.start(seed=seed)
        steps = 0
        while env.agents:
            (agent,) = env.on_move
            env.text(agent)
            env.advance({agent: replies[columns[steps % MOVES]]})
            steps += 1
        return steps

    return episode


def srl_parallel() -> Episode:
    """The native view, default options."""
    env = srl_envs.make("connect_four-v0")
    replies = [f"I think about it. <action>{c}</action>" for c in range(1, 8)]

    def episode(seed: int, columns: list[int]) -> int:
        env.reset(seed=seed)
        steps = 0
        while env.agents:
            reply = replies[columns[steps % MOVES]]
            env.step({"player_0": reply, "player_1": reply})
            steps += 1
        return steps

    return episode


def srl_aec() -> Episode:
    """The agent-by-agent view."""
    env = srl_envs.make_aec("connect_four-v0")
    replies = [f"I think about it. <action>{c}</action>" for c in range(1, 8)]

    def episode(seed: int, columns: list[int]) -> int:
        env.reset(seed=seed)
        steps = 0
        while env.agents:
            if env.terminations[env.agent_selection]:
                env.step(None)
                continue
            env.last()
            env.step(replies[columns[steps % MOVES]])
            steps += 1
        return steps

    return episode


def textarena(env_id: str) -> Episode:
    """A fresh environment per game: re-using one leaks earlier games into its prompts."""
    import textarena as ta

    replies = [f"I think about it. [col {c}]" for c in range(7)]

    def episode(seed: int, columns: list[int]) -> int:
        env: Any = ta.make(env_id)
        env.reset(num_players=2, seed=seed)
        done, steps = False, 0
        while not done:
            env.get_observation()
            done, _ = env.step(replies[columns[steps % MOVES]])
            steps += 1
        return steps

    return episode


def pettingzoo() -> Episode:
    """PettingZoo's own connect four: arrays instead of text."""
    from pettingzoo.classic import connect_four_v3

    env: Any = connect_four_v3.env()

    def episode(seed: int, columns: list[int]) -> int:
        env.reset(seed=seed)
        steps = 0
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                env.step(None)
                continue
            legal = np.flatnonzero(observation["action_mask"])
            env.step(int(legal[columns[steps % MOVES] % len(legal)]))
            steps += 1
        return steps

    return episode


CONTESTANTS: dict[str, Callable[[], Episode]] = {
    "SRL, texts alone": srl_texts,
    "SRL, parallel view": srl_parallel,
    "SRL, agent-by-agent view": srl_aec,
    "TextArena, default wrappers": lambda: textarena("ConnectFour-v0"),
    "TextArena, raw": lambda: textarena("ConnectFour-v0-raw"),
    "PettingZoo connect_four_v3 (no text)": pettingzoo,
}


def measure(episode: Episode, seconds: float) -> float:
    """Steps per CPU second over at least ``seconds``."""
    rng = np.random.default_rng(0)
    games = [rng.integers(7, size=MOVES).tolist() for _ in range(64)]
    steps = played = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        steps += episode(played, games[played % len(games)])
        played += 1
    return steps / spent


def main() -> None:
    """Print a table; the last column is the ratio to SRL's text view."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds per round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per contestant")
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    ready: dict[str, Episode] = {}
    for name, build in CONTESTANTS.items():
        try:
            ready[name] = build()
        except ImportError as error:
            print(f"{name}: left out, {error}")
    best = dict.fromkeys(ready, 0.0)
    for _ in range(options.rounds):
        for name, episode in ready.items():
            best[name] = max(best[name], measure(episode, options.seconds))
    ours = best["SRL, texts alone"]
    print(f"connect four, steps per CPU second, best of {options.rounds} x {options.seconds} s")
    for name, rate in best.items():
        print(f"  {name:38} {rate:10,.0f}   {rate / ours:6.2f} x")
    if options.json:
        versions = {name: metadata.version(name) for name in ("pettingzoo", "textarena", "numpy")}
        result = {"steps_per_s": best, "python": platform.python_version(), "versions": versions}
        with open(options.json, "w") as file:
            json.dump(result, file, indent=2)


if __name__ == "__main__":
    main()
