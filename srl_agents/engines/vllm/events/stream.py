"""Reads the events that vLLM publishes about its cache: ZeroMQ's wire protocol and MessagePack.

Both are a few lines for a reader, and neither library is a dependency. Sources: rfc.zeromq.org/spec/23 (ZMTP
3.0, mechanism NULL), github.com/msgpack/msgpack/blob/master/spec.md.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_MORE, _LONG, _COMMAND = 1, 2, 4
"""Bits of a frame's first byte."""
_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_READY = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
_SUBSCRIBE_TO_ALL = b"\x01"
_LARGEST = 2**28
"""Bytes of a frame; a longer one is not an event."""


class BrokenStreamError(Exception):
    """The other side speaks something else, or was cut off."""


def published(path: Path, connected: Callable[[], None] = lambda: None) -> Iterator[list[bytes]]:
    """Messages of a publisher from now on, each in its parts; ends when the publisher closes.

    Args:
        path: of its Unix socket.
        connected: called once the publisher has answered.

    Raises:
        OSError: it cannot be reached.
        BrokenStreamError: it is not a publisher.
    """
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        link.sendall(_GREETING)
        if _exactly(link, len(_GREETING))[10:11] < b"\x03":
            raise BrokenStreamError("a publisher of ZMTP 3 or later is needed.")
        link.sendall(_frame(_COMMAND, _READY))
        link.sendall(_frame(0, _SUBSCRIBE_TO_ALL))
        parts: list[bytes] = []
        while True:
            head = link.recv(1)
            if not head:
                return
            body = _exactly(link, _length(link, head[0]))
            if head[0] & _COMMAND:
                connected()
                continue
            parts.append(body)
            if not head[0] & _MORE:
                yield parts
                parts = []


def unpacked(data: bytes) -> Any:
    """The value of one MessagePack object; strings, bytes, numbers, lists, maps, None.

    Raises:
        BrokenStreamError: it is none.
    """
    try:
        value, end = _value(data, 0)
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise BrokenStreamError(f"no MessagePack: {type(error).__name__}") from None
    if end != len(data):
        raise BrokenStreamError("more than one MessagePack object.")
    return value


def _frame(flags: int, body: bytes) -> bytes:
    return bytes((flags, len(body))) + body


def _length(link: socket.socket, flags: int) -> int:
    length = int.from_bytes(_exactly(link, 8 if flags & _LONG else 1), "big")
    if length > _LARGEST or flags > _MORE + _LONG + _COMMAND:
        raise BrokenStreamError(f"a frame of {length} bytes with flags {flags}.")
    return length


def _exactly(link: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            raise BrokenStreamError("the publisher closed within a frame.")
        data += part
    return bytes(data)


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZED = {
    0xC4: (bytes, ">B"), 0xC5: (bytes, ">H"), 0xC6: (bytes, ">I"),
    0xD9: (str, ">B"), 0xDA: (str, ">H"), 0xDB: (str, ">I"),
    0xDC: (list, ">H"), 0xDD: (list, ">I"), 0xDE: (dict, ">H"), 0xDF: (dict, ">I"),
}  # fmt: skip
"""First byte -> what follows, and how its size is written."""


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """The object that begins at a place, and where the next one does."""
    first, at = data[at], at + 1
    if first < 0x80:
        return first, at
    if first >= 0xE0:
        return first - 0x100, at
    if first in _CONSTANTS:
        return _CONSTANTS[first], at
    if first in _NUMBERS:
        form = _NUMBERS[first]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if first in _SIZED:
        kind, form = _SIZED[first]
        return _sized(kind, struct.unpack_from(form, data, at)[0], data, at + struct.calcsize(form))
    if first < 0xC0:
        kind = dict if first < 0x90 else list if first < 0xA0 else str
        return _sized(kind, first & (0x1F if kind is str else 0x0F), data, at)
    raise BrokenStreamError(f"MessagePack of kind {first:#x} is not read.")


def _sized(kind: type, size: int, data: bytes, at: int) -> tuple[Any, int]:
    if kind in (bytes, str):
        if at + size > len(data):
            raise BrokenStreamError("MessagePack that was cut off.")
        part = data[at : at + size]
        return part if kind is bytes else part.decode(), at + size
    values = []
    for _ in range(size * (2 if kind is dict else 1)):
        value, at = _value(data, at)
        values.append(value)
    return (values if kind is list else dict(zip(values[::2], values[1::2], strict=True))), at
