"""Solve and verify: a solver answers, a verifier judges the answer, a corrector sends the final one.

Cooperative, three seats in turn, or one that takes all parts (`players=1`): as many replies of the same
length over the same texts, so a lone policy has the team's tokens. The problems are those of `math_duel`,
generated or rows of GSM8K or MATH, and answers are compared exactly by its matcher. The solver may show its
working and the verifier may add a note, both on one cleaned line; the corrector reads them and always sends
the answer that counts.

The outcome is the share of problems whose final answer is right. With shaped rewards it is 0.6 of that, and
0.2 each of the share of right first answers and of true verdicts, which is what each part is for
(arXiv:2511.11373 rewards its three agents so, each by its own term; `components` has the terms apart). A
verdict is paid only where the first or the final answer is right: otherwise a team that passes and truly says
"wrong" would be paid for nothing. Each problem is paid when it is done.

Each problem is held by itself: none of the eval split occurs in train.

Levels: `difficulty=1, problems=1` first, single digits; then up to 5, and rows of collections. A verdict is
one of two words, so a verifier's first reply can be right by chance.

Baselines: an exact solver in every seat 1, which is the strong team; middle teams, whose parts err three
times in ten, 0.84; random ones 0.01, and 0.05 at the first level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.errors import ConfigError
from srl_envs.families.reasoning.math_duel import MathDuel, Move, is_correct, parse_answer
from srl_envs.families.reasoning.math_problems import Problem
from srl_envs.messages import clean_message, quoted

SOLVER, VERIFIER, CORRECTOR = range(3)
PARTS = ("solver", "verifier", "corrector")
RIGHT, WRONG = "right", "wrong"
REWARDS = ("sparse", "shaped")
FINAL_SHARE, PART_SHARE = 0.6, 0.2
"""Of the outcome with shaped rewards: for final answers, and each for first answers and verdicts."""
PROBLEMS, DIFFICULTY, NOTE_CHARS = 3, 3, 200
"""Default options."""
DUE = ("Send your answer", "Send your verdict", "Send the final answer")
"""In a line of its own, by part."""
_AFTER = re.compile(r"[\s.,:!]+\Z")
"""What may stand behind an answer without belonging to it."""
_MOST_SHOWN = 200
"""Characters of a problem that is over."""


class Reply(NamedTuple):
    """What one part sends: an answer or a verdict, and a line of words."""

    said: str
    """A number as it was written, ``pass``, ``right`` or ``wrong``."""
    note: str = ""

    def __str__(self) -> str:
        return f"{self.said}, {quoted(self.note)}" if self.note else self.said


class Table(NamedTuple):
    """Immutable state."""

    problems: tuple[Problem, ...]
    replies: tuple[Reply, ...] = ()
    """Of all parts in turn, three per problem."""


def part_due(table: Table) -> int:
    """The part whose reply is next."""
    return len(table.replies) % 3


def answers(reply: Reply, problem: Problem) -> bool:
    """Whether a reply is the problem's answer."""
    return reply.said != "pass" and is_correct(Move(reply.said, 1), problem.answer)


