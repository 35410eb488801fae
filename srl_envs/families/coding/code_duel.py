"""Code duel: two seats write a program for one task, then attack each other's.

Competitive, simultaneous, two phases. A program is run in a sandbox on hidden inputs; its answers
are compared with the reference outside of it.

With one player it is a task: nobody is attacked, and the payoff is the share of right answers, from -1 to 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from srl_envs.core import Game, Mode, Streams, seat_name
from srl_envs.errors import ConfigError
from srl_envs.families.coding.generated import GeneratedTask
from srl_envs.families.coding.judging import Judge
from srl_envs.families.coding.options import (
    DIFFICULTY,
    HIDDEN_INPUTS,
    check_whole,
    task_source,
)
from srl_envs.families.coding.submissions import MAX_ATTACKS, fenced, read_attacks, read_program
from srl_envs.families.coding.task import Task
from srl_envs.families.coding.wording import (
    LIMIT_RULE,
    how_to_send,
    quoted_program,
    task_block,
)
from srl_envs.sandbox import CodeExecutor

TESTS_WEIGHT, ATTACKS_WEIGHT = 0.7, 0.3

RULES = """CODE DUEL. You and another player each write a Python program for the same task, at the same time.
It defines {contract} Printing does nothing. Each program is run on hidden inputs."""
RULES_ALONE = """CODE TASK. You write a Python program.
It defines {contract} Printing does nothing. The program is run on hidden inputs."""
ATTACK_RULE = f"""
Then you see the other program, and may send up to {MAX_ATTACKS} inputs of the task on which it gives a wrong
answer, fails or is too slow."""
_TESTS_PAY = f"{TESTS_WEIGHT} * (your share of right answers - the other's)"
_ATTACKS_PAY = f" + {ATTACKS_WEIGHT} * (your inputs that hit - the other's) / {MAX_ATTACKS}"
_ALONE_PAYS = "2 * (your share of right answers) - 1"
_ATTACK = f"""PHASE: ATTACK
Reply with a JSON list of up to {MAX_ATTACKS} inputs, in the place of INPUT here:
<action>["INPUT 1", "INPUT 2"]</action>"""


@dataclass(frozen=True, slots=True)
class CodeDuelState:
    """One episode. Inputs are canonical JSON texts, so that a state is immutable and comparable."""

    family: str
    parameters: str
    """JSON object: the variant of the family."""
    examples: tuple[str, ...]
    """Inputs that both seats see, with their answers."""
    hidden: tuple[str, ...]
    """Inputs of the tests; no observation before the end depends on them."""
    attack_rounds: int
    programs: tuple[str, ...] = ()
    """Programs, one per seat, once all were sent."""
    passed: tuple[int, ...] = ()
    """Hidden inputs with the right answer, per seat."""
    attacks: tuple[tuple[str, ...], ...] = ()
    """Inputs sent against the other seat's program, per seat."""
    scored: tuple[int, ...] = ()
    """How many of its attacks scored, per seat."""


Action = str | tuple[str, ...]
"""A program, or the distinct attacking inputs as canonical JSON texts."""


