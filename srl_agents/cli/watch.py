"""`srl watch`: the roles of a run, or an episode step by step or as a web page."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

import srl_envs
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, MetricsOptions, RandomOptions, ReplyOptions
from srl_agents.cli.pages.episode.markup import page
from srl_agents.cli.views.recorded import RecordedEpisode, RecordedStep, Turn, watchable
from srl_agents.cli.views.transcript import move_text, news, printable, verdict
from srl_envs.errors import ConfigError

DESCRIPTION = """Look at a run that goes on, or replay an episode that `srl play --save` or Transcript.save
wrote, or let agents play one.

A folder of `srl train` or `srl league run` shows its roles until Ctrl-C: who is alive, what waits, how
old rows are, where the time goes, tokens a second, and how long new versions travel.

In a terminal an episode goes step by step: Enter, space or right arrow for the next step, left arrow or b
for the one before, g and G for the first and the last, q to leave. In a pipe, or with --all, all
steps are printed at once. With --html the episode becomes one web page that needs nothing else.

An agent is one of  bot:NAME  MODEL[+ADAPTER]  openai:MODEL@URL  (`srl docs agents`).

Examples:
  srl watch runs/quickstart-tiny-seed0
  srl watch runs/quickstart-tiny-seed0 --all --json
  srl watch runs/quickstart-tiny-seed0 --metrics-port 9400     # scrape http://127.0.0.1:9400/metrics
  srl watch game.jsonl
  srl watch connect_four-v0 tiny strong --seed 7
  srl watch game.jsonl --all
  srl watch game.jsonl --html game.html
  srl watch runs/forks-tiny-seed0/3f2a9c    # a match: of the final round robin, with rollout.trace any
"""

_ID = re.compile(r"[0-9a-f]{4,32}")
"""The first digits of a match's id."""
NEXT, BACK, FIRST, LAST, QUIT = "next", "back", "first", "last", "quit"
KEYS = {
    "\r": NEXT, "\n": NEXT, " ": NEXT, "n": NEXT, "j": NEXT, "\x1b[C": NEXT, "\x1b[B": NEXT,
    "\x1bOC": NEXT, "\x1bOB": NEXT, "b": BACK, "p": BACK, "k": BACK, "\x7f": BACK, "\x1b[D": BACK,
    "\x1b[A": BACK, "\x1bOD": BACK, "\x1bOA": BACK, "g": FIRST, "\x1b[H": FIRST, "G": LAST,
    "\x1b[F": LAST, "q": QUIT, "\x1b": QUIT, "\x03": QUIT, "\x04": QUIT, "": QUIT,
}  # fmt: skip
"""What terminals send -> what it means; nothing is the end of input."""
EVERY_S = 1.0
"""Between two looks at a run, which writes once per update."""
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")


@dataclass(frozen=True)
class WatchOptions(RandomOptions, ReplyOptions, MetricsOptions, JSONOptions):
    """What to look at, and how to show it."""

    file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|FILE|ENV")]
    """The run's folder, a match of it (RUN/ID), the recorded episode, or the environment that agents play."""
    agents: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[AGENT ...]")
    ] = ()
    """Who plays, one per seat; none where a file is given."""
    html: Annotated[Path | None, tyro.conf.arg(metavar="OUT")] = None
    """Write a web page here instead."""
    all: bool = False
    """Print all steps of an episode at once, or look at a run once, also in a terminal."""
    full: bool = False
    """Show all that a seat sees at every step, not only what is new, and thoughts whole."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl watch --help`."""
    options = read_options(WatchOptions, command="srl watch", description=DESCRIPTION, argv=argv)
    if options.file.is_dir() and not options.agents:
        return _run(options)
    if options.json or options.metrics_port is not None:
        raise ConfigError(
            f"--json, --metrics-port show a run, and {options.file} is not a run's folder."
        )
    episode = _episode(options)
    if options.html is not None:
        _write(options.html, page(episode))
    elif options.all or not (sys.stdin.isatty() and sys.stdout.isatty()):
        for screen in screens(episode, full=options.full):
            screen.print()
    else:
        walk(list(screens(episode, full=options.full)))
    if episode.differs:
        parts = ", ".join(episode.differs)
        print(
            f"srl watch: warning: {options.file} does not replay to what it claims: {parts} differ.",
            file=sys.stderr,
        )
    return 0


