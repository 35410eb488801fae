"""Pair programming: the navigator knows the task and may not code; the driver codes and knows nothing.

Cooperative, two seats in turn. The driver sees the line that its program starts with, the navigator's
messages and its own last program. The report on each program, with one test that it fails, goes to the
navigator alone.

Why it differs from its draft. The navigator may end the game with the program that stands: otherwise
a pair that is stuck pays for exchanges that it does not want. The test in the report is the shortest
that failed, not the first, since a long input does not fit a message. Messages are one line without
``<``, ``>`` and backticks, as everywhere in this suite, so comparisons are told in words. A message
holds less than half of most statements, so a program cannot be dictated, and a pair that passes the
statement on in parts pays for a second or third exchange.

Oracle 1: the task in one short message, and a driver that solves it. The pair of strong bots passes the
statement on in parts, and its driver guesses the task from the beginning: 0.96. Floor: what a program
that returns a constant passes by chance; a pair of random bots gets 0.01 on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.families.coding.judging import Judge
from srl_envs.families.coding.options import DIFFICULTY, HIDDEN_INPUTS, check_whole, task_source
from srl_envs.families.coding.submissions import fenced, read_program
from srl_envs.families.coding.task import Task
from srl_envs.families.coding.wording import LIMIT_RULE, how_to_send, quoted_program, task_block
from srl_envs.messages import clean_message, quoted
from srl_envs.sandbox import CodeExecutor

NAVIGATOR, DRIVER = 0, 1
DONE = "done"
"""Ends the game with the program that stands."""
SILENCE = "..."
EXCHANGE_COST = 0.1
"""Share of the pass rate that each exchange after the first costs."""
MESSAGE_CHARS = 120
"""By default: less than half of most statements, so that the navigator has to say it in fewer words."""
_CHATTER = ("sort", "the", "list", "count", "return", "input", "number", "string", "each", "first")

_TOGETHER = (
    "PAIR PROGRAMMING. Two players write one Python program together, in at most {} exchanges."
)
_PAID = (
    "Payoff: the same for both, the share of hidden tests that the last program passes, less a tenth "
    "of it for each exchange after the first."
)
NAVIGATOR_RULES = f"""{_TOGETHER}
You are the navigator: you know the task. Your partner, the driver, writes the program, and sees nothing
but the line "def {{}}:" and your messages. In each exchange you write one message, the driver
sends a program, and you are told how many hidden tests it passes and one that it fails.
A message has one line and at most {{}} characters; <, > and backticks are taken out of it.
It ends when a program passes all tests.
{_PAID}
Reply with a message, like this: <action>Return the sum of all numbers in data, a list.</action>
To leave it at the driver's last program: <action>{DONE}</action>"""
DRIVER_RULES = f"""{_TOGETHER}
You are the driver: you write the program. Your partner, the navigator, knows the task and sends you
one message per exchange; it does not see your program, but is told how many hidden tests it passes and
one that it fails. The program defines {{}} Printing does nothing.
{LIMIT_RULE}
{_PAID}
{{}}"""


