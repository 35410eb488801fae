"""Coding tasks from rows in HumanEval's format.

Fields: ``task_id``, ``prompt`` (imports, helpers, then a function that ends with its docstring),
``entry_point``, ``canonical_solution`` (its body) and ``test`` (defines ``check(candidate)``). The
whole function with its docstring is the statement, examples included.
Source: "Evaluating Large Language Models Trained on Code", arXiv:2107.03374.
"""

from __future__ import annotations

import ast

from srl_envs.families.coding.tasks.asserts import signature_of, single_asserts
from srl_envs.families.coding.tasks.recorded import RecordedRow, accepted
from srl_envs.reading.task_rows import Rejected, Row


def read_row(row: Row) -> RecordedRow | Rejected:
    """The task of a row.

    Raises:
        ConfigError: a field is missing or no text.
    """
    name, prompt, function = row.text("task_id"), row.text("prompt"), row.text("entry_point")
    whole, check = prompt + row.text("canonical_solution"), row.text("test")
    try:
        tree = ast.parse(whole)
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
        if len(found) != 1:
            return Rejected(
                row.where,
                name,
                f"prompt and solution define {function} {len(found)} times, not once",
            )
        before = tree.body[: tree.body.index(found[0])]
        preamble = "\n\n".join(map(ast.unparse, before))
        tests = single_asserts(check, preamble, function)
    except (SyntaxError, ValueError) as error:
        return Rejected(row.where, name, f"no Python: {error}")
    task = RecordedRow(
        id=name,
        text=prompt.strip(),
        function=function,
        signature=signature_of(found[0]),
        reference=ast.unparse(found[0]),
        preamble=preamble,
        shown=(),
        tests=tests,
    )
    return accepted(task, row.where)
