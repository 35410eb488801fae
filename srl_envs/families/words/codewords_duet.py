"""Codewords duet: two seats lead each other to their target words by one-word clues.

Cooperative, in turns. 25 words lie open. Each seat has a key that only it sees: 9 targets, 3 deadly
words, the rest neutral. 3 words are targets in both keys, so there are 15 targets in all; of the 3
deadly words of a key one is a target in the other, one is deadly there too, one is neutral. A turn is a
clue (a word and a number) by one seat and the guesses of the other, in order of its confidence, which
count by the key of the seat that gave the clue: a target is found, a neutral word ends the turn, a
deadly one the game. Seats alternate for ``turns`` turns.

The outcome is the share of the targets that were found, times 0.25 once a deadly word was guessed. A
draft kept half of it, which paid guessing at random twice as much. Now one random guess a turn earns
0.07, as does the random bot, the floor; a team that passes earns 0; the strong bots, who know an
association table and agree on nothing else, 0.75. A pair that knew both keys would earn 1.

Guesses come in one action rather than one by one: half the replies, and the answer to a right guess
seldom changes the next. A clue must be a word of `srl_envs.lexicon`, so that no code can be spelled
out letter by letter. Partners who agree on what a word stands for beforehand cannot be told from
partners who understand each other; the held-out bot is there to tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action
from srl_envs.errors import ConfigError
from srl_envs.lexicon import associations, common_words
from srl_envs.messages import whole_number

BOARD = 25
TARGET, DEADLY, NEUTRAL = "T", "D", "."
TARGETS = 15
"""In both keys together."""
DEADLY_FACTOR = 0.25
PASS = "pass"
MAX_NUMBER = 9
LEAST_CLUES = 3
"""Nouns under fewer clues are too hard to hint at, and stay off the board."""
_KEYS = (
    *((TARGET, TARGET),) * 3,
    *((TARGET, NEUTRAL),) * 5, (TARGET, DEADLY),
    *((NEUTRAL, TARGET),) * 5, (DEADLY, TARGET),
    (DEADLY, DEADLY), (DEADLY, NEUTRAL), (NEUTRAL, DEADLY),
    *((NEUTRAL, NEUTRAL),) * 7,
)  # fmt: skip
"""What a word is in the first and in the second key."""
_FOUND = {TARGET: "found", DEADLY: "deadly", NEUTRAL: "neutral"}
_SHOWN_CHARS = 24


class Clue(NamedTuple):
    """A word and how many words it is meant for; no word is a pass."""

    word: str
    number: int


class Turn(NamedTuple):
    """One clue and what came of it."""

    giver: int
    clue: Clue
    guesses: tuple[int, ...] | None = None
    """Indices of the words that counted; None while the guesses are due."""


class Board(NamedTuple):
    """Immutable state."""

    words: tuple[str, ...]
    keys: tuple[str, str]
    """Per seat: one of `TARGET`, `DEADLY`, `NEUTRAL` for each word."""
    giver: int
    """Who gives the next clue, or gave the present one."""
    turns: tuple[Turn, ...] = ()
    found: frozenset[int] = frozenset()
    missed: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    """Per guessing seat: words that are neutral in the other's key."""
    over: bool = False
    dead: bool = False
    sheets: tuple[str, str] = ("", "")
    """Per seat: the board and the own key in words."""
    logs: tuple[str, str] = ("", "")
    """Per seat: the turns that are done, in words."""

    @property
    def guessing(self) -> bool:
        """Whether guesses are due."""
        return bool(self.turns) and self.turns[-1].guesses is None


Move = Clue | tuple[int, ...]
"""A clue, or the guesses as indices."""


@lru_cache(maxsize=1)
def board_nouns() -> tuple[str, ...]:
    """Nouns that may lie on the board, sorted."""
    counts: dict[str, int] = {}
    for nouns in associations().values():
        for noun in nouns:
            counts[noun] = counts.get(noun, 0) + 1
    return tuple(sorted(noun for noun, count in counts.items() if count >= LEAST_CLUES))


@lru_cache(maxsize=1)
def clue_words() -> frozenset[str]:
    """Every word that may be a clue on some board."""
    return frozenset({*common_words(), *associations(), *board_nouns()})


