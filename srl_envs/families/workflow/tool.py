"""The tool of a team: a program that one seat sends, run in the sandbox, and the one line that it leaves.

A program gets no input, so what it is to work on stands in it. All that the team reads of it is one line
without markup: it can forge neither an action block nor a line of the game.
"""

from __future__ import annotations

import re

from srl_envs.core import require_action
from srl_envs.messages import clean_message, quoted
from srl_envs.reading.python_text import MAX_PROGRAM_BYTES, MAX_PROGRAM_LINES, read_python
from srl_envs.sandbox.lending import LIMITS, Borrower, sound

NO_PROGRAM = "none"
PRINT_CHARS = 300
"""Of what a program prints, as much is shown."""
TOOL_RULE = (
    f"A program gets no input. It may have {MAX_PROGRAM_BYTES} bytes in {MAX_PROGRAM_LINES} lines, and run "
    f"for {LIMITS.cpu_s:g} s in {LIMITS.memory_mib} MB."
)
_FAULT_CHARS = 120
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-f]+")
"""Of an object that is printed. It differs from run to run, and replays compare every text."""


class Tool(Borrower):
    """Runs programs and keeps nothing between them; see `Borrower`."""

    def run(self, program: str, given: str = "") -> str:
        """What the team reads: ``printed "..."``, ``printed nothing``, or how the program failed.

        Args:
            program: source text.
            given: what it finds on standard input.

        Raises:
            SandboxError: the sandbox failed; nothing is known of the program.
        """
        outcome = sound(self._live().run_stdin(program, [given])[0])
        text = clean_message(_ADDRESS.sub("0x0", outcome.stdout), PRINT_CHARS)
        printed = f"printed {quoted(text)}" if text else "printed nothing"
        if outcome.status == "ok":
            return printed
        why = outcome.status.replace("_", " ")
        if outcome.status == "exception":
            why = clean_message(_ADDRESS.sub("0x0", outcome.message), _FAULT_CHARS)
        return f"{printed} and failed: {quoted(why)}"


def read_tool(body: str) -> str:
    """A program of the tool seat; empty for `NO_PROGRAM`.

    Raises:
        IllegalMoveError: it is empty, too long, or no Python.
    """
    if body.strip().lower() == NO_PROGRAM:
        return ""
    program, tree = read_python(body)
    require_action(bool(tree.body), f"the program is empty; to run nothing write {NO_PROGRAM}")
    return program
