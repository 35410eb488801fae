"""Games of OpenSpiel as environments.

How the concepts map:

=========================  =======================================================================
OpenSpiel                  here
=========================  =======================================================================
player                     seat; which seat is which player is drawn from the seed
game parameter             option of the environment
chance node                drawn from numbers that the episode's own stream gives
simultaneous node          every seat with a legal action moves at once
observation string         what a seat sees, where nothing is hidden
information state string   what a seat sees, where something is (the observation string besides,
                           where there is one)
action_to_string           the body of an action block, word for word
returns                    outcome: divided by the largest possible one; see `scaled_returns`
zero or constant sum       mode ``competitive``; identical utility ``cooperative``; else ``mixed``
=========================  =======================================================================

Limits. A game that draws chance by itself (``SAMPLED_STOCHASTIC``) cannot be replayed from a seed of
ours, one with a mean field has no seats, one whose utility has no bounds has no scale, and one whose
moves are structures (``crossword``) has no names for them; these are refused, and so is one whose
implementation ends the process. Everything is paid at the end, also where OpenSpiel pays on the way.
OpenSpiel's strings are shown as they are: some are terse, and where a game offers no information state
string, a seat sees only the present observation and must remember the rest. At most `MOST_LISTED`
legal actions are shown. The only bot is a random one.

Source: the Python interface of OpenSpiel 2.0 (``pyspiel``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from srl_envs import registry
from srl_envs.core import Game, Mode, Streams, require_action
from srl_envs.distribution import install_command
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, nearest
from srl_envs.registry import Policy
from srl_envs.turns.grammar import action

try:
    import pyspiel
except ImportError as error:
    raise ConfigError(
        f"OpenSpiel is needed: {install_command('open-spiel')} ({error}). It has no wheel for every "
        "system."
    ) from None

MOST_LISTED = 200
"""Legal actions that an observation lists."""
_CRASHING = {"morpion_solitaire": "a clone of its state ends the process (OpenSpiel 2.0.2)"}
_LIST_HEAD = "Legal actions, one per line:"
_STEP = 2.0**-40
"""Outcomes are whole multiples of it, so that those of a zero-sum game add up to exactly 0."""


@dataclass(frozen=True, slots=True)
class Position:
    """A point in a game: who is which player, what was drawn and played so far."""

    players: tuple[int, ...]
    """Seat -> player of OpenSpiel."""
    luck: int
    """Entropy of the chance nodes."""
    moves: tuple[int | tuple[int, ...], ...]
    """Action numbers from the start, chance included; a tuple, one per player, where all move."""
    spiel: Any = field(compare=False, repr=False)
    """The ``pyspiel.State`` that ``moves`` lead to; never changed."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Position:
        return self


def scaled_returns(
    returns: Sequence[float], *, low: float, high: float, total: float | None, mode: Mode
) -> tuple[float, ...]:
    """OpenSpiel's returns as outcomes.

    Args:
        returns: per player, in the game's own units.
        low: the least utility that a player can get.
        high: the greatest.
        total: what the utilities of a ``competitive`` game add up to; None for the others.
        mode: "competitive": the distance from an equal share, divided by the largest possible one;
            "cooperative": from 0 (``low``) to 1 (``high``); "mixed": divided by the larger of the
            two bounds' sizes, so that signs and proportions stay.

    Returns:
        Per player, in [-1, 1] and rounded to 2 ** -40; competitive ones add up to exactly 0.
    """
    offset, size = 0.0, max(abs(low), abs(high))
    if mode == "cooperative":
        offset, size = low, high - low
    elif mode == "competitive":
        offset = (total or 0.0) / len(returns)
        size = max(abs(low - offset), abs(high - offset))
    outcomes = [_STEP * round((value - offset) / (size or 1.0) / _STEP) for value in returns]
    if mode == "competitive":  # the smallest takes the rounding, so that none leaves [-1, 1]
        least = min(range(len(outcomes)), key=lambda player: abs(outcomes[player]))
        outcomes[least] -= sum(outcomes)
    return tuple(outcomes)


