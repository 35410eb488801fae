"""`srl plan`: one file for everything that can be planned."""

from srl_agents.cli.plan.main import main

__all__ = ["main"]
