"""Replay a trace through one cache and count its hits."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from srl_agents.caching.policies.contract import NOTHING_KNOWN, CachePolicy, Knowledge
from srl_agents.caching.policies.farthest import FarthestNextUse
from srl_agents.caching.policies.online import ONLINE
from srl_agents.caching.simulation.traces import Request, Trace
from srl_envs.errors import ConfigError, nearest

Known = Literal["nothing", "sessions", "ends"]
"""What a policy learns of sessions: nothing, which session asks, or also that a session is over."""
Replies = Literal["never", "written", "at once"]
"""When a policy learns how long a reply is: never, when it is written, or with its prompt. A cache learns it
when it is written; ``at once`` is a replay in which every request is over before the next one arrives."""
TOKEN_S = 0.03
"""Seconds from token to token of a reply, where no hardware is described."""
BlockPolicy = CachePolicy[int, bool]

POLICIES = (*ONLINE, "oracle")


def make_policy(name: str, capacity: int, trace: Trace) -> BlockPolicy:
    """The policy of this name; only the oracle reads ``trace``.

    Raises:
        ConfigError: no policy has this name.
    """
    if name == "oracle":
        return FarthestNextUse(capacity, [request.blocks for request in trace.requests])
    if name not in ONLINE:
        raise ConfigError(
            f"policy={name!r}: no such policy.{nearest(name, POLICIES)} There are {', '.join(POLICIES)}."
        )
    return ONLINE[name](capacity)


@dataclass(frozen=True, slots=True)
class Replay:
    """Counts of a replay."""

    hits_R: NDArray[np.int64]
    """(R,) blocks of each request that were cached, with everything before them."""
    blocks_R: NDArray[np.int64]
    """(R,) blocks of each request."""
    evicted: int

    @property
    def hit_rate(self) -> float:
        """Share of the blocks asked for."""
        return float(self.hits_R.sum() / self.blocks_R.sum())


def knowledge_of(request: Request, known: Known) -> Knowledge:
    """The facts about a request that a policy receives when the prompt is read."""
    session = request.session if known != "nothing" else None
    return Knowledge(session=session, ends=known == "ends" and request.ends)


def admit(policy: BlockPolicy, request: Request, knowledge: Knowledge = NOTHING_KNOWN) -> int:
    """Serve one request: count its cached prefix, cache the rest, and trim to the capacity.

    The blocks of a running request are in memory anyway, so trimming comes last: what was just computed
    may be the first to go (bypass).

    Returns:
        Blocks of the cached prefix.
    """
    chain = request.blocks
    hits = 0
    for key in chain:
        if policy.get(key) is None:
            break
        hits += 1
    for key in chain[hits:]:
        policy.insert(key, True)
    policy.touch(chain, knowledge)
    return hits


def replay(
    trace: Trace,
    policy: BlockPolicy,
    *,
    known: Known = "nothing",
    replies: Replies = "at once",
) -> Replay:
    """Replay every request in order."""
    hits_R = np.zeros(len(trace.requests), dtype=np.int64)
    evicted = 0
    being_written: list[tuple[float, int]] = []
    for number, request in enumerate(trace.requests):
        while being_written and being_written[0][0] <= request.arrival_s:
            over = trace.requests[heapq.heappop(being_written)[1]]
            policy.replied(over.blocks, over.reply_tokens)
        knowledge = knowledge_of(request, known)
        if replies == "at once":
            knowledge = replace(knowledge, reply_tokens=request.reply_tokens)
        elif replies == "written":
            written_s = request.arrival_s + request.reply_tokens * TOKEN_S
            heapq.heappush(being_written, (written_s, number))
        hits_R[number] = admit(policy, request, knowledge)
        too_many = len(policy) - policy.capacity
        if too_many > 0:
            policy.evict(too_many)
            evicted += too_many
    blocks_R = np.array([len(request.blocks) for request in trace.requests], dtype=np.int64)
    return Replay(hits_R, blocks_R, evicted)
