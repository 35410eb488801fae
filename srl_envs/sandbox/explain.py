"""Names the limit of the sandbox behind an error that a program saw."""

from __future__ import annotations

from srl_envs.sandbox.limits import Limits

_SCRATCH = "a scratch directory is there for programs whose text mentions writing, as in open()"


def named_limit(message: str, limits: Limits, tier: str) -> str:
    """The message, with the limit that explains it in brackets; unchanged where there is none.

    Args:
        message: of a Python exception, such as ``OSError: [Errno 30] Read-only file system``.
        limits: of the run.
        tier: isolation tier in force.
    """
    memory = f"memory_mib={limits.memory_mib}, the stacks of threads included"
    scratch = _SCRATCH if tier == "namespaces" else f"isolation {tier!r} has no scratch directory"
    processes = f"processes={limits.processes}"
    for sign, limit in (
        ("MemoryError", memory),
        ("can't start new thread", f"threads={limits.threads}; {memory}"),
        ("[Errno 30]", f"read-only files; {scratch}"),
        ("[Errno 28]", f"the scratch directory holds {4 * limits.output_kib} KiB"),
        ("[Errno 27]", f"output_kib={limits.output_kib} for each file"),
        ("[Errno 24]", f"files={limits.files}"),
        ("[Errno 11]", f"threads={limits.threads}; {processes}"),
        ("[Errno 12]", memory),
        ("[Errno 1] ", f"not for programs: other processes, the host; {processes}"),
        ("[Errno 13]", "not for programs: sockets, other processes, the host's files"),
    ):
        if sign in message:
            return f"{message[:150]} (sandbox: {limit})"
    return message
