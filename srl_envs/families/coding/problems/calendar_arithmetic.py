"""Calendar arithmetic: days between dates, in our calendar or an invented one."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from srl_envs.families.coding.problems.family import (
    Bug,
    Parameters,
    ProblemFamily,
    Size,
    integer,
    is_integer,
    is_list,
    pick,
    sentences,
)

_TASKS = {
    "day": "Return the number of the day in its year; the first day is 1.",
    "left": "Return how many days of its year come after the date.",
    "between": "Return the number of days from the first date to the second, negative if the "
    "second is earlier.",
    "distance": "Return the number of days between two dates, never negative.",
    "weekday": "Return the day of the week: 0 for Monday to 6 for Sunday.",
    "add": "Return the date so many days later (earlier if negative) as [year, month, day].",
    "next": "Return the date of the next day as [year, month, day].",
}
_SPECIAL = (1600, 1700, 1800, 1896, 1900, 1904, 2000, 2023, 2024, 2100, 2400)
_ONE_DATE = ("day", "left", "weekday", "next")


def _variant(task: str, months: int = 0, days: int = 0, leap: int = 0) -> Parameters:
    """``months`` is 0 for the Gregorian calendar; else months of ``days`` days, and each year
    that ``leap`` divides has one more day at its end."""
    return {"task": task, "months": months, "days": days, "leap": leap}


def _variants(difficulty: int) -> list[Parameters]:
    tasks = {
        1: ("day", "left", "next"),
        2: ("between", "distance", "weekday"),
        3: ("add",),
        4: ("day", "left", "next", "between"),
        5: ("between", "add"),
    }[difficulty]
    if difficulty == 3:
        return [_variant(task) for task in ("add", "between", "weekday")]
    if difficulty < 3:
        return [_variant(task) for task in tasks]
    shapes = [(8, 30, 3), (9, 25, 4), (10, 36, 5), (13, 28, 6), (11, 33, 7)]
    return [_variant(task, *shape) for task in tasks for shape in shapes]


def _statement(p: Parameters) -> str:
    if p["months"]:
        kind = sentences(
            f"In a calendar a year has {p['months']} months of {p['days']} days. Every year that",
            f"{p['leap']} divides is a leap year: its last month has {p['days'] + 1} days.",
        )
        years = "300 to 900"
    else:
        kind = "Dates are of the Gregorian calendar."
        years = "1600 to 2400"
    inputs = {"add": "[[year, month, day], days], days from -20000 to 20000,"}
    form = inputs.get(p["task"], "[[year, month, day], [year, month, day]], two valid dates,")
    form = "[year, month, day], a valid date," if p["task"] in _ONE_DATE else form
    return f"{kind} {_TASKS[p['task']]}\nInput: {form} years {years}."


def _year_days(p: Parameters, year: int) -> int:
    return int(p["months"] * p["days"]) + (year % int(p["leap"]) == 0)


def _number(p: Parameters, day: list[int]) -> int:
    """Days since the start of the calendar, the first day being 1."""
    year, month, number = day
    if not p["months"]:
        return date(year, month, number).toordinal()
    past = year - 1
    return int(
        past * p["months"] * p["days"] + past // p["leap"] + (month - 1) * p["days"] + number
    )


def _date(p: Parameters, number: int) -> list[int]:
    """The inverse of `_number`."""
    if not p["months"]:
        found = date.fromordinal(number)
        return [found.year, found.month, found.day]
    year = (number - 1) // (p["months"] * p["days"] + 1) + 1  # never too late
    while _number(p, [year + 1, 1, 1]) <= number:
        year += 1
    rest = number - _number(p, [year, 1, 1])
    month = min(rest // p["days"], p["months"] - 1)
    return [int(year), int(month) + 1, int(rest - month * p["days"]) + 1]


def _reference(p: Parameters, data: Any) -> Any:
    task = p["task"]
    if task == "add":
        return _date(p, _number(p, data[0]) + data[1])
    if task in ("between", "distance"):
        days = _number(p, data[1]) - _number(p, data[0])
        return abs(days) if task == "distance" else days
    if task == "next":
        return _date(p, _number(p, data) + 1)
    if task == "weekday":
        return (_number(p, data) - 1) % 7
    first, after = (_number(p, [year, 1, 1]) for year in (data[0], data[0] + 1))
    number = _number(p, data)
    return number - first + 1 if task == "day" else after - number - 1


def _draw_date(rng: np.random.Generator, p: Parameters, size: Size) -> list[int]:
    if not p["months"]:
        year = pick(rng, _SPECIAL) if rng.random() < 0.5 else integer(rng, 1600, 2400)
        if size == "small" and rng.random() < 0.5:
            year = integer(rng, 1995, 2025)
        start, end = date(year, 1, 1), date(year, 12, 31)
        found = start + timedelta(days=integer(rng, 0, (end - start).days))
        if rng.random() < 0.3:
            found = pick(rng, (date(year, 2, 28), date(year, 3, 1), end, start))
        return [found.year, found.month, found.day]
    year = integer(rng, 300, 320) if size == "small" else integer(rng, 300, 900)
    first = _number(p, [year, 1, 1])
    last = first + _year_days(p, year) - 1
    return _date(p, last if rng.random() < 0.25 else integer(rng, first, last))


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    day = _draw_date(rng, p, size)
    if p["task"] in _ONE_DATE:
        return day
    if p["task"] == "add":
        reach = 400 if size == "small" else 20000
        return [day, integer(rng, -reach, reach)]
    return [day, _draw_date(rng, p, size)]


def _is_date(p: Parameters, value: Any) -> bool:
    low, high, months = (300, 900, p["months"]) if p["months"] else (1600, 2400, 12)
    if not (is_list(value, 3, 3) and is_integer(value[0], low, high)):
        return False
    if not (is_integer(value[1], 1, months) and is_integer(value[2], 1, 40)):
        return False
    if p["months"]:
        leap = value[1] == months and value[0] % p["leap"] == 0
        return bool(value[2] <= p["days"] + leap)
    try:
        date(*value)
    except ValueError:
        return False
    return True


def _is_valid(p: Parameters, data: Any) -> bool:
    if p["task"] in _ONE_DATE:
        return _is_date(p, data)
    if not is_list(data, 2, 2) or not _is_date(p, data[0]):
        return False
    return is_integer(data[1], -20000, 20000) if p["task"] == "add" else _is_date(p, data[1])


def _edge_inputs(p: Parameters) -> list[Any]:
    if p["months"]:
        m, d, leap = p["months"], p["days"], p["leap"] * 105
        dates = [
            [leap, m, d + 1],
            [leap, m, d],
            [leap + 1, 1, 1],
            [leap - 1, m, d],
            [leap, 2, d],
            [leap, 2, 3],
        ]
    else:
        dates = [[1900, 3, 1], [2000, 12, 31], [2000, 2, 29], [2100, 12, 31], [1900, 2, 28]]
        dates += [[2023, 11, 30], [2024, 1, 1], [2023, 3, 1]]
    if p["task"] in _ONE_DATE:
        return dates
    if p["task"] == "add":
        shifts = (1, -1, 366, -800, 0, 1500, -5000, 30)
        return [[day, shift] for day, shift in zip(dates, shifts, strict=False)]
    return [[dates[k], dates[k - 1]] for k in range(len(dates))] + [[dates[0], dates[0]]]


_GREGORIAN = """
def leap(y):
    return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)


