"""Every role of a run killed, hung and slowed in every phase, and what must come of each.

A cell is a run of two updates in forked processes of its own. In the second update one role is struck.
Where the run ends by that, the same command is given again. In the end it must be the run that nothing
struck: same records, same matches, same weights, bit for bit.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from srl_agents import checkpoints
from srl_agents.checkpoints import folder as checkpoint_folder
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.endpoint.client import EndpointEngine
from srl_agents.engines.endpoint.tries import Tries
from srl_agents.league.matchmaking.manager import League
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics import JSONLines
from srl_agents.rollouts.match_queue import MatchQueue
from srl_agents.tensor_files import save_tensors
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.training.ahead.orders import MatchesAhead
from srl_agents.training.faults.supervised import Supervised
from srl_agents.training.loop import phases
from srl_agents.training.loop.run import LeagueTraining
from srl_agents.training.loop.versions import LeagueVersions
from srl_agents.training.parts.budgets import Budgets
from srl_agents.transports import files
from srl_agents.transports.files import FilesTransport
from srl_envs.errors import ModelError
from tests.faults.struck_server import PID

FAULTS = ("killed", "hung", "slowed")
RESET = "reset"
"""The server sends half of a reply, then resets the connection: a fault of servers only."""
UPDATE = 2
"""Update in which a role is struck."""
PHASE_S, REPLY_S, PATIENCE_S = 6.0, 3600.0, 60.0
"""Deadlines of the cells' runs: for a phase, for each reply of a batch, for generation."""
SLOW_S = 1.0
STRUCK = "this process is struck now\n"
"""Line of the log when a process is struck."""
STRUCK_FAULT, STRUCK_LOG = "SRL_STRUCK_FAULT", "SRL_STRUCK_LOG"
"""Environment variables of a process that strikes itself: the fault, and the file that records it."""
STOPPED = 3
Patch = pytest.MonkeyPatch


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One role struck in one phase, in one way."""

    role: str
    phase: str
    fault: str
    arm: Callable[[Patch], None]
    """Called in the process that trains, before it does."""
    codes: tuple[int, ...]
    """Exit codes of the attempts; minus the number of a signal."""
    named: str = ""
    """Fault that the run must write down."""
    recipe: str = "turns"
    """Which of the recipes."""
    ranks: int = 1
    struck: int = 0
    """Rank that is struck."""
    settings: tuple[str, ...] = ()
    """Over the recipe's."""

    @property
    def name(self) -> str:
        """Unique."""
        return f"{self.role}/{self.phase}/{self.fault}"


CELLS: list[Cell] = []


# --- strikes -------------------------------------------------------------------------------------


def strike(fault: str) -> None:
    """Let this process be killed, never go on, or stand still for a while."""
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "hung":
        time.sleep(1e6)
    else:
        strike_other(os.getpid(), fault)


def strike_other(pid: int, fault: str) -> None:
    """Kill a process, stop it, or stop it for a while."""
    if fault == "killed":
        os.kill(pid, signal.SIGKILL)
        return
    if fault == "slowed":
        subprocess.Popen(["sh", "-c", f"sleep {SLOW_S}; kill -CONT {pid}"])
    os.kill(pid, signal.SIGSTOP)


@dataclass
class Clock:
    """Where a run is, and whether the strike has come."""

    training: LeagueTraining | None = None
    calls: int = 0
    struck: bool = False

    def due(self, call: int, phase: str = "", *, at_end: bool = False) -> bool:
        """Whether this call of what is watched is the one to strike at.

        Args:
            call: counted from 1, in the update.
            phase: of `phases.PHASES`, in which calls count; empty: in any.
            at_end: behind the last update, and not in the one that is struck.
        """
        training = self.training
        if self.struck or training is None or training.done + (not at_end) != UPDATE:
            return False
        if phase and training.phase != phase:
            return False
        self.calls += 1
        self.struck = self.calls == call
        if self.struck:
            os.write(1, STRUCK.encode())  # whatever stands in for sys.stdout
        return self.struck


def follow(patch: Patch) -> Clock:
    """A clock that follows the run in this process."""
    clock, whole = Clock(), LeagueTraining._update

    def followed(training: LeagueTraining, sinks: Any) -> None:
        clock.training = training
        whole(training, sinks)

    patch.setattr(LeagueTraining, "_update", followed)
    return clock


