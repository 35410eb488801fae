"""What a recipe may say of its transport, and which there are: frozen data, without torch.

A transport is one settings class of `TRANSPORTS`: its fields are the keys of a recipe's ``transport``
section, and it makes the transport.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from srl_agents.kinds import Kinds, Section, settings_of

if TYPE_CHECKING:
    from srl_agents.transports.protocol import Transport


@dataclass(frozen=True, kw_only=True, slots=True)
class TransportSettings(ABC):
    """How new weights reach the engine: the base of every transport's settings."""

    crosses_processes: ClassVar[bool] = False
    """Whether another process on this machine can open what was published, by the same settings."""
    kind: str
    """Name of the transport, or its ``package.module:Class``."""

    @abstractmethod
    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """The transport of one run; whoever asks for it closes it.

        Args:
            folder: for its files, if it has any; need not exist.
            whole_weights: versions are copies of all weights, and not adapters.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedSettings(TransportSettings):
    """Memory of this process: copies of adapters, the trainer's own tensors of whole weights."""

    kind: str = "shared"

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """See `TransportSettings`; has no files."""
        from srl_agents.transports.shared import SharedTransport  # noqa: PLC0415 - torch: seconds

        return SharedTransport(alias=whole_weights)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesSettings(TransportSettings):
    """A folder per version, verified when it is opened."""

    crosses_processes: ClassVar[bool] = True
    kind: str = "files"

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """See `TransportSettings`."""
        from srl_agents.transports.files import FilesTransport  # noqa: PLC0415 - torch: seconds

        return FilesTransport(folder)


TRANSPORTS: Kinds[type[TransportSettings]] = Kinds(
    what="transport",
    group="srl_agents.transports",
    built_in={
        "shared": "srl_agents.transports.settings:SharedSettings",
        "files": "srl_agents.transports.settings:FilesSettings",
    },
    fault=settings_of(TransportSettings, "kind"),
)
TRANSPORT: Section[TransportSettings] = Section(kinds=TRANSPORTS, key="kind", default="shared")
"""How a recipe's ``transport`` section is read."""
