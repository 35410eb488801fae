"""`srl train --view full`: curves, phases, memory and matches of a run, redrawn in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment, SegmentLines
from rich.table import Table
from rich.text import Text

from srl_agents.metrics.console import LEARNER_COLUMNS, ConsoleView, bot_scores, sparkline
from srl_agents.metrics.curves import Curve, chart, short_number
from srl_agents.metrics.meetings import Meeting
from srl_agents.metrics.names import Record

_CURVES = (
    ("reward", "reward per episode"),
    ("score_start", "points per game against its start"),
    ("return_alone", "return alone"),
    ("invalid_share", "share of refused replies"),
    ("entropy", "entropy, nats"),
    ("kl", "KL from the reference, nats"),
    ("grad_norm", "gradient norm"),
    ("reply_tokens", "tokens per reply"),
)
"""Metric and title, the most telling first; the size of the terminal decides how many are shown."""
_SIDES = (
    ("memory/allocated_gb", "allocated", "{:.2f} GB"),
    ("memory/reserved_gb", "reserved", "{:.2f} GB"),
    ("memory/device_free_gb", "free on device", "{:.2f} GB"),
    ("memory/host_free_gb", "free on host", "{:.2f} GB"),
    ("tokens_per_s", "tokens/s", "{:,.0f}"),
    ("train_tokens_per_s", "trained tokens/s", "{:,.0f}"),
)
"""Metric of the run, name, and form of its last value."""
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_PHASES, _MEETINGS, _LEARNERS = 5, 5, 8
"""Most lines of each kind."""
_NARROWEST = 36
"""Characters below which curves do not stand side by side."""
_BAR = 12
_SPARKS = 14


class FullView(ConsoleView):
    """The view of a run that fills the terminal; lines where there is none.

    What changes with an update is laid out once, not at every redrawing.

    Args:
        title: as in `ConsoleView`.
        updates: as in `ConsoleView`.
        console: as in `ConsoleView`.
        advice: as in `ConsoleView`.
        history: records of updates before this process, as their file has them.
    """

    shows_meetings: ClassVar[bool] = True

    def __init__(
        self,
        title: str,
        updates: int,
        console: Console | None = None,
        advice: Callable[[], str] = str,
        *,
        history: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._history: list[Mapping[str, Any]] = list(history)
        self._meetings: Sequence[Meeting] = ()
        self._body: tuple[object, list[list[Segment]]] | None = None
        super().__init__(title, updates, console, advice)

    def write(self, record: Record) -> None:
        """See `ConsoleView`."""
        kept = [row for row in self._history if row["update"] < record.update]
        self._history = [*kept, record.as_json()]
        super().write(record)
        self._body = None

    def met(self, meetings: Sequence[Meeting]) -> None:
        """See `ConsoleView`."""
        self._meetings = meetings
        self._body = None

    def _render(self) -> Group:
        size = self.console.size
        body = self._body
        if body is None or body[0] != size:
            options = self.console.options.update(width=size.width, height=None)
            body = size, self._laid_out(options, size.height)
            self._body = body
        title = Text(self._title, style="bold", no_wrap=True, overflow="ellipsis")
        return Group(title, self._progress, SegmentLines(body[1], new_lines=True))

    def _laid_out(self, options: ConsoleOptions, lines: int) -> list[list[Segment]]:
        """Everything below the progress, in lines of at most the console's width."""
        history = self._history
        if not history:
            return []
        colours = dict(
            zip(history[-1]["learners"], _COLOURS * len(history[-1]["learners"]), strict=False)
        )
        below = [
            self._learners(history, colours),
            _run(history, options.max_width),
            *_matches(self._meetings),
        ]
        rows = [row for part in below for row in self.console.render_lines(part, options)]
        room = lines - 5 - len(rows)  # the progress, and an empty line before curves and at the end
        drawn = self.console.render_lines(
            _curves(history, colours, options.max_width, room), options
        )
        return [*drawn, *rows]

    def _learners(
        self, history: Sequence[Mapping[str, Any]], colours: Mapping[str, str]
    ) -> RenderableType:
        """The last metrics of each learner; old scores stay until the next look."""
        table = Table(box=None, padding=(0, 2, 0, 0), expand=False)
        table.add_column("learner", no_wrap=True, min_width=8)
        for _, name, _ in LEARNER_COLUMNS:
            table.add_column(name, justify="right", no_wrap=True, min_width=max(len(name), 6))
        table.add_column("vs bots", no_wrap=True, overflow="ellipsis")
        for learner in list(colours)[:_LEARNERS]:
            known: dict[str, float] = {}
            for row in history:
                values = row["learners"].get(learner, {})
                known |= {name: v for name, v in values.items() if name.startswith("score_")}
            known |= history[-1]["learners"][learner]
            cells = [
                form.format(known[key]) if key in known else "-" for key, _, form in LEARNER_COLUMNS
            ]
            table.add_row(Text(learner, style=colours[learner]), *cells, bot_scores(known) or "-")
        if len(colours) > _LEARNERS:
            table.add_row(f"and {len(colours) - _LEARNERS} more")
        return table


