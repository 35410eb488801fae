"""Blocks of keys and values over TCP: `BlockServer` hands out a shared folder's, `Peers` asks such servers.

Both sides prove that they know one secret before a block moves, and a server names the base and form of
its blocks, so that a wrong partner is refused at once. Blocks carry digests, and what is cut off or changed
on the way is not taken. Nothing is encrypted: use a network that only your own machines read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import socketserver
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from srl_agents.closing_server import ClosingServer
from srl_agents.engines.embedded.places.kv_files import FORM, BlockFiles
from srl_envs.errors import ConfigError

_MAGIC = b"srl-kvt1"
_NONCE_BYTES = 16
_PROOF_BYTES = 32
_MOST_NAMES = 256
"""Of blocks in one question."""
_MOST_FORM_BYTES = 4096
_LEAST_SECRET = 16
"""Characters."""
_IDLE_S = 300.0
"""After which a server closes a connection that asks nothing."""
_HELLO_S = 5.0
"""For a client to say who it is."""
_REST_S = 5.0
"""For which a server that failed is not asked again."""
MOST_CONNECTIONS = 64
"""Of clients to one server."""


class BlockServer:
    """Serves the blocks of a shared folder to other processes, from threads of its own, until it is closed.

    It reads files and computes nothing, so it may run in the engine's process or in one beside it.

    Args:
        folder: that a `TierLimits.shared` names.
        secret: at least 16 characters, which clients know, too.
        host: address to listen on.
        port: of that address; 0 takes a free one.

    Raises:
        ConfigError: the secret is short, the folder holds no blocks, or the address is taken.
    """

    def __init__(
        self, folder: Path, secret: str, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        checked_secret(secret)
        try:
            form = (folder / FORM).read_text()
        except OSError as error:
            raise ConfigError(
                f"{folder} is not a shared folder of blocks ({error}). Begin the engine that fills it first."
            ) from error
        try:
            self._server = _Listener((host, port), _Answering)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"{host}:{port}: cannot listen there ({error}).") from error
        self._server.folder, self._server.form, self._server.secret = folder, form, secret
        self.address = f"{host}:{self._server.server_address[1]}"
        """``host:port``, as `TierLimits.peers` takes it."""
        self._thread = _serve(self._server)

    @property
    def sent_blocks(self) -> int:
        """Blocks handed out so far."""
        return self._server.sent

    def close(self) -> None:
        """Close the port and every connection."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Listener(ClosingServer):
    allow_reuse_address = True
    most_connections = MOST_CONNECTIONS
    folder: Path
    form: str
    secret: str
    sent = 0

    def server_bind(self) -> None:
        """Without the name lookup of the HTTP server."""
        socketserver.TCPServer.server_bind(self)


def _serve(server: _Listener) -> threading.Thread:
    thread = threading.Thread(
        target=server.serve_forever, args=(0.05,), name="kv-server", daemon=True
    )
    thread.start()
    return thread


class _Answering(socketserver.StreamRequestHandler):
    """One client's connection."""

    server: _Listener

    def handle(self) -> None:
        """Greet, then answer questions until the client goes."""
        self.request.settimeout(_HELLO_S)
        with suppress(OSError, EOFError):
            if not self._greeted():
                return
            self.request.settimeout(_IDLE_S)
            while self._answered():
                pass

    def _greeted(self) -> bool:
        """Whether the client has the secret; if so, it gets the form, with a proof of ours."""
        secret = self.server.secret
        nonce = os.urandom(_NONCE_BYTES)
        self.request.sendall(_MAGIC + nonce)
        hello = _exactly(self.request, len(_MAGIC) + _NONCE_BYTES + _PROOF_BYTES)
        magic, theirs, proof = _split(hello, len(_MAGIC), _NONCE_BYTES)
        if magic != _MAGIC or not hmac.compare_digest(
            proof, proof_of(secret, b"asks", nonce, theirs)
        ):
            self.request.sendall(bytes(_PROOF_BYTES) + bytes(2))
            return False
        form = self.server.form.encode()
        mine = proof_of(secret, b"serves", nonce, theirs)
        self.request.sendall(mine + len(form).to_bytes(2, "little") + form)
        return True

    def _answered(self) -> bool:
        count = int.from_bytes(_exactly(self.request, 2), "little")
        if not 0 < count <= _MOST_NAMES:
            return False
        names = _exactly(self.request, 8 * count)
        for i in range(count):
            try:
                block = (self.server.folder / names[8 * i : 8 * i + 8][::-1].hex()).read_bytes()
            except OSError:  # it is not there, or not any more
                block = b""
            self.request.sendall(len(block).to_bytes(4, "little") + block)
            if not block:
                break  # without it the later ones are of no use
            self.server.sent += 1
        return True


@dataclass(slots=True)
class Received:
    """What came over the network so far."""

    blocks: int = 0
    bytes: int = 0
    """Of these blocks, with their heads."""
    seconds: float = 0.0
    """Spent on asking, waiting and writing files."""
    failures: int = 0
    """Times that a server did not answer, or answered wrongly."""


@dataclass(slots=True)
class _Peer:
    address: tuple[str, int]
    link: socket.socket | None = None
    rests_until_s: float = 0.0
    named: bool = False
    """Whether a failure of it was said."""


