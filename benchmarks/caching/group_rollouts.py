"""Group rollouts with each measure of the prefix cache on and off: tokens computed, speed, same replies.

    python -m benchmarks.caching.group_rollouts [--model smollm2-135m] [--json FILE] [--traces FOLDER]

Every group is several attempts from one start state; the model holds all seats. The least that has to be
computed is every different prefix once, and the last token of each prompt, which the first logits need. With
``--traces`` the requests of the first setting are kept as ``GAME.jsonl.gz`` for `srl plan kv`. Exit code 1
where a setting other than 8 bits wrote other tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.agents.players import ModelPolicy
from srl_agents.caching.simulation.traces import Trace, read_trace, renumbered, write_trace
from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.places.kv_tiers import TierLimits
from srl_agents.engines.protocol import Engine, SamplingSettings
from srl_agents.interrupts import EventLoop
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Episode, MatchSpec, Turn
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.asking import least_computed
from srl_agents.rollouts.request_trace import RequestTrace
from srl_envs.api.making import count_seats

GAMES = ("connect_four-v0", "hanabi_mini-v0", "public_goods-v0")
BLOCK = 16
"""Tokens of a recorded block."""
LIKELY = 20
"""Tokens that are drawn from. Among a whole vocabulary thousands are rarer than what rounding moves, and a
draw that falls among those ends at one neighbour or another."""
SETTINGS: dict[str, dict[str, Any]] = {
    "all on": {},
    "no sharing": {"share_prefixes": False},
    "nothing kept": {"cache_bytes": 0},
    "kept in host memory": {"cache_bytes": 0, "host_bytes": 2**30},
    "kept in files": {"cache_bytes": 0, "disk_bytes": 2**30},
    "kept in 8 bits": {"eight_bits": True},
    "no refill": {"refill": False},
    "copied prefixes": {"read_in_place": 10**9},
    "all off": {"share_prefixes": False, "cache_bytes": 0, "refill": False, "read_in_place": 10**9},
}
"""What differs of `DecodingRules`, and the bytes that are kept between requests, by place."""
MOVES = frozenset({"kept in 8 bits"})
"""Settings that change what replies read, so that they may write others."""


@dataclass(frozen=True, slots=True)
class Played:
    """One setting's matches of one game."""

    turns: dict[tuple[str, int, int], Turn]
    """By match, seat and the seat's turn."""
    prompt_tokens: int
    cached_tokens: int
    wall_s: float
    cpu_s: float

    @property
    def reply_tokens(self) -> int:
        """Sampled."""
        return sum(len(turn.completion_ids) for turn in self.turns.values())


def groups(game: str, states: int, attempts: int) -> list[MatchSpec]:
    """All attempts, one group after the other."""
    seats = ("model",) * count_seats(game)
    return [
        MatchSpec(
            env_id=game, seed=state, split="train", seats=seats, cluster=str(state),
            number=state * attempts + attempt, attempt=attempt,
        )
        for state in range(states)
        for attempt in range(attempts)
    ]  # fmt: skip


def turns_of(episodes: Iterable[Episode]) -> dict[tuple[str, int, int], Turn]:
    """See `Played.turns`."""
    return {
        (episode.spec.match_id, trajectory.seat, number): turn
        for episode in episodes
        for trajectory in episode.trajectories
        for number, turn in enumerate(trajectory.turns)
    }


def play(
    specs: Sequence[MatchSpec], engine: Engine, runner: EventLoop, trace: RequestTrace | None
) -> Played:
    """Play all matches in order ``free``, and close the engine."""
    policies = {"model": ModelPolicy(engine)}
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with Rollouts(policies, root_seed=0, order="free", loop=runner, trace=trace) as rollouts:
        episodes = rollouts.play(specs)
        prompts = rollouts.take_prompt_tokens()
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    runner.run(engine.close())
    faults = [episode.fault for episode in episodes if not episode.valid]
    if faults:
        raise RuntimeError(faults[0])
    return Played(turns_of(episodes), prompts.all, prompts.cached, wall_s, cpu_s)


def measured(own: Played, first: Played) -> dict[str, Any]:
    """The numbers of one setting beside those of the first."""
    least = least_computed([turn.prompt_ids for turn in own.turns.values()])
    computed = own.prompt_tokens - own.cached_tokens
    texts = {key: turn.completion_ids for key, turn in own.turns.items()}
    expected = {key: turn.completion_ids for key, turn in first.turns.items()}
    return {
        "requests": len(own.turns),
        "prompt_tokens": own.prompt_tokens,
        "computed": computed,
        "least": least,
        "computed_to_least": computed / least,
        "reply_tokens": own.reply_tokens,
        "reply_tokens_per_s": own.reply_tokens / own.wall_s,
        "reply_tokens_per_cpu_s": own.reply_tokens / own.cpu_s,
        "replies_that_differ": sum(
            texts.get(key) != expected.get(key) for key in texts.keys() | expected.keys()
        ),
    }


def of_game(
    base: BaseModel, game: str, options: argparse.Namespace, trace: RequestTrace | None
) -> dict[str, Any]:
    """One row per setting."""
    rows: dict[str, Any] = {}
    first: Played | None = None
    for name in options.settings:
        chosen = dict(SETTINGS[name])
        cache_bytes = chosen.pop("cache_bytes", 2**30)
        places = {key: chosen.pop(key, 0) for key in ("host_bytes", "disk_bytes")}
        with EventLoop() as runner:
            engine = TransformersEngine(
                base,
                SamplingSettings(max_new_tokens=options.tokens, top_k=LIKELY),
                max_batch_rows=options.rows,
                live_bytes=2**30,
                cache_bytes=cache_bytes,
                decoding=DecodingRules(**chosen),
                tiers=TierLimits(**places),
            )
            specs = groups(game, options.states, options.attempts)
            own = play(specs, engine, runner, None if first else trace)
        first = first or own
        rows[name] = measured(own, first)
        print(f"{game:18} {name:16}", json.dumps(rows[name]), flush=True)
    return rows


def kept(path: Path, folder: Path, game: str) -> None:
    """Write the trace, small, into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    small: Trace = renumbered(read_trace(path, BLOCK))
    write_trace(folder / f"{game}.jsonl.gz", small.requests)


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--states", type=int, default=2, help="groups")
    parser.add_argument("--attempts", type=int, default=8, help="of each group")
    parser.add_argument("--tokens", type=int, default=12, help="per reply")
    parser.add_argument("--rows", type=int, default=16, help="most replies in one batch")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--traces", type=Path, help="folder for the recorded requests")
    options = parser.parse_args()
    base = BaseModel.load(options.model, device="cpu", dtype="float32")
    games: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for game in options.games:
            path = Path(scratch) / f"{game}.jsonl"
            games[game] = of_game(base, game, options, RequestTrace(path, BLOCK))
            if options.traces:
                kept(path, options.traces, game)
    if options.json:
        command = f"python -m benchmarks.caching.group_rollouts --model {options.model}"
        found = {"command": command, "games": games}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    differ = sum(
        row["replies_that_differ"]
        for rows in games.values()
        for name, row in rows.items()
        if name not in MOVES
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
