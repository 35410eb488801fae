"""A transport that keeps every version in one zip file; its name is that of the version."""

from __future__ import annotations

import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.settings import TransportSettings
from srl_agents.transports.updates import headers_of, require_update, require_version
from srl_envs.errors import ModelError

_MEMBER = "weights.safetensors"


@dataclass(frozen=True, kw_only=True, slots=True)
class ZippedSettings(TransportSettings):
    """How hard to press."""

    kind: str = "zipped"
    """Selects these settings."""
    level: int = 1
    """Of zlib, 0 to 9."""

    def make_transport(self, folder: Path, *, whole_weights: bool) -> Zipped:
        """The transport of a run, which keeps its versions in this folder."""
        return Zipped(folder, self.level)


class Zipped:
    """Writes beside the file and renames, so that a version is whole or not there."""

    def __init__(self, folder: Path, level: int) -> None:
        self.folder, self.level = folder, level

    def publish(
        self, version: WeightVersion, tensors: Any, previous: Any = None, shown: Any = ()
    ) -> WeightUpdate:
        """Write a version, and return what leads an engine to it."""
        headers = headers_of(tensors)
        require_version(version, tensors, shown, "publish")
        self.folder.mkdir(parents=True, exist_ok=True)
        final = self._path(version)
        work = final.with_suffix(".part")
        content = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
        with zipfile.ZipFile(work, "w", zipfile.ZIP_DEFLATED, compresslevel=self.level) as file:
            file.writestr(_MEMBER, content)
        os.replace(work, final)
        return WeightUpdate(
            version=version, previous=previous, shown=tuple(shown), tensors=headers,
            handle=str(final),
        )  # fmt: skip

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """Read a version and compare it with its description."""
        if Path(update.handle).name != self._path(update.version).name:
            raise ModelError(f"{update.handle} is not the file of {update.version}.")
        try:
            with zipfile.ZipFile(update.handle) as file:
                tensors: dict[str, torch.Tensor] = load(file.read(_MEMBER))
        except (
            OSError, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError,
            SafetensorError, zipfile.BadZipFile, zlib.error,
        ) as error:  # fmt: skip
            raise ModelError(f"{update.handle} cannot be read: {error!r}.") from error
        require_update(update, tensors, update.handle)
        return tensors

    def release(self, version: WeightVersion) -> None:
        """Remove a version that no match plays any more."""
        self._path(version).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove what an interrupted call left."""
        for path in self.folder.glob("*.part"):
            path.unlink()

    def _path(self, version: WeightVersion) -> Path:
        return self.folder / f"{version}.zip"
