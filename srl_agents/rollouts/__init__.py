"""Policies x environments -> episodes with exact tokens."""

from srl_agents.rollouts.runner import Runner

__all__ = ["Runner"]
