"""What the scripted teams of this room share: whose part is due, and what the last program printed."""

from __future__ import annotations

import re
from collections.abc import Callable

from srl_envs.families.workflow.team import WRITE_CODE
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_DUE = re.compile(rf"^ROUND \d+ of \d+\. {WRITE_CODE} now\.$", re.MULTILINE)
_PRINTED = re.compile(r'^Round \d+: the program printed "(.*)"\.$', re.MULTILINE)


def wants_program(text: str) -> bool:
    """Whether a program is due; only a line of the game counts, because a program may print any words."""
    return _DUE.search(text) is not None


def last_printed(text: str) -> str:
    """What the last program that ended well printed; "" where none printed anything."""
    printed = _PRINTED.findall(text)
    return str(printed[-1]) if printed else ""


def team(write: Callable[[str], str], answer: Callable[[str], str]) -> Bot:
    """Both parts of a team; each takes the observation's text.

    Args:
        write: the body of a reply that sends a program.
        answer: the body of a reply that answers.
    """
    return lambda text: action(write(text) if wants_program(text) else answer(text))
