"""The attack on one target: all its probes under one budget."""

from __future__ import annotations

from collections.abc import Callable

import srl_envs
from srl_envs.redteam import (
    claims,
    codebook,
    grammar_tricks,
    misbehaviour,
    overlap,
    search,
    speech,
)
from srl_envs.redteam.budget import Budget
from srl_envs.redteam.findings import Case, Finding, Report

CHECKS: dict[str, Callable[[Case], Finding | None]] = {
    "earnings": search.check,
    "misbehaviour": misbehaviour.check,
    "grammar": grammar_tricks.check,
    "overlap": overlap.check,
    "codebook": codebook.check,
    "speech": speech.check,
    "claims": claims.check,
}
"""Probe -> what checks one of its cases again."""


def attack_game(env_id: str, *, seed: int = 0, budget: Budget | None = None) -> Report:
    """Attack one environment.

    Args:
        env_id: a registered id.
        seed: of the search and of all draws; with a budget of steps it decides everything.
        budget: 60 s of processor time by default.

    Raises:
        UnknownEnvironmentError: no such id.
    """
    srl_envs.spec(env_id)
    budget = budget or Budget()
    report = Report(target=env_id)
    steps: list[tuple[float, Callable[[float], None]]] = [
        (0.05, lambda end: claims.probe(env_id, report, budget, end)),
        (0.10, lambda end: grammar_tricks.probe(env_id, seed, report, budget, end)),
        (0.20, lambda end: overlap.probe(env_id, report, budget, end)),
        (0.25, lambda end: speech.probe(env_id, report, budget, end)),
        (0.35, lambda end: codebook.probe(env_id, report, budget, end)),
        (0.50, lambda end: misbehaviour.probe(env_id, report, budget, end)),
        (1.00, lambda end: _earn(env_id, seed, report, budget, end)),
    ]
    for end, step in steps:
        step(end)
    report.spent_s = budget.spent_s()
    return report


def _earn(env_id: str, seed: int, report: Report, budget: Budget, until: float) -> None:
    best = None
    for found in search.best_responses(env_id, seed, budget, until):
        if best is None or found.gain.value > best.gain.value:
            best = found
        finding = search.judged(env_id, found)
        if finding is not None:
            report.findings.append(finding)
    if best is not None:
        report.measures.update(
            thoughtless=str(best.attack), company=best.company, earned=best.earned,
            strong=best.strong, gain=best.gain.value, half=best.gain.half,
            seeds=best.gain.seeds,
        )  # fmt: skip


def check_case(case: Case) -> Finding | None:
    """Check one saved case again: the finding as it stands now, None where it is gone."""
    return CHECKS[case["probe"]](case)
