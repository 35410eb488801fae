"""The interface of a game: a pure state machine, from which every view is derived.

A game never sees a model, a process-wide random generator or the text around an action. The views
(`srl_envs.parallel`, `srl_envs.views.aec`, `srl_envs.views.single`) parse replies, count retries and pay the
``format`` component; the game states rules.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from srl_envs.draws import Draws, seed_words
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.row_seeds import rows_named

State = TypeVar("State")
Action = TypeVar("Action")
Instance = TypeVar("Instance")
Mode = Literal["competitive", "cooperative", "mixed"]
Split = Literal["train", "eval"]
SPLITS: tuple[Split, ...] = ("train", "eval")
HELD_OUT_SHARE = 4
"""One of so many instances is kept for the eval split."""
_MOST_DRAWS = 2000
"""Draws after which an instance of the split is taken not to exist."""


def seat_name(seat: int) -> str:
    """What every prompt, move and view calls a seat: its PettingZoo agent, ``player_0``."""
    return f"player_{seat}"


def split_of_instance(*key: object) -> Split:
    """The one split in which an instance may occur, from a hash of what names it.

    Args:
        *key: numbers, texts and tuples of these, the same for instances that are the same task.
            What does not matter to the task, like the order of heaps, should not be in it.
    """
    digest = blake2b(repr(key).encode(), digest_size=4).digest()
    return SPLITS[int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0]


class Streams:
    """Independent random streams of one episode, spawned from one entropy and made when first used.

    Args:
        entropy: what the episode is: `episode_entropy` of (id, version, split, seed). Two different
            tuples give independent streams.
    """

    instance: np.random.Generator
    """Draws the problem, the board, the deal; used only by `Game.new`."""
    chance: np.random.Generator
    """Random events after the start, and the moves of ``invalid="random_legal"``."""
    seats: np.random.Generator
    """Draws the order of the seats and their roles."""
    bots: np.random.Generator
    """Seeds of scripted opponents that a view adds by itself."""

    _names = ("instance", "chance", "seats", "bots")

    def __init__(self, *entropy: int) -> None:
        self._entropy = entropy

    @property
    def split(self) -> Split:
        """The split that `episode_entropy` put in, for games whose instances are a fixed list.

        "train" where the entropy does not belong to an episode.
        """
        return SPLITS[self._entropy[2]] if len(self._entropy) == 4 else "train"

    def rows(self, count: int, each: int) -> tuple[int, ...]:
        """Places of the rows that the episode's seed names (`srl_envs.row_seeds`); empty where it leaves
        them to chance.

        Args:
            count: rows of the split.
            each: that an episode asks.

        Raises:
            ConfigError: it names others than ``each`` of these.
        """
        named = rows_named(self._entropy[3]) if len(self._entropy) == 4 else ()
        if named and (len(set(named)) != each or max(named) >= count):
            raise ConfigError(
                f"the seed names the rows {list(named)}, and an episode asks {each} different ones of 0 to "
                f"{count - 1}: it is of another collection or of other options."
            )
        return named

    def held(self, draw: Callable[[], Instance], key: Callable[[Instance], object]) -> Instance:
        """Draw until an instance belongs to this episode's split, so that eval is never trained on.

        Args:
            draw: takes the next instance from a stream that goes on from call to call.
            key: what names the instance to `split_of_instance`.

        Raises:
            ConfigError: no instance of the split turned up; the game's options leave too few.
        """
        split = self.split
        for _ in range(_MOST_DRAWS):
            instance = draw()
            if split_of_instance(key(instance)) == split:
                return instance
        raise ConfigError(
            f"none of {_MOST_DRAWS} instances drawn with these options belongs to split {split!r}: "
            f"instances are divided by hash, and the options leave too few; widen them, or take the "
            f"other split."
        )

    def __getattr__(self, name: str) -> np.random.Generator:
        if name not in Streams._names:
            raise AttributeError(name)
        generator = np.random.Generator(self._bits(name))
        setattr(self, name, generator)
        return generator

    def draws(self, name: str) -> Draws:
        """Small numbers from the start of a stream of this name, a hundred times cheaper to begin.

        It is not the generator's stream; a game may use both.
        """
        return Draws(*self._entropy, self._names.index(name))

    def _bits(self, name: str) -> np.random.PCG64:
        words = seed_words(self._entropy, self._names.index(name))
        return np.random.PCG64(np.random.SeedSequence(words))


def episode_entropy(env_id: str, version: int, split: Split, seed: int) -> tuple[int, ...]:
    """Entropy of one episode. The split is part of it, so train and eval share no random stream.

    Games with few instances can still draw the same one in both.

    Args:
        env_id: a registered id.
        version: the number after ``-v``.
        split: "train" or "eval".
        seed: of the episode, 0 or more.

    Returns:
        Four whole numbers for `Streams`: CRC-32 of the id, version, number of the split, seed.
    """
    return _id_number(env_id), version, SPLITS.index(split), seed


@cache
def _id_number(env_id: str) -> int:
    return zlib.crc32(env_id.encode())


class Tool(NamedTuple):
    """One kind of move that is a call: ``name: first``, with further parameters on the lines below."""

    name: str
    does: str
    """One sentence for the model."""
    parameters: tuple[tuple[str, str], ...]
    """Name and meaning of each text that it takes, in the order of the move."""


class Game(ABC, Generic[State, Action]):
    """Rules of one environment as pure functions over an immutable state.

    Subclasses set the class attributes and take their options as keyword arguments of ``__init__``
    (checked there, `ConfigError`). A state must survive ``decode(json.loads(json.dumps(encode(s))))``.
    """

    seats: int = 2
    """Number of seats, numbered from 0."""
    mode: Mode = "competitive"
    simultaneous: bool = False
    """Whether `to_move` names all seats at every step until the end."""
    max_turns: int = 100
    """Upper bound on the number of `apply` calls in one episode."""
    max_action_chars: int = 4096
    """Longest body of an action block; code games use 8192."""
    max_observation_chars: int = 8192
    reference_names: tuple[str, ...] = ()
    """Names of the values of `references`; an instance may have others than its class."""
    rows_to_train: int = 0
    """Rows of a collection in split train, which `Streams.rows` may name; 0 without rows."""
    rows_each: int = 1
    """Number of different rows in an episode."""
    tools: tuple[Tool, ...] = ()
    """Moves that may also be written as tool calls of a chat template (`srl_envs.turns.tool_calls`)."""
    resource: str = ""
    """Name in `components` of the share of the scarce pool that a seat won; empty without a pool."""

    @abstractmethod
    def new(self, streams: Streams) -> State:
        """The first state of an episode; draws only from ``streams``."""

    @abstractmethod
    def to_move(self, state: State) -> tuple[int, ...]:
        """Seats that must act now, ascending; several where moves are simultaneous; () at the end."""

    @abstractmethod
    def observe(self, state: State, seat: int) -> str:
        """All that ``seat`` may know, as one text: constant rules first, then what changed."""

    @abstractmethod
    def parse(self, state: State, seat: int, body: str) -> Action:
        """Read the body of an action block.

        Raises:
            IllegalMoveError: the body is not a legal action; the seat reads the reason in its text.
        """

    @abstractmethod
    def apply(self, state: State, actions: Mapping[int, Action]) -> State:
        """The state after the seats of `to_move` acted at the same moment.

        Args:
            state: stays as it is.
            actions: seat number, from 0 -> its move as `parse` returned it.
        """

    @abstractmethod
    def returns(self, state: State) -> tuple[float, ...] | None:
        """Outcome per seat in [-1, 1] once the game is over, else None."""

    def earned(self, state: State) -> tuple[float, ...] | None:
        """Part of the outcome per seat that is paid by now; None where all is paid at the end.

        Games that pay round by round override it. A view pays what `earned` grew by at each step,
        and at the end what `returns` (or `forfeit`) is above it, so an episode's sum is the outcome.
        """
        return None

    @abstractmethod
    def fallback(self, state: State, seat: int) -> str:
        """The named default move of ``seat`` (from 0), as an action body; taken when retries are used up."""

    @abstractmethod
    def sample(self, state: State, seat: int, rng: np.random.Generator) -> str:
        """A random legal action body for ``seat`` (from 0), drawn from ``rng`` alone."""

    @abstractmethod
    def encode(self, state: State) -> Any:
        """The state as JSON values."""

    @abstractmethod
    def decode(self, data: Any) -> State:
        """The inverse of `encode`."""

    def legal(self, state: State, seat: int) -> Sequence[str] | None:
        """Every legal action body of ``seat`` (from 0) where there are at most 200, else None."""
        return None

    def components(self, state: State, seat: int) -> Mapping[str, float]:
        """Named parts and statistics of the outcome of ``seat``; those at the end are logged, not rewarded.

        Each is in the game's own unit, which its page in the documentation names. The names are the same in
        every state and for every seat: a recipe may give them weights.
        """
        return {}

    def references(self, state: State, seat: int) -> Mapping[str, Any]:
        """What decides whether the seat's next move is right, for judges that players never meet.

        ``answer`` is what `AnswerScorer` compares with, ``calls`` or ``tests`` what `CodeScorer` runs; JSON
        values, named as in `reference_names`. Empty where the move answers no question. No observation
        and no info holds it.
        """
        return {}

    def answered(self, body: str) -> str:
        """An accepted action body as a plain reply to the question, without the rest of the move."""
        return body

    def forfeit(self, state: State, seat: int) -> tuple[float, ...]:
        """Outcome per seat when ``seat`` forfeits: it gets the worst, the others share its loss.

        The default suits zero-sum games (-1 for the seat, +1 divided among the others).
        Cooperative games pay 0 to all.
        """
        if self.mode == "cooperative":
            return (0.0,) * self.seats
        if self.mode == "mixed":
            return tuple(-1.0 if s == seat else 0.0 for s in range(self.seats))
        share = 1.0 / (self.seats - 1)
        return tuple(-1.0 if s == seat else share for s in range(self.seats))

    def swap_hidden(self, state: State, seat: int, other: State) -> State:
        """``state`` with all that ``seat`` may not know taken from ``other``, another episode's start.

        The checks of `srl_envs.testing` compare what ``seat`` receives before and after. The result
        need not be reachable by play. The default is for games that show all seats the same.
        """
        return state

    def reshuffled(self, state: State, draws: Draws) -> State:
        """``state`` with what is still left to chance drawn anew: what has not happened and no seat has seen.

        All seats see the same before and after. The task itself stays, such as problems that come later. The
        default is for games in which nothing is left to chance after the start.
        """
        return state

    def close(self) -> None:
        """Give back what the game holds outside memory; games that run code override it."""
        return None

    def render(self, state: State) -> str:
        """The whole state for a spectator, who may see everything."""
        return "\n\n".join(
            f"--- {seat_name(seat)} sees ---\n{self.observe(state, seat)}"
            for seat in range(self.seats)
        )


def require_action(condition: bool, message: str) -> None:
    """Raise `IllegalMoveError` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise IllegalMoveError(message)
