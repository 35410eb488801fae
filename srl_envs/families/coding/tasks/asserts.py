"""Taking test code apart into single asserts, each of which runs by itself."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

_FIXED = "import random\nrandom.seed(0)"
"""In front of every test: what a test draws is the same in every run."""


def single_asserts(tests: str, preamble: str, function: str) -> tuple[str, ...]:
    """One test per statement of ``check(candidate)`` that asserts something.

    What ``check`` does besides stays in front of every assert that comes after it. A loop around
    asserts is one test, and so is a whole ``check`` with functions of its own that assert. Asserts on
    nothing but constants (``assert True``) are not tests.

    Args:
        tests: a module that defines ``check(candidate)``.
        preamble: put in front of each test.
        function: name that ``check`` is called with.

    Returns:
        Test code; () without a ``check``, or without an assert in it.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(tests)
    checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if len(checks) != 1:
        return ()
    (check,) = checks
    others = [node for node in tree.body if node is not check]
    nested = any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in check.body)
    if nested and _asserts(check):
        return (_module([*others, check], preamble, function),)
    found, context = [], []
    for statement in check.body:
        if not _asserts(statement):
            if not isinstance(statement, ast.Assert):
                context.append(statement)
            continue
        one_assert = ast.FunctionDef(
            name="check",
            args=check.args,
            body=[*context, statement],
            decorator_list=[],
            returns=None,
            type_comment=None,
        )
        found.append(_module([*others, one_assert], preamble, function))
    return tuple(found)


def plain_assert(test: str, preamble: str, function: str) -> str:
    """A test of one statement on this function, ready to run."""
    parts = (_FIXED, preamble, _taken(function), test.strip())
    return "\n".join(part for part in parts if part)


def _taken(function: str) -> str:
    """The import that a test needs where the program's function is named like a builtin."""
    return f"from solution import {function}" if hasattr(builtins, function) else ""


def asserted(test: str, function: str) -> str:
    """The statement that decides a test made here, on one line."""
    tree = ast.parse(test)
    last = tree.body[-1]
    check = next(
        (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"), None
    )
    if check is not None and not isinstance(last, ast.Assert):
        last = check.body[-1]
        for node in ast.walk(last):
            if isinstance(node, ast.Name) and node.id == check.args.args[0].arg:
                node.id = function
    return " ".join(ast.unparse(last).split())


def names_called(tests: Sequence[str]) -> set[str]:
    """Names that test code uses as functions.

    Raises:
        SyntaxError: it is not Python.
    """
    return {
        node.func.id
        for test in tests
        for node in ast.walk(ast.parse(test))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }


def signature_of(function: ast.FunctionDef) -> str:
    """Name, parameters and return type as they are written after ``def``."""
    returned = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{function.name}({ast.unparse(function.args)}){returned}"


def _asserts(statement: ast.AST) -> bool:
    """Whether it asserts anything besides constants."""
    return any(
        isinstance(node, ast.Assert) and any(isinstance(n, ast.Name) for n in ast.walk(node.test))
        for node in ast.walk(statement)
    )


def _module(body: list[ast.stmt], preamble: str, function: str) -> str:
    tree = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    parts = (_FIXED, preamble, _taken(function), ast.unparse(tree), f"check({function})")
    return "\n".join(part for part in parts if part)
