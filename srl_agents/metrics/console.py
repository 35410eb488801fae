"""The live view of a run in the terminal; short lines for each update where there is none."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import ClassVar, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from srl_agents.metrics.meetings import Meeting
from srl_agents.metrics.names import CREDITED, Record, component_means

LEARNER_COLUMNS = (
    ("reward", "reward", "{:+.3f}"),
    ("format", "format", "{:+.3f}"),
    ("kl", "KL", "{:.4f}"),
    ("entropy", "entropy", "{:.3f}"),
    ("invalid_share", "invalid", "{:.1%}"),
    ("grad_norm", "grad", "{:.2f}"),
    ("score_start", "vs start", "{:.0%}"),
)
"""Metric of a learner, name, and form of its last value."""
_SPARKS = "▁▂▃▄▅▆▇█"
_SCORE_BOT = "score_bot:"
_SHOW_CURSOR = "\x1b[?25h"
"""Control sequence DECTCEM."""
_LONGEST = 100
"""Characters of a line where no terminal shows the view."""
_GLUE = "\0"
"""Stands for a space at which no line is broken."""
_SILENT_S = 30.0
"""After so long without a line, a phase prints how far it is, where no terminal shows it."""


class _Output(Console):
    """Raises where rich would end the process: a run keeps its last update first."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - called where the error is handled


