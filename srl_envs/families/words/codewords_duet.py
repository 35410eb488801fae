"""Codewords duet: two seats lead each other to their target words by one-word clues.

Cooperative, in turns. 25 words lie open, in an order of its own for each seat. Each seat has a key that
only it sees: 9 targets, 3 deadly words, the rest neutral. 3 words are targets in both keys, so there are
15 targets in all; of the 3 deadly words of a key one is a target in the other, one is deadly there too,
one is neutral. A turn is a clue by one seat and the guesses of the other, the surest first, which count
by the key of the seat that gave the clue. Seats alternate for ``turns`` turns.

Which words a clue fits is settled by a list of associations (`srl_envs.lexicon.associations`). A clue must
fit a target that is left, and the game says how many it fits. A guess finds a target only if the clue fits
it; any other guess ends the turn, a deadly one the game. The outcome is the share of the targets that were
found, times 0.25 once a deadly word was guessed.

So a clue has its meaning by rule. Where any word of a dictionary of 39,000 may be a clue (15 bits, and a
number), partners name any three of the 25 words by their place in a list (11 bits) and find everything
without understanding a word. Here a clue is one of about 46 (5.5 bits, measured over 200 starts), to name
9 of 25 words takes 21 bits, and a guess that only the code explains finds nothing. Measured over 60 seeds:
partners who choose and guess by an agreed order of the words for every clue earn 0.01, the strong bots
0.74. An agreed order of the fitting words alone adds nothing to that (0.74), and guesses that know the
giver's key earn 0.75.

Conventions remain possible all the same: partners may agree which of several fitting clues stands for
what. Within one team they cannot be told from understanding, so leaderboards should score the game by
cross-play with partners that a policy has never met; the bot ``held_out`` is one.

Measured over 60 seeds: random bots earn 0.01 (the floor is 0, a team that passes), middle ones 0.56, strong
ones 0.74, also beside ``held_out``. A pair that knew both keys and planned all nine clues would earn 0.78.
Instances are held out by the set of words on the board, so no seat's start occurs in both splits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.errors import ConfigError
from srl_envs.lexicon import associations

BOARD = 25
TARGET, DEADLY, NEUTRAL = "T", "D", "."
TARGETS = 15
"""Number of targets in both keys together."""
DEADLY_FACTOR = 0.25
PASS = "pass"
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
_SHOWN_CHARS = 24
_CLUE = re.compile(r"(?:(?:my )?clue(?: is)?:? )?([a-z]+)(?: [0-9])?")
"""A number behind the word is what other rules of this game ask for; here it is ignored."""
_GUESSES = re.compile(r"(?:(?:my )?guess(?:es)?(?: is| are)?:? )?(.*)")
_BETWEEN = re.compile(r",? and |, ?| ")
"""What may stand between guesses: every noun is a single word."""


class Turn(NamedTuple):
    """One clue, its guesses and their verdicts."""

    giver: int
    clue: str
    """The clue; empty for a pass."""
    number: int
    """Targets left of the giver that the clue fits."""
    guesses: tuple[int, ...] | None = None
    """Indices of the words that counted; None while the guesses are due."""


class Board(NamedTuple):
    """Immutable state."""

    words: tuple[str, ...]
    keys: tuple[str, str]
    """Per seat: one of `TARGET`, `DEADLY`, `NEUTRAL` for each word."""
    orders: tuple[tuple[int, ...], tuple[int, ...]]
    """Per seat: the words' indices as it reads them."""
    giver: int
    """Seat that gives the next clue, or gave the present one."""
    turns: tuple[Turn, ...] = ()
    found: frozenset[int] = frozenset()
    missed: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    """Per guessing seat: words that are neutral in the other's key, by a guess that the clue fits."""
    over: bool = False
    dead: bool = False
    sheets: tuple[str, str] = ("", "")
    """Per seat: its name, the board and the own key in words."""
    log: str = ""
    """Finished turns, as text."""

    @property
    def guessing(self) -> bool:
        """Whether guesses are due."""
        return bool(self.turns) and self.turns[-1].guesses is None


Move = str | tuple[int, ...]
"""A clue, empty for a pass, or the guesses as indices."""


