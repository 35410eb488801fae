"""`srl_agents.credit`: episodes to advantage rows in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.credit.assignment import AnswerLogprobs, CreditAssigner
from srl_agents.credit.estimators import ESTIMATORS
from srl_agents.credit.settings import CreditSettings
from srl_agents.credit.teams.shares import Replayed
from srl_agents.records import Episode, Turn, WeightVersion
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import build


@dataclass(frozen=True, kw_only=True, slots=True)
class Credited:
    """Rows with advantages that one learner learns from in an update."""

    learner: str
    rows: tuple[tuple[Turn, float], ...]
    """Turns that the learner wrote, each with its advantage in reward units; none where all groups are
    flat."""
    metrics: Mapping[str, float]
    """Of play and credit, by the names in `srl_agents.metrics.MEANINGS`; empty where no episode is valid."""


def credit(
    episodes: Sequence[Episode],
    *,
    learner: str | None = None,
    scale: bool = False,
    assigner: CreditAssigner | None = None,
    replayed: Replayed | None = None,
    answer_logprobs: AnswerLogprobs | None = None,
    **settings: Any,
) -> Credited:
    """Turn returns into advantages for every turn that one version of a learner wrote.

    Args:
        episodes: of one update.
        learner: whose turns; the only learner of the episodes if absent.
        scale: divide group-relative advantages by their group's deviation.
        assigner: holds what an estimator remembers between updates, such as running means; make one
            `CreditAssigner` and pass it every time. It brings its own settings.
        replayed: plays episodes again with idle seats, for ``team_share`` other than ``mean``; such as
            ``srl_agents.rollouts.counterfactual.Replays().outcomes``.
        answer_logprobs: how likely the right answer was at each turn, for ``estimator="information_gain"``.
        settings: fields of `CreditSettings`, such as ``estimator="leave_one_out"`` or ``level="turn"``.

    Raises:
        ConfigError: a setting or the learner is unknown, several versions of the learner wrote the episodes,
            or the settings need an ``assigner`` or ``replayed``.
    """
    name, policy = _author(episodes, learner)
    if assigner is None:
        read = build(CreditSettings, settings, "credit")
        _require_no_memory(read)
        teams = episodes[0].spec.teams
        assigner = CreditAssigner(
            read, scale=scale, teams=teams, replayed=replayed, answer_logprobs=answer_logprobs
        )
    elif settings or scale or replayed is not None or answer_logprobs is not None:
        more = {"scale": scale, "replayed": replayed, "answer_logprobs": answer_logprobs}
        given = [*settings, *(name for name, value in more.items() if value)]
        raise ConfigError(
            f"credit: assigner and {', '.join(given)}: the assigner has settings of its own. Make it with "
            "these, or leave it out."
        )
    rows, metrics = assigner.assign(episodes, name, policy)
    return Credited(learner=name, rows=tuple(rows), metrics=metrics)


def _author(episodes: Sequence[Episode], learner: str | None) -> tuple[str, str]:
    """The learner, and the id of the version that played its learning seats."""
    policies = dict.fromkeys(e.spec.seats[seat] for e in episodes for seat in e.spec.learner_seats)
    if not policies:
        raise ConfigError(
            f"credit: {len(episodes)} episodes without a learning seat. Give what `Learner.play` returned."
        )
    versions: dict[str, list[str]] = {}
    for policy in policies:
        versions.setdefault(WeightVersion.parse(policy).learner, []).append(policy)
    if learner is None and len(versions) > 1:
        raise ConfigError(
            f"credit: the episodes are of {' and '.join(versions)}; name one with learner=NAME."
        )
    name = next(iter(versions)) if learner is None else learner
    if name not in versions:
        raise ConfigError(
            f"credit: no learner {name!r} in the episodes, only {', '.join(versions)}."
        )
    if len(versions[name]) > 1:
        raise ConfigError(
            f"credit: {' and '.join(versions[name])} played these episodes; call it once per version."
        )
    return name, versions[name][0]


def _require_no_memory(settings: CreditSettings) -> None:
    """Refuse settings under which an update depends on those before it."""
    remembers = ESTIMATORS.find(settings.estimator).remembers
    adapts = settings.mode == "adaptive"
    if remembers or adapts:
        what = f"estimator={settings.estimator!r}" if remembers else "mode='adaptive'"
        raise ConfigError(
            f"credit: {what} remembers earlier updates. Make `CreditAssigner(CreditSettings(...))` once and "
            "pass it as assigner=... with every update's episodes."
        )
