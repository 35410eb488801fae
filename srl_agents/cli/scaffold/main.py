"""`srl new KIND NAME`: an installable package with a game, reward, algorithm, engine ... of your own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import ResultOptions, meaning
from srl_agents.cli.scaffold.packages import KINDS, write

DESCRIPTION = f"""Write a small package that passes its kit at once; then change what it does.

KIND is {", ".join(KINDS)}.
The package has one module that works, an entry point, a test that runs the kit, and a page. A protocol of
leaderboards is one JSON file. What each kind has to keep: `srl docs extend`.

Examples:
  srl new env trade_winds
  srl new reward politeness
  srl new coordination averaging --out packages
  srl new algorithm my_reinforce
"""


@dataclass(frozen=True, kw_only=True)
@meaning(out="Write the folder NAME of the package in this one; in the present one if absent.")
class NewOptions(ResultOptions):
    """What is written, and where."""

    kind: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="KIND")]
    """What the package adds."""
    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Name of the package, as in `import NAME`."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl new --help`."""
    options = read_options(NewOptions, command="srl new", description=DESCRIPTION, argv=argv)
    folder = write(options.kind, options.name, options.out or Path())
    kind = KINDS[options.kind]
    print(f"{folder}: a package of the kind {options.kind}. What to do next:")
    print(f"  pip install --editable '{folder}[test]'")
    print(f"  pytest {folder}")
    print(f"  srl docs {kind.topic}")
    return 0
