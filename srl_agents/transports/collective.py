"""Weights through the collective library: from the publisher's memory to a reader's, without a disk.

The publisher keeps its versions and answers readers from threads beside its work. A reader finds it by an
address in the run's folder and asks for a version; then the two form a group of their own, in which the
bytes go. So a reader that dies or begins again disturbs nobody else, and every wait has an end. On the CPU
the library is gloo. NCCL takes the same way and was not run: it needs two GPUs.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from torch import distributed

from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.transports.protocol import Shown, Tensors
from srl_agents.transports.updates import DTYPES, described, require_update
from srl_envs.errors import ModelError

ADDRESS = "collective.json"
"""In the folder: where the publisher is."""
_LOOK_S = 0.002
"""Between two looks at what readers ask."""
_LOST_S = 1.0
"""After which a reader that drew a number and asked nothing is passed over."""
_BUCKET = 2**26
"""Bytes in one message, about."""
_library: Any = distributed
"""Its stores have no types."""
Backend = Literal["gloo", "nccl"]


class CollectiveTransport:
    """Keeps published tensors in memory and sends them to whoever asks.

    Args:
        folder: has the publisher's address; all processes must see it. One publisher at a time.
        host: name or address of the publisher's machine, for readers.
        backend: the library.
        patience_s: longest silence of the other side.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        backend: Backend = "gloo",
        patience_s: float = 60.0,
    ) -> None:
        self.folder, self._host, self._backend = folder.absolute(), host, backend
        self._patience_s = patience_s
        self._held: dict[str, tuple[WeightUpdate, dict[str, torch.Tensor]]] = {}
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
        place = "cpu" if self._backend == "gloo" else "cuda"
        copies = {name: t.detach().to(place, copy=True) for name, t in sorted(tensors.items())}
        self._held[str(version)] = (update, copies)
        if self._server is None:
            self._server = _Server(self)
        return update

    def open(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        """See `Transport`; asks the publisher, if that is not this process."""
        name = str(update.version)
        if self._server is not None:
            known, tensors = self._held.get(name, (None, {}))
            if known is None or replace(known, previous=update.previous) != update:
                raise ModelError(f"{name} was released, or another one was published here.")
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
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._held.clear()

    def _receive(self, update: WeightUpdate) -> dict[str, torch.Tensor]:
        address = json.loads((self.folder / ADDRESS).read_text())
        store = _store(str(address["host"]), int(address["port"]), self._patience_s)
        number = store.add("readers", 1)
        store.set(f"asked/{number}", str(update.version))
        store.wait([f"told/{number}"], timedelta(seconds=self._patience_s))
        if store.get(f"told/{number}") != b"comes":
            raise ValueError("it was released or never published there")
        place = "cpu" if self._backend == "gloo" else "cuda"
        types = {spelled: dtype for dtype, spelled in DTYPES.items()}
        found = {
            header.name: torch.empty(header.shape, dtype=types[header.dtype], device=place)
            for header in sorted(update.tensors, key=lambda header: header.name)
        }
        group = self._group(store, number, rank=1)
        for names in _buckets(found):
            sizes = [found[name].nbytes for name in names]
            flat = torch.empty(sum(sizes), dtype=torch.uint8, device=place)
            group.recv([flat], 0, 0).wait()
            for name, part in zip(names, torch.split_with_sizes(flat, sizes), strict=True):
                _bytes(found[name]).copy_(part)
        return {name: tensor.cpu() for name, tensor in found.items()}

    def _send(self, store: Any, number: int, name: str) -> None:
        """Answer one reader; one that is gone is forgotten."""
        tensors = self._held.get(name, (None, None))[1]
        store.set(f"told/{number}", "gone" if tensors is None else "comes")
        if tensors is None:
            return
        group = self._group(store, number, rank=0)
        for names in _buckets(tensors):
            flat = torch.cat([_bytes(tensors[key].contiguous()) for key in names])
            group.send([flat], 1, 0).wait()

    def _group(self, store: Any, number: int, rank: int) -> Any:
        """Publisher (0) and reader (1)."""
        own = _library.PrefixStore(f"pair/{number}", store)
        patience = timedelta(seconds=self._patience_s)
        if self._backend == "gloo":
            return _library.ProcessGroupGloo(own, rank, 2, patience)
        options = _library.ProcessGroupNCCL.Options()
        options._timeout = patience
        return _library.ProcessGroupNCCL(own, rank, 2, options)


class _Server:
    """Answers readers, each in a thread of its own, until it is closed."""

    def __init__(self, transport: CollectiveTransport) -> None:
        self._transport, self._ends = transport, threading.Event()
        self._store = _library.TCPStore(
            transport._host,
            0,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=transport._patience_s),
        )
        transport.folder.mkdir(parents=True, exist_ok=True)
        self._address = transport.folder / ADDRESS
        self._told = json.dumps({"host": transport._host, "port": self._store.port})
        work = self._address.with_name(f".tmp-{os.getpid()}-{ADDRESS}")
        work.write_text(self._told)
        work.replace(self._address)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, and take the address away if it is still ours."""
        self._ends.set()
        self._thread.join()
        with contextlib.suppress(OSError):  # taken away already
            if self._address.read_text() == self._told:
                self._address.unlink()

    def _serve(self) -> None:
        store, number, since_s = self._store, 1, 0.0
        while not self._ends.wait(_LOOK_S):
            if store.check([f"asked/{number}"]):
                name = store.get(f"asked/{number}").decode()
                threading.Thread(target=self._answer, args=(number, name), daemon=True).start()
            elif store.add("readers", 0) < number:
                since_s = 0.0
                continue
            elif not since_s:
                since_s = time.monotonic()
                continue
            elif time.monotonic() - since_s < _LOST_S:
                continue
            number, since_s = number + 1, 0.0

    def _answer(self, number: int, name: str) -> None:
        with contextlib.suppress(RuntimeError):  # the reader is gone
            self._transport._send(self._store.clone(), number, name)


def _store(host: str, port: int, patience_s: float) -> Any:
    """A reader's connection."""
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
