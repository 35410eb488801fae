"""Tasks drawn from the problem families: a seed determines a variant, its examples and its hidden inputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from srl_envs.core import Streams
from srl_envs.errors import ConfigError, nearest
from srl_envs.families.coding.held_out import families_of, variants_of
from srl_envs.families.coding.judging import (
    SKIPPED,
    Judge,
    Verdict,
    Work,
    budget_of,
    run_in_parts,
)
from srl_envs.families.coding.problems import FAMILIES, Parameters, ProblemFamily, Size
from srl_envs.families.coding.problems.family import pick
from srl_envs.families.coding.submissions import canonical
from srl_envs.families.coding.task import Instance, Task, TaskSource
from srl_envs.sandbox import Outcome, same_value

EXAMPLES = 3


class GeneratedTask(Task):
    """A variant of a family; its tests are inputs as canonical JSON texts."""

    function = "solve"
    signature = "solve(data)"
    contract = "solve(data): it takes one JSON value and returns the answer."

    def __init__(self, family: str, parameters: str) -> None:
        self.family = FAMILIES[family]
        self.parameters: Parameters = json.loads(parameters)
        self.title = self.family.title(self.parameters)
        self.statement = self.family.statement(self.parameters)

    def answer(self, text: str) -> Any:
        """The reference's answer to an input given as JSON text."""
        return self.family.reference(self.parameters, json.loads(text))

    def accepts(self, text: str) -> bool:
        """Whether a JSON text is an input of the problem."""
        return self.family.is_valid(self.parameters, json.loads(text))

    def draw_small(self, rng: np.random.Generator) -> Any:
        """A small input."""
        return self.family.draw_input(rng, self.parameters, "small")

    def wrong_programs(self) -> list[str]:
        """The right program with one mistake, for each mistake that can be seeded into it."""
        bugs = self.family.bugs_of(self.parameters)
        return [self.family.source(self.parameters, [bug]) for bug in bugs]

    def references(self, tests: Sequence[str]) -> dict[str, Any]:
        """Calls with the reference's answers."""
        return {
            "calls": [
                {
                    "function": self.function,
                    "args": [json.loads(test)],
                    "expected": self.answer(test),
                }
                for test in tests
            ]
        }

    def example_block(self, examples: Sequence[str]) -> str:
        """One call and its answer a line."""
        lines = "\n".join(f"solve({text}) -> {json.dumps(self.answer(text))}" for text in examples)
        return f"Examples:\n{lines}"

    def verdicts(
        self, judge: Judge, program: str, tests: Sequence[str], *, to_the_end: bool = True
    ) -> list[Verdict]:
        """Whether the program gives the reference's answer, for each input."""
        if program == self.empty_program:
            return [SKIPPED] * len(tests)
        budget = budget_of(tests)

        def run(inputs: Sequence[str]) -> list[Verdict]:
            (outcomes,) = judge.calls([(program, inputs)], self.function, [budget])
            return self._judged(inputs, outcomes)

        return run_in_parts(tests, run, to_the_end=to_the_end)

    def side_by_side(self, judge: Judge, work: Sequence[Work]) -> list[list[Verdict]]:
        """All at once, so that a slow program does not make the others wait."""
        verdicts = [[SKIPPED] * len(tests) for _, tests in work]
        places = [n for n, (program, _) in enumerate(work) if program != self.empty_program]
        to_run = {n: work[n] for n in places if verdicts[n]}
        if to_run:
            budgets = [budget_of(tests) for _, tests in to_run.values()]
            found = judge.calls(list(to_run.values()), self.function, budgets)
            for place, outcomes in zip(to_run, found, strict=True):
                verdicts[place] = self._judged(work[place][1], outcomes)
        return verdicts

    def _judged(self, inputs: Sequence[str], outcomes: Sequence[Outcome]) -> list[Verdict]:
        return [
            Verdict(o.status == "ok" and same_value(o.value, self.answer(text)), o)
            for text, o in zip(inputs, outcomes, strict=True)
        ]

    def shown_test(self, test: str) -> str:
        """A shown test: the call and its answer."""
        return f"solve({test}) must give {json.dumps(self.answer(test))}"


class GeneratedTasks(TaskSource):
    """Draws a family, a variant of the difficulty, examples and hidden inputs.

    Args:
        families: names of problem families, checked by `checked_families`.
        difficulty: 1 to 5.
        hidden_inputs: tests per task; one in five is large.
    """

    reference_names = ("calls",)

    def __init__(self, families: Sequence[str], difficulty: int, hidden_inputs: int) -> None:
        self.families = tuple(families)
        self.difficulty = difficulty
        self.hidden_inputs = hidden_inputs

    def draw(self, streams: Streams) -> Instance:
        """A family and a variant that belong to the split; the inputs differ by its entropy.

        Raises:
            ConfigError: the families have no variant for the split.
        """
        rng, split = streams.instance, streams.split
        family = FAMILIES[pick(rng, families_of(self.families, self.difficulty, split))]
        parameters = json.loads(pick(rng, variants_of(family.name, self.difficulty, split)))
        examples = _draw_examples(rng, family, parameters)
        hidden = _draw_hidden(rng, family, parameters, examples, self.hidden_inputs)
        return Instance(family.name, canonical(parameters), examples, hidden)

    def task(self, family: str, parameters: str) -> GeneratedTask:
        """Task of the variant, with its reference ready to call."""
        return GeneratedTask(family, parameters)


def checked_families(game: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Names of problem families; all for None.

    Raises:
        ConfigError: one is unknown or stands twice, or it is not a list.
    """
    if names is None:
        return tuple(FAMILIES)
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ConfigError(
            f"{game}: families={names!r}; give a list with some of {', '.join(FAMILIES)}."
        )
    for name in names:
        if not isinstance(name, str) or name not in FAMILIES:
            hint = nearest(name, FAMILIES) if isinstance(name, str) else ""
            raise ConfigError(
                f"{game}: no problem family {name!r}.{hint} There are {', '.join(FAMILIES)}."
            )
    if len(set(names)) < len(names):
        raise ConfigError(f"{game}: families={list(names)!r} names one twice.")
    return tuple(names)


def _draw_examples(
    rng: np.random.Generator, family: ProblemFamily, parameters: Parameters
) -> tuple[str, ...]:
    """Small inputs, with different answers where a few tries find some.

    Never an edge input: those are the same for many variants, and worth finding.
    """
    inputs: list[str] = []
    answers: list[str] = []
    edges = {canonical(data) for data in family.edge_inputs(parameters)}
    for attempt in range(60):
        data = family.draw_input(rng, parameters, "small")
        text, answer = canonical(data), canonical(family.reference(parameters, data))
        if text not in (*inputs, *edges) and (answer not in answers or attempt >= 30):
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
