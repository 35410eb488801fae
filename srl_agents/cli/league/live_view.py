"""The live view of a population that plays: progress, ratings so far, and the sampler's preferences."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from srl_agents.cli.league.status import show
from srl_agents.league.agents import labels
from srl_agents.league.standings import read_status
from srl_agents.training.population.rounds import PopulationRun

_LEAST_S = 1.0
"""Seconds between two fits of the table."""
_LINES = 10
"""Progress lines of a run without a terminal."""


class PopulationView:
    """Shows a run; without a terminal, prints one line for every tenth of it.

    Args:
        league: what is shown.
    """

    def __init__(self, league: PopulationRun) -> None:
        self._league = league
        self._console = Console()
        self._live = self._console.is_terminal
        self._next, self._printed = 0.0, -1
        self._progress = Progress(
            TextColumn("[bold]matches"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
        )
        self._task = self._progress.add_task("", total=league.matches, completed=league.done)
        self._screen = Live(console=self._console, refresh_per_second=4)

    def __enter__(self) -> Self:
        if self._live:
            self._screen.start()
        if self._league.done or self._league.reissued:
            self._console.print(
                f"resuming after {self._league.done} of {self._league.matches} matches; "
                f"{self._league.reissued} were being played and are issued again",
                highlight=False,
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._screen.update(self._render())
            self._screen.stop()

    def show_batch(self, league: PopulationRun) -> None:
        """Show that a batch was stored."""
        self._progress.update(self._task, completed=league.done)
        if self._live and time.monotonic() >= self._next:
            self._screen.update(self._render())
            self._next = time.monotonic() + _LEAST_S
        tenth = league.done * _LINES // league.matches
        if not self._live and tenth > self._printed:
            self._printed = tenth
            self._console.print(f"{league.done} of {league.matches} matches", highlight=False)

    def _render(self) -> RenderableType:
        league = self._league
        agents = {agent.agent_id: agent for agent in league.store.agents()}
        parts: list[RenderableType] = []
        for found in read_status(league.store):
            parts += show(found, agents)
        names = labels(agents)
        for agent in league.population.mains:
            chances = sorted(league.population.chances(agent).items(), key=lambda c: -c[1])[:5]
            liked = "  ".join(f"{names[name]} {chance:.0%}" for name, chance in chances)
            parts.append(f"{names[agent]} meets {liked}")
        playing = len(league.store.leases())
        parts.append(
            f"block {league.population.revision} of {league.blocks}, {playing} matches are being "
            f"played, {league.reissued} were issued again"
        )
        return Group(*parts, self._progress)
