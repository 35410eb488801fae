"""Conformance kits: whoever writes a part outside this repository runs the kit of its protocol."""

from srl_agents.testing.transport_kit import check_transport

__all__ = ["check_transport"]
