"""Delivery orders of the schema relay: their fields, their written forms, and prose.

A *kind* is a sort of value (a date, a price). It is held as one whole number or text and written in
one of several *forms*: as a JSON value of a schema, as text of the report, or as words in prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from srl_envs.draws import Draws

Value = int | str
"""A field's value, whatever its form."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
FIRST_NAMES = (
    "Ada", "Ben", "Carla", "David", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Kira",
    "Leo", "Mara", "Nils", "Olga", "Paul", "Rosa", "Simon", "Tara", "Viktor",
)  # fmt: skip
FAMILY_NAMES = (
    "Adler", "Becker", "Costa", "Dahl", "Eriksen", "Fischer", "Garcia", "Hansen", "Ito", "Jansen",
    "Keller", "Lind", "Moreau", "Novak", "Okafor", "Petrov", "Rossi", "Silva", "Tanaka", "Weber",
)  # fmt: skip
PRIORITIES = ("low", "normal", "high", "urgent")


class Form(NamedTuple):
    """One way of writing a kind's values."""

    text: str
    """Its description in a schema."""
    suffix: str
    """Added to the field's name where the bare value would leave the unit open."""
    write: Callable[[Value], Any]
    read: Callable[[Any], Value | None]
    """The inverse of `write`; None for anything that is not of this form."""


class Kind(NamedTuple):
    """A sort of value."""

    draw: Callable[[Draws | np.random.Generator], Value]
    forms: tuple[Form, ...]
    prose: Form


class Field(NamedTuple):
    """One entry of an order."""

    names: tuple[str, str, str]
    """Forms in the first schema, in the second and in the report."""
    kind: str
    meaning: str
    sentences: tuple[str, ...]
    """Prose with ``{}`` for the value."""


def _text_form(
    text: str,
    pattern: str,
    write: Callable[[Value], str],
    read: Callable[..., Value | None],
    suffix: str = "",
) -> Form:
    """A form that is a text; ``read`` gets the groups of ``pattern`` and its result must write back."""
    compiled = re.compile(pattern, re.ASCII)

    def read_text(value: Any) -> Value | None:
        found = compiled.fullmatch(value) if isinstance(value, str) else None
        result = read(*found.groups()) if found else None
        return result if result is not None and write(result) == value else None

    return Form(text, suffix, write, read_text)


def _number_form(text: str, high: int, suffix: str) -> Form:
    """A form that is a whole number from 0 to ``high``."""

    def read_number(value: Any) -> Value | None:
        return value if type(value) is int and 0 <= value <= high else None

    return Form(
        f"{text}, a whole number from 0 to {high}", suffix, lambda value: value, read_number
    )


def _parts(value: Value, base: int) -> tuple[int, int]:
    return divmod(int(value), base)


def _joined(base: int, high: int) -> Callable[[str, str], int | None]:
    """Whole and rest of a number in ``base``, as texts; None where it is above ``high``."""

    def join(whole: str, rest: str) -> int | None:
        value = int(whole) * base + int(rest)
        return value if value <= high else None

    return join


def _split_form(
    text: str, base: int, high: int, mark: str, width: int, *, suffix: str = ""
) -> Form:
    """A form such as 12.50 or 1:05: whole part, ``mark``, rest in ``width`` digits."""

    def write(value: Value) -> str:
        whole, rest = _parts(value, base)
        return f"{whole}{mark}{rest:0{width}}"

    pattern = rf"(\d{{1,5}}){re.escape(mark)}(\d{{{width}}})"
    return _text_form(text, pattern, write, _joined(base, high), suffix)


def _prose_parts(base: int, high: int, whole_word: str, rest_word: str) -> Form:
    """Words such as ``2 hours and 5 minutes``; the plurals add an s."""

    def write(value: Value) -> str:
        whole, rest = _parts(value, base)
        return f"{whole} {whole_word}{'s' * (whole != 1)} and {rest} {rest_word}{'s' * (rest != 1)}"

    pattern = rf"(\d{{1,5}}) {whole_word}s? and (\d{{1,3}}) {rest_word}s?"
    return _text_form("", pattern, write, _joined(base, high))


# --- people, dates, times -----------------------------------------------------------------------


def _family_first(value: Value) -> str:
    first, family = str(value).split()
    return f"{family}, {first}"


