"""Case and code: a tester sends tests, a coder sends a program, and both read where the two disagree.

Cooperative, two seats in turn, or one that takes both parts (`players=1`): as many replies of the same
length over the same texts, so a lone policy has the team's tokens. Both see the task. In each round the
tester sends inputs with the answers that it holds for right, then the coder sends a program; it is run on
these inputs in the sandbox, and both read what it gave. The last tests and the last program count.

What a suite of tests is worth is decided without the team's program: a test is true where the reference
gives the same answer, and the true ones are run on hidden wrong programs, the reference with one mistake
each. The worth is the share of tests that are true, times the share of wrong programs that they find. So no
test earns nothing, a test that agrees with a wrong program of one's own costs, and one that every program
passes finds nothing. Tests that repeat an example of the statement are left out. arXiv:2510.11062 pays its
tester only for the golden program's passes, which trivial tests earn in full.

The outcome is 0.6 of the share of hidden inputs that the program answers right and 0.4 of the worth of the
tests. ``sparse`` pays it at the end; ``shaped`` pays the same sum reply by reply, as it grows or shrinks.

Tasks are the generated ones of the coding games, held out by family and variant.

Levels: `difficulty=1, rounds=1, tests=1` first; then two rounds, more tests, and difficulty up to 5. At no
level does a program without a thought earn much.

Baselines, teams over 60 tasks of train: strong 0.94 (right programs; the wrong ones that its tests find are
0.86 of all), held out 0.93, middle 0.66, random 0.03; at the first level 0.86, 0.75, 0.40 and 0.02. Tests
chosen with the wrong programs at hand would find all of them in every task tried, so 1 can be reached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.errors import ConfigError
from srl_envs.families.coding.generated import GeneratedTask, GeneratedTasks, checked_families
from srl_envs.families.coding.judging import Judge, budget_of
from srl_envs.families.coding.options import DIFFICULTY, HIDDEN_INPUTS, check_whole
from srl_envs.families.coding.problems import DIFFICULTIES
from srl_envs.families.coding.submissions import (
    EMPTY_PROGRAM,
    Case,
    fenced,
    read_program,
    read_tests,
)
from srl_envs.families.coding.wording import LIMIT_RULE, how_to_send, quoted_program, task_block
from srl_envs.messages import clean_message
from srl_envs.sandbox import CodeExecutor, Outcome, same_value

TESTER, CODER = 0, 1
PARTS = ("tester", "coder")
REWARDS = ("sparse", "shaped")
PROGRAM_SHARE, TESTS_SHARE = 0.6, 0.4
"""Of the outcome."""
ROUNDS, TESTS = 2, 4
"""Default options."""
NO_TESTS, KEEP = "none", "keep"
DUE = ("Send your tests", "Send your program")
"""In a line of its own that begins with ``ROUND`` and the number, by part."""
_GIVEN_CHARS = 80
"""Of what a program gave on one test, as much is shown."""


@dataclass(frozen=True, slots=True)
class Bench:
    """One episode."""

    family: str
    parameters: str
    """JSON object: the variant of the family."""
    examples: tuple[str, ...]
    """Inputs that both seats see, with their answers."""
    hidden: tuple[str, ...]
    """Inputs that decide what a program is worth."""
    suites: tuple[tuple[Case, ...], ...] = ()
    """Tests of each round."""
    programs: tuple[str, ...] = ()
    """Programs of each round."""
    gave: tuple[tuple[str, ...], ...] = ()
    """Per round and test, what the program gave as a text; "" where it agreed."""
    right: int = 0
    """Hidden inputs that the last program that was judged answers right."""
    true: int = 0
    """Tests that are true, in the last suite that was judged."""
    found: int = 0
    """Wrong programs that these found."""


def suite_worth(sent: int, true: int, found: int, wrong: int) -> float:
    """Share of tests that are true, times the share of wrong programs that they find.

    Args:
        sent: tests that do not repeat an example.
        true: as many of them are true.
        found: wrong programs that fail a true one.
        wrong: wrong programs in all.
    """
    return true / sent * found / wrong if sent else 0.0


class CodeAndTests(Game[Bench, Any]):
    """Seat 0 tests, seat 1 codes; in the lone version seat 0 does both. Action: tests; a program.

    Args:
        players: 2, or 1 for the lone version.
        rounds: tests and programs, 1 to 3.
        tests: most tests in a suite, 1 to 6.
        difficulty: 1 to 5.
        families: names of problem families to draw from; None for all.
        hidden_inputs: that decide what a program is worth, 5 to 60.
        reward: ``"sparse"`` or ``"shaped"``.
        executor: runs the programs; None takes a shared one at the first program.

    Raises:
        ConfigError: an option is impossible.
    """

    seats = 2
    mode = "cooperative"
    max_action_chars = 8192
    max_observation_chars = 12_288
    reference_names = ("calls",)

    def __init__(
        self,
        *,
        players: int = 2,
        rounds: int = ROUNDS,
        tests: int = TESTS,
        difficulty: int = DIFFICULTY,
        families: Sequence[str] | None = None,
        hidden_inputs: int = HIDDEN_INPUTS,
        reward: str = "sparse",
        executor: CodeExecutor | None = None,
    ) -> None:
        name = "test_and_code"
        check_whole(name, "players", players, 1, 2)
        check_whole(name, "rounds", rounds, 1, 3)
        check_whole(name, "tests", tests, 1, 6)
        check_whole(name, "difficulty", difficulty, DIFFICULTIES[0], DIFFICULTIES[-1])
        check_whole(name, "hidden_inputs", hidden_inputs, 5, 60)
        if not isinstance(reward, str) or reward not in REWARDS:
            raise ConfigError(f"{name}: reward={reward!r}; give one of {', '.join(REWARDS)}.")
        chosen = checked_families(name, families)
        self._tasks = GeneratedTasks(chosen, difficulty, hidden_inputs)
        self.seats, self.rounds, self.tests, self.reward = players, rounds, tests, reward
        self.max_turns = 2 * rounds
        self._judge = Judge(executor)

    def new(self, streams: Streams) -> Bench:
        """Draw the task."""
        return Bench(**self._tasks.draw(streams)._asdict())

    def to_move(self, state: Bench) -> tuple[int, ...]:
        """The tester, then the coder, in each round."""
        if len(state.programs) == self.rounds:
            return ()
        return (_part_due(state),) if self.seats > 1 else (0,)

    # --- what is seen ---

    def observe(self, state: Bench, seat: int) -> str:
        """Rules and task, the tests and what the programs gave on them, and what is due."""
        task = self._task(state)
        lines = [
            f"{self._rules(task)}\n\n{task_block(task, state.examples)}\n",
            self._form(task, seat),
        ]
        for number in range(len(state.suites))[-2:]:
            lines += _suite_lines(state, number)
        if state.programs and (seat == CODER or self.seats == 1):
            lines.append(f"Your last program:\n{quoted_program(state.programs[-1])}")
        return "\n".join([*lines, self._due(state, seat)]) + "\n"

    def _rules(self, task: GeneratedTask) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        if self.seats == 1:
            who, same = f"You solve one task, in {rounds}. In each you first send tests, then a", ""
            then = "you read"
        else:
            same, then = "the same for both: ", "both read"
            who = (
                f"Two players solve one task together, in {rounds}. In each, {seat_name(TESTER)}, the "
                f"tester, sends tests, then {seat_name(CODER)}, the coder, sends a"
            )
        return (
            f"TEST AND CODE. {who} Python program. The program is run on the tests, and {then} where the two "
            "disagree: then the test or the program is wrong. The last tests and the last program count.\n"
            f"The program defines {task.contract} Printing does nothing.\n"
            "A test is an input with its right answer. It is true if the task allows the input and the "
            "answer is right. There are hidden wrong programs with one mistake each; true tests find one "
            "if it fails one of them. A test that repeats an example of the task does not count.\n"
            f"{LIMIT_RULE}\n"
            f"Payoff: {same}{PROGRAM_SHARE} * (share of hidden inputs that the program answers right) + "
            f"{TESTS_SHARE} * (share of tests that are true) * (share of wrong programs that they find)."
        )

    def _form(self, task: GeneratedTask, seat: int) -> str:
        tests = "1 test" if self.tests == 1 else f"up to {self.tests} tests, one a line"
        sample = "solve([3, 1]) -> 4" + ("" if self.tests == 1 else "\nsolve([]) -> 0")
        test_form = (
            f"Reply with {tests}, like this:\n<action>\n{sample}\n</action>\n"
            f"To send no test: <action>{NO_TESTS}</action>"
        )
        program_form = how_to_send(task)
        if self.seats == 1:
            return f"Where tests are due: {test_form}\nWhere a program is due: {program_form}"
        form = (test_form, program_form)[seat]
        return f"You are {seat_name(seat)}, the {PARTS[seat]}.\n{form}"

    def _due(self, state: Bench, seat: int) -> str:
        on_move = self.to_move(state)
        if not on_move:
            return self._end(state)
        number = f"ROUND {len(state.programs) + 1} of {self.rounds}."
        if seat not in on_move:
            return f"{number} Wait for {seat_name(on_move[0])}."
        keep = f" To keep the last: <action>{KEEP}</action>" if state.programs else ""
        return f"{number} {DUE[_part_due(state)]} now.{keep}"

    def _end(self, state: Bench) -> str:
        wrong, sent = len(self._wrong(state)), len(_counted(state))
        return (
            f"THE END. Hidden inputs answered right: {state.right} of {len(state.hidden)}. True tests: "
            f"{state.true} of {sent}. Wrong programs found: {state.found} of {wrong}. "
            f"Paid: {self._worth(state):.3f}."
        )

    # --- moves ---

    def parse(self, state: Bench, seat: int, body: str) -> Any:
        """The tests, or a program; those of the last round for ``keep``."""
        keeps = bool(state.programs) and body.strip(" .\n").lower() == KEEP
        if _part_due(state) == TESTER:
            if keeps:
                return state.suites[-1]
            return read_tests(body, self.tests) if body.strip().lower() != NO_TESTS else ()
        return state.programs[-1] if keeps else read_program(body)

    def apply(self, state: Bench, actions: Mapping[int, Any]) -> Bench:
        """Note the tests, or run the program on them; judge what counts.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the programs.
        """
        (action,) = actions.values()
        judged = self.reward == "shaped" or len(state.programs) + 1 == self.rounds
        if _part_due(state) == TESTER:
            state = replace(state, suites=(*state.suites, tuple(action)))
            return self._with_tests_judged(state) if judged else state
        gave = self._run(action, state.suites[-1])
        state = replace(state, programs=(*state.programs, action), gave=(*state.gave, gave))
        return self._with_program_judged(state) if judged else state

    def _run(self, program: str, tests: Sequence[Case]) -> tuple[str, ...]:
        if not tests or program == EMPTY_PROGRAM:
            return ("nothing; it was not run",) * len(tests)
        inputs = [test.input for test in tests]
        (outcomes,) = self._judge.calls([(program, inputs)], "solve", [budget_of(inputs)])
        return tuple(map(_given, outcomes, tests))

    def _with_program_judged(self, state: Bench) -> Bench:
        task = self._task(state)
        verdicts = task.verdicts(self._judge, state.programs[-1], state.hidden)
        return replace(state, right=sum(verdict.passed for verdict in verdicts))

    def _with_tests_judged(self, state: Bench) -> Bench:
        task = self._task(state)
        true = [test for test in _counted(state) if is_true(task, test)]
        work = [(program, [test.input for test in true]) for program in self._wrong(state)]
        verdicts = task.side_by_side(self._judge, work) if true else []
        found = sum(not all(verdict.passed for verdict in each) for each in verdicts)
        return replace(state, true=len(true), found=found)

    # --- what is paid ---

    def returns(self, state: Bench) -> tuple[float, ...] | None:
        """The same for all; see the module."""
        return None if self.to_move(state) else (self._worth(state),) * self.seats

    def earned(self, state: Bench) -> tuple[float, ...] | None:
        """With shaped rewards, the worth of what was sent so far."""
        return (self._worth(state),) * self.seats if self.reward == "shaped" else None

    def _worth(self, state: Bench) -> float:
        tests = suite_worth(len(_counted(state)), state.true, state.found, len(self._wrong(state)))
        return PROGRAM_SHARE * state.right / len(state.hidden) + TESTS_SHARE * tests

    def fallback(self, state: Bench, seat: int) -> str:
        """What was sent before; at first no tests, and a program that is never right."""
        if state.programs:
            return KEEP
        return NO_TESTS if _part_due(state) == TESTER else EMPTY_PROGRAM

    def sample(self, state: Bench, seat: int, rng: np.random.Generator) -> str:
        """Tests with inputs of the task and an example's answer, or none; a thoughtless program."""
        task = self._task(state)
        if _part_due(state) == CODER:
            return task.sample_program(rng)
        answers = [task.answer(text) for text in state.examples]
        drawn = {
            Case.of(task.draw_small(rng), answers[int(rng.integers(len(answers)))])
            for _ in range(int(rng.integers(self.tests + 1)))
        }
        one_each = {test.input: str(test) for test in sorted(drawn)}
        return "\n".join(one_each.values()) or NO_TESTS

    def references(self, state: Bench, seat: int) -> Mapping[str, Any]:
        """The hidden inputs with their answers, while a program is due."""
        if seat not in self.to_move(state) or _part_due(state) == TESTER:
            return {}
        return self._task(state).references(state.hidden)

    def answered(self, body: str) -> str:
        """The program in a code fence."""
        return fenced(body)

    def components(self, state: Bench, seat: int) -> Mapping[str, float]:
        """Shares of hidden inputs answered right, of true tests and of wrong programs found."""
        return {
            "answered_right": state.right / len(state.hidden),
            "tests_true": state.true / max(1, len(_counted(state))),
            "wrong_found": state.found / len(self._wrong(state)),
        }

    def swap_hidden(self, state: Bench, seat: int, other: Bench) -> Bench:
        """The hidden inputs."""
        return replace(state, hidden=other.hidden)

    def encode(self, state: Bench) -> Any:
        """Field name -> value; tuples become lists."""
        return {name: _listed(getattr(state, name)) for name in Bench.__slots__}

    def decode(self, data: Any) -> Bench:
        """The inverse of `encode`."""
        fields = {name: _frozen(value) for name, value in data.items()}
        fields["suites"] = tuple(tuple(Case(*t) for t in suite) for suite in fields["suites"])
        return Bench(**fields)

    def close(self) -> None:
        """End the sandbox, if one was started."""
        self._judge.close()

    def _task(self, state: Bench) -> GeneratedTask:
        return self._tasks.task(state.family, state.parameters)

    def _wrong(self, state: Bench) -> list[str]:
        return self._task(state).wrong_programs()