def too_close(word: str, other: str) -> bool:
    """Whether one contains the other, or one letter changed, left out or added makes them equal."""
    if word in other or other in word:
        return True
    if len(word) > len(other):
        word, other = other, word
    if len(other) - len(word) > 1:
        return False
    if len(word) > 1 and word[0] != other[0] and word[-1] != other[-1]:
        return False  # one edit leaves one of the ends as it was
    at = next((i for i, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), len(word))
    skipped = word[at:] if len(other) > len(word) else word[at + 1 :]
    return skipped == other[at + 1 :]


@cache
def close_nouns(noun: str) -> frozenset[str]:
    """Nouns of the lexicon that cannot be on one board with ``noun``."""
    return frozenset(other for other in board_nouns() if too_close(noun, other))


def open_words(state: Board, guesser: int) -> list[int]:
    """Indices of the words that ``guesser`` may guess."""
    closed = state.found | state.missed[guesser]
    return [index for index in range(BOARD) if index not in closed]


def left_to_find(state: Board, giver: int) -> list[int]:
    """Indices of the targets in the key of ``giver`` that are not found yet."""
    key = state.keys[giver]
    return [index for index in range(BOARD) if key[index] == TARGET and index not in state.found]


class CodewordsDuet(Game[Board, Move]):
    """Observation: rules, the words, the own key, all turns. Action: ``word number``, or guesses.

    Args:
        turns: clues in all, 3 to 15.

    Raises:
        ConfigError: the number is out of range.
    """

    mode = "cooperative"
    max_action_chars = 300
    max_observation_chars = 5120

    def __init__(self, *, turns: int = 9) -> None:
        if isinstance(turns, bool) or not isinstance(turns, int) or not 3 <= turns <= 15:
            raise ConfigError(f"codewords_duet: turns={turns!r}; give 3 to 15.")
        self.turns = turns
        self.max_turns = 2 * turns
        self._rules = (
            "Codewords duet: you and your partner look for 15 target words among 25, together.\n"
            "Each of you has a secret key with 9 targets (3 are in both keys) and 3 deadly words.\n"
            "One gives a clue: one word, and how many targets of its own key the clue is meant for. "
            "The other guesses words by that clue. A target is found; a neutral word ends the turn; "
            "a word that is deadly in the key of the one who gave the clue ends the game.\n"
            f"Then you swap. There are {turns} clues in all.\n"
            "You are both paid the share of the 15 targets that is found, only a quarter of it if a "
            "deadly word was guessed.\n"
            "A clue must be one common English word, unlike every word on the board.\n\n"
        )

    def new(self, streams: Streams) -> Board:
        """Draw the words and the keys; who gives the first clue is a fair coin."""
        rng = streams.instance
        nouns = board_nouns()
        words: list[str] = []
        for index in rng.permutation(len(nouns)):
            if close_nouns(nouns[index]).isdisjoint(words):
                words.append(nouns[index])
            if len(words) == BOARD:
                break
        both = [_KEYS[i] for i in rng.permutation(BOARD)]
        keys = "".join(mine for mine, _ in both), "".join(theirs for _, theirs in both)
        sheets = _sheet(words, keys[0]), _sheet(words, keys[1])
        return Board(tuple(words), keys, int(streams.seats.integers(2)), sheets=sheets)

    def to_move(self, state: Board) -> tuple[int, ...]:
        """The giver, or the other one where guesses are due."""
        if state.over:
            return ()
        return (1 - state.giver,) if state.guessing else (state.giver,)

    def observe(self, state: Board, seat: int) -> str:
        """Rules, words, own key, turns so far and what is to do."""
        found = f"Found: {_names(state, sorted(state.found))}\n" if state.found else ""
        return f"{self._rules}{state.sheets[seat]}{state.logs[seat]}{found}{self._status(state, seat)}\n"

    def _status(self, state: Board, seat: int) -> str:
        if state.over:
            return f"The game is over: {len(state.found)} of {TARGETS} targets found."
        if self.to_move(state) != (seat,):
            return "Wait for your partner."
        if not state.guessing:
            left = _names(state, left_to_find(state, seat))
            return (
                f"Your targets still to find: {left}\n"
                f"Clue {len(state.turns) + 1} of {self.turns}: give a word and a number from 1 to "
                f"{MAX_NUMBER}, like this: <action>ocean 2</action> (or <action>{PASS}</action>)"
            )
        clue = state.turns[-1].clue
        return (
            f"Open to guess: {_names(state, open_words(state, seat))}\n"
            f"Your partner's clue is {clue.word} {clue.number}. Guess 1 to {clue.number + 1} open "
            f"words, the surest first, separated by commas, like this: <action>{state.words[0]}, "
            f"{state.words[1]}</action> (or <action>{PASS}</action>)"
        )

    def parse(self, state: Board, seat: int, body: str) -> Move:
        """A clue as ``word number``, or guesses separated by commas; ``pass`` for either."""
        text = " ".join(body.lower().split())
        if state.guessing:
            return _read_guesses(state, seat, text)
        return _read_clue(state, text)

    def apply(self, state: Board, actions: Mapping[int, Move]) -> Board:
        """Note the clue, or hold the guesses against the giver's key until one is wrong."""
        (move,) = actions.values()
        if isinstance(move, Clue):
            passed = not move.word
            turn = Turn(state.giver, move, () if passed else None)
            state = state._replace(turns=(*state.turns, turn))
            return self._next_turn(state) if passed else state
        return self._next_turn(_guess(state, move))

    def _next_turn(self, state: Board) -> Board:
        """Swap the roles, unless the seat to come has nothing left to give clues for."""
        over = state.dead or len(state.found) == TARGETS or len(state.turns) == self.turns
        other = 1 - state.giver
        giver = other if left_to_find(state, other) else state.giver
        logs = state.logs[0] + _line(state, 0), state.logs[1] + _line(state, 1)
        return state._replace(giver=giver, over=over, logs=logs)

    def returns(self, state: Board) -> tuple[float, ...] | None:
        """The share of targets found, a quarter of it after a deadly guess; the same for both."""
        if not state.over:
            return None
        share = len(state.found) / TARGETS * (DEADLY_FACTOR if state.dead else 1.0)
        return (share, share)

    def fallback(self, state: Board, seat: int) -> str:
        """A pass."""
        return PASS

    def sample(self, state: Board, seat: int, rng: np.random.Generator) -> str:
        """A random clue of the association table, or random guesses."""
        if state.guessing:
            words = [state.words[index] for index in open_words(state, seat)]
            return random_guesses(words, state.turns[-1].clue.number, rng)
        return random_clue(state.words, rng)

    def components(self, state: Board, seat: int) -> Mapping[str, float]:
        """``found``: targets; ``deadly``: 1 after a deadly guess; ``clues``: how many were given."""
        return {
            "found": float(len(state.found)),
            "deadly": float(state.dead),
            "clues": float(len(state.turns)),
        }

    def swap_hidden(self, state: Board, seat: int, other: Board) -> Board:
        """The other's key, and what is written down for the other."""
        mine, theirs = (state, other) if seat == 0 else (other, state)
        return state._replace(
            keys=(mine.keys[0], theirs.keys[1]),
            sheets=(mine.sheets[0], theirs.sheets[1]),
            logs=(mine.logs[0], theirs.logs[1]),
        )

    def encode(self, state: Board) -> Any:
        """Lists and numbers."""
        return {
            "words": list(state.words),
            "keys": list(state.keys),
            "giver": state.giver,
            "turns": [
                [turn.giver, list(turn.clue), None if turn.guesses is None else list(turn.guesses)]
                for turn in state.turns
            ],
            "found": sorted(state.found),
            "missed": [sorted(missed) for missed in state.missed],
            "over": state.over,
            "dead": state.dead,
            "sheets": list(state.sheets),
            "logs": list(state.logs),
        }

    def decode(self, data: Any) -> Board:
        """The inverse of `encode`."""
        turns = (
            Turn(giver, Clue(*clue), None if guesses is None else tuple(guesses))
            for giver, clue, guesses in data["turns"]
        )
        first, second = (frozenset(missed) for missed in data["missed"])
        return Board(
            tuple(data["words"]), (data["keys"][0], data["keys"][1]), data["giver"], tuple(turns),
            frozenset(data["found"]), (first, second), data["over"], data["dead"],
            (data["sheets"][0], data["sheets"][1]), (data["logs"][0], data["logs"][1]),
        )  # fmt: skip