def marks(table: Table) -> list[tuple[bool, bool, bool]]:
    """Per problem that is over: first answer right, verdict true, final answer right."""
    found = []
    for number in range(len(table.replies) // 3):
        first, verdict, final = table.replies[3 * number : 3 * number + 3]
        problem = table.problems[number]
        right = answers(first, problem)
        found.append((right, (verdict.said == RIGHT) == right, answers(final, problem)))
    return found


def read_reply(part: int, body: str, note_chars: int) -> Reply:
    """A part's reply; what stands after the first semicolon is its note.

    Raises:
        IllegalMoveError: it is not an answer, or not a verdict.
    """
    said, _, note = body.partition(";")
    note = clean_message(note, note_chars) if note_chars else ""
    if part != VERIFIER:
        said = _AFTER.sub("", said)
        return Reply(parse_answer(said).answer or "pass", note if part == SOLVER else "")
    verdict = said.strip(" \n\t.,:!'\"*").lower()
    require_action(
        verdict in (RIGHT, WRONG), f"begin with {RIGHT} or {WRONG}; a note may follow a semicolon"
    )
    return Reply(verdict, note)


class SolveAndVerify(Game[Table, Reply]):
    """Observation: the problem and what the parts before sent. Action: an answer, a verdict, an answer.

    Args:
        players: 3, or 1 that takes all parts.
        problems: per episode, 1 to 10.
        difficulty: 1 (single digits) to 5.
        families: names out of `math_problems.FAMILIES`; all by default.
        tasks: ``"gsm8k:PATH"`` or ``"math:PATH"`` instead of generated problems; see `MathDuel`.
        note_chars: longest working or note, 0 (none) to 400.
        reward: ``"sparse"`` or ``"shaped"``.

    Raises:
        ConfigError: an option is out of range, or a row is broken.
    """

    seats = 3
    mode = "cooperative"
    max_action_chars = 1000
    max_observation_chars = 12_288
    reference_names = ("answer",)

    def __init__(
        self,
        *,
        players: int = 3,
        problems: int = PROBLEMS,
        difficulty: int = DIFFICULTY,
        families: Sequence[str] | None = None,
        tasks: str | None = None,
        note_chars: int = NOTE_CHARS,
        reward: str = "sparse",
    ) -> None:
        if type(players) is not int or players not in (1, 3):
            raise ConfigError(f"solve_and_verify: players={players!r}; give 1 or 3.")
        if type(note_chars) is not int or not 0 <= note_chars <= 400:
            raise ConfigError(f"solve_and_verify: note_chars={note_chars!r}; give 0 to 400.")
        if not isinstance(reward, str) or reward not in REWARDS:
            raise ConfigError(
                f"solve_and_verify: reward={reward!r}; give one of {', '.join(REWARDS)}."
            )
        self._source = MathDuel(
            players=1, problems=problems, difficulty=difficulty, families=families, tasks=tasks
        )
        self.rows_to_train, self.rows_each = self._source.rows_to_train, self._source.rows_each
        self.seats, self.note_chars, self.reward = players, note_chars, reward
        self.problems = problems
        self.max_turns = 3 * problems
        self._rules = tuple(map(self._rules_of, range(players)))

    def new(self, streams: Streams) -> Table:
        """Draw the problems of the split, none twice."""
        return Table(self._source.new(streams).problems)

    def to_move(self, state: Table) -> tuple[int, ...]:
        """Solver, verifier and corrector, for each problem."""
        if len(state.replies) == 3 * len(state.problems):
            return ()
        return (part_due(state),) if self.seats > 1 else (0,)

    def observe(self, state: Table, seat: int) -> str:
        """Rules, past problems, the present one, what was sent on it, and what is due."""
        lines = [self._rules[seat]]
        done = len(state.replies) // 3
        for number, (_, _, right) in enumerate(marks(state)):
            problem, sent = state.problems[number], state.replies[3 * number : 3 * number + 3]
            text = (
                problem.text
                if len(problem.text) <= _MOST_SHOWN
                else f"{problem.text[:_MOST_SHOWN]}..."
            )
            lines.append(
                f"Past {number + 1}: {text} Answer: {problem.answer}. First answer {sent[0].said}, verdict "
                f"{sent[1].said}, final answer {sent[2].said} ({RIGHT if right else WRONG})."
            )
        paid = self.returns(state)
        if paid is not None:
            return "\n".join([*lines, f"It is over. Paid: {paid[0]:.3f}."])
        lines.append(f"Problem {done + 1} of {len(state.problems)}: {state.problems[done].text}")
        for part, reply in enumerate(state.replies[3 * done :]):
            lines.append(f"The {PARTS[part]} sent: {reply}")
        (on_move,) = self.to_move(state)
        due = DUE[part_due(state)] if seat == on_move else f"Wait for {seat_name(on_move)}"
        return "\n".join([*lines, f"{due}."])

    def parse(self, state: Table, seat: int, body: str) -> Reply:
        """See `read_reply`."""
        return read_reply(part_due(state), body, self.note_chars)

    def apply(self, state: Table, actions: Mapping[int, Reply]) -> Table:
        """The next part reads it."""
        (reply,) = actions.values()
        return state._replace(replies=(*state.replies, reply))

    def returns(self, state: Table) -> tuple[float, ...] | None:
        """The same for all; see the module."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Table) -> tuple[float, ...]:
        """What the problems so far have paid."""
        found = marks(state)
        paid = float(sum(final for _, _, final in found))
        if self.reward == "shaped":
            parts = sum(first + (verdict and (first or final)) for first, verdict, final in found)
            paid = FINAL_SHARE * paid + PART_SHARE * parts
        return (min(1.0, paid / len(state.problems)),) * self.seats

    def fallback(self, state: Table, seat: int) -> str:
        """A pass; the verdict right."""
        return RIGHT if part_due(state) == VERIFIER else "pass"

    def sample(self, state: Table, seat: int, rng: np.random.Generator) -> str:
        """A small number, or a verdict."""
        return random_reply(part_due(state), rng)

    def references(self, state: Table, seat: int) -> Mapping[str, Any]:
        """The answer of the present problem, for the seat that is to answer it."""
        if seat not in self.to_move(state) or part_due(state) == VERIFIER:
            return {}
        return {"answer": state.problems[len(state.replies) // 3].answer}

    def answered(self, body: str) -> str:
        """The answer without the working; empty for a pass."""
        said = body.partition(";")[0].strip()
        return "" if said.lower() == "pass" else said

    def components(self, state: Table, seat: int) -> Mapping[str, float]:
        """Shares of right first answers, of true verdicts and of right final answers."""
        found = marks(state) or [(False, False, False)]
        shares = [sum(column) / len(found) for column in zip(*found, strict=True)]
        return dict(zip(("first_right", "verdict_true", "final_right"), shares, strict=True))

    def swap_hidden(self, state: Table, seat: int, other: Table) -> Table:
        """The answer of the present problem, and the problems to come."""
        number = len(state.replies) // 3
        present = state.problems[number]._replace(answer=other.problems[number].answer)
        return state._replace(
            problems=(*state.problems[:number], present, *other.problems[number + 1 :])
        )

    def encode(self, state: Table) -> Any:
        """Problems and replies as lists."""
        return [list(map(list, state.problems)), list(map(list, state.replies))]

    def decode(self, data: Any) -> Table:
        """The inverse of `encode`."""
        problems, replies = data
        return Table(tuple(Problem(*p) for p in problems), tuple(Reply(*r) for r in replies))

    def _rules_of(self, seat: int) -> str:
        several = "1 problem" if self.problems == 1 else f"{self.problems} problems"
        forms = reply_forms(self.note_chars)
        pays = "share of problems whose final answer is right"
        if self.reward == "shaped":
            pays = (
                f"{FINAL_SHARE} * ({pays}) + {PART_SHARE} * (share of right first answers) + {PART_SHARE} "
                "* (share of true verdicts, where the first or the final answer is right)"
            )
        if self.seats == 1:
            replies = "".join(
                f"Reply with {form} when you are the {part}.\n"
                for form, part in zip(forms, PARTS, strict=True)
            )
            return (
                f"Solve and verify: you answer {several}, in three replies each. As solver you send an "
                "answer; as verifier you send whether it is right; as corrector you send the final answer, "
                f"which counts.\nPayoff: {pays}.\n{replies}"
            )
        return (
            f"Solve and verify: three players answer {several} together. For each, player_0, the solver, "
            "sends an answer; player_1, the verifier, sends whether it is right; player_2, the corrector, "
            f"sends the final answer, which counts.\nPayoff: the same for all: {pays}.\n"
            f"You are {seat_name(seat)}, the {PARTS[seat]}.\nReply with {forms[seat]}\n"
        )


def reply_forms(note_chars: int) -> tuple[str, str, str]:
    """What each part replies, with examples.

    Args:
        note_chars: longest working or note; 0 for none.
    """
    final = "one number, like this: <action>42</action> or pass: <action>pass</action>"
    if not note_chars:
        verdict = "right or wrong, like this: <action>right</action> or <action>wrong</action>"
        return final, verdict, final
    most = f"of at most {note_chars} characters, like this:"
    return (
        f"one number and, after a semicolon, its working {most} <action>42; 6 * 7 = 42</action> or pass: "
        "<action>pass</action>",
        f"right or wrong and, after a semicolon, a note {most} <action>right</action> or "
        "<action>wrong; 6 * 7 is 42</action>",
        final,
    )


def random_reply(part: int, rng: np.random.Generator) -> str:
    """A legal reply of a part, without a thought."""
    if part == VERIFIER:
        return (RIGHT, WRONG)[int(rng.integers(2))]
    return "pass" if rng.random() < 0.1 else str(rng.integers(0, 20))
