"""Many live matches at once: is the engine kept at its limit, and what does a match cost?

    python -m benchmarks.speed.live_matches [--part load|orders|duels|sandbox] [--json FILE]

No model: a scripted engine answers after a latency from a heavy-tailed distribution, so what is
measured is the asking, and the numbers are shares and ratios.

- ``load``: 2,000 matches of a short game live at once, from the first that ends until the last is
  admitted. Requests in flight, once with a place in the engine for each match and once with a place for
  every fourth; share of the time in which every place is taken; memory per live match.
- ``orders``: the same matches in ``free`` and in ``exact``; replies per second, and their ratio.
- ``duels``: 200 live code duels, whose steps run programs in the sandbox; share of the time in which
  the engine has something to do. With ``--model``, the embedded engine in its place.
- ``sandbox``: code duels one at a time and twelve at once, with an engine that answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from srl_agents.agents.players import ModelPolicy
from srl_agents.engines.protocol import Engine, Generation, GenerationRequest
from srl_agents.engines.scripted import Latency, Load, ScriptedEngine, key_uniform
from srl_agents.interrupts import EventLoop
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Order, Rollouts
from srl_envs import make_bot

SHORT_GAME, ORDERS_GAME, CODE_GAME = "negotiation-v0", "nim-v0", "code_duel-v0"
Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """One call of `Rollouts.play`."""

    wall_s: float
    load: Load
    void: int


def any_heap(request: GenerationRequest) -> str:
    """A random reply to `ORDERS_GAME`, most of them legal; a function of the key, as ``exact`` needs."""
    choices = ("1 1", "2 1", "3 1", "1 2")
    return f"<action>{choices[int(key_uniform(request.key) * len(choices))]}</action>"


def bot_reply(env_id: str) -> Callable[[GenerationRequest], str]:
    """Replies of the strong bot."""
    bot = make_bot(env_id, "strong", seed=0)
    return lambda request: bot(request.observation)


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def matches(env_id: str, count: int) -> list[MatchSpec]:
    """Of two seats of the engine."""
    return [
        MatchSpec(env_id=env_id, seed=number, split="train", seats=("model",) * 2, number=number)
        for number in range(count)
    ]


def play(env_id: str, count: int, engine: ScriptedEngine, order: Order, concurrency: int) -> Played:
    """Play that many matches between two seats of the engine."""
    policies = {"model": ModelPolicy(engine)}
    rollouts = Rollouts(policies, root_seed=0, order=order, concurrency=concurrency)
    started = time.perf_counter()
    episodes = rollouts.play(matches(env_id, count))
    wall_s = time.perf_counter() - started
    rollouts.close()
    void = sum(not episode.valid for episode in episodes)
    return Played(wall_s=wall_s, load=engine.load, void=void)


class _Enough(Exception):
    """All matches were admitted: from here on fewer are live."""


def measure_load(live: int, places: int, median_s: float, *, memory: bool = False) -> Result:
    """Keep so many matches live from the first that ends until the last is admitted.

    Args:
        live: matches.
        places: of the engine.
        median_s: of its latency.
        memory: also tell what a live match takes, where nothing was measured in this process before.
    """
    play(SHORT_GAME, 8, ScriptedEngine(bot_reply(SHORT_GAME)), "free", 8)  # imports and caches
    latency = Latency(kind="lognormal", median_s=median_s, tail=1.0)
    engine = ScriptedEngine(bot_reply(SHORT_GAME), latency=latency, capacity=places)
    policies = {"model": ModelPolicy(engine)}
    rollouts = Rollouts(policies, root_seed=0, order="free", concurrency=live)
    looks: list[tuple[Load, int]] = []

    def finished(*_: object) -> None:
        looks.append((engine.load, resident_bytes()))
        if len(looks) == live:
            raise _Enough

    before = resident_bytes()
    with suppress(_Enough):
        rollouts.play(matches(SHORT_GAME, 2 * live), finished=finished)
    rollouts.close()
    (first, all_live_bytes), (last, _) = looks[0], looks[-1]
    wall_s = last.wall_s - first.wall_s
    in_flight_s = last.occupancy * last.wall_s - first.occupancy * first.wall_s
    taken = {"kb_per_live_match": (all_live_bytes - before) / live / 1000} if memory else {}
    return taken | {
        "live_matches": live,
        "places": places,
        "latency": asdict(latency),
        "seconds": wall_s,
        "replies_per_s": (last.replies - first.replies) / wall_s,
        "mean_in_flight": places * in_flight_s / wall_s,
        "share_of_time_at_places": (last.full_s - first.full_s) / wall_s,
    }


def measure_orders(rounds: int) -> Result:
    """The same matches in both orders, turn by turn; the best round of each."""
    latency = Latency(kind="lognormal", median_s=0.05, tail=1.0)
    rates: dict[Order, list[float]] = {"free": [], "exact": []}
    for _ in range(rounds):
        for order, found in rates.items():
            engine = ScriptedEngine(any_heap, latency=latency, capacity=128)
            played = play(ORDERS_GAME, 256, engine, order, 128)
            found.append(played.load.replies / played.wall_s)
    return {
        "latency": asdict(latency),
        "replies_per_s": {order: max(found) for order, found in rates.items()},
        "ratio": max(rates["free"]) / max(rates["exact"]),
    }


def measure_duels(live: int, seconds: float) -> Result:
    """Code duels and an engine with few places, for so long, from the first request on."""
    latency = Latency(kind="lognormal", median_s=1.0, tail=0.5)
    engine = ScriptedEngine(bot_reply(CODE_GAME), latency=latency, capacity=8)
    play_for(seconds, engine, live)
    load = engine.load
    return {
        "live_matches": live,
        "places": 8,
        "latency": asdict(latency),
        "engine_busy_share": load.busy_s / load.wall_s,
        "places_taken_share": load.occupancy,
        "replies": load.replies,
    }


def play_for(seconds: float, engine: Engine, live: int) -> None:
    """Keep code duels live for so long, in ``free``, and end them all."""
    policies = {"model": ModelPolicy(engine)}
    with (
        EventLoop() as loop,
        Rollouts(policies, root_seed=0, order="free", concurrency=live, loop=loop) as rollouts,
    ):
        playing = rollouts.play_async(matches(CODE_GAME, 4 * live))
        with suppress(TimeoutError):
            loop.run(asyncio.wait_for(playing, seconds))
        loop.run(engine.close())


def measure_model(model: str, live: int, seconds: float) -> Result:
    """Code duels on the embedded engine in ``free``, for so long.

    The model reads every prompt and writes a few tokens; the strong bot's program is then played in
    place of them, so that the sandbox has something to run.
    """
    from srl_agents.engines.embedded.engine import TransformersEngine
    from srl_agents.engines.protocol import SamplingSettings
    from srl_agents.models.base_model import BaseModel

    write = bot_reply(CODE_GAME)

    class Played(TransformersEngine):
        """Counts the seconds of its loop, from the first step to the last."""

        began_s = ended_s = busy_s = 0.0
        replies = 0

        def _step(self) -> bool:
            began_s, more = time.perf_counter(), super()._step()
            self.began_s, self.ended_s = self.began_s or began_s, time.perf_counter()
            self.busy_s += self.ended_s - began_s
            return more

        async def generate(self, request: GenerationRequest) -> Generation:
            given = await super().generate(request)
            self.replies += 1
            return replace(given, text=write(request))

    sampling = SamplingSettings(max_new_tokens=4)
    sampling = SamplingSettings(max_new_tokens=4)
    engine = Played(BaseModel.load(model), sampling, max_batch_rows=8)
    play_for(seconds, engine, live)
    return {
        "model": model,
        "live_matches": live,
        "engine_busy_share": engine.busy_s / (engine.ended_s - engine.began_s),
        "replies": engine.replies,
    }


def measure_sandbox(rounds: int) -> Result:
    """Twelve code duels, one at a time and all at once, turn by turn; the best round of each."""
    walls: dict[int, list[float]] = {1: [], 12: []}
    for _ in range(rounds):
        for live, found in walls.items():
            engine = ScriptedEngine(bot_reply(CODE_GAME))
            found.append(play(CODE_GAME, 12, engine, "free", live).wall_s)
    return {
        "wall_s": {live: min(found) for live, found in walls.items()},
        "ratio": min(walls[1]) / min(walls[12]),
    }


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=("load", "orders", "duels", "sandbox"))
    parser.add_argument("--live", type=int, default=2000, help="live matches of `load`")
    parser.add_argument("--duels", type=int, default=200, help="live matches of `duels`")
    parser.add_argument("--model", default="", help="of `duels`, for example smollm2-135m")
    parser.add_argument("--seconds", type=float, default=30.0, help="of `duels`")
    parser.add_argument("--rounds", type=int, default=3, help="of `orders` and `sandbox`")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    options = parser.parse_args()
    parts: dict[str, Callable[[], Result]] = {
        "load": lambda: {
            "a place for each": measure_load(options.live, options.live, 4.0, memory=True),
            "a place for every fourth": measure_load(options.live, options.live // 4, 1.0),
        },
        "orders": lambda: measure_orders(options.rounds),
        "duels": lambda: (
            measure_model(options.model, options.duels, options.seconds)
            if options.model
            else measure_duels(options.duels, options.seconds)
        ),
        "sandbox": lambda: measure_sandbox(options.rounds),
    }
    results = {}
    for name in options.part or list(parts):
        results[name] = parts[name]()
        print(name, json.dumps(results[name], indent=1))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
