"""Code duel: two seats write a program for one task, then attack each other's.

Competitive, simultaneous, two phases. A program is run in a sandbox on hidden inputs; its answers
are compared with the reference outside of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from srl_envs.core import Game, Streams
from srl_envs.errors import ConfigError, SandboxError, nearest
from srl_envs.families.coding.problems import (
    DIFFICULTIES,
    FAMILIES,
    Parameters,
    ProblemFamily,
    Size,
)
from srl_envs.families.coding.submissions import (
    EMPTY_PROGRAM,
    MAX_ATTACKS,
    MAX_PROGRAM_BYTES,
    canonical,
    read_attacks,
    read_program,
)
from srl_envs.sandbox import CodeExecutor, Limits, Outcome, same_value

EXAMPLES = 3
TESTS_WEIGHT, ATTACKS_WEIGHT = 0.7, 0.3
LIMITS = Limits(cpu_s=1.0, wall_s=5.0, memory_mib=256, output_kib=64)
"""Per input. A reference needs milliseconds; wall time is only the backstop of a busy host."""
MAX_TIMEOUTS = 3
"""Timeouts after which the rest of a program's inputs counts as failed without being run."""

RULES = """CODE DUEL. Two players solve the same task at the same time, each with one Python program.
The program defines solve(data): it takes one JSON value and returns the answer. Printing does nothing.
Each program is tested on hidden inputs; the one with more right answers is ahead."""

ATTACK_RULE = (
    "Then each player sees the other's program and may send inputs on which it goes wrong."
)
LIMIT_RULE = (
    f"Limits: {MAX_PROGRAM_BYTES} bytes of code; per input {LIMITS.cpu_s:g} s "
    f"and {LIMITS.memory_mib} MB."
)

_WRITE = """PHASE: WRITE. Reply with one action block that holds the whole program, like this:
<action>
def solve(data):
    return 0
</action>"""

_ATTACK = """PHASE: ATTACK. Find inputs for which that program gives a wrong answer, fails or is too slow.
Reply with one action block that holds a JSON list of at most {most} inputs, like this:
<action>
[{example}]
</action>"""


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
    """One per seat once both were sent."""
    passed: tuple[int, ...] = ()
    """Hidden inputs with the right answer, per seat."""
    attacks: tuple[tuple[str, ...], ...] = ()
    """Inputs sent against the other seat's program, per seat."""
    scored: tuple[int, ...] = ()
    """How many of its attacks scored, per seat."""


Action = str | tuple[str, ...]
"""A program, or the distinct attacking inputs as canonical JSON texts."""


