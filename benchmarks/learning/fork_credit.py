"""How well does each kind of credit rank replies by what they are worth? Many continuations say it.

    python -m benchmarks.learning.small_games hanabi --out runs/models/hanabi
    python -m benchmarks.learning.fork_credit --model runs/models/hanabi --games hanabi_mini-v0
    python -m benchmarks.learning.fork_credit --model bots --games codewords_duet-v0

A model plays groups of matches with itself. Some decisions of the first match of each group are judged: the
worth of the reply is the mean return of 200 continuations after it minus that of 200 before it. Every
estimator credits the same replies from its own, small sample: 4 attempts, or forks of 4 alternatives.
Shown are Spearman's correlations with the worth, pooled over start states; the ceiling is that of the two
halves of the 200.

Start states at which the policy forfeits every match are left out: no reply there is worth more
than another. `tiny` as it ships forfeits most matches of both games; the model of the first command was
built on mini Hanabi. ``bots`` is a policy without a model: at every reply it draws one of the game's bots by
`MIXTURE`. Credit reads only returns, so it ranks that policy's replies as it would rank a model's.

A finished start state is saved at once, and an interrupted run goes on when the command is given again. Seeds
901 and 902 are pilots, which no published comparison uses.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.learning.child_process import commit
from srl_agents.agents import ModelPolicy
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.settings import CreditSettings
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import (
    Capabilities,
    Generation,
    GenerationRequest,
    SamplingSettings,
)
from srl_agents.engines.scripted import ScriptedEngine, key_uniform
from srl_agents.models.base_model import BaseModel
from srl_agents.records import Episode, MatchSpec, Turn
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.branches import branch_spec
from srl_agents.rollouts.counterfactual import Replays
from srl_envs import make_bot

RESULTS = Path("benchmarks/results/fork_credit.json")
GAMES: dict[str, dict[str, Any]] = {
    "hanabi_mini-v0": {"colours": 1, "hand": 2, "clues": 3, "max_retries": 0},
    "codewords_duet-v0": {"turns": 3, "max_retries": 0},
}
"""With their options."""
POLICY = "model"
ATTEMPTS, ALTERNATIVES = 4, 4
JUDGED = 3
"""Decisions of a group's first match whose replies are judged, spread evenly over it."""
CONTINUATIONS = 200
REPETITIONS = 1000
"""Of the draws behind an interval."""
CREDITS: dict[str, dict[str, Any]] = {
    "group per episode": {},
    "group per turn": {"level": "turn"},
    "difference": {"mode": "cooperative", "cooperation": 1.0, "team_share": "difference"},
    "c3": {"estimator": "c3", "level": "turn"},
    "vine": {"estimator": "vine", "level": "turn"},
    "tree": {"estimator": "tree", "level": "turn"},
    "at_grpo": {"estimator": "at_grpo", "level": "turn"},
}
BOTS = "bots"
MIXTURE: Mapping[str, float] = {"random": 0.5, "middle": 0.25, "strong": 0.25}
"""Bot -> how often ``--model bots`` replies by it."""
Row = dict[str, Any]
Floats = NDArray[np.float64]
Place = tuple[int, int, int]
"""Attempt, seat, number of the turn among the seat's own."""


