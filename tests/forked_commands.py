"""`srl` commands in processes of their own, forked from one that has imported what a training run needs."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["srl_agents.cli.train", "srl_agents.training.loop.run"])


def start_command(
    arguments: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> BaseProcess:
    """Start ``srl`` with these arguments, in a session of its own.

    All of them have the hashes of one interpreter: who compares two processes starts one of them anew.

    Args:
        arguments: behind ``srl``.
        log: takes what it prints.
        variables: of the environment, besides those of this process.
    """
    return start_function(_command, ([*arguments],), log, variables)


def start_function(
    function: Callable[..., object],
    arguments: Sequence[object],
    log: Path,
    variables: Mapping[str, str] | None = None,
) -> BaseProcess:
    """Call a module's function in such a process; all else is as `start_command` has it."""
    process = _CONTEXT.Process(
        target=_call, args=(function, arguments, str(log), {**os.environ, **(variables or {})})
    )
    process.start()
    return process


def _call(
    function: Callable[..., object],
    arguments: Sequence[object],
    log: str,
    variables: dict[str, str],
) -> None:
    os.setsid()
    os.environ.update(variables)
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    function(*arguments)


def _command(arguments: list[str]) -> None:
    from srl_agents.cli.main import main

    sys.exit(main(arguments))


def torchruns_variables(processes: int) -> list[dict[str, str]]:
    """Environment variables that torchrun sets in each of its processes, all on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    size = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    return [{"RANK": str(n), "LOCAL_RANK": str(n), **size, **place} for n in range(processes)]


def finish_command(process: BaseProcess, log: Path) -> None:
    """Wait for its end, which must be a good one."""
    process.join(600)
    assert process.exitcode == 0, log.read_text()


def finish_as_torchrun(arguments: Sequence[str], log: Path, processes: int) -> None:
    """Run the command in so many processes with torchrun's variables, and expect all to succeed."""
    ranks = torchruns_variables(processes)
    for process in [start_command(arguments, log, variables) for variables in ranks]:
        finish_command(process, log)
