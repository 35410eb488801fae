"""Attacks many targets, each in a process of its own, so that none can end or slow down the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from srl_envs.errors import ConfigError
from srl_envs.redteam.findings import Report

_WORKER = Path(__file__).with_name("worker.py")
_OVERTIME = 20.0
"""A worker ends at this many times its budget by the clock, plus a minute for its start."""


def find_suite(path: Path | None) -> Path:
    """The folder that holds the ``srl_envs`` to attack; this one's by default.

    Raises:
        ConfigError: there is none in ``path``.
    """
    folder = path or Path(__file__).parents[2]
    if not (folder / "srl_envs" / "__init__.py").is_file():
        raise ConfigError(f"suite={str(folder)!r}: it holds no folder srl_envs; give a checkout.")
    return folder.resolve()


def list_targets(suite: Path) -> list[str]:
    """Every environment of the suite, then the scorers."""
    return list(_ask(suite, {"list": True}, 120.0))


def run(
    targets: Sequence[str], *, suite: Path, seed: int = 0, seconds: float = 60.0, jobs: int = 1,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[Report]:  # fmt: skip
    """Attack every target with an equal share of what is left.

    Args:
        targets: environments or scorers.
        suite: from `find_suite`.
        seed: of every attack.
        seconds: of processor time for all targets together.
        jobs: attacks at the same time.
        report: called with the name of each target before its attack.
    """
    done: list[Report] = []

    def attacked(target: str) -> Report:
        report(target)
        left = max(0.0, seconds - sum(found.spent_s for found in done))
        share = left / (len(targets) - len(done))
        done.append(attack_apart(target, suite=suite, seed=seed, seconds=share))
        return done[-1]

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(attacked, targets)


def attack_apart(target: str, *, suite: Path, seed: int, seconds: float) -> Report:
    """Attack one target in a process; what stops the process is a fault of the report."""
    job = {"target": target, "seed": seed, "seconds": seconds}
    try:
        return Report.from_data(_ask(suite, job, 60.0 + _OVERTIME * seconds))
    except subprocess.TimeoutExpired as error:
        fault = f"no end after {error.timeout:.0f} s of the clock"
    except (ValueError, RuntimeError) as error:
        fault = str(error)
    return Report(target=target, spent_s=seconds, faults=[fault])


def _ask(suite: Path, job: dict[str, Any], timeout_s: float) -> Any:
    path = os.pathsep.join([str(suite), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-P", str(_WORKER)], input=json.dumps(job), capture_output=True,
        text=True, timeout=timeout_s, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"the attack ended early: {lines[-1][:300]}")
    return json.loads(done.stdout)
