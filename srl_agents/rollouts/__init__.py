"""Matches of policies in environments: episodes with exact tokens."""

from srl_agents.rollouts.match_queue import Finished, Progress
from srl_agents.rollouts.rollouts import Order, Rollouts

__all__ = ["Finished", "Order", "Progress", "Rollouts"]