@lru_cache(maxsize=1)
def clues_of() -> Mapping[str, frozenset[str]]:
    """Noun -> the clues that fit it, by the packaged associations."""
    table: dict[str, set[str]] = {}
    for clue, nouns in associations().items():
        for noun in nouns:
            table.setdefault(noun, set()).add(clue)
    return {noun: frozenset(clues) for noun, clues in table.items()}


@lru_cache(maxsize=1)
def board_nouns() -> tuple[str, ...]:
    """Nouns that may lie on the board, sorted."""
    return tuple(sorted(noun for noun, clues in clues_of().items() if len(clues) >= LEAST_CLUES))


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


@cache
def close_clues(noun: str) -> frozenset[str]:
    """Clues of the association table that are too close to ``noun``."""
    return frozenset(clue for clue in associations() if too_close(noun, clue))


def open_words(state: Board, guesser: int) -> list[int]:
    """Indices of the words that ``guesser`` may guess, in its own order."""
    closed = state.found | state.missed[guesser]
    return [index for index in state.orders[guesser] if index not in closed]


def left_to_find(state: Board, giver: int) -> list[int]:
    """Indices of the targets in the key of ``giver`` that are not found yet."""
    key = state.keys[giver]
    return [index for index in range(BOARD) if key[index] == TARGET and index not in state.found]


def clues_left(state: Board) -> tuple[str, ...]:
    """What the giver may say: clues that the board allows and that fit a target left, sorted."""
    return _fitting(state.words, state.keys[state.giver], state.found)


@lru_cache(maxsize=256)
def _fitting(words: tuple[str, ...], key: str, found: frozenset[int]) -> tuple[str, ...]:
    targets = (i for i in range(BOARD) if key[i] == TARGET and i not in found)
    fitting: set[str] = set().union(*(clues_of()[words[i]] for i in targets))
    return tuple(sorted(fitting.difference(*map(close_clues, words))))


