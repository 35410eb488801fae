"""Ids of environments that are gone, because a change of their rules made a new version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RETIRED: Mapping[str, str] = MappingProxyType(
    {"commons-v0": "no seat knows the last round, growth is faster and the limit higher"}
)
"""Id that is gone -> what its next version does otherwise, as the end of "in sealed_auction-v1 ..."."""
