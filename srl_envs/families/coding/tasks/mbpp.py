"""Coding tasks from rows in MBPP's format, as first published or sanitized.

Fields: ``task_id``, ``text`` or ``prompt`` (the statement), ``code`` (a program), ``test_list``
(asserts), and, where there are some, ``challenge_test_list``, ``test_setup_code`` and
``test_imports``. The first assert is shown, since the statement does not say how the function is
called; the others are hidden. A row with one assert shows none.
Source: "Program Synthesis with Large Language Models", arXiv:2108.07732.
"""

from __future__ import annotations

import ast

from srl_envs.families.coding.tasks.asserts import names_called, plain_assert, signature_of
from srl_envs.families.coding.tasks.recorded import RecordedRow, accepted
from srl_envs.reading.task_rows import Rejected, Row


def read_row(row: Row) -> RecordedRow | Rejected:
    """The task of a row.

    Raises:
        ConfigError: a field is missing or of another type.
    """
    number = row.fields.get("task_id")
    if type(number) is not int and not (isinstance(number, str) and number.strip()):
        row.refuse("field 'task_id' must be a number or a text that is not empty")
    name = f"MBPP/{number}"
    text = row.text("text" if "text" in row.fields else "prompt").strip()
    code = row.text("code").replace("\r\n", "\n")
    asserts = row.texts("test_list") + row.texts("challenge_test_list", optional=True)
    setup = row.fields.get("test_setup_code") or ""
    if not isinstance(setup, str):
        row.refuse("field 'test_setup_code' must be text")
    preamble = "\n".join([*row.texts("test_imports", optional=True), setup]).strip()
    try:
        called = names_called(asserts)
        defined = {n.name: n for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)}
        tested = [function for function in defined if function in called]
        ast.parse(preamble)
    except (SyntaxError, ValueError) as error:
        return Rejected(row.where, name, f"no Python: {error}")
    if len(tested) != 1:
        which = ", ".join(tested) or "none"
        return Rejected(
            row.where, name, f"the tests must call one function of the code; found: {which}"
        )
    calling = (test.strip() for test in asserts if tested[0] in names_called([test]))
    distinct = tuple(dict.fromkeys(calling))
    shown = distinct[:1] if len(distinct) > 1 else ()
    task = RecordedRow(
        id=name,
        text=text,
        function=tested[0],
        signature=signature_of(defined[tested[0]]),
        reference=code.strip(),
        preamble=preamble,
        shown=shown,
        tests=tuple(plain_assert(test, preamble, tested[0]) for test in distinct[len(shown) :]),
    )
    return accepted(task, row.where)
