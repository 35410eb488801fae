"""TextArena's games as environments, and our environments as TextArena's.

How the concepts map, from their game to our environment (`register_game`):

=========================  =======================================================================
TextArena                  here
=========================  =======================================================================
player id                  seat; which seat is which player is drawn from the seed
``num_players``            seats, fixed when the game is registered
``get_observation``        what the seat on move sees; the others keep what they saw last
``step(action)``           the body of our action block, and nothing else of the reply
``rewards`` of ``close``   outcome at the end, divided by the option ``reward_scale``
``invalid_move``           statistic ``invalid_move``: 1 for the seat that lost by an invalid move
``turn_count``             statistic ``turn_count``
=========================  =======================================================================

What is contained. Every episode plays a fresh instance, since instances keep the last episode's
history. TextArena draws from Python's and numpy's process-wide generators: both are set to the
episode's own state before every call and put back after it, under one lock. A body with several
bracketed texts, of which TextArena plays the first it likes, is refused as illegal (option
``max_brackets``). An exception inside TextArena, an end without rewards, or rewards that do not fit the
mode raise `NeighbourError`: the episode is void and no seat is charged.

Limits. TextArena lists no legal moves, so whether a move is legal is its own decision: most games
grant one more try and then end the game for the offender. Our retries and the ``format`` component
count replies without a proper action block only; when those are used up, TextArena gets a text that
most games take as invalid. `Game.sample` draws from the bracketed texts that a seat was shown, without
a promise that they are legal. Games that need a network, a key or another package at construction are
refused with TextArena's own reason. A thread of yours that draws from the process-wide generators
while TextArena runs in another thread can still meet its state.

The other way (`TextArenaView`, `register_view`): ``reset``, ``get_observation``, ``step``, ``close`` with
TextArena's signatures. Observations are whole texts, so no observation wrapper belongs around them;
replies must hold our action block, as the observations say. Seats that move at once are asked one
after the other and see nothing of each other's replies. Rewards of ``close`` are the outcomes in
[-1, 1]; the costs of malformed replies are in ``game_info[player]["format"]``.

Source: TextArena 0.7.
"""

from __future__ import annotations

import functools
import random
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from srl_envs import registry
from srl_envs.api import making
from srl_envs.core import Game, Mode, Streams, require_action
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, EpisodeOverError, NeighbourError, nearest
from srl_envs.registry import Policy
from srl_envs.turns.grammar import action
from srl_envs.views.aec import GameAEC

try:
    import textarena as ta
    from textarena.envs.registration import ENV_REGISTRY
except ImportError as error:
    raise ConfigError(f"TextArena is needed: {install_command('textarena')} ({error}).") from None

_LOCK = threading.RLock()
"""Held while TextArena runs: its games share the process-wide generators."""
_BRACKETED = re.compile(r"\[[^\[\]]*\]")
_OFFERED = re.compile(r"'(\[[^\[\]\n]{1,60}\])'")
"""How TextArena's prompts write a move: in quotes and brackets."""
_NO_MOVE = "no move"


class _Live:
    """One instance of a game, with the state of the generators that it draws from."""

    def __init__(self, env: Any, luck: int) -> None:
        self.env = env
        self._python = random.Random(luck).getstate()
        self._numpy = np.random.RandomState(luck % 2**32).get_state()

    @contextmanager
    def own_luck(self) -> Iterator[None]:
        """The process-wide generators are this episode's, until the block ends."""
        with _LOCK:
            python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - put back below
            random.setstate(self._python)
            np.random.set_state(self._numpy)  # noqa: NPY002
            try:
                yield
            finally:
                self._python, self._numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
                random.setstate(python)
                np.random.set_state(numpy)  # noqa: NPY002


