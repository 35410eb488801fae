"""Math duel: two seats answer the same problems at the same moment and stake points on it.

Competitive, simultaneous, zero-sum. A right answer wins its stake, a wrong one loses it, a pass
scores 0, and the only seat that is right gains one point more. Each problem is held by itself: none of the
eval split occurs in train, in whatever order and with whatever signs its numbers stand.

With one player it is a task: nothing is staked, and the payoff is the share of right answers, from -1 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Mode, Streams, require_action, seat_name
from srl_envs.errors import ConfigError, IllegalMoveError, nearest
from srl_envs.families.reasoning.math_problems import (
    FAMILIES,
    Problem,
    Rng,
    draw_problem,
    problem_key,
)
from srl_envs.families.reasoning.word_problems import READERS, WordProblem
from srl_envs.reading.task_rows import TaskReport, check_collection, fingerprint, read_source
from srl_envs.rewards.matcher.answers import AnswerMatcher
from srl_envs.rewards.matcher.notation.number import plain_characters, read_number
from srl_envs.rewards.matcher.policy import AnswerPolicy
from srl_envs.turns.grammar import bare_forms

MAX_STAKE = 3
MAX_PROBLEMS = 10
MAX_ANSWER_CHARS = 24
STEAL_BONUS = 1
LARGEST_GAP = MAX_STAKE + STEAL_BONUS + MAX_STAKE
"""Points between the seats after one problem: one wins 3 + 1, the other loses 3."""
MAX_PAST_CHARS = 200
"""Most characters of a past problem's text, so that ten long ones fit a prompt."""
_DIFFICULTY = 3

_HOW = f"Write your answer, a semicolon and a stake from 1 to {MAX_STAKE}, like 42; 1 (or: pass)."
_STAKES = tuple(str(points) for points in range(1, MAX_STAKE + 1))
_MOVE = re.compile(
    r"(?:(?:my |the )?answer\b|x(?= ?=))? ?(?:is\b|:|=)? ?([^;]*?)"
    r"(?: ?; ?(?:stake\b)?|,? (?:with )?(?:a )?stake\b) ?(?:of\b|is\b|:|=)? ?([^;]*?)(?: points?)?",
    re.IGNORECASE,
)
"""``42; 1``, also with words that change nothing: ``answer: 42; stake: 1``, ``x = 42, stake 1``."""
_SCORE = re.compile(
    r"^Score: you (-?\d+), opponent (-?\d+)\.\nProblem \d+ of (\d+): ", re.MULTILINE
)
_MATCHER = AnswerMatcher(AnswerPolicy(rounded_digits=None))


class Move(NamedTuple):
    """What a seat does with one problem; a pass has no answer and stakes 0."""

    answer: str | None
    """The answer, a number as the seat wrote it."""
    stake: int

    def __str__(self) -> str:
        return "pass" if self.answer is None else f"{self.answer}; {self.stake}"


PASS = Move(None, 0)


class Duel(NamedTuple):
    """Immutable state: the problems of the episode and what both seats did so far."""

    problems: tuple[Problem, ...]
    rounds: tuple[tuple[Move, ...], ...] = ()
    """Moves of each round, one per seat."""


@lru_cache(maxsize=4096)
def is_correct(move: Move, answer: str) -> bool:
    """Whether ``move`` answers, and with the number ``answer``."""
    return move.answer is not None and _MATCHER.compare(move.answer, answer=answer).value == 1.0


@lru_cache(maxsize=4096)
def round_points(moves: tuple[Move, ...], answer: str) -> tuple[int, int]:
    """Points that the two seats gain on one problem."""
    right = [is_correct(move, answer) for move in moves]
    bonus = STEAL_BONUS if right[0] != right[1] else 0
    first, second = (
        move.stake + bonus if ok else -move.stake for move, ok in zip(moves, right, strict=True)
    )
    return first, second


def scores(duel: Duel) -> tuple[int, int]:
    """Points of both seats so far."""
    gains = [
        round_points(moves, problem.answer)
        for moves, problem in zip(duel.rounds, duel.problems, strict=False)
    ]
    return sum(first for first, _ in gains), sum(second for _, second in gains)


def lead(text: str, seat: int) -> float:  # noqa: ARG001 - potentials get the seat
    """What a seat's outcome would be if the duel ended with the score in ``text``.

    A potential for credit turn by turn: a turn's return is then what its own problem and later ones
    gain. 0 where the text holds no score and number of problems.
    """
    score = _SCORE.search(text)
    return (int(score[1]) - int(score[2])) / (LARGEST_GAP * int(score[3])) if score else 0.0


