"""What came of a training run: numbers of its final matches and curves of its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.league.matchmaking.evaluation_schedule import FINAL
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.league.matchmaking.points import mean_points
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.sinks import read_lines
from srl_agents.records import MatchResult, MatchSpec

METRICS = "metrics.jsonl"
CURVES = ("reward", "outcome", "invalid_share", "entropy", "kl", "flat_groups")
"""Metrics of learners that are kept for every update, as means over the learners."""
LOOKS = "score_"
"""How metrics of looks at eval seeds begin; those that a run has are kept too."""
Match = tuple[MatchSpec, MatchResult]


def measure(run: Path) -> dict[str, Any]:
    """Numbers of a finished run.

    Args:
        run: its folder.

    Returns:
        ``tokens`` and ``matches`` of training; ``final``, of the final versions on eval seeds, means
        over the learners: ``points_OPPONENT`` per game in [0, 1] and ``outcome_OPPONENT``, the
        learner's own outcome in those matches, for ``start`` and each bot; ``together``, the mean
        outcome of all seats in matches between learners only; ``refused``, replies per seat and match
        that the game refused. ``curves``: metric name -> value per update.
    """
    with LeagueStore(run / "league.db", mode="read") as store:
        agents = store.agents()
        training = store.matches(split="train")
        final = store.matches(schedule=FINAL)
    lines = {agent.agent_id: agent.lineage for agent in agents if agent.parent}
    start = next(agent.parent for agent in agents if agent.parent)
    live = {name for spec, _ in final for name in spec.seats if name in lines}
    return {
        "matches": len(training),
        "tokens": sum(sum(result.tokens) for _, result in training),
        "final": _final(final, live, start),
        "curves": _curves(run),
    }


def _final(matches: Sequence[Match], live: set[str], start: str) -> dict[str, float]:
    found: dict[str, float] = {}
    others = {name for spec, _ in matches for name in spec.seats} - live
    for other in sorted(others):
        key = "start" if other == start else other.removeprefix(BOT)
        points, outcomes = [], []
        for name in sorted(live):
            met = [m for m in matches if {name, other} == set(m[0].seats)]
            points.append(_mean(mean_points(s.seats, r.outcomes, name) for s, r in met))
            outcomes.append(_mean(_of(s, r.outcomes, {name}) for s, r in met))
        found |= {f"points_{key}": _mean(points), f"outcome_{key}": _mean(outcomes)}
    among = [(s, r) for s, r in matches if set(s.seats) <= live]
    if among:
        found["together"] = _mean(_mean(r.outcomes) for _, r in among)
    found["refused"] = _mean(
        _of(s, r.invalid_replies, live) for s, r in matches if live & set(s.seats)
    )
    return found


def _of(spec: MatchSpec, values: Sequence[float], agents: set[str]) -> float:
    """Mean over the seats that these agents hold."""
    return _mean(v for name, v in zip(spec.seats, values, strict=True) if name in agents)


def _curves(run: Path) -> dict[str, list[float | None]]:
    """Mean over the learners per update; None where no learner has the metric."""
    records = read_lines(run / METRICS)
    looks = {n for r in records for v in r["learners"].values() for n in v if n.startswith(LOOKS)}
    return {
        name: [
            _mean(values)
            if (values := [v[name] for v in r["learners"].values() if name in v])
            else None
            for r in records
        ]
        for name in (*CURVES, *sorted(looks))
    }


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 5)
