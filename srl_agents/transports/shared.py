"""Weights that stay in this process: copies of adapters, the trainer's own tensors for whole weights.

An alias costs no memory and lives until the trainer's next step. The publisher of aliases retires the
version from its engines before that step; `SharedTransport.open` refuses it afterwards.
"""

from __future__ import annotations

import torch

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import Published, described, kept_of, require_version


class SharedTransport:
    """Keeps published tensors in memory.

    Args:
        alias: keep the trainer's tensors instead of copies; they stay on their device.
    """

    def __init__(self, *, alias: bool = False) -> None:
        self.alias = alias
        self._held: dict[WeightVersion, Published[dict[str, torch.Tensor]]] = {}

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`."""
        update = described(version, tensors, previous, shown, "memory")
        kept = {
            name: tensor if self.alias else tensor.detach().to("cpu", copy=True)
            for name, tensor in tensors.items()
        }
        self._held[version] = Published(update, kept)
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; a version that the trainer overwrote is refused."""
        tensors = kept_of(self._held.get(update.version), update)
        if self.alias:  # copies cannot be overwritten by the trainer
            require_version(update.version, tensors, update.shown, "the trainer's memory")
        return {name: tensor.detach() for name, tensor in tensors.items()}

    def release(self, version: WeightVersion) -> None:
        """See `Transport`."""
        self._held.pop(version, None)

    def close(self) -> None:
        """See `Transport`."""
        self._held.clear()
