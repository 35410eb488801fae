"""`srl leaderboard build`: the static site."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from leaderboards.cli.shared.options import BoardOptions, FingerprintOptions, OutOptions
from leaderboards.cli.shared.progress import ProgressBar
from leaderboards.contents.fields import visible
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError, nearest
from srl_envs.reading.settings import absent_unless_given

DESCRIPTION = """Make the static site of a board or a league store.

Examples:
  srl leaderboard build --store runs/quickstart-tiny-seed0 --out runs/site
  srl leaderboard build --store runs/quickstart-tiny-seed0 --schedule eval/final --out runs/site
  srl leaderboard build --board my-board --out my-site
  srl leaderboard build --board their-board --fingerprint 03867673b2c2480e --out my-site

Writes index.html, which opens without a server, data.json with the same numbers, and preview.png.
"""


@dataclass(frozen=True, kw_only=True)
@absent_unless_given("board")
class BuildOptions(OutOptions, BoardOptions, FingerprintOptions, JSONOptions):
    """What the site shows, and where it goes."""

    store: Annotated[Path | None, tyro.conf.arg(metavar="PATH")] = None
    """A run's folder, or its SQLite file."""
    schedule: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Count the matches of this schedule only, for example eval/final."""
    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 60
    """Most replays of one board; each is played again from its replies."""


def main(argv: list[str]) -> int:
    """Exit code 0: built."""
    options = read_options(
        BuildOptions, command="srl leaderboard build", description=DESCRIPTION, argv=argv
    )
    if options.board and options.schedule:
        raise ConfigError("--schedule goes with --store: a board has the schedule of its protocol.")
    if options.store and options.fingerprint:
        raise ConfigError("--fingerprint goes with --board: a store has no signature.")
    if (options.board is None) == (options.store is None):
        raise ConfigError("give --store PATH or --board DIR, one of them.")
    if options.board is not None:
        return _board(options, options.board)
    return _store(options, options.store or Path())


def _board(options: BuildOptions, board: Path) -> int:
    from leaderboards.pages.build import board_site

    again = ["srl", "leaderboard", "build", "--board", str(board), "--out", str(options.out)]
    with ProgressBar(quiet=options.json) as bar:
        data, episodes = board_site(
            board, command=shlex.join(again), per_board=options.episodes, progress=bar.show
        )
    _compare_keys(options, data["fingerprint"])
    return _write(options, data, episodes)


def _store(options: BuildOptions, given: Path) -> int:
    from leaderboards.pages.build import store_site
    from srl_agents.league.store.history import LeagueStore
    from srl_agents.rollouts.transcripts import TRANSCRIPTS

    again = ["srl", "leaderboard", "build", "--store", str(given), "--out", str(options.out)]
    again += ["--schedule", options.schedule] if options.schedule else []
    path = given / "league.db" if given.is_dir() else given
    with LeagueStore(path, mode="read") as store:
        if options.schedule is not None:
            _require_schedule(options.schedule, store.schedules())
        data, episodes = store_site(
            store,
            path.with_name(TRANSCRIPTS),
            command=shlex.join(again),
            schedule=options.schedule,
            per_board=options.episodes,
        )
        return _write(options, data, episodes)


def _require_schedule(name: str, played: list[str]) -> None:
    """Refuse a schedule that no evaluation match is of."""
    if name not in played:
        raise ConfigError(
            f"--schedule {name}: no evaluation match is of it.{nearest(name, played)} "
            f"There are: {', '.join(played) or 'none yet'}."
        )


def _compare_keys(options: BuildOptions, found: str) -> None:
    """Print whose board it is, or refuse another than the one that was asked for."""
    if options.fingerprint and options.fingerprint != found:
        raise ConfigError(
            f"{options.board} is signed by the key {found}, not by {options.fingerprint}: it is another "
            "board, or its operator has a new key. Ask there."
        )
    if not options.json:
        print(f"signed by the key {found}")


def _write(options: BuildOptions, data: dict[str, Any], episodes: Iterator[dict[str, Any]]) -> int:
    from leaderboards.pages.build import write_site
    from leaderboards.pages.differences import differences, last_site

    data["differences"] = differences(last_site(options.out), data)
    for part in data["set_aside"]:
        print(visible(f"set aside: {part['bundle']}: {part['reason']}"), file=sys.stderr)
    total = sum(len(board["episodes"]) for board in data["boards"])
    with ProgressBar(quiet=options.json) as bar:
        index = write_site(data, options.out, _counted(episodes, bar, total))
    if options.json:
        numbers = str(index.with_name("data.json"))
        print(plain_json({"index": str(index), "data": numbers, "boards": data["boards"]}))
    else:
        print(summary(data))
        for line in data["differences"]:
            print(visible(f"since the last site: {line}"))
        print(f"open {index}")
    return 0


def _counted(
    episodes: Iterator[dict[str, Any]], bar: ProgressBar, total: int
) -> Iterator[dict[str, Any]]:
    for done, episode in enumerate(episodes, 1):
        yield episode
        bar.show("replays", done, total)


def summary(data: dict[str, Any], top: int = 5) -> str:
    """The first rows of every board as plain text."""
    lines = []
    for board in data["boards"]:
        name = " ".join(filter(None, [board["env_id"], board["options"]]))
        if not board["agents"]:
            lines.append(f"{name}: no evaluation matches yet")
            continue
        lines.append(f"{name}: {board['matches']} matches, {board['clusters']} seeds")
        lines += [_line(row, board["metric"]) for row in board["agents"][:top]]
        if len(board["agents"]) > top:
            lines.append(f"  ... and {len(board['agents']) - top} more")
    return visible("\n".join(lines or ["the store holds no match yet"]))


def _line(row: dict[str, Any], metric: dict[str, Any]) -> str:
    ranks = sorted({row["best_rank"], row["worst_rank"]})
    mark = "  provisional" if row["provisional"] else ""
    place, digits = "-".join(map(str, ranks)), metric["digits"]
    value = (
        "?" if row["value"] is None else format(row["value"], f"{'+' * metric['signed']}.{digits}f")
    )
    width = "?" if row["half_width"] is None else format(row["half_width"], f".{digits}f")
    return f"  {place:>7}  {value:>6} ±{width:<5} {row['agent']}{mark}"