def _names(state: Board, indices: list[int]) -> str:
    return ", ".join([state.words[index] for index in indices])


def _sheet(words: list[str], key: str) -> str:
    """The board and one key, for the seat that holds it."""
    lines = [f"Words: {', '.join(words)}\n"]
    for name, mark in (("targets", TARGET), ("deadly words", DEADLY)):
        marked = [word for word, what in zip(words, key, strict=True) if what == mark]
        lines.append(f"Your {name}: {', '.join(marked)}\n")
    return "".join(lines)


def _line(state: Board, seat: int) -> str:
    """The turn that has just ended, for one seat."""
    turn, number = state.turns[-1], len(state.turns)
    giver, guesser = ("you", "partner") if turn.giver == seat else ("partner", "you")
    if not turn.clue.word:
        return f"Clue {number}, {giver}: {PASS}.\n"
    key = state.keys[turn.giver]
    results = [f"{state.words[guess]} ({_FOUND[key[guess]]})" for guess in turn.guesses or ()]
    clue = f"{turn.clue.word} {turn.clue.number}"
    return f"Clue {number}, {giver}: {clue}. Guesses, {guesser}: {', '.join(results) or PASS}.\n"


def _read_clue(state: Board, text: str) -> Clue:
    if text == PASS:
        return Clue("", 0)
    word, _, digits = text.partition(" ")
    number = whole_number(digits, 1, MAX_NUMBER)
    if number is None:
        number = 0
    require_action(number > 0, f"write one word and a number from 1 to {MAX_NUMBER}, like: ocean 2")
    shown = repr(word[:_SHOWN_CHARS])
    require_action(word in clue_words(), f"{shown} is not in the list of common words")
    near = next((other for other in state.words if too_close(word, other)), None)
    require_action(near is None, f"{shown} is too much like {near!r} on the board")
    return Clue(word, number)