@dataclass(frozen=True, slots=True)
class Position:
    """A position of a game: draws and moves so far, and their results."""

    players: tuple[int, ...]
    """Seat -> player id."""
    luck: int
    """Entropy of the episode."""
    moves: tuple[str, ...]
    """Action bodies sent to TextArena."""
    player: int
    """Id of the player on move."""
    texts: tuple[str, ...]
    """Last observation of each player."""
    rewards: tuple[float, ...] | None
    """Reward of each player, once the game is over."""
    facts: tuple[tuple[float, float], ...]
    """Per player: (1 if it lost by an invalid move, its turns)."""
    reason: str
    """Why the game ended, in TextArena's words."""
    live: list[_Live] = field(compare=False, repr=False)
    """The instance that stands here; empty once a later position took it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Position:
        return self


class TextArenaGame(Game[Position, str]):
    """One game of TextArena. Action: what TextArena is given, for example ``[4]``.

    Fallback: a text that is not a move. Subclass and set the class attributes to fix a game of your own.

    Args:
        max_brackets: bracketed texts that an action may hold; 0 stands for any number, for games
            whose moves have several.
        reward_scale: TextArena's rewards are divided by it.
        turns: after which the outcome is 0 for all, with the statistic ``turn_limit``.

    Raises:
        ConfigError: no such game, it cannot be made here, or not for this number of players.
    """

    textarena_id = ""
    """Id of the game for `textarena.make`."""
    max_observation_chars = 131_072
    max_action_chars = 4096

    def __init__(
        self, *, max_brackets: int = 1, reward_scale: float = 1.0, turns: int = 1000
    ) -> None:
        if max_brackets < 0 or turns < 1 or not reward_scale > 0:
            raise ConfigError(
                f"max_brackets={max_brackets}, turns={turns}, reward_scale={reward_scale}: give at "
                "least 0, at least 1 and more than 0."
            )
        self.max_brackets, self.reward_scale, self.max_turns = max_brackets, reward_scale, turns
        try:
            self._started(tuple(range(self.seats)), 0)
        except NeighbourError as error:
            raise ConfigError(
                f"TextArena cannot start {self.textarena_id} with {self.seats} players: {error}"
            ) from None

    def new(self, streams: Streams) -> Position:
        """A fresh instance, with who is which player and its luck drawn from the seed."""
        players = tuple(int(player) for player in streams.seats.permutation(self.seats))
        return self._started(players, int(streams.instance.integers(2**31)))

    def to_move(self, state: Position) -> tuple[int, ...]:
        """The seat of the player whose turn it is; TextArena has no simultaneous moves."""
        return () if self.returns(state) is not None else (state.players.index(state.player),)

    def observe(self, state: Position, seat: int) -> str:
        """TextArena's text for the player, under one line on how to reply."""
        head = (
            f"This is {self.textarena_id} of TextArena. Write your move, and nothing else, between "
            f"<action> and </action>, in the form that the rules below ask for."
        )
        lines = [head, "", state.texts[state.players[seat]].strip("\n"), ""]
        if state.rewards is not None:
            return "\n".join([*lines, f"The game is over. {state.reason}".rstrip()])
        return "\n".join([*lines, "It is your move." if seat in self.to_move(state) else "Wait."])

    def parse(self, state: Position, seat: int, body: str) -> str:
        """Any text with at most ``max_brackets`` bracketed parts; TextArena judges the rest."""
        require_action(bool(body), "the action is empty")
        found = len(_BRACKETED.findall(body))
        require_action(
            not self.max_brackets or found <= self.max_brackets,
            f"it has {found} texts in square brackets; write at most {self.max_brackets}",
        )
        return body

    def apply(self, state: Position, actions: Mapping[int, str]) -> Position:
        """Give TextArena the move.

        Raises:
            NeighbourError: TextArena failed; the episode is void.
        """
        (body,) = actions.values()
        try:
            live = state.live.pop()
        except IndexError:  # a later position took it, here or before a restart
            live = self._replayed(state.players, state.luck, state.moves).live.pop()
        return self._stepped(state, live, body)

    def returns(self, state: Position) -> tuple[float, ...] | None:
        """TextArena's rewards over ``reward_scale``; 0 for all at the turn limit."""
        if state.rewards is not None:
            return tuple(state.rewards[player] for player in state.players)
        return (0.0,) * self.seats if len(state.moves) >= self.max_turns else None

    def fallback(self, state: Position, seat: int) -> str:
        """A text that most games take as an invalid move."""
        return _NO_MOVE

    def sample(self, state: Position, seat: int, rng: np.random.Generator) -> str:
        """A bracketed text that the seat was shown last; the fallback where there is none."""
        return _offered(state.texts[state.players[seat]], rng)

    def components(self, state: Position, seat: int) -> Mapping[str, float]:
        """``invalid_move``, ``turn_count`` and ``turn_limit``."""
        invalid, turns = state.facts[state.players[seat]]
        limit = float(state.rewards is None and len(state.moves) >= self.max_turns)
        return {"invalid_move": invalid, "turn_count": turns, "turn_limit": limit}

    def encode(self, state: Position) -> Any:
        """Players, luck and moves."""
        return [list(state.players), state.luck, list(state.moves)]

    def decode(self, data: Any) -> Position:
        """Plays the moves again.

        Raises:
            ConfigError: not every player has one seat.
        """
        players, luck, moves = data
        if sorted(players) != list(range(self.seats)):
            raise ConfigError(f"players={players}: each of {self.seats} must have one seat.")
        return self._replayed(tuple(players), luck, tuple(moves))

    def swap_hidden(self, state: Position, seat: int, other: Position) -> Position:
        """With the luck of ``other``, where the player saw the same with it."""
        try:
            swapped = self._replayed(state.players, other.luck, state.moves)
        except NeighbourError:  # the moves do not fit that luck
            return state
        player = state.players[seat]
        same = swapped.player == state.player and swapped.rewards == state.rewards
        return swapped if same and swapped.texts[player] == state.texts[player] else state

    def _started(self, players: tuple[int, ...], luck: int) -> Position:
        with _void_on_error(self.textarena_id):
            live = _Live(None, luck)
            with live.own_luck():
                live.env = ta.make(self.textarena_id)
                # the seed besides: some games seed generators of their own with it
                live.env.reset(num_players=self.seats, seed=luck)
                player, seen = live.env.get_observation()
        texts = [""] * self.seats
        texts[player] = _text(seen, "")
        facts = ((0.0, 0.0),) * self.seats
        return Position(players, luck, (), player, tuple(texts), None, facts, "", [live])

    def _stepped(self, state: Position, live: _Live, body: str) -> Position:
        rewards, player, texts, facts, reason = (
            None,
            state.player,
            list(state.texts),
            state.facts,
            "",
        )
        with _void_on_error(self.textarena_id), live.own_luck():
            done, _ = live.env.step(action=body)
            if done:
                paid, final_infos = live.env.close()
                rewards = self._outcomes(paid)
                facts = tuple(_facts(final_infos.get(p, {})) for p in range(self.seats))
                reason = str(final_infos.get(0, {}).get("reason") or "")
            else:
                player, seen = live.env.get_observation()
                texts[player] = _text(seen, texts[player])
        moves = (*state.moves, body)
        return Position(
            state.players, state.luck, moves, player, tuple(texts), rewards, facts, reason, [live]
        )

    def _replayed(self, players: tuple[int, ...], luck: int, moves: tuple[str, ...]) -> Position:
        state = self._started(players, luck)
        for body in moves:
            state = self._stepped(state, state.live.pop(), body)
        return state

    def _outcomes(self, paid: Mapping[int, float] | None) -> tuple[float, ...]:
        if not paid:
            raise NeighbourError(f"{self.textarena_id} ended without rewards.")
        outcomes = tuple(float(paid.get(p, 0.0)) / self.reward_scale for p in range(self.seats))
        fits = all(-1.0 <= value <= 1.0 for value in outcomes)
        if not fits or (self.mode == "competitive" and sum(outcomes) != 0.0):
            raise NeighbourError(
                f"{self.textarena_id} pays {dict(paid)}, which over {self.reward_scale} is not in "
                f"[-1, 1]{' or does not sum to 0' * (self.mode == 'competitive')}: set reward_scale, "
                "or register it as mixed."
            )
        return outcomes