def is_true(task: GeneratedTask, test: Case) -> bool:
    """Whether the task allows the input and the reference gives the answer."""
    return task.accepts(test.input) and same_value(test.value, task.answer(test.input))


def _part_due(state: Bench) -> int:
    return CODER if len(state.suites) > len(state.programs) else TESTER


def _counted(state: Bench) -> list[Case]:
    """The last tests without those that repeat an example."""
    last = state.suites[-1] if state.suites else ()
    return [case for case in last if case.input not in state.examples]


def _suite_lines(state: Bench, number: int) -> list[str]:
    """The tests of one round, and what its program gave on them."""
    cases, ran = state.suites[number], len(state.gave) > number
    lines = [] if cases else [f"Round {number + 1}: no test was sent."]
    for place, case in enumerate(cases, 1):
        gave = ""
        if ran:
            text = state.gave[number][place - 1]
            gave = f" The program gave {text}." if text else " The program agrees."
        lines.append(f"Round {number + 1}, test {place}: {case}.{gave}")
    return lines


def _given(outcome: Outcome, case: Case) -> str:
    """What a program gave on one test, in words; "" where it agrees."""
    if outcome.status == "timeout":
        return "nothing; it took too long"
    if outcome.status != "ok":
        what = clean_message(outcome.message or outcome.status, _GIVEN_CHARS)
        return f"nothing; it failed: {what}"
    if same_value(outcome.value, case.value):
        return ""
    return clean_message(_written(outcome.value), _GIVEN_CHARS)


def _written(value: object) -> str:
    """As JSON where it is, as tests are; cannot fail, whatever a program returned."""
    try:
        return json.dumps(value, default=repr, skipkeys=True)
    except (ValueError, RecursionError):  # an integer past the digit limit; nesting
        return f"a {type(value).__name__}"


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
