"""Prompt tokens that branches cost an engine, beside the least possible.

    python -m benchmarks.caching.fork_prompts --out benchmarks/results/fork_prompts.json

Matches of `tiny` against itself are played, then every decision of the first seat is answered again. Three
counts stand beside each other: all prompt tokens of the branches' own replies, those that the engine
computed, and the least possible, by a cache without limit that has read the matches
(`srl_agents.rollouts.asking`). Both orders of `Rollouts`, the embedded engine with its default cache.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, get_args

from srl_agents.agents import ModelPolicy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import catalog
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Order, Rollouts
from srl_agents.rollouts.asking import least_computed
from srl_agents.rollouts.branches import branch_spec

GAMES: dict[str, dict[str, Any]] = {
    "connect_four-v0": {"rows": 5, "cols": 5, "k": 3},
    "hanabi_mini-v0": {},
    "iterated_dilemma-v0": {},
}
ALTERNATIVES = 4


def prompts_of(episodes: list[Episode]) -> list[tuple[int, ...]]:
    """Prompts of the replies that were sampled in these matches."""
    return [
        turn.prompt_ids
        for episode in episodes
        for own in episode.trajectories
        for turn in own.turns
        if turn.completion_ids and not turn.inherited
    ]


def measure(env_id: str, order: Order, matches: int, alternatives: int) -> dict[str, Any]:
    """One row: a game in one order."""
    engine = TransformersEngine(BaseModel.load(catalog.TINY), SamplingSettings(max_new_tokens=8))
    specs = [
        MatchSpec(env_id=env_id, options=GAMES[env_id], seed=seed, split="train", seats=("tiny", "tiny"),
                  learner_seats=(0,), cluster=f"{seed}")
        for seed in range(matches)
    ]  # fmt: skip
    with Rollouts({"tiny": ModelPolicy(engine)}, root_seed=0, order=order) as rollouts:
        played = rollouts.play(specs)
        rollouts.take_prompt_tokens()
        branches = [
            branch_spec(episode, turn.turn_index, alternative=k)
            for episode in played
            for turn in episode.trajectories[0].turns
            for k in range(1, alternatives)
        ]
        parents = {episode.spec.match_id: episode for episode in played}
        forked = rollouts.play(branches, parents=parents)
        read = rollouts.take_prompt_tokens()
    before = prompts_of(played)
    least = least_computed([*before, *prompts_of(forked)]) - least_computed(before)
    return {
        "game": env_id,
        "order": order,
        "branches": len(branches),
        "prompt_tokens": read.all,
        "computed": read.all - read.cached,
        "least": least,
        "computed_per_branch": (read.all - read.cached) / len(branches),
        "computed_to_least": (read.all - read.cached) / least,
    }


def main() -> None:
    """Measure all games in both orders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matches", type=int, default=6)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    for env_id in GAMES:
        for order in get_args(Order):
            rows.append(measure(env_id, order, options.matches, ALTERNATIVES))
            print(json.dumps(rows[-1]), flush=True)
    if options.out:
        command = f"python -m benchmarks.caching.fork_prompts --matches {options.matches}"
        options.out.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