class CodewordsDuet(Game[Board, Move]):
    """Observation: rules, the words, the own key, all turns. Action: a clue, or guesses.

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
            "Codewords duet: you and your partner look for 15 target words among 25.\n"
            "Each of you has a secret key of these words: 9 targets (3 of them are in both keys) and 3 "
            "deadly words.\n"
            f"In turn, one gives a one-word clue and the other guesses, for {turns} clues in all. A "
            "clue must fit a target of the giver's key; the game tells how many it fits. The other "
            "guesses up to that many words, the surest first.\n"
            "A guess finds a word that is a target in the giver's key and fits the clue. Any other "
            "guess ends the turn, and the whole game if the word is deadly in the giver's key.\n"
            f"Payoff: both get (targets found) / {TARGETS}, but a quarter of it if a deadly word was "
            "guessed.\n"
            "Reply with one clue, like this: <action>ocean</action>, or with guesses and commas, like "
            f"this: <action>sail, wave</action>. <action>{PASS}</action> skips.\n\n"
        )

    def new(self, streams: Streams) -> Board:
        """Draw the words, the keys and the orders; who gives the first clue is a fair coin."""
        rng = streams.instance
        words = streams.held(lambda: _draw_words(rng), sorted)
        both = [_KEYS[i] for i in rng.permutation(BOARD).tolist()]
        keys = "".join(mine for mine, _ in both), "".join(theirs for _, theirs in both)
        orders = tuple(rng.permutation(BOARD).tolist()), tuple(rng.permutation(BOARD).tolist())
        sheets = tuple(_sheet(words, keys[seat], orders[seat], seat) for seat in (0, 1))
        giver = int(streams.seats.integers(2))
        return Board(tuple(words), keys, orders, giver, sheets=(sheets[0], sheets[1]))

    def to_move(self, state: Board) -> tuple[int, ...]:
        """The giver, or the other one where guesses are due."""
        if state.over:
            return ()
        return (1 - state.giver,) if state.guessing else (state.giver,)

    def observe(self, state: Board, seat: int) -> str:
        """Rules, words, own key, turns so far and what is to do."""
        found = f"Found: {_names(state, sorted(state.found))}\n" if state.found else ""
        return f"{self._rules}{state.sheets[seat]}{state.log}{found}{self._status(state, seat)}\n"

    def _status(self, state: Board, seat: int) -> str:
        if state.over:
            return f"The game is over: {len(state.found)} of {TARGETS} targets found."
        if self.to_move(state) != (seat,):
            return "Wait for your partner."
        if not state.guessing:
            return (
                f"Clues that fit: {', '.join(clues_left(state)) or 'none'}\n"
                f"Give clue {len(state.turns) + 1} of {self.turns}, one of these."
            )
        turn = state.turns[-1]
        return (
            f"Open words: {_names(state, open_words(state, seat))}\n"
            f"The clue of {seat_name(turn.giver)} is {turn.clue} {turn.number}: it fits {turn.number} "
            f"of the targets left. Guess."
        )

    def parse(self, state: Board, seat: int, body: str) -> Move:
        """A clue, or guesses separated by commas; ``pass`` for either."""
        text = " ".join(body.lower().split())
        if state.guessing:
            return _read_guesses(state, seat, text)
        return _read_clue(state, text)

    def apply(self, state: Board, actions: Mapping[int, Move]) -> Board:
        """Note the clue, or hold the guesses against the giver's key until one is wrong."""
        (move,) = actions.values()
        if not isinstance(move, str):
            return self._next_turn(_guess(state, move))
        nouns = associations().get(move, ())
        number = sum(state.words[i] in nouns for i in left_to_find(state, state.giver))
        turn = Turn(state.giver, move, number, None if move else ())
        state = state._replace(turns=(*state.turns, turn))
        return state if move else self._next_turn(state)

    def _next_turn(self, state: Board) -> Board:
        """Swap the roles, unless the seat to come has nothing left to give clues for."""
        over = state.dead or len(state.found) == TARGETS or len(state.turns) == self.turns
        other = 1 - state.giver
        giver = other if left_to_find(state, other) else state.giver
        return state._replace(giver=giver, over=over, log=state.log + _line(state))

    def returns(self, state: Board) -> tuple[float, ...] | None:
        """The share of targets found, a quarter of it after a deadly guess; the same for both."""
        if not state.over:
            return None
        share = len(state.found) / TARGETS * (DEADLY_FACTOR if state.dead else 1.0)
        return (share, share)

    def legal(self, state: Board, seat: int) -> Sequence[str] | None:
        """The clues that fit, and a pass; guesses are too many to list."""
        return None if state.guessing else (*clues_left(state), PASS)

    def fallback(self, state: Board, seat: int) -> str:
        """A pass."""
        return PASS

    def sample(self, state: Board, seat: int, rng: np.random.Generator) -> str:
        """A random clue that fits, or random guesses."""
        if state.guessing:
            words = [state.words[index] for index in open_words(state, seat)]
            return random_guesses(words, state.turns[-1].number, rng)
        clues = clues_left(state)
        return clues[int(rng.integers(len(clues)))] if clues else PASS

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
            orders=(mine.orders[0], theirs.orders[1]),
            sheets=(mine.sheets[0], theirs.sheets[1]),
        )

    def encode(self, state: Board) -> Any:
        """Lists and numbers."""
        return {
            "words": list(state.words),
            "keys": list(state.keys),
            "orders": [list(order) for order in state.orders],
            "giver": state.giver,
            "turns": [
                [*turn[:3], None if turn.guesses is None else list(turn.guesses)]
                for turn in state.turns
            ],
            "found": sorted(state.found),
            "missed": [sorted(missed) for missed in state.missed],
            "over": state.over,
            "dead": state.dead,
            "sheets": list(state.sheets),
            "log": state.log,
        }

    def decode(self, data: Any) -> Board:
        """The inverse of `encode`."""
        turns = (
            Turn(giver, clue, number, None if guesses is None else tuple(guesses))
            for giver, clue, number, guesses in data["turns"]
        )
        first, second = (frozenset(missed) for missed in data["missed"])
        own, others = map(tuple, data["orders"])
        return Board(
            tuple(data["words"]), (data["keys"][0], data["keys"][1]), (own, others), data["giver"],
            tuple(turns), frozenset(data["found"]), (first, second), data["over"], data["dead"],
            (data["sheets"][0], data["sheets"][1]), data["log"],
        )  # fmt: skip


