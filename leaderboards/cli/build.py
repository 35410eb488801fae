"""`srl leaderboard build`: the static site."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from leaderboards.cli.parser import OneLineParser

EXAMPLE = """\
example:
  srl leaderboard build --store runs/quickstart/league.db --out runs/quickstart/leaderboard

writes index.html, which opens without a server, and data.json with the same numbers.
"""


def main(argv: list[str]) -> int:
    """Exit code 0: built."""
    options = _parser().parse_args(argv)

    from leaderboards.build import board_data, write_site
    from srl_agents.league.store import LeagueStore

    again = ["srl", "leaderboard", "build", "--store", options.store, "--out", options.out]
    again += ["--schedule", options.schedule] if options.schedule else []
    path = Path(options.store)
    with LeagueStore(path / "league.db" if path.is_dir() else path, mode="read") as store:
        data = board_data(store, shlex.join(again), options.schedule)
    index, numbers = write_site(data, Path(options.out))
    if options.json:
        print(json.dumps({"index": str(index), "data": str(numbers), "boards": data["boards"]}))
    else:
        print(summary(data), f"open {index}", sep="\n")
    return 0


def summary(data: dict[str, Any], top: int = 5) -> str:
    """The first rows of every board as plain text."""
    lines = []
    for board in data["boards"]:
        name = " ".join(filter(None, [board["env_id"], board["options"]]))
        if not board["agents"]:
            lines.append(f"{name}: no evaluation matches yet")
            continue
        lines.append(f"{name}: {board['matches']} matches, {board['clusters']} seeds")
        lines += [_line(row) for row in board["agents"][:top]]
        if len(board["agents"]) > top:
            lines.append(f"  ... and {len(board['agents']) - top} more")
    return "\n".join(lines or ["the store holds no match yet"])


def _line(row: dict[str, Any]) -> str:
    ranks = sorted({row["best_rank"], row["worst_rank"]})
    width = "?" if row["half_width"] is None else f"{row['half_width']:.0f}"
    mark = "  provisional" if row["provisional"] else ""
    place = "-".join(map(str, ranks))
    return f"  {place:>7}  {row['elo']:+6.0f} ±{width:<4} {row['agent']}{mark}"


def _parser() -> OneLineParser:
    build = OneLineParser("build", "Make the static site of a league store.", EXAMPLE)
    build.add_argument(
        "--store", required=True, metavar="PATH", help="a run's folder, or its SQLite file"
    )
    build.add_argument("--out", required=True, metavar="DIR", help="folder to write to")
    build.add_argument(
        "--schedule",
        metavar="NAME",
        help="count the matches of this schedule only, for example eval/final",
    )
    build.add_argument("--json", action="store_true", help="print the numbers as JSON")
    return build
