"""Python that a player sends: taken out of its code fence, bounded and parsed, never run."""

from __future__ import annotations

import ast
import threading
import warnings

from srl_envs.core import require_action
from srl_envs.errors import IllegalMoveError

MAX_PROGRAM_BYTES = 4000
"""The other seat reads the whole program, so it must fit a prompt."""
MAX_PROGRAM_LINES = 200
MAX_SYNTAX_DEPTH = 100
"""Levels of the syntax tree; Python's own limit would depend on how deep its caller stands."""

_FENCES = ("```", "```python", "```py", "```python3")
_WARNINGS_LOCK = threading.Lock()  # `catch_warnings` swaps process-wide state


def read_python(body: str) -> tuple[str, ast.Module]:
    """The program in an action body, and its syntax tree.

    Raises:
        IllegalMoveError: it is too long or no Python.
    """
    program = without_fence(body.strip().removeprefix("\ufeff")).strip("\ufeff\r\n")
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
    return program, tree


def without_fence(body: str) -> str:
    """What stands inside a code fence that spans the whole body; else the body itself."""
    first, _, rest = body.partition("\n")
    if first.strip().lower() not in (*_FENCES, "```json"):
        return body
    inside, mark, after = rest.rpartition("```")
    require_action(bool(mark), "the code fence ``` is never closed")
    require_action(not after.strip(), "nothing may stand after the code fence")
    return inside


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
