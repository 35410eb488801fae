"""Blocks of keys and values as files, which carry their name, their length and a digest.

A folder belongs to one process and goes with it, or it is shared: then it names its base and form, outlives
the process, and engines of several processes put blocks into it and take them out.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.models.base_model import BaseModel
from srl_agents.models.digests import tensors_sha256
from srl_agents.models.playing_model import PlayingModel
from srl_agents.own_folders import is_mine, may_live, new_folder, owner
from srl_envs.errors import ConfigError

_MAGIC = b"srl-kv-1"
_DIGEST_BYTES = 16
HEAD_BYTES = len(_MAGIC) + 8 + _DIGEST_BYTES
"""Of a file, before its keys and values."""
FORM = "form.txt"
"""In a shared folder: what its blocks are."""
_NAME = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True, slots=True)
class KVForm:
    """What a block of keys and values is, and who computes it."""

    base: str
    """Digest of the base's weights and configuration. Blocks name the adapter's version themselves."""
    shape: tuple[int, ...]
    """Of a block."""
    dtype: torch.dtype
    """Of a block."""

    def __str__(self) -> str:
        return f"base {self.base}, {self.dtype}, block {'x'.join(map(str, self.shape))}"


def form_of(
    base: BaseModel, model: PlayingModel, block: int, eight_bits: EightBits | None
) -> KVForm:
    """The form of a base's blocks; its weights are hashed.

    Args:
        base: whose weights and settings of adapters enter the digest; versions' weights do not.
        model: the modules that compute keys and values.
        block: tokens of a block.
        eight_bits: how blocks are packed, if they are.

    Raises:
        ConfigError: every version has weights of its own, so nothing of the base is fixed.
    """
    if base.parameters != "lora":
        raise ConfigError(
            "a shared folder of blocks needs one frozen base: use adapters (parameters: lora)."
        )
    frozen = {n: p for n, p in base.model.named_parameters() if "lora_" not in n}
    adapters = sorted(
        {
            f"{c.lora_alpha}/{c.r} {sorted(c.target_modules)}"
            for c in base.model.peft_config.values()
        }
    )
    hashed = hashlib.sha256(tensors_sha256(frozen).encode())
    hashed.update(f"{base.model.config.to_json_string()} {adapters}".encode())
    width = model.head_width if eight_bits is None else eight_bits.packed_width(model.head_width)
    return KVForm(
        base=hashed.hexdigest()[:16],
        shape=(model.layers, 2, model.kv_heads, block, width),
        dtype=model.dtype if eight_bits is None else torch.int8,
    )


class BlockFiles:
    """Block files in one folder.

    Args:
        folder: where they are.
        block_bytes: of every block.
        key: enters all digests, so that files of another base are misses wherever they come from.
    """

    def __init__(self, folder: Path, block_bytes: int, key: bytes = b"") -> None:
        self.folder = folder
        self._block_bytes, self._key = block_bytes, key

    @classmethod
    def own(cls, parent: Path | None, block_bytes: int) -> BlockFiles:
        """A new folder of this process; those that killed processes left are removed.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            if parent is not None:
                parent.mkdir(parents=True, exist_ok=True)
            return cls(new_folder("kv", parent), block_bytes)
        except OSError as error:
            raise ConfigError(f"engine.disk_gib: {parent} cannot be written ({error}).") from error

    @classmethod
    def shared(cls, folder: Path, form: KVForm, block_bytes: int) -> BlockFiles:
        """A folder that outlives this process, new or with blocks of the same form.

        Raises:
            ConfigError: it cannot be written, is open to other users, or holds blocks of another form.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_mine(folder) or folder.stat().st_mode & 0o022:
                raise ConfigError(
                    f"{folder}: other users may write there; use a folder of your own."
                )
            if any(folder.iterdir()) and not (folder / FORM).exists():
                raise ConfigError(f"{folder} holds other files; use an empty folder for blocks.")
            _name_form(folder, str(form))
            found = (folder / FORM).read_text()
            if found != str(form):
                raise ConfigError(
                    f"{folder} holds keys and values of {found}; this engine has {form}. Use another folder."
                )
            for left in folder.glob("*.new"):
                if not may_live(left.name.split(".")[1]):
                    left.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{folder} cannot be written ({error}).") from error
        key = hashlib.blake2b(str(form).encode(), digest_size=_DIGEST_BYTES).digest()
        return cls(folder, block_bytes, key)

    def path(self, name: int) -> Path:
        """Where a block is, or would be."""
        return self.folder / f"{name:016x}"

    def found(self) -> Iterable[tuple[int, Path]]:
        """Names and files of the blocks that are there, the oldest first."""
        dated: list[tuple[int, Path]] = []
        for path in self.folder.iterdir():
            if _NAME.fullmatch(path.name):
                try:
                    dated.append((path.stat().st_mtime_ns, path))
                except FileNotFoundError:  # another process dropped it
                    continue
        return ((int(path.name, 16), path) for _, path in sorted(dated))

    def write(self, name: int, payload: bytes) -> Path:
        """Write a block, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        return self._written(
            name, _MAGIC + name.to_bytes(8, "little") + self._digest(payload) + payload
        )

    def take_over(self, name: int, data: bytes) -> bool:
        """Write the bytes of another process's file, if they are this block.

        Raises:
            OSError: it cannot be written.
        """
        sound = self._payload(data, name) is not None
        if sound:
            self._written(name, data)
        return sound

    def read(self, path: Path, name: int) -> bytes | None:
        """Bytes that a file holds; None if it is missing, cut off, changed or another block's."""
        try:
            return self._payload(path.read_bytes(), name)
        except OSError:
            return None

    def remove(self, name: int) -> None:
        """Remove a block's file, if it is there."""
        self.path(name).unlink(missing_ok=True)

    @property
    def file_bytes(self) -> int:
        """Bytes of every file."""
        return HEAD_BYTES + self._block_bytes

    def _written(self, name: int, data: bytes) -> Path:
        path = self.path(name)
        new = path.with_name(f"{path.name}.{owner()}.new")
        try:
            new.write_bytes(data)
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        return path

    def _payload(self, data: bytes, name: int) -> bytes | None:
        head = _MAGIC + name.to_bytes(8, "little")
        payload = data[HEAD_BYTES:]
        sound = data.startswith(head) and len(payload) == self._block_bytes
        if not sound or data[len(head) : HEAD_BYTES] != self._digest(payload):
            return None
        return payload

    def _digest(self, payload: bytes) -> bytes:
        return hashlib.blake2b(payload, digest_size=_DIGEST_BYTES, key=self._key).digest()


def _name_form(folder: Path, form: str) -> None:
    """Write the form of a new folder; the first process that comes decides."""
    new = folder / f"{FORM}.{owner()}.new"
    new.write_text(form)
    try:
        os.link(new, folder / FORM)
    except FileExistsError:
        pass
    finally:
        new.unlink(missing_ok=True)
