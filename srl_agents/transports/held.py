"""A transport that keeps released versions as long as another process, such as generation, names them."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.protocol import Shown, Tensors, Transport


class HeldTransport:
    """Another transport, which releases later.

    Args:
        inner: carries the weights.
        named: ids of the versions that may still be opened.
    """

    def __init__(self, inner: Transport, named: Callable[[], Collection[str]]) -> None:
        self._inner, self._named = inner, named
        self._released: set[WeightVersion] = set()

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`."""
        self._released.discard(version)
        return self._inner.publish(version, tensors, previous, shown)

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`."""
        return self._inner.open(update)

    def release(self, version: WeightVersion) -> None:
        """See `Transport`; what is still named goes at the first `settle` at which it is not."""
        self._released.add(version)
        self.settle()

    def settle(self) -> None:
        """Release the versions that are not named any more."""
        named = self._named() if self._released else ()
        for version in [v for v in self._released if str(v) not in named]:
            self._released.discard(version)
            self._inner.release(version)

    def close(self) -> None:
        """See `Transport`."""
        self._inner.close()
