"""Split clues: each seat holds some clues of one puzzle; they talk, then each hands in the solution.

Cooperative. The clues have one solution and none can be left out, so no seat alone, nor all but one
together, can be sure. Two rounds of messages at the same moment, then every seat hands in its grid,
again at the same moment. A message is too short for most clues as they stand, so players have to say
them in fewer words.

A seat's credit is the share of cells it has right above what guessing gets,
``(right - 1/people) / (1 - 1/people)``, not below 0; the outcome is the mean credit of the seats,
halved unless all grids are the same. Without that correction one fixed grid, handed in by all without
a word, earned a third.

The puzzles of the eval split have names and values of their own, and a structure (which houses the clues are
about, whatever the words) that no puzzle of train has.

Measured with the default options over 40 puzzles: three strong bots, which pass on the clues that fit as
they stand, 0.83; three middle ones 0.36; seats that do not talk 0.10 (their grids seldom agree); random
ones 0.05, the floor. Clues in fewer words would earn 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Split, Streams, require_action, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.teamwork.split_clues_puzzle import (
    HOUSE,
    HOUSE_NAME,
    KINDS_BY_DIFFICULTY,
    Clue,
    Puzzle,
    Solution,
    draw_puzzle,
    minimal_clues,
    sentence,
    structure,
)
from srl_envs.messages import clean_message, quoted
from srl_envs.rewards.strict_json import JsonFaultError, parse_json

ROUNDS = 2
MAX_GRID_CHARS = 1000
MESSAGE_CHARS = 70
"""By default: less than a seat's clues have, so that they are worth putting short."""
SILENCE = "-"
"""The message of a silent seat."""

_CHATTER = ("hello", "I", "do", "not", "know", "who", "lives", "where", "maybe", "you", "can")


class Table(NamedTuple):
    """Immutable state."""

    puzzle: Puzzle
    truth: Solution
    clues: tuple[tuple[str, ...], ...]
    """Clues of each seat."""
    messages: tuple[tuple[str, ...], ...] = ()
    """Messages per round and seat."""
    grids: tuple[Solution, ...] = ()
    """Grid of each seat, once handed in."""


def right_share(grid: Solution, truth: Solution) -> float:
    """Share of cells that are right."""
    right = sum([sum(map(eq, ours, true)) for ours, true in zip(grid, truth, strict=True)])
    return right / (len(truth) * len(truth[HOUSE]))


def credit(grid: Solution, truth: Solution) -> float:
    """Share of cells right above chance, in [0, 1]."""
    chance = 1 / len(truth[HOUSE])
    return max(0.0, (right_share(grid, truth) - chance) / (1 - chance))


@lru_cache(maxsize=16)
def outcome(grids: tuple[Solution, ...], truth: Solution) -> float:
    """The team's outcome in [0, 1]."""
    mean = sum(credit(grid, truth) for grid in grids) / len(grids)
    return mean if len(set(grids)) == 1 else mean / 2


def grid_text(puzzle: Puzzle, grid: Solution) -> str:
    """The grid as the JSON that is handed in."""
    people = []
    for person, name in enumerate(puzzle.people):
        cells = []
        for attribute, values, row in zip(puzzle.attributes, puzzle.values, grid, strict=True):
            value = values[row[person]]
            written = value if attribute == HOUSE_NAME else f'"{value}"'
            cells.append(f'"{attribute}": {written}')
        people.append(f'"{name}": {{{", ".join(cells)}}}')
    return f"{{{', '.join(people)}}}"


def listed_grid(puzzle: Puzzle) -> Solution:
    """The grid that follows the order of the lists."""
    return (tuple(range(len(puzzle.people))),) * len(puzzle.attributes)


def parse_grid(puzzle: Puzzle, body: str) -> Solution:
    """Read a grid.

    Raises:
        IllegalMoveError: no strict JSON, a person or attribute is missing or unknown, or a value is
            unknown or stands twice.
    """
    try:
        given = parse_json(body, max_chars=MAX_GRID_CHARS, max_depth=2)
    except JsonFaultError:
        raise IllegalMoveError("the grid is no strict JSON with one object per person") from None
    rows = _in_order(given, puzzle.people)
    if rows is None:
        raise IllegalMoveError(
            f"the grid must be a JSON object with exactly the names {', '.join(puzzle.people)}"
        )
    cells = []
    for name, row in zip(puzzle.people, rows, strict=True):
        of_person = _in_order(row, puzzle.attributes)
        if of_person is None:
            raise IllegalMoveError(f"{name} must have exactly {', '.join(puzzle.attributes)}")
        cells.append(of_person)
    grid = []
    for attribute, values, given_values in zip(
        puzzle.attributes, puzzle.values, zip(*cells, strict=True), strict=True
    ):
        found = [_place(value, values) for value in given_values]
        require_action(
            -1 not in found and len(set(found)) == len(values),
            f"each {attribute} must be one of {', '.join(values)}, and each used once",
        )
        grid.append(tuple(found))
    return tuple(grid)