def length(y, m):
    if m == 2:
        return 29 if leap(y) else 28
    return 30 if m in (4, 6, 9, 11) else 31
"""

_CUSTOM = """
def leap(y):
    return y % $leap == 0


def length(y, m):
    return $longer if m == $months and leap(y) else $days
"""

_NUMBER = """

def year_days(y):
    return $year + leap(y)


def number(date):
    y, m, d = date
    for k in range(1, m):
        d += length(y, k)
    for k in range(1, y):
        d += year_days(k)
    return d
"""

_DAY = """

def solve(data):
    y, m, d = data
    for k in range(1, m):
        d += length(y, k)
    return d
"""

_LEFT = """

def solve(data):
    y, m, d = data
    rest = length(y, m) - d
    for k in range(m + 1, $months + 1):
        rest += length(y, k)
    return rest
"""

_NEXT = """

def solve(data):
    y, m, d = data
    if d < length(y, m):
        return [y, m, d + 1]
    if m < $months:
        return [y, m + 1, 1]
    return [y + 1, 1, 1]
"""

_BETWEEN = """

def solve(data):
    return number(data[1]) - number(data[0])
"""

_DISTANCE = """

def solve(data):
    return abs(number(data[1]) - number(data[0]))
"""

_WEEKDAY = """

def solve(data):
    return (number(data) - 1) % 7
"""

_ADD = """

