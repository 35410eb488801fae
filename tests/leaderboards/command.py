"""`srl leaderboard`, as a user calls it."""

from __future__ import annotations

from srl_agents.cli import main as srl


def main(argv: list[str]) -> int:
    """Exit code of the command."""
    return srl.main(["leaderboard", *argv])
