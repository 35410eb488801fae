"""Weights through the collective library: from the publisher's memory to a reader's, without a disk.

The publisher keeps its versions and answers readers from threads beside its work. A reader finds it by an
address in the run's folder and asks for a version over a connection; then the two form a group of their own,
in which the bytes go. So a reader that dies or begins again disturbs no other, and every wait has an end; the
library's own store would wait for ever for a process that sends nothing. On the CPU the library is gloo.
NCCL takes the same way and was not run: it needs two GPUs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from torch import distributed

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.answering import Answering, ask, asked, send
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import DTYPES, Published, described, kept_of, require_update
from srl_envs.errors import ModelError

ADDRESS = "collective.json"
"""File in the folder with the publisher's address."""
_BUCKET = 2**26
"""Bytes in one message, about."""
_library: Any = distributed
"""The collective library, whose stores have no types."""
Backend = Literal["gloo", "nccl"]


class CollectiveTransport:
    """Keeps published tensors in memory and sends them to readers that ask.

    Args:
        folder: has the publisher's address; all processes must see it. One publisher at a time.
        host: name or address of the publisher's machine, for readers.
        patience_s: longest silence of the other side.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        patience_s: float = 60.0,
    ) -> None:
        self.folder, self._host = folder.absolute(), host
        self._patience_s = patience_s
        self._held: dict[str, Published[dict[str, torch.Tensor]]] = {}
        self._server: _Server | None = None

    def publish(
        self,
        version: WeightVersion,
        tensors: Tensors,
        previous: WeightVersion | None = None,
        shown: Shown = (),
    ) -> WeightUpdate:
        """See `Transport`."""
        update = described(version, tensors, previous, shown, str(self.folder))
        copies = {name: t.detach().to("cpu", copy=True) for name, t in sorted(tensors.items())}
        self._held[str(version)] = Published(update, copies)
        try:
            if self._server is None:
                self._server = _Server(
                    self.folder, self._host, self._patience_s, self._transfer, self._held
                )
            self._server.announce()  # another publisher may have been there meanwhile
        except (RuntimeError, OSError) as error:
            raise ModelError(
                f"no reader can connect to {self._host!r} for {self.folder} ({error}). Set transport.host "
                "to this machine's name or address."
            ) from error
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; asks the publisher, if that is not this process."""
        name = str(update.version)
        if self._server is not None:
            tensors = kept_of(self._held.get(name), update)
            return {key: tensor.cpu() for key, tensor in tensors.items()}
        try:
            found = self._receive(update)
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            raise ModelError(
                f"{name} did not arrive from the publisher in {self.folder}: {error}"
            ) from error
        require_update(update, found, f"{name} as received")
        return found

    def release(self, version: WeightVersion) -> None:
        """See `Transport`; a transfer that has begun is finished."""
        self._held.pop(str(version), None)

    def close(self) -> None:
        """Stop answering readers."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._held.clear()

    def _receive(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        host, port = _where(_read_address(self.folder))
        types = {spelled: dtype for dtype, spelled in DTYPES.items()}
        found = {  # first: without room here the publisher is not asked
            header.name: torch.empty(header.shape, dtype=types[header.dtype])
            for header in sorted(update.tensors, key=lambda header: header.name)
        }
        with socket.create_connection((host, port), timeout=self._patience_s) as link:
            answer, _ = ask(link, update)
            at, number = answer.get("store"), answer.get("number")
            if type(at) is not int or type(number) is not int or not 0 < at < 2**16:
                raise ValueError(f"the publisher answers {str(answer)[:80]}")
            self._fill(found, _store(host, at, self._patience_s), number)
        return {name: tensor.cpu() for name, tensor in found.items()}

    def _fill(self, found: dict[str, torch.Tensor], store: Any, number: int) -> None:
        """The reader's half of a transfer."""
        group = self._group(store, number, rank=1)
        for names in _buckets(found):
            sizes = [found[name].nbytes for name in names]
            flat = torch.empty(sum(sizes), dtype=torch.uint8, device=found[names[0]].device)
            group.recv([flat], 0, 0).wait()
            for name, part in zip(names, torch.split_with_sizes(flat, sizes), strict=True):
                _bytes(found[name]).copy_(part)

    def _transfer(self, tensors: Tensors, store: Any, number: int) -> None:
        """Send the tensors: the publisher's half of a transfer."""
        group = self._group(store, number, rank=0)
        for names in _buckets(tensors):
            flat = torch.cat([_bytes(tensors[key].contiguous()) for key in names])
            group.send([flat], 1, 0).wait()

    def _group(self, store: Any, number: int, rank: int) -> Any:
        """Publisher (0) and reader (1)."""
        own = _library.PrefixStore(f"pair/{number}", store)
        patience = timedelta(seconds=self._patience_s)
        return _library.ProcessGroupGloo(own, rank, 2, patience)


