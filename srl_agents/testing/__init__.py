"""Conformance kits: the author of a part outside this repository runs the kit of its protocol.

A kit is imported when it is first used, so none brings what another needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kit = import_module(f"{__name__}.{name.removeprefix('check_')}_kit")
    found = globals()[name] = getattr(kit, name)
    return found
