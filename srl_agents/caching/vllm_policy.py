"""The learned policy as vLLM's eviction plug-in; importing this needs vLLM.

In vLLM's ``kv_connector_extra_config``: ``{"spec_name": "TieringOffloadingSpec", "eviction_policy":
"LearnedEviction", "cache_policy_module_path": "srl_agents.caching.vllm_policy"}``. A request may carry
facts of its game in ``kv_transfer_params``: ``srl_session`` (text), ``srl_ends`` (true after its last
turn), ``srl_turns_ahead``, and ``srl_prompt_tokens``, from which the policy computes the length of the
reply. Our engine sends these fields where a recipe has this policy. Written against vLLM 0.32,
``vllm/v1/kv_offload/cpu/policies/base.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, order_request_keys

from srl_agents.caching.policies.contract import Knowledge
from srl_agents.caching.policies.learned import LearnedReuse


class LearnedEviction(CachePolicy):  # type: ignore[misc]  # vLLM is not installed beside us
    """`LearnedReuse` with vLLM's signatures: chunks that are being copied are never chosen."""

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self._policy: LearnedReuse[bytes, Any] = LearnedReuse(cache_capacity)
        self._pinned: set[bytes] = set()

    def get(self, key: bytes) -> Any:
        """The chunk, or None."""
        return self._policy.get(key)

    def insert(self, key: bytes, chunk: Any) -> None:
        """Add a chunk; one that is not stored yet is pinned."""
        self._policy.insert(key, chunk)
        if chunk.ref_cnt != 0:
            self._pinned.add(key)

    def remove(self, key: bytes) -> None:
        """Drop a chunk whose store failed."""
        self._policy.remove(key)
        self._pinned.discard(key)

    def touch(self, keys: Iterable[bytes], req_context: Any) -> None:
        """Nothing: a request counts once, when it is finished and its order is known."""

    def on_request_finished(
        self,
        key_groups: Sequence[Sequence[bytes]],
        insertion_only_keys: set[bytes],
        reused_keys: set[bytes],
        req_context: Any,
    ) -> None:
        """Record the request."""
        del insertion_only_keys, reused_keys
        keys = order_request_keys(key_groups, req_context)
        last = req_context.get_offload_key_position(keys[-1]) if keys else None
        self._policy.touch(keys, _knowledge(req_context.kv_transfer_params or {}, last))

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        """Drop exactly ``n`` chunks that are neither protected nor pinned, or none."""
        return self._policy.evict(n, protected | self._pinned)

    def clear(self) -> None:
        """Start anew."""
        self._policy.clear()
        self._pinned.clear()

    def mark_evictable(self, key: bytes) -> None:
        """No copy of the chunk is under way any more."""
        self._pinned.discard(key)

    def mark_non_evictable(self, key: bytes) -> None:
        """A copy of the chunk is under way."""
        self._pinned.add(key)


def _knowledge(fields: dict[str, Any], last: int | None) -> Knowledge:
    """Facts that a request carried, and its reply's length without tokens that did not fill a chunk.

    Args:
        fields: the request's ``kv_transfer_params``.
        last: tokens up to the end of the last chunk; None where vLLM does not report it.
    """
    prompt = fields.get("srl_prompt_tokens")
    return Knowledge(
        session=fields.get("srl_session"),
        ends=bool(fields.get("srl_ends", False)),
        turns_ahead=fields.get("srl_turns_ahead"),
        reply_tokens=None if prompt is None or last is None else max(0, last - prompt),
    )