def _in_order(given: object, names: tuple[str, ...]) -> list[Any] | None:
    """The values of an object that has exactly these names, in any case; else None."""
    if not isinstance(given, dict) or len(given) != len(names):
        return None
    found = [given[name] for name in names if name in given]
    if len(found) < len(names):
        lower = {name.strip().lower(): value for name, value in given.items()}
        found = [lower[name.lower()] for name in names if name.lower() in lower]
    return found if len(found) == len(names) else None


def _place(given: object, values: tuple[str, ...]) -> int:
    """Index of a value, in any case; -1 for what is none. House numbers may be written as numbers."""
    text = given if isinstance(given, str) else str(given)
    if text not in values:
        text = text.strip().lower()
    return values.index(text) if text in values else -1


class SplitClues(Game[Table, str | Solution]):
    """Observation: puzzle, own clues, messages so far. Action: a message, at last the grid as JSON.

    Args:
        players: seats, 2 to 4.
        people: people in the puzzle, 3 or 4.
        attributes: what each has, the house included, 2 or 3.
        difficulty: 1 (who has what), 2 (and who lives where) or 3 (hints only).
        message_chars: longest message, 40 to 400.

    Raises:
        ConfigError: a number is out of range.
    """

    mode = "cooperative"
    simultaneous = True
    max_turns = ROUNDS + 1
    max_action_chars = 1000
    max_observation_chars = 6144

    def __init__(
        self,
        *,
        players: int = 3,
        people: int = 3,
        attributes: int = 3,
        difficulty: int = 2,
        message_chars: int = MESSAGE_CHARS,
    ) -> None:
        for name, value, low, high in (
            ("players", players, 2, 4), ("people", people, 3, 4), ("attributes", attributes, 2, 3),
            ("difficulty", difficulty, 1, 3), ("message_chars", message_chars, 40, 400),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"split_clues: {name}={value!r}; give {low} to {high}.")
        self.seats = players
        self.people, self.attributes = people, attributes
        self.difficulty, self.message_chars = difficulty, message_chars
        rules = (
            f"Split clues: {players} players solve one puzzle together. Each holds other clues; only all "
            "clues together have one solution.\n"
            f"There are {ROUNDS} rounds of messages, which all write at the same time (at most "
            f"{message_chars} characters each). Then all hand in the whole solution at the same time.\n"
            "Payoff: the same for all, the mean share of cells that are right, 0 for what guessing gets "
            "and 1 for all; half of it if the solutions differ.\n"
            "Reply with a message, like this: <action>My clue: ...</action> or with none: "
            f"<action>{SILENCE}</action> At the end reply with everyone's values as JSON, like this: "
            '<action>{"Zoe": {"house": 2, "car": "red"}, "Yan": {"house": 1, "car": "blue"}}</action>\n\n'
        )
        self._rules = tuple(f"{rules}You are {seat_name(seat)}.\n" for seat in range(players))

    def new(self, streams: Streams) -> Table:
        """Draw a puzzle of the split and deal its clues round the table."""
        rng = streams.draws("instance")
        draw = partial(self._draw, rng, streams.split)
        puzzle, truth, chosen = streams.held(draw, lambda drawn: structure(drawn[1], drawn[2]))
        texts = [sentence(puzzle, chosen[i]) for i in rng.permutation(len(chosen))]
        start = streams.draws("seats").integers(self.seats)
        clues = tuple(
            tuple(texts[(seat + start) % self.seats :: self.seats]) for seat in range(self.seats)
        )
        return Table(puzzle, truth, clues)

    def _draw(self, rng: Draws, split: Split) -> tuple[Puzzle, Solution, list[Clue]]:
        """A puzzle with a clue for every seat at least."""
        kinds = KINDS_BY_DIFFICULTY[self.difficulty]
        while True:
            puzzle, truth = draw_puzzle(rng, self.people, self.attributes, split)
            chosen = minimal_clues(rng, truth, kinds)
            if len(chosen) >= self.seats:
                return puzzle, truth, chosen

    def to_move(self, state: Table) -> tuple[int, ...]:
        """All seats, until the grids are in."""
        return () if state.grids else tuple(range(self.seats))

    def observe(self, state: Table, seat: int) -> str:
        """Rules, puzzle, own clues, every message so far, and what is to do."""
        said = ""
        if state.messages:
            names = ["you" if s == seat else seat_name(s) for s in range(self.seats)]
            said = "".join(
                [
                    f"Round {number}, {name}: {quoted(message)}\n"
                    for number, messages in enumerate(state.messages, 1)
                    for name, message in zip(names, messages, strict=True)
                ]
            )
        return f"{self._rules[seat]}{_known(state.puzzle, state.clues[seat])}{said}{_status(state)}"

    def parse(self, state: Table, seat: int, body: str) -> str | Solution:
        """A cleaned message, cut at the limit; in the end the grid."""
        if len(state.messages) == ROUNDS:
            return parse_grid(state.puzzle, body)
        message = clean_message(body, self.message_chars)
        require_action(bool(message), f"the message is empty; to say nothing write {SILENCE}")
        return message

    def apply(self, state: Table, actions: Mapping[int, str | Solution]) -> Table:
        """All messages, or all grids, are shown together."""
        given = tuple(actions[seat] for seat in range(self.seats))
        if len(state.messages) == ROUNDS:
            return state._replace(grids=tuple(g for g in given if not isinstance(g, str)))
        said = tuple(message for message in given if isinstance(message, str))
        return state._replace(messages=(*state.messages, said))

    def returns(self, state: Table) -> tuple[float, ...] | None:
        """The team's outcome; see `outcome`."""
        if not state.grids:
            return None
        return (outcome(state.grids, state.truth),) * self.seats

    def fallback(self, state: Table, seat: int) -> str:
        """Silence, or the grid in the order of the lists."""
        if len(state.messages) == ROUNDS:
            return grid_text(state.puzzle, listed_grid(state.puzzle))
        return SILENCE

    def sample(self, state: Table, seat: int, rng: np.random.Generator) -> str:
        """A few random words, or a random grid."""
        if len(state.messages) < ROUNDS:
            return random_message(rng)
        return grid_text(state.puzzle, random_grid(state.puzzle, rng))

    def components(self, state: Table, seat: int) -> Mapping[str, float]:
        """``right``: share of the seat's cells that are right; ``agreed``: 1 where all grids agree."""
        if not state.grids:
            return {"right": 0.0, "agreed": 0.0}
        return {
            "right": right_share(state.grids[seat], state.truth),
            "agreed": float(len(set(state.grids)) == 1),
        }

    def swap_hidden(self, state: Table, seat: int, other: Table) -> Table:
        """The others' clues, and the solution."""
        clues = (*other.clues[:seat], state.clues[seat], *other.clues[seat + 1 :])
        return state._replace(clues=clues, truth=other.truth)

    def encode(self, state: Table) -> Any:
        """Lists, texts and numbers."""
        return [
            [list(state.puzzle.people), list(state.puzzle.attributes), _lists(state.puzzle.values)],
            _lists(state.truth),
            _lists(state.clues),
            _lists(state.messages),
            [_lists(grid) for grid in state.grids],
        ]

    def decode(self, data: Any) -> Table:
        """The inverse of `encode`."""
        (people, attributes, values), truth, clues, messages, grids = data
        return Table(
            Puzzle(tuple(people), tuple(attributes), _tuples(values)),
            _tuples(truth), _tuples(clues), _tuples(messages), tuple(_tuples(g) for g in grids),
        )  # fmt: skip


