"""The games of a recipe: the section ``environments``, and settings derived from it and from the game."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from srl_agents.agents.grammar import BOT
from srl_agents.credit.settings import CreditSettings
from srl_agents.league.matchmaking.arenas import Arena
from srl_agents.league.matchmaking.row_passes import RowCounts
from srl_agents.league.modes import resolve
from srl_agents.league.settings import BotWeightSettings, OpponentSettings, require, require_weight
from srl_agents.recipes.sections.base_models import NAME, is_name
from srl_agents.recipes.sections.environment import (
    GameOptions,
    NamedSettings,
    PaySettings,
    Surroundings,
    Wrappers,
    match_options,
    surroundings,
)
from srl_agents.records import canonical_json
from srl_agents.rewards.settings import RewardSettings
from srl_envs import spec
from srl_envs.core import Mode
from srl_envs.errors import ConfigError, SRLError
from srl_envs.reading.settings import absent_unless_given
from srl_envs.registry import adopt, no_bot


@dataclass(frozen=True, kw_only=True, slots=True)
@absent_unless_given("credit", "bots")
class GameSettings(NamedSettings, GameOptions, PaySettings, BotWeightSettings):
    """One of several games of a recipe."""

    weight: float = 1.0
    """Share of training matches, relative to the others'; 0: learners are measured in it and never train
    in it."""
    levels: tuple[dict[str, Any], ...] = ()
    """Options that are laid over these only in training, from easy to hard, for example
    [{difficulty: 1}, {difficulty: 3}]; evaluation has ``env_options``."""
    rated_against: tuple[str, ...] | None = None
    """Bots that learners are measured against; absent: ``evaluation.bots``."""

    def __post_init__(self) -> None:
        require(bool(self.env), "env: name the game; it has no default.")
        require_weight("weight", self.weight, " (measured, never trained)")
        require(not self.name or is_name(self.name), f"name={self.name!r}: use {NAME}.")
        rated = self.rated_against or ()
        require(len(set(rated)) == len(rated), f"rated_against={list(rated)}: a name twice.")
        require(
            not self.levels or self.weight > 0,
            "levels: they are for training, and weight 0 is never trained; leave out one of the two.",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Game:
    """One game of a recipe with all that follows."""

    name: str
    env_id: str
    options: dict[str, Any]
    """Options of `srl_envs.make`, wrappers included."""
    levels: tuple[dict[str, Any], ...]
    """Options of training, whole; empty where it takes ``options``."""
    whole: tuple[str, ...]
    """`all_options`, each as a text with id and defaults, by which the same game is known."""
    rows: tuple[RowCounts, ...]
    """Of the collection that its tasks are, at each level of training."""
    weight: float
    seats: int
    mode: Mode
    teams: tuple[int, ...]
    wrappers: Wrappers
    """Wrappers of the game, with all their arguments."""
    paid: tuple[str, ...]
    statistics: tuple[str, ...]
    references: tuple[str, ...]
    """Answers that the game holds to be right, by name."""
    resource: str
    """The component that is the share of a scarce pool; empty without a pool."""
    most_replies: int
    """Most replies of one seat in one episode."""
    most_prompt_chars: int
    """Most characters of one observation."""
    credit: CreditSettings
    rewards: RewardSettings | None
    opponents: OpponentSettings
    """With its preset filled in."""
    rated_against: tuple[str, ...]
    """Bots."""

    @property
    def all_options(self) -> tuple[dict[str, Any], ...]:
        """Options of evaluation, then of training."""
        return (self.options, *self.levels)

    @property
    def bots(self) -> tuple[str, ...]:
        """Bots that learners meet or are measured against."""
        return tuple(dict.fromkeys((*self.opponents.bots, *self.rated_against)))

    def check_bots(self, section: str, bots: tuple[str, ...]) -> None:
        """Refuse bots that it does not have.

        Raises:
            ConfigError: names the section.
        """
        known = spec(self.env_id)
        for bot in bots:
            require(
                bot in known.bots,
                f"{section}: {no_bot(known, bot)}{_WITHOUT_BOTS[bool(known.bots)]}",
            )


_WITHOUT_BOTS = {
    True: "",
    False: " To train without bots, write `evaluation: {bots: []}` and leave `opponents.bots` out.",
}
"""Advice by whether the environment has bots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """Settings of the recipe that games take where they set none."""

    credit: CreditSettings
    rewards: RewardSettings | None
    opponents: OpponentSettings
    rated_against: tuple[str, ...]
    max_new_tokens: int
    several: bool
    """Whether credit's mode is the game's own where none is named."""


