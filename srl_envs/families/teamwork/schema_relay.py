"""Schema relay: three seats pass one order along, each in its own strict format.

Cooperative, three turns. Seat 0 reads prose and writes JSON for one schema, seat 1 sees that JSON alone
and writes it for another schema (other names, units and forms), seat 2 sees only that and writes a
report whose lines, order and forms are fixed. The outcome is the mean over the three steps of the
share of fields that are right, 0 for a step whose output breaks its format.

A draft paid the first two steps for a valid format alone; a seat that sent made-up but valid JSON
earned two thirds. Now every step is held against the truth, so one seat's mistake costs every later
step too, and valid nonsense earns what guessing a flag or a priority does: 0.07 (the random bot; the
floor of a team that says nothing is 0). Three strong bots earn 1, and `strong` is the ceiling: it knows how
orders are written. What a learner can gain on it is the order read without that knowledge.

JSON that is not strict (`srl_envs.rewards.strict_json`) and reports without the layout are illegal moves;
JSON that breaks the schema is passed on and earns 0. Orders of the eval split have combinations of fields
that no order of train has, so not even one seat's list of fields occurs in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
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
_SHAPES = {
    "lines": "each line must be `name: value`",
    "row": "write two lines, the names and their values, with as many cells separated by |",
}
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
    orders: tuple[tuple[int, ...], ...]
    """Order in which each step's fields are listed: permutations of the entries."""
    layout: str
    same_names: bool
    """Whether all steps call the fields by the names of the first."""
    listed: tuple[str, ...] = ()
    """Description of its fields for each seat."""
    sent: tuple[str, ...] = ()
    """Texts that the seats wrote so far."""
    scores: tuple[float, ...] = ()
    """Share of fields right in each step so far."""


class Sent(NamedTuple):
    """Text of a seat, with the values read from it."""

    text: str
    """The JSON on one line, or the report; the next seat reads it."""
    values: Mapping[str, Any]
    """Values of the JSON; empty for a report."""
    cells: Sequence[tuple[str, str]] = ()
    """Names and values of a report, in its order."""


class Asked(NamedTuple):
    """A field as one step requires it."""

    name: str
    form: Form
    meaning: str
    value: Value


def asked(state: Relay, step: int) -> list[Asked]:
    """The fields of one step, as listed."""
    named = 0 if state.same_names else step
    entries = [state.entries[index] for index in state.orders[step]]
    return [Asked(*_column(field, named, forms[step]), value) for field, value, forms in entries]


@lru_cache(maxsize=256)
def _column(field: int, named: int, written: int) -> tuple[str, Form, str]:
    """Name, form and meaning of a field with its ``named``-th name, in its ``written``-th form."""
    names, kind, meaning, _ = FIELDS[field]
    form = KINDS[kind].forms[written]
    return names[named] + form.suffix, form, meaning


def json_score(given: Mapping[str, Any], fields: Sequence[Asked]) -> float:
    """Share of fields that are right in a JSON object; 0 where it breaks the schema."""
    if len(given) != len(fields):
        return 0.0
    right = 0
    for name, form, _, value in fields:
        found = form.read(given[name]) if name in given else None
        if found is None:
            return 0.0
        right += found == value
    return right / len(fields)


def report_cells(report: str, layout: str) -> list[tuple[str, str]]:
    """Names and values of a report, in its order; empty where it has not the layout."""
    lines = [line for line in report.split("\n") if line and not line.isspace()]
    if layout == "lines":
        parts = [line.partition(":") for line in lines]
        cells = [(name.strip(), value.strip()) for name, colon, value in parts if colon]
        return cells if len(cells) == len(parts) else []
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    if len(rows) != 2 or len(rows[0]) != len(rows[1]):
        return []
    return list(zip(*rows, strict=True))


def report_score(cells: Sequence[tuple[str, str]], fields: Sequence[Asked]) -> float:
    """Share of values that are right; 0 where names or their order are not as asked."""
    if len(cells) != len(fields):
        return 0.0
    right = 0
    for (name, written), field in zip(cells, sorted(fields, key=_name), strict=True):
        if name != field.name:
            return 0.0
        right += written == in_report(field.form.write(field.value))
    return right / len(fields)


_name = itemgetter(0)


def in_report(value: Any) -> str:
    """A JSON value as the report writes it."""
    return value if isinstance(value, str) else json.dumps(value)


def listing(entries: Iterable[Entry], step: int, named: int) -> str:
    """The fields of one step, for its seat; ``named`` is the schema whose names it uses."""
    return "".join([_column_text(field, named, forms[step]) for field, _, forms in entries])


@cache
def _forms_of_steps(kind: str, varied: bool) -> tuple[tuple[int, int, int], ...]:
    """The forms that the three steps may have: all the same, or another one in the second."""
    forms = range(len(KINDS[kind].forms))
    if not varied:
        return tuple((form, form, form) for form in forms)
    return tuple((a, b, c) for a in forms for b in forms for c in forms if a != b)


@lru_cache(maxsize=256)
def _column_text(field: int, named: int, written: int) -> str:
    name, form, meaning = _column(field, named, written)
    return f"- {name}: {form.text} ({meaning})\n"