class Peers:
    """Servers of blocks, asked by one thread.

    One that does not answer is not asked for some seconds, and its blocks are computed here instead.

    Args:
        addresses: ``host:port`` of each.
        secret: that they know.
        form: of the blocks that fit here.
        files: where fetched blocks are written.
        timeout_s: for each step of a conversation.
        clock: seconds.

    Raises:
        ConfigError: an address is none, the secret is short, or a server that answers has another secret or
            serves another base. One that does not answer yet is asked again later.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        secret: str,
        form: str,
        files: BlockFiles,
        *,
        timeout_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        checked_secret(secret)
        self._secret, self._form, self._files = secret, form, files
        self._timeout_s, self._clock = timeout_s, clock
        self._peers = [_Peer(_address(text)) for text in addresses]
        self.received = Received()
        try:
            for peer in self._peers:
                with suppress(OSError, EOFError):
                    self._connect(peer)
        except ConfigError:
            self.close()
            raise

    def bring(self, names: Sequence[int]) -> list[int]:
        """Fetch blocks and write them to files, as many of the first ones as any server has.

        Returns:
            The names of those that are in files now.
        """
        brought: list[int] = []
        began_s = self._clock()
        for peer in self._peers:
            while wanted := names[len(brought) : len(brought) + _MOST_NAMES]:
                got = self._asked(peer, wanted)
                brought += got
                if len(got) < len(wanted):
                    break
        self.received.seconds += self._clock() - began_s
        return brought

    def close(self) -> None:
        """Close all connections."""
        for peer in self._peers:
            _hang_up(peer)

    def _asked(self, peer: _Peer, names: Sequence[int]) -> list[int]:
        if peer.link is None and self._clock() < peer.rests_until_s:
            return []
        got: list[int] = []
        try:
            link = peer.link or self._connect(peer)
            asked = b"".join(name.to_bytes(8, "little") for name in names)
            link.sendall(len(names).to_bytes(2, "little") + asked)
            for name in names:
                length = int.from_bytes(_exactly(link, 4), "little")
                if not length:
                    break
                if length != self._files.file_bytes:
                    raise EOFError(f"a block of {length} bytes instead of {self._files.file_bytes}")
                data = _exactly(link, length)
                self.received.bytes += length
                if not self._files.take_over(name, data):
                    raise EOFError("a block that its digest does not fit")
                self.received.blocks += 1
                got.append(name)
        except (OSError, EOFError, ConfigError) as error:
            self._failed(peer, error)
        return got

    def _connect(self, peer: _Peer) -> socket.socket:
        peer.link = socket.create_connection(peer.address, timeout=self._timeout_s)
        peer.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._greet(peer.link, "{}:{}".format(*peer.address))
        except BaseException:
            _hang_up(peer)
            raise
        return peer.link

    def _greet(self, link: socket.socket, who: str) -> None:
        magic, nonce, _ = _split(
            _exactly(link, len(_MAGIC) + _NONCE_BYTES), len(_MAGIC), _NONCE_BYTES
        )
        if magic != _MAGIC:
            raise ConfigError(f"{who} is not a server of blocks, or one of another version.")
        mine = secrets.token_bytes(_NONCE_BYTES)
        link.sendall(_MAGIC + mine + proof_of(self._secret, b"asks", nonce, mine))
        proof = _exactly(link, _PROOF_BYTES)
        if not hmac.compare_digest(proof, proof_of(self._secret, b"serves", nonce, mine)):
            raise ConfigError(f"{who} has another secret.")
        length = int.from_bytes(_exactly(link, 2), "little")
        if length > _MOST_FORM_BYTES:
            raise ConfigError(f"{who} is not a server of blocks, or one of another version.")
        form = _exactly(link, length).decode(errors="replace")
        if form != self._form:
            raise ConfigError(
                f"{who} serves keys and values of {form}; this engine has {self._form}."
            )

    def _failed(self, peer: _Peer, error: Exception) -> None:
        _hang_up(peer)
        peer.rests_until_s = self._clock() + _REST_S
        self.received.failures += 1
        if not peer.named:
            peer.named = True
            who = "{}:{}".format(*peer.address)
            warnings.warn(
                f"blocks of {who} are computed here from now on, until it answers ({error}).",
                stacklevel=2,
            )


def checked_secret(secret: str) -> str:
    """The secret, if it can be one.

    Raises:
        ConfigError: it is too short to keep others out.
    """
    if len(secret) < _LEAST_SECRET:
        raise ConfigError(
            f"secret: {len(secret)} characters; use {_LEAST_SECRET} or more, such as those of "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'`."
        )
    return secret


def proof_of(secret: str, role: bytes, *nonces: bytes) -> bytes:
    """A digest of these nonces that takes the secret (HMAC, RFC 2104)."""
    return hmac.new(secret.encode(), role + b"".join(nonces), hashlib.sha256).digest()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if (
        not colon
        or not host
        or not port.isascii()
        or not port.isdigit()
        or not 0 < int(port) < 2**16
    ):
        raise ConfigError(
            f"peers: {text!r} is not an address; write host:port, such as 10.0.0.3:7070."
        )
    return host.strip("[]"), int(port)


def _hang_up(peer: _Peer) -> None:
    if peer.link is not None:
        with suppress(OSError):
            peer.link.close()
        peer.link = None


def _exactly(link: socket.socket, count: int) -> bytes:
    """So many bytes of a connection."""
    data = bytearray()
    while len(data) < count:
        part = link.recv(min(count - len(data), 2**20))
        if not part:
            raise EOFError("the connection ended")
        data += part
    return bytes(data)


def _split(data: bytes, *lengths: int) -> tuple[bytes, bytes, bytes]:
    first, second = lengths
    return data[:first], data[first : first + second], data[first + second :]