@dataclass(frozen=True, slots=True)
class PairState:
    """One episode."""

    family: str
    parameters: str
    """JSON object: the variant of the family, or the id of the row."""
    examples: tuple[str, ...]
    """Tests that the navigator sees."""
    hidden: tuple[str, ...]
    """Hidden tests, which decide the payoff."""
    messages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Programs of the driver, one per message, or one less."""
    passed: tuple[int, ...] = ()
    """Hidden tests that each program passed."""
    failures: tuple[str, ...] = ()
    """One line per program on a test that it failed; "" where it failed none."""
    ended: bool = False
    """Whether the navigator ended the episode."""


def team_outcome(passed: int, tests: int, exchanges: int) -> float:
    """Share of tests that the last program passes, less a tenth of it per exchange after the first."""
    return passed / tests * (1.0 - EXCHANGE_COST * (exchanges - 1))


class PairProgramming(Game[PairState, str]):
    """Seat 0 navigates, seat 1 drives. Action: a message or ``done``; a program.

    Args:
        exchanges: at most, 1 to 5.
        message_chars: longest message, 100 to 600.
        difficulty: 1 to 5.
        families: names of problem families to draw from; None for all.
        hidden_inputs: tests, 5 to 60.
        tasks: ``"humaneval:PATH"`` or ``"mbpp:PATH"`` takes the rows of a file or a ``datasets``
            repository instead of generated tasks.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible, or a row is broken.
    """

    seats = 2
    mode = "cooperative"
    max_action_chars = 8192
    max_observation_chars = 8192

    def __init__(
        self,
        *,
        exchanges: int = 3,
        message_chars: int = MESSAGE_CHARS,
        difficulty: int = DIFFICULTY,
        families: Sequence[str] | None = None,
        hidden_inputs: int = HIDDEN_INPUTS,
        tasks: str | None = None,
        executor: CodeExecutor | None = None,
    ) -> None:
        check_whole("pair_programming", "exchanges", exchanges, 1, 5)
        check_whole("pair_programming", "message_chars", message_chars, 100, 600)
        self._tasks = task_source(
            "pair_programming",
            tasks=tasks,
            families=families,
            difficulty=difficulty,
            hidden_inputs=hidden_inputs,
        )
        self.exchanges, self.message_chars = exchanges, message_chars
        self.max_turns = 2 * exchanges
        self.reference_names = self._tasks.reference_names
        self.rows_to_train = self._tasks.rows_to_train
        self._judge = Judge(executor)

    def new(self, streams: Streams) -> PairState:
        """Draw the task."""
        (drawn,) = self._tasks.named(streams) or [self._tasks.draw(streams)]
        return PairState(**drawn._asdict())

    def to_move(self, state: PairState) -> tuple[int, ...]:
        """The navigator, then the driver, until all tests pass, or the exchanges are used up."""
        if len(state.messages) > len(state.programs):
            return (DRIVER,)
        solved = bool(state.passed) and state.passed[-1] == len(state.hidden)
        over = state.ended or solved or len(state.programs) == self.exchanges
        return () if over else (NAVIGATOR,)

    def observe(self, state: PairState, seat: int) -> str:
        """The navigator sees the task and the reports; the driver only messages and its program."""
        task = self._task(state)
        if seat == NAVIGATOR:
            return self._navigator_sees(state, task)
        return self._driver_sees(state, task)

    def _navigator_sees(self, state: PairState, task: Task) -> str:
        rules = NAVIGATOR_RULES.format(self.exchanges, task.signature, self.message_chars)
        shown = task_block(task, state.examples)
        lines = [f"{rules}\n\n{shown}\n\nYou are {seat_name(NAVIGATOR)}, the navigator."]
        for number, message in enumerate(state.messages, 1):
            lines.append(f"Exchange {number}, you: {quoted(message)}")
            if number <= len(state.passed):
                lines.append(f"Exchange {number}, result: {_report(state, number - 1)}")
        if self.to_move(state) == (NAVIGATOR,):
            number = len(state.messages) + 1
            lines.append(f"EXCHANGE {number} of {self.exchanges}. Write to the driver.")
        else:
            lines.append(self._waiting_or_over(state, "The driver writes."))
        return "\n".join(lines)

    def _driver_sees(self, state: PairState, task: Task) -> str:
        rules = DRIVER_RULES.format(self.exchanges, task.contract, how_to_send(task))
        lines = [f"{rules}\n\nYou are {seat_name(DRIVER)}, the driver."]
        lines += [f"Message {k}: {quoted(text)}" for k, text in enumerate(state.messages, 1)]
        if state.programs:
            lines.append(f"Your last program:\n{quoted_program(state.programs[-1])}")
        if self.to_move(state) == (DRIVER,):
            number = len(state.messages)
            lines.append(f"EXCHANGE {number} of {self.exchanges}. Write the program.")
        else:
            lines.append(self._waiting_or_over(state, "The navigator writes."))
        return "\n".join(lines)

    def _waiting_or_over(self, state: PairState, waiting: str) -> str:
        found = self.returns(state)
        return waiting if found is None else f"THE END. Both are paid {found[0]:.3f}."

    def parse(self, state: PairState, seat: int, body: str) -> str:
        """A cleaned message, cut at the limit, or ``done`` once there is a program; a program."""
        if seat == DRIVER:
            task = self._task(state)
            return read_program(body, task.function, task.signature)
        message = clean_message(body, self.message_chars)
        require_action(bool(message), f"the message is empty; to say nothing write {SILENCE}")
        return message

    def apply(self, state: PairState, actions: Mapping[int, str]) -> PairState:
        """Pass a message on, or try a program.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """
        if NAVIGATOR in actions:
            message = actions[NAVIGATOR]
            if state.programs and message.strip(" .").lower() == DONE:
                return replace(state, ended=True)
            return replace(state, messages=(*state.messages, message))
        return self._tried(state, actions[DRIVER])

    def _tried(self, state: PairState, program: str) -> PairState:
        task = self._task(state)
        verdicts = task.verdicts(self._judge, program, state.hidden)
        failed = [
            (test, verdict)
            for test, verdict in zip(state.hidden, verdicts, strict=True)
            if not verdict.passed
        ]
        shortest = min(failed, key=lambda pair: len(pair[0]), default=None)
        return replace(
            state,
            programs=(*state.programs, program),
            passed=(*state.passed, len(state.hidden) - len(failed)),
            failures=(*state.failures, task.failure(*shortest) if shortest else ""),
        )

    def returns(self, state: PairState) -> tuple[float, ...] | None:
        """The same for both; see `team_outcome`."""
        if self.to_move(state):
            return None
        paid = team_outcome(state.passed[-1], len(state.hidden), len(state.programs))
        return (paid, paid)

    def fallback(self, state: PairState, seat: int) -> str:
        """Silence, then ``done``; the last program, or one that is never right."""
        if seat == NAVIGATOR:
            return DONE if state.programs else SILENCE
        return state.programs[-1] if state.programs else self._task(state).empty_program

    def sample(self, state: PairState, seat: int, rng: np.random.Generator) -> str:
        """A few words; a program that returns a constant or its input."""
        if seat == NAVIGATOR:
            return random_message(rng)
        return self._task(state).sample_program(rng)

    def references(self, state: PairState, seat: int) -> Mapping[str, Any]:
        """The hidden tests, for the seat that writes the program."""
        if seat != DRIVER:
            return {}
        return self._task(state).references(state.hidden)

    def answered(self, body: str) -> str:
        """The program in a code fence."""
        return fenced(body)

    def components(self, state: PairState, seat: int) -> Mapping[str, float]:
        """Share of tests that the first and the last program pass, and exchanges used."""
        if not state.passed:
            return {"first_passed": 0.0, "last_passed": 0.0, "exchanges": 0.0}
        tests = len(state.hidden)
        return {
            "first_passed": state.passed[0] / tests,
            "last_passed": state.passed[-1] / tests,
            "exchanges": float(len(state.programs)),
        }

    def swap_hidden(self, state: PairState, seat: int, other: PairState) -> PairState:
        """Other hidden tests for the navigator; for the driver another task altogether."""
        if seat == NAVIGATOR:
            return replace(state, hidden=other.hidden)
        return replace(
            state,
            family=other.family,
            parameters=other.parameters,
            examples=other.examples,
            hidden=other.hidden,
            failures=tuple("elsewhere" for _ in state.failures),
        )

    def encode(self, state: PairState) -> Any:
        """Field name -> value; tuples become lists."""
        return {name: _listed(getattr(state, name)) for name in PairState.__slots__}

    def decode(self, data: Any) -> PairState:
        """The inverse of `encode`."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return PairState(**fields)

    def close(self) -> None:
        """End the sandbox, if one was started."""
        self._judge.close()

    def _task(self, state: PairState) -> Task:
        return self._tasks.task(state.family, state.parameters)


def random_message(rng: np.random.Generator) -> str:
    """A few words that mean nothing."""
    return " ".join(str(word) for word in rng.choice(_CHATTER, int(rng.integers(1, 8))))


def _report(state: PairState, number: int) -> str:
    share = f"{state.passed[number]} of {len(state.hidden)} tests passed."
    failure = state.failures[number]
    return f"{share} One that failed: {failure}" if failure else share


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
