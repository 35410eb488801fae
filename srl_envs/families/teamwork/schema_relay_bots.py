"""Scripted players of the schema relay: they hold the fields and forms, and read only the text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from srl_envs.families.teamwork.schema_relay import write_report
from srl_envs.families.teamwork.schema_relay_fields import FIELDS, KINDS, Form, Value
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]
Wanted = dict[str, tuple[int, Form]]
"""Name -> index of the field and form, in the order listed."""

_FIELD = re.compile(r"^- (\w+): (.*) \([^()]*\)$", re.MULTILINE)
_SENTENCES: tuple[tuple[int, str, str], ...] = tuple(
    (index, sentence.partition("{}")[0], sentence.partition("{}")[2])
    for index, field in enumerate(FIELDS)
    for sentence in field.sentences
)
"""Index of the field, and what stands before and after its value."""
_INPUT = re.compile(r"^(The order|player_\d wrote):\n(.*)$", re.MULTILINE)


def random_bot(rng: np.random.Generator) -> Bot:
    """Random values in the right form."""
    return _relay_bot(rng, error_rate=1.0)


def middle_bot(rng: np.random.Generator) -> Bot:
    """Gets a value wrong one time in five."""
    return _relay_bot(rng, error_rate=0.2)


def strong_bot(rng: np.random.Generator) -> Bot:
    """Makes no mistake."""
    return _relay_bot(rng, error_rate=0.0)


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Makes no mistake in a value, but leaves out a field one time in four."""
    return _relay_bot(rng, error_rate=0.0, forget_rate=0.25)


def _relay_bot(rng: np.random.Generator, *, error_rate: float, forget_rate: float = 0.0) -> Bot:
    def act(text: str) -> str:
        fields = wanted(text)
        known = facts(text)
        values: dict[str, Any] = {}
        for name, (index, form) in fields.items():
            value = known.get(index)
            if value is None or rng.random() < error_rate:
                value = KINDS[FIELDS[index].kind].draw(rng)
            values[name] = form.write(value)
        if rng.random() < forget_rate:
            values.pop(str(rng.choice(list(values))))
        if "\nYou are player_2." in text:
            return action(write_report(values, "row" if "separated by |" in text else "lines"))
        return action(json.dumps(values))

    return act


def wanted(text: str) -> Wanted:
    """The fields that an observation asks for."""
    result: Wanted = {}
    for name, form_text in _FIELD.findall(text):
        index, forms = _field(name)
        result[name] = index, next(form for form in forms if form.text == form_text)
    return result


def facts(text: str) -> dict[int, Value]:
    """Facts of an observation: index of the field -> value."""
    found = _INPUT.search(text)
    if found is None:
        return {}
    if found.group(1) == "The order":
        return _facts_of_prose(found.group(2))
    known: dict[int, Value] = {}
    for name, written in json.loads(found.group(2)).items():
        index, forms = _field(name)
        read = (form.read(written) for form in forms)
        value = next((value for value in read if value is not None), None)
        if value is not None:
            known[index] = value
    return known


def _facts_of_prose(prose: str) -> dict[int, Value]:
    """The last value that is stated of each field."""
    known: dict[int, Value] = {}
    for sentence in prose.removesuffix(".").split(". "):
        for index, before, after in _SENTENCES:
            said = f"{sentence.removeprefix('Correction: ')}."
            if said.startswith(before) and said.endswith(after):
                value = KINDS[FIELDS[index].kind].prose.read(said[len(before) : -len(after)])
                if value is not None:
                    known[index] = value
    return known


def _field(name: str) -> tuple[int, tuple[Form, ...]]:
    """Index of the field that goes by ``name`` in any step, and the forms that the name allows."""
    for index, field in enumerate(FIELDS):
        forms = KINDS[field.kind].forms
        fitting = tuple(form for form in forms if name in {n + form.suffix for n in field.names})
        if fitting:
            return index, fitting
    return -1, ()