def register_game(textarena_id: str, *, seats: int, mode: Mode = "mixed") -> str:
    """Register a game of TextArena under ``textarena/NAME-vN``.

    Args:
        textarena_id: like ``TicTacToe-v0``, with or without a suffix such as ``-train``.
        seats: number of players.
        mode: "competitive" where rewards sum to 0 (checked at every end), else "mixed".

    Returns:
        The id, for `srl_envs.make`. Options are those of `TextArenaGame`.

    Raises:
        ConfigError: no such game, or a wrong ``seats`` or ``mode``.
    """
    if textarena_id not in ENV_REGISTRY:
        raise ConfigError(
            f"TextArena has no game {textarena_id!r}.{nearest(textarena_id, ENV_REGISTRY)}"
        )
    if mode not in get_args(Mode) or mode == "cooperative" or seats < 1:
        raise ConfigError(
            f"{textarena_id}: mode={mode!r}, seats={seats}: give 'competitive' or 'mixed', and at "
            "least one seat. What TextArena pays a team is not one shared number."
        )
    name, _, rest = textarena_id.partition("-v")
    version, _, suffix = rest.partition("-")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name) + (f"_{suffix}" if suffix else "")
    env_id = f"textarena/{re.sub(r'[^a-z0-9]+', '_', words.lower())}-v{version}"
    registry.register(
        id=env_id,
        entry_point=f"{__name__}:{_identifier(textarena_id)}__{seats}__{mode}",
        mode=mode,
        seats=seats,
        summary=f"{textarena_id}, as TextArena implements it.",
        bots={"random": f"{__name__}:random_bot"},
        options={
            "max_brackets": "bracketed texts in an action, 0 for any number (1)",
            "reward_scale": "divides TextArena's rewards (1.0)",
            "turns": "after which all get 0 (1000)",
        },
    )
    return env_id


