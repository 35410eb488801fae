"""The size of a program in spec golf: nodes of its syntax tree, and data by its bytes.

A node carries at most two bytes: its kind, and which of the known names it holds. A node of several
names costs 1 for each; only an import holds two for 1, its member of few and its own name. A text, a number
and a name that keeps its text carry one byte for each unit of their price. So no place is cheaper
for data than the program itself (docs/design/golf.md).
"""

from __future__ import annotations

import ast

from srl_envs.families.coding.golf.names import NAMES
from srl_envs.reading.python_text import syntax_tree

FLOAT_BYTES = 8


def program_size(program: str) -> int:
    """Nodes of the syntax tree, without the marks Load, Store and Del; data by its bytes.

    Args:
        program: Python, before or after `golf_form.one_form`: both have the same size.
    """
    return sum(map(_price, ast.walk(syntax_tree(program))))


def _price(node: ast.AST) -> int:
    if isinstance(node, ast.expr_context):
        return 0
    if isinstance(node, ast.Constant):
        return max(1, _bytes(node.value))
    if isinstance(node, ast.keyword) and node.arg is not None and node.arg not in NAMES:
        return 1 + len(node.arg.encode())
    return max(1, _names_in_lists(node))


def _names_in_lists(node: ast.AST) -> int:
    """Of ``global``, ``nonlocal``, the members of a class pattern, and whatever Python adds."""
    lists = [value for _, value in ast.iter_fields(node) if isinstance(value, list)]
    return sum(isinstance(item, str) for items in lists for item in items)


def _bytes(value: object) -> int:
    """Bytes that a constant takes; 0 for those that hold no data, such as None."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, int):
        return -(-value.bit_length() // 8)
    return FLOAT_BYTES if isinstance(value, float | complex) else 0