class ConsoleView(AbstractContextManager["ConsoleView"]):
    """Shows progress, phase and the last record of every learner.

    Args:
        title: of the live view.
        updates: of the whole run.
        console: to print on; standard output if absent.
        advice: what to do after an end that no exception reports.
        clock: seconds from any beginning.
    """

    shows_meetings: ClassVar[bool] = False
    """Whether `met` is called."""

    def __init__(
        self,
        title: str,
        updates: int,
        console: Console | None = None,
        advice: Callable[[], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console = console or _Output()
        self._advice, self._clock = advice, clock
        self._printed_s = clock()
        """When the last line was printed."""
        self._title = title
        self._updates = updates
        self._live = self.console.is_terminal
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._total = self._progress.add_task("updates", total=updates)
        self._phase = self._progress.add_task("starting", total=None)
        self._record: Record | None = None
        self._rewards: dict[str, list[float]] = {}
        self._scores: dict[str, dict[str, float]] = {}
        self._screen = Live(console=self.console, refresh_per_second=4, get_renderable=self._render)

    def __enter__(self) -> Self:
        if self._live:
            self._screen.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._screen.stop()

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin to show a phase of ``total`` steps."""
        self._progress.reset(self._phase, description=name, total=total, completed=0)
        if total is None:
            self._print(name)

    def advance(self, steps: int = 1) -> None:
        """``steps`` of the present phase are done."""
        self._progress.advance(self._phase, steps)
        if not self._live and self._clock() - self._printed_s >= _SILENT_S:
            task = self._progress.tasks[self._phase]
            of = "" if task.total is None else f" of {task.total:.0f}"
            self._print(f"{task.description}: {task.completed:.0f}{of}")

    def resume(self, done: int) -> None:
        """Updates that were done before this process started."""
        self._progress.update(self._total, completed=done)

    def write(self, record: Record) -> None:
        """Show a record."""
        self._record = record
        self._progress.update(self._total, completed=record.update)
        for learner, values in record.learners.items():
            rewards = self._rewards.setdefault(learner, [])
            if "reward" in values:
                rewards.append(values["reward"])
            scores = {k: v for k, v in values.items() if k.startswith("score_")}
            self._scores.setdefault(learner, {}).update(scores)
        self._print(_line(record))

    def met(self, meetings: Sequence[Meeting]) -> None:
        """Show who met whom in the phase that is over, where `shows_meetings`."""

    def close(self) -> None:
        """Does nothing: no resource is held."""
        return

    def say(self, text: str) -> None:
        """Print a line above the live view."""
        self.console.print(text, highlight=False)

    def _print(self, text: str) -> None:
        """Print a line where no terminal shows the view."""
        if not self._live:
            self._printed_s = self._clock()
            self.console.print(text, highlight=False, soft_wrap=True)

    def say_last(self, text: str) -> None:
        """Say why the process ends now, from another thread; comes back when it is said."""
        words = f"srl train: {text} {self._advice()}".rstrip()
        if self._live and sys.stderr.isatty():
            words = f"{_SHOW_CURSOR}{words}"  # the live view hid it, and no thread restores it
        print(words, file=sys.stderr, flush=True)  # noqa: T201 - the process ends next

    def _render(self) -> Group:
        table = Table(title=self._title, title_justify="left", expand=False)
        table.add_column("learner", style="bold")
        for _, name, _ in LEARNER_COLUMNS:
            table.add_column(name, justify="right")
        learners = self._record.learners if self._record else {}
        components = {name: _components(values) for name, values in learners.items()}
        if any(components.values()):
            table.add_column("what credit sees")
        table.add_column("vs bots")
        table.add_column("reward so far")
        for learner, values in learners.items():
            known = {**values, **self._scores[learner]}
            cells = [
                form.format(known[key]) if key in known else "-" for key, _, form in LEARNER_COLUMNS
            ]
            bots = bot_scores(known)
            if any(components.values()):
                cells.append(components[learner] or "-")
            table.add_row(learner, *cells, bots or "-", sparkline(self._rewards[learner][-30:]))
        return Group(table, _speed(self._record.run if self._record else {}), self._progress)


def bot_scores(values: Mapping[str, float]) -> str:
    """Points per game against each bot, in one line."""
    return "  ".join(
        f"{key.removeprefix(_SCORE_BOT)} {value:.0%}"
        for key, value in values.items()
        if key.startswith(_SCORE_BOT)
    )


def sparkline(values: list[float]) -> str:
    """A row of block characters, lowest to highest of ``values``."""
    if not values:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((v - low) / span * (len(_SPARKS) - 1))] for v in values)


def _components(values: Mapping[str, float]) -> str:
    """What credit sees and its parts; empty without a section `rewards`."""
    means = component_means(values)
    if CREDITED not in means:
        return ""
    parts = ", ".join(f"{n} {value:+.3f}" for n, value in means.items() if n != CREDITED)
    return f"{CREDITED} {means[CREDITED]:+.3f} ({parts})"


def _line(record: Record) -> str:
    parts = [f"update {record.update}/{record.updates}"]
    for learner, values in record.learners.items():
        cells = [
            f"{name} {form.format(values[key])}"
            for key, name, form in LEARNER_COLUMNS
            if key in values
        ]
        cells += filter(None, [_components(values)])
        cells += [
            f"vs {key.removeprefix(_SCORE_BOT)} {value:.0%}"
            for key, value in values.items()
            if key.startswith(_SCORE_BOT)
        ]
        parts.append(f"{learner}: {', '.join(cells)}")
    parts.append(_speed(record.run))
    whole = " | ".join(parts)
    if len(whole) <= _LONGEST:
        return whole
    first, second, *others = parts
    lines = [_broken(f"{first} | {second}"), *(_broken(f"  {part}") for part in others)]
    return "\n".join(lines)


def _broken(text: str) -> str:
    """A text in lines of at most `_LONGEST` characters, broken behind commas alone."""
    begin = text[: len(text) - len(text.lstrip())]
    glued = ", ".join(piece.strip().replace(" ", _GLUE) for piece in text.split(", "))
    return textwrap.fill(
        glued,
        _LONGEST,
        initial_indent=begin,
        subsequent_indent=f"{begin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace(_GLUE, " ")


def _speed(run: Mapping[str, float]) -> str:
    """Tokens per second, the engine's own figures, and how long two processes worked at once."""
    parts = [f"{run.get('tokens_per_s', 0.0):,.0f} tokens/s"]
    if "cache_share" in run:
        possible = run["cache_share/possible"]
        parts.append(f"{run['cache_share']:.0%} of prompts cached ({possible:.0%} possible)")
    for name, words in (("first_token_s", "first token"), ("between_tokens_s", "next")):
        if f"{name}/p50" in run:
            middle, late = run[f"{name}/p50"], run[f"{name}/p99"]
            parts.append(f"{words} {middle:.2g} s (p99 {late:.2g})")
    if "batch_rows" in run:
        share = f" ({run['batch_share']:.0%})" if "batch_share" in run else ""
        parts.append(f"batch {run['batch_rows']:.1f}{share}")
    if "overlap_s" in run:
        parts.append(f"both worked {run['overlap_s']:.1f} s, training waited {run['wait_s']:.1f} s")
    return ", ".join(parts)
