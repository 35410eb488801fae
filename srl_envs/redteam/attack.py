"""The attack on one target: all its probes under one budget."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

import srl_envs
from srl_envs.errors import ConfigError
from srl_envs.foreign_code import left_out, load_installed, may_import
from srl_envs.redteam import search
from srl_envs.redteam.budget import Allowance, Budget
from srl_envs.redteam.findings import Case, Finding, Report
from srl_envs.redteam.probes import (
    answers,
    claims,
    codebook,
    formats,
    grammar_tricks,
    headroom,
    misbehaviour,
    overlap,
    payoffs,
    program_games,
    readers,
    speech,
)
from srl_envs.redteam.probes import verdicts as programs

CHECKS: dict[str, Callable[[Case], Finding | None]] = {
    "earnings": search.check,
    "misbehaviour": misbehaviour.check,
    "grammar": grammar_tricks.check,
    "overlap": overlap.check,
    "codebook": codebook.check,
    "speech": speech.check,
    "headroom": headroom.check,
    "payoffs": payoffs.check,
    "claims": claims.check,
    "program_games": program_games.check,
    "readers": readers.check,
    "answers": answers.check,
    "formats": formats.check,
    "programs": programs.check,
}
"""Probe -> what checks one of its cases again."""


SCORERS: dict[str, Callable[[int, Report, Allowance], None]] = {
    answers.TARGET: answers.probe,
    formats.TARGET: formats.probe,
    programs.TARGET: lambda _seed, report, part: programs.probe(report, part),
}
"""Rewards that are attacked beside the games: name -> probe."""
PROBE_GROUP = "srl.redteam"
"""Entry-point group: packages above this one add targets of their own. Each entry is a module with
``probe(seed, report, allowance)``, which adds to the report, and ``check(case)`` of its cases."""

Step = tuple[float, Callable[[Allowance], None]]


def targets() -> list[str]:
    """All that can be attacked: every registered environment, the scorers, and what packages add."""
    return [*srl_envs.list_envs(), *SCORERS, *sorted(_added())]


def _added() -> dict[str, metadata.EntryPoint]:
    added = metadata.entry_points(group=PROBE_GROUP)
    return {entry.name: entry for entry in added if may_import(entry.value)}


def attack(target: str, *, seed: int = 0, budget: Budget | None = None) -> Report:
    """Attack one environment or scorer.

    Args:
        target: a registered id, or one of `SCORERS`.
        seed: of the search and of all draws; with a budget of steps it decides everything.
        budget: 60 s of processor time by default.

    Raises:
        UnknownEnvironmentError: no such target.
    """
    budget = budget or Budget()
    report = Report(target=target)
    if target in SCORERS:
        SCORERS[target](seed, report, budget.whole())
    elif target in (added := _added()):
        load_installed(added[target]).probe(seed, report, budget.whole())
    else:
        srl_envs.spec(target)
        for end, step in _steps(target, seed, report):
            try:
                step(Allowance(budget, end))
            except Exception as error:  # noqa: BLE001 - a game of strangers must not end the attack
                report.faults.append(f"{type(error).__name__}: {error}"[:300])
    report.spent_s = budget.spent_s()
    return report


def _steps(env_id: str, seed: int, report: Report) -> list[Step]:
    """Probes in order, each with the share of the budget at which it ends."""
    codes = program_games.asks_for_programs(env_id)
    return [
        (0.05, lambda part: claims.probe(env_id, report, part)),
        (0.07, lambda part: payoffs.probe(env_id, report, part)),
        (0.10, lambda part: grammar_tricks.probe(env_id, seed, report, part)),
        (0.13, lambda part: headroom.probe(env_id, report, part)),
        (0.20, lambda part: overlap.probe(env_id, report, part)),
        (0.25, lambda part: speech.probe(env_id, report, part)),
        (0.35, lambda part: codebook.probe(env_id, report, part)),
        *([(0.7, lambda part: program_games.probe(env_id, seed, report, part))] if codes else []),
        (0.8 if codes else 0.5, lambda part: misbehaviour.probe(env_id, report, part)),
        (0.85 if codes else 0.65, lambda part: _earn(env_id, seed, report, part)),
        (1.0, lambda part: readers.probe(env_id, seed, report, part)),
    ]


def _earn(env_id: str, seed: int, report: Report, allowance: Allowance) -> None:
    best: dict[str, search.Found] = {}
    for found in search.best_responses(env_id, seed, allowance):
        known = best.get(found.company)
        if known is None or found.gain.value > known.gain.value:
            best[found.company] = found
        finding = search.judged(env_id, found)
        if finding is not None:
            report.findings.append(finding)
    if best:
        report.measures["responses"] = [_measures(found) for found in best.values()]
        report.measures.update(_measures(max(best.values(), key=lambda found: found.gain.value)))


def _measures(found: search.Found) -> dict[str, object]:
    return {
        "thoughtless": str(found.attack), "company": found.company, "earned": found.earned,
        "strong": found.strong, "gain": found.gain.value, "half": found.gain.half,
        "seeds": found.gain.seeds,
    }  # fmt: skip


def check_case(case: Case) -> Finding | None:
    """Check one saved case again: the finding as it stands now, None where it is gone.

    Raises:
        ConfigError: no installed package has the case's probe.
    """
    probe = case["probe"]
    if probe in CHECKS:
        return CHECKS[probe](case)
    added = _added()
    if probe not in added:
        raise ConfigError(
            f"no probe {probe!r}; known: {', '.join([*CHECKS, *sorted(added)])}."
            f"{left_out(PROBE_GROUP)}"
        )
    found: Finding | None = load_installed(added[probe]).check(case)
    return found
