"""Puzzles: one seat solves generated puzzles of the library `reasoning-gym`, one after the other.

Cooperative with itself: one seat, and the outcome is the share of puzzles that the library's own checker
pays in full. What it pays for parts of an answer is left out, because lists of guesses earn it; a recipe can
pay it with the reward kind `puzzle`. Needs the extra `puzzles`.

Words spelled backward, a lock of three buttons, shortest paths, kakurasu, graphs in three colors, and knights
and knaves. Left out is every kind of the library whose checker calls `eval` on an answer or refuses right
ones, or whose answer is a small number.

Each puzzle is held by itself: none of the eval split occurs in train, also in other words, under other names,
turned or reflected. Puzzles follow from their number and the library's release; a state keeps
only numbers.

Levels: 1 shows three answers, one of which is right; 2 asks the same puzzles openly; then larger ones, to 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Mode, Streams, require_action
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError, nearest
from srl_envs.families.reasoning.puzzle_kinds import (
    KINDS,
    STEPS,
    Puzzle,
    draw_puzzle,
    entry_of,
    guess,
    is_right,
    library,
    library_score,
    near_misses,
    one_line,
    parts_of,
    puzzle_key,
    right_answer,
    wrong_guess,
)

PUZZLES, LEVEL = 3, 3
"""Default options."""
LEVELS = STEPS + 1
"""The first asks the easiest puzzles with `CHOICES`."""
CHOICES = ("A", "B", "C")
PASS = "pass"


class Sheet(NamedTuple):
    """Immutable state: the puzzles of the episode, and answers so far as the checker reads them."""

    puzzles: tuple[Puzzle, ...]
    answers: tuple[str, ...] = ()


@lru_cache(maxsize=2048)
def choices_of(puzzle: Puzzle) -> tuple[str, ...]:
    """Three answers in random order, one of which is right."""
    draws = Draws(puzzle.number, 1)
    answers = [right_answer(puzzle), *near_misses(puzzle, len(CHOICES) - 1, draws)]
    return tuple(answers[k] for k in draws.permutation(len(CHOICES)))


@lru_cache(maxsize=2048)
def example_of(puzzle: Puzzle) -> str:
    """A wrong answer that shows the form."""
    return one_line(wrong_guess(puzzle, Draws(puzzle.number, 2)))


def read_answer(puzzle: Puzzle, body: str, *, asks_choice: bool) -> str:
    """An answer as the checker reads it, or "" for a pass.

    Raises:
        IllegalMoveError: the body has another form.
    """
    if body.strip().lower() == PASS:
        return ""
    if not asks_choice:
        return KINDS[puzzle.kind].read(body)
    letter = body.strip().upper()
    require_action(letter in CHOICES, f"write one letter: {', '.join(CHOICES)}")
    return choices_of(puzzle)[CHOICES.index(letter)]


def _checked(name: str, value: int, high: int) -> int:
    if type(value) is not int or not 1 <= value <= high:
        raise ConfigError(f"puzzles: {name}={value!r}; give a whole number from 1 to {high}.")
    return value


def _checked_kinds(kinds: Sequence[str] | None) -> tuple[str, ...]:
    chosen = tuple(KINDS) if kinds is None else kinds
    names = isinstance(chosen, (list, tuple)) and all(isinstance(name, str) for name in chosen)
    if not names or not chosen or len(set(chosen)) != len(chosen):
        raise ConfigError(
            f"puzzles: kinds={kinds!r}; give a list of different names out of {', '.join(KINDS)}."
        )
    for name in chosen:
        if name not in KINDS:
            raise ConfigError(
                f"puzzles: kinds: no {name!r}.{nearest(name, KINDS)} Known: {', '.join(KINDS)}."
            )
    return tuple(chosen)


class Puzzles(Game[Sheet, str]):
    """Observation: rules, what was right so far, the present puzzle. Action: its answer, or ``pass``.

    Fallback: a pass.

    Args:
        puzzles: per episode, 1 to 10.
        level: 1, with three answers to choose from, to 5.
        kinds: names out of `puzzle_kinds.KINDS`; all by default. An episode goes through them in random
            order, so that each appears before one appears twice.

    Raises:
        ConfigError: an option is out of range, or the library is not installed.
    """

    seats = 1
    mode: Mode = "cooperative"
    max_action_chars = 1024
    reference_names = ("puzzle",)

    def __init__(
        self, *, puzzles: int = PUZZLES, level: int = LEVEL, kinds: Sequence[str] | None = None
    ) -> None:
        self.max_turns = _checked("puzzles", puzzles, 10)
        self.level = _checked("level", level, LEVELS)
        self.kinds = _checked_kinds(kinds)
        library()
        several = f"{puzzles} puzzles, one after the other" if puzzles > 1 else "a puzzle"
        self._rules = (
            f"PUZZLES. You solve {several}; each has one try.\n"
            f"Payoff: right answers / {puzzles}.\n"
            "Reply with the answer in the form that the last line shows, or: "
            f"<action>{PASS}</action>\n\n"
        )

    @property
    def _asks_choice(self) -> bool:
        return self.level == 1

    def new(self, streams: Streams) -> Sheet:
        """Draw puzzles of the split, none twice."""
        draws = streams.draws("instance")
        order: list[str] = []
        while len(order) < self.max_turns:
            order += [self.kinds[k] for k in draws.permutation(len(self.kinds))]
        drawn: dict[tuple[str, str], Puzzle] = {}
        for kind in order[: self.max_turns]:
            puzzle = streams.held(partial(self._other, draws, kind, drawn), puzzle_key)
            drawn[puzzle_key(puzzle)] = puzzle
        return Sheet(tuple(drawn.values()))

    def _other(self, draws: Draws, kind: str, drawn: Mapping[tuple[str, str], Puzzle]) -> Puzzle:
        step = max(self.level - 2, 0)
        puzzle = draw_puzzle(draws, kind, step)
        while puzzle_key(puzzle) in drawn:
            puzzle = draw_puzzle(draws, kind, step)
        return puzzle

    def to_move(self, state: Sheet) -> tuple[int, ...]:
        """The seat, until every puzzle had its try."""
        return (0,) if len(state.answers) < len(state.puzzles) else ()

    def observe(self, state: Sheet, seat: int) -> str:
        """Rules, what was right so far, the present puzzle and the form of its answer."""
        lines = [
            f"Puzzle {number} ({puzzle.kind}): {_verdict(puzzle, answer)}."
            for number, (puzzle, answer) in enumerate(
                zip(state.puzzles, state.answers, strict=False), 1
            )
        ]
        if not self.to_move(state):
            return self._rules + "\n".join([*lines, "All puzzles are done."])
        number, puzzle = len(state.answers), state.puzzles[len(state.answers)]
        lines += [
            f"PUZZLE {number + 1} of {len(state.puzzles)} ({puzzle.kind}):",
            str(entry_of(puzzle)["question"]).strip(),
            "",
        ]
        if self._asks_choice:
            lines += [
                f"{letter}: {one_line(answer)}"
                for letter, answer in zip(CHOICES, choices_of(puzzle), strict=True)
            ]
            form = "One of these is right. Write its letter, like this: <action>A</action>"
        else:
            form = (
                f"Write {KINDS[puzzle.kind].how}, like this wrong answer: "
                f"<action>{example_of(puzzle)}</action>"
            )
        return self._rules + "\n".join([*lines, form])

    def parse(self, state: Sheet, seat: int, body: str) -> str:
        """An answer as the checker reads it, or "" for a pass."""
        return read_answer(state.puzzles[len(state.answers)], body, asks_choice=self._asks_choice)

    def apply(self, state: Sheet, actions: Mapping[int, str]) -> Sheet:
        """The next puzzle comes up."""
        return state._replace(answers=(*state.answers, actions[0]))

    def returns(self, state: Sheet) -> tuple[float, ...] | None:
        """The share of right answers, once all puzzles had their try."""
        return None if self.to_move(state) else (_solved(state) / len(state.puzzles),)

    def earned(self, state: Sheet) -> tuple[float, ...] | None:
        """Right answers so far, as a share of all puzzles."""
        return (_solved(state) / len(state.puzzles),)

    def legal(self, state: Sheet, seat: int) -> Sequence[str] | None:
        """The letters and a pass at level 1."""
        return (*CHOICES, PASS) if self._asks_choice else None

    def fallback(self, state: Sheet, seat: int) -> str:
        """A pass."""
        return PASS

    def sample(self, state: Sheet, seat: int, rng: np.random.Generator) -> str:
        """A guess that has the form of an answer."""
        if self._asks_choice:
            return CHOICES[rng.integers(len(CHOICES))]
        puzzle = state.puzzles[len(state.answers)]
        choices = parts_of(puzzle.kind, entry_of(puzzle)["question"])
        shape = wrong_guess(puzzle, Draws(puzzle.number, 2))
        return one_line(guess(puzzle.kind, shape, choices, lambda high: int(rng.integers(high))))

    def components(self, state: Sheet, seat: int) -> Mapping[str, float]:
        """``solved``: puzzles that were solved; ``partial``: mean score of the library's checkers, parts of
        answers included."""
        pairs = list(zip(state.puzzles, state.answers, strict=False))
        scores = [library_score(puzzle, answer) for puzzle, answer in pairs]
        return {"solved": float(_solved(state)), "partial": sum(scores) / max(len(scores), 1)}

    def references(self, state: Sheet, seat: int) -> Mapping[str, Any]:
        """``puzzle``: kind, step and number of the present one, and whether letters are asked."""
        if not self.to_move(state):
            return {}
        return {"puzzle": [*state.puzzles[len(state.answers)], self._asks_choice]}

    def swap_hidden(self, state: Sheet, seat: int, other: Sheet) -> Sheet:
        """The puzzles to come."""
        shown = len(state.answers) + 1
        return state._replace(puzzles=(*state.puzzles[:shown], *other.puzzles[shown:]))

    def encode(self, state: Sheet) -> Any:
        """Numbers of puzzles, and answers."""
        return {
            "puzzles": [list(puzzle) for puzzle in state.puzzles],
            "answers": list(state.answers),
        }

    def decode(self, data: Any) -> Sheet:
        """The inverse of `encode`."""
        return Sheet(tuple(Puzzle(*puzzle) for puzzle in data["puzzles"]), tuple(data["answers"]))


def _solved(state: Sheet) -> int:
    return sum(
        is_right(puzzle, answer)
        for puzzle, answer in zip(state.puzzles, state.answers, strict=False)
    )


def _verdict(puzzle: Puzzle, answer: str) -> str:
    return "right" if is_right(puzzle, answer) else "wrong" if answer else "passed"


def score_of_body(reference: Sequence[Any], body: str) -> float:
    """What the library's checker makes of the body of a move, from 0 to 1.

    Args:
        reference: the value of `Puzzles.references` where the move was due.
        body: as a seat wrote it; one that the game refuses scores 0.
    """
    kind, step, number, asks_choice = reference
    puzzle = Puzzle(kind, step, number)
    try:
        answer = read_answer(puzzle, body, asks_choice=asks_choice)
    except IllegalMoveError:
        return 0.0
    return library_score(puzzle, answer)
