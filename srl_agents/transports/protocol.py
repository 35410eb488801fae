"""How weights get from a trainer to engines: published once, opened by each engine.

A transport never shows half an update: `open` gives all tensors of exactly the version that was
published, or raises. The author of a transport runs `srl_agents.testing.check_transport` on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch

from srl_agents.records import WeightUpdate, WeightVersion

Tensors = Mapping[str, torch.Tensor]
Shown = Sequence[tuple[str, str]]
"""(observation, reply) pairs."""


@runtime_checkable
class Transport(Protocol):
    """Carries the tensors of one version."""

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """Make a version available: `open` gives these tensors, or raises once they changed.

        Args:
            version: whose digest is that of ``tensors``; see `srl_agents.models.digests`.
            tensors: by the names in files.
            previous: what the version was trained from, for transports that send differences.
            shown: examples that the version is shown; the digest covers them.

        Raises:
            ModelError: the digest is another one.
        """

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """The tensors of an update in the dtypes that it names; to read only.

        They are on the CPU, or where the publisher had them if the transport carries them there.

        Raises:
            ModelError: they are gone, incomplete or differ from the update.
        """

    def release(self, version: WeightVersion) -> None:
        """Forget a version that every engine has opened; forgetting it again does nothing."""

    def close(self) -> None:
        """Release memory, files, threads and connections."""
