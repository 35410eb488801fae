"""The trainer of a run in a process that its caller started, maybe on another machine.

Calls of its console wait until the caller fetches them. The caller, such as
`srl_agents.training.cluster.trainer`, decides where it runs; this module does not use Ray.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Console

from srl_agents.league.store.database import has_writer
from srl_agents.metrics import ConsoleView, Record
from srl_agents.metrics.meetings import Meeting
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.layout import STORE
from srl_agents.training.outcome import Outcome
from srl_agents.whole_import import whole_import
from srl_envs.errors import StoreError
from srl_envs.reading.settings import build

if TYPE_CHECKING:
    from srl_agents.training.loop.run import LeagueTraining

ViewCall = tuple[str, tuple[Any, ...]]
"""Method of a `ConsoleView`, and what it is called with."""
_LOOK_S = 0.2


class FarView(ConsoleView):
    """Keeps calls of the console until the follower has received them."""

    shows_meetings: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__("", 0, Console(quiet=True))
        self._kept: list[ViewCall] = []
        self._before = 0
        """Number of calls that the follower has received."""
        self._changed = threading.Condition()

    def calls_after(self, received: int, patience_s: float) -> list[ViewCall]:
        """Calls that the follower has not received yet; waits a while for one.

        Args:
            received: how many have arrived until now; they are not returned again.
            patience_s: seconds.
        """
        with self._changed:
            del self._kept[: received - self._before]
            self._before = received
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._kept, patience_s)
            return list(self._kept)

    def phase(self, name: str, total: int | None = None) -> None:
        """See `ConsoleView`."""
        self._tell("phase", name, total)

    def advance(self, steps: int = 1) -> None:
        """See `ConsoleView`."""
        self._tell("advance", steps)

    def resume(self, done: int) -> None:
        """See `ConsoleView`."""
        self._tell("resume", done)

    def write(self, record: Record) -> None:
        """See `ConsoleView`."""
        self._tell("write", record)

    def met(self, meetings: Sequence[Meeting]) -> None:
        """See `ConsoleView`."""
        self._tell("met", meetings)

    def say(self, text: str) -> None:
        """See `ConsoleView`."""
        self._tell("say", text)

    def say_last(self, text: str) -> None:
        """See `ConsoleView`; this process ends as soon as it is heard."""
        with self._changed:
            self._kept.append(("say_last", (text,)))
            until = self._before + len(self._kept)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._before >= until)

    def _tell(self, method: str, *arguments: Any) -> None:
        with self._changed:
            self._kept.append((method, arguments))
            self._changed.notify_all()


class FarTrainer:
    """Brings a run to its end; one thread trains, another one answers.

    Args:
        recipe: of the run, as plain values.
        folder: of the run, as this machine sees it.
        cluster: address of the one that plays.
        directory: from which a recipe's relative paths go, if this machine has it.
    """

    def __init__(
        self, recipe: dict[str, Any], folder: str, *, cluster: str, directory: str
    ) -> None:
        self._recipe, self._folder, self._cluster = recipe, Path(folder), cluster
        self._view = FarView()
        self._attempt: LeagueTraining | None = None
        if Path(directory).is_dir():
            os.chdir(directory)

    def who(self) -> dict[str, Any]:
        """Process id, host, and ``OMP_NUM_THREADS`` of the trainer."""
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "omp_num_threads": os.environ.get("OMP_NUM_THREADS", ""),
        }

    def calls_after(self, heard: int, patience_s: float) -> list[ViewCall]:
        """See `FarView.calls_after`."""
        return self._view.calls_after(heard, patience_s)

    def stop(self) -> str:
        """Keep the last finished update, for a caller that ends this process next.

        Returns:
            What is kept, in words; empty before the first attempt began.
        """
        if self._attempt is None:
            return ""
        supervision = whole_import("srl_agents.training.supervision")
        return str(supervision.interrupted(self._attempt))

    def train(self, *, force: bool, trace_one: bool, patience_s: float) -> Outcome:
        """Begin or continue the run, and bring it to its end.

        Args:
            force: begin although memory is too small by the plan.
            trace_one: write a profiler's trace of one update.
            patience_s: for a trainer that had the folder before and is still ending.

        Raises:
            StoreError: it did not end in time.
            SRLError: as `srl_agents.training.supervision.train` does.
        """
        if not wait_for_writer(self._folder, patience_s):
            raise StoreError(
                f"{self._folder}: another process writes to this run. Wait for it or stop it."
            )
        supervision = whole_import("srl_agents.training.supervision")
        recipe = build(LeagueRecipe, self._recipe, "recipe of the run")
        plan_first = whole_import("srl_agents.training.start.plan").plan_first
        plan_first(recipe, self._view.say, force=force)
        outcome: Outcome = supervision.train(
            recipe,
            self._folder,
            self._view,
            trace_one=trace_one,
            cluster=self._cluster,
            begun=self._begun,
        )
        return outcome

    def _begun(self, attempt: LeagueTraining) -> None:
        self._attempt = attempt


def wait_for_writer(folder: Path, patience_s: float) -> bool:
    """Wait until no process writes to a run.

    Args:
        folder: of the run.
        patience_s: seconds.

    Returns:
        Whether that came about.
    """
    until = time.monotonic() + patience_s
    while has_writer(folder / f"{STORE}.lock"):
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)
    return True