def _curves(
    history: Sequence[Mapping[str, Any]], colours: Mapping[str, str], width: int, room: int
) -> RenderableType:
    """As many charts as the room has space for, side by side; one line names what never changed."""
    found = [(title, [*_series(history, metric, colours)]) for metric, title in _CURVES]
    constant = {title: kept for title, curves in found if (kept := _constant(curves))}
    below = Text("", no_wrap=True, overflow="ellipsis")
    if constant:
        below = Text(
            f"constant: {' · '.join(f'{title} {kept}' for title, kept in constant.items())}\n",
            style="dim",
            no_wrap=True,
            overflow="ellipsis",
        )
        room -= 1
    across = max(1, width // _NARROWEST)
    down = 2 if room >= 16 else 1
    height = min(8, room // down - 2)
    if height < 2:
        return Text()
    drawn = [one for one in found if one[1] and one[0] not in constant][: across * down]
    shown = [
        chart(title, curves, width=width // across - 2, height=height) for title, curves in drawn
    ]
    grid = Table.grid(padding=(0, 2, 0, 0))
    for at in range(0, len(shown), across):
        grid.add_row(*shown[at : at + across])
    return Group(grid, below)


def _constant(curves: Sequence[Curve]) -> str:
    """The values that a metric kept for two updates or more, one per learner; empty where any changed."""
    kept: list[float] = []
    for curve in curves:
        values = {value for value in curve.values if math.isfinite(value)}
        if len(curve.values) < 2 or len(values) != 1:
            return ""
        kept += values
    return " / ".join(dict.fromkeys(map(short_number, kept)))


def _series(
    history: Sequence[Mapping[str, Any]], metric: str, colours: Mapping[str, str]
) -> Iterator[Curve]:
    """A metric's curve for each learner that has it."""
    for learner, colour in colours.items():
        rows = [(row["update"], row["learners"].get(learner, {}).get(metric)) for row in history]
        points = [(update, value) for update, value in rows if value is not None]
        if points:
            updates, values = zip(*points, strict=True)
            yield Curve(colour, updates, values)


def _run(history: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Phases of the last update, beside memory and speed of all."""
    run = history[-1]["run"]
    phases = {
        key.removeprefix("phase/"): share for key, share in run.items() if key.startswith("phase/")
    }
    left = Table.grid(padding=(0, 1, 0, 0))
    left.add_row(Text("phase", style="bold"))
    for name, share in sorted(phases.items(), key=lambda item: -item[1])[:_PHASES]:
        left.add_row(name, Text("█" * round(share * _BAR) or "▏", style="cyan"), f"{share:.0%}")
    right = Table.grid(padding=(0, 1, 0, 0))
    right.add_row(Text("memory, speed", style="bold"))
    for key, name, form in _SIDES:
        if key in run:
            past = [row["run"][key] for row in history if key in row["run"]]
            right.add_row(
                name, Text(form.format(run[key]), justify="right"), sparkline(past[-_SPARKS:])
            )
    both = Table.grid(padding=(0, 4, 0, 0))
    both.add_row(left, right)
    return both if width >= 2 * _NARROWEST else Group(left, right)


def _matches(meetings: Sequence[Meeting]) -> Iterator[RenderableType]:
    """Who met whom last; nothing before the first match."""
    if not meetings:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("last matches", no_wrap=True, overflow="ellipsis")
    table.add_column("number", justify="right")
    table.add_column("mean outcomes", no_wrap=True, overflow="ellipsis")
    for one in meetings[:_MEETINGS]:
        means = "  ".join(f"{outcome:+.2f}" for outcome in one.outcomes)
        lost = f"{one.void} void" if one.void else ""
        table.add_row(
            " : ".join(one.names), str(one.matches), "  ".join(filter(None, (means, lost)))
        )
    if len(meetings) > _MEETINGS:
        table.add_row(f"and {len(meetings) - _MEETINGS} more pairings")
    yield table
