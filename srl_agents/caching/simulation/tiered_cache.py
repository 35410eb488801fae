"""The caches of one node: device first, then slower tiers behind the same interface."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from srl_agents.caching.policies.contract import Knowledge
from srl_agents.caching.simulation.hardware import Device, ModelShape, Tier
from srl_agents.caching.simulation.replay import BlockPolicy
from srl_agents.caching.simulation.traces import Request
from srl_envs.errors import ConfigError

NO_LIMIT = 2**62


@dataclass(slots=True)
class TierTraffic:
    """Bytes of one tier, since the start."""

    read: float = 0.0
    written: float = 0.0
    hit_blocks: int = 0


@dataclass(slots=True)
class Lookup:
    """A request's cached prefix."""

    hits: int
    """Blocks of it."""
    per_tier: list[int]
    """Hits by the tier that they come from."""
    fetch_s: float
    """Time until the slower tiers' part is in the device."""


class TieredCache:
    """Tiers keep copies: a block is written to each tier when it is computed, and leaves each by itself.

    That is how vLLM offloads. A slower tier is read only where fetching a block is faster than
    computing it.
    """

    def __init__(
        self,
        tiers: tuple[Tier, ...],
        shape: ModelShape,
        on: Device,
        tokens_per_block: int,
        policy: Callable[[int], BlockPolicy],
    ) -> None:
        self.tiers = tiers
        self._block_bytes = shape.kv_bytes_per_token * tokens_per_block
        self.capacities = [self._capacity(tier) for tier in tiers]
        self._policies = [policy(capacity) for capacity in self.capacities]
        self.traffic = [TierTraffic() for _ in tiers]
        self._block_s = [self._block_bytes / tier.bytes_per_s for tier in tiers]
        self.tokens_per_block = tokens_per_block
        self._shape, self._device = shape, on

    def _capacity(self, tier: Tier) -> int:
        if math.isinf(tier.size_bytes):
            return NO_LIMIT
        blocks = int(tier.size_bytes / self._block_bytes)
        if blocks < 1:
            raise ConfigError(
                f"tiers: {tier.name} holds {tier.size_bytes / 1e9:g} GB, less than one block of "
                f"{self._block_bytes / 1e9:.3g} GB. Give it more."
            )
        return blocks

    def look(self, request: Request) -> Lookup:
        """The prefix that is cached and worth fetching; changes nothing."""
        per_tier = [0] * len(self.tiers)
        fetch_s, hits = 0.0, 0
        for key in request.blocks:
            tier = next(
                (t for t, policy in enumerate(self._policies) if policy.get(key) is not None), None
            )
            if tier is None or (self._block_s[tier] and not self._pays(tier, hits)):
                break
            per_tier[tier] += 1
            fetch_s += self._block_s[tier]
            hits += 1
        return Lookup(hits, per_tier, fetch_s)

    def holds(self, key: int) -> bool:
        """Whether any tier has the block."""
        return any(policy.get(key) is not None for policy in self._policies)

    def admit(self, request: Request, found: Lookup, knowledge: Knowledge) -> None:
        """Serve the request as `look` found it: account, write what is new, and trim every tier."""
        for policy, traffic, hits in zip(self._policies, self.traffic, found.per_tier, strict=True):
            traffic.hit_blocks += hits
            traffic.read += hits * self._block_bytes
            for key in request.blocks:
                if policy.get(key) is None:
                    policy.insert(key, True)
                    traffic.written += self._block_bytes
            policy.touch(request.blocks, knowledge)
            over = len(policy) - policy.capacity
            if over > 0:
                policy.evict(over)

    def replied(self, request: Request) -> None:
        """The reply to an admitted request is written."""
        for policy in self._policies:
            policy.replied(request.blocks, request.reply_tokens)

    def _pays(self, tier: int, block: int) -> bool:
        start = block * self.tokens_per_block
        flops = self._shape.prefill_flops(start, start + self.tokens_per_block)
        return self._block_s[tier] < flops / (self._device.peak_flops * self._device.mfu)


@dataclass(slots=True)
class LinkTraffic:
    """Bytes that moved between nodes."""

    cached: float = 0.0
    """Cached prefixes, from one prefill node to another."""
    handed_over: float = 0.0
    """Whole prompts, from prefill to decode nodes."""
    transfers: int = 0
    blocks: int = 0
    """Blocks of the cached prefixes."""
