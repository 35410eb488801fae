"""Weights that stay in this process: copies of adapters, the trainer's own tensors for whole weights.

An alias costs no memory and lives until the trainer's next step. Whoever publishes aliases retires the
version from its engines before that step; `SharedTransport.open` refuses it afterwards.
"""

from __future__ import annotations

import torch

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import headers_of, require_update, require_version
from srl_envs.errors import ModelError


class SharedTransport:
    """Keeps published tensors in memory.

    Args:
        alias: keep the trainer's tensors instead of copies; they stay on their device.
    """

    def __init__(self, *, alias: bool = False) -> None:
        self.alias = alias
        self._held: dict[WeightVersion, dict[str, torch.Tensor]] = {}

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`."""
        headers = headers_of(tensors)
        require_version(version, tensors, shown, "publish")
        if self.alias:
            self._held[version] = {name: tensor.detach() for name, tensor in tensors.items()}
        else:
            self._held[version] = {
                name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()
            }
        return WeightUpdate(
            version=version, previous=previous, shown=tuple(shown), tensors=headers, handle="memory"
        )

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; a version that the trainer overwrote is refused."""
        tensors = self._held.get(update.version)
        if tensors is None:
            raise ModelError(
                f"{update.version} is not in this process: it was released or never published here."
            )
        require_update(update, tensors, "memory of this process")
        return dict(tensors)

    def release(self, version: WeightVersion) -> None:
        """See `Transport`."""
        self._held.pop(version, None)

    def close(self) -> None:
        """See `Transport`."""
        self._held.clear()
