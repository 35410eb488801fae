"""A live transcript: panels in a terminal, plain text in a pipe."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.agents.grammar import HUMAN
from srl_envs.api.episode import Transcript
from srl_envs.core import seat_name

LONGEST_SHOWN = 4000
"""Characters of one text that are shown; the rest is counted."""
_BREAKS = {ord("\n"): None, ord("\t"): None}
LONGEST_MOVE = 60
"""Characters of a move that is shown in one line."""
_GAP_LINES = 2
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_SLOW_S = 0.5
"""Replies that took longer show how long."""


@dataclass(frozen=True)
class Result:
    """Results of one policy of the command line over all games."""

    name: str
    games: int
    wins: int
    draws: int
    losses: int
    outcome: float
    """Mean, in [-1, 1]."""
    reward: float
    """Mean, with what invalid replies cost."""
    invalid: float
    """Share of its replies that were refused."""


def news(before: str, after: str) -> str:
    """The lines of ``after`` that are new or changed, with short gaps between them filled.

    A board is shown whole; lines of one length in a row are taken for one.
    """
    old, new = before.splitlines(), after.splitlines()
    shown: set[int] = set()
    for tag, _, _, start, end in difflib.SequenceMatcher(
        a=old, b=new, autojunk=False
    ).get_opcodes():
        if tag in ("insert", "replace"):
            shown.update(range(start, end))
    for number in sorted(shown):
        for step in (-1, 1):
            other = number + step
            while 0 <= other < len(new) and len(new[other]) == len(new[number]) > 1:
                shown.add(other)
                other += step
    for low, high in itertools.pairwise(sorted(shown)):
        if high - low <= _GAP_LINES + 1:
            shown.update(range(low, high))
    return "\n".join(new[number] for number in sorted(shown)) or "(nothing new)"


def verdict(invalid: str | None, played: str | None) -> str:
    """Verdict on a reply: accepted or not, and the move that was played.

    Args:
        invalid: why it was refused; None where it was not.
        played: the action that counts; None where a refused reply leaves none.
    """
    if invalid is None:
        return f"plays {move_text(played or '')}"
    made = "" if played is None else f", {move_text(played)} is played for it"
    return f"NOT ACCEPTED ({invalid}){made}"


def printable(text: str) -> str:
    """``text`` without control characters (a reply must not drive the terminal), and cut if long."""
    cut = text[:LONGEST_SHOWN]
    kept = cut
    if not cut.translate(_BREAKS).isprintable():  # rare: most texts are looked at once, as a whole
        kept = "".join(
            c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()
            for c in cut
        )
    left = len(text) - len(cut)
    return f"{kept}\n... and {left} characters more" if left else kept


def move_text(body: str) -> str:
    """A move in one short line; of a program or a long text its beginning and its length."""
    lines = [line for line in body.strip().splitlines() if not line.startswith("```")]
    first, *rest = lines or [""]
    cut = printable(first[:LONGEST_MOVE])
    if rest:
        return f"{cut} ... ({len(rest) + 1} lines)"
    return cut if len(first) <= LONGEST_MOVE else f"{cut} ... ({len(first)} characters)"


class TranscriptView:
    """Shows games on standard output.

    Args:
        live: show every turn, not only results.
    """

    def __init__(self, *, live: bool) -> None:
        self._live = live
        self._console: Any = None
        if sys.stdout.isatty():
            with contextlib.suppress(ImportError):
                from rich.console import Console

                self._console = Console(highlight=False)

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Shows that something takes its time, in a terminal."""
        if self._console is None:
            yield
            return
        with self._console.status(f"{what} ..."):
            yield

    @contextlib.contextmanager
    def thinking(self, seat: int) -> Iterator[None]:
        """Shows whose reply is awaited; a person needs no telling, and the keyboard."""
        if not self._live or self._names[seat] == HUMAN:
            yield
            return
        with self.busy(self._who(seat)):
            yield

    def note(self, text: str) -> None:
        """A line to the person."""
        self._print(text, "bold")

    def begin(
        self, env_id: str, names: Mapping[int, str], seed: int, split: str, *, secret: bool
    ) -> None:
        """A new game; ``secret`` hides what seats of others see and say while a person plays."""
        self._names, self._secret = names, secret
        self._seen: dict[int, str] = {}
        self._number = 0
        if self._live:
            seats = ", ".join(f"{seat_name(seat)}: {names[seat]}" for seat in sorted(names))
            self._print(f"{env_id}, seed {seed} ({split}). {seats}", "bold")

    def turn(self, seat: int, text: str, legal: Sequence[str] | None = None) -> None:
        """``seat`` is asked: all of ``text`` at first, then what is new in it."""
        before = self._seen.get(seat)
        self._seen[seat] = text
        self._number += 1
        if not self._shows(seat):
            return
        fresh = text if before is None else news(before, text)
        self._block(seat, f"turn {self._number}, {self._who(seat)} sees", printable(fresh))
        if legal is not None:
            shown = ", ".join(legal[:30]) + (" ..." if len(legal) > 30 else "")
            self._print(f"legal: {shown}", "dim")
        elif self._names[seat] == HUMAN:
            self._print("`help` explains how to type a move or a program.", "dim")

    def reply(self, seat: int, reply: str, spent_s: float) -> None:
        """Show the reply of ``seat``."""
        if self._shows(seat) and self._names[seat] != HUMAN:
            took = f" after {spent_s:.1f} s" if spent_s > _SLOW_S else ""
            self._block(seat, f"{self._who(seat)} replies{took}", printable(reply) or "(nothing)")

    def verdict(self, seat: int, invalid: str | None, reward: float, played: str | None) -> None:
        """What became of the reply; ``played`` is the action that counts, None where there is none."""
        if not self._live:
            return
        move = verdict(invalid, played)
        if played is not None and not self._shows(seat):  # a secret, like the reply
            move = f"NOT ACCEPTED ({invalid}), a move is made for it" if invalid else "has moved"
        paid = f", reward {reward:+.2f}" if reward else ""
        self._print(f"{self._who(seat)}: {move}{paid}", "red" if invalid else "green")

    def last_look(self, seat: int, text: str) -> None:
        """Show the text that ``seat`` sees at the end."""
        if self._shows(seat):
            before = self._seen.get(seat, "")
            self._block(seat, f"{self._who(seat)} sees at the end", printable(news(before, text)))

    def end(
        self,
        transcript: Transcript,
        names: Mapping[int, str],
        path: Path | None,
        number: int | None,
    ) -> None:
        """The result of one game."""
        game = "" if number is None else f"game {number}, "
        forfeits = "".join(
            f" {seat_name(seat)} ({names[seat]}) forfeited." for seat in transcript.forfeited
        )
        seats = ", ".join(
            f"{seat_name(seat)} ({names[seat]}) {outcome:+.2f}"
            for seat, outcome in enumerate(transcript.outcomes)
        )
        saved = f" Saved to {path}." if path else ""
        if not self._live:
            self._print(f"{game}seed {transcript.seed}: {seats}.{forfeits}{saved}", "")
            return
        lines = [f"Outcome: {seats}.{forfeits}"]
        for seat, parts in enumerate(transcript.components):
            shown = ", ".join(f"{name} {value:g}" for name, value in _rounded(parts).items())
            total = transcript.rewards[seat]
            lines.append(f"{seat_name(seat)} ({names[seat]}): reward {total:+.2f} = {shown}")
        self._block(None, f"{game}over after {len(transcript.steps)} steps", "\n".join(lines))
        if saved:
            self._print(saved.strip(), "")

    def summary(self, results: Sequence[Result]) -> None:
        """One line per policy over all games."""
        heads = ("policy", "games", "won", "drawn", "lost", "outcome", "reward", "refused")
        rows = [
            (
                r.name, str(r.games), str(r.wins), str(r.draws), str(r.losses),
                f"{r.outcome:+.3f}", f"{r.reward:+.3f}", f"{r.invalid:.1%}",
            )
            for r in results
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        self._print("", "")
        for row, style in ((heads, "bold"), *((row, "") for row in rows)):
            cells = (
                f"{cell:>{width}}" if column else f"{cell:{width}}"
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            self._print("  ".join(cells), style)

    def _shows(self, seat: int) -> bool:
        return self._live and (not self._secret or self._names[seat] == HUMAN)

    def _who(self, seat: int) -> str:
        return f"{seat_name(seat)} ({self._names[seat]})"

    def _block(self, seat: int | None, title: str, text: str) -> None:
        if self._console is None:
            print(f"\n--- {title}" if title.startswith("turn") else f"--- {title}")
            print(textwrap.indent(text.strip("\n"), "  ", lambda _: True), flush=True)
            return
        from rich.panel import Panel
        from rich.text import Text

        colour = "white" if seat is None else _COLOURS[seat % len(_COLOURS)]
        self._console.print(
            Panel(
                Text(text.strip("\n")), title=Text(title), title_align="left", border_style=colour
            )
        )

    def _print(self, text: str, style: str) -> None:
        if self._console is None:
            print(text, flush=True)
        else:
            from rich.text import Text

            self._console.print(Text(text, style=style))


def _rounded(parts: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in parts.items()}
