"""`srl leaderboard build`: the static site."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leaderboards.cli.parser import OneLineParser
from leaderboards.cli.progress import ProgressBar
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

EXAMPLE = """\
examples:
  srl leaderboard build --store runs/quickstart-tiny-seed0 --out runs/site
  srl leaderboard build --store runs/quickstart-tiny-seed0 --schedule eval/final --out runs/site
  srl leaderboard build --board my-board --out my-site
  srl leaderboard build --board their-board --fingerprint 03867673b2c2480e --out my-site

writes index.html, which opens without a server, and data.json with the same numbers.
"""


def main(argv: list[str]) -> int:
    """Exit code 0: built."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.board and options.schedule:
        parser.error("--schedule goes with --store: a board has the schedule of its protocol")
    if options.store and options.fingerprint:
        parser.error("--fingerprint goes with --board: a store is signed by nobody")

    from leaderboards.build import board_site, store_site
    from srl_agents.league.store import LeagueStore
    from srl_agents.rollouts.transcripts import TRANSCRIPTS

    source = ["--board", options.board] if options.board else ["--store", options.store]
    again = ["srl", "leaderboard", "build", *source, "--out", options.out]
    again += ["--schedule", options.schedule] if options.schedule else []
    if options.board:
        with ProgressBar(quiet=options.json) as bar:
            data, episodes = board_site(
                Path(options.board),
                command=shlex.join(again),
                per_board=options.episodes,
                told=bar.told,
            )
        _compare_keys(options, data["fingerprint"])
        return _write(options, data, episodes)
    path = Path(options.store)
    path = path / "league.db" if path.is_dir() else path
    with LeagueStore(path, mode="read") as store:
        data, episodes = store_site(
            store,
            path.with_name(TRANSCRIPTS),
            command=shlex.join(again),
            schedule=options.schedule,
            per_board=options.episodes,
        )
        return _write(options, data, episodes)


def _compare_keys(options: argparse.Namespace, found: str) -> None:
    """Print whose board it is, or refuse another than the one that was asked for."""
    if options.fingerprint and options.fingerprint != found:
        raise ConfigError(
            f"{options.board} is signed by the key {found}, not by {options.fingerprint}: it is another "
            "board, or its operator has a new key. Ask there."
        )
    if not options.json:
        print(f"signed by the key {found}")


def _write(
    options: argparse.Namespace, data: dict[str, Any], episodes: Iterator[dict[str, Any]]
) -> int:
    from leaderboards.build import write_site

    for part in data["set_aside"]:
        print(f"set aside: {part['bundle']}: {part['reason']}", file=sys.stderr)
    total = sum(len(board["episodes"]) for board in data["boards"])
    with ProgressBar(quiet=options.json) as bar:
        index = write_site(data, Path(options.out), _counted(episodes, bar, total))
    if options.json:
        numbers = str(index.with_name("data.json"))
        print(plain_json({"index": str(index), "data": numbers, "boards": data["boards"]}))
    else:
        print(summary(data), f"open {index}", sep="\n")
    return 0


def _counted(
    episodes: Iterator[dict[str, Any]], bar: ProgressBar, total: int
) -> Iterator[dict[str, Any]]:
    for done, episode in enumerate(episodes, 1):
        yield episode
        bar.told("replays", done, total)


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
    return "\n".join(lines or ["the store holds no match yet"])


def _line(row: dict[str, Any], metric: dict[str, Any]) -> str:
    ranks = sorted({row["best_rank"], row["worst_rank"]})
    mark = "  provisional" if row["provisional"] else ""
    place, digits = "-".join(map(str, ranks)), metric["digits"]
    value = (
        "?" if row["value"] is None else format(row["value"], f"{'+' * metric['signed']}.{digits}f")
    )
    width = "?" if row["half_width"] is None else format(row["half_width"], f".{digits}f")
    return f"  {place:>7}  {value:>6} ±{width:<5} {row['agent']}{mark}"


def _parser() -> OneLineParser:
    build = OneLineParser("build", "Make the static site of a board or a league store.", EXAMPLE)
    source = build.add_mutually_exclusive_group(required=True)
    source.add_argument("--store", metavar="PATH", help="a run's folder, or its SQLite file")
    source.add_argument("--board", metavar="DIR", help="a board of verified bundles")
    build.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    build.add_argument(
        "--schedule",
        metavar="NAME",
        help="count the matches of this schedule only, for example eval/final",
    )
    build.add_argument(
        "--fingerprint",
        metavar="HEX",
        help="refuse a board that another key signed; 16 digits, as its operator tells them",
    )
    build.add_argument(
        "--episodes",
        type=int,
        default=60,
        metavar="N",
        help="most replays of one board; each is played again from its replies",
    )
    build.add_argument("--json", action="store_true", help="print the numbers as JSON")
    return build
