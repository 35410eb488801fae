"""Reading what players send: programs and attacking inputs, as pure functions over untrusted text."""

from __future__ import annotations

import ast
import json
import math
import re
import threading
import warnings
from typing import Any, NoReturn

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError

EMPTY_PROGRAM = "def solve(data):\n    raise NotImplementedError"
"""What a seat plays that never sends a program: right on no input."""
MAX_PROGRAM_BYTES = 4000
"""The other seat reads the whole program, so it must fit a prompt."""
MAX_PROGRAM_LINES = 200
MAX_SYNTAX_DEPTH = 100
"""Levels of the syntax tree; Python's own limit would depend on how deep its caller stands."""
MAX_ATTACKS = 3
MAX_DEPTH = 8
"""Nesting of an attacking input; the deepest problem needs 3."""

_FENCES = ("```", "```python", "```py", "```python3")
_WARNINGS_LOCK = threading.Lock()  # `catch_warnings` swaps process-wide state


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
    program = _without_fence(body.strip().removeprefix("\ufeff")).strip("\ufeff\r\n")
    try:
        size = len(program.encode())
    except UnicodeEncodeError:
        raise IllegalMoveError("the program holds characters that are not Unicode text") from None
    require_action(
        size <= MAX_PROGRAM_BYTES,
        f"the program has {size} bytes; at most {MAX_PROGRAM_BYTES} are allowed",
    )
    require_action(
        len(program.splitlines()) <= MAX_PROGRAM_LINES,
        f"the program has more than {MAX_PROGRAM_LINES} lines",
    )
    tree = syntax_tree(program)
    require_action(_depth(tree) <= MAX_SYNTAX_DEPTH, "the program is nested too deeply")
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
    text = _without_fence(body.strip())
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


def _without_fence(body: str) -> str:
    """What stands inside a code fence that spans the whole body; else the body itself."""
    first, _, rest = body.partition("\n")
    if first.strip().lower() not in (*_FENCES, "```json"):
        return body
    inside, mark, after = rest.rpartition("```")
    require_action(bool(mark), "the code fence ``` is never closed")
    require_action(not after.strip(), "nothing may stand after the code fence")
    return inside


def fenced(body: str) -> str:
    """The program of an accepted action body in a code fence of its own."""
    program = _without_fence(body.strip())
    longest = max((len(run) for run in re.findall("`+", program)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}python\n{program}\n{mark}"


def syntax_tree(program: str) -> ast.Module:
    """Parsed, never run.

    Raises:
        IllegalMoveError: it is not Python.
    """
    try:
        with _WARNINGS_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(program)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        raise IllegalMoveError(
            f"the program is no valid Python: {str(error.msg)[:100]}{where}"
        ) from None
    except (RecursionError, MemoryError):
        raise IllegalMoveError("the program is nested too deeply") from None
    except ValueError:
        raise IllegalMoveError("the program holds characters that Python does not take") from None


def _depth(tree: ast.Module) -> int:
    """Levels of a syntax tree."""
    level: list[ast.AST] = [tree]
    depth = 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth


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
