"""Reading what players send: programs and attacking inputs, as pure functions over untrusted text."""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, NoReturn

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError
from srl_envs.reading.python_text import read_python, without_fence

EMPTY_PROGRAM = "def solve(data):\n    raise NotImplementedError"
"""What a seat plays that never sends a program: right on no input."""
MAX_ATTACKS = 3
MAX_DEPTH = 8
"""Nesting of an attacking input; the deepest problem needs 3."""


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
