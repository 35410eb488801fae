"""Steps per CPU second of every environment, beside TextArena and OpenSpiel where they have the game.

    python -m benchmarks.speed.suite_steps [--seconds 1] [--json FILE]

For SRL, episodes of uniformly random legal replies are drawn before the clock starts; then they are
played again through the parallel view with all it does (reading replies, rules, observations,
rewards, infos). One step is one reply of one seat. Environments that run programs or solve puzzles
for their seats are listed, too. TextArena plays always-legal fixed replies through its default
wrappers, with a fresh environment per game (a used one leaks); OpenSpiel plays random actions and
makes the observation text of the player on move. CPU seconds of this process; programs in the
sandbox are other processes, so code games look faster than they are.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import srl_envs
from srl_envs.grammar import action

Episode = Callable[[int], int]
EPISODES = 40
RECORDED_S = 20.0  # wall seconds that drawing the episodes of one environment may take


def srl(env_id: str) -> Episode:
    """Recorded random play, over and over."""
    env = srl_envs.make(env_id)
    games = []
    end = time.monotonic() + RECORDED_S
    for seed in range(EPISODES):
        games.append(_record(env, seed))
        if time.monotonic() > end:
            break

    def episode(number: int) -> int:
        seed = number % len(games)
        env.reset(seed=seed)
        replies = 0
        for joint in games[seed]:
            env.step(joint)
            replies += len(joint)
        return replies

    return episode


def _record(env: srl_envs.parallel.GameEnv, seed: int) -> list[dict[str, str]]:
    rng = np.random.default_rng(seed)
    observations, _ = env.reset(seed=seed)
    steps = []
    while env.agents:
        joint = {
            agent: action(env.sample_legal(seat, rng))
            for seat, agent in enumerate(env.possible_agents)
            if observations[agent]["can_act"]
        }
        steps.append(joint)
        observations, *_ = env.step(joint)
    return steps


def open_columns(board: Any) -> list[int]:
    """Columns of TextArena's connect four that are not full."""
    return [column for column, top in enumerate(board[0]) if top == "."]


TEXTARENA: dict[str, tuple[str, int, Callable[[Any], str]]] = {
    "connect_four-v0": (
        "ConnectFour-v0", 2,
        lambda env: f"[col {random.choice(open_columns(env.state.game_state['board']))}]",
    ),
    "kuhn_poker-v0": ("KuhnPoker-v0", 2, lambda env: "[check]"),
    "nim-v0": (
        "Nim-v0", 2,
        lambda env: f"[{next(i for i, n in enumerate(env.state.game_state['piles']) if n)} 1]",
    ),
    "iterated_dilemma-v0": ("IteratedPrisonersDilemma-v0", 2, lambda env: "[cooperate]"),
    "blotto-v0": ("ColonelBlotto-v0", 2, lambda env: "[A7 B7 C6]"),
}  # fmt: skip
"""Game of ours -> theirs, seats, and a reply that is always legal."""


def textarena(env_id: str, seats: int, reply: Callable[[Any], str]) -> Episode:
    """A fresh environment per game, default wrappers."""
    import textarena as ta

    def episode(seed: int) -> int:
        env: Any = ta.make(env_id)
        env.reset(num_players=seats, seed=seed)
        inner, done, steps = env, False, 0
        while hasattr(inner, "env"):
            inner = inner.env
        while not done:
            env.get_observation()
            done, _ = env.step(reply(inner))
            steps += 1
        return steps

    episode(0)
    return episode


OPEN_SPIEL = {
    "connect_four-v0": "connect_four",
    "kuhn_poker-v0": "kuhn_poker",
    "nim-v0": "nim",
    "liars_dice-v0": "liars_dice(numdice=3)",
    "hanabi_mini-v0": "hanabi(players=2,colors=3,ranks=4,hand_size=4,max_information_tokens=6)",
    "blotto-v0": "blotto(coins=10,fields=3)",
}


def open_spiel(name: str) -> Episode:
    """Random play with the text of each observation."""
    import pyspiel

    game = pyspiel.load_game(name)
    told = game.get_type().provides_observation_string

    def episode(seed: int) -> int:
        rng = np.random.default_rng(seed)
        state, steps = game.new_initial_state(), 0
        while not state.is_terminal():
            if state.is_chance_node():
                actions, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(int(rng.choice(actions, p=weights)))
                continue
            seats = (
                range(game.num_players())
                if state.is_simultaneous_node()
                else [state.current_player()]
            )
            moves = []
            for seat in seats:
                _ = state.observation_string(seat) if told else str(state)
                moves.append(int(rng.choice(state.legal_actions(seat))))
                steps += 1
            if state.is_simultaneous_node():
                state.apply_actions(moves)
            else:
                state.apply_action(moves[0])
        return steps

    episode(0)
    return episode


def measure(episode: Episode, seconds: float) -> float:
    """Steps per CPU second over at least ``seconds``."""
    steps = played = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        steps += episode(played)
        played += 1
    return steps / spent


def best_of(build: Callable[[], Episode], seconds: float, rounds: int) -> float | None:
    """The best round; None where the package is not installed."""
    try:
        episode = build()
    except ImportError:
        return None
    return max(measure(episode, seconds) for _ in range(rounds))


def main() -> None:
    """Print a table and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds per round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/suite_steps.json"))
    options = parser.parse_args()
    random.seed(0)  # noqa: TID251 - TextArena draws from it anyway
    rows = {}
    print("| environment | SRL, steps/s | TextArena | OpenSpiel |\n|---|--:|--:|--:|")
    for env_id in srl_envs.list_envs():
        if "/" in env_id:
            continue
        found = {"SRL": best_of(partial(srl, env_id), options.seconds, options.rounds)}
        if env_id in TEXTARENA:
            theirs = TEXTARENA[env_id]
            found["TextArena"] = best_of(
                partial(textarena, *theirs), options.seconds, options.rounds
            )
        if env_id in OPEN_SPIEL:
            name = OPEN_SPIEL[env_id]
            found["OpenSpiel"] = best_of(partial(open_spiel, name), options.seconds, options.rounds)
        rows[env_id] = found
        cells = [
            f"{found[k]:,.0f}" if found.get(k) else "" for k in ("SRL", "TextArena", "OpenSpiel")
        ]
        print(f"| `{env_id}` | {' | '.join(cells)} |", flush=True)
    versions = {"python": platform.python_version(), "numpy": metadata.version("numpy")}
    for name in ("textarena", "open-spiel"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    options.json.write_text(
        json.dumps({"steps_per_s": rows, "versions": versions}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