class OpenSpielGame(Game[Position, int]):
    """One game of OpenSpiel. Action: the name of a legal action, as OpenSpiel writes it.

    To fix parameters of a game under an id of its own, subclass, set ``spiel_name`` and register
    the subclass. Fallback: the first legal action.

    Args:
        **parameters: of the game, by the names that OpenSpiel gives them.

    Raises:
        ConfigError: no such game or parameter, or one of the kinds that are refused (see the module).
    """

    spiel_name = ""
    """Name, or name with parameters, like ``breakthrough(rows=6,columns=6)``."""
    max_observation_chars = 32_768

    def __init__(self, **parameters: Any) -> None:
        self._spiel = _load(self.spiel_name, parameters)
        kind = self._spiel.get_type()
        self.seats = self._spiel.num_players()
        self.mode = _mode(self._spiel)
        self.max_turns = self._spiel.max_game_length()
        self.simultaneous = kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
        self._low, self._high = self._spiel.min_utility(), self._spiel.max_utility()
        self._total = self._spiel.utility_sum() if self.mode == "competitive" else None
        self._one_shot = kind.information == pyspiel.GameType.Information.ONE_SHOT
        self._hidden = kind.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION
        self._views = [
            name
            for name, offered in (
                ("information_state_string", kind.provides_information_state_string),
                ("observation_string", kind.provides_observation_string),
            )
            if offered
        ]
        if not self._hidden and len(self._views) > 1:
            self._views = ["observation_string"]

    def new(self, streams: Streams) -> Position:
        """Draw who is which player, and the entropy of all chance nodes; play the first of these."""
        players = tuple(int(player) for player in streams.seats.permutation(self.seats))
        luck = int(streams.instance.integers(2**63))
        return _draw_chance(Position(players, luck, (), self._spiel.new_initial_state()))

    def to_move(self, state: Position) -> tuple[int, ...]:
        """The seat on move; in a simultaneous node all that have a legal action."""
        spiel = state.spiel
        if spiel.is_terminal():
            return ()
        if spiel.is_simultaneous_node():
            return tuple(
                seat for seat, player in enumerate(state.players) if spiel.legal_actions(player)
            )
        return (state.players.index(spiel.current_player()),)

    def observe(self, state: Position, seat: int) -> str:
        """What the game is, what OpenSpiel shows the player, and the legal actions."""
        player = state.players[seat]
        lines = [
            f"The game is {self._spiel} as OpenSpiel implements it, with {self.seats} players.",
            f"You are player {player}. Reply with the name of one legal action, exactly as it is "
            "listed, like this: <action>NAME</action>",
            "",
        ]
        shown = [str(state.spiel)] if self._one_shot else self._strings(state.spiel, player)
        lines += [text for text in shown if text.strip()]
        if state.spiel.is_terminal():
            return "\n".join([*lines, "", "The game is over."])
        if seat not in self.to_move(state):
            return "\n".join([*lines, "", "It is not your move."])
        names = list(self._names(state, seat))
        lines += ["", f"It is your move. There are {len(names)} legal actions.", _LIST_HEAD]
        return "\n".join(lines + names[:MOST_LISTED])

    def parse(self, state: Position, seat: int, body: str) -> int:
        """The number of the action of this name."""
        names = self._names(state, seat)
        require_action(body in names, "it names no legal action; write one exactly as it is listed")
        return names[body]

    def apply(self, state: Position, actions: Mapping[int, int]) -> Position:
        """Move, then draw chance until someone is on move again."""
        if not state.spiel.is_simultaneous_node():
            (number,) = actions.values()
            return _draw_chance(_moved(state, number))
        joint = [pyspiel.INVALID_ACTION] * self.seats
        for seat, number in actions.items():
            joint[state.players[seat]] = number
        return _draw_chance(_moved(state, tuple(joint)))

    def returns(self, state: Position) -> tuple[float, ...] | None:
        """Outcome per seat once OpenSpiel's state is terminal."""
        if not state.spiel.is_terminal():
            return None
        outcomes = scaled_returns(
            state.spiel.returns(),
            low=self._low, high=self._high, total=self._total, mode=self.mode,
        )  # fmt: skip
        return tuple(outcomes[player] for player in state.players)

    def legal(self, state: Position, seat: int) -> Sequence[str] | None:
        """The names of all legal actions, where there are at most 200."""
        names = list(self._names(state, seat))
        return names if len(names) <= MOST_LISTED else None

    def fallback(self, state: Position, seat: int) -> str:
        """The first legal action in OpenSpiel's order."""
        return next(iter(self._names(state, seat)))

    def sample(self, state: Position, seat: int, rng: np.random.Generator) -> str:
        """Any legal action."""
        names = list(self._names(state, seat))
        return names[rng.integers(len(names))]

    def components(self, state: Position, seat: int) -> Mapping[str, float]:
        """``utility``: the return in OpenSpiel's units; 0 where the game was cut short."""
        if not state.spiel.is_terminal():
            return {"utility": 0.0}
        return {"utility": float(state.spiel.returns()[state.players[seat]])}

    def encode(self, state: Position) -> Any:
        """Players, entropy and moves."""
        return [list(state.players), state.luck, [_plain(move) for move in state.moves]]

    def decode(self, data: Any) -> Position:
        """Plays the moves again.

        Raises:
            ConfigError: a move is not legal where it stands, or not every player has one seat.
        """
        players, luck, moves = data
        if sorted(players) != list(range(self.seats)):
            raise ConfigError(f"players={players}: each of {self.seats} must have one seat.")
        done = tuple(tuple(move) if isinstance(move, list) else move for move in moves)
        return self._replayed(tuple(players), luck, done)

    def swap_hidden(self, state: Position, seat: int, other: Position) -> Position:
        """Each chance draw that OpenSpiel's strings do not show the player, from ``other``."""
        player = state.players[seat]
        known = self._strings(state.spiel, player)
        swapped = self._replayed(state.players, other.luck, state.moves)
        for place, (mine, theirs) in enumerate(zip(state.moves, other.moves, strict=False)):
            moves = (*swapped.moves[:place], theirs, *swapped.moves[place + 1 :])
            if mine == theirs or not self._both_drawn(place, state, other):
                continue
            try:
                candidate = self._replayed(state.players, other.luck, moves)
            except ConfigError:  # such a deal does not exist
                continue
            if self._strings(candidate.spiel, player) == known:
                swapped = candidate
        return swapped

    def reshuffled(self, state: Position, draws: Draws) -> Position:
        """Entropy of the chance nodes that come; those that were played are moves."""
        return replace(state, luck=draws.integers(2**32))

    def render(self, state: Position) -> str:
        """OpenSpiel's own text of the whole state."""
        return str(state.spiel)

    def _replayed(
        self, players: tuple[int, ...], luck: int, moves: tuple[int | tuple[int, ...], ...]
    ) -> Position:
        spiel = self._spiel.new_initial_state()
        for place, move in enumerate(moves):
            if not _is_legal(spiel, move):
                raise ConfigError(f"move {place} of this state, {move!r}, is not legal there.")
            _advance(spiel, move)
        return Position(players, luck, moves, spiel)

    def _both_drawn(self, place: int, *states: Position) -> bool:
        """Whether the move at ``place`` is chance in all of these."""
        before = (self._replayed(s.players, s.luck, s.moves[:place]) for s in states)
        return all(state.spiel.is_chance_node() for state in before)

    def _strings(self, spiel: Any, player: int) -> list[str]:
        texts = [getattr(spiel, view)(player) for view in self._views]
        return list(dict.fromkeys(texts))  # some games give the same text twice

    def _names(self, state: Position, seat: int) -> dict[str, int]:
        """Name -> number; where two actions share a name, the number is part of it."""
        player, names = state.players[seat], {}
        for number in state.spiel.legal_actions(player):
            name = state.spiel.action_to_string(player, number).strip()
            names[name if name and name not in names else f"{name} #{number}"] = number
        return names


