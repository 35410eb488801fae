"""Measurements in child processes: what they took is their own, and nothing of it stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def status_mib(field: str) -> float:
    """A line of this process's status, such as ``VmHWM`` or ``VmRSS``, in MiB."""
    status = Path("/proc/self/status").read_text()  # getrusage would tell the parent's peak, too
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


def forget_peak() -> None:
    """Let the peak begin at what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def in_child(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module with arguments; what it prints last is JSON."""
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