class _Server:
    """Answers readers until it is closed.

    Args:
        folder: gets the address.
        host: of this machine.
        patience_s: longest silence of a reader.
        transfer: does the publisher's half of a transfer: gets a version's tensors, the store in which
            both sides meet, and the number of their group.
        held: by version; what is in it is sent.

    Raises:
        OSError: no reader can connect to that host, or the folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        host: str,
        patience_s: float,
        transfer: Callable[[Tensors, Any, int], None],
        held: dict[str, Published[dict[str, torch.Tensor]]],
    ) -> None:
        self._folder, self._transfer, self._held = folder, transfer, held
        self._numbers = itertools.count()
        family, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(place, family=family)
        try:
            self._store = _library.TCPStore(
                host,
                0,
                is_master=True,
                wait_for_workers=False,
                timeout=timedelta(seconds=patience_s),
            )
            self._told = json.dumps({"host": host, "port": listener.getsockname()[1]})
            self.announce()
        except BaseException:
            listener.close()
            raise
        self._answering = Answering(listener, self._answer, patience_s)

    def announce(self) -> None:
        """Say where readers find it, unless that is said there."""
        if self._is_found():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        work = self._folder / f".tmp-{os.getpid()}-{ADDRESS}"
        work.write_text(self._told)
        work.replace(self._folder / ADDRESS)

    def close(self) -> None:
        """End, when readers that have begun have ended; take the address away if it is still ours."""
        if self._is_found():
            (self._folder / ADDRESS).unlink(missing_ok=True)
        self._answering.close()
        # now, and not when garbage is collected, maybe in a fork, which has not the store's thread
        del self._store

    def _is_found(self) -> bool:
        try:
            return _read_address(self._folder) == self._told
        except (OSError, ValueError):
            return False

    def _answer(self, link: socket.socket) -> None:
        """Send a version to one reader."""
        tensors = asked(link, self._held)
        if tensors is None:
            return
        number = next(self._numbers)
        send(link, {"answer": "comes", "store": self._store.port, "number": number})
        with contextlib.suppress(RuntimeError):  # the reader is gone
            self._transfer(tensors, self._store.clone(), number)


def _read_address(folder: Path) -> str:
    path = folder / ADDRESS
    if not path.is_file():
        raise ValueError(f"{path} is missing, so no publisher runs")
    return path.read_text()


def _where(address: str) -> tuple[str, int]:
    """Host and port of a publisher.

    Raises:
        ValueError: it names none.
    """
    try:
        fields = json.loads(address)
    except (ValueError, RecursionError):
        fields = None
    host, port = (
        (fields.get("host"), fields.get("port")) if isinstance(fields, dict) else (None, None)
    )
    if not isinstance(host, str) or not host or type(port) is not int or not 0 < port < 2**16:
        raise ValueError(f"{ADDRESS} holds no address: {address[:80]!r}")
    return host, port


def _store(host: str, port: int, patience_s: float) -> Any:
    """Connect to the publisher's store, as a reader."""
    patience = timedelta(seconds=patience_s)
    return _library.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=patience)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor's memory."""
    return tensor.reshape(-1).view(torch.uint8)


def _buckets(tensors: Tensors) -> Iterator[list[str]]:
    """Names in order, together while a message stays small; empty tensors need none."""
    names: list[str] = []
    size = 0
    for name, tensor in sorted(tensors.items()):
        if not tensor.nbytes:
            continue
        if names and size + tensor.nbytes > _BUCKET:
            yield names
            names, size = [], 0
        names.append(name)
        size += tensor.nbytes
    if names:
        yield names
