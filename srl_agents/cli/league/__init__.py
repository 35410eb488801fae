"""`srl league`: run leagues, and rate, compare, exchange and attack the agents of runs."""

from srl_agents.cli.league.main import main

__all__ = ["main"]
