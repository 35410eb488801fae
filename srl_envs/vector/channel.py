"""Messages between a vector and its worker processes: a length, then a pickle, over a socket pair.

Pickle, because both ends are our own processes on a private socket (nothing read here comes from a
file or a network), and because it keeps any text as it is, lone surrogates included. The longest
text has no bound, unlike in a block of shared memory.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
from typing import Any

_LENGTH_BYTES = 8


class ChannelClosedError(Exception):
    """The other end is gone."""


class Channel:
    """One end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def send(self, message: Any) -> None:
        """Send any value that pickles.

        Raises:
            ChannelClosedError: the other end is closed.
        """
        data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            # in one piece: the other end must not wake up for just the length
            self._socket.sendall(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            ChannelClosedError: the other end closed, perhaps in the middle of a message.
        """
        size = int.from_bytes(self._exactly(_LENGTH_BYTES), "little")
        return pickle.loads(self._exactly(size))

    def close(self) -> None:
        """Let the other end know that nothing follows, also where a fork copied this end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _exactly(self, count: int) -> bytearray:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            try:
                got = self._socket.recv_into(view[at:])
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not got:
                raise ChannelClosedError("the other end closed")
            at += got
        return data
