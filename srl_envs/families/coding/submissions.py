"""Reading what players send: programs and attacking inputs, as pure functions over untrusted text."""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, NamedTuple, NoReturn

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError
from srl_envs.reading.python_text import read_python, without_fence

EMPTY_PROGRAM = "def solve(data):\n    raise NotImplementedError"
"""What a seat plays that never sends a program: right on no input."""
MAX_ATTACKS = 3
MAX_DEPTH = 8
"""Nesting of an attacking input; the deepest problem needs 3."""


MAX_CASE_CHARS = 200
"""Of a test: its input and its answer, as canonical JSON texts."""
_CASE = re.compile(r"(?:\d+[.)] )?(?:assert )?solve\(\s*")
_ARROW = re.compile(r"\s*\)\s*(?:->|==|=>)\s*")


class Case(NamedTuple):
    """A test that a player sends, as canonical JSON texts."""

    input: str
    answer: str

    @classmethod
    def of(cls, data: Any, answer: Any) -> Case:
        """The test of two JSON values."""
        return cls(canonical(data), canonical(answer))

    @property
    def value(self) -> Any:
        """The answer."""
        return json.loads(self.answer)

    def __str__(self) -> str:
        """As examples are shown; signs of tags are escaped, as JSON allows, so it forges none."""
        data, answer = (
            text.replace("<", r"\u003c").replace(">", r"\u003e")
            for text in (self.input, self.answer)
        )
        return f"solve({data}) -> {answer}"


def canonical(value: Any) -> str:
    """The same text for the same JSON value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(", ", ": "))


def read_program(body: str, function: str = "solve", signature: str = "solve(data)") -> str:
    """The program in an action body, taken out of its code fence if it has one.

    Args:
        body: of an action block.
        function: name that the program must bind at its top level.
        signature: how its definition starts, for the error text.

    Raises:
        IllegalMoveError: it is too long, no Python, or does not define the function.
    """
    program, tree = read_python(body)
    require_action(
        _defines(tree, function),
        f"the program has no function {function} at the top level; start with `def {signature}:`",
    )
    return program


def read_attacks(body: str) -> tuple[str, ...]:
    """The distinct inputs of a JSON list, as canonical JSON texts.

    Whether they are inputs of the problem is for its validator to say.

    Raises:
        IllegalMoveError: it is not a JSON list of at most `MAX_ATTACKS` values of moderate depth.
    """
    text = without_fence(body.strip())
    try:
        value = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise IllegalMoveError(
            f"the action is no JSON ({error.msg} at character {error.pos}); "
            "send a list of inputs such as [[1, 2], [3]]"
        ) from None
    except RecursionError:
        raise IllegalMoveError("the JSON is nested too deeply") from None
    except ValueError as error:  # a number that Python will not read
        raise IllegalMoveError(f"the JSON holds a bad number: {error}") from None
    require_action(
        isinstance(value, list), "the action must be a JSON list of inputs, such as [[1, 2], [3]]"
    )
    require_action(
        len(value) <= MAX_ATTACKS, f"the list has {len(value)} inputs; at most {MAX_ATTACKS}"
    )
    require_action(_is_shallow(value, MAX_DEPTH), "the JSON is nested too deeply")
    return tuple(dict.fromkeys(canonical(item) for item in value))


def read_tests(body: str, most: int) -> tuple[Case, ...]:
    """The tests of lines such as ``solve([1, 2]) -> 3``, with JSON values on both sides.

    Whether they are inputs of the problem, and the answers right, is for its reference to say.

    Raises:
        IllegalMoveError: a line is not such a test, one is too long, two have the same input, or there
            are none or too many.
    """
    lines = [line.strip() for line in without_fence(body.strip()).splitlines() if line.strip()]
    require_action(0 < len(lines) <= most, f"send 1 to {most} tests, one a line, or none")
    cases = tuple(map(_case, lines))
    inputs = {case.input for case in cases}
    require_action(len(inputs) == len(cases), "two tests have the same input")
    return cases


def _case(line: str) -> Case:
    head = _CASE.match(line)
    if head is None:
        raise IllegalMoveError("a test reads solve(INPUT) -> ANSWER, with JSON values")
    try:
        data, end = _DECODER.raw_decode(line, head.end())
        arrow = _ARROW.match(line, end)
        if arrow is None:
            raise IllegalMoveError(
                "a test reads solve(INPUT) -> ANSWER, with an arrow between them"
            )
        answer, end = _DECODER.raw_decode(line, arrow.end())
    except json.JSONDecodeError as error:
        raise IllegalMoveError(
            f"a test holds what is not JSON ({error.msg} at character {error.pos} of its line)"
        ) from None
    except RecursionError:
        raise IllegalMoveError("the JSON is nested too deeply") from None
    except ValueError as error:  # a number that Python will not read
        raise IllegalMoveError(f"the JSON holds a bad number: {error}") from None
    require_action(line[end:].strip(" .,;") == "", "something stands behind the answer of a test")
    require_action(
        _is_shallow(data, MAX_DEPTH) and _is_shallow(answer, MAX_DEPTH),
        "the JSON is nested too deeply",
    )
    case = Case.of(data, answer)
    size = len(case.input) + len(case.answer)
    require_action(
        size <= MAX_CASE_CHARS,
        f"a test has {size} characters; at most {MAX_CASE_CHARS} are allowed",
    )
    return case


def fenced(body: str) -> str:
    """The program of an accepted action body in a code fence of its own."""
    program = without_fence(body.strip())
    longest = max((len(run) for run in re.findall("`+", program)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}python\n{program}\n{mark}"


def _defines(tree: ast.Module, function: str) -> bool:
    """Whether a statement at the top level binds the name ``function``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return True
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == function for target in node.targets
        ):
            return True
    return False


def _is_shallow(value: Any, depth: int) -> bool:
    if not isinstance(value, (list, dict)):
        return True
    items = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in items)


def _refuse_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_number, parse_float=_finite)