def _run(options: WatchOptions) -> int:
    """A run's roles, until the user interrupts."""
    from srl_agents.cli.views.roles import serve_run, watch_run

    if options.html is not None or options.full:
        raise ConfigError(f"--html, --full show an episode, and {options.file} is a folder.")
    try:
        if options.metrics_port is not None:
            serve_run(options.file, options.metrics_port)
        watch_run(options.file, every_s=EVERY_S, once=options.all, as_json=options.json)
    except KeyboardInterrupt:
        print()  # as it should end
    return 0


def _episode(options: WatchOptions) -> RecordedEpisode:
    """The recorded one, or one that the agents play now."""
    if not options.agents:
        if (
            not options.file.exists()
            and options.file.parent.is_dir()
            and _ID.fullmatch(options.file.name)
        ):
            return _match(options.file.parent, options.file.name)
        if not options.file.exists():
            raise ConfigError(
                f"{options.file}: no such file or folder. Give a run's folder, a recorded episode, or an "
                "environment and its agents: srl watch nim-v0 strong middle."
            )
        return watchable(srl_envs.load_transcript(options.file), ())
    from srl_agents.agents.resolver import find, refuse_human
    from srl_agents.cli.play import recorded_game

    env_id = str(options.file)
    for text in options.agents:
        refuse_human(find(text, env_id).name, "by `srl watch`, which shows a game when it is over")
    transcript = recorded_game(
        env_id, options.agents, seed=options.seed, max_new_tokens=options.max_new_tokens
    )
    return watchable(transcript, options.agents)


def _match(run: Path, start: str) -> RecordedEpisode:
    """A match that a run wrote down, with the labels of who played it."""
    from srl_agents.records import label_of
    from srl_agents.rollouts.transcripts import (
        TRAINING_MATCHES,
        TRANSCRIPTS,
        read_results,
        read_transcripts,
    )

    found = {
        spec.match_id: (path, spec)
        for path in (run / TRANSCRIPTS, run / TRAINING_MATCHES)
        for spec, _ in read_results(path)
        if spec.match_id.startswith(start)
    }
    if len(found) != 1:
        raise ConfigError(
            f"{run / start}: no file, and {len(found) or 'no'} matches of the run begin so in {TRANSCRIPTS} "
            f"(final round robin) and {TRAINING_MATCHES} (written with rollout.trace)."
        )
    [(match_id, (path, spec))] = found.items()
    transcript = read_transcripts(path, [match_id])[match_id]
    return watchable(transcript, tuple(map(label_of, spec.seats)))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--html {path}: {error.strerror}.") from None
    print(f"Open {path.resolve().as_uri()}")


@dataclass(frozen=True)
class Block:
    """A titled text; ``seat`` gives it its colour."""

    title: str
    text: str
    seat: int | None = None


@dataclass(frozen=True)
class Screen:
    """One screen: a step, or the end."""

    title: str
    blocks: tuple[Block, ...]

    def print(self, console: Any = None) -> None:
        """Print it; as panels where there is a rich console."""
        if console is None:
            print(f"=== {self.title}")
            for block in self.blocks:
                print(f"--- {block.title}")
                print(textwrap.indent(block.text.strip("\n"), "  ", lambda _: True), flush=True)
            print()
            return
        from rich.panel import Panel
        from rich.text import Text

        console.print(Text(self.title, style="bold"))
        for block in self.blocks:
            colour = "white" if block.seat is None else _COLOURS[block.seat % len(_COLOURS)]
            text, title = Text(block.text.strip("\n")), Text(block.title)
            console.print(Panel(text, title=title, title_align="left", border_style=colour))


