"""Weights through a folder: one subfolder per version, whole or not there, verified when it is opened.

The folder may lie on a file system that engines of other processes and machines read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load

from srl_agents.checkpoints import remove_entry, rename_durably
from srl_agents.checkpoints.folder import seal_of, sha256_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.tensor_files import save_tensors
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import described, require_update
from srl_envs.errors import ModelError

WEIGHTS, MANIFEST = "weights.safetensors", "manifest.json"
_TEMPORARY = ".tmp-"
_LARGEST_MANIFEST = 64 * 2**20
"""Bytes; what is larger was not written here."""


class FilesTransport:
    """Publishes into a folder.

    Args:
        folder: for this run only; made if absent. One writer at a time, any number of readers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`; when it returns, the folder is on disk."""
        final = self.folder / str(version)
        update = described(version, tensors, previous, shown, str(final))
        if not final.is_dir() or _fault(final, update):
            self._write(final, update, tensors)
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; nothing in the folder is believed before it is verified."""
        folder = Path(update.handle)
        if folder.name != str(update.version):
            raise ModelError(
                f"{folder}: expected the folder of {update.version}, which the update names."
            )
        if not os.path.isdir(folder):
            raise ModelError(f"{folder} is not there: the version was released or never published.")
        if fault := _fault(folder, update):
            raise ModelError(f"{folder}: {fault}. Publish the version again.")
        path = folder / WEIGHTS
        try:
            # not mapped: a mapped file could change under its reader
            tensors: dict[str, torch.Tensor] = load(path.read_bytes())
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise ModelError(f"{path} cannot be read: {error}.") from error
        require_update(update, tensors, str(path))
        return tensors

    def release(self, version: WeightVersion) -> None:
        """See `Transport`."""
        folder = self.folder / str(version)
        gone = folder.with_name(f"{_TEMPORARY}{folder.name}")
        remove_entry(gone)
        if folder.is_dir():
            folder.rename(gone)  # first, so that no reader opens half of it
            remove_entry(gone)

    def close(self) -> None:
        """Remove what a killed publication left; published versions stay."""
        for path in self.folder.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _write(self, final: Path, update: WeightUpdate, tensors: Tensors) -> None:
        work = final.with_name(f"{_TEMPORARY}{final.name}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        copies = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
        save_tensors(copies, work / WEIGHTS)
        content = _content(update) | {"sha256": sha256_of(work / WEIGHTS)}
        text = json.dumps(content | {"seal": seal_of(content)}, indent=1)
        (work / MANIFEST).write_text(text + "\n")
        remove_entry(final)  # damaged
        rename_durably(work, final)


def _content(update: WeightUpdate) -> dict[str, Any]:
    """The manifest's entries for an update, as JSON gives them back."""
    content = {
        "version": str(update.version),
        "previous": None if update.previous is None else str(update.previous),
        "shown": update.shown,
        "tensors": [asdict(header) for header in update.tensors],
    }
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def _fault(folder: Path, update: WeightUpdate) -> str:
    """What is wrong with a published folder; empty if its files are those of the update."""
    if folder.is_symlink():
        return "it is a link, which is not followed"
    paths = (folder / MANIFEST, folder / WEIGHTS)
    for path in paths:
        if path.is_symlink() or not path.is_file():
            return f"{path.name} is missing or no ordinary file"
    try:
        if paths[0].stat().st_size > _LARGEST_MANIFEST:
            return f"{MANIFEST} is too large to be one"
        manifest = json.loads(paths[0].read_bytes())
        return _contradiction(manifest, update) or (
            "" if manifest["sha256"] == sha256_of(paths[1]) else f"{WEIGHTS} changed on disk"
        )
    except (OSError, ValueError, RecursionError) as error:
        return f"{MANIFEST} or {WEIGHTS} cannot be read ({type(error).__name__}: {error})"


def _contradiction(manifest: Any, update: WeightUpdate) -> str:
    """Where a manifest differs from the update; empty where they agree."""
    if not isinstance(manifest, Mapping):
        return f"{MANIFEST} holds no object"
    content = {key: value for key, value in manifest.items() if key != "seal"}
    if manifest.get("seal") != seal_of(content) or "sha256" not in content:
        return f"{MANIFEST} changed on disk"
    expected = _content(update)
    odd = [key for key in ("version", "shown", "tensors") if content.get(key) != expected[key]]
    return f"{MANIFEST} has another {', '.join(odd)} than the update" if odd else ""
