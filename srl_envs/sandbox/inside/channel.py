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
        except BaseException as error:  # noqa: BLE001 - half a message may be gone: no way back
            raise Gone(_reason(error)) from None

    def receive(self) -> dict[str, Any]:
        """The next message."""
        try:
            size = int.from_bytes(self._exactly(4), "little")
            if size > _MAX_BYTES:
                raise Gone(f"a message of {size} bytes")
            message = codec.loads(self._exactly(size), self._decode)
        except BaseException as error:  # noqa: BLE001 - as above
            raise Gone(_reason(error)) from None
        if type(message) is not dict:
            raise Gone("a malformed message: no fields")
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


def _reason(error: BaseException) -> str:
    if isinstance(error, Gone):
        return str(error)
    if isinstance(error, OSError):
        return "the other process ended"
    text = str(error) if isinstance(error, codec.CodecError) else ""
    return f"a malformed message: {text or type(error).__name__}"
