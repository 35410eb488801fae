"""A person at the keyboard as a policy."""

from __future__ import annotations

import os
import stat
import sys

from srl_agents.agents.grammar import HUMAN
from srl_envs.core import seat_name
from srl_envs.errors import ConfigError, SRLError
from srl_envs.turns.grammar import CLOSE, OPEN, action

FENCE = "```"
_HELP = (
    "Type your move as in the example, without the tags (they are added), or a whole reply with\n"
    f"{OPEN}...{CLOSE}. A program starts with a line {FENCE}python and ends with {FENCE}.\n"
    "`pause` keeps the game in a file, and `quit` leaves the game."
)


class LeaveGameError(SRLError):
    """The person has had enough, or the keyboard is closed."""


class PauseGameError(LeaveGameError):
    """The person pauses the game; it can be continued."""


class Human:
    """Reads replies of one seat from standard input."""

    def __init__(self, seat: int) -> None:
        self.seat = seat
        self._turns = 0

    def __call__(self, text: str) -> str:
        """One reply; a bare move gets its tags.

        Raises:
            LeaveGameError: end of input, or the person types ``quit`` or ``pause``.
        """
        self._turns += 1
        while True:
            reply = self._read()
            word = reply.strip().lower()
            if word in ("quit", "exit", ":q"):
                raise LeaveGameError(
                    f"you left in turn {self._turns}; the game is not finished and not saved."
                )
            if word == "pause":
                raise PauseGameError("paused.")
            if word in ("", "help", "?"):
                print(f"{text.strip()}\n\n{_HELP}")
            else:
                return reply if OPEN in reply else action(reply.strip())

    def _read(self) -> str:
        """A line, or all lines of a code block or of an action that was left open."""
        lines = [self._line(f"{seat_name(self.seat)}> ")]
        if lines[0].strip().startswith(FENCE):
            while len(lines) == 1 or lines[-1].strip() != FENCE:
                lines.append(self._line("... "))
        while OPEN in lines[0] and not any(CLOSE in line for line in lines):
            lines.append(self._line("... "))
        return "\n".join(lines)

    def _line(self, prompt: str) -> str:
        try:
            if sys.stdin.isatty():
                import readline  # noqa: F401 - its import is what makes input() editable

            return input(prompt)
        except EOFError:
            print()
            raise LeaveGameError(
                f"the input ended in turn {self._turns}; the game is not finished and not saved."
            ) from None


def require_terminal() -> None:
    """Refuse the human player where the command has no terminal.

    Raises:
        ConfigError: standard input is closed, or is a device but not a terminal, such as /dev/null.
    """
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        usable = sys.stdin is not None and not sys.stdin.closed  # a stand-in that reads from memory
    else:
        usable = sys.stdin.isatty() or not stat.S_ISCHR(mode)
    if not usable:
        raise ConfigError(
            f"agent {HUMAN!r}: the command has no terminal. Give the command in one, or pipe replies "
            "into it, one per line."
        )
