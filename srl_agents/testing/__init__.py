"""Conformance kits: whoever writes a part outside this repository runs the kit of its protocol."""

from srl_agents.testing.engine_kit import check_engine
from srl_agents.testing.transport_kit import check_transport

__all__ = ["check_engine", "check_transport"]
