"""`srl plan`: memory and time of a training run or an inference cluster, before it begins."""

from srl_agents.cli.plan.main import main

__all__ = ["main"]
