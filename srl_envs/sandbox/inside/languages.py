"""Languages of programs: how one starts, what it may use on the way, how it reports.

Python is the fork server itself: a forked child becomes the program. Every other language is a
command that replaces the confined child, with a driver that reads the task from `TASK`, runs it,
and writes the same frames to the result as `programs` does. A new language is one entry here and
one driver file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

TASK = 5
"""Descriptor of the payload, for drivers."""


@dataclass(frozen=True)
class Language:
    """One entry of the table."""

    command: tuple[str, ...] = ()
    """Interpreter and its arguments, where ``{driver}`` is the driver's text and ``{memory_mib}``
    the memory limit; empty for the forked interpreter."""
    driver: str = ""
    """Driver: a file beside this one."""
    environment: tuple[tuple[str, str], ...] = ()
    base_mib: int = 0
    """MiB of private memory that an idle interpreter has; the limit of memory comes on top."""
    asserts: bool = False
    """Whether assert tests (`run_asserts`) are supported."""
    memory_signals: tuple[int, ...] = ()
    """Signals with which the interpreter ends itself when its memory is used up."""


LANGUAGES = {
    "python": Language(asserts=True),
    "javascript": Language(
        command=(
            "node",
            "--max-old-space-size={memory_mib}",
            "--stack-size=3900",
            "--no-warnings",
            "--experimental-vm-modules",  # for programs with import and export
            "--eval",
            "{driver}",
        ),
        driver="driver.js",
        environment=(
            ("OPENSSL_CONF", "/dev/null"),  # node ends where it may not read the host's
            ("UV_USE_IO_URING", "0"),
            ("UV_THREADPOOL_SIZE", "1"),
        ),
        base_mib=384,
        memory_signals=(4, 5, 6),
    ),
}


class Interpreter:
    """An interpreter that takes the place of a confined process.

    Args:
        language: name in `LANGUAGES`.
        path: absolute path of the executable.
    """

    def __init__(self, language: str, path: str) -> None:
        self._language = LANGUAGES[language]
        self._path = path
        with open(os.path.join(os.path.dirname(__file__), self._language.driver)) as file:
            self._driver = file.read()
        self.base_bytes = self._language.base_mib << 20

    def start(self, memory_bytes: int) -> None:
        """Become the interpreter; does not return."""
        filled = {"{driver}": self._driver, "{memory_mib}": str(memory_bytes >> 20)}
        arguments = []
        for argument in self._language.command:
            for place, text in filled.items():
                argument = argument.replace(place, text)  # noqa: PLW2901 - built step by step
            arguments.append(argument)
        os.execve(self._path, arguments, {**os.environ, **dict(self._language.environment)})
