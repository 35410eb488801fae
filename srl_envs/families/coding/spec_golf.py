"""Spec golf: two seats solve the same task, and the smaller of two right programs wins the round.

Competitive, simultaneous, three rounds. A program that fails one hidden test is worth nothing, so
constants copied from the examples lose to any right program.

Why it differs from a plain reading of its draft. Each round has another task: with one task for all
rounds, the second round would be a copy of the first. Size is counted in nodes of the syntax tree. What
is free (layout, comments, chosen names) is replaced before a program runs, so it carries nothing. Texts
and numbers cost their bytes, and what runs text as code is not available: ``exec("...")`` would make
every program small, and long constants would be free tables. See docs/design/golf.md.

Floor: thoughtless programs are never valid, so two of them draw. Oracle: the smaller of the two
programs that we have of each task; a better golfer can beat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.families.coding.golf.form import names_bound, one_form
from srl_envs.families.coding.golf.names import MODULES
from srl_envs.families.coding.golf.size import FLOAT_BYTES, program_size
from srl_envs.families.coding.judging import Judge
from srl_envs.families.coding.options import DIFFICULTY, HIDDEN_INPUTS, check_whole, task_source
from srl_envs.families.coding.submissions import fenced, read_program
from srl_envs.families.coding.task import Instance, Task
from srl_envs.families.coding.wording import LIMIT_RULE, how_to_send, task_block
from srl_envs.sandbox import CodeExecutor

RULES = """SPEC GOLF. In each of {rounds} rounds you and another player write a small Python program for the
same task, at the same time. It defines {contract} Printing does nothing.
A program is right if it passes every hidden test. A right program beats a wrong one; of two right ones
the smaller wins the round. Equal sizes, or two wrong programs, are a draw.
Size is the number of nodes of Python's syntax tree, Load, Store and Del not counted. Layout, comments and
the names you choose are free: names are replaced before the program runs. A text (a docstring too) or a
whole number costs 1 for each byte, any other number {float_bytes}; each name after global or in a class \
pattern 1. An argument
passed by name costs 1 more for each byte of the name, unless the name is Python's own, such as key.
Allowed: Python's usual functions and methods, special methods such as __lt__, and imports from {modules}.
Not there: eval, exec, compile, open, getattr, type, namedtuple and whatever else runs text or finds names
by text."""
_PAYOFF = "Payoff: (rounds you win - rounds you lose) / {rounds}."

_TRIES = 12
"""Draws to find a task unlike those before it."""


class Attempt(NamedTuple):
    """Verdict and size of a program."""

    size: int
    right: bool
    """Whether it passed every hidden test."""


class GolfState(NamedTuple):
    """Immutable state."""

    tasks: tuple[Instance, ...]
    """Tasks, one per round."""
    attempts: tuple[tuple[Attempt, Attempt], ...] = ()
    """Per round that was played, of both seats."""


def round_winner(attempts: tuple[Attempt, Attempt]) -> int | None:
    """The seat that wins a round; None for a draw."""
    first, second = (attempt.size if attempt.right else None for attempt in attempts)
    if first == second:
        return None
    if first is None or second is None:
        return 1 if first is None else 0
    return 0 if first < second else 1


class SpecGolf(Game[GolfState, str]):
    """Observation: rules, past rounds, task. Action: a program.

    Args:
        rounds: 1 to 5, each with another task.
        difficulty: 1 to 5.
        families: names of problem families to draw from; None for all.
        hidden_inputs: tests per program, 5 to 60.
        tasks: ``"humaneval:PATH"`` or ``"mbpp:PATH"`` takes the rows of a file or a ``datasets``
            repository instead of generated tasks.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible, or a row is broken.
    """

    seats = 2
    mode = "competitive"
    simultaneous = True
    max_action_chars = 8192
    max_observation_chars = 8192

    def __init__(
        self,
        *,
        rounds: int = 3,
        difficulty: int = DIFFICULTY,
        families: Sequence[str] | None = None,
        hidden_inputs: int = HIDDEN_INPUTS,
        tasks: str | None = None,
        executor: CodeExecutor | None = None,
    ) -> None:
        check_whole("spec_golf", "rounds", rounds, 1, 5)
        self._tasks = task_source(
            "spec_golf",
            tasks=tasks,
            families=families,
            difficulty=difficulty,
            hidden_inputs=hidden_inputs,
            each=rounds,
        )
        self.max_turns = self.rows_each = rounds
        self.rows_to_train = self._tasks.rows_to_train
        self.reference_names = self._tasks.reference_names
        self._judge = Judge(executor)

    def new(self, streams: Streams) -> GolfState:
        """Draw one task per round: of different families, or at least different, where there are such."""
        drawn = self._tasks.named(streams)
        while len(drawn) < self.max_turns:
            drawn.append(self._draw_other(streams, drawn))
        return GolfState(tuple(drawn))

    def _draw_other(self, streams: Streams, drawn: Sequence[Instance]) -> Instance:
        families = {task.family for task in drawn}
        variants = {(task.family, task.parameters) for task in drawn}
        spare: list[Instance] = []
        for _ in range(_TRIES):
            task = self._tasks.draw(streams)
            if task.family not in families:
                return task
            if (task.family, task.parameters) not in variants or not spare:
                spare.append(task)
        return spare[-1]

    def to_move(self, state: GolfState) -> tuple[int, ...]:
        """Both seats until every round was played."""
        return (0, 1) if len(state.attempts) < len(state.tasks) else ()

    def observe(self, state: GolfState, seat: int) -> str:
        """Rules, results of past rounds, and the present task."""
        number = len(state.attempts)
        task = self._task(state)
        rules = RULES.format(
            rounds=self.max_turns,
            contract=task.contract,
            float_bytes=FLOAT_BYTES,
            modules=", ".join(MODULES),
        )
        payoff = _PAYOFF.format(rounds=self.max_turns)
        past = "".join(f"{self._past(state, seat, k)}\n" for k in range(number))
        known = (
            f"{rules}\n{LIMIT_RULE}\n{payoff}\n{how_to_send(task)}\n\n"
            f"You are {seat_name(seat)}.\n{past}"
        )
        if not self.to_move(state):
            return f"{known}THE END."
        shown = task_block(task, state.tasks[number].examples)
        return f"{known}ROUND {number + 1} of {self.max_turns}\n{shown}"

    @staticmethod
    def _past(state: GolfState, seat: int, number: int) -> str:
        attempts = state.attempts[number]
        mine, theirs = (
            f"{'right' if attempt.right else 'wrong'}, size {attempt.size}"
            for attempt in (attempts[seat], attempts[1 - seat])
        )
        winner = round_winner(attempts)
        result = "a draw" if winner is None else "you won" if winner == seat else "you lost"
        return f"Round {number + 1}: you {mine}; {seat_name(1 - seat)} {theirs}: {result}."

    def parse(self, state: GolfState, seat: int, body: str) -> str:
        """A program in its one form, which is what runs."""
        task = self._task(state)
        program = read_program(body, task.function, task.signature)
        return one_form(program, names_bound(task.given_code))

    def apply(self, state: GolfState, actions: Mapping[int, str]) -> GolfState:
        """Run both programs; equal ones once.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the programs.
        """
        task, hidden = self._task(state), state.tasks[len(state.attempts)].hidden
        attempts = {
            program: Attempt(program_size(program), self._is_right(task, program, hidden))
            for program in dict.fromkeys((actions[0], actions[1]))
        }
        played = (attempts[actions[0]], attempts[actions[1]])
        return state._replace(attempts=(*state.attempts, played))

    def returns(self, state: GolfState) -> tuple[float, ...] | None:
        """Rounds won less rounds lost, as a share of all."""
        if self.to_move(state):
            return None
        winners = [round_winner(attempts) for attempts in state.attempts]
        lead = (winners.count(0) - winners.count(1)) / len(state.tasks)
        return lead, 0.0 - lead

    def fallback(self, state: GolfState, seat: int) -> str:
        """A program that is never right."""
        return self._task(state).empty_program

    def sample(self, state: GolfState, seat: int, rng: np.random.Generator) -> str:
        """A program that returns a constant or its input."""
        return self._task(state).sample_program(rng)

    def references(self, state: GolfState, seat: int) -> Mapping[str, Any]:
        """The hidden tests of the present task."""
        if not self.to_move(state):
            return {}
        return self._task(state).references(state.tasks[len(state.attempts)].hidden)

    def answered(self, body: str) -> str:
        """The program in a code fence."""
        return fenced(body)

    def components(self, state: GolfState, seat: int) -> Mapping[str, float]:
        """``right``: share of rounds with a right program; ``size``: mean over those, 0 without."""
        sizes = [attempts[seat].size for attempts in state.attempts if attempts[seat].right]
        return {
            "right": len(sizes) / len(state.tasks),
            "size": sum(sizes) / len(sizes) if sizes else 0.0,
        }

    def swap_hidden(self, state: GolfState, seat: int, other: GolfState) -> GolfState:
        """Other hidden tests, and other tasks in the rounds to come."""
        now = min(len(state.attempts), len(state.tasks) - 1)
        tasks = (
            *state.tasks[:now],
            state.tasks[now]._replace(hidden=other.tasks[now].hidden),
            *other.tasks[now + 1 :],
        )
        return state._replace(tasks=tasks)

    def encode(self, state: GolfState) -> Any:
        """Lists, texts and numbers."""
        return {
            "tasks": [
                [t.family, t.parameters, list(t.examples), list(t.hidden)] for t in state.tasks
            ],
            "attempts": [[list(attempt) for attempt in pair] for pair in state.attempts],
        }

    def decode(self, data: Any) -> GolfState:
        """The inverse of `encode`."""
        return GolfState(
            tuple(Instance(f, p, tuple(e), tuple(h)) for f, p, e, h in data["tasks"]),
            tuple((Attempt(*first), Attempt(*second)) for first, second in data["attempts"]),
        )

    def close(self) -> None:
        """End the sandbox, if one was started."""
        self._judge.close()

    def _task(self, state: GolfState) -> Task:
        """The present task; after the end the last one."""
        now = state.tasks[min(len(state.attempts), len(state.tasks) - 1)]
        return self._tasks.task(now.family, now.parameters)

    def _is_right(self, task: Task, program: str, hidden: Sequence[str]) -> bool:
        """Whether it passes every test; one that fails is not run to the end."""
        verdicts = task.verdicts(self._judge, program, hidden, to_the_end=False)
        return all(verdict.passed for verdict in verdicts)
