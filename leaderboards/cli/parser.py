"""The options of one subcommand: a mistake takes one line, help ends with examples."""

from __future__ import annotations

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Reports a mistake in one line."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"srl leaderboard {command}".rstrip(),
            description=description,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """One line, exit code 2."""
        self.exit(2, f"{self.prog}: {message}. See --help.\n")