@dataclass(frozen=True)
class Point:
    """Where in an update to strike: before the so-many-th call of a function, or before a phase."""

    owner: Any
    name: str
    call: int = 1
    phase: str = ""
    """In which calls count; empty: in any."""
    at_end: bool = False
    """Behind the last update."""

    def arm(self, patch: Patch, hit: Callable[[], None]) -> None:
        """Let ``hit`` be called there."""
        clock = follow(patch)
        owner, name = self.owner, self.name
        if owner is None:
            owner, name = phases.PHASES[name], "__call__"
        whole = getattr(owner, name)

        def broken(*arguments: Any, **named: Any) -> Any:
            if clock.due(self.call, self.phase, at_end=self.at_end):
                hit()
            return whole(*arguments, **named)

        patch.setattr(owner, name, broken)


# --- the trainer, in every phase -----------------------------------------------------------------


TRAINER = {
    "ordering": Point(League, "training_matches"),
    "generating": Point(MatchQueue, "done", 3, "play"),
    "judging": Point(None, "judge"),
    "crediting": Point(None, "credit"),
    "training, one of two learners has stepped": Point(AdapterLearner, "apply_gradients", 2),
    "publishing, one of two versions is installed": Point(LeagueVersions, "_publish", 2),
    "evaluating": Point(MatchQueue, "done", 2, "look"),
    "reporting": Point(JSONLines, "write"),
    "freezing a version": Point(checkpoints, "keep_frozen"),
    "checkpointing, the folder has no name yet": Point(checkpoint_folder, "flush", 2, "checkpoint"),
}
CODES = {"killed": (-signal.SIGKILL, 0), "hung": (STOPPED, 0), "slowed": (0,)}
NAMED = {"killed": "", "hung": "phase_hung", "slowed": ""}


def _struck(point: Point, fault: str) -> Callable[[Patch], None]:
    return lambda patch: point.arm(patch, lambda: strike(fault))


for _phase, _point in TRAINER.items():
    for _fault in FAULTS:
        CELLS.append(
            Cell(
                role="trainer", phase=_phase, fault=_fault, arm=_struck(_point, _fault),
                codes=CODES[_fault], named=NAMED[_fault],
            )
        )  # fmt: skip

# --- the engine in the trainer's process ---------------------------------------------------------

ENGINE = {"generating": "play", "evaluating": "look"}


def _engine(fault: str, phase: str) -> Callable[[Patch], None]:
    def arm(patch: Patch) -> None:
        import asyncio

        clock, whole = follow(patch), TransformersEngine.generate_together

        async def broken(engine: TransformersEngine, requests: Any) -> Any:
            if clock.due(1, phase):
                if fault == "killed":
                    raise ModelError("the engine died.")
                await asyncio.sleep(SLOW_S if fault == "slowed" else 1e6)
            return await whole(engine, requests)

        patch.setattr(TransformersEngine, "generate_together", broken)

    return arm


for _phase, _place in ENGINE.items():
    for _fault in FAULTS:
        CELLS.append(
            Cell(
                role="engine", phase=_phase, fault=_fault, arm=_engine(_fault, _place),
                settings=("survival.reply_deadline_s=0.3",) if _fault == "hung" else (),
                codes={"killed": (2, 0), "hung": (STOPPED, 0), "slowed": (0,)}[_fault],
                named="engine_hung" if _fault == "hung" else "",
            )
        )  # fmt: skip

# --- the store of matches, in a transaction ------------------------------------------------------

STORE = {"generating, in a transaction": "play", "evaluating, in a transaction": "look"}
for _phase, _place in STORE.items():
    for _fault in FAULTS:
        CELLS.append(
            Cell(
                role="store", phase=_phase, fault=_fault,
                arm=_struck(Point(LeagueStore, "_count", 1, _place), _fault),
                codes=CODES[_fault], named=NAMED[_fault],
            )
        )  # fmt: skip

# --- both ends of the transport ------------------------------------------------------------------


def _publisher(fault: str) -> Callable[[Patch], None]:
    def arm(patch: Patch) -> None:
        clock, whole = follow(patch), save_tensors

        def broken(*arguments: Any) -> None:
            whole(*arguments)
            if clock.due(1):
                strike(fault)

        patch.setattr(files, "save_tensors", broken)

    return arm


for _fault in FAULTS:
    CELLS.append(
        Cell(
            role="transport, publisher", phase="publishing, half of the folder is written",
            fault=_fault, arm=_publisher(_fault), codes=CODES[_fault], named=NAMED[_fault],
        )
    )  # fmt: skip
    CELLS.append(
        Cell(
            role="transport, receiver", phase="publishing, a version is being opened",
            fault=_fault, arm=_struck(Point(FilesTransport, "open"), _fault),
            codes=CODES[_fault], named=NAMED[_fault],
        )
    )  # fmt: skip