def parse_move(body: str) -> Move:
    """Read ``answer; stake`` or ``pass``; marks around the answer and words such as ``stake`` may stand.

    Raises:
        IllegalMoveError: anything else; an answer must be a written number, so that restating the
            problem (``7 * 8``) is none.
    """
    text = " ".join(plain_characters(body).split())
    if text.lower() == "pass":
        return PASS
    answer, _, stake = map(str.strip, text.partition(";"))
    if stake not in _STAKES or not _is_answer(answer):  # not in its shortest form
        found = _MOVE.fullmatch(text)
        if found is None:
            raise IllegalMoveError(f"There is no semicolon, or more than one. {_HOW}")
        answer, stake = found.groups()
        require_action(stake in _STAKES, f"The stake must be 1 to {MAX_STAKE}. {_HOW}")
        numbers = filter(_is_answer, (answer, *bare_forms(answer)))
        answer = next(numbers, "")
        require_action(
            bool(answer), f"The answer must be one number such as 42, -3, 0.5 or 7/2. {_HOW}"
        )
    return Move(answer, int(stake))


def parse_answer(body: str) -> Move:
    """Read a single player's reply: an answer, which stakes 1, or ``pass``; a stake is ignored.

    Raises:
        IllegalMoveError: anything else.
    """
    for text in (f"{body}; 1", body):
        try:
            move = parse_move(text)
        except IllegalMoveError:
            continue
        return move if move == PASS else move._replace(stake=1)
    raise IllegalMoveError("Write one number such as 42, -3, 0.5 or 7/2 (or: pass).")


def right_share(duel: Duel, seat: int) -> float:
    """Share of the problems so far that a seat answered right; 0 before the first."""
    right = [
        is_correct(moves[seat], problem.answer)
        for moves, problem in zip(duel.rounds, duel.problems, strict=False)
    ]
    return sum(right) / max(len(right), 1)


def _is_answer(text: str) -> bool:
    return len(text) <= MAX_ANSWER_CHARS and read_number(text) is not None


def check_source(source: str) -> TaskReport[WordProblem]:
    """The rows of ``gsm8k:PATH`` or ``math:PATH``; checked once in a process for one content of the file.

    Raises:
        ConfigError: the collection cannot be read, or a row is not of the format.
    """
    name, path = read_source(source, READERS)
    return _checked_source(source, name, path, fingerprint(path))


@lru_cache(maxsize=8)
def _checked_source(source: str, name: str, path: str, _content: str) -> TaskReport[WordProblem]:
    return check_collection(source, path, READERS[name], _fault)


def _fault(row: WordProblem) -> str:
    """Why a seat that writes the row's own answer would not be paid for it; "" where it would."""
    try:
        move = parse_move(f"{row.reference}; {MAX_STAKE}")
    except IllegalMoveError as error:
        return f"no seat may write the answer {row.reference[:40]!r}: {error}"
    if not is_correct(move, row.problem.answer):
        return f"the matcher does not take {row.reference!r} for {row.problem.answer!r}"
    return ""


def _plural(problems: int) -> str:
    return "problem" if problems == 1 else f"{problems} problems"


