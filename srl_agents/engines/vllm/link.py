"""How `VLLMEngine` reaches vLLM, wherever that runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.thinking import Piece
from srl_envs.errors import ModelError

ROUNDING = 1e-3
"""Excess over 0 that rounding may give the log-probability of a sure token."""


class AdaptersLostError(ModelError):
    """vLLM does not answer, or has forgotten its adapters; it is asked again when it has them."""


class VLLMLink(Protocol):
    """What a vLLM can be asked."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    async def sample(
        self,
        name: str,
        prompt: tuple[int, ...],
        sampling: SamplingSettings,
        seed: int,
        timeout_s: float,
        *,
        priority: int,
        cache_hints: Mapping[str, Any] | None = None,
    ) -> Piece | None:
        """Sample tokens once; None where vLLM cut them off, so that it has to be asked again.

        Args:
            name: of a loaded adapter, or ``base``.
            prompt: token ids.
            sampling: of these tokens.
            seed: equal seeds draw equal random numbers.
            timeout_s: how long the caller waits.
            priority: lower ones go first where requests wait.
            cache_hints: for the eviction of `srl_agents.caching.vllm_policy`; None where that does not run.

        Raises:
            AdaptersLostError: see there.
            ModelError: it answers with something else.
            TimeoutError: it gives no answer in time.
        """

    async def score(
        self, name: str, tokens: tuple[int, ...], timeout_s: float
    ) -> tuple[float, ...]:
        """Log-probability of each token but the first, given those before it.

        Args:
            name: of a loaded adapter, or ``base``.
            tokens: at least two.
            timeout_s: how long the caller waits.

        Raises:
            AdaptersLostError: see there.
            ModelError: it answers with something else.
            TimeoutError: it gives no answer in time.
        """

    async def revived(self, timeout_s: float) -> set[str] | None:
        """Bring it back if it has died; names that it serves, None where nothing accepts connections yet.

        Args:
            timeout_s: how long the caller waits for the names.

        Raises:
            ModelError: it cannot be brought back, or answers with something else.
            TimeoutError: it accepts connections and gives no names in time.
        """

    async def load(self, name: str, folder: Path) -> None:
        """Load an adapter under a name that no other has had.

        Raises:
            AdaptersLostError: see there.
            ModelError: it refuses the adapter.
        """

    async def unload(self, name: str) -> None:
        """Forget an adapter, also one that is gone."""

    async def sleep(self) -> None:
        """Give memory back; nothing is being sampled."""

    async def wake(self) -> None:
        """The inverse of `sleep`."""

    async def metrics(self) -> str:
        """What it counts, in Prometheus's text format; empty where it does not tell now."""

    async def part(self) -> None:
        """Close connections of this event loop; the next call may come from another one."""

    async def close(self) -> None:
        """Release what the link holds; it serves no further request."""