# --- one of two processes of torchrun ------------------------------------------------------------

RANK = {
    "generating": TRAINER["generating"],
    "training": TRAINER["training, one of two learners has stepped"],
    "checkpointing": TRAINER["checkpointing, the folder has no name yet"],
}
for _phase, _point in RANK.items():
    for _fault in FAULTS:
        CELLS.append(
            Cell(
                role="torchrun, rank 1 of 2", phase=_phase, fault=_fault,
                arm=_struck(_point, _fault), ranks=2, struck=1, recipe="ranks",
                codes=CODES[_fault],
            )
        )  # fmt: skip

# --- the process that plays beside training ------------------------------------------------------

GENERATION = {
    "ordering": Point(MatchesAhead, "_order", 2),
    "training": Point(AdapterLearner, "apply_gradients", 2),
    "publishing": Point(LeagueVersions, "_publish", 2),
    "checkpointing": Point(checkpoint_folder, "flush", 2, "checkpoint"),
}


def _generation(point: Point, fault: str) -> Callable[[Patch], None]:
    def arm(patch: Patch) -> None:
        started: list[Supervised] = []
        whole = Supervised.start

        def remembered(process: Supervised) -> None:
            whole(process)
            started.append(process)

        def hit() -> None:
            pid = started[-1].pid
            if pid is None:
                raise RuntimeError("the generation process does not run")
            strike_other(pid, fault)

        patch.setattr(Supervised, "start", remembered)
        point.arm(patch, hit)

    return arm


for _phase, _point in GENERATION.items():
    for _fault in FAULTS:
        CELLS.append(
            Cell(
                role="generation process", phase=_phase, fault=_fault,
                arm=_generation(_point, _fault), codes=(0,), recipe="beside",
            )
        )  # fmt: skip


def _reading(fault: str) -> Callable[[Patch], None]:
    """In that process itself, which begins as `tests.faults.struck_generation`."""

    def arm(patch: Patch) -> None:
        whole = Supervised.start

        def other(process: Supervised) -> None:
            real = "srl_agents.training.ahead.player"
            ours = "tests.faults.struck_generation"
            process._command = [ours if part == real else part for part in process._command]
            whole(process)

        patch.setenv(STRUCK_FAULT, fault)
        patch.setenv(STRUCK_LOG, os.readlink("/proc/self/fd/1"))
        patch.setattr(Supervised, "start", other)

    return arm


for _fault in FAULTS:
    CELLS.append(
        Cell(
            role="generation process", phase="reading new weights, not yet installed",
            fault=_fault, arm=_reading(_fault), codes=(0,), recipe="beside",
        )
    )  # fmt: skip

# --- a chat endpoint among the opponents ---------------------------------------------------------

ENDPOINT = {
    "generating, it is being asked": Point(Tries, "_post", 1, "play"),
    "evaluating, it is being asked": Point(Tries, "_post", 1, "look"),
    "checking its budget": Point(Budgets, "take"),
    "closing": Point(EndpointEngine, "close", at_end=True),
}
_ENDS = {"killed": (2, 0), "hung": (2, 0), "slowed": (0,), RESET: (0,)}


def _endpoint(point: Point, fault: str) -> Callable[[Patch], None]:
    def hit() -> None:
        pid = int(os.environ[PID])
        if fault == RESET:
            os.kill(pid, signal.SIGUSR1)
        else:
            strike_other(pid, fault)

    return lambda patch: point.arm(patch, hit)


for _phase, _point in ENDPOINT.items():
    for _fault in (*FAULTS, RESET):
        CELLS.append(
            Cell(
                role="endpoint", phase=_phase, fault=_fault, arm=_endpoint(_point, _fault),
                codes=(0,) if _phase == "closing" else _ENDS[_fault], recipe="endpoint",
            )
        )  # fmt: skip


def free_port() -> int:
    """Of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@dataclass
class Ended:
    """What came of a cell."""

    codes: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    equal: bool = False
    struck: bool = False
    """The fault came."""
    overdue: bool = False
    """An attempt did not end and was killed."""
    seconds: float = 0.0

    def wrong(self, cell: Cell) -> str:
        """What is not as it must be; empty if all is."""
        if self.overdue:
            return "an attempt did not end"
        if not self.struck:
            return "nothing was struck"
        if tuple(self.codes) != cell.codes:
            return f"exit codes {self.codes}, not {list(cell.codes)}"
        if cell.named and cell.named not in self.faults:
            return f"faults {self.faults}, without {cell.named}"
        return "" if self.equal else "another result than the run that nothing struck"
