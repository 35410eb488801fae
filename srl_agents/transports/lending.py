"""Weights that a reader copies out of the publisher's own memory, on one machine.

The publisher keeps a version in one piece of lent memory and answers readers on a Unix socket, from threads
beside its work. A reader asks for a version, opens the memory by the handle in the answer, copies it,
compares the copy with the version, and acknowledges. Until then, or until the reader is gone, the memory
stays as it is, even if the version is released. `LentMemory` defines the kinds of memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from srl_agents.models.memory.available import memory_limit
from srl_agents.own_folders import owner
from srl_agents.records import TensorHeader, WeightUpdate, WeightVersion
from srl_agents.transports.answering import (
    HAS_IT,
    Answering,
    ask,
    asked,
    receive,
    send,
)
from srl_agents.transports.lent_memory import Lent, LentMemory, Offer
from srl_agents.transports.machine_memory import (
    MEMORY,
    leave_folder,
    remove_left_memory,
    require_private,
    take_folder,
)
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import (
    DTYPES,
    Published,
    described,
    headers_of,
    kept_of,
    require_update,
)
from srl_envs.errors import ModelError

SOCKET = "socket"
"""Name in the folder of the socket on which the publisher answers."""
_TYPES = {spelled: dtype for dtype, spelled in DTYPES.items()}
_ALIGNED = 64
"""Bytes; every tensor begins at a multiple of them."""
_PEER = struct.Struct("3i")
"""Process, user and group of the other side. Source: SO_PEERCRED in unix(7)."""


class LendingTransport:
    """Lends published versions to readers of this machine and user.

    Args:
        folder: of the run; processes that name the same one meet. One publisher at a time: the last.
        memory: what is lent, and how it is opened.
        patience_s: longest silence of the other side.
    """

    def __init__(
        self,
        folder: Path,
        memory: LentMemory,
        *,
        patience_s: float = 60.0,
    ) -> None:
        key = hashlib.sha256(f"lent {folder.absolute()}".encode()).hexdigest()[:16]
        self.folder = MEMORY / f"srl-{os.getuid()}-{key}"
        self._memory, self._patience_s = memory, patience_s
        self._held: dict[str, Published[Lent]] = {}
        self._server: _Server | None = None

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`.

        Raises:
            ModelError: the digest is another one, or nothing can be lent here.
            MemoryLimitError: a copy does not fit into memory.
        """
        name = str(version)
        update = described(version, tensors, previous, shown, str(self.folder))
        known = self._held.get(name)
        lent = self._copied(tensors, name) if known is None else known.kept
        self._held[name] = Published(update, lent)
        if self._server is None or not self._server.is_found():
            self._begin()
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; copies on the device of the lent memory, which is the publisher's."""
        name = str(update.version)
        if self._server is not None:
            return self._read(kept_of(self._held.get(name), update).flat, update.tensors)
        if update.handle != str(self.folder):
            raise ModelError(f"{update.handle} is not where {name} is lent: {self.folder}.")
        try:
            return self._received(update)
        except ModelError:
            raise
        except (RuntimeError, OSError, ValueError) as error:
            raise ModelError(
                f"{name} did not arrive from the publisher of {self.folder}: {error}"
            ) from error

    def release(self, version: WeightVersion) -> None:
        """See `Transport`; a reader that has begun may end."""
        self._held.pop(str(version), None)

    def close(self) -> None:
        """See `Transport`; waits for readers that have begun."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._held.clear()

    # --- the publisher -----------------------------------------------------------------------

    def _begin(self) -> None:
        """Answer readers; another publisher of the folder is answered for no more."""
        if self._server is not None:
            self._server.close()
        try:
            self._server = _Server(self.folder, self._held, self._patience_s)
        except OSError as error:
            self._server = None
            raise ModelError(f"{self.folder}: readers cannot connect there ({error}).") from error

    def _copied(self, tensors: Tensors, name: str) -> Lent:
        headers = headers_of(tensors)
        _, size = _places(headers)
        with memory_limit(
            f"publishing {name}: a copy of {size / 2**20:,.1f} MiB where its weights are",
            "what else is there, or use transport 'host_memory'",
        ):
            flat = self._memory.take(size, tensors)
            for key, part in _parts(flat, headers):
                part.copy_(tensors[key].detach())
            return self._memory.lend(flat)

    # --- a reader ----------------------------------------------------------------------------

    def _received(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        with _connected(self.folder, self._patience_s) as link:
            answer, files = ask(link, update, files=1)
            try:
                found = self._copies(update, answer, files)
            finally:
                for file in files:
                    os.close(file)
            require_update(update, found, f"{update.version} as copied")
            with contextlib.suppress(OSError):  # the publisher is gone; what was copied is right
                send(link, HAS_IT)
        return found

    def _copies(
        self, update: WeightUpdate, answer: dict[str, Any], files: Sequence[int]
    ) -> dict[str, torch.Tensor]:
        """What an answer offers, copied; nothing of the publisher's memory stays open."""
        offer, (_, size) = Offer.read(answer), _places(update.tensors)
        if offer.size != size:
            raise ValueError(f"{offer.size} bytes are offered, and the update has {size}")
        return self._read(self._memory.opened(offer, files), update.tensors)

    def _read(self, flat: torch.Tensor, headers: Sequence[TensorHeader]) -> dict[str, torch.Tensor]:
        copies = {name: part.clone() for name, part in _parts(flat, headers)}
        self._memory.wait(flat)
        return copies