def random_bot(rng: np.random.Generator) -> Policy:
    """Plays any of the bracketed texts that it was shown last; they need not be legal."""
    return lambda text: action(_offered(text, rng))


class TextArenaView(ta.Env):
    """One of our environments with TextArena's interface; see the module for the mapping.

    Args:
        srl_id: a registered id of SRL.
        **options: as in `srl_envs.make`.
    """

    def __init__(self, srl_id: str, **options: Any) -> None:
        self._id, self._options = srl_id, options
        self._view: GameAEC | None = GameAEC(making.make(srl_id, **options))
        self._seats = len(self._view.possible_agents)

    def reset(self, num_players: int, seed: int | None = None) -> None:
        """Start an episode.

        Raises:
            ConfigError: the environment has another number of seats.
        """
        if num_players != self._seats:
            raise ConfigError(f"{self._id} has {self._seats} seats, not {num_players}.")
        if self._view is None:
            self._view = GameAEC(making.make(self._id, **self._options))
        self._view.reset(seed=seed)
        self.state = ta.State(num_players=num_players)
        self.state.standard_resets(role_mapping={p: f"Player {p}" for p in range(num_players)})
        for player_info in self.state.game_info.values():
            player_info.update(format=0.0, reason="")
        self._follow()

    def get_observation(self) -> tuple[int, str]:
        """The player on move, and all that it may know."""
        view = self._running()
        return self.state.current_player_id, view.observe(view.agent_selection)["text"]

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        """Give the reply of the player on move.

        Returns:
            Whether the episode is over, and for each player whose reply was read in this step what
            became of it: ``{"invalid": {player: None, "malformed" or "illegal"}}``; empty while
            others still have to reply at the same moment.
        """
        view = self._running()
        player = self.state.current_player_id
        self.state.logs.append((player, action))
        self.state.game_info[player]["turn_count"] += 1
        before = view.infos
        view.step(action)
        while view.env.agents and not view.observe(view.agent_selection)["can_act"]:
            view.step("")  # TextArena asks nothing of who waits for another's new try
        self.state.turn += 1
        info: dict[str, Any] = {}
        if view.infos is not before:  # all seats on move have replied
            labels = {
                p: view.infos[agent]["invalid"] for p, agent in enumerate(view.possible_agents)
            }
            info = {"invalid": labels}
            for p, agent in enumerate(view.possible_agents):
                parts = view.infos[agent]["reward_components"]
                self.state.game_info[p]["format"] += parts["format"]
        if not view.env.agents:
            self._finish(view)
        else:
            self._follow()
        return self.state.done, info

    def close(self) -> tuple[dict[int, float] | None, dict[int, dict[str, Any]]]:
        """Outcome per player (None before the end) and ``game_info``; `reset` may follow."""
        if self._view is not None:
            self._view.close()
            self._view = None
        return self.state.rewards, self.state.game_info

    def _running(self) -> GameAEC:
        if self._view is None or not hasattr(self, "state") or self.state.done:
            raise EpisodeOverError("the episode is over (or not started): call reset().")
        return self._view

    def _follow(self) -> None:
        view = self._running()
        self.state.current_player_id = view.possible_agents.index(view.agent_selection)

    def _finish(self, view: GameAEC) -> None:
        env = view.env
        self.state.done = True
        self.state.rewards = dict(enumerate(env.outcomes or env.paid))
        for player, agent in enumerate(env.possible_agents):
            player_info = self.state.game_info[player]
            player_info["invalid_move"] = player in env.forfeited
            player_info["reason"] = "forfeit" if env.forfeited else "the rules ended the game"
            player_info["statistics"] = view.infos[agent]["statistics"]


