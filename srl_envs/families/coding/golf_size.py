"""The size of a program in spec golf, and what may not stand in one.

Layout, comments and the length of names are free, so data may not be smuggled through them: texts and
numbers are paid by length, and whatever turns text into code or reaches an object by the text of its
name is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from srl_envs.core import require_action
from srl_envs.families.coding.submissions import syntax_tree

BYTES_PER_NODE = 2
"""Of a text (UTF-8) or a whole number. Golfed programs have one to two characters a node, and packed
ones under two bytes a node: a program inside a text is never smaller than the program."""
MODULES = (
    "bisect", "collections", "datetime", "fractions", "functools", "heapq", "itertools", "math",
    "operator", "re", "typing",
)  # fmt: skip
"""What may be imported."""
REFUSED = frozenset(
    {
        "eval", "exec", "compile", "open", "input", "getattr", "setattr", "delattr", "globals",
        "locals", "vars", "dir", "breakpoint", "help", "attrgetter", "methodcaller",
        "get_type_hints", "ForwardRef", "evaluate_forward_ref", "sys", "modules", "builtins",
        "gi_frame", "cr_frame", "ag_frame", "tb_frame", "f_back", "f_builtins", "f_globals",
        "f_locals", "f_code", "gi_code", "cr_code", "ag_code",
    }
)  # fmt: skip
"""Names that no part of a program may have."""


def program_size(program: str) -> int:
    """Nodes of the syntax tree, without the marks Load, Store and Del; texts and numbers by length.

    Args:
        program: Python, as `submissions.read_program` returns it.
    """
    return sum(
        _price(node.value) if isinstance(node, ast.Constant) else 1
        for node in ast.walk(syntax_tree(program))
        if not isinstance(node, ast.expr_context)
    )


def refuse_tricks(program: str) -> None:
    """Refuse what could run text as code.

    Raises:
        IllegalMoveError: the program imports another module than `MODULES`, or uses a name that is
            refused; the text names it.
    """
    for node in ast.walk(syntax_tree(program)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                _require_module(alias.name)
        if isinstance(node, ast.ImportFrom):
            require_action(node.level == 0, "relative imports are not allowed")
            _require_module(node.module or "")
        for name in _names(node):
            defined = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            require_action(
                name not in REFUSED and (defined or not name.startswith("__")),
                f"the name {name[:40]} may not be used here",
            )
            require_action(
                not (isinstance(node, ast.Attribute) and name.startswith("_")),
                f"the attribute {name[:40]} may not be used here",
            )


def _price(value: object) -> int:
    if isinstance(value, str):
        return max(1, -(-len(value.encode("utf-8", "surrogatepass")) // BYTES_PER_NODE))
    if isinstance(value, bytes):
        return max(1, -(-len(value) // BYTES_PER_NODE))
    if isinstance(value, int):
        return max(1, -(-value.bit_length() // (8 * BYTES_PER_NODE)))
    return 1


def _require_module(name: str) -> None:
    allowed = name in MODULES or name == "__future__"
    require_action(allowed, f"import only from {', '.join(MODULES)}; not {name[:40]}")


def _names(node: ast.AST) -> Iterator[str]:
    """Every identifier that the node itself holds; a pattern's attributes are among them."""
    if isinstance(node, (ast.Constant, ast.ImportFrom)):
        return
    for _, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str):
                yield item
