"""Weights in memory that the processes of one machine share: written once, mapped by every reader.

A version is one file on the machine's memory file system. It gets its name when it is whole and is never
written again, so a reader maps it without a copy, verifies its digest, and keeps it when the name goes.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from srl_agents.checkpoints import remove_entry
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.tensor_files import save_tensors
from srl_agents.transports.machine_memory import (
    MEMORY,
    leave_folder,
    remove_left_memory,
    require_private,
    take_folder,
)
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import described, require_update
from srl_envs.errors import ModelError

_TEMPORARY = ".tmp-"
_SPARE = 2**20
"""Bytes of headers and blocks that a file needs beside its tensors, at most."""


class HostMemoryTransport:
    """Publishes into memory of this machine.

    Args:
        folder: of the run; processes that name the same one see the same versions.
        memory: file system in memory.
    """

    def __init__(self, folder: Path, memory: Path = MEMORY) -> None:
        key = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
        self.folder = memory / f"srl-{os.getuid()}-{key}"
        self._mark: Path | None = None
        """File of this publisher, in the folder."""

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`.

        Raises:
            ModelError: the digest is another one, or the machine's shared memory is full.
        """
        final = self.folder / str(version)
        update = described(version, tensors, previous, shown, str(final))
        if self._mark is None or not self._mark.exists():
            self._mark = self._begin()
        try:
            self.open(update)
        except ModelError:
            self._write(final, tensors)
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; the tensors are the published bytes themselves, mapped."""
        path = Path(update.handle)
        if path != self.folder / str(update.version):
            raise ModelError(f"{path} is not where {update.version} lies: {self.folder}.")
        if path.is_symlink() or not path.is_file():
            raise ModelError(
                f"{update.version} is not in this machine's memory: it was released, or its publisher ended."
            )
        try:
            require_private(self.folder)  # no other user may change what is mapped
            tensors: dict[str, torch.Tensor] = load_file(path)
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise ModelError(f"{path} cannot be read: {error}.") from error
        require_update(update, tensors, str(path))
        return tensors

    def release(self, version: WeightVersion) -> None:
        """See `Transport`; readers that have mapped it keep it."""
        remove_entry(self.folder / str(version))

    def close(self) -> None:
        """Give the memory back, if it was published from here and no other process publishes there."""
        if self._mark is not None:
            leave_folder(self._mark)
            self._mark = None

    def _begin(self) -> Path:
        """Own the folder, which is new or a killed publisher's of the same run."""
        remove_left_memory(self.folder.parent)
        try:
            return take_folder(self.folder)
        except OSError as error:
            raise ModelError(f"nothing can be published in {self.folder}: {error}.") from error

    def _write(self, final: Path, tensors: Tensors) -> None:
        for path in self.folder.glob(f"{_TEMPORARY}*"):  # of a publisher that was killed
            path.unlink(missing_ok=True)
        size = sum(tensor.nbytes for tensor in tensors.values()) + _SPARE
        free = os.statvfs(self.folder)
        if size > free.f_bavail * free.f_frsize:
            raise ModelError(
                f"{final.name} needs {size / 2**20:,.0f} MiB of shared memory, and {self.folder.parent} has "
                f"{free.f_bavail * free.f_frsize / 2**20:,.0f} MiB free. Make it larger, or use transport "
                "'files'."
            )
        work = final.with_name(f"{_TEMPORARY}{final.name}")
        save_tensors({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, work)
        work.chmod(0o400)
        remove_entry(final)
        work.rename(final)
