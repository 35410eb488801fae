"""Readers that ask a publisher: messages over a socket, and a thread that answers each of them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from srl_agents.records import WeightUpdate, plain_json
from srl_agents.transports.updates import Published

T = TypeVar("T")
GONE = {"answer": "gone"}
"""The answer where a version was released, or never published with the tensors that are asked for."""
HAS_IT = {"answer": "has it"}
"""A reader's acknowledgement, the last message of a connection."""
_LARGEST = 2**14
"""Bytes of one message."""
_AGAIN_S = 0.05
"""After an accept that failed."""
_LENGTH = struct.Struct(">I")
"""Before a message: its bytes."""


class Answering:
    """Answers every reader that connects, each in a thread of its own, until it is closed.

    Args:
        listener: a socket that listens; is closed in the end.
        answer: speaks with one reader; its OSError and ValueError mean that the reader is gone.
        patience_s: longest silence of a reader.
    """

    def __init__(
        self,
        listener: socket.socket,
        answer: Callable[[socket.socket], None],
        patience_s: float,
    ) -> None:
        self._listener, self._answer, self._patience_s = listener, answer, patience_s
        self._readers: list[threading.Thread] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, when readers that have begun have ended."""
        self._ends.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits there
        self._thread.join()
        self._listener.close()
        for reader in self._readers:
            reader.join()

    def _serve(self) -> None:
        while not self._ends.is_set():
            try:
                link, _ = self._listener.accept()
            except OSError:  # the end, or too many files are open just now
                self._ends.wait(_AGAIN_S)
                continue
            reader = threading.Thread(target=self._speak, args=(link,), daemon=True)
            self._readers = [known for known in self._readers if known.is_alive()]
            self._readers.append(reader)
            reader.start()

    def _speak(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError, ValueError):
            link.settimeout(self._patience_s)
            self._answer(link)


def ask(
    link: socket.socket, update: WeightUpdate, *, files: int = 0
) -> tuple[dict[str, Any], list[int]]:
    """Ask for a version; returns what `receive` does.

    Raises:
        ValueError: it is not there, or the answer is none of ours.
        OSError: no answer comes.
    """
    send(link, request_of(update))
    answer, came = receive(link, files=files)
    if answer == GONE:
        for file in came:
            os.close(file)
        raise ValueError("it was released, or never published there with these tensors")
    return answer, came


def asked(link: socket.socket, held: Mapping[str, Published[T]]) -> T | None:
    """What is kept of the version that a reader asks for; None, after the answer `GONE`, if nothing is.

    Args:
        link: to the reader.
        held: by the version's id.

    Raises:
        ValueError: the question is none of ours.
        OSError: it does not come, or the reader is gone.
    """
    request, _ = receive(link)
    found = held.get(str(request.get("version")))
    if found is None or request != request_of(found.update):
        send(link, GONE)
        return None
    return found.kept


def request_of(update: WeightUpdate) -> dict[str, Any]:
    """What a reader asks: for the version, with tensors of these names, types and shapes."""
    headers = sorted((tensor.name, tensor.dtype, *tensor.shape) for tensor in update.tensors)
    digest = hashlib.sha256(plain_json(headers).encode()).hexdigest()
    return {"version": str(update.version), "tensors": digest}


def send(link: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """One message, with open files where the other side is on this machine."""
    body = plain_json(message).encode()
    whole = _LENGTH.pack(len(body)) + body
    sent = socket.send_fds(link, [whole], files) if files else 0
    link.sendall(whole[sent:])


def receive(link: socket.socket, *, files: int = 0) -> tuple[dict[str, Any], list[int]]:
    """One message, and the files that came with it, which are the caller's to close.

    Args:
        link: to the other side.
        files: that may come; the kernel closes others.

    Raises:
        ValueError: it is none of ours.
        OSError: it does not come.
    """
    head, came, _, _ = socket.recv_fds(link, _LENGTH.size, files)
    try:
        head += _exactly(link, _LENGTH.size - len(head))
        (length,) = _LENGTH.unpack(head)
        if length > _LARGEST:
            raise ValueError(f"a message of {length} bytes, at most {_LARGEST} are read")
        try:
            message = json.loads(_exactly(link, length))
        except RecursionError:
            raise ValueError("a message that is nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError(f"a message that is not an object: {str(message)[:80]}")
    except BaseException:
        for file in came:
            os.close(file)
        raise
    return message, came


def _exactly(link: socket.socket, size: int) -> bytes:
    """Receive exactly so many bytes."""
    found = b""
    while len(found) < size:
        part = link.recv(size - len(found))
        if not part:
            raise OSError("the other side has ended")
        found += part
    return found
