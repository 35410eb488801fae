"""Why a vLLM server ended, from its log: the first cause, without the noise of its shutdown."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

_PREFIX = re.compile(
    r"^(?:\([\w.:/-]+(?: pid=\d+)?\) ?)*(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?"
)
"""Process, level, time and place before a line of vLLM's."""
_CAUSE = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?:[A-Za-z_]\w*)?(?:Error|Exception)(?::|$)|\berror: ")
"""The line of an exception, or of arguments that were refused."""
_CONSEQUENCES = (
    "Engine core initialization failed",
    "WorkerProc initialization failed",
    "EngineDeadError",
    "CancelledError",
)
"""Words of exceptions that only follow from another process's exception."""
_LINES = 15
"""Last lines that are quoted where no cause is found."""
_DETAILS = 3
"""Lines of a cause, which some exceptions go on with."""
_MOST_BYTES = 1 << 20
"""Bytes that are read from the end of the log, at most."""


def cause_in(log: str) -> str:
    """The first exception that is not a consequence of another, without prefixes; else the last lines.

    Args:
        log: of one start of the server.
    """
    lines = [_PREFIX.sub("", line) for line in log.splitlines()]
    for number, line in enumerate(lines):
        if _CAUSE.search(line) and not any(words in line for words in _CONSEQUENCES):
            more = lines[number + 1 : number + _DETAILS]
            return "\n".join([line, *takewhile(lambda text: text.startswith(" "), more)])
    return "\n".join(lines[-_LINES:]).rstrip()


def cause_of(path: Path, since: int) -> str:
    """`cause_in` what a log file got since it had so many bytes; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(since, size - _MOST_BYTES))
            return cause_in(file.read().decode(errors="replace"))
    except OSError:
        return ""