def _read_guesses(state: Board, seat: int, text: str) -> tuple[int, ...]:
    if text == PASS:
        return ()
    most = state.turns[-1].clue.number + 1
    words = [word.strip() for word in text.split(",")]
    require_action(len(words) <= most, f"{len(words)} guesses are too many; give at most {most}")
    require_action(len(set(words)) == len(words), "a word stands twice among the guesses")
    allowed = {state.words[index]: index for index in open_words(state, seat)}
    for word in words:
        require_action(word in allowed, f"{word[:_SHOWN_CHARS]!r} is not open to guess")
    return tuple(allowed[word] for word in words)


def _guess(state: Board, guesses: tuple[int, ...]) -> Board:
    """Take guesses in their order until one is no target."""
    key, guesser = state.keys[state.giver], 1 - state.giver
    hits = 0
    while hits < len(guesses) and key[guesses[hits]] == TARGET:
        hits += 1
    counted = guesses[: hits + 1]
    missed = list(state.missed)
    missed[guesser] |= set(counted[hits:])
    return state._replace(
        turns=(*state.turns[:-1], state.turns[-1]._replace(guesses=counted)),
        found=state.found | set(guesses[:hits]),
        missed=(missed[0], missed[1]),
        dead=any(key[guess] == DEADLY for guess in counted),
    )


def random_clue(words: tuple[str, ...], rng: np.random.Generator) -> str:
    """A random clue of the association table that the board allows."""
    clues = list(associations())
    for index in rng.permutation(len(clues)):
        if not any(too_close(clues[index], word) for word in words):
            return f"{clues[index]} {int(rng.integers(1, 4))}"
    return PASS


def random_guesses(words: list[str], number: int, rng: np.random.Generator) -> str:
    """One or more of the open words, at most one more than the clue's number."""
    count = int(rng.integers(1, min(number + 1, len(words)) + 1))
    return ", ".join(words[index] for index in rng.choice(len(words), count, replace=False))
