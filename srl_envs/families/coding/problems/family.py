"""Parts of a problem family: a statement, a trusted reference, inputs, and programs for bots.

Inputs and answers are JSON values. The reference runs in the trusted process and never meets a
player's program; the sources are text, read only by bots and by tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any, Literal, TypeVar

import numpy as np

Parameters = Mapping[str, Any]
"""The JSON object that distinguishes the variants of a family."""
Size = Literal["small", "large"]
T = TypeVar("T")

DIFFICULTIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Bug:
    """A fault to seed into the source: one edit of its template."""

    name: str
    old: str
    """Text that is replaced; the bug exists only in templates that hold it exactly once."""
    new: str
    when: Callable[[Parameters], bool] = lambda parameters: True
    """False for variants in which the edit would change no answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemFamily:
    """One kind of problem. Every function is pure; the random ones draw only from ``rng``."""

    name: str
    title: Callable[[Parameters], str]
    """What is asked, in few words; no other family has the same."""
    variants: Callable[[int], Sequence[Parameters]]
    """Difficulty (1 to 5) -> every variant of it; their statements differ."""
    statement: Callable[[Parameters], str]
    """What is asked, then one line that starts with ``Input:``."""
    reference: Callable[[Parameters, Any], Any]
    """The only right answer to a valid input."""
    draw_input: Callable[[np.random.Generator, Parameters, Size], Any]
    is_valid: Callable[[Parameters, Any], bool]
    """Whether a JSON value is an input; total, and bounded so that the reference is fast."""
    edge_inputs: Callable[[Parameters], Sequence[Any]]
    """Inputs on which careless programs go wrong."""
    template: Callable[[Parameters], str]
    """A right program, with ``$names`` for what `fields` fills in."""
    fields: Callable[[Parameters], Mapping[str, Any]]
    bugs: Sequence[Bug]
    alternative: Callable[[Parameters], str]
    """A right program that is written differently; same placeholders."""

    def source(self, parameters: Parameters, bugs: Sequence[Bug] = ()) -> str:
        """The right program, or the same with some `bugs_of` this variant in it."""
        text = self.template(parameters)
        for bug in bugs:
            text = text.replace(bug.old, bug.new)
        return Template(text).substitute(self.fields(parameters)).strip()

    def other_source(self, parameters: Parameters) -> str:
        """The right program, written differently."""
        text = self.alternative(parameters)
        return Template(text).substitute(self.fields(parameters)).strip()

    def bugs_of(self, parameters: Parameters) -> list[Bug]:
        """The bugs that can be seeded into this variant's program."""
        text = self.template(parameters)
        return [bug for bug in self.bugs if text.count(bug.old) == 1 and bug.when(parameters)]

    def sources(self, parameters: Parameters) -> dict[str, str]:
        """Every program of one bug at most, by name: ``reference``, ``other`` and each bug."""
        buggy = {bug.name: self.source(parameters, [bug]) for bug in self.bugs_of(parameters)}
        return {
            "reference": self.source(parameters),
            "other": self.other_source(parameters),
            **buggy,
        }


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options, all equally likely."""
    return options[int(rng.integers(len(options)))]


def integer(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(rng.integers(low, high + 1))


def text(rng: np.random.Generator, letters: str, length: int) -> str:
    """A string of that length, each letter drawn on its own."""
    return "".join(letters[int(k)] for k in rng.integers(len(letters), size=length))


def is_integer(value: Any, low: int, high: int) -> bool:
    """Whether a JSON value is a whole number in the range; true and 1.0 are none."""
    return type(value) is int and low <= value <= high


def is_text(value: Any, letters: str, longest: int) -> bool:
    """Whether a JSON value is a string of these letters, at most so long."""
    return isinstance(value, str) and len(value) <= longest and set(value) <= set(letters)


def is_list(value: Any, shortest: int, longest: int) -> bool:
    """Whether a JSON value is a list with a length in the range."""
    return isinstance(value, list) and shortest <= len(value) <= longest


def is_record(value: Any, *keys: str) -> bool:
    """Whether a JSON value is an object with exactly these keys."""
    return isinstance(value, dict) and set(value) == set(keys)


def sentences(*parts: str) -> str:
    """The parts that are not empty, as one paragraph."""
    return " ".join(part for part in parts if part)
