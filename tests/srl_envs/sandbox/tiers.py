"""Executors of one tier; a test is skipped only where the kernel does not grant the tier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from srl_envs.errors import SandboxError
from srl_envs.sandbox import CodeExecutor, Limits


def executor_of(tier: str, limits: Limits | None = None, **options: Any) -> CodeExecutor:
    """The executor, unless this kernel lacks what the tier needs; other failures are failures."""
    try:
        return CodeExecutor(limits, isolation=tier, **options)
    except SandboxError as error:
        if "is not available here" not in str(error):
            raise
        pytest.skip(f"this kernel does not grant {tier}: {error}")


def serving(executor: CodeExecutor) -> int:
    """Process id, on the host, of the process that programs are forked from."""
    outer = executor._dispatcher.server_pid
    if executor._dispatcher.tier != "namespaces":
        return outer
    (inner,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return int(inner)