class CodeDuel(Game[CodeDuelState, Action]):
    """Two seats act at the same moment: first a program, then a list of inputs.

    Args:
        difficulty: 1 to 5.
        families: names of problem families to draw from; None for all.
        hidden_inputs: tests per program, 5 to 60; one in five is large.
        attack_rounds: 1, or 0 to end after the tests.
        executor: runs the programs; None makes one at the first program.
    """

    seats = 2
    mode = "competitive"
    max_action_chars = 8192
    max_observation_chars = 8192

    def __init__(
        self,
        *,
        difficulty: int = 2,
        families: Sequence[str] | None = None,
        hidden_inputs: int = 20,
        attack_rounds: int = 1,
        executor: CodeExecutor | None = None,
    ) -> None:
        _check_whole("difficulty", difficulty, DIFFICULTIES[0], DIFFICULTIES[-1])
        _check_whole("hidden_inputs", hidden_inputs, 5, 60)
        _check_whole("attack_rounds", attack_rounds, 0, 1)
        self.difficulty = difficulty
        self.families = _checked_families(families)
        self.hidden_inputs = hidden_inputs
        self.attack_rounds = attack_rounds
        self.max_turns = 1 + attack_rounds
        self._executor = executor

    def new(self, streams: Streams) -> CodeDuelState:
        """Draw the family, its variant, the examples and the hidden inputs."""
        rng = streams.instance
        family = FAMILIES[self.families[int(rng.integers(len(self.families)))]]
        parameters = family.draw(rng, self.difficulty)
        examples = _draw_examples(rng, family, parameters)
        hidden = _draw_hidden(rng, family, parameters, examples, self.hidden_inputs)
        return CodeDuelState(
            family=family.name,
            parameters=canonical(parameters),
            examples=examples,
            hidden=hidden,
            attack_rounds=self.attack_rounds,
        )

    def to_move(self, state: CodeDuelState) -> tuple[int, ...]:
        """Both seats until the end."""
        return () if _is_over(state) else (0, 1)

    def observe(self, state: CodeDuelState, seat: int) -> str:
        """Rules, task, examples, then what the phase adds."""
        problem = _Problem(state)
        examples = "\n".join(
            f"solve({text}) -> {json.dumps(problem.answer(text))}" for text in state.examples
        )
        statement = problem.family.statement(problem.parameters)
        attack_rule = f"{ATTACK_RULE}\n" if state.attack_rounds else ""
        rules = f"{RULES}\n{attack_rule}{LIMIT_RULE}"
        task = f"{rules}\n\nTASK: {problem.family.title}\n{statement}\nExamples:\n{examples}"
        if _is_over(state):
            return f"{task}\n\n{_result(state, seat)}"
        if not state.programs:
            return f"{task}\n\n{_WRITE}"
        quoted = "\n".join(f"| {line}" for line in state.programs[1 - seat].splitlines())
        attack = _ATTACK.format(most=MAX_ATTACKS, example=state.examples[0])
        return f"{task}\n\nThe other player's program:\n{quoted}\n\n{attack}"

    def parse(self, state: CodeDuelState, seat: int, body: str) -> Action:
        """A program in the write phase, a list of inputs in the attack phase."""
        return read_attacks(body) if state.programs else read_program(body)

    def apply(self, state: CodeDuelState, actions: Mapping[int, Action]) -> CodeDuelState:
        """Run what the actions call for.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the programs.
        """
        if not state.programs:
            programs = tuple(str(actions[seat]) for seat in range(self.seats))
            return replace(state, programs=programs, passed=self._count_passed(state, programs))
        attacks = tuple(tuple(actions[seat]) for seat in range(self.seats))
        scored = tuple(
            self._count_scored(state, attacks[seat], state.programs[1 - seat])
            for seat in range(self.seats)
        )
        return replace(state, attacks=attacks, scored=scored)

    def returns(self, state: CodeDuelState) -> tuple[float, ...] | None:
        """The weighted lead in tests and attacks; the two numbers sum to 0 exactly."""
        if not _is_over(state):
            return None
        tests, attacks = zip(*(_shares(state, seat) for seat in range(2)), strict=True)
        lead = TESTS_WEIGHT * (tests[0] - tests[1]) + ATTACKS_WEIGHT * (attacks[0] - attacks[1])
        return (lead, 0.0 - lead)

    def fallback(self, state: CodeDuelState, seat: int) -> str:
        """A program that is never right; no attack."""
        return "[]" if state.programs else EMPTY_PROGRAM

    def sample(self, state: CodeDuelState, seat: int, rng: np.random.Generator) -> str:
        """A program that returns a constant or its input; attacks that are valid inputs."""
        if not state.programs:
            values = ("0", "1", "[]", '""', "data", "len(str(data))")
            return f"def solve(data):\n    return {values[int(rng.integers(len(values)))]}"
        problem = _Problem(state)
        count = int(rng.integers(MAX_ATTACKS + 1))
        drawn = [problem.family.draw_input(rng, problem.parameters, "small") for _ in range(count)]
        return json.dumps(drawn)

    def components(self, state: CodeDuelState, seat: int) -> Mapping[str, float]:
        """Share of hidden tests passed, and of the possible attacks that scored."""
        if not _is_over(state):
            return {}
        tests, attacks = _shares(state, seat)
        return {"tests_passed": tests, "attacks_scored": attacks}

    def encode(self, state: CodeDuelState) -> Any:
        """Field name -> value; tuples become lists."""
        return asdict(state)

    def decode(self, data: Any) -> CodeDuelState:
        """The inverse of `encode`, also after a trip through JSON text."""
        return CodeDuelState(**{name: _frozen(value) for name, value in data.items()})

    def close(self) -> None:
        """End the sandbox, if one was started."""
        if self._executor is not None:
            self._executor.close()
            self._executor = None

    def _count_passed(self, state: CodeDuelState, programs: tuple[str, ...]) -> tuple[int, ...]:
        """Right answers on the hidden inputs, per seat; equal programs are run once."""
        verdicts = {
            program: sum(self._verdicts(state, program, state.hidden))
            for program in dict.fromkeys(programs)
        }
        return tuple(verdicts[program] for program in programs)

    def _count_scored(self, state: CodeDuelState, attacks: tuple[str, ...], target: str) -> int:
        """Attacks that are inputs of the problem and that the program gets wrong."""
        problem = _Problem(state)
        valid = tuple(text for text in attacks if problem.accepts(text))
        return self._verdicts(state, target, valid).count(False)

    def _verdicts(self, state: CodeDuelState, program: str, inputs: Sequence[str]) -> list[bool]:
        """Whether the program gives the reference's answer, for each input.

        Stops after `MAX_TIMEOUTS` timeouts; what was not run counts as wrong.
        """
        if program == EMPTY_PROGRAM or not inputs:
            return [False] * len(inputs)
        problem = _Problem(state)
        verdicts: list[bool] = []
        timeouts = 0
        while len(verdicts) < len(inputs) and timeouts < MAX_TIMEOUTS:
            chunk = inputs[len(verdicts) : len(verdicts) + MAX_TIMEOUTS]
            for text, outcome in zip(chunk, self._run(program, chunk), strict=True):
                timeouts += outcome.status == "timeout"
                right = outcome.status == "ok" and same_value(outcome.value, problem.answer(text))
                verdicts.append(right)
        return verdicts + [False] * (len(inputs) - len(verdicts))

    def _run(self, program: str, inputs: Sequence[str]) -> list[Outcome]:
        """One outcome per input, each of a fresh process; right answers never go along."""
        if self._executor is None:
            self._executor = CodeExecutor(limits=LIMITS)
        calls = [{"function": "solve", "args": [json.loads(text)]} for text in inputs]
        outcomes = self._executor.run(program, calls)
        for outcome in outcomes:
            if outcome.status in ("infrastructure", "refused"):
                raise SandboxError(
                    f"the sandbox could not run a program ({outcome.status}: {outcome.message}); "
                    "the episode is void."
                )
        return outcomes


