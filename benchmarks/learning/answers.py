"""How often a learner's versions answer math duels rightly, by kind of problem.

    python -m benchmarks.learning.answers RUN [--seeds 16] [--every 5] [--json FILE] [--out PICTURE]

RUN is a run of math_duel-v0 with model learners. Every version of a learner (the base, its warm start, its
snapshots: NAME@STEPS) is asked the first problem of episodes on eval seeds, as many of each family, with
the recipe's prompt, sampled at temperature 1. Intervals are Wilson's, at 95 %, over problems.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import srl_envs
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightVersion, label_of
from srl_envs.errors import IllegalMoveError
from srl_envs.families.reasoning.math_duel import PASS, is_correct, parse_move
from srl_envs.families.reasoning.math_duel_bots import strong_bot
from srl_envs.families.reasoning.math_problems import FAMILIES
from srl_envs.turns.grammar import parse_reply

KINDS = ("right", "wrong", "pass", "refused")
_ACTION_CHARS = 100


@dataclass(frozen=True, slots=True)
class Question:
    """A problem as a seat sees it."""

    family: str
    text: str
    answer: str


def questions(env_options: dict[str, Any], seeds: int) -> list[Question]:
    """The first problem of eval episodes, ``seeds`` of each family."""
    solve = strong_bot(np.random.default_rng(0))
    asked = []
    for family in env_options.get("families") or FAMILIES:
        env = srl_envs.make("math_duel-v0", **env_options | {"families": [family]}, split="eval")
        for seed in range(seeds):
            observations, _ = env.reset(seed=seed)
            text = observations[env.possible_agents[0]]["text"]
            body, _ = parse_reply(solve(text), _ACTION_CHARS)
            answer = parse_move(body or "").answer
            assert answer is not None
            asked.append(Question(family, text, answer))
    return asked


def verdict(reply: str, answer: str) -> str:
    """One of `KINDS`."""
    body, _ = parse_reply(reply, _ACTION_CHARS)
    if body is None:
        return "refused"
    try:
        move = parse_move(body)
    except IllegalMoveError:
        return "refused"
    if move == PASS:
        return "pass"
    return "right" if is_correct(move, answer) else "wrong"


def versions(run: Path, learner: str, every: int) -> list[tuple[str, Path | None]]:
    """Name and adapter folder of each version, in the order in which they were made.

    Args:
        run: its folder.
        learner: whose versions.
        every: only each n-th snapshot, counted back from the last.
    """
    found: list[tuple[str, Path | None]] = [("base", None)]
    if (run / "warm_start" / learner).is_dir():
        found.append(("warm start", run / "warm_start" / learner))
    snapshots = sorted(
        (path for path in (run / "snapshots").glob(f"{learner}@*-*") if path.is_dir()),
        key=lambda path: WeightVersion.parse(path.name).number,
    )
    return found + [(label_of(path.name), path) for path in snapshots[::-every][::-1]]


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95 % interval of a share. Source: Wilson, 1927."""
    z, share = 1.96, successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    return middle - half, middle + half


def ask(run: Path, learner: str, seeds: int, every: int) -> dict[str, dict[str, Counter[str]]]:
    """Version -> family -> how many replies of each of `KINDS`."""
    recipe = load(LeagueRecipe, run / "recipe.yaml")
    base = BaseModel.load(
        recipe.model,
        lora_rank=recipe.lora.rank,
        lora_alpha=recipe.lora.alpha,
        dtype=recipe.dtype,
        prompt=recipe.prompt.whole(),
    )
    sampling = SamplingSettings(max_new_tokens=recipe.rollout.max_new_tokens)
    engine = TransformersEngine(base, sampling, max_batch_rows=recipe.rollout.batch_rows)
    asked = questions(dict(recipe.env_options), seeds)
    counts: dict[str, dict[str, Counter[str]]] = {}
    for version, folder in versions(run, learner, every):
        weights = None
        if folder is not None:
            base.load_adapter("asked", folder)
            weights = base.freeze_adapter("asked")
        requests = [
            GenerationRequest(observation=question.text, version=weights, key=(number,))
            for number, question in enumerate(asked)
        ]
        generated = asyncio.run(engine.generate_together(requests))
        counts[version] = {}
        for question, reply in zip(asked, generated, strict=True):
            kind = verdict(reply.text, question.answer)
            counts[version].setdefault(question.family, Counter())[kind] += 1
        print(row(version, counts[version]), flush=True)
    return counts


def row(version: str, families: dict[str, Counter[str]]) -> str:
    """A line of a Markdown table."""
    total = sum(families.values(), Counter())
    asked = total.total()
    low, high = wilson(total["right"], asked)
    cells = [f"{total['right'] / asked:.0%} [{low:.0%}, {high:.0%}]"]
    cells += [f"{total[kind] / asked:.0%}" for kind in KINDS[1:]]
    cells += [f"{c['right'] / c.total():.0%}" for c in families.values()]
    return f"| {version} | " + " | ".join(cells) + " |"


def draw(counts: dict[str, dict[str, Counter[str]]], out: Path) -> None:
    """A stack of the four kinds of replies per version."""
    figure, axis = plt.subplots(figsize=(7, 3.4))
    floor = np.zeros(len(counts))
    totals = [sum(families.values(), Counter()) for families in counts.values()]
    for kind, color in zip(KINDS, ("#2a9d8f", "#e76f51", "#bbbbbb", "#444444"), strict=True):
        shares = np.array([total[kind] / total.total() for total in totals])
        axis.bar(list(counts), shares, bottom=floor, label=kind, color=color)
        floor += shares
    axis.set_ylabel("share of replies")
    axis.tick_params(axis="x", labelrotation=30)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=len(KINDS), frameon=False)
    figure.tight_layout()
    figure.savefig(out, dpi=110)


def main() -> None:
    """Print a table, write JSON, draw a picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--learner", default="alice")
    parser.add_argument("--seeds", type=int, default=16, help="problems of each family")
    parser.add_argument(
        "--every", type=int, default=1, help="only each n-th snapshot, and the last"
    )
    parser.add_argument("--json", type=Path, help="also write the counts to this file")
    parser.add_argument("--out", type=Path, help="also draw this picture")
    options = parser.parse_args()
    families = (
        load(LeagueRecipe, options.run / "recipe.yaml").env_options.get("families") or FAMILIES
    )
    print("| version | right | " + " | ".join((*KINDS[1:], *families)) + " |")
    print("|---|" + "--:|" * (len(KINDS) + len(families)))
    counts = ask(options.run, options.learner, options.seeds, options.every)
    if options.json:
        options.json.write_text(json.dumps(counts, indent=1))
    if options.out:
        draw(counts, options.out)


if __name__ == "__main__":
    main()
