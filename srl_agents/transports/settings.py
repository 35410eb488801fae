"""The ``transport`` section of a recipe, and the transports that there are: frozen data, without torch.

A transport is one settings class of `TRANSPORTS`: its fields are the keys of a recipe's ``transport``
section, and it makes the transport.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from srl_agents.kinds import Kinds, KindSettings, Section, settings_of
from srl_agents.transports.machine_memory import MEMORY
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed

if TYPE_CHECKING:
    from srl_agents.transports.protocol import Transport


DRIVER = Path("/dev/nvidiactl")
"""Is there where a driver of NVIDIA's is; looked at in place of torch, which takes seconds to load."""
_PATIENCE: Removed = {
    "patience_s": (60.0, "use transport {kind: files}, which waits for no answer")
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TransportSettings(KindSettings, ABC):
    """How new weights reach the engine: the base of every transport's settings."""

    crosses_processes: ClassVar[bool] = False
    """Whether another process on this machine can open what was published, by the same settings."""

    def require_machine(self, devices: Collection[str]) -> None:
        """Refuse a machine that cannot carry weights so, before anything heavy is loaded.

        Args:
            devices: of the recipe's bases, as it spells them.

        Raises:
            ConfigError: why, and what to use instead.
        """

    @abstractmethod
    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """The transport of one run; the caller closes it.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class DeltaSettings(TransportSettings):
    """A file per version with what changed since the one before: for whole weights that change little."""

    crosses_processes: ClassVar[bool] = True
    kind: str = "delta"

    removed: ClassVar[Removed] = {
        "anchor_every": (8, "take transport {kind: files}, which writes all versions whole")
    }

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """See `TransportSettings`."""
        from srl_agents.transports.delta import DeltaTransport  # noqa: PLC0415 - torch: seconds

        return DeltaTransport(folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostMemorySettings(TransportSettings):
    """Memory that the processes of this machine share: written once, mapped by readers."""

    crosses_processes: ClassVar[bool] = True
    kind: str = "host_memory"

    def require_machine(self, devices: Collection[str]) -> None:
        """See `TransportSettings`."""
        _require_memory(self.kind)

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """See `TransportSettings`.

        Raises:
            ConfigError: the machine has no file system in memory where Linux has it.
        """
        from srl_agents.transports.host_memory import HostMemoryTransport  # noqa: PLC0415

        _require_memory(self.kind)
        return HostMemoryTransport(folder)


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveSettings(TransportSettings):
    """The collective library, from the publisher's memory to each reader's."""

    crosses_processes: ClassVar[bool] = True
    kind: str = "collective"
    host: str = "127.0.0.1"
    """Name or address of the trainer's machine, as readers reach it."""

    removed: ClassVar[Removed] = {
        **_PATIENCE,
        "backend": ("gloo", "take transport {kind: cuda_ipc} between processes on one GPU"),
    }

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """See `TransportSettings`; the folder holds the trainer's address."""
        from srl_agents.transports.collective import CollectiveTransport  # noqa: PLC0415

        return CollectiveTransport(folder, host=self.host)


@dataclass(frozen=True, kw_only=True, slots=True)
class CudaIPCSettings(TransportSettings):
    """Memory of the GPU that both processes use: not proven yet; see gpu_checks.md."""

    crosses_processes: ClassVar[bool] = True
    kind: str = "cuda_ipc"

    removed: ClassVar[Removed] = _PATIENCE

    def require_machine(self, devices: Collection[str]) -> None:
        """See `TransportSettings`; without torch, which `make_transport` asks the rest."""
        _require_memory(self.kind)
        if fault := gpu_fault(devices, os.environ, DRIVER):
            raise ConfigError(
                f"transport.kind={self.kind!r}: {fault}. Use 'host_memory' or 'files'."
            )

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Transport:
        """See `TransportSettings`; its socket lies in the machine's memory.

        Raises:
            ConfigError: the GPU lends no memory.
        """
        from srl_agents.transports.lending import LendingTransport  # noqa: PLC0415
        from srl_agents.transports.lent_memory import (  # noqa: PLC0415
            Cards,
            CudaMemory,
            require_cuda_ipc,
        )

        _require_memory(self.kind)
        require_cuda_ipc(Cards.here())
        return LendingTransport(folder, CudaMemory())


def gpu_fault(devices: Collection[str], environment: Mapping[str, str], driver: Path) -> str:
    """Why no memory of a GPU can be lent, as far as that is known without torch; empty if it may.

    Args:
        devices: of the recipe's bases, as it spells them.
        environment: variables of this process.
        driver: file that is there where NVIDIA's driver is.
    """
    if fault := _no_gpu(devices, environment, driver):
        return fault
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        if "expandable_segments:true" in environment.get(name, "").replace(" ", "").lower():
            return f"{name} has expandable_segments:True, whose memory has no such handles"
    return ""


def _no_gpu(devices: Collection[str], environment: Mapping[str, str], driver: Path) -> str:
    """Why no GPU can be used; empty if one can. Arguments as in `gpu_fault`."""
    if "cpu" in devices:
        return "device='cpu' has no memory of a GPU"
    if not driver.exists():
        return f"this machine has no NVIDIA driver ({driver} is absent)"
    if environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    return ""


def _require_memory(kind: str) -> None:
    if not os.access(MEMORY, os.W_OK):
        raise ConfigError(
            f"transport.kind={kind!r}: {MEMORY} is absent or not writable. Use 'files'."
        )


TRANSPORTS: Kinds[type[TransportSettings]] = Kinds(
    what="transport",
    group="srl_agents.transports",
    built_in={
        "shared": "srl_agents.transports.settings:SharedSettings",
        "files": "srl_agents.transports.settings:FilesSettings",
        "delta": "srl_agents.transports.settings:DeltaSettings",
        "host_memory": "srl_agents.transports.settings:HostMemorySettings",
        "collective": "srl_agents.transports.settings:CollectiveSettings",
        "cuda_ipc": "srl_agents.transports.settings:CudaIPCSettings",
    },
    fault=settings_of(TransportSettings, "kind"),
)
TRANSPORT: Section[TransportSettings] = Section(kinds=TRANSPORTS, key="kind", default="shared")
"""Reads a recipe's ``transport`` section."""
