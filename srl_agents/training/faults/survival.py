"""Answers faults while a run goes on: reports each in one line, records it, applies the policy.

What ends the present attempt at the run, a roll-back or a stop, leaves as `FaultError`;
`srl_agents.training.supervision` goes on from there.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from srl_agents.metrics.sinks import read_lines
from srl_agents.models.memory.available import memory_of
from srl_agents.recipes.sections.fault_kinds import FAULTS, Policy
from srl_agents.recipes.sections.fault_policy import (
    CLOCK_JUMP_S,
    MIN_FREE_DISK_MIB,
    MIN_FREE_MEMORY_MIB,
    MOST_SKIPS,
    SurvivalSettings,
)
from srl_agents.records import plain_json
from srl_agents.training.faults.stalled import CollapseWatch
from srl_agents.training.faults.vital_signs import Finding, VitalSigns
from srl_agents.training.folder.layout import CHECKPOINTS
from srl_envs.errors import FaultError

EVENTS, ROLLED_BACK = "faults.jsonl", "rolled_back.json"
"""Files in a run's folder: one line per fault, and what roll-backs did to the learning rate."""
_MIB = 2**20


class MachineWatch:
    """Compares host memory, disk and clock with fixed limits, before each update.

    Args:
        folder: of the run.
        clock: seconds of the system's clock.
        passed: seconds that passed since some moment, whatever the system's clock shows.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.time,
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._clock, self._passed = clock, passed
        self._ahead = clock() - passed()

    def look(self) -> Iterator[Finding]:
        """Faults of the machine at this moment."""
        ahead = self._clock() - self._passed()
        jump, self._ahead = ahead - self._ahead, ahead
        if abs(jump) > CLOCK_JUMP_S:
            message = f"the clock moved {jump:+,.0f} s against the time that passed"
            yield Finding(fault="clock_jumped", message=message)
        free = memory_of(torch.device("cpu")).free / _MIB
        if free < MIN_FREE_MEMORY_MIB:
            message = f"{math.floor(free):,} MiB are free, less than {MIN_FREE_MEMORY_MIB:g}"
            yield Finding(fault="host_memory_low", message=message)
        room = shutil.disk_usage(self._folder).free / _MIB
        needed = MIN_FREE_DISK_MIB + 2 * self._checkpoint_mib()
        if room < needed:
            message = (
                f"{math.floor(room):,} MiB are free in {self._folder}, less than {needed:,.0f}"
            )
            yield Finding(fault="disk_low", message=message)

    def _checkpoint_mib(self) -> float:
        """Size of the newest checkpoint; 0 before the first."""
        found = sorted((self._folder / CHECKPOINTS).glob("step-*"))
        files = found[-1].iterdir() if found else ()
        return sum(file.stat().st_size for file in files) / _MIB


class Survival:
    """Supervises one attempt at a run, from its folder's last checkpoint to its end or a fault.

    Args:
        settings: of the recipe.
        learners: their names.
        folder: of the run.
        say: shows a line.
    """

    def __init__(
        self,
        settings: SurvivalSettings,
        learners: Iterable[str],
        folder: Path,
        say: Callable[[str], None],
    ) -> None:
        self.settings, self._folder, self._say = settings, folder, say
        names = list(learners)
        self.signs = VitalSigns(names)
        self.collapse = CollapseWatch(names)
        self.machine = MachineWatch(folder)
        self.update = 0
        """The one that is being made; 0 before the first."""
        self._skips: Counter[str] = Counter()
        """Skipped updates in a row, by learner."""
        self._met: set[tuple[str, str]] = set()
        """Faults and learners of the update before, which are said once while they last."""
        self._now: set[tuple[str, str]] = set()

    def begin(self, update: int) -> None:
        """An update begins; looks at the machine.

        Raises:
            FaultError: the policy of what was found ends the attempt.
        """
        self.update, self._met, self._now = update, self._now, set()
        for finding in self.machine.look():
            self.meet(finding)

    def meet(self, finding: Finding) -> Policy:
        """Answer a finding.

        Returns:
            ``go_on``, ``skip_batch``, ``halve_micro_batch`` or ``halve_play``.

        Raises:
            FaultError: the attempt ends, because the policy is another one, or because it was
                skipped too often.
        """
        policy, name = self.settings.policy(finding.fault), finding.learner
        if policy == "skip_batch":
            self._skips[name] += 1
            if self._skips[name] > MOST_SKIPS:
                policy = "stop"
        again = (finding.fault, name) in self._met
        self._now.add((finding.fault, name))
        if policy in ("roll_back", "stop"):
            raise FaultError(
                finding.message,
                fault=finding.fault,
                learner=name,
                since=finding.since or self.update,
            )
        if not again:
            write_event(self._folder, self.update, finding, policy)
            self._say(f"update {self.update}: {in_words(finding)} {_DONE[policy].format(name)}")
        return policy

    def stepped(self, learner: str) -> None:
        """A learner took its steps: what it skipped before was no row of skips."""
        del self._skips[learner]

    @property
    def spoiled(self) -> dict[str, str]:
        """Learner -> fault of the last update that its weights have not got over."""
        return {name: fault for fault, name in sorted(self._now) if fault in _SPOILS}

    @property
    def faults(self) -> dict[str, float]:
        """Metric ``fault/NAME`` of what was met in this update."""
        return {f"fault/{fault}": 1.0 for fault, _ in sorted(self._now)}

    def state(self) -> dict[str, Any]:
        """Signs, counts of refusals and faults of this update, as JSON values."""
        return {
            "signs": self.signs.state(),
            "collapse": self.collapse.state(),
            "met": sorted(map(list, self._now)),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.signs.load_state(state["signs"])
        self.collapse.load_state(state["collapse"])
        self._now = {(fault, name) for fault, name in state["met"]}


_SPOILS = ("replies_refused", "reward_collapsed", "weights_exploded", "kl_blown_up")
"""Faults of the weights themselves; a run that goes on with such weights does not export them."""
_ENDING = ("roll_back", "stop")
"""Policies that end an attempt: where they come again, that is news."""
_DONE = {
    "go_on": "The run goes on.",
    "skip_batch": "{} takes no step on this batch.",
    "halve_micro_batch": "The gradient is computed again with half the rows per pass.",
    "halve_play": "The interrupted matches are played again.",
}


def in_words(finding: Finding) -> str:
    """One line: name, what was seen, likely cause, fix."""
    kind = FAULTS[finding.fault]
    owner = f" of {finding.learner}" if finding.learner else ""
    return (
        f"{finding.fault}{owner}: {finding.message.rstrip('.')}. Likely cause: {kind.cause}. To mend it: "
        f"{kind.fix}."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RolledBack:
    """What roll-backs did to a run so far."""

    times: int = 0
    rate: float = 1.0
    """Factor of the recipe's learning rate."""

    @classmethod
    def read(cls, folder: Path) -> RolledBack:
        """Roll-backs of the run in a folder; none before the first."""
        path = folder / ROLLED_BACK
        return cls(**json.loads(path.read_text())) if path.is_file() else cls()

    def write(self, folder: Path) -> None:
        """Keep it; a kill leaves the old file or the new one, whole."""
        work = folder / f"{ROLLED_BACK}.tmp"
        work.write_text(json.dumps(asdict(self)))
        work.replace(folder / ROLLED_BACK)


def play_halved_after(folder: Path) -> int:
    """The last update in which play went on with half as much at once, so that it rounds differently; 0 if
    it never did."""
    return max((e["update"] for e in read_events(folder) if e["policy"] == "halve_play"), default=0)


def write_event(folder: Path, update: int, finding: Finding, policy: Policy) -> None:
    """Append a line about a fault to the run's `EVENTS`, once if its update is made again."""
    event = (update, policy, finding.fault, finding.learner)
    known = ((e["update"], e["policy"], e["fault"], e["learner"]) for e in read_events(folder))
    if policy not in _ENDING and event in known:
        return
    line = {
        "update": update,
        "policy": policy,
        "fault": finding.fault,
        "told": finding.message,
        "learner": finding.learner,
        "since": finding.since,
        "time": round(time.time(), 3),
    }
    with (folder / EVENTS).open("ab+") as file:
        file.seek(max(file.tell() - 1, 0))
        torn = file.read() not in (b"", b"\n")  # a full disk took a part of a line
        file.write(("\n" * torn + plain_json(line) + "\n").encode())


def read_events(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's `EVENTS`, but for those that were cut off."""
    return read_lines(folder / EVENTS)