def resolved(entry: GameSettings, shared: Shared) -> Game:
    """The game that one entry describes, with its defaults filled in.

    Raises:
        ConfigError: an option, a wrapper, a bot, a team or a reward does not fit the game.
        UnknownEnvironmentError: no such game.
    """
    known = spec(adopt(entry.env))
    around = _around(entry.env, entry.env_options, entry.wrappers)
    seats = around.seats
    mode: Mode = known.mode if seats > 1 else "cooperative"  # a task: no other seat is paid
    _check_teams(known.id, entry.teams, seats, mode)
    levels: list[dict[str, Any]] = []
    whole, rows = [around.whole], []
    for number, level in enumerate(entry.levels):
        options = {**entry.env_options, **level}
        try:
            own = _around(entry.env, options, entry.wrappers)
        except SRLError as error:
            raise ConfigError(f"levels[{number}]: {error}") from None
        require(
            (own.seats, own.paid) == (seats, around.paid),
            f"levels[{number}]: {own.seats} seats that are paid {list(own.paid)}, and without it {seats} "
            f"that are paid {list(around.paid)}: a level changes neither.",
        )
        require(
            own.whole not in whole[1:],
            f"levels[{number}]: the same as another one before it, so what is learned at one would count "
            "as the other's; leave one out.",
        )
        levels.append(match_options(options, around.wrappers))
        whole.append(own.whole)
        rows.append(own.rows)
    rewards = shared.rewards if entry.rewards is None else entry.rewards
    if rewards is not None:
        rewards.check(
            around.paid,
            around.statistics,
            around.references,
            shared.max_new_tokens,
            resource=around.resource,
        )
    opponents = shared.opponents
    if entry.bots is not None:
        opponents = replace(opponents, bots=entry.bots)
    rated_against = shared.rated_against if entry.rated_against is None else entry.rated_against
    game = Game(
        name=entry.name or known.id,
        env_id=known.id,
        options=match_options(entry.env_options, around.wrappers),
        levels=tuple(levels),
        whole=tuple(whole),
        rows=tuple(rows or [around.rows]),
        weight=entry.weight,
        seats=seats,
        mode=mode,
        teams=entry.teams,
        wrappers=around.wrappers,
        paid=around.paid,
        statistics=around.statistics,
        references=around.references,
        resource=around.resource,
        most_replies=around.most_replies,
        most_prompt_chars=around.most_prompt_chars,
        credit=_credit(entry, shared, mode),
        rewards=rewards,
        opponents=resolve(opponents, mode, seats),
        rated_against=rated_against,
    )
    game.check_bots("opponents.bots", tuple(game.opponents.bots))
    game.check_bots("evaluation.bots", rated_against)
    return game


def check_games(games: tuple[Game, ...]) -> None:
    """Check rules that concern several games.

    Raises:
        ConfigError: two have one name, or none is trained.
    """
    names = [game.name for game in games]
    twice = sorted({name for name in names if names.count(name) > 1})
    require(
        not twice,
        f"environments: {', '.join(twice)} stands there more than once; give each entry its own `name`.",
    )
    require(
        any(game.weight > 0 for game in games),
        f"environments: the weight of {', '.join(names)} is 0, so nothing would be trained; give one of "
        "them more.",
    )
    _refuse_alike(games)
    first = games[0].credit
    for game in games[1:]:
        for name in ("train_thoughts", "importance_cap", "importance_level"):
            own, other = getattr(game.credit, name), getattr(first, name)
            require(
                own == other,
                f"environments: {game.name}: credit.{name}={own}, and {other} in {games[0].name}; rows of "
                "all games make one batch, so set it in the recipe's `credit`.",
            )


def _refuse_alike(games: tuple[Game, ...]) -> None:
    """Two games differ in more than in whether a default is written down."""
    first: dict[str, Game] = {}
    for game in games:
        for whole in game.whole:
            other = first.setdefault(whole, game)
            require(
                other is game,
                f"environments: {other.name} and {game.name} are the same game with the same options; leave "
                "one out, or give them different options.",
            )


def arenas_of(games: tuple[Game, ...], agents: tuple[str, ...] = ()) -> tuple[Arena, ...]:
    """The games as arenas of a league; ``agents`` are measured against in all, beside the bots."""
    return tuple(
        Arena(
            env_id=game.env_id,
            options=game.options,
            seats=game.seats,
            mode=game.mode,
            teams=game.teams,
            name=game.name,
            weight=game.weight,
            levels=game.levels,
            rows=game.rows,
            opponents=game.opponents,
            rated_against=(*(f"{BOT}{bot}" for bot in game.rated_against), *agents),
        )
        for game in games
    )


def bots_of(games: tuple[Game, ...]) -> dict[str, str]:
    """Bot -> the games that have one of this name, in words; every bot of every game."""
    found: dict[str, list[str]] = {}
    for game in games:
        for bot in spec(game.env_id).bots:
            found.setdefault(bot, []).append(game.env_id)
    return {bot: ", ".join(dict.fromkeys(own)) for bot, own in found.items()}


def _credit(entry: GameSettings, shared: Shared, mode: Mode) -> CreditSettings:
    if entry.credit is not None:
        return entry.credit
    if shared.several and shared.credit.mode == "individual":
        return replace(shared.credit, mode=mode)
    return shared.credit


def _check_teams(env_id: str, teams: tuple[int, ...], seats: int, mode: Mode) -> None:
    require(
        not teams or mode != "cooperative",
        f"teams={list(teams)}: in {env_id} all seats are paid alike, so they are one team already; "
        "leave it out.",
    )
    sizes = {teams.count(team) for team in teams}
    require(
        not teams
        or (
            len(teams) == seats
            and len(sizes) == 1
            and len(set(teams)) > 1
            and set(teams) == set(range(len(set(teams))))
        ),
        f"teams={list(teams)}: give one team per seat of {seats}, counted from 0, all equally large.",
    )


def _around(
    env_id: str, options: Mapping[str, Any], wrappers: tuple[dict[str, Any], ...]
) -> Surroundings:
    return _looked_at(env_id, canonical_json(dict(options)), canonical_json(list(wrappers)))


@functools.lru_cache(maxsize=256)
def _looked_at(env_id: str, options: str, wrappers: str) -> Surroundings:
    return surroundings(env_id, json.loads(options), json.loads(wrappers))
