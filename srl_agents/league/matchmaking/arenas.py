"""The games of a league, and the choice of the game that is played next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.league.curricula import Arm
from srl_agents.league.matchmaking.row_passes import NO_ROWS, RowCounts
from srl_agents.league.ratings.intervals import Floats
from srl_agents.league.settings import OpponentSettings
from srl_agents.records import MatchSpec, canonical_json
from srl_envs.core import Mode
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Arena:
    """One game of a league."""

    env_id: str
    options: dict[str, Any]
    """Of evaluation, and of training without ``levels``."""
    seats: int
    mode: Mode = "competitive"
    teams: tuple[int, ...] = ()
    """Team per seat; empty where every seat plays for itself."""
    name: str = ""
    """What it is called where there are several; its environment's id if empty."""
    weight: float = 1.0
    """Share of training matches, relative to the others'; 0 is measured and never trained."""
    levels: tuple[dict[str, Any], ...] = ()
    """Options of training from easy to hard, each whole."""
    rows: tuple[RowCounts, ...] = (NO_ROWS,)
    """Numbers of rows of the task's collection, at each level."""
    opponents: OpponentSettings | None = None
    """Opponents of learners in this game; None: those of the league."""
    rated_against: tuple[str, ...] = ()
    """Ids of the bots and agents that learners are measured against."""

    @property
    def title(self) -> str:
        """Name of the game in tables and messages."""
        return self.name or self.env_id

    @property
    def alone(self) -> bool:
        """Whether it has one seat: a task without opponents."""
        return self.seats == 1

    @property
    def turns(self) -> tuple[int, ...]:
        """Seats that one of two agents begins at in turn: one of each team, where a side is held together."""
        if self.teams:
            return tuple(self.teams.index(team) for team in sorted({*self.teams}))
        return tuple(range(self.seats))

    def training_rows(self, level: int) -> RowCounts:
        """Rows that matches of a level ask in passes."""
        return self.rows[level] if len(self.rows) > 1 else self.rows[0]

    def training_options(self, level: int) -> dict[str, Any]:
        """Options of a training match."""
        return self.levels[level] if self.levels else self.options


class Arenas:
    """All games of a league.

    Args:
        arenas: at least one, with different titles, and with a weight above 0 in one of them.

    Raises:
        ConfigError: two games have the same name or the same options.
    """

    def __init__(self, arenas: Sequence[Arena]) -> None:
        self.all = tuple(arenas)
        self.arms: tuple[tuple[Arena, int], ...] = tuple(
            (arena, level) for arena in arenas for level in range(max(1, len(arena.levels)))
        )
        """Arms that training draws from: (game, level)."""
        self._by_options: dict[tuple[str, str], tuple[Arena, int]] = {}
        for arena, level in self.arms:
            for options in (arena.training_options(level), arena.options):
                key = (arena.env_id, canonical_json(options))
                other = self._by_options.setdefault(key, (arena, level))[0]
                if other is not arena:
                    raise ConfigError(
                        f"environments: {other.title} and {arena.title} are the same game with the same "
                        "options; leave one out, or give them different options."
                    )

    @property
    def trained(self) -> tuple[Arena, ...]:
        """Games that learners train in."""
        return tuple(arena for arena in self.all if arena.weight > 0)

    @property
    def met_in(self) -> tuple[Arena, ...]:
        """Games that learners train in and meet others in."""
        return tuple(arena for arena in self.trained if not arena.alone)

    @property
    def cooperative(self) -> bool:
        """Whether all seats are paid alike in every game that is trained."""
        return all(arena.mode == "cooperative" for arena in self.met_in)

    def of(self, spec: MatchSpec) -> Arena:
        """The game that a match is of."""
        return self.arm_of(spec)[0]

    def title_of(self, spec: MatchSpec) -> str:
        """Title of the game that a match is of."""
        return self.of(spec).title

    def arm_of(self, spec: MatchSpec) -> tuple[Arena, int]:
        """The game and the level that a match is of.

        Raises:
            ConfigError: it is of no game of this league.
        """
        found = self._by_options.get((spec.env_id, canonical_json(spec.options)))
        if found is None:
            raise ConfigError(f"{spec.env_id} with {spec.options} is not a game of this league.")
        return found

    def as_arms(self, weights: Mapping[str, float] | None = None) -> tuple[Arm, ...]:
        """The games as a curriculum sees them: see `arms`.

        Args:
            weights: game -> weight for one learner, 0 where absent; None: the games' own.
        """
        return tuple(
            Arm(
                game=arena.title,
                level=level,
                levels=max(1, len(arena.levels)),
                weight=arena.weight if weights is None else weights.get(arena.title, 0.0),
            )
            for arena, level in self.arms
        )


def apportion(chances_A: Floats, slots: int, offset: float) -> list[int]:
    """Share slots out by systematic sampling: each arm gets its share of them, rounded up or down.

    Args:
        chances_A: of the arms, their sum is 1.
        slots: how many, 1 or more.
        offset: in [0, 1), drawn once for all slots.

    Returns:
        The arm of each slot, in the order of arms. An arm with chance 0 gets none, and in expectation
        over ``offset`` each gets slots x chance.

    Source: W. G. Cochran, "Sampling Techniques", chapter 8.
    """
    ends_A = np.cumsum(chances_A)
    points_S = (np.arange(slots) + offset) / slots * ends_A[-1]
    drawn_S = np.searchsorted(ends_A, points_S, side="right")
    last = int(np.flatnonzero(np.asarray(chances_A) > 0)[-1])  # rounding may pass the last end
    return [min(int(arm), last) for arm in drawn_S]