class CodeDuel(Game[CodeDuelState, Action]):
    """All seats act at the same moment: first a program, then a list of inputs.

    Args:
        players: 2, or 1 without an opponent.
        difficulty: 1 to 5.
        families: names of problem families to draw from; None for all.
        hidden_inputs: tests per program, 5 to 60; one in five is large.
        attack_rounds: 1, or 0 to end after the tests; None is 1 for generated tasks of two players. Tasks
            of a collection have none: see `srl_envs.families.coding.tasks.recorded`.
        tasks: ``"humaneval:PATH"`` or ``"mbpp:PATH"`` takes the rows of a file or a ``datasets``
            repository instead of generated tasks.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible, or a row is broken.
    """

    seats = 2
    mode: Mode = "competitive"
    simultaneous = True
    max_action_chars = 8192
    max_observation_chars = 8192

    def __init__(
        self,
        *,
        players: int = 2,
        difficulty: int = DIFFICULTY,
        families: Sequence[str] | None = None,
        hidden_inputs: int = HIDDEN_INPUTS,
        attack_rounds: int | None = None,
        tasks: str | None = None,
        executor: CodeExecutor | None = None,
    ) -> None:
        check_whole("code_duel", "players", players, 1, 2)
        if attack_rounds is None:
            attack_rounds = 0 if tasks or players == 1 else 1
        check_whole("code_duel", "attack_rounds", attack_rounds, 0, 1)
        if players == 1 and attack_rounds:
            raise ConfigError(
                "code_duel: attack_rounds=1 needs the other's program; leave it out with players=1."
            )
        self._tasks = task_source(
            "code_duel",
            tasks=tasks,
            families=families,
            difficulty=difficulty,
            hidden_inputs=hidden_inputs,
        )
        if tasks and attack_rounds:
            raise ConfigError(
                "code_duel: attack_rounds=1 needs generated tasks, whose inputs can be validated; "
                "leave it out with tasks."
            )
        self.seats = players
        self.mode = "competitive" if players > 1 else "mixed"  # one player: a forfeit pays -1
        self.attack_rounds = attack_rounds
        self.max_turns = 1 + attack_rounds
        self.reference_names = self._tasks.reference_names
        self.rows_to_train = self._tasks.rows_to_train
        self._judge = Judge(executor)

    def new(self, streams: Streams) -> CodeDuelState:
        """Draw the task."""
        (drawn,) = self._tasks.named(streams) or [self._tasks.draw(streams)]
        return CodeDuelState(**drawn._asdict(), attack_rounds=self.attack_rounds)

    def to_move(self, state: CodeDuelState) -> tuple[int, ...]:
        """All seats until the end."""
        return () if _is_over(state) else tuple(range(self.seats))

    def observe(self, state: CodeDuelState, seat: int) -> str:
        """Rules, task, examples, then what the phase adds."""
        task = self._task(state)
        if self.seats == 1:
            rules, attacks, pays, you = RULES_ALONE, "", _ALONE_PAYS, ""
        else:
            attacks, paid = (ATTACK_RULE, _ATTACKS_PAY) if state.attack_rounds else ("", "")
            rules, pays, you = RULES, f"{_TESTS_PAY}{paid}", f"You are {seat_name(seat)}.\n"
        known = (
            f"{rules.format(contract=task.contract)}{attacks}\n{LIMIT_RULE}\nPayoff: {pays}.\n\n"
            f"{task_block(task, state.examples)}\n\n{you}"
        )
        if _is_over(state):
            return known + _result(state, seat)
        if not state.programs:
            return f"{known}PHASE: WRITE\n{how_to_send(task)}"
        other = quoted_program(state.programs[1 - seat])
        return f"{known}The program of {seat_name(1 - seat)}:\n{other}\n{_ATTACK}"

    def parse(self, state: CodeDuelState, seat: int, body: str) -> Action:
        """A program in the write phase, a list of inputs in the attack phase."""
        if state.programs:
            return read_attacks(body)
        task = self._task(state)
        return read_program(body, task.function, task.signature)

    def apply(self, state: CodeDuelState, actions: Mapping[int, Action]) -> CodeDuelState:
        """Run what the actions call for.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the programs.
        """
        if not state.programs:
            programs = tuple(str(actions[seat]) for seat in range(self.seats))
            return replace(state, programs=programs, passed=self._count_passed(state, programs))
        attacks = tuple(tuple(actions[seat]) for seat in range(self.seats))
        return replace(state, attacks=attacks, scored=self._count_scored(state, attacks))

    def returns(self, state: CodeDuelState) -> tuple[float, ...] | None:
        """The weighted lead in tests and attacks; the two numbers sum to 0 exactly. Alone, the share of right
        answers from -1 to 1."""
        if not _is_over(state):
            return None
        if self.seats == 1:
            return (2 * _shares(state, 0)[0] - 1,)
        tests, attacks = zip(*(_shares(state, seat) for seat in range(2)), strict=True)
        lead = TESTS_WEIGHT * (tests[0] - tests[1]) + ATTACKS_WEIGHT * (attacks[0] - attacks[1])
        return (lead, 0.0 - lead)

    def fallback(self, state: CodeDuelState, seat: int) -> str:
        """A program that is never right; no attack."""
        return "[]" if state.programs else self._task(state).empty_program

    def sample(self, state: CodeDuelState, seat: int, rng: np.random.Generator) -> str:
        """A program that returns a constant or its input; attacks that are valid inputs."""
        task = self._task(state)
        if not state.programs:
            return task.sample_program(rng)
        count = int(rng.integers(MAX_ATTACKS + 1))
        drawn = [task.draw_small(rng) for _ in range(count) if isinstance(task, GeneratedTask)]
        return json.dumps(drawn)

    def references(self, state: CodeDuelState, seat: int) -> Mapping[str, Any]:
        """The hidden tests, while programs are written."""
        if state.programs:
            return {}
        return self._task(state).references(state.hidden)

    def answered(self, body: str) -> str:
        """The program in a code fence."""
        return fenced(body)

    def components(self, state: CodeDuelState, seat: int) -> Mapping[str, float]:
        """Share of hidden tests passed, and of the possible attacks that scored; 0 until the end."""
        tests, attacks = _shares(state, seat) if _is_over(state) else (0.0, 0.0)
        return {"tests_passed": tests, "attacks_scored": attacks}

    def swap_hidden(self, state: CodeDuelState, seat: int, other: CodeDuelState) -> CodeDuelState:
        """The hidden inputs."""
        return replace(state, hidden=other.hidden)

    def encode(self, state: CodeDuelState) -> Any:
        """Field name -> value; tuples become lists."""
        return asdict(state)

    def decode(self, data: Any) -> CodeDuelState:
        """The inverse of `encode`, also after a trip through JSON text."""
        return CodeDuelState(**{name: _frozen(value) for name, value in data.items()})

    def close(self) -> None:
        """End the sandbox, if one was started."""
        self._judge.close()

    def _task(self, state: CodeDuelState) -> Task:
        return self._tasks.task(state.family, state.parameters)

    def _count_passed(self, state: CodeDuelState, programs: tuple[str, ...]) -> tuple[int, ...]:
        """Right answers in the hidden tests, per seat; equal programs are run once."""
        distinct = list(dict.fromkeys(programs))
        work = [(program, state.hidden) for program in distinct]
        found = self._task(state).side_by_side(self._judge, work)
        passed = {
            program: sum(verdict.passed for verdict in verdicts)
            for program, verdicts in zip(distinct, found, strict=True)
        }
        return tuple(passed[program] for program in programs)

    def _count_scored(
        self, state: CodeDuelState, attacks: Sequence[tuple[str, ...]]
    ) -> tuple[int, ...]:
        """Per seat, the attacks that are inputs of the problem and that the other's program fails."""
        task = self._task(state)
        if not isinstance(task, GeneratedTask):
            return (0,) * self.seats
        work = [
            (state.programs[1 - seat], tuple(text for text in attacks[seat] if task.accepts(text)))
            for seat in range(self.seats)
        ]
        found = task.side_by_side(self._judge, work)
        return tuple(sum(not verdict.passed for verdict in verdicts) for verdicts in found)


def _is_over(state: CodeDuelState) -> bool:
    return bool(state.attacks) if state.attack_rounds else bool(state.programs)


def _shares(state: CodeDuelState, seat: int) -> tuple[float, float]:
    """(share of hidden tests passed, share of the possible attacks that scored), each in [0, 1]."""
    scored = state.scored[seat] if state.scored else 0
    return state.passed[seat] / len(state.hidden), scored / MAX_ATTACKS


def _result(state: CodeDuelState, seat: int) -> str:
    lines = []
    for owner in (seat, *(set(range(len(state.programs))) - {seat})):
        whose = "Your program" if owner == seat else f"The program of {seat_name(owner)}"
        lines.append(f"{whose} passed {state.passed[owner]} of {len(state.hidden)} tests.")
    if state.attack_rounds:
        mine, other = state.scored[seat], state.scored[1 - seat]
        lines.append(f"Inputs that hit: yours {mine}, of {seat_name(1 - seat)} {other}.")
    return "THE END. " + " ".join(lines)


def _frozen(value: Any) -> Any:
    """A value with all its lists as tuples, at every depth."""
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value