def register_view(srl_id: str, **options: Any) -> str:
    """Register one of our environments in TextArena, as ``srl/ID``.

    Args:
        srl_id: a registered id of SRL.
        **options: as in `srl_envs.make`.

    Returns:
        The id for `textarena.make`.
    """
    name = f"srl/{registry.spec(srl_id).id}"
    ENV_REGISTRY.pop(name, None)  # registering again, with other options, is allowed
    ta.envs.registration.register(name, TextArenaView, srl_id=srl_id, **options)
    return name


def __getattr__(name: str) -> type[TextArenaGame]:
    # entry points are strings, so that another process can make a game that was registered here
    identifier, _, rest = name.partition("__")
    seats, _, mode = rest.partition("__")
    for textarena_id in ENV_REGISTRY if seats.isdecimal() else ():
        if _identifier(textarena_id) == identifier:
            return _game_class(textarena_id, int(seats), mode)
    raise AttributeError(name)


@functools.cache
def _game_class(textarena_id: str, seats: int, mode: str) -> type[TextArenaGame]:
    values = {"textarena_id": textarena_id, "seats": seats, "mode": mode, "__module__": __name__}
    return type(f"{_identifier(textarena_id)}__{seats}__{mode}", (TextArenaGame,), values)


def _identifier(textarena_id: str) -> str:
    return re.sub(r"\W", "_", textarena_id)


@contextmanager
def _void_on_error(textarena_id: str) -> Iterator[None]:
    try:
        yield
    except NeighbourError:
        raise
    except Exception as error:
        raise NeighbourError(
            f"{textarena_id} failed inside TextArena: {type(error).__name__}: {error}"
        ) from error


def _text(seen: str | Sequence[tuple[int, str, Any]], before: str) -> str:
    """What a player sees now; wrappers of TextArena give it whole, raw games in pieces."""
    if isinstance(seen, str):
        return seen
    names = ("GAME" if sender == ta.GAME_ID else f"Player {sender}" for sender, _, _ in seen)
    return before + "".join(
        f"\n[{name}] {message}" for name, (_, message, _) in zip(names, seen, strict=True)
    )


def _facts(player_info: Mapping[str, Any]) -> tuple[float, float]:
    return float(bool(player_info.get("invalid_move"))), float(player_info.get("turn_count") or 0)


def _offered(text: str, rng: np.random.Generator) -> str:
    """One of the moves on the last line that shows any."""
    for line in reversed(text.split("\n")):
        if found := _OFFERED.findall(line):
            return str(found[rng.integers(len(found))])
    return _NO_MOVE
