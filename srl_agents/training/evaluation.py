"""How good the learners are, on eval seeds: looks during training, and the final table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srl_agents.league.manager import FINAL
from srl_agents.records import Episode
from srl_agents.rollouts.transcripts import TRANSCRIPTS, TranscriptLog
from srl_agents.training.parts import Parts


def look(parts: Parts, done: int, learners: dict[str, dict[str, float]]) -> float:
    """Measure the live versions against the start and the bots.

    Args:
        parts: of the run.
        done: updates so far.
        learners: metrics, which are added to.

    Returns:
        Mean points per game of all learners.
    """
    evaluation, league = parts.recipe.evaluation, parts.league
    opponents = [*league.starts, *evaluation.opponents]
    pairings = [(league.live(name), other) for name in parts.learners for other in opponents]
    specs = league.evaluation_matches(f"eval/{done}", pairings, range(evaluation.pairs))
    specs = parts.matches.budgets.affordable(specs)
    episodes = parts.matches.play(f"update {done}: evaluating", specs)
    league.report(episodes)
    for name, values in learners.items():
        live = league.live(name)
        mine = [e for e in episodes if e.valid and live in e.spec.seats]
        for other in opponents:
            if not any(other in e.spec.seats for e in mine):
                continue  # its budget is spent
            key = "score_start" if other == league.start_of(name) else f"score_{other}"
            values[key] = _score(mine, live, other)
        values["eval_format"] = _format_of(mine, live)
        values["start_format"] = _format_of(mine, league.start_of(name))
    return _mean([v[k] for v in learners.values() for k in v if k.startswith("score_")])


def final_table(parts: Parts) -> None:
    """Play what is missing of it: every final version, the start and the bots, all against all."""
    recipe, league = parts.recipe, parts.league
    agents = [*league.starts, *map(league.live, parts.learners)]
    agents += recipe.evaluation.opponents
    known = {
        spec.match_id
        for spec, result in parts.store.matches(schedule=FINAL)
        if result.termination != "void"
    }
    specs = league.round_robin(FINAL, agents, recipe.evaluation.final_pairs)
    missing = [spec for spec in specs if spec.match_id not in known]
    missing = parts.matches.budgets.affordable(missing)
    if missing:
        log = TranscriptLog(parts.folder / TRANSCRIPTS)
        parts.matches.play("final round robin", missing, log.add)


def _score(episodes: Sequence[Episode], policy: str, opponent: str) -> float:
    """Points per game of ``policy`` against ``opponent``."""
    points = []
    for episode in episodes:
        if opponent not in episode.spec.seats:
            continue
        mine = next(t for t in episode.trajectories if t.policy == policy)
        theirs = next(t for t in episode.trajectories if t.policy == opponent)
        points.append((1 + np.sign(mine.outcome - theirs.outcome)) / 2)
    return _mean(points)


def _format_of(episodes: Sequence[Episode], policy: str) -> float:
    """Mean format component of ``policy``."""
    seats = [t for e in episodes for t in e.trajectories if t.policy == policy]
    return _mean([t.components["format"] for t in seats])


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
