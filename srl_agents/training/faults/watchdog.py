"""Ends a process that hangs where no exception can reach it: in a driver or a file system."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Callable
from pathlib import Path

from srl_agents.recipes.sections.fault_kinds import STOPPED

STACKS = "hang.txt"
"""File in a run's folder: where every thread was."""
_LAST_WORDS_S = 60.0
"""Limit for what has to be written before the process ends; the disk may be what hangs."""


def end_process(folder: Path, last_words: Callable[[], str], say: Callable[[str], None]) -> None:
    """Write where every thread is, say the last words, and end at once, without closing anything.

    Args:
        folder: of the run; gets `STACKS`.
        last_words: saves what can be saved, and returns what to say.
        say: shows it, and returns when it is shown.
    """

    def speak() -> None:
        with (folder / STACKS).open("w") as file:
            faulthandler.dump_traceback(file, all_threads=True)
        say(last_words())

    speaking = threading.Thread(target=speak, daemon=True)
    speaking.start()
    speaking.join(_LAST_WORDS_S)
    os._exit(STOPPED)
