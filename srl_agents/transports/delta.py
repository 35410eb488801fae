"""Weights through a folder as what changed since the version before, with whole ones now and then.

For whole weights of which a step moves few entries, as in bfloat16 or where most layers are frozen. A version
is one file: of each tensor the places and bits that changed, or all of it where that is shorter. Every few
versions comes an anchor, which needs no other. What is opened has the digest of what was published, or is
refused, so no error travels along a chain.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load

from srl_agents.checkpoints import remove_entry, rename_durably
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.tensor_files import save_tensors
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import described, require_update
from srl_envs.errors import ModelError

FILE, RELEASED = "delta.safetensors", "released"
_TEMPORARY = ".tmp-"
_BASE = "base"
_WHOLE, _PLACES, _BITS = "whole/", "places/", "bits/"
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes of an entry -> the type in which bits are compared."""
Held = dict[str, torch.Tensor]


class DeltaTransport:
    """Publishes into a folder.

    Args:
        folder: for this run only; made if absent. One writer at a time, any number of readers.
        anchor_every: versions from one whole one to the next.
    """

    def __init__(self, folder: Path, anchor_every: int = 8) -> None:
        self.folder, self._anchor_every = folder.absolute(), anchor_every
        self._last: tuple[str, Held, int] | None = None
        """What was published last: its id, a copy, and how many versions it is behind an anchor."""
        self._opened: tuple[str, Held] | None = None
        """What was opened last, from which a reader that follows goes on."""

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`; when it returns, the file is on disk."""
        final = self.folder / str(version)
        update = described(version, tensors, previous, shown, str(final))
        copies = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
        base, steps = self._base_of(previous)
        if final.is_dir():
            (final / RELEASED).unlink(missing_ok=True)
        try:
            self.open(update)
        except ModelError:
            self._write(final, copies, base)
        self._last = str(version), copies, 0 if base is None else steps + 1
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; reads back to the last version that was opened here, or to an anchor."""
        name = str(update.version)
        if Path(update.handle) != self.folder / name:
            raise ModelError(f"{update.handle} is not where {name} lies: {self.folder}.")
        folder = self.folder / name
        if (folder / RELEASED).exists() or not (folder / FILE).is_file():
            raise ModelError(f"{name} was released or never published in {self.folder}.")
        wanted = {header.name for header in update.tensors}
        try:
            tensors = {key: t for key, t in self._read(name).items() if key in wanted}
            require_update(update, tensors, str(self.folder / name))
        except (OSError, SafetensorError, ValueError, KeyError, IndexError, RuntimeError) as error:
            self._opened = None
            raise ModelError(f"{name} in {self.folder} cannot be opened: {error}") from error
        self._opened = name, tensors
        return {key: tensor.clone() for key, tensor in tensors.items()}

    def release(self, version: WeightVersion) -> None:
        """See `Transport`; its file is removed when no later version is a difference from it."""
        folder = self.folder / str(version)
        if folder.is_dir():
            (folder / RELEASED).touch()
        while self._drop_unneeded():
            pass

    def close(self) -> None:
        """Drop the tensors in memory and remove what a killed publication left; published versions stay."""
        self._last = self._opened = None
        for path in self.folder.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)

    # --- files -------------------------------------------------------------------------------

    def _base_of(self, previous: WeightVersion | None) -> tuple[tuple[str, Held] | None, int]:
        """The version that the next one is a difference from, if any, and its place in the chain."""
        if self._last is None or previous is None or self._last[0] != str(previous):
            return None, 0
        name, held, steps = self._last
        if steps + 1 >= self._anchor_every or not (self.folder / name / FILE).is_file():
            return None, 0
        return (name, held), steps

    def _write(self, final: Path, tensors: Held, base: tuple[str, Held] | None) -> None:
        work = final.with_name(f"{_TEMPORARY}{final.name}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        if base is None:
            parts = {_WHOLE + name: tensor for name, tensor in tensors.items()}
        else:
            parts = dict(_changes(tensors, base[1]))
        # a file without tensors is none
        parts = parts or {_PLACES: torch.zeros(0, dtype=torch.int32)}
        save_tensors(parts, work / FILE, metadata={_BASE: "" if base is None else base[0]})
        remove_entry(final)
        rename_durably(work, final)

    def _read(self, name: str) -> Held:
        """A version's tensors, unverified."""
        chain = []
        held: Held = {}
        while name:
            if self._opened is not None and self._opened[0] == name:
                held = self._opened[1]
                break
            if name in chain:
                raise ValueError(f"{name} is stored as a difference from itself")
            chain.append(name)
            name = _base_in(self.folder / name / FILE)
        for link in reversed(chain):
            held = _applied(load((self.folder / link / FILE).read_bytes()), held)
        return held

    def _drop_unneeded(self) -> bool:
        """Remove released versions that no other is a difference from; whether there was one."""
        there = [path.parent for path in self.folder.glob(f"*/{FILE}")]
        needed = set()
        for folder in there:
            try:
                needed.add(_base_in(folder / FILE))
            except (OSError, SafetensorError, ValueError):
                continue  # damaged: no version can be read from it
        gone = [f for f in there if (f / RELEASED).exists() and f.name not in needed]
        for folder in gone:
            remove_entry(folder)
        return bool(gone)


def _changes(tensors: Held, before: Held) -> Iterator[tuple[str, torch.Tensor]]:
    """What a reader that has the tensors before needs; nothing of tensors that did not change."""
    for name, tensor in tensors.items():
        old = before.get(name)
        if old is None or old.dtype != tensor.dtype or old.shape != tensor.shape:
            yield _WHOLE + name, tensor
            continue
        bits, old_bits = _bits(tensor), _bits(old)
        places = (bits != old_bits).nonzero()[:, 0].to(torch.int32)
        if not len(places):
            continue
        if tensor.numel() >= 2**31 or len(places) * (4 + bits.itemsize) >= tensor.nbytes:
            yield _WHOLE + name, tensor
        else:
            yield _PLACES + name, places
            yield _BITS + name, bits[places.long()]


def _applied(parts: Held, before: Held) -> Held:
    """The tensors of a version from its file and the version before."""
    after = dict(before)
    for key, part in parts.items():
        if key.startswith(_WHOLE):
            after[key.removeprefix(_WHOLE)] = part
        elif key.startswith(_PLACES) and key != _PLACES:
            name = key.removeprefix(_PLACES)
            changed = after[name].clone()
            _bits(changed)[part.long()] = parts[_BITS + name]
            after[name] = changed
    return after


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's memory as integers of its width, flat."""
    return tensor.reshape(-1).view(_INTEGERS[tensor.itemsize])


def _base_in(path: Path) -> str:
    """Id of the version that a file is a difference from; empty for an anchor."""
    if path.parent.is_symlink() or path.is_symlink() or not path.is_file():
        raise ValueError(f"{path} is missing, no ordinary file, or behind a link")
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
    if _BASE not in metadata:
        raise ValueError(f"{path} does not name the version before")
    base = str(metadata[_BASE])
    return base and str(WeightVersion.parse(base))  # its name is that of a folder beside this one