class DrawnBots(ScriptedEngine):
    """Replies of bots that are drawn by a request's key, each as one token that was sampled."""

    def __init__(self, game: str) -> None:
        ends = np.cumsum([*MIXTURE.values()])
        names = [*MIXTURE]

        def reply(request: GenerationRequest) -> str:
            drawn = key_uniform(request.key)
            name = names[int(np.searchsorted(ends, drawn, side="right"))]
            return make_bot(game, name, seed=int(drawn * 2**53))(request.observation)

        super().__init__(reply)

    @property
    def capabilities(self) -> Capabilities:
        """See `ScriptedEngine`."""
        return replace(super().capabilities, token_ids=True, logprobs=True)

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `ScriptedEngine`."""
        written = await super().generate(request)
        return replace(written, prompt_ids=(0,), token_ids=(0,), logprobs=(0.0,))


def policy_of(model: str, game: str) -> ModelPolicy:
    """Who plays all seats of a game."""
    if model == BOTS:
        return ModelPolicy(DrawnBots(game))
    sampling = SamplingSettings(max_new_tokens=32, temperature=1.0)
    return ModelPolicy(TransformersEngine(BaseModel.load(model), sampling))


def attempts(game: str, seed: int, start: int) -> list[MatchSpec]:
    """Matches of the policy with itself from one start state."""
    return [
        MatchSpec(
            env_id=game,
            options=GAMES[game],
            seed=1000 * seed + start,
            split="train",
            seats=(POLICY, POLICY),
            learner_seats=(0, 1),
            purpose="self",
            schedule="fork_credit",
            number=start,
            attempt=attempt,
        )
        for attempt in range(ATTEMPTS)
    ]


def decisions(episode: Episode) -> list[tuple[int, int, Turn]]:
    """(seat, number of the turn among its own, turn) in the order of play."""
    found = [(t.seat, k, turn) for t in episode.trajectories for k, turn in enumerate(t.turns)]
    return sorted(found, key=lambda place: place[2].turn_index)


def branches(
    rollouts: Rollouts, parent: Episode, decision: int, alternatives: Sequence[int]
) -> list[Episode]:
    """Fresh continuations from a decision of a match."""
    specs = [branch_spec(parent, decision, alternative=a) for a in alternatives]
    return rollouts.play(specs, parents={parent.spec.match_id: parent})


def worth(rollouts: Rollouts, parent: Episode, place: int) -> tuple[float, float]:
    """What the reply at one decision is worth, from either half of the continuations."""
    played = decisions(parent)
    seat = played[place][0]
    numbers = range(ALTERNATIVES, ALTERNATIVES + CONTINUATIONS)

    def value(at: int) -> Floats:
        if at == len(played):
            return np.full(CONTINUATIONS, parent.trajectories[seat].total_reward)
        fresh = branches(rollouts, parent, played[at][2].turn_index, numbers)
        return np.array([e.trajectories[seat].total_reward if e.valid else np.nan for e in fresh])

    gains = value(place + 1) - value(place)
    return float(np.nanmean(gains[::2])), float(np.nanmean(gains[1::2]))


def credits_of(
    parents: Sequence[Episode], forked: Sequence[Episode]
) -> dict[str, dict[Place, float]]:
    """Advantage of each parent's turn by each kind of credit; a turn that is left out has 0."""
    names = {
        id(turn): (a, t.seat, k)
        for a, parent in enumerate(parents)
        for t in parent.trajectories
        for k, turn in enumerate(t.turns)
    }
    found: dict[str, dict[Place, float]] = {}
    with closing(Replays()) as replays:
        for name, settings in CREDITS.items():
            assigner = CreditAssigner(CreditSettings(**settings), replayed=replays.outcomes)
            rows, _ = assigner.assign([*parents, *forked], POLICY, POLICY)
            found[name] = dict.fromkeys(names.values(), 0.0)
            found[name] |= {names[id(t)]: float(a) for t, a in rows if id(t) in names}
    return found


def judged_start(rollouts: Rollouts, game: str, seed: int, start: int) -> list[Row]:
    """Judged replies of one start state, with all credits; none where every match was forfeited."""
    parents = [e for e in rollouts.play(attempts(game, seed, start)) if e.valid]
    if all(parent.termination == "forfeit" for parent in parents):
        return []
    forked = [
        branch
        for parent in parents
        for _, _, turn in decisions(parent)
        for branch in branches(rollouts, parent, turn.turn_index, range(1, ALTERNATIVES))
    ]
    found = credits_of(parents, forked)
    parent, rows = parents[0], []
    played = decisions(parent)
    spread = np.linspace(0, len(played) - 1, min(JUDGED, len(played))).astype(int)
    for place in dict.fromkeys(spread.tolist()):
        seat, k, turn = played[place]
        own = {name: advantages[0, seat, k] for name, advantages in found.items()}
        halves = worth(rollouts, parent, place)
        rows.append({"decision": turn.turn_index, "worth": list(halves), **own})
    return rows


