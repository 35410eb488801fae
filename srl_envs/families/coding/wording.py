"""Texts that the coding games share."""

from __future__ import annotations

from collections.abc import Sequence

from srl_envs.families.coding.judging import BUDGET_PER_TEST_S, BUDGET_S
from srl_envs.families.coding.task import Task
from srl_envs.reading.python_text import MAX_PROGRAM_BYTES
from srl_envs.sandbox.lending import LIMITS

LIMIT_RULE = (
    f"Limits: {MAX_PROGRAM_BYTES} bytes of code; per input {LIMITS.cpu_s:g} s and "
    f"{LIMITS.memory_mib} MB; for all inputs together {BUDGET_S:g} s, and "
    f"{BUDGET_PER_TEST_S:g} s more for each."
)


def task_block(task: Task, examples: Sequence[str]) -> str:
    """Title, statement and shown tests."""
    shown = task.example_block(examples)
    return f"TASK: {task.title}\n{task.statement}" + (f"\n{shown}" if shown else "")


def how_to_send(task: Task) -> str:
    """The form of a reply that holds a program."""
    return (
        "Reply with the whole program, like this:\n"
        f"<action>\ndef {task.signature}:\n    return 0\n</action>"
    )


def quoted_program(program: str) -> str:
    """Each line behind a bar, so that none reads as a line of the game."""
    return "\n".join(f"| {line}" for line in program.splitlines())
