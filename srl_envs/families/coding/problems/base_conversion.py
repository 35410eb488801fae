"""Base conversion: write an integer in another base."""

from __future__ import annotations

from typing import Any

import numpy as np

from srl_envs.families.coding.problems.family import (
    Bug,
    Parameters,
    ProblemFamily,
    Size,
    integer,
    is_integer,
    is_text,
    pick,
    sentences,
)

_DIGITS = "0123456789abcdef"
_LIMIT = 10**9


def _variant(base: int, source: int = 0, signed: bool = True, group: int = 0) -> Parameters:
    return {"base": base, "source": source, "signed": signed, "group": group}


def _variants(difficulty: int) -> list[Parameters]:
    sources, targets = (2, 3, 8, 16), (2, 5, 8, 12, 16)
    pairs = [(a, b) for a in sources for b in targets if a != b]
    if difficulty == 1:
        return [_variant(base, signed=False) for base in (2, 3, 4, 5, 8, 9)]
    if difficulty == 2:
        return [_variant(base) for base in (2, 3, 5, 6, 7, 11, 12, 16)]
    if difficulty == 3:
        return [_variant(b, a) for a, b in pairs]
    if difficulty == 4:
        return [_variant(b, a, True, group) for a, b in pairs for group in (2, 3, 4)]
    return [_variant(-base, 0, True, group) for base in (2, 3, 4, 5, 10) for group in (0, 3, 4)]


def _statement(p: Parameters) -> str:
    base, group = p["base"], p["group"]
    task = sentences(
        f"Write an integer in base {base} and return the string of its digits.",
        f"In base {base} every digit is from 0 to {-base - 1} and the places are worth "
        f"1, {base}, {base**2}, {base**3} and so on; no minus sign is needed."
        if base < 0
        else "",
        "Digits above 9 are a, b, c and so on." if base > 10 else "",
        'A negative number starts with "-".' if p["signed"] and base > 0 else "",
        "There are no leading zeros; zero is 0.",
        f'Put "_" between groups of {group} digits, counted from the right.' if group else "",
    )
    lowest = -_LIMIT if p["signed"] else 0
    if not p["source"]:
        return f"{task}\nInput: an integer from {lowest} to {_LIMIT}."
    return (
        f"{task}\nInput: a string, an integer from {lowest} to {_LIMIT} in base {p['source']}, "
        'with "-" if negative, without leading zeros.'
    )


def _reference(p: Parameters, data: Any) -> Any:
    number, base = int(data, p["source"]) if p["source"] else data, p["base"]
    rest = number if base < 0 else abs(number)
    digits = []
    while rest:
        digit = rest % abs(base)
        digits.append(_DIGITS[digit])
        rest = (rest - digit) // base
    digits = digits or ["0"]
    size = p["group"] or len(digits)
    groups = ["".join(digits[k : k + size]) for k in range(0, len(digits), size)]
    return ("-" if base > 0 and number < 0 else "") + "_".join(groups)[::-1]


def _write(number: int, base: int) -> str:
    """The number as the input string of variants that read one."""
    digits, rest = "", abs(number)
    while rest:
        rest, digit = divmod(rest, base)
        digits = _DIGITS[digit] + digits
    return ("-" if number < 0 else "") + (digits or "0")


def _given(p: Parameters, numbers: list[int]) -> list[Any]:
    return [_write(n, p["source"]) if p["source"] else n for n in numbers]


def _draw_input(rng: np.random.Generator, p: Parameters, size: Size) -> Any:
    if size == "small" and rng.random() < 0.1:
        return pick(rng, _edge_inputs(p))
    reach = pick(rng, (20, 300, 5000)) if size == "small" else _LIMIT
    number = integer(rng, 1, reach)
    if p["signed"] and rng.random() < 0.4:
        number = -number
    return _given(p, [number])[0]


def _is_valid(p: Parameters, data: Any) -> bool:
    lowest = -_LIMIT if p["signed"] else 0
    if not p["source"]:
        return is_integer(data, lowest, _LIMIT)
    digits = _DIGITS[: p["source"]]
    if not is_text(data, digits + "-", 40) or not is_text(data[1:], digits, 40):
        return False
    if data in ("", "-") or (data.lstrip("-")[0] == "0" and data != "0"):
        return False
    return is_integer(int(data, p["source"]), lowest, _LIMIT)


def _edge_inputs(p: Parameters) -> list[Any]:
    base = abs(p["base"])
    numbers = [0, 1, base - 1, base, base**3, base**4 - 1, base**5, 15 * base + 11]
    if p["signed"]:
        numbers += [-1, -base, 1 - base**3, -(base**4)]
    return _given(p, list(dict.fromkeys(numbers)))


_TEMPLATE = """
def solve(data):
$read    n = $start
    digits = ""
    while n:
        digits = "0123456789abcdef"[n % $size] + digits
        n = $next
    digits = digits or "0"
$group    return $answer
"""

_OTHER = """
def write(n):
    if n == 0:
        return ""
    return write($next) + "0123456789abcdef"[n % $size]


def solve(data):
$read    digits = write($start) or "0"
$group    return $answer
"""

_DIGIT = '"0123456789abcdef"[n % $size]'

_GROUP = """    first = len(digits) % {0} or {0}
    parts = [digits[:first]]
    for k in range(first, len(digits), {0}):
        parts.append(digits[k:k + {0}])
    digits = "_".join(parts)
"""


def _fields(p: Parameters) -> dict[str, Any]:
    base = p["base"]
    sign = p["signed"] and base > 0
    return {
        "read": f"    data = int(data, {p['source']})\n" if p["source"] else "",
        "start": "abs(data)" if sign else "data",
        "size": abs(base),
        "next": f"n // {base}" if base > 0 else f"(n - n % {-base}) // {base}",
        "group": _GROUP.format(p["group"]) if p["group"] else "",
        "answer": '("-" if data < 0 else "") + digits' if sign else "digits",
    }


FAMILY = ProblemFamily(
    name="base_conversion",
    title=lambda p: "Number bases",
    variants=_variants,
    statement=_statement,
    reference=_reference,
    draw_input=_draw_input,
    is_valid=_is_valid,
    edge_inputs=_edge_inputs,
    template=lambda p: _TEMPLATE,
    fields=_fields,
    bugs=(
        Bug("zero is empty", 'digits or "0"', "digits"),
        Bug("digits reversed", f"{_DIGIT} + digits", f"digits + {_DIGIT}"),
        Bug("first digit lost", "while n:", "while abs(n) >= $size:"),
        Bug("sign lost", "$answer", "digits", lambda p: p["signed"] and p["base"] > 0),
        Bug("no groups", "$group", "", lambda p: p["group"] > 0),
    ),
    alternative=lambda p: _OTHER,
)