class _Problem:
    """The problem of a state, ready to answer."""

    def __init__(self, state: CodeDuelState) -> None:
        self.family = FAMILIES[state.family]
        self.parameters: Parameters = json.loads(state.parameters)

    def answer(self, text: str) -> Any:
        """The reference's answer to an input given as JSON text."""
        return self.family.reference(self.parameters, json.loads(text))

    def accepts(self, text: str) -> bool:
        """Whether a JSON text is an input of the problem."""
        return self.family.is_valid(self.parameters, json.loads(text))


def _draw_examples(
    rng: np.random.Generator, family: ProblemFamily, parameters: Parameters
) -> tuple[str, ...]:
    """Small inputs, with different answers where a few tries find some."""
    inputs: list[str] = []
    answers: list[str] = []
    for attempt in range(60):
        data = family.draw_input(rng, parameters, "small")
        text, answer = canonical(data), canonical(family.reference(parameters, data))
        if text not in inputs and (answer not in answers or attempt >= 30):
            inputs.append(text)
            answers.append(answer)
        if len(inputs) == EXAMPLES:
            break
    return tuple(inputs)


def _draw_hidden(
    rng: np.random.Generator,
    family: ProblemFamily,
    parameters: Parameters,
    examples: Sequence[str],
    count: int,
) -> tuple[str, ...]:
    """Distinct inputs other than the examples: small ones, then one fifth large ones."""
    large = count // 5
    found: list[str] = []
    for attempt in range(50 * count):
        size: Size = "large" if len(found) >= count - large or attempt >= 20 * count else "small"
        text = canonical(family.draw_input(rng, parameters, size))
        if text not in found and text not in examples:
            found.append(text)
        if len(found) == count:
            break
    return tuple(found)


def _is_over(state: CodeDuelState) -> bool:
    return bool(state.attacks) if state.attack_rounds else bool(state.programs)


def _shares(state: CodeDuelState, seat: int) -> tuple[float, float]:
    """(share of hidden tests passed, share of the possible attacks that scored), each in [0, 1]."""
    scored = state.scored[seat] if state.scored else 0
    return state.passed[seat] / len(state.hidden), scored / MAX_ATTACKS


def _result(state: CodeDuelState, seat: int) -> str:
    lines = []
    for owner, who in ((seat, "Your program"), (1 - seat, "The other program")):
        lines.append(f"{who} passed {state.passed[owner]} of {len(state.hidden)} tests.")
    if state.attack_rounds:
        mine, other = state.scored[seat], state.scored[1 - seat]
        lines.append(f"Attacks that scored: yours {mine}, the other player's {other}.")
    return "THE END. " + " ".join(lines)


def _frozen(value: Any) -> Any:
    """Lists as tuples, all the way down."""
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(f"code_duel: {name}={value!r}; give a whole number from {low} to {high}.")


def _checked_families(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return tuple(FAMILIES)
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ConfigError(
            f"code_duel: families={names!r}; give a list with some of {', '.join(FAMILIES)}."
        )
    for name in names:
        if name not in FAMILIES:
            hint = nearest(name, FAMILIES) if isinstance(name, str) else ""
            raise ConfigError(
                f"code_duel: no problem family {name!r}.{hint} There are {', '.join(FAMILIES)}."
            )
    if len(set(names)) < len(names):
        raise ConfigError(f"code_duel: families={list(names)!r} names one twice.")
    return tuple(names)
