"""`srl league`: one file per subcommand."""

from srl_agents.cli.league.main import main

__all__ = ["main"]
