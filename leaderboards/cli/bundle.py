"""`srl leaderboard bundle`: make finished runs folders that anybody can check."""

from __future__ import annotations

import argparse
from pathlib import Path

from leaderboards.cli.parser import OneLineParser
from srl_agents.records import plain_json
from srl_envs.errors import ConfigError

EXAMPLES = """\
examples:
  srl leaderboard bundle runs/board
  srl leaderboard bundle runs/board/connect_four-v0 --out submission --with-adapters

Without --out the bundles lie in DIR/bundles. A bundle holds every match of the schedule, or is not made.
"""


def main(argv: list[str]) -> int:
    """Exit code: 0 made, 2 the user has something to fix."""
    options = _parser().parse_args(argv)

    from leaderboards.bundle import write_bundle
    from leaderboards.run import HEADER

    folder = Path(options.dir)
    runs = (
        [folder]
        if (folder / HEADER).is_file()
        else sorted(p.parent for p in folder.glob(f"*/{HEADER}"))
    )
    if not runs:
        raise ConfigError(
            f"{folder} holds no run. `srl leaderboard run ENV --out {folder}` makes one."
        )
    out = Path(options.out) if options.out else folder / "bundles"
    made = [write_bundle(run, out, with_adapters=options.with_adapters) for run in runs]
    if options.json:
        told = [{"env": b.protocol.name, "root": b.root, "folder": str(b.folder)} for b in made]
        print(plain_json(told))
        return 0
    for bundle in made:
        print(f"{bundle.protocol.name}: {len(bundle.specs)} matches in {bundle.folder}")
    print(f"next: srl leaderboard verify {out} --level L2")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        "bundle", "Make the bundle of every finished run below a folder.", EXAMPLES
    )
    parser.add_argument("dir", metavar="DIR", help="the --out of `srl leaderboard run`")
    parser.add_argument("--out", metavar="DIR", help="where bundles go")
    parser.add_argument(
        "--with-adapters",
        action="store_true",
        help="put the adapters' weights in, so that L3 needs nothing else",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
