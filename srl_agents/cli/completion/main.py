"""`srl completion SHELL`: print a script that completes commands, options, games and recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from srl_agents.cli.command_line import read_options

DESCRIPTION = """Print a script that lets a shell complete commands, options, games, recipes and files.

The script is of the commands that are installed: print it anew when you install further ones.

Examples:
  srl completion bash > ~/.local/share/bash-completion/completions/srl
  srl completion zsh > ~/.zfunc/_srl             # a folder of $fpath
  srl completion fish > ~/.config/fish/completions/srl.fish
"""


@dataclass(frozen=True)
class CompletionOptions:
    """Which script."""

    shell: Annotated[
        tyro.conf.Positional[Literal["bash", "zsh", "fish", "tcsh"]],
        tyro.conf.arg(metavar="{bash,zsh,fish,tcsh}"),
    ]
    """The shell that runs it."""


def main(argv: list[str]) -> int:
    """Run the command; see `srl completion --help`."""
    chosen = read_options(
        CompletionOptions, command="srl completion", description=DESCRIPTION, argv=argv
    )
    import shtab

    from srl_agents.cli.completion.tree import parser

    print(shtab.complete(parser(), chosen.shell))
    return 0