class _Server:
    """Answers readers, each in a thread of its own, until it is closed.

    Args:
        folder: has the socket.
        held: by version; what is in it is offered.
        patience_s: longest silence of a reader.

    Raises:
        OSError: a socket cannot be made, or other users may write to the folder.
    """

    def __init__(self, folder: Path, held: dict[str, Published[Lent]], patience_s: float) -> None:
        self._folder, self._held = folder, held
        remove_left_memory(folder.parent)
        self._mark = take_folder(folder)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            work = folder / f".{SOCKET}-{owner()}-{id(self)}"
            listener.bind(str(work))
            listener.listen(socket.SOMAXCONN)
            self._file = work.stat()
            work.rename(folder / SOCKET)
        except BaseException:
            listener.close()
            leave_folder(self._mark)
            raise
        self._answering = Answering(listener, self._answer, patience_s)

    def is_found(self) -> bool:
        """Whether readers of the folder still come here."""
        try:
            return os.path.samestat((self._folder / SOCKET).lstat(), self._file)
        except OSError:
            return False

    def close(self) -> None:
        """End, when readers that have begun have ended; give the folder back."""
        if self.is_found():
            (self._folder / SOCKET).unlink(missing_ok=True)
        leave_folder(self._mark)
        self._answering.close()

    def _answer(self, link: socket.socket) -> None:
        """Lend a version until its reader has it, is gone, or is silent for too long."""
        _require_same_user(link)
        lent = asked(link, self._held)
        if lent is not None:
            send(link, lent.offer.plain(), lent.files)
            receive(link)


# --- tensors in one piece of memory --------------------------------------------------------------


def _places(headers: Sequence[TensorHeader]) -> tuple[dict[str, int], int]:
    """Where each tensor begins, and the bytes of all: a function of the headers."""
    places, at = {}, 0
    for header in sorted(headers, key=lambda header: header.name):
        places[header.name] = at
        at += -(-_bytes_of(header) // _ALIGNED) * _ALIGNED
    return places, max(at, _ALIGNED)


def _bytes_of(header: TensorHeader) -> int:
    if header.dtype not in _TYPES or min(header.shape, default=0) < 0:
        raise ValueError(f"no tensor has type {header.dtype!r} and shape {header.shape}")
    return math.prod(header.shape) * _TYPES[header.dtype].itemsize


def _parts(
    flat: torch.Tensor, headers: Sequence[TensorHeader]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Each tensor as a view of the memory."""
    places, _ = _places(headers)
    for header in headers:
        at = places[header.name]
        part = flat[at : at + _bytes_of(header)].view(_TYPES[header.dtype])
        yield header.name, part.reshape(header.shape)


# --- connections --------------------------------------------------------------------------------


@contextmanager
def _connected(folder: Path, patience_s: float) -> Iterator[socket.socket]:
    """A connection to the publisher of a folder."""
    require_private(folder)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(patience_s)
        link.connect(str(folder / SOCKET))
        if _require_same_user(link) == os.getpid():
            raise ValueError("this process published it: open it by the transport that did")
        yield link


def _require_same_user(link: socket.socket) -> int:
    """Process id of the other side, which must be this user's."""
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    process, user, _ = _PEER.unpack(credentials)
    if user != os.getuid():
        raise ValueError(f"the other process belongs to user {user}")
    return int(process)
