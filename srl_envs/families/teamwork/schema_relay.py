"""Schema relay: three seats pass one order along, each in its own strict format.

Cooperative, three turns. Seat 0 reads prose and writes JSON for one schema, seat 1 sees that JSON alone
and writes it for another schema (other names, units and forms), seat 2 sees only that and writes a
report whose lines, order and forms are fixed. The outcome is the mean over the three steps of the
share of fields that are right, 0 for a step whose output breaks its format.

A draft paid the first two steps for a valid format alone; a seat that sent made-up but valid JSON
earned two thirds. Now every step is held against the truth, so one seat's mistake costs every later
step too, and valid nonsense earns what guessing a flag or a priority does: 0.07 (the random bot; the
floor of a team that says nothing is 0). Oracle (the strong bot): 1.

JSON that is not strict (`srl_envs.rewards.strict_json`) is an illegal move; JSON that breaks the
schema is passed on and earns 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.teamwork.schema_relay_fields import CORRECTION, FIELDS, KINDS, Form, Value
from srl_envs.messages import clean_message
from srl_envs.rewards.strict_json import JsonFaultError, parse_json

SEATS = 3
MAX_JSON_CHARS = 900
MAX_REPORT_CHARS = 900
MAX_DEPTH = 3
NOTHING = "none"
"""The report of a seat that has none."""
LAYOUTS = ("lines", "row")
_CORRECTED_SHARE = 0.4

_write_json = json.JSONEncoder(ensure_ascii=False).encode
_FAULTS = {
    "json_missing": "there is nothing in the block",
    "json_too_deep": f"it nests more than {MAX_DEPTH} deep",
    "json_too_long": f"it is longer than {MAX_JSON_CHARS} characters",
    "json_duplicate_key": "a name stands in it twice",
    "json_trailing": "something follows the JSON",
    "json_number": "it holds NaN, Infinity or a number that is too large",
}


class Entry(NamedTuple):
    """One field of an instance."""

    field: int
    """Index into `FIELDS`."""
    value: Value
    forms: tuple[int, int, int]
    """Index into the kind's forms, for each step."""


class Relay(NamedTuple):
    """Immutable state."""

    entries: tuple[Entry, ...]
    prose: str
    orders: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    """In which order each step's fields are listed: permutations of the entries."""
    layout: str
    same_names: bool
    """Whether all steps call the fields by the names of the first."""
    listed: tuple[str, ...] = ()
    """What each seat is told of its fields."""
    sent: tuple[str, ...] = ()
    """What the seats wrote so far."""
    scores: tuple[float, ...] = ()
    """Share of fields right in each step so far."""


class Asked(NamedTuple):
    """A field as one step wants it."""

    name: str
    form: Form
    meaning: str
    value: Value


def asked(state: Relay, step: int) -> list[Asked]:
    """The fields of one step, as listed."""
    result = []
    named = 0 if state.same_names else step
    for index in state.orders[step]:
        field, value, forms = state.entries[index]
        result.append(Asked(*_column(field, named, forms[step]), value))
    return result


@lru_cache(maxsize=256)
def _column(field: int, named: int, written: int) -> tuple[str, Form, str]:
    """Name, form and meaning of a field with its ``named``-th name, in its ``written``-th form."""
    names, kind, meaning, _ = FIELDS[field]
    form = KINDS[kind].forms[written]
    return names[named] + form.suffix, form, meaning


def json_score(text: str, fields: Sequence[Asked]) -> float:
    """Share of fields that are right in a JSON object; 0 where it breaks the schema."""
    try:
        given = parse_json(text, max_chars=MAX_JSON_CHARS, max_depth=MAX_DEPTH)
    except JsonFaultError:
        return 0.0  # names that became one when the text was cleaned
    if set(given) != {field.name for field in fields}:
        return 0.0
    values = [field.form.read(given[field.name]) for field in fields]
    if None in values:
        return 0.0
    right = sum(value == field.value for value, field in zip(values, fields, strict=True))
    return right / len(fields)


def report_cells(report: str, layout: str) -> list[tuple[str, str]]:
    """Names and values of a report, in its order; empty where it has not the layout."""
    lines = [line.strip() for line in report.split("\n") if line.strip()]
    if layout == "lines":
        cells = [line.partition(": ") for line in lines]
        return [(name, value.strip()) for name, _, value in cells]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return []
    return list(zip(*rows, strict=True))


def report_score(report: str, layout: str, fields: Sequence[Asked]) -> float:
    """Share of values that are right; 0 where names or their order are not as asked."""
    expected = sorted(fields, key=lambda field: field.name)
    cells = report_cells(report, layout)
    if [name for name, _ in cells] != [field.name for field in expected]:
        return 0.0
    right = sum(
        value == in_report(field.form.write(field.value))
        for (_, value), field in zip(cells, expected, strict=True)
    )
    return right / len(fields)


