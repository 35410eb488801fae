"""Measure agents with Inspect, which is installed in an environment of its own.

Inspect is another program: it gets a plan on its standard input, asks the agent through a `ReplyServer`,
and prints what every sample scored. Its own logs stay beside the results, for ``inspect view``.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import srl_envs
from srl_agents.agents.players import ModelPolicy
from srl_agents.engines.endpoint.providers import without_keys
from srl_agents.exports.reply_server import ReplyServer
from srl_agents.league.ratings.intervals import paired_interval
from srl_envs.child_imports import SAFE
from srl_envs.errors import ConfigError, ModelError

PYTHON = "SRL_INSPECT_PYTHON"
"""Environment variable: an interpreter that has Inspect."""
_PROBE = "import inspect_ai, httpx, gymnasium, pettingzoo"
_POLL_S = 0.2
_SILENCE_S = 900.0
"""Without one more reply for so long, Inspect is given up."""
Plan = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of one agent in one task."""

    agent: str
    task: str
    samples: Mapping[str, float]
    """Score by sample; of a game ``seed/seat``."""
    void: int = 0
    """Samples that failed by our own fault, and count nowhere."""

    @property
    def mean(self) -> float:
        """Over samples."""
        return float(np.mean(list(self.samples.values()))) if self.samples else math.nan

    @property
    def half_width(self) -> float:
        """Half width of the mean's 95 % interval, by Student's t over clusters."""
        return _half_width(_clustered(self.samples))

    def gain_over(self, other: Measured) -> tuple[float, float]:
        """Mean difference on the samples that both have, and the half-width of its 95 % interval."""
        both = {
            key: self.samples[key] - other.samples[key]
            for key in self.samples & other.samples.keys()
        }
        if not both:
            return math.nan, math.inf
        return float(np.mean(list(both.values()))), _half_width(_clustered(both))


def interpreter(given: str | None) -> str:
    """An interpreter that has Inspect: the one given, ``SRL_INSPECT_PYTHON``, or this one.

    Raises:
        ConfigError: the interpreter has no Inspect; the message names what to install.
    """
    python = given or os.environ.get(PYTHON) or sys.executable
    try:
        done = subprocess.run(
            [python, "-c", _PROBE], capture_output=True, text=True, timeout=120, check=False,
            env={**without_keys(), **SAFE},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"{python} cannot be run ({error}); name a Python with --python."
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError(
            f"{python} has no Inspect ({last}). Make an environment for it: `python -m venv inspect`, then "
            "`inspect/bin/pip install inspect-ai gymnasium pettingzoo jsonschema google-re2`, and name "
            f"inspect/bin/python with --python or {PYTHON}."
        )
    return python


def measure(
    agent: str,
    policy: ModelPolicy,
    plan: Plan,
    *,
    python: str,
    logs: Path,
    seed: int = 0,
    replied: Callable[[int], None] = lambda _: None,
) -> list[Measured]:
    """One agent in all tasks.

    Args:
        agent: its name in the results.
        policy: who answers.
        plan: as in `srl_envs.adapters.inspect_ai.run`.
        python: an interpreter that has Inspect.
        logs: folder for Inspect's logs and what it prints.
        seed: of the agent's randomness.
        replied: called now and then with the number of replies so far.

    Raises:
        ConfigError: a task cannot be made; the message gives the cause.
        ModelError: Inspect died, or has asked nothing for a quarter of an hour.
    """
    logs.mkdir(parents=True, exist_ok=True)
    with ReplyServer(policy, seed=seed) as server, (logs / "inspect.log").open("w+") as said:
        child = subprocess.Popen(
            [python, "-m", "srl_envs.adapters.inspect_child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
            env=_environment(server), start_new_session=True,
        )  # fmt: skip
        try:
            results = _answer(
                child,
                {"model": agent.replace("/", "_"), "log_dir": str(logs), "tasks": plan},
                server,
                replied,
            )
        finally:
            child.kill()
            child.wait()
        if child.returncode or results is None:
            said.seek(0)
            last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
            raise ModelError(
                f"Inspect ended with code {child.returncode}: {last} (all of it: {said.name})"
            )
    for task in results:
        fault = task["error"] or ("" if task["samples"] else (task["void"] or ["no sample"])[0])
        if fault:
            raise ModelError(f"Inspect could not measure {task['task']}: {fault} ({task['log']})")
    return [
        Measured(
            agent,
            task["task"],
            {key: value for key, value, _ in task["samples"]},
            len(task["void"]),
        )
        for task in results
    ]


def _answer(
    child: subprocess.Popen[str],
    plan: Mapping[str, Any],
    server: ReplyServer,
    replied: Callable[[int], None],
) -> list[dict[str, Any]] | None:
    """Write the plan to the child and return what it prints, while watching that it makes progress."""
    seen, since = 0, time.monotonic()
    given: str | None = json.dumps(plan)
    while True:
        try:
            out, _ = child.communicate(given, timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            given = None
            if server.answered != seen:
                seen, since = server.answered, time.monotonic()
                replied(seen)
            elif time.monotonic() - since > _SILENCE_S:
                raise ModelError(
                    f"Inspect asked for nothing in {_SILENCE_S:.0f} s after {seen} replies."
                ) from None
            continue
        replied(server.answered)
        last = (out.strip().splitlines() or [""])[-1]
        try:
            return json.loads(last)  # type: ignore[no-any-return]
        except ValueError:
            return None


def _environment(server: ReplyServer) -> dict[str, str]:
    root = str(Path(srl_envs.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {
        **without_keys(),
        **SAFE,
        "PYTHONPATH": path,
        "SRL_EVAL_ADDRESS": server.address,
        "SRL_EVAL_SECRET": server.secret,
        "NO_PROXY": "127.0.0.1",
    }


def _clustered(samples: Mapping[str, float]) -> list[float]:
    """Means by seed, where one seed has several seats."""
    clusters: dict[str, list[float]] = {}
    for key, value in samples.items():
        name, _, seat = key.rpartition("/")
        clusters.setdefault(name if name and seat.isdigit() and name.isdigit() else key, []).append(
            value
        )
    return [float(np.mean(values)) for values in clusters.values()]


def _half_width(values: Sequence[float]) -> float:
    if not values:
        return math.inf
    return paired_interval(np.array(values), np.arange(len(values))).half_width
