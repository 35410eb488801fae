"""Who acts: scripted bots and language models, by one name each."""

from srl_agents.policies.catalog import ModelName, parse_model_name, text_policy
from srl_agents.policies.players import (
    EndpointPolicy,
    ModelPolicy,
    Policy,
    Reply,
    ScriptedPolicy,
    TurnRequest,
)

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
