"""`srl pull OWNER/NAME`: a run's adapters or a board from a model hub, checked file by file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, RepositoryOptions, ResultOptions, meaning
from srl_agents.records import plain_json

DESCRIPTION = """Fetch what `srl push` shared: a run with its adapters, or a board with its bundles.

Only data comes: safetensors, JSON, YAML and Markdown, each compared with its hash. A recipe among them may
name code; --no-foreign-code refuses that (`srl docs strangers_files`). A pull that was killed goes on with
the same command, and the folder has its name only when everything is there.

Examples:
  srl pull alice/quickstart
  srl pull alice/quickstart@v2 --out shared          # a branch, tag or commit
  srl play connect_four-v0 tiny+quickstart/adapters/alice random
  srl leaderboard verify a-board/board
"""


@dataclass(frozen=True, kw_only=True)
@meaning(out="Put the folder NAME in this one; in the present one if absent.")
class PullOptions(RepositoryOptions, ResultOptions, JSONOptions):
    """What to fetch, and where to."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl pull --help`."""
    options = read_options(PullOptions, command="srl pull", description=DESCRIPTION, argv=argv)
    name, _, revision = options.repository.partition("@")

    from srl_agents.cli.exchange.hub import Hub
    from srl_agents.cli.exchange.received import pulled

    folder, notes = pulled(
        Hub(name, sends=False, quiet=options.json), options.out or Path(), revision or None
    )
    if options.json:
        print(plain_json({"folder": str(folder), "notes": notes}))
    else:
        for note in notes:
            print(f"note: {note}")
        print(folder)
    return 0
