"""Messages between the program's process and the test's process, over a pair of pipes.

Each message is a length and three JSON lists: numbers of shared containers that the sender gave up,
those that changed with their content, and the fields. Either side may be hostile to the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from . import codec
from .forms import Reader, Writer
from .heap import Heap, Shared

_MAX_BYTES = 8 << 20


class Gone(BaseException):
    """The other side ended or broke the protocol. Not an Exception: no test may swallow it."""


class Channel:
    """A pair of pipes to the other process.

    Args:
        read: descriptor to read from.
        write: descriptor to write to.
        heap: the containers that both sides hold.
        writer: turns values into trees.
        reader: its inverse.
        renew: puts the content that a message has for a container in its place.
        lost: called when a container was given up that is too large to be watched.
    """

    def __init__(  # noqa: PLR0917 - two ends, two directions
        self,
        read: int,
        write: int,
        heap: Heap,
        writer: Writer,
        reader: Reader,
        renew: Callable[[int, Shared, Any], None],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._read = read
        self._write = write
        self._heap = heap
        self._writer = writer
        self._reader = reader
        self._renew = renew
        self._lost = lost
        self._unsaid: list[int] = []

    def send(self, message: dict[str, Any]) -> None:
        """Send fields; raises `codec.CodecError`, and sends nothing, where one cannot be written."""
        changed, gone, lost = self._heap.sweep(frozenset(self._reader.named))
        self._unsaid += gone
        if lost:
            self._lost()
        self._writer.named.clear()
        try:
            renewed = [
                [number, self._writer.content(self._heap[number].kind, self._heap[number].value)]
                for number in changed
            ]
            fields = [[name, self._writer.encode(value)] for name, value in message.items()]
        except BaseException:
            self._writer.undo()
            raise
        for number in changed:
            self._heap[number].settle()
        self._writer.settle()
        tree = [self._unsaid, renewed, fields]
        self._unsaid = []
        self._put(codec.text_of(tree))

    def _put(self, data: bytes) -> None:
        data = len(data).to_bytes(4, "little") + data
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except BaseException as error:  # noqa: BLE001 - half a message may be gone: no way back
            raise Gone(_reason(error)) from None

    def receive(self) -> dict[str, Any]:
        """The fields of the next message."""
        try:
            size = int.from_bytes(self._exactly(4), "little")
            if size > _MAX_BYTES:
                raise Gone(f"a message of {size} bytes")
            return self._read_tree(codec.tree_of(self._exactly(size)))
        except BaseException as error:  # noqa: BLE001 - as above
            raise Gone(_reason(error)) from None

    def _read_tree(self, tree: Any) -> dict[str, Any]:
        gone, changed, fields = codec.as_kind(list, tree)
        self._heap.drop([codec.as_kind(int, number) for number in gone])
        self._reader.named.clear()
        for number, content in changed:
            if type(number) is not int or number not in self._heap:
                raise Gone("a malformed message: a container that is not there")
            self._renew(number, self._heap[number], content)
            self._heap[number].settle()
        found = {codec.as_kind(str, name): self._reader.decode(value) for name, value in fields}
        if len(found) != len(fields):
            raise Gone("a malformed message: a field twice")
        self._heap.settle()
        return found

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = os.read(self._read, min(count, 1 << 16))
            if not part:
                raise Gone("the other process ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _reason(error: BaseException) -> str:
    if isinstance(error, Gone):
        return str(error)
    if isinstance(error, OSError):
        return "the other process ended"
    text = str(error) if isinstance(error, codec.CodecError) else ""
    return f"a malformed message: {text or type(error).__name__}"
