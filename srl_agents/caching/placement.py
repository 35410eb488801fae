"""Choice of the instance that reads a prompt: one rule, for the conductor of engines and the simulator."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from srl_agents.caching.policies.contract import CachePolicy
from srl_agents.caching.policies.recency import LRU
from srl_envs.errors import ConfigError

Blocks = Sequence[Hashable]
PATIENCE = 1.25
BOUND = 1.25
"""Times the mean work that an instance may have when another prompt goes there: see `Placement`."""
STAY = 0.75
"""Times the work that its prefix saves there that an instance may have beyond the bound."""
CAPACITY = 2**17
"""Blocks of an instance whose memory is not known."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The instance that was chosen for a request, and the work that this costs it."""

    instance: int
    depth: int
    """Blocks from the start on that the instance must have."""
    cost: float
    """Blocks that it has to read, and one for the reply."""


@dataclass(eq=False, slots=True)
class _Site:
    known: CachePolicy[Hashable, bool]
    load: float = 0.0
    """Costs of what was placed here and has not ended."""
    alive: bool = True


class Placement:
    """Places requests where their prefix is, as long as no instance gets much more work than the others.

    Those with at most `BOUND` times the mean work, and `STAY` times what the prefix saves there, compete by
    their work less ``patience`` times what it saves. Without the bound all prompts follow the rules that they
    begin with to one instance; without patience matches leave their histories. Bounded loads:
    arXiv:1608.01350. The numbers: ``python -m benchmarks.caching.placements``.

    It asks no instance: it keeps, per instance, what that must have read. So a choice costs microseconds, and
    is wrong only where an instance evicts otherwise. Compare arXiv:2407.00079 section 5, whose conductor
    takes the instance that would answer first.

    Args:
        capacities: blocks that each instance has memory for.
        patience: a request is placed behind so many times the work that its prefix saves.

    Raises:
        ConfigError: a number is too small.
    """

    def __init__(self, capacities: Sequence[int], *, patience: float = PATIENCE) -> None:
        if not 0 <= patience < math.inf:
            raise ConfigError(f"patience={patience}: use a number of 0 or more.")
        if min(capacities) < 1:
            raise ConfigError(f"capacity={[*capacities]}: use 1 or more blocks for each instance.")
        self._sites = [_Site(LRU(blocks)) for blocks in capacities]
        self._patience = patience

    @property
    def alive(self) -> list[int]:
        """Instances that requests may go to."""
        return [number for number, site in enumerate(self._sites) if site.alive]

    def place(self, blocks: Blocks, without: Collection[int] = ()) -> Chosen:
        """Choose an instance, which then has the request's blocks and its work.

        Args:
            blocks: names of the prompt's blocks, each covering all before it.
            without: instances that it must not go to.

        Raises:
            ConfigError: no instance is alive.
        """
        alive = [number for number in self.alive if number not in without]
        if not alive:
            raise ConfigError("no instance is left to place a request on.")
        depth = {number: self._depth(number, blocks) for number in alive}
        best = self._best(depth)
        site = self._sites[best]
        for key in blocks[depth[best] :]:
            site.known.insert(key, True)
        site.known.touch(blocks)
        over = len(site.known) - site.known.capacity
        if over > 0:
            site.known.evict(over)
        chosen = Chosen(best, depth[best], len(blocks) - depth[best] + 1.0)
        site.load += chosen.cost
        return chosen

    def _best(self, depth: Mapping[int, int]) -> int:
        load = {number: self._sites[number].load for number in depth}
        most, least = BOUND * sum(load.values()) / len(load), min(depth.values())
        open_to = [n for n in depth if load[n] <= most + STAY * (depth[n] - least)]
        return min(open_to, key=lambda n: (load[n] - self._patience * depth[n], n))

    def end(self, chosen: Chosen) -> None:
        """A request that was placed is answered or given up."""
        self._sites[chosen.instance].load -= chosen.cost

    def lose(self, instance: int) -> None:
        """An instance has died: nothing more goes there, and what it had is gone."""
        self._sites[instance].alive = False
        self._sites[instance].known.clear()

    def _depth(self, instance: int, blocks: Blocks) -> int:
        known, depth = self._sites[instance].known, 0
        while depth < len(blocks) and known.get(blocks[depth]) is not None:
            depth += 1
        return depth
