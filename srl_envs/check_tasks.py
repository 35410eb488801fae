"""List the rows of task collections that cannot be played: ``python -m srl_envs.check_tasks FORMAT:PATH``.

Exit code 0: every row can be played. 1: some cannot; each is printed with its line, id and reason.
2: a collection cannot be read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from srl_envs.errors import SRLError
from srl_envs.foreign_code import load_entry_point
from srl_envs.reading.task_rows import TaskReport, read_source

FORMATS = {
    "humaneval": "srl_envs.families.coding.tasks:check_source",
    "mbpp": "srl_envs.families.coding.tasks:check_source",
    "math": "srl_envs.families.reasoning.math_duel:check_source",
    "gsm8k": "srl_envs.families.reasoning.math_duel:check_source",
}
"""Format -> ``package.module:function`` that makes its report."""


def check_tasks(source: str) -> TaskReport[Any]:
    """Which rows can be played, and why the others cannot.

    Args:
        source: ``FORMAT:PATH`` as in the option ``tasks`` of the environments.

    Raises:
        ConfigError: the collection cannot be read, or a row is not of the format.
        SandboxError: the sandbox that runs the reference programs failed.
    """
    name, _ = read_source(source, FORMATS)
    report: TaskReport[Any] = load_entry_point(FORMATS[name])(source)
    return report


def main(sources: Sequence[str]) -> int:
    """Print a line per collection and per row left out; see the module for the exit code."""
    if not sources:
        print("usage: python -m srl_envs.check_tasks FORMAT:PATH [...]", file=sys.stderr)  # noqa: T201
        return 2
    unusable = 0
    for source in sources:
        try:
            report = check_tasks(source)
        except SRLError as error:
            print(f"check_tasks: {error}", file=sys.stderr)  # noqa: T201 - a program's output
            return 2
        except KeyboardInterrupt:
            print("check_tasks: interrupted.", file=sys.stderr)  # noqa: T201
            return 130
        sizes = ", ".join(f"{len(tasks)} {name}" for name, tasks in report.splits.items())
        print(f"{source}: {len(report.tasks)} rows can be played ({sizes})")  # noqa: T201
        for row in report.rejected:
            print(f"  {row}")  # noqa: T201
        unusable += len(report.rejected)
    return 1 if unusable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
