"""Facts of a recipe's environment, with the recipe's options and wrappers around it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from srl_agents.credit.settings import CreditSettings
from srl_agents.league.matchmaking.row_passes import NO_ROWS, RowCounts
from srl_agents.records import canonical_json
from srl_agents.rewards.settings import RewardSettings
from srl_envs import make
from srl_envs.errors import ConfigError
from srl_envs.reading.recovery import STAND_IN
from srl_envs.reading.settings import with_defaults

Wrappers = tuple[dict[str, Any], ...]
_NOT_OPTIONS = {
    "wrappers": "name wrappers in the section `wrappers`",
    "split": "a run trains on split train and measures on eval; leave it out",
    "render_mode": "a run draws nothing; leave it out. `srl watch` shows its games",
}
"""Options of `srl_envs.make` that a recipe has no use for, and what to do instead."""
_PLAIN = (type(None), bool, int, float, str)
"""Kinds of defaults that are the same whenever they are written alike."""


@dataclass(frozen=True, kw_only=True)
class NamedSettings:
    """A name in results. Without slots, so that other settings may derive from it."""

    name: str = ""
    """What tables, metrics and matches call it; of a run its folder, which has no default. If absent: a
    game's id, of which two entries need names; of an agent ``bot:NAME``, the adapter folder's name or the
    model's name."""


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Processes beside the run's own. Without slots, so that other settings may derive from it."""

    workers: int = 0
    """Processes that play. Of a population 0 plays in the league's own; in ``ray`` 2 unless given."""


@dataclass(frozen=True, kw_only=True)
class SeedSettings:
    """Randomness. Without slots, so that other settings may derive from it."""

    seed: int = 0
    """Root of all randomness of the run: of its schedule, of sampling and of learning. Of several bounds that
    exploiters of other seeds give, the largest is the best one known."""


@dataclass(frozen=True, kw_only=True)
@with_defaults(name=field(metadata={STAND_IN: "unnamed"}))
class RunSettings(NamedSettings, SeedSettings):
    """A run's name and randomness. Without slots, so that recipes may derive from it."""


@dataclass(frozen=True, kw_only=True)
class GameOptions:
    """How a game is made. Without slots, so that other settings may derive from it."""

    env: str = ""
    """Registered environment id. It has no default: only a recipe with ``environments`` leaves it out."""
    env_options: dict[str, Any] = field(default_factory=dict)
    """Options of `srl_envs.make`, in training and evaluation alike."""
    wrappers: tuple[dict[str, Any], ...] = ()
    """Wrappers of `srl_envs.wrappers` around the environment, from the inside out, in training and
    evaluation alike: ``kind`` and arguments."""
    teams: tuple[int, ...] = ()
    """Team per seat, for example [0, 0, 1, 1]; empty where every seat plays for itself."""


@dataclass(frozen=True, kw_only=True)
class PaySettings:
    """What credit sees of a game's rewards. Without slots, so that other settings may derive from it."""

    credit: CreditSettings = field(default_factory=CreditSettings)
    """How rewards become advantages. Absent in an entry of ``environments``: by the recipe's ``credit``, with
    the game's own mode where that names none."""
    rewards: RewardSettings | None = None
    """What counts how much in what credit sees. Absent: what the environment pays; in an entry of
    ``environments`` the recipe's ``rewards``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Facts that follow from an environment's id, options and wrappers."""

    seats: int
    wrappers: Wrappers
    """With all their arguments, so that a default which changes later changes no run."""
    paid: tuple[str, ...]
    """Components that its rewards are the sum of."""
    statistics: tuple[str, ...]
    """Components that it reports at the end."""
    references: tuple[str, ...]
    """What decides whether a move is right, by name; only rewards read it."""
    resource: str = ""
    """The one of them that is the share of a scarce pool; empty without a pool."""
    whole: str = ""
    """Id, options and wrappers as one text in which defaults are written down, too."""
    rows: RowCounts = NO_ROWS
    """Numbers of rows of the task's collection."""
    most_replies: int = 1
    """Most replies of one seat in one episode."""
    most_prompt_chars: int = 0
    """Most characters of one observation."""


def surroundings(
    env_id: str, options: Mapping[str, Any], wrappers: Sequence[Mapping[str, Any]]
) -> Surroundings:
    """Make the environment once and look at it.

    Raises:
        ConfigError: an option or a wrapper is unknown or does not fit.
    """
    for name, instead in _NOT_OPTIONS.items():
        if name in options:
            raise ConfigError(f"env_options.{name}: {instead}.")
    env: Any = make(env_id, wrappers=wrappers, **options)
    with closing(env):
        return Surroundings(
            seats=len(env.possible_agents),
            wrappers=tuple(env.options.get("wrappers", ())),
            paid=env.paid_names,
            statistics=env.statistic_names,
            references=env.unwrapped.game.reference_names,
            resource=env.unwrapped.resource_name,
            whole=_whole(env, options),
            rows=RowCounts(env.unwrapped.game.rows_to_train, env.unwrapped.game.rows_each),
            most_replies=int(env.observation_space(env.possible_agents[0])["turn"].n),
            most_prompt_chars=env.unwrapped.most_text_chars,
        )


def _whole(env: Any, options: Mapping[str, Any]) -> str:
    game, shell = type(env.unwrapped.game), type(env.unwrapped)
    defaults = {
        name: parameter.default
        for made in (game, shell)
        for name, parameter in inspect.signature(made).parameters.items()
        if isinstance(parameter.default, _PLAIN) and name not in _NOT_OPTIONS
    }
    wrappers = list(env.options.get("wrappers", ()))
    return canonical_json([env.unwrapped.env_spec.id, defaults | dict(options), wrappers])


def match_options(options: Mapping[str, Any], wrappers: Wrappers) -> dict[str, Any]:
    """Options of `srl_envs.make` for every match of a run."""
    return {**options, **({"wrappers": [dict(w) for w in wrappers]} if wrappers else {})}