def solve(data):
    (y, m, d), days = data
    d += days
    while d < 1:
        m -= 1
        if m == 0:
            y, m = y - 1, $months
        d += length(y, m)
    while d > length(y, m):
        d -= length(y, m)
        m += 1
        if m > $months:
            y, m = y + 1, 1
    return [y, m, d]
"""

_SOLVES = {
    "day": _DAY,
    "left": _LEFT,
    "next": _NEXT,
    "add": _ADD,
    "between": _NUMBER + _BETWEEN,
    "distance": _NUMBER + _DISTANCE,
    "weekday": _NUMBER + _WEEKDAY,
}

_OTHER_DATE = """
from datetime import date, timedelta


def solve(data):
"""

_OTHER_LINES = {
    "day": "    return date(*data).timetuple().tm_yday\n",
    "left": "    return (date(data[0], 12, 31) - date(*data)).days\n",
    "next": "    d = date(*data) + timedelta(days=1)\n    return [d.year, d.month, d.day]\n",
    "add": "    d = date(*data[0]) + timedelta(days=data[1])\n    return [d.year, d.month, d.day]\n",
    "between": "    return (date(*data[1]) - date(*data[0])).days\n",
    "distance": "    return abs((date(*data[1]) - date(*data[0])).days)\n",
    "weekday": "    return date(*data).weekday()\n",
}

_OTHER_CUSTOM = """
def number(y, m, d):
    return (y - 1) * $year + (y - 1) // $leap + (m - 1) * $days + d


def date(n):
    y = 1
    while number(y + 1, 1, 1) <= n:
        y += 1
    n -= number(y, 1, 1)
    m = min(n // $days, $months - 1)
    return [y, m + 1, n - m * $days + 1]


def solve(data):
"""

_OTHER_CUSTOM_LINES = {
    "day": "    return number(*data) - number(data[0], 1, 1) + 1\n",
    "left": "    return number(data[0] + 1, 1, 1) - number(*data) - 1\n",
    "next": "    return date(number(*data) + 1)\n",
    "add": "    return date(number(*data[0]) + data[1])\n",
    "between": "    return number(*data[1]) - number(*data[0])\n",
}


def _template(p: Parameters) -> str:
    head = _CUSTOM if p["months"] else _GREGORIAN
    return head + _SOLVES[p["task"]]


def _alternative(p: Parameters) -> str:
    if p["months"]:
        return _OTHER_CUSTOM + _OTHER_CUSTOM_LINES[p["task"]]
    return _OTHER_DATE + _OTHER_LINES[p["task"]]


def _fields(p: Parameters) -> dict[str, Any]:
    return {
        "leap": p["leap"],
        "months": p["months"] or 12,
        "days": p["days"],
        "longer": p["days"] + 1,
        "year": p["months"] * p["days"] or 365,
    }


FAMILY = ProblemFamily(
    name="calendar_arithmetic",
    title=lambda p: "Calendar",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=_template,
    fields=_fields,
    bugs=(
        Bug("every fourth year", " and (y % 100 != 0 or y % 400 == 0)", ""),
        Bug("no leap years", "return y % $leap == 0", "return False", lambda p: p["task"] != "day"),
        Bug("leap day in every month", " if m == $months and leap(y) else", " if leap(y) else"),
        Bug("one month too many", "for k in range(1, m):", "for k in range(1, m + 1):"),
        Bug("first month lost", "for k in range(1, m):", "for k in range(2, m):"),
        Bug("long months wrong", "in (4, 6, 9, 11)", "in (4, 6, 9, 10)"),
        Bug("last month lost", "range(m + 1, $months + 1)", "range(m + 1, $months)"),
        Bug("year never ends", "if m < $months:", "if m <= $months:"),
        Bug(
            "last year lost",
            "for k in range(1, y):",
            "for k in range(2, y):",
            lambda p: p["task"] == "weekday",
        ),
        Bug("first day lost", "d += days", "d += days + (days < 0)"),
        Bug(
            "dates swapped",
            "number(data[1]) - number(data[0])",
            "number(data[0]) - number(data[1])",
            lambda p: p["task"] == "between",
        ),
        Bug(
            "both ends counted",
            "number(data[1]) - number(data[0])",
            "number(data[1]) - number(data[0]) + 1",
        ),
        Bug("days off by one", "rest = length(y, m) - d", "rest = length(y, m) - d + 1"),
        Bug("month too long", "if d < length(y, m):", "if d <= length(y, m):"),
    ),
    alternative=_alternative,
)