def _checked(name: str, value: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise ConfigError(f"{name}={value!r}: use a whole number from 1 to {high}.")
    return value


def _checked_families(families: Sequence[str] | None) -> tuple[str, ...]:
    chosen = tuple(FAMILIES) if families is None else families
    names = isinstance(chosen, (list, tuple)) and all(isinstance(name, str) for name in chosen)
    if not names or not chosen or len(set(chosen)) != len(chosen):
        raise ConfigError(
            f"math_duel: families={families!r}; give a list of distinct names out of "
            f"{', '.join(FAMILIES)}."
        )
    for name in chosen:
        if name not in FAMILIES:
            hint = nearest(name, FAMILIES)
            raise ConfigError(
                f"math_duel: families: no {name!r}.{hint} Known: {', '.join(FAMILIES)}."
            )
    return tuple(chosen)


class MathDuel(Game[Duel, Move]):
    """Observation: rules, past problems, score, present problem. Action: ``answer; stake``.

    Args:
        problems: problems per episode, 1 to 10.
        players: 2, or 1 without an opponent.
        difficulty: 1 (single digits) to 5.
        families: names out of `math_problems.FAMILIES`; all by default. An episode goes through
            them in random order, so that each appears before one appears twice.
        tasks: ``"gsm8k:PATH"`` or ``"math:PATH"`` asks the rows of a file or a ``datasets`` repository
            instead, an episode no row twice; `task_report` holds those that cannot be played.

    Raises:
        ConfigError: an option is out of range, or a row is broken.
    """

    seats = 2
    mode: Mode = "competitive"
    simultaneous = True
    max_action_chars = 100
    reference_names = ("answer",)

    def __init__(
        self,
        *,
        problems: int = 5,
        players: int = 2,
        difficulty: int = _DIFFICULTY,
        families: Sequence[str] | None = None,
        tasks: str | None = None,
    ) -> None:
        self.max_turns = _checked("problems", problems, MAX_PROBLEMS)
        self.seats = _checked("players", players, 2)
        self.mode = "competitive" if players > 1 else "mixed"  # one player: a forfeit pays -1
        self.difficulty = _checked("difficulty", difficulty, 5)
        self.families = _checked_families(families)
        self.task_report: TaskReport[WordProblem] | None = None
        if tasks is not None:
            if families is not None or difficulty != _DIFFICULTY:
                raise ConfigError(
                    "difficulty and families choose generated problems; leave them out with tasks."
                )
            self.task_report = check_source(tasks)
            self.task_report.require(problems, f"problems={problems}")
            self.task_report.warn(stacklevel=2)
            self.rows_to_train = len(self.task_report.splits["train"])
            self.rows_each = problems
        rules = (
            f"Math duel: you and an opponent answer the same {_plural(problems)} at the same time.\n"
            "Right: you gain your stake, and 1 more if the opponent is not right. "
            "Wrong: you lose it. Pass: 0 points.\n"
            f"Payoff: (your points - the opponent's) / {LARGEST_GAP * problems}.\n"
            f"Reply with your answer, a semicolon and a stake from 1 to {MAX_STAKE}, like this: "
            "<action>42; 1</action> or pass: <action>pass</action>\n\n"
        )
        single = (
            f"Math task: you answer {_plural(problems)}.\n"
            "Payoff: 2 * (your share of right answers) - 1.\n"
            "Reply with your answer, one number, like this: <action>42</action> "
            "or pass: <action>pass</action>\n\n"
        )
        both = tuple(f"{rules}You are {seat_name(seat)}.\n" for seat in range(2))
        self._rules = both if players > 1 else (single,)

    def new(self, streams: Streams) -> Duel:
        """Draw the problems of the split, none twice: families in random order, or rows."""
        if self.task_report is not None:
            rows = self.task_report.splits[streams.split]
            named = streams.rows(len(rows), self.max_turns)
            chosen = named or streams.instance.permutation(len(rows))[: self.max_turns]
            return Duel(tuple(rows[int(k)].problem for k in chosen))
        rng = streams.draws("instance")
        order: list[str] = []
        while len(order) < self.max_turns:
            order += [self.families[i] for i in rng.permutation(len(self.families))]
        problems: dict[str, Problem] = {}
        for family in order[: self.max_turns]:
            draw = partial(self._draw_other, rng, family, problems)
            problem = streams.held(draw, lambda drawn: problem_key(drawn.text))
            problems[problem.text] = problem
        return Duel(tuple(problems.values()))

    def _draw_other(self, rng: Rng, family: str, drawn: Mapping[str, Problem]) -> Problem:
        problem = draw_problem(rng, family, self.difficulty)
        while problem.text in drawn:
            problem = draw_problem(rng, family, self.difficulty)
        return problem

    def to_move(self, state: Duel) -> tuple[int, ...]:
        """All seats until every problem was played."""
        return tuple(range(self.seats)) if len(state.rounds) < len(state.problems) else ()

    def observe(self, state: Duel, seat: int) -> str:
        """Rules, what both did on past problems, the score, and the present problem."""
        lines = [
            (_past if self.seats > 1 else _past_alone)(number, problem, moves, seat)
            for number, (problem, moves) in enumerate(
                zip(state.problems, state.rounds, strict=False), 1
            )
        ]
        if self.seats > 1:
            points = scores(state)
            lines.append(f"Score: you {points[seat]}, opponent {points[1 - seat]}.")
        if self.to_move(state):
            played, total = len(state.rounds), len(state.problems)
            lines.append(f"Problem {played + 1} of {total}: {state.problems[played].text}")
        else:
            lines.append("The duel is over." if self.seats > 1 else "The task is over.")
        return self._rules[seat] + "\n".join(lines)

    def parse(self, state: Duel, seat: int, body: str) -> Move:
        """Read ``answer; stake`` or ``pass``; see `parse_move`, and for one player `parse_answer`."""
        return parse_move(body) if self.seats > 1 else parse_answer(body)

    def apply(self, state: Duel, actions: Mapping[int, Move]) -> Duel:
        """All moves are revealed together and the next problem comes up."""
        moves = tuple(actions[seat] for seat in range(self.seats))
        return state._replace(rounds=(*state.rounds, moves))

    def returns(self, state: Duel) -> tuple[float, ...] | None:
        """The difference of the points as a share of the largest possible one; alone, the share of right
        answers from -1 to 1."""
        if self.to_move(state):
            return None
        if self.seats == 1:
            return (2 * right_share(state, 0) - 1,)
        first, second = scores(state)
        outcome = (first - second) / (LARGEST_GAP * len(state.problems))
        return outcome, 0.0 - outcome

    def fallback(self, state: Duel, seat: int) -> str:
        """A pass."""
        return "pass"

    def sample(self, state: Duel, seat: int, rng: np.random.Generator) -> str:
        """A pass one time in ten, else a small number with any stake."""
        body = random_body(rng)
        return body if self.seats > 1 else body.partition(";")[0]

    def references(self, state: Duel, seat: int) -> Mapping[str, Any]:
        """The answer of the present problem."""
        if not self.to_move(state):
            return {}
        return {"answer": state.problems[len(state.rounds)].answer}

    def answered(self, body: str) -> str:
        """The answer without the stake; empty for a pass."""
        return (parse_move(body) if self.seats > 1 else parse_answer(body)).answer or ""

    def swap_hidden(self, state: Duel, seat: int, other: Duel) -> Duel:
        """The answer of the present problem, and the problems to come."""
        number = len(state.rounds)
        present = state.problems[number]._replace(answer=other.problems[number].answer)
        return state._replace(
            problems=(*state.problems[:number], present, *other.problems[number + 1 :])
        )

    def encode(self, state: Duel) -> Any:
        """Problems and rounds as lists."""
        return {
            "problems": [list(problem) for problem in state.problems],
            "rounds": [[list(move) for move in moves] for moves in state.rounds],
        }

    def decode(self, data: Any) -> Duel:
        """The inverse of `encode`."""
        return Duel(
            tuple(Problem(*problem) for problem in data["problems"]),
            tuple(tuple(Move(*move) for move in moves) for moves in data["rounds"]),
        )

    def components(self, state: Duel, seat: int) -> Mapping[str, float]:
        """Share of problems answered right, share passed, and mean stake per problem."""
        moves = [moves[seat] for moves in state.rounds]
        total = max(len(moves), 1)
        return {
            "correct": right_share(state, seat),
            "passed": sum(move == PASS for move in moves) / total,
            "staked": sum(move.stake for move in moves) / total,
        }


@lru_cache(maxsize=1024)
def _past(number: int, problem: Problem, moves: tuple[Move, ...], seat: int) -> str:
    """What both seats did on a problem, as one of them reads it."""
    points = round_points(moves, problem.answer)
    text = _shortened(problem.text)
    return (
        f"Past {number}: {text} Answer: {problem.answer}. "
        f"You: {moves[seat]} ({points[seat]:+d}). "
        f"Opponent: {moves[1 - seat]} ({points[1 - seat]:+d})."
    )


@lru_cache(maxsize=1024)
def _past_alone(number: int, problem: Problem, moves: tuple[Move, ...], seat: int) -> str:
    """Line of the history about the single seat's move on a problem."""
    move = moves[seat]
    said = "right" if is_correct(move, problem.answer) else "wrong"
    text = _shortened(problem.text)
    return f"Past {number}: {text} Answer: {problem.answer}. You: {move.answer or 'pass'} ({said})."


def _shortened(text: str) -> str:
    return f"{text[:MAX_PAST_CHARS]}..." if len(text) > MAX_PAST_CHARS else text


def random_body(rng: np.random.Generator) -> str:
    """A random legal action body."""
    if rng.random() < 0.1:
        return "pass"
    answer = str(rng.integers(0, 20))
    if rng.random() < 0.1:
        answer += f"/{rng.integers(2, 10)}"
    return f"{answer}; {rng.integers(1, MAX_STAKE + 1)}"