def screens(episode: RecordedEpisode, *, full: bool) -> Iterator[Screen]:
    """One screen per step, and one for the end."""
    game = episode.transcript
    head = f"{game.env_id}, seed {game.seed} ({game.split})"
    total = len(episode.steps)
    for step in episode.steps:
        title = f"{head}, step {step.number} of {total}"
        yield Screen(title, tuple(_blocks(episode, step, full=full)))
    yield Screen(f"{head}, the end", tuple(_end(episode)))


def _blocks(episode: RecordedEpisode, step: RecordedStep, *, full: bool) -> Iterator[Block]:
    if step.board is not None:
        yield Block("the game, as a spectator sees it", printable(step.board))
    for turn in step.on_move:
        who = episode.who(turn.seat)
        seen = turn.text if full or turn.before is None else news(turn.before, turn.text)
        yield Block(f"{who} sees", printable(seen), turn.seat)
        if turn.thoughts:
            folded = printable(turn.thoughts) if full else move_text(turn.thoughts)
            yield Block(f"{who} thinks, which the game does not read", folded, turn.seat)
        yield Block(f"{who} replies", printable(turn.reply or "") or "(nothing)", turn.seat)
    paid = [line for turn in step.turns if (line := turn_line(episode, turn))]
    yield Block("what came of it", "\n".join(paid))


def turn_line(episode: RecordedEpisode, turn: Turn) -> str:
    """What a step brought one seat, in a line; empty for one that waited and got nothing."""
    word = "" if turn.reply is None else verdict(turn.invalid, turn.played)
    parts = ", ".join(f"{name} {value:+.3g}" for name, value in turn.components.items() if value)
    paid = f"reward {turn.reward:+.3g} ({parts})" if parts else ""
    said = ", ".join(filter(None, (word, paid)))
    return f"{episode.who(turn.seat)}: {said}" if said else ""


def _end(episode: RecordedEpisode) -> Iterator[Block]:
    if episode.last_board is not None:
        yield Block("the game, as a spectator sees it", printable(episode.last_board))
    for seat, (before, text) in enumerate(episode.last):
        yield Block(f"{episode.who(seat)} sees at the end", printable(news(before, text)), seat)
    game, lines = episode.transcript, []
    for seat, outcome in enumerate(game.outcomes):
        parts = ", ".join(f"{name} {value:.4g}" for name, value in game.components[seat].items())
        forfeited = " Forfeited." if seat in game.forfeited else ""
        lines.append(
            f"{episode.who(seat)}: outcome {outcome:+.3g}, reward {game.rewards[seat]:+.3g}"
            f" ({parts}).{forfeited}"
        )
    if game.truncated:
        lines.append("The episode was cut off before its end.")
    yield Block("result", "\n".join(lines))


def walk(shown: list[Screen]) -> None:
    """Show one screen at a time and follow the keys."""
    from rich.console import Console

    console = Console(highlight=False)
    at = 0
    with single_keys() as read_key:
        while True:
            console.clear()
            shown[at].print(console)
            console.print(f"[dim]{at + 1}/{len(shown)}   next: Enter   back: b   leave: q[/dim]")
            pressed = KEYS.get(read_key())
            if pressed == QUIT or (pressed == NEXT and at == len(shown) - 1):
                return
            at = moved(at, pressed, len(shown))


def moved(at: int, pressed: str | None, total: int) -> int:
    """The screen after a key: within 0 and ``total`` - 1; unknown keys change nothing."""
    there = {NEXT: at + 1, BACK: at - 1, FIRST: 0, LAST: total - 1}.get(pressed or "", at)
    return max(0, min(total - 1, there))


@contextlib.contextmanager
def single_keys() -> Iterator[Callable[[], str]]:
    """A terminal that gives each key at once, unseen; yields what reads one, arrow keys whole."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number)
        yield lambda: os.read(number, 8).decode(errors="replace")
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
