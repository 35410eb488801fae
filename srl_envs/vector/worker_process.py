"""Start, use and end a worker process of a vector."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from srl_envs.child_imports import same_imports
from srl_envs.errors import ConfigError, SRLError, VectorError
from srl_envs.vector.channel import Channel, ChannelClosedError
from srl_envs.vector.worker import FAILED

_STOP_S = 10.0
"""Seconds that a worker has to close its environments before it is killed."""


class WorkerProcess:
    """One process and its share of the environments.

    A fresh interpreter, not a fork: a fork of a program with threads may hang, and multiprocessing's
    own spawning would run the user's script a second time.

    Args:
        number: of the worker, for messages.
        settings: (spec, options, wrap, indices), as `worker.serve` reads them.

    Raises:
        ConfigError: an option or the wrapper cannot be sent to another process.
    """

    def __init__(self, number: int, settings: tuple[Any, Any, Any, Sequence[int]]) -> None:
        indices = settings[-1]
        self._name = f"worker {number} (environments {indices[0]} to {indices[-1]})"
        try:
            packed = pickle.dumps(settings)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"workers={number + 1} or more: options and wrap are sent to other processes, and one "
                f"of them cannot be: {error}. Use functions of an importable module, or workers=0."
            ) from None
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "srl_envs.vector", str(theirs.fileno())],
                # an environment may be in a file that is not installed
                env={**os.environ, **same_imports()},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._channel = Channel(ours)
        self.send(packed)

    def send(self, message: Any) -> None:
        """Send a message; `receive` reports a worker that is gone, with the reason."""
        try:
            self._channel.send(message)
        except ChannelClosedError:
            return

    def receive(self) -> Any:
        """The worker's next answer.

        Raises:
            VectorError: a worker ended or failed; names the worker and the cause.
            SRLError: what the environments raised when they were made.
        """
        try:
            kind, content = self._channel.receive()
        except ChannelClosedError:
            raise VectorError(f"{self._name} {self._ending()}; make the vector anew.") from None
        if kind == FAILED:
            error, text = content
            if isinstance(error, SRLError):
                raise error
            raise VectorError(f"{self._name} failed: {text}")
        return content

    def _ending(self) -> str:
        """How the process ended, in words."""
        pid = self.process.pid
        try:
            code = self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            return f"(process {pid}) closed its connection but still runs"
        if code < 0:
            return f"(process {pid}) was killed by {signal.Signals(-code).name}"
        return f"(process {pid}) ended with exit code {code}"

    def close(self) -> None:
        """End the process and wait until it is gone."""
        self._channel.close()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