def register_game(name: str, *, version: int = 0) -> str:
    """Register a game under ``open_spiel/NAME-vN``; its parameters become options.

    Args:
        name: short name, like ``leduc_poker``.
        version: raise it where an upgrade of OpenSpiel changed the game's rules.

    Returns:
        The id, for `srl_envs.make`.

    Raises:
        ConfigError: no such game, or one of the kinds that are refused (see the module).
    """
    game = _load(name, {})
    parameters = game.get_type().parameter_specification
    env_id = f"open_spiel/{name}-v{version}"
    registry.register(
        id=env_id,
        entry_point=f"{__name__}:{name}",
        mode=_mode(game),
        seats=game.num_players(),
        summary=f"{game.get_type().long_name}, as OpenSpiel implements it.",
        bots={"random": f"{__name__}:random_bot"},
        options={key: f"OpenSpiel's parameter ({value})" for key, value in parameters.items()},
    )
    return env_id


def random_bot(rng: np.random.Generator) -> Policy:
    """Plays any of the listed actions."""

    def reply(text: str) -> str:
        listed = text.partition(f"{_LIST_HEAD}\n")[2].partition("\n\nYour last reply")[0]
        names = listed.split("\n")
        return action(names[rng.integers(len(names))])

    return reply


def __getattr__(name: str) -> type[OpenSpielGame]:
    # entry points are strings, so that another process can make a game that was registered here
    if name.startswith("_") or name not in pyspiel.registered_names():
        raise AttributeError(name)
    return _game_class(name)


