"""Steps per CPU second of every environment, beside TextArena and OpenSpiel where they have the game.

    python -m benchmarks.speed.suite_steps [--envs ID ...] [--rounds 15] [--baseline FOLDER]

Everybody plays uniformly random legal moves that were drawn before the clock starts, through the public
interface: the seat on move is given its text, a policy answers with a text, and the reply is read,
checked and played. SRL does so in three views: only the texts (`GameEnv.advance`), agent by agent
(`make_aec`), and parallel, which writes observations and infos of all seats. Ratios are those of the
text view.

TextArena plays through its default wrappers, and raw: without the wrapper that makes one text of its
messages. OpenSpiel gives the text and the legal actions of the seat on move, and finds the action that the
reply names; in the last column moves are drawn with numpy inside the clock and played by number,
as scripts do.

One step is one move of one seat. TextArena's dilemma asks for talk and for the move in turn; both
together are one step, as both stand in one reply of ours. Contestants take turns, a short round each,
so all of them meet the same load; a ratio is the median of the rounds' ratios of SRL to the other,
with its 95 % interval. Rates are medians, too. CPU seconds of one process: programs in the
sandbox are others, so code games look faster than they are.

``--baseline`` adds SRL as it is in another checkout, in its parallel view where it has no other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import metadata
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

import srl_envs
from srl_envs.turns.grammar import action

Round = Callable[[float], float]
"""Plays for some CPU seconds; returns steps per CPU second."""
EPISODES = 200
RECORDED_S = 20.0  # wall seconds that drawing the episodes of one environment may take
OWN = ("SRL, agent by agent", "SRL, parallel")
PEERS = ("baseline", "TextArena", "TextArena raw", "OpenSpiel", "OpenSpiel, drawing")


def drawn(env: Any) -> list[list[str]]:
    """Games of random legal play: by seed, the replies in the order in which seats are asked."""
    games = []
    end = time.monotonic() + RECORDED_S
    for seed in range(EPISODES):
        games.append(_record(env, seed))
        if time.monotonic() > end:
            break
    return games


def _record(env: Any, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    observations, _ = env.reset(seed=seed)
    replies: list[str] = []
    while env.agents:
        joint = {
            agent: action(env.sample_legal(seat, rng))
            for seat, agent in enumerate(env.possible_agents)
            if observations[agent]["can_act"]
        }
        replies += joint.values()
        observations, *_ = env.step(joint)
    return replies


def _policy(game: list[str]) -> Callable[[str], str]:
    """Gives the replies of a game in their order, whatever it reads."""
    replies = iter(game)
    return lambda _text: next(replies)


def texts_alone(env: Any, games: list[list[str]]) -> Callable[[int], int]:
    """Plays recorded game number n and returns its steps; reads the texts of the seats on move."""

    def episode(number: int) -> int:
        seed = number % len(games)
        policy, replies = _policy(games[seed]), dict[str, str]()
        env.start(seed=seed)
        while env.agents:
            for agent in env.on_move:
                replies[agent] = policy(env.text(agent))
            env.advance(replies)  # replies of seats that are not on move are not looked at
        return len(games[seed])

    return episode


def agent_by_agent(env: Any, games: list[list[str]]) -> Callable[[int], int]:
    """The same through PettingZoo's AEC interface."""
    from srl_envs.views.aec import GameAEC  # not for `serve`, whose checkout may be older

    view = GameAEC(env)

    def episode(number: int) -> int:
        seed = number % len(games)
        policy = _policy(games[seed])
        view.reset(seed=seed)
        while env.agents:
            view.step(policy(view.observe(view.agent_selection)["text"]))
        return len(games[seed])

    return episode


def parallel(env: Any, games: list[list[str]]) -> Callable[[int], int]:
    """The same through PettingZoo's parallel interface."""

    def episode(number: int) -> int:
        seed = number % len(games)
        policy = _policy(games[seed])
        observations, _ = env.reset(seed=seed)
        while env.agents:
            joint = {a: policy(seen["text"]) for a, seen in observations.items() if seen["can_act"]}
            observations, *_ = env.step(joint)
        return len(games[seed])

    return episode


def rounds_of(episode: Callable[[int], int]) -> Round:
    """Rounds that go on where the last one stopped."""
    played = 0

    def measure(seconds: float) -> float:
        nonlocal played
        steps, start = 0, time.process_time()
        while (spent := time.process_time() - start) < seconds:
            steps += episode(played)
            played += 1
        return steps / spent

    return measure


