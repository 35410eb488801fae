"""`srl league run | status | resume | ...`: run a league and show its ratings."""

from __future__ import annotations

import importlib

from srl_envs.errors import ConfigError, nearest

SUBCOMMANDS = {
    "run": "train the learners of a recipe, or let its fixed agents play",
    "status": "who is how strong, and did the learners get better",
    "rebuild": "make a damaged store anew from what is left of the run",
    "resume": "continue an interrupted run",
    "exploit": "train an exploiter against one frozen version, and report its score",
    "crossplay": "let the learners of several runs play each other",
    "swap": "let learners with seats of their own exchange them",
    "export": "write a store as Parquet files",
}
HELP = "\n".join(
    [
        "usage: srl league COMMAND [OPTIONS]",
        "",
        *(f"  {name:9} {what}" for name, what in SUBCOMMANDS.items()),
        "",
        "`srl league COMMAND --help` explains one. Examples:",
        "  srl league run population-connect-four",
        "  srl league status runs/population-connect-four-seed0",
        "  srl league resume runs/quickstart-tiny-seed0",
        "  srl league exploit runs/quickstart-tiny-seed0 alice@30",
        "  srl league crossplay runs/quickstart-tiny-seed0 runs/quickstart-tiny-seed1",
        "  srl league swap runs/roles-hanabi-seed0",
        "  srl league export runs/quickstart-tiny-seed0 --out parquet",
    ]
)


def main(argv: list[str]) -> int:
    """Run the command; see `srl league --help`."""
    name, *rest = argv or ["--help"]
    if name in ("--help", "-h"):
        print(HELP)
        return 0
    if name not in SUBCOMMANDS:
        raise ConfigError(
            f"no subcommand {name!r}.{nearest(name, SUBCOMMANDS)} There are: "
            f"{', '.join(SUBCOMMANDS)}."
        )
    module = "run" if name == "resume" else name
    command = importlib.import_module(f"srl_agents.cli.league.{module}")
    return int(getattr(command, name)(rest))