@functools.cache
def _game_class(name: str) -> type[OpenSpielGame]:
    return type(name, (OpenSpielGame,), {"spiel_name": name, "__module__": __name__})


def _load(name: str, parameters: Mapping[str, Any]) -> Any:
    known, short = pyspiel.registered_names(), name.partition("(")[0]
    if short not in known:
        raise ConfigError(f"OpenSpiel has no game {short!r}.{nearest(short, known)}")
    try:
        given = pyspiel.game_parameters_from_string(name)
        given.pop("name")
        game = pyspiel.load_game(short, {**given, **parameters})
    except Exception as error:  # noqa: BLE001 - foreign code: SpielError, and what C++ throws
        raise ConfigError(
            f"OpenSpiel cannot load {name!r} with {dict(parameters)}: {error}"
        ) from None
    _require_playable(name, game)
    return game


def _require_playable(name: str, game: Any) -> None:
    kind = game.get_type()
    if kind.short_name in _CRASHING:
        raise ConfigError(f"{name}: {_CRASHING[kind.short_name]}.")
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ConfigError(f"{name} is a mean-field game: it has no seats to play.")
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        raise ConfigError(f"{name} draws chance by itself, so a seed of SRL could not replay it.")
    if not game.num_distinct_actions():
        raise ConfigError(f"{name} has no list of actions; its moves are structures.")
    if not (kind.provides_information_state_string or kind.provides_observation_string):
        raise ConfigError(f"{name} has no string of what a player sees.")
    if not np.isfinite([game.min_utility(), game.max_utility()]).all():
        raise ConfigError(f"the utility of {name} has no bounds, so outcomes have no scale.")


def _mode(game: Any) -> Mode:
    utility = game.get_type().utility
    if utility == pyspiel.GameType.Utility.IDENTICAL:
        return "cooperative"
    shared = (pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM)
    return "competitive" if utility in shared and game.num_players() > 1 else "mixed"


def _advance(spiel: Any, move: int | tuple[int, ...]) -> None:
    if isinstance(move, tuple):
        spiel.apply_actions(list(move))
    else:
        spiel.apply_action(move)


def _is_legal(spiel: Any, move: int | tuple[int, ...]) -> bool:
    """Checked before a move is made: OpenSpiel itself may end the process at an illegal one."""
    if spiel.is_terminal():
        return False
    if spiel.is_simultaneous_node():
        return isinstance(move, tuple) and all(
            number in (spiel.legal_actions(player) or [pyspiel.INVALID_ACTION])
            for player, number in enumerate(move)
        )
    return not isinstance(move, tuple) and move in spiel.legal_actions()


def _moved(state: Position, move: int | tuple[int, ...]) -> Position:
    spiel = state.spiel.clone()
    _advance(spiel, move)
    return Position(state.players, state.luck, (*state.moves, move), spiel)


def _draw_chance(state: Position) -> Position:
    """Play chance nodes; each draw depends only on the episode's entropy and on its place."""
    while state.spiel.is_chance_node():
        numbers, chances = zip(*state.spiel.chance_outcomes(), strict=True)
        rng = np.random.default_rng([state.luck, len(state.moves)])
        chance_K = np.array(chances)
        state = _moved(state, int(rng.choice(numbers, p=chance_K / chance_K.sum())))
    return state


def _plain(move: int | tuple[int, ...]) -> int | list[int]:
    return list(move) if isinstance(move, tuple) else move
