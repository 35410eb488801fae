"""`srl watch RUN`: the roles of a run that goes on, as a table that renews itself."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from srl_agents.metrics.prometheus import exposition, metrics_page
from srl_agents.records import plain_json
from srl_agents.training.gauges.live_run import RunState, RunWatch
from srl_agents.training.gauges.scrape import gauges_of

_QUIET_S = 120.0
"""Seconds of silence after which the time is shown in colour."""


def watch_run(folder: Path, *, every_s: float, once: bool, as_json: bool) -> None:
    """Show a run until the user interrupts; without a terminal, show it once.

    Args:
        folder: of the run.
        every_s: seconds between two looks.
        once: look once.
        as_json: print JSON, one look a line.

    Raises:
        ConfigError: the folder holds no run.
    """
    watched = RunWatch(folder)
    once = once or not sys.stdout.isatty()
    if as_json:
        while True:
            print(plain_json(asdict(watched.look())), flush=True)
            if once:
                return
            time.sleep(every_s)
    console = Console()
    if once:
        console.print(shown(watched.look()))
        return
    with Live(shown(watched.look()), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(every_s)
            live.update(shown(watched.look()), refresh=True)


def serve_run(folder: Path, port: int) -> None:
    """Serve the looks at a run to Prometheus, until it is interrupted.

    Raises:
        ConfigError: the folder holds no run, or the port cannot be had.
    """
    watched, one_at_a_time = RunWatch(folder), threading.Lock()

    def page() -> str:
        with one_at_a_time:
            return exposition(gauges_of(watched.look()))

    with metrics_page("127.0.0.1", port, page) as address:
        print(address, flush=True)
        threading.Event().wait()


def shown(state: RunState) -> RenderableType:
    """The view of one state of a run."""
    unit = "updates" if state.kind == "league" else "matches"
    head = Text(f"{state.run}: {state.done} of {state.whole} {unit}", style="bold")
    if state.silent_s is not None:
        late = state.silent_s > _QUIET_S and state.done < state.whole
        head.append(f", written {state.silent_s:,.0f} s ago", style="yellow" if late else "")
    parts: list[RenderableType] = [head, _alive(state)]
    lines = [
        ("moves of a person", state.people),
        ("queues", [f"{q.name}: {q.done} of {q.whole}" for q in state.queues]),
        ("staleness", [f"{name} {lag:.2f} steps" for name, lag in state.staleness.items()]),
        ("phases", [f"{name} {share:.0%}" for name, share in state.phases.items()]),
        ("tokens/s", [f"{name} {rate:,.0f}" for name, rate in state.rates.items()]),
        ("spent", [f"{name} {value:,.0f}" for name, value in state.spent.items()]),
        ("seconds", [f"{name} {value:.2f}" for name, value in state.seconds.items()]),
        ("workers", [f"{count:.0f} {doing}" for doing, count in state.workers.items()]),
        ("versions", [f"{state.versions} published"] if state.versions else []),
        ("faults", state.faults),
    ]
    table = Table.grid(padding=(0, 2))
    for name, values in lines:
        if values:
            table.add_row(name, ", ".join(values))
    parts.append(table)
    return Group(*parts)


def _alive(state: RunState) -> RenderableType:
    if not state.processes:
        over = state.done >= state.whole
        message = "The run is over." if over else "No process works on the run on this machine."
        return Text(message, style="" if over else "yellow")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("alive", "process", "cores", "MiB"):
        table.add_column(column, justify="left" if column == "alive" else "right")
    for process in state.processes:
        cores = "" if process.cores is None else f"{process.cores:.2f}"
        table.add_row(process.role, str(process.pid), cores, f"{process.memory_mib:,.0f}")
    return table
