"""Who acts: scripted bots and language models, by one name each."""

from srl_agents.agents.players import (
    EndpointPolicy,
    ModelPolicy,
    Policy,
    Reply,
    ScriptedPolicy,
    TurnRequest,
)
from srl_agents.agents.resolver import ModelName, parse_model_name, text_policy

__all__ = [
    "EndpointPolicy",
    "ModelName",
    "ModelPolicy",
    "Policy",
    "Reply",
    "ScriptedPolicy",
    "TurnRequest",
    "parse_model_name",
    "text_policy",
]
