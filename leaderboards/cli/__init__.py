"""`srl leaderboard run | bundle | verify | publish | build`: measure, claim, check, show."""

from leaderboards.cli.main import main

__all__ = ["main"]
