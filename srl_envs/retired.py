"""Ids of environments that are gone, because a change of their rules made a new version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RETIRED: Mapping[str, str] = MappingProxyType(
    {
        "commons-v0": "the last round is hidden, growth is faster and the limit higher",
        "sealed_auction-v0": "the seller has a secret reserve for each item instead of a least bid of 9, and "
        "estimates are off by up to 6 points instead of 4",
    }
)
"""Id that is gone -> what its next version does otherwise, as the end of "in sealed_auction-v1 ..."."""