def _draw_words(rng: np.random.Generator) -> list[str]:
    """Nouns of which no two are too close, in random order."""
    nouns = board_nouns()
    words: list[str] = []
    for index in rng.permutation(len(nouns)).tolist():
        if close_nouns(nouns[index]).isdisjoint(words):
            words.append(nouns[index])
        if len(words) == BOARD:
            break
    return words


def _names(state: Board, indices: Sequence[int]) -> str:
    return ", ".join([state.words[index] for index in indices])


def _sheet(words: list[str], key: str, order: tuple[int, ...], seat: int) -> str:
    """The board and one key, for the seat that holds it."""
    lines = [f"You are {seat_name(seat)}.\nWords: {', '.join([words[i] for i in order])}\n"]
    for name, mark in (("targets", TARGET), ("deadly words", DEADLY)):
        marked = [words[i] for i in order if key[i] == mark]
        lines.append(f"Your {name}: {', '.join(marked)}\n")
    return "".join(lines)


def _line(state: Board) -> str:
    """The turn that has just ended, the same for both."""
    turn, number = state.turns[-1], len(state.turns)
    giver, guesser = seat_name(turn.giver), seat_name(1 - turn.giver)
    if not turn.clue:
        return f"Clue {number} by {giver}: {PASS}.\n"
    results = [
        f"{state.words[guess]} ({_verdict(state, turn, guess)})" for guess in turn.guesses or ()
    ]
    clue = f"{turn.clue} {turn.number}"
    return f"Clue {number} by {giver}: {clue}. {guesser} guessed: {', '.join(results) or PASS}.\n"


def _verdict(state: Board, turn: Turn, guess: int) -> str:
    """What a guess turned out to be; whether a word that the clue does not fit is a target stays hidden."""
    mark, fits = state.keys[turn.giver][guess], state.words[guess] in associations()[turn.clue]
    if mark == DEADLY:
        return "deadly"
    if not fits:
        return "does not fit the clue"
    return "found" if mark == TARGET else "neutral"


def _read_clue(state: Board, text: str) -> str:
    if text == PASS:
        return ""
    said = _CLUE.fullmatch(text)
    require_action(said is not None, f"write one clue of your list, or {PASS}")
    word = said.group(1) if said else ""
    if word not in clues_left(state):
        shown = repr(word[:_SHOWN_CHARS])
        require_action(word in associations(), f"{shown} is not in the list of clues")
        near = next((other for other in state.words if too_close(word, other)), None)
        require_action(near is None, f"{shown} is too much like {near!r} on the board")
        require_action(False, f"{shown} fits none of your targets; choose from your list")
    return word


def _read_guesses(state: Board, seat: int, text: str) -> tuple[int, ...]:
    if text == PASS:
        return ()
    most = state.turns[-1].number
    listed = _GUESSES.fullmatch(text)
    words = _BETWEEN.split((listed.group(1) if listed else text).strip(" ,."))
    require_action(len(words) <= most, f"{len(words)} guesses are too many; give at most {most}")
    require_action(len(set(words)) == len(words), "a word stands twice among the guesses")
    allowed = {state.words[index]: index for index in open_words(state, seat)}
    for word in words:
        require_action(word in allowed, f"{word[:_SHOWN_CHARS]!r} is not open to guess")
    return tuple(allowed[word] for word in words)


def _guess(state: Board, guesses: tuple[int, ...]) -> Board:
    """Take guesses in their order until one finds nothing."""
    turn, key = state.turns[-1], state.keys[state.giver]
    verdicts = [_verdict(state, turn, guess) for guess in guesses]
    hits = next((n for n, verdict in enumerate(verdicts) if verdict != "found"), len(guesses))
    counted = guesses[: hits + 1]
    missed, guesser = list(state.missed), 1 - state.giver
    missed[guesser] |= {guesses[n] for n in range(len(counted)) if verdicts[n] == "neutral"}
    return state._replace(
        turns=(*state.turns[:-1], turn._replace(guesses=counted)),
        found=state.found | set(guesses[:hits]),
        missed=(missed[0], missed[1]),
        dead=any(key[guess] == DEADLY for guess in counted),
    )


def random_guesses(words: list[str], number: int, rng: np.random.Generator) -> str:
    """One or more of the open words, at most the clue's number."""
    count = int(rng.integers(1, min(number, len(words)) + 1))
    return ", ".join(words[index] for index in rng.choice(len(words), count, replace=False))
