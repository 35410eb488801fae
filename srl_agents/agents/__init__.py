"""Agents and their names: bots, models, adapters, endpoints and people."""

from srl_agents.agents.grammar import AgentName, parse
from srl_agents.agents.players import ModelPolicy, Policy, ScriptedPolicy

__all__ = ["AgentName", "ModelPolicy", "Policy", "ScriptedPolicy", "parse"]