def ranks(values: Sequence[float]) -> Floats:
    """Ranks from 0, ties in the middle of those they cover."""
    array = np.asarray(values, dtype=np.float64)
    below = (array[None, :] < array[:, None]).sum(axis=1)
    equal = (array[None, :] == array[:, None]).sum(axis=1)
    return np.asarray(below + (equal - 1) / 2, dtype=np.float64)


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Rank correlation; NaN where one of them is constant or there are fewer than three values."""
    if len(one) < 3 or not np.ptp(one) or not np.ptp(other):
        return float("nan")
    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def correlations(starts: Sequence[Sequence[Row]]) -> Floats:
    """Of the two halves of the worth, then of each kind of credit with the worth; over all replies.

    Args:
        starts: judged replies of each start state.
    """
    own = [reply for replies in starts for reply in replies]
    mean = [float(np.mean(reply["worth"])) for reply in own]
    halves = spearman([reply["worth"][0] for reply in own], [reply["worth"][1] for reply in own])
    return np.array([halves, *(spearman([r[name] for r in own], mean) for name in CREDITS)])


def intervals(starts: Sequence[Sequence[Row]]) -> list[str]:
    """Each of `correlations` with its 95 % interval: percentiles over start states drawn again."""
    rng = np.random.default_rng(0)
    drawn = [
        correlations([starts[n] for n in rng.integers(len(starts), size=len(starts))])
        for _ in range(REPETITIONS)
    ]
    low, high = np.nanpercentile(drawn, (2.5, 97.5), axis=0)
    return [
        f"{value:.2f} [{a:.2f}, {b:.2f}]"
        for value, a, b in zip(correlations(starts), low, high, strict=True)
    ]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Markdown: game and seed by kind of credit, and all seeds of a game with intervals."""
    names = ["ceiling", *CREDITS]
    yield f"| game | seed | replies | {' | '.join(names)} |"
    yield f"|---|--:|--:|{'--:|' * len(names)}"
    for game, seed in dict.fromkeys((row["game"], row["seed"]) for row in rows):
        own = [row["replies"] for row in rows if (row["game"], row["seed"]) == (game, seed)]
        found = " | ".join(f"{value:.2f}" for value in correlations(own))
        yield f"| {game} | {seed} | {sum(map(len, own))} | {found} |"
    for game in dict.fromkeys(row["game"] for row in rows):
        own = [row["replies"] for row in rows if row["game"] == game and row["replies"]]
        if own:
            yield f"| {game} | all | {sum(map(len, own))} | {' | '.join(intervals(own))} |"


def measured(path: Path) -> list[Row]:
    """Start states that are done."""
    found: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    return found


def write(path: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Replace the results as a whole, so that an interruption leaves the old ones."""
    half = path.with_suffix(".part")
    half.write_text(json.dumps({**about, "rows": list(rows)}, indent=1) + "\n")
    half.replace(path)


def main() -> int:
    """Judge what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else ""
    )
    parser.add_argument("--games", nargs="+", choices=[*GAMES], default=list(GAMES))
    parser.add_argument("--model", default="tiny", help="a name, a folder, or bots")
    parser.add_argument("--seeds", nargs="+", type=int, default=[901, 902])
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    about = {
        "command": "python -m benchmarks.learning.fork_credit",
        "continuations": CONTINUATIONS,
    }
    made_by = {"commit": commit(), "model": Path(options.model).name}
    rows = measured(options.out)
    done = {(row["game"], row["seed"], row["start"]) for row in rows}
    policies = {game: policy_of(options.model, game) for game in options.games}
    for start in range(options.starts):
        for seed in options.seeds:
            for game in options.games:
                if (game, seed, start) in done:
                    continue
                policy = {POLICY: policies[game]}
                with Rollouts(policy, root_seed=seed, order="free") as rollouts:
                    began = time.process_time()
                    replies = judged_start(rollouts, game, seed, start)
                    spent = {"cpu_s": round(time.process_time() - began, 1), **made_by}
                    key = {"game": game, "seed": seed, "start": start}
                    rows.append({**key, "replies": replies, **spent})
                    write(options.out, rows, about)
                    print(f"{game}, seed {seed}, start {start}: {len(replies)} replies", flush=True)
    print("\n".join(table(rows)))
    hours = sum(row.get("cpu_s", 0.0) for row in rows) / 3600
    print(f"\n{hours:.2f} CPU hours, of the start states that have a time.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
