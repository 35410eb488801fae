"""Conformance kits: the author of a part outside this repository runs the kit of its protocol."""

from srl_agents.testing.algorithm_kit import check_algorithm
from srl_agents.testing.coordination_kit import check_coordination
from srl_agents.testing.engine_kit import check_engine
from srl_agents.testing.estimator_kit import check_estimator
from srl_agents.testing.reward_kit import check_reward
from srl_agents.testing.transport_kit import check_transport

__all__ = [
    "check_algorithm",
    "check_coordination",
    "check_engine",
    "check_estimator",
    "check_reward",
    "check_transport",
]