def rounds_elsewhere(env_id: str, folder: Path, stack: ExitStack) -> Round:
    """SRL of another checkout, in a process of its own that waits while the others play."""
    child = stack.enter_context(
        subprocess.Popen(
            [sys.executable, __file__, "--serve", env_id],
            env={**os.environ, "PYTHONPATH": str(folder)},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )

    def measure(seconds: float) -> float:
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the child has no pipes")
        child.stdin.write(f"{seconds}\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    return measure


def serve(env_id: str) -> None:
    """Play a round for each line on standard input; the line is its length in seconds."""
    env = srl_envs.make(env_id)
    view = texts_alone if hasattr(env, "advance") else parallel
    measure = rounds_of(view(env, drawn(env)))
    for line in sys.stdin:
        print(measure(float(line)), flush=True)


def contestants(env_id: str, baseline: Path | None, stack: ExitStack) -> dict[str, Round]:
    """All that play this game; packages that are not installed are left out."""
    from benchmarks.speed import peers  # not for `serve`, whose checkout may be older

    env = srl_envs.make(env_id)
    games = drawn(env)
    views = {"SRL": texts_alone, OWN[0]: agent_by_agent, OWN[1]: parallel}
    ready = {name: rounds_of(view(env, games)) for name, view in views.items()}
    if baseline:
        ready["baseline"] = rounds_elsewhere(env_id, baseline.resolve(), stack)
    builders: dict[str, Callable[[], peers.Episode]] = {}
    if env_id in peers.TEXTARENA:
        theirs = peers.TEXTARENA[env_id]
        builders["TextArena"] = partial(peers.textarena, theirs)
        builders["TextArena raw"] = partial(peers.textarena, theirs, raw=True)
    if env_id in peers.OPEN_SPIEL:
        name = peers.OPEN_SPIEL[env_id]
        builders["OpenSpiel"] = partial(peers.open_spiel, name)
        builders["OpenSpiel, drawing"] = partial(peers.open_spiel, name, drawn_in_play=True)
    for name, build in builders.items():
        try:
            ready[name] = rounds_of(build())
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
    return ready


def interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the median, between two of the values; all of them where there are few.

    The median lies between the k-th smallest and the k-th largest unless fewer than k of the values
    are on one side of it, and each is on either side with probability 1/2.
    """
    ordered, n = sorted(values), len(values)
    k, outside = 0, 2 * 0.5**n
    while outside <= 0.05 and 2 * (k + 1) < n:
        k += 1
        outside += 2 * comb(n, k) * 0.5**n
    k = max(k - 1, 0)
    return ordered[k], ordered[-1 - k]


def main() -> None:
    """Print a table and write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--envs", nargs="*", help="ids; all by default")
    parser.add_argument("--seconds", type=float, default=0.2, help="CPU seconds per round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--baseline", type=Path, help="folder of another checkout")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/results/suite_steps.json"))
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    random.seed(0)  # noqa: TID251 - TextArena draws from it anyway
    columns = [name for name in PEERS if options.baseline or name != "baseline"]
    titles = ("environment", "SRL, steps/s", *OWN, *(f"to {name}" for name in columns))
    print(f"| {' | '.join(titles)} |\n|---|{'--:|' * (len(titles) - 1)}")
    rows = {}
    for env_id in options.envs or [name for name in srl_envs.list_envs() if "/" not in name]:
        with ExitStack() as stack:
            ready = contestants(env_id, options.baseline, stack)
            rates: dict[str, list[float]] = {name: [] for name in ready}
            for _ in range(options.rounds):
                for name, measure in ready.items():
                    rates[name].append(measure(options.seconds))
        rows[env_id] = summary(rates)
        cells = [f"{rows[env_id][name]['steps_per_s']:,.0f}" for name in ("SRL", *OWN)]
        for name in columns:
            found = rows[env_id].get(name)
            cells.append("{ratio:.2f} ({low:.2f} to {high:.2f})".format(**found) if found else "")
        print(f"| `{env_id}` | {' | '.join(cells)} |", flush=True)
    options.json.write_text(json.dumps({"rows": rows, "versions": versions()}, indent=2) + "\n")


def summary(rates: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Median rate of each contestant, and what SRL makes of it with the interval."""
    result = {}
    for name, theirs in rates.items():
        ratios = [ours / other for ours, other in zip(rates["SRL"], theirs, strict=True)]
        low, high = interval(ratios)
        result[name] = {
            "steps_per_s": statistics.median(theirs),
            "ratio": statistics.median(ratios),
            "low": low,
            "high": high,
        }
    return result


def versions() -> dict[str, str]:
    """Versions of the packages that were measured."""
    found = {"python": platform.python_version(), "numpy": metadata.version("numpy")}
    for name in ("textarena", "open-spiel"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