def _people() -> Kind:
    plain = _text_form(
        "text, first name and family name, like Eva Lang",
        r"([A-Z][a-z]{1,20}) ([A-Z][a-z]{1,20})", str, "{} {}".format,
    )  # fmt: skip
    reverse = _text_form(
        "text, family name, comma and first name, like Lang, Eva",
        r"([A-Z][a-z]{1,20}), ([A-Z][a-z]{1,20})",
        _family_first,
        "{1} {0}".format,
    )

    def draw(rng: Draws | np.random.Generator) -> str:
        return f"{FIRST_NAMES[rng.integers(20)]} {FAMILY_NAMES[rng.integers(20)]}"

    return Kind(draw, (plain, reverse), plain)


def _date(year: str, month: str, day: str) -> int | None:
    """The date as the number YYYYMMDD."""
    fits = 1 <= int(month) <= len(MONTHS) and 1 <= int(day) <= 28 and 2000 <= int(year) <= 2099
    return int(year) * 10_000 + int(month) * 100 + int(day) if fits else None


_SHORT_MONTHS = tuple(month[:3].upper() for month in MONTHS)
_MONTH_NUMBERS = {
    name: str(number) for names in (MONTHS, _SHORT_MONTHS) for number, name in enumerate(names, 1)
}


def _date_parts(value: Value) -> tuple[int, int, int]:
    """Year, month and day."""
    year, rest = divmod(int(value), 10_000)
    return year, *divmod(rest, 100)


def _written_iso(value: Value) -> str:
    year, month, day = _date_parts(value)
    return f"{year}-{month:02}-{day:02}"


def _written_short(value: Value) -> str:
    year, month, day = _date_parts(value)
    return f"{day:02}/{_SHORT_MONTHS[month - 1]}/{year}"


def _written_long(value: Value) -> str:
    year, month, day = _date_parts(value)
    return f"{day} {MONTHS[month - 1]} {year}"


def _named_date(day: str, month: str, year: str) -> int | None:
    return _date(year, _MONTH_NUMBERS.get(month, "0"), day)


def _dates() -> Kind:
    iso = _text_form("text, a date as YYYY-MM-DD", r"(\d{4})-(\d{2})-(\d{2})", _written_iso, _date)
    digits = _text_form(
        "text, a date as eight digits YYYYMMDD", r"(\d{4})(\d{2})(\d{2})", str, _date
    )
    named = _text_form(
        "text, a date like 07/MAR/2031", r"(\d{2})/([A-Z]{3})/(\d{4})", _written_short, _named_date
    )
    prose = _text_form("", r"(\d{1,2}) ([A-Z][a-z]{2,8}) (\d{4})", _written_long, _named_date)

    def draw(rng: Draws | np.random.Generator) -> int:
        year, month, day = rng.integers(2031, 2040), rng.integers(1, 13), rng.integers(1, 29)
        return int(year) * 10_000 + int(month) * 100 + int(day)

    return Kind(draw, (iso, digits, named), prose)


def _clock(hour: str, minute: str, half: str) -> int | None:
    fits = 1 <= int(hour) <= 12 and int(minute) < 60
    return (int(hour) % 12 + 12 * (half == "pm")) * 60 + int(minute) if fits else None


def _twelve_hours(value: Value) -> str:
    hour, minute = _parts(value, 60)
    return f"{(hour - 1) % 12 + 1}:{minute:02} {'am' if hour < 12 else 'pm'}"


def _times() -> Kind:
    def day(value: Value) -> str:
        hour, minute = _parts(value, 60)
        return f"{hour:02}:{minute:02}"

    def read_day(hour: str, minute: str) -> int | None:
        return int(hour) * 60 + int(minute) if int(hour) < 24 and int(minute) < 60 else None

    pattern = r"(\d{1,2}):(\d{2}) (am|pm)"
    return Kind(
        lambda rng: int(rng.integers(24 * 60)),
        (
            _text_form("text, a time as 24-hour HH:MM", r"(\d{2}):(\d{2})", day, read_day),
            _text_form("text, a time like 3:05 pm", pattern, _twelve_hours, _clock),
            _number_form("minutes since midnight", 24 * 60 - 1, "_minute_of_day"),
        ),
        _text_form("", pattern, _twelve_hours, _clock),
    )


# --- amounts and choices ------------------------------------------------------------------------


def _money() -> Kind:
    high = 999_999
    return Kind(
        lambda rng: int(rng.integers(100, 100_000)),
        (
            _number_form("cents", high, "_cents"),
            _split_form(
                "text, euros with two decimals, like 7.05", 100, high, ".", 2, suffix="_euros"
            ),
        ),
        _prose_parts(100, high, "euro", "cent"),
    )


