"""Messages between the program's process and the test's process, over a pair of pipes.

Each message is a length and plain data (`codec`). Either side may be hostile to the other.
"""

from __future__ import annotations

import os
from typing import Any

from . import codec

_MAX_BYTES = 8 << 20


class Gone(BaseException):
    """The other side ended or broke the protocol. Not an Exception: no test may swallow it."""


class Channel:
    """A pair of pipes to the other process.

    Args:
        read: descriptor to read from.
        write: descriptor to write to.
        encode: stands in for values without a JSON form, see `codec.dumps`.
        decode: its inverse.
    """

    def __init__(self, read: int, write: int, encode: codec.Other, decode: codec.Other) -> None:
        self._read = read
        self._write = write
        self._encode = encode
        self._decode = decode

    def send(self, message: dict[str, Any]) -> None:
        """Send plain data; the values that have no JSON form go by reference."""
        data = codec.dumps(message, self._encode)
        data = len(data).to_bytes(4, "little") + data
        try:
            while data:
                data = data[os.write(self._write, data) :]
        except OSError:
            raise Gone("the other process ended") from None

    def receive(self) -> dict[str, Any]:
        """The next message."""
        size = int.from_bytes(self._exactly(4), "little")
        if size > _MAX_BYTES:
            raise Gone(f"a message of {size} bytes")
        try:
            message = codec.loads(self._exactly(size), self._decode)
        except codec.CodecError as error:
            raise Gone(f"a malformed message: {error}") from None
        if not isinstance(message, dict):
            raise Gone("a malformed message")
        return message

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = os.read(self._read, min(count, 1 << 16))
            if not part:
                raise Gone("the other process ended")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)