def in_report(value: Any) -> str:
    """A JSON value as the report writes it."""
    return value if isinstance(value, str) else json.dumps(value)


def listing(state: Relay, step: int) -> str:
    """The fields of one step, for its seat."""
    named = 0 if state.same_names else step
    entries = [state.entries[index] for index in state.orders[step]]
    return "".join([_column_text(field, named, forms[step]) for field, _, forms in entries])


@lru_cache(maxsize=256)
def _column_text(field: int, named: int, written: int) -> str:
    name, form, meaning = _column(field, named, written)
    return f"- {name}: {form.text} ({meaning})\n"


class SchemaRelay(Game[Relay, str]):
    """Observation: the task of the seat and what the seat before wrote. Action: JSON, or a report.

    Args:
        fields: fields of an order, 2 to 8.
        difficulty: 1 (the same names and forms in every step, reports of lines), 2 (other names and
            forms in every step, two layouts) or 3 (and prose that corrects itself).

    Raises:
        ConfigError: a number is out of range.
    """

    seats = SEATS
    mode = "cooperative"
    max_turns = SEATS
    max_action_chars = 1000
    max_observation_chars = 4096

    def __init__(self, *, fields: int = 5, difficulty: int = 2) -> None:
        for name, value, low, high in (
            ("fields", fields, 2, 8), ("difficulty", difficulty, 1, 3),
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"schema_relay: {name}={value!r}; give {low} to {high}.")
        self.fields, self.difficulty = fields, difficulty
        common = (
            "Schema relay: three players pass one order along. Player 1 reads it in prose and writes "
            "JSON, player 2 writes that JSON in another form, player 3 writes a report. Each sees only "
            "what the one before wrote.\n"
            "All are paid the same: for each step the share of fields that are right, compared with "
            "the order. A step with a missing or extra field, or a value not in the form asked for, "
            "earns nothing.\n"
        )
        as_json = (
            "Reply with one JSON object that has exactly the fields below, like this: "
            '<action>{"name": "Eva Lang", "count": 3}</action>\n'
        )
        layouts = {
            "lines": "One line per field, in alphabetical order of the names, like this:\n"
            "<action>count: 3\nname: Eva Lang</action>",
            "row": "Two lines: the names in alphabetical order, then their values, both separated "
            "by |, like this:\n<action>count | name\n3 | Eva Lang</action>",
        }
        first, second = (f"{common}You are player {seat}. {as_json}" for seat in (1, 2))
        third = f"{common}You are player 3. Reply with the report in an action block. "
        self._tasks = {
            layout: (first, second, f"{third}{text}\n") for layout, text in layouts.items()
        }

    def new(self, streams: Streams) -> Relay:
        """Draw fields, values, forms and the prose."""
        rng = streams.draws("instance")
        varied = self.difficulty > 1
        entries = []
        for index in rng.sample(len(FIELDS), self.fields):
            kind = KINDS[FIELDS[index].kind]
            first = rng.integers(len(kind.forms))
            shift = rng.integers(1, len(kind.forms)) if varied else 0
            third = rng.integers(len(kind.forms)) if varied else first
            forms = (first, (first + shift) % len(kind.forms), third)
            entries.append(Entry(index, kind.draw(rng), forms))
        sentences = [self._sentence(entry, rng) for entry in entries]
        orders = [tuple(rng.permutation(self.fields)) for _ in range(SEATS)]
        state = Relay(
            tuple(entries),
            " ".join(sentences[i] for i in rng.permutation(self.fields)),
            (orders[0], orders[1], orders[2]),
            LAYOUTS[rng.integers(len(LAYOUTS))] if varied else LAYOUTS[0],
            not varied,
        )
        return state._replace(listed=tuple(listing(state, step) for step in range(SEATS)))

    def _sentence(self, entry: Entry, rng: Draws) -> str:
        field = FIELDS[entry.field]
        kind = KINDS[field.kind]

        def said(value: Value) -> str:
            sentence = field.sentences[rng.integers(len(field.sentences))]
            return sentence.format(kind.prose.write(value))

        sentence = said(entry.value)
        if self.difficulty < 3 or rng.random() > _CORRECTED_SHARE:
            return sentence
        wrong = kind.draw(rng)
        while wrong == entry.value:
            wrong = kind.draw(rng)
        return CORRECTION.format(old=said(wrong), new=sentence)

    def to_move(self, state: Relay) -> tuple[int, ...]:
        """The next seat in the line."""
        step = len(state.sent)
        return (step,) if step < SEATS else ()

    def observe(self, state: Relay, seat: int) -> str:
        """The seat's task; on its turn also the text that it works from."""
        task = self._tasks[state.layout][seat]
        step = len(state.sent)
        if step == SEATS:
            status = f"The relay is over. Score: {sum(state.scores) / SEATS:.3f}\n"
        elif step < seat:
            status = "Wait for the player before you.\n"
        elif step > seat:
            status = "You are done; wait for the others.\n"
        elif seat == 0:
            status = f"The order:\n{state.prose}\n"
        else:
            status = f"The player before you wrote:\n{state.sent[seat - 1]}\n"
        return f"{task}\nFields:\n{state.listed[seat]}\n{status}"

    def parse(self, state: Relay, seat: int, body: str) -> str:
        """What is passed on: the JSON on one line, or the report."""
        if seat == SEATS - 1:
            return self._parse_report(body)
        try:
            given = parse_json(body, max_chars=MAX_JSON_CHARS, max_depth=MAX_DEPTH)
        except JsonFaultError as fault:
            raise IllegalMoveError(
                f"this is no strict JSON: {_FAULTS.get(fault.reason, 'it cannot be read')}"
            ) from None
        require_action(isinstance(given, dict), 'write one JSON object, like {"name": "Eva Lang"}')
        text = _write_json(given)
        require_action(
            len(text) <= MAX_JSON_CHARS, f"the JSON is longer than {MAX_JSON_CHARS} characters"
        )
        return clean_message(text, MAX_JSON_CHARS)

    @staticmethod
    def _parse_report(body: str) -> str:
        require_action(bool(body), f"the report is empty; write {NOTHING} if you have none")
        require_action(
            len(body) <= MAX_REPORT_CHARS,
            f"the report is longer than {MAX_REPORT_CHARS} characters",
        )
        return body.replace("\r\n", "\n")

    def apply(self, state: Relay, actions: Mapping[int, str]) -> Relay:
        """Pass the text on."""
        (text,) = actions.values()
        entries, prose, orders, layout, same_names, listed, sent, scores = state
        step = len(sent)
        fields = asked(state, step)
        last = step == SEATS - 1
        score = report_score(text, layout, fields) if last else json_score(text, fields)
        sent, scores = (*sent, text), (*scores, score)
        return Relay(entries, prose, orders, layout, same_names, listed, sent, scores)

    def returns(self, state: Relay) -> tuple[float, ...] | None:
        """The mean share of fields right over the three steps, the same for all."""
        if len(state.sent) < SEATS:
            return None
        return (sum(state.scores) / SEATS,) * SEATS

    def fallback(self, state: Relay, seat: int) -> str:
        """An empty object, or the report ``none``."""
        return NOTHING if seat == SEATS - 1 else "{}"

    def sample(self, state: Relay, seat: int, rng: np.random.Generator) -> str:
        """Random values in the right form."""
        step = len(state.sent)
        fields = asked(state, step)
        values = {
            field.name: field.form.write(KINDS[FIELDS[state.entries[index].field].kind].draw(rng))
            for field, index in zip(fields, state.orders[step], strict=True)
        }
        return write_report(values, state.layout) if step == SEATS - 1 else json.dumps(values)

    def components(self, state: Relay, seat: int) -> Mapping[str, float]:
        """``right``: the share of fields right in the seat's own step."""
        return {"right": state.scores[seat] if seat < len(state.scores) else 0.0}

    def swap_hidden(self, state: Relay, seat: int, other: Relay) -> Relay:
        """The order, the others' fields, and all that was written but for the seat before."""
        listed = (*other.listed[:seat], state.listed[seat], *other.listed[seat + 1 :])
        sent = tuple(text if step == seat - 1 else NOTHING for step, text in enumerate(state.sent))
        return state._replace(
            entries=other.entries,
            orders=other.orders,
            prose=state.prose if seat == 0 else other.prose,
            layout=state.layout if seat == SEATS - 1 else other.layout,
            listed=listed,
            sent=sent,
            scores=(0.0,) * len(state.scores),
        )

    def encode(self, state: Relay) -> Any:
        """Lists, texts and numbers."""
        return [
            [[entry.field, entry.value, list(entry.forms)] for entry in state.entries],
            state.prose,
            [list(order) for order in state.orders],
            state.layout,
            state.same_names,
            list(state.listed),
            list(state.sent),
            list(state.scores),
        ]

    def decode(self, data: Any) -> Relay:
        """The inverse of `encode`."""
        entries, prose, orders, layout, same_names, listed, sent, scores = data
        first, second, third = (tuple(order) for order in orders)
        return Relay(
            tuple(Entry(field, value, tuple(forms)) for field, value, forms in entries),
            prose, (first, second, third), layout, same_names,
            tuple(listed), tuple(sent), tuple(scores),
        )  # fmt: skip


def write_report(values: Mapping[str, Any], layout: str) -> str:
    """A report in the layout asked for, names in alphabetical order."""
    cells = [(name, in_report(values[name])) for name in sorted(values)]
    if layout == "lines":
        return "\n".join(f"{name}: {value}" for name, value in cells)
    names, written = zip(*cells, strict=True)
    return f"{' | '.join(names)}\n{' | '.join(written)}"