class SchemaRelay(Game[Relay, Sent]):
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
            "Schema relay: three players pass one order along. player_0 reads it in prose and writes "
            "JSON, player_1 writes that JSON in another form, player_2 writes a report. Each sees only "
            "what the one before wrote.\n"
            "Payoff: the same for all, the mean over the three steps of the share of fields that are "
            "right, compared with the order. A step with a missing or extra field, or a value not in "
            "the form asked for, counts 0.\n"
        )
        as_json = (
            "Reply with one JSON object that has exactly the fields below, like this: "
            '<action>{"name": "Eva Lang", "count": 3}</action>\n'
        )
        replies = {
            "lines": "Reply with one line per field, in alphabetical order of the names, like this:\n"
            "<action>count: 3\nname: Eva Lang</action>\n",
            "row": "Reply with two lines: the names in alphabetical order, then their values, both "
            "separated by |, like this:\n<action>count | name\n3 | Eva Lang</action>\n",
        }
        self._tasks = {
            layout: tuple(
                f"{common}{reply}\nYou are {seat_name(seat)}.\nFields:\n"
                for seat, reply in enumerate((as_json, as_json, report))
            )
            for layout, report in replies.items()
        }

    def new(self, streams: Streams) -> Relay:
        """Draw fields of the split, values, forms and the prose."""
        rng = streams.draws("instance")
        varied = self.difficulty > 1
        entries = []
        sentences = []
        for index in streams.held(partial(rng.sample, len(FIELDS), self.fields), sorted):
            kind = FIELDS[index].kind
            choices = _forms_of_steps(kind, varied)
            entry = Entry(index, KINDS[kind].draw(rng), choices[rng.integers(len(choices))])
            entries.append(entry)
            sentences.append(self._sentence(entry, rng))
        orders = [tuple(rng.permutation(self.fields)) for _ in range(SEATS)]
        prose = " ".join([sentences[i] for i in rng.permutation(self.fields)])
        layout = LAYOUTS[rng.integers(len(LAYOUTS))] if varied else LAYOUTS[0]
        listed = [
            listing([entries[i] for i in orders[step]], step, step if varied else 0)
            for step in range(SEATS)
        ]
        return Relay(tuple(entries), prose, tuple(orders), layout, not varied, tuple(listed))

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
        step = len(state.sent)
        if step == SEATS:
            status = f"The relay is over. Score: {sum(state.scores) / SEATS:.3f}\n"
        elif step < seat:
            status = f"Wait for {seat_name(seat - 1)}.\n"
        elif step > seat:
            status = "You are done; wait for the others.\n"
        elif seat == 0:
            status = f"The order:\n{state.prose}\n"
        else:
            status = f"{seat_name(seat - 1)} wrote:\n{state.sent[seat - 1]}\n"
        return f"{self._tasks[state.layout][seat]}{state.listed[seat]}\n{status}"

    def parse(self, state: Relay, seat: int, body: str) -> Sent:
        """What is passed on: the JSON on one line, or the report."""
        if seat == SEATS - 1:
            return _parse_report(body, state.layout)
        given = _parse_object(body)
        text = _write_json(given)
        require_action(
            len(text) <= MAX_JSON_CHARS, f"the JSON is longer than {MAX_JSON_CHARS} characters"
        )
        shown = clean_message(text, MAX_JSON_CHARS)
        return Sent(shown, given if shown == text else _values_shown(shown))

    def apply(self, state: Relay, actions: Mapping[int, Sent]) -> Relay:
        """Pass the text on."""
        ((text, values, cells),) = actions.values()
        entries, prose, orders, layout, same_names, listed, sent, scores = state
        step = len(sent)
        fields = asked(state, step)
        score = report_score(cells, fields) if step == SEATS - 1 else json_score(values, fields)
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
        return Relay(
            tuple(Entry(field, value, tuple(forms)) for field, value, forms in entries),
            prose, tuple(tuple(order) for order in orders), layout, same_names,
            tuple(listed), tuple(sent), tuple(scores),
        )  # fmt: skip


def _parse_object(body: str) -> dict[str, Any]:
    try:
        given = parse_json(body, max_chars=MAX_JSON_CHARS, max_depth=MAX_DEPTH)
    except JsonFaultError as fault:
        raise IllegalMoveError(
            f"this is no strict JSON: {_FAULTS.get(fault.reason, 'it cannot be read')}"
        ) from None
    if not isinstance(given, dict):
        raise IllegalMoveError('write one JSON object, like {"name": "Eva Lang"}')
    return given


def _values_shown(text: str) -> Mapping[str, Any]:
    """What the next seat reads in a text that was cleaned; names may have become one."""
    try:
        return _parse_object(text)
    except IllegalMoveError:
        return {}


def _parse_report(body: str, layout: str) -> Sent:
    require_action(bool(body), f"the report is empty; write {NOTHING} if you have none")
    require_action(
        len(body) <= MAX_REPORT_CHARS, f"the report is longer than {MAX_REPORT_CHARS} characters"
    )
    if body == NOTHING:
        return Sent(NOTHING, {})
    cells = report_cells(body, layout)
    require_action(bool(cells), f"this is no report: {_SHAPES[layout]}")
    return Sent(body.replace("\r\n", "\n"), {}, cells)


def write_report(values: Mapping[str, Any], layout: str) -> str:
    """A report in the layout asked for, names in alphabetical order."""
    cells = [(name, in_report(values[name])) for name in sorted(values)]
    if layout == "lines":
        return "\n".join(f"{name}: {value}" for name, value in cells)
    names, written = zip(*cells, strict=True)
    return f"{' | '.join(names)}\n{' | '.join(written)}"
