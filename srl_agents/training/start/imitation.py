"""Learners begin by imitating: games of bots, or recorded ones, become rows, rows adapters, once per run.

The adapters are kept in the run's folder. A run that is continued reads them, so what begins after
them begins from the same weights.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents import checkpoints
from srl_agents.agents import ScriptedPolicy
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.metrics import ConsoleView
from srl_agents.models.base_model import BaseModel
from srl_agents.recipes.sections.warm_start import WarmStartSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.trainers.supervised.sft import SFTLearner
from srl_agents.training.bases import LoadedBase, below
from srl_agents.training.start.recorded_games import RECORDED, WARM_START, recorded_games
from srl_envs.errors import ConfigError

REPORT = "report.json"
_STREAM = 0x5F7
"""Sets the draws of a warm start apart from others with the run's seed."""


def warm_start(
    recipe: LeagueRecipe,
    bases: Sequence[LoadedBase],
    seeds: Mapping[str, int],
    folder: Path,
    view: ConsoleView,
) -> None:
    """Add every learner's adapter to its base, as imitation leaves it; one that is there learns on.

    Args:
        recipe: of the run; without a warm start nothing happens.
        bases: get the adapters.
        seeds: learner -> seed of its adapter's first weights; equal seeds give equal adapters.
        folder: of the run; ``warm_start`` in it holds the adapters and a report.
        view: shows progress.

    Raises:
        CheckpointError: the adapters that an earlier start made are damaged.
        ConfigError: no reply can be imitated, because prompts or replies are too long; or a recorded game
            is none of the recipe's.
    """
    final, settings = folder / WARM_START, recipe.warm_start
    if settings is None:
        return
    on = {name: base.model for base in bases for name in base.settings.learners}
    if final.is_dir():
        for name, base in on.items():
            checkpoints.check_frozen(
                final / name, f"Delete {final}: the run makes it again, alike."
            )
            base.load_adapter(name, final / name)
        return
    episodes = recorded_games(recipe)
    if settings.bots:
        view.phase("warm start: bots play", settings.episodes)
        episodes += _played(recipe, settings, view)
    work = folder / f"{WARM_START}.tmp"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for loaded in bases:
        base = loaded.model
        rows, report = demonstrations_of(episodes, settings, base, recipe.rollout.max_new_tokens)
        if not rows:
            raise ConfigError(
                f"warm_start: nothing to imitate in {len(episodes)} games: {report}. Prompts and replies "
                f"must fit {base.context_length} tokens together, replies rollout.max_new_tokens="
                f"{recipe.rollout.max_new_tokens}."
            )
        view.say(_in_words(report))
        for name in loaded.settings.learners:
            learner = SFTLearner(name, base, settings.training, seeds[name])
            batches = _shuffled(rows, settings.training.batch_rows, seeds[name])
            report["learners"][name] = _imitate(learner, batches, settings.updates, view)
            base.save_adapter(name, work / f"{name}.tmp")
            checkpoints.keep_frozen(work / f"{name}.tmp", work / name)
        below(work, loaded.settings).mkdir(exist_ok=True)
        text = json.dumps(report, indent=1, sort_keys=True)
        (below(work, loaded.settings) / REPORT).write_text(text)
    checkpoints.rename_durably(work, final)