@lru_cache(maxsize=64)
def _known(puzzle: Puzzle, clues: tuple[str, ...]) -> str:
    """A seat's description of the puzzle."""
    rows = zip(puzzle.attributes, puzzle.values, strict=True)
    different = [f"Each person has a different {name}: {', '.join(row)}.\n" for name, row in rows]
    return (
        f"People: {', '.join(puzzle.people)}.\n{''.join(different)}Your clues: {' '.join(clues)}\n"
    )


def _status(state: Table) -> str:
    """The task of the present round, as a line of the observation."""
    if state.grids:
        return f"It is over. Score: {outcome(state.grids, state.truth):.3f}\n"
    said = len(state.messages)
    if said < ROUNDS:
        return f"Round {said + 1} of {ROUNDS}: write a message to the others.\n"
    return "Now hand in the solution as JSON.\n"


def random_message(rng: np.random.Generator) -> str:
    """A few words."""
    return " ".join(str(word) for word in rng.choice(_CHATTER, int(rng.integers(1, 8))))


def random_grid(puzzle: Puzzle, rng: np.random.Generator) -> Solution:
    """A random legal grid."""
    size = len(puzzle.people)
    return tuple(tuple(int(v) for v in rng.permutation(size)) for _ in puzzle.attributes)


def _lists(rows: tuple[tuple[Any, ...], ...]) -> list[list[Any]]:
    return [list(row) for row in rows]


def _tuples(rows: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in rows)
