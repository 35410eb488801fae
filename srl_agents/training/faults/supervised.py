"""A child process under supervision: started again when it ends or falls silent; its output is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from srl_agents.own_folders import remove_left
from srl_envs.child_imports import same_imports
from srl_envs.errors import ConfigError, DeadlineError, ModelError, SRLError

USER_ERROR = 2
"""Exit code of a command: what is wrong is the user's to fix, and another try would end alike."""
_TAIL = 12
"""Last lines of its log in our messages."""


class Supervised:
    """Starts a command again when it ends or falls silent, a limited number of times in a row.

    The command must end when its standard input does, so that it never outlives its starter.

    Args:
        what: names it in messages, such as "the generation process".
        command: to run.
        log: file that its output is added to.
        patience_s: longest silence while a caller waits.
        restarts: how often in a row, without a sign of life, it is started again.
        say: shows a line; from another thread.
    """

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        log: Path,
        *,
        patience_s: float,
        restarts: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.log, self._what, self._command, self._say = log, what, list(command), say
        self._patience_s, self._restarts = patience_s, restarts
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._heard_s = time.monotonic()
        self._watching: list[threading.Thread] = []
        self._deaths = 0
        self._fault: SRLError | None = None
        self._closed = False
        self.starts = 0
        """Number of times that it was started."""

    @property
    def pid(self) -> int | None:
        """Process id of the child, while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Start it; from now on it is watched."""
        with self._lock:
            self._launch()

    def wait_begins(self) -> None:
        """A caller begins to wait: silence counts from now."""
        self._heard_s = time.monotonic()

    def heard(self) -> None:
        """Note a sign of life of the process."""
        self._heard_s, self._deaths = time.monotonic(), 0

    def check(self) -> None:
        """Call while waiting: ends a process that is silent for too long, and raises what is final.

        Raises:
            ModelError: it ended too often; with its last words.
            ConfigError: it ended because of the user's mistake; likewise.
            DeadlineError: it fell silent too often; likewise.
        """
        if self._fault is not None:
            raise self._fault
        if time.monotonic() - self._heard_s <= self._patience_s:
            return
        with self._lock:
            process, silence = self._process, f"did nothing for {self._patience_s:g} s"
            if process is None or self._closed:
                return
            self._deaths += 1
            if self._deaths > self._restarts:
                raise DeadlineError(
                    f"{self._what} {silence}; see {self.log}.\n{self._last_words()}"
                )
            self._say(f"{self._what} {silence}; starting it again")
            self._launch()

    def close(self) -> None:
        """End the process, and do not start it again."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
        if process is not None:
            _end(process)
            remove_left()
        for thread in self._watching:
            thread.join()

    def _launch(self) -> None:
        """Replace the process; the one before is ended."""
        if self._process is not None:
            _end(self._process)
        self.starts += 1
        self.wait_begins()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **same_imports()},
            )
        watching = threading.Thread(target=self._watch, args=(self._process,), daemon=True)
        self._watching = [*(known for known in self._watching if known.is_alive()), watching]
        watching.start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a process; unless it was ended on purpose, start the next."""
        code = process.wait()
        remove_left()
        with self._lock:
            if self._closed or process is not self._process:
                return
            ended = f"{self._what} ended with exit code {code}"
            if code == USER_ERROR:
                self._fault = ConfigError(f"{ended}; see {self.log}.\n{self._last_words()}")
                return
            self._deaths += 1
            if self._deaths > self._restarts:
                self._fault = ModelError(f"{ended}; see {self.log}.\n{self._last_words()}")
                return
            self._say(f"{ended}; starting it again ({self._deaths} of {self._restarts})")
            self._launch()

    def _last_words(self) -> str:
        try:
            with self.log.open("rb") as file:
                lines = deque(file, maxlen=_TAIL)
        except OSError:
            return ""
        return b"".join(lines).decode(errors="replace").rstrip()


def be_child(work: Callable[[], None]) -> None:
    """Do the work of such a process: an SRL error becomes a line of its log, its exit code names the kind.

    Raises:
        SystemExit: after an error of ours; `USER_ERROR` if trying again would end alike.
    """
    try:
        work()
    except SRLError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(USER_ERROR if isinstance(error, ConfigError) else 1)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the child process and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