def _weights() -> Kind:
    high = 99_999
    return Kind(
        lambda rng: int(rng.integers(50, 20_000)),
        (
            _number_form("grams", high, "_grams"),
            _split_form(
                "text, kilograms with three decimals, like 2.075", 1000, high, ".", 3, suffix="_kg"
            ),
        ),
        _prose_parts(1000, high, "kilogram", "gram"),
    )


def _durations() -> Kind:
    high = 60 * 24 - 1
    return Kind(
        lambda rng: int(rng.integers(20, 720)),
        (
            _number_form("minutes", high, "_minutes"),
            _split_form("text, hours and minutes as H:MM", 60, high, ":", 2, suffix="_h_mm"),
        ),
        _prose_parts(60, high, "hour", "minute"),
    )


def _counts() -> Kind:
    return Kind(
        lambda rng: int(rng.integers(2, 1000)),
        (
            _number_form("a count", 9999, ""),
            _text_form(
                "text, a count in exactly four digits, like 0042", r"(\d{4})",
                lambda value: f"{value:04}", int,
            ),
        ),
        _text_form("", r"(\d{1,4})", str, int),
    )  # fmt: skip


def _known_priority(word: str) -> str | None:
    return word if word in PRIORITIES else None


def _priorities() -> Kind:
    listed = ", ".join(PRIORITIES)
    plain = _text_form(f"text, one of {listed}", r"([a-z]{1,10})", str, _known_priority)
    return Kind(
        lambda rng: PRIORITIES[rng.integers(len(PRIORITIES))],
        (
            plain,
            _text_form(
                f"text, one of {listed.upper()}", r"([A-Z]{1,10})",
                lambda value: str(value).upper(), lambda word: _known_priority(word.lower()),
            ),
        ),
        plain,
    )  # fmt: skip


def _flags() -> Kind:
    def read_flag(value: Any) -> Value | None:
        return int(value) if isinstance(value, bool) else None

    words = ("no", "yes")
    return Kind(
        lambda rng: int(rng.integers(2)),
        (
            Form("true or false", "", bool, read_flag),
            _text_form("text, yes or no", r"(yes|no)", lambda value: words[int(value)], words.index),
        ),
        _text_form("", r"(is|is not)", lambda value: ("is not", "is")[int(value)],
                   lambda words: int(words == "is")),
    )  # fmt: skip


KINDS: dict[str, Kind] = {
    "person": _people(),
    "date": _dates(),
    "time": _times(),
    "money": _money(),
    "weight": _weights(),
    "duration": _durations(),
    "count": _counts(),
    "priority": _priorities(),
    "flag": _flags(),
}

FIELDS: tuple[Field, ...] = (
    Field(("customer", "client", "buyer"), "person", "who ordered",
          ("The customer is {}.", "The order comes from {}.")),
    Field(("driver", "chauffeur", "driven_by"), "person", "who drives",
          ("{} drives.", "The driver will be {}.")),
    Field(("ordered", "order_date", "placed_on"), "date", "the day of the order",
          ("The order was placed on {}.", "It was ordered on {}.")),
    Field(("due", "deadline", "latest_day"), "date", "the last day for delivery",
          ("It must arrive by {}.", "The last day for delivery is {}.")),
    Field(("pickup", "collection", "collect_at"), "time", "when the goods are collected",
          ("The goods are collected at {}.", "Pickup is at {}.")),
    Field(("price", "cost", "amount"), "money", "what the goods cost",
          ("The goods cost {}.", "The price is {}.")),
    Field(("deposit", "prepaid", "down_payment"), "money", "what is paid in advance",
          ("A deposit of {} was paid.", "In advance, {} were paid.")),
    Field(("weight", "mass", "load"), "weight", "how much the goods weigh",
          ("The goods weigh {}.", "Their weight is {}.")),
    Field(("trip", "journey", "travel"), "duration", "how long the drive takes",
          ("The drive takes {}.", "The trip lasts {}.")),
    Field(("pieces", "quantity", "units"), "count", "how many pieces there are",
          ("There are {} pieces.", "The order is for {} pieces.")),
    Field(("priority", "urgency", "rank"), "priority", "how urgent it is",
          ("The priority is {}.", "It is an order of {} priority.")),
    Field(("insured", "covered", "insurance"), "flag", "whether it is insured",
          ("The load {} insured.", "The shipment {} covered by insurance.")),
)  # fmt: skip
CORRECTION = "{old} Correction: {new}"
"""At the highest difficulty some facts are stated wrong first."""