def demonstrations_of(
    episodes: Sequence[Episode],
    settings: WarmStartSettings,
    base: BaseModel,
    max_new_tokens: int,
) -> tuple[list[Demonstration], dict[str, Any]]:
    """Replies as rows of the model's chat template.

    Args:
        episodes: of bots, and recorded ones; lost ones are passed over.
        settings: whose replies, and which.
        base: tokenizes.
        max_new_tokens: longest reply that a learner may write; longer ones cannot be imitated.

    Returns:
        The rows, and counts: ``episodes``, ``void``, ``refused`` (by the game), ``prompts_too_long``
        (for the model's context, with the reply), ``replies_too_long``, and ``rows`` per bot.
    """
    wanted = {RECORDED, *(f"{BOT}{bot}" for bot in settings.bots)}
    counts: Counter[str] = Counter()
    authors: Counter[str] = Counter()
    rows = []
    for episode in episodes:
        if not episode.valid:
            counts["void"] += 1
            continue
        best = max(t.outcome for t in episode.trajectories)
        for trajectory in episode.trajectories:
            left_out = settings.keep == "best" and trajectory.outcome < best
            if trajectory.policy not in wanted or left_out:
                continue
            for turn in trajectory.turns:
                if turn.invalid is not None:
                    counts["refused"] += 1
                    continue
                row = Demonstration(
                    # demonstrations have no thoughts: a reply follows thoughts that end at once
                    prompt_ids=base.encode_prompt(turn.observation) + base.chat.thoughts_end,
                    reply_ids=base.encode_reply(turn.reply),
                    by=trajectory.policy,
                )
                if len(row.prompt_ids) + len(row.reply_ids) > base.context_length:
                    counts["prompts_too_long"] += 1
                elif len(row.reply_ids) - 1 > max_new_tokens:
                    counts["replies_too_long"] += 1
                else:
                    rows.append(row)
                    authors[trajectory.policy] += 1
    report = {name: counts[name] for name in ("void", "refused", "prompts_too_long")}
    report["replies_too_long"] = counts["replies_too_long"]
    return rows, report | {"episodes": len(episodes), "rows": dict(authors), "learners": {}}


def _played(recipe: LeagueRecipe, settings: WarmStartSettings, view: ConsoleView) -> list[Episode]:
    """Games of bots on training seeds, each a function of the run's seed and its number."""
    games = [game for game in recipe.games if game.weight > 0]
    specs = []
    for number in range(settings.episodes):
        rng = np.random.Generator(
            np.random.Philox(np.random.SeedSequence([recipe.seed, _STREAM, number]))
        )
        seed = int(rng.integers(2**31))
        game = games[number % len(games)]
        drawn = rng.choice(len(settings.bots), size=game.seats)
        specs.append(
            MatchSpec(
                env_id=game.env_id,
                options=game.options,
                seed=seed,
                split="train",
                seats=tuple(f"{BOT}{settings.bots[int(bot)]}" for bot in drawn),
                purpose="bot",
                cluster=f"train/{seed}",
                schedule=WARM_START,
                number=number,
                teams=game.teams,
            )
        )
    policies = {f"{BOT}{bot}": ScriptedPolicy(bot) for bot in settings.bots}
    runner = Rollouts(policies, root_seed=recipe.seed, concurrency=recipe.rollout.concurrency)
    try:
        return runner.play(specs, view.advance)
    finally:
        runner.close()


def _imitate(
    learner: SFTLearner,
    batches: Iterator[tuple[Demonstration, ...]],
    updates: int,
    view: ConsoleView,
) -> dict[str, dict[str, float]]:
    """Train one learner's adapter; metrics of the first and the last step."""
    name = learner.name
    view.phase(f"warm start: {name} imitates", updates)
    first: dict[str, float] = {}
    for _ in range(updates):
        metrics = learner.update(DemonstrationBatch(learner=name, demonstrations=next(batches)))
        first = first or metrics
        view.advance()
    shown = ("loss", "token_accuracy")
    view.say(
        f"warm start of {name}: loss {first['loss']:.3f} -> {metrics['loss']:.3f}, tokens right "
        f"{first['token_accuracy']:.0%} -> {metrics['token_accuracy']:.0%}"
    )
    return {
        "first": {key: first[key] for key in shown},
        "last": {key: metrics[key] for key in shown},
    }


def _shuffled(
    rows: Sequence[Demonstration], size: int, seed: int
) -> Iterator[tuple[Demonstration, ...]]:
    """Batches without end: every row once per pass, in an order that is the pass's own."""
    number = 0
    queue: list[int] = []
    while True:
        while len(queue) < size:
            order = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, number])))
            queue += [int(i) for i in order.permutation(len(rows))]
            number += 1
        some, queue = queue[:size], queue[size:]
        yield tuple(rows[i] for i in some)


def _in_words(report: Mapping[str, Any]) -> str:
    """One line for people."""
    by = ", ".join(f"{count} of {name}" for name, count in sorted(report["rows"].items()))
    odd = [f"{report[key]} {key.replace('_', ' ')}" for key in sorted(report) if "too" in key]
    return f"warm start: replies from {report['episodes']} games: {by}; left out: {', '.join(odd)}"
