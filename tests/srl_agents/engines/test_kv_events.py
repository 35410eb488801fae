"""Events of vLLM's cache: what vLLM's own libraries wrote is read, and a broken stream changes no count."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.engines.vllm.events.prefix_cache import KVCounts, KVEvents
from srl_agents.engines.vllm.events.stream import BrokenStreamError, unpacked

WRITTEN = bytes.fromhex(
    "93cb3ff80000000000009289a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392c42000000000"
    "00000000000000000000000000000000000000000000000000000000cf8000000000000000b1706172656e745f626c6f63"
    "6b5f68617368c0a9746f6b656e5f6964739400010203aa626c6f636b5f73697a6520a76c6f72615f6964c0a66d65646975"
    "6da3475055a96c6f72615f6e616d65a5616c696365aa65787472615f6b65797392c094a161fbcb400c000000000000c383"
    "a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391c428787878787878787878787878787878"
    "78787878787878787878787878787878787878787878787878a66d656469756da347505500"
)
"""A batch of two stored blocks and a removed one, as msgspec writes vLLM's classes."""
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
"""What libzmq 4.3 sends first."""


def frame(body: bytes, *, more: bool) -> bytes:
    if len(body) < 256:
        return bytes((more, len(body))) + body
    return bytes((2 + more,)) + len(body).to_bytes(8, "big") + body


def message(number: int, payload: bytes) -> bytes:
    parts = (b"", number.to_bytes(8, "big"))
    return b"".join(frame(part, more=True) for part in parts) + frame(payload, more=False)


@contextmanager
def publisher(path: Path, streams: list[bytes]) -> Iterator[threading.Event]:
    """One connection after the other, each with what is sent to it; set when all were."""
    path.unlink(missing_ok=True)
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            for stream in streams:
                link, _ = server.accept()
                with link:
                    link.sendall(GREETING + READY + stream)
                    heard = b""
                    while not heard.endswith(b"\x00\x01\x01"):  # subscribed
                        heard += link.recv(1000)
            done.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield done
        thread.join(10)


def test_what_msgspec_wrote_is_read() -> None:
    time, events, rank = unpacked(WRITTEN)
    assert (time, rank) == (1.5, 0)
    stored, removed = events
    assert stored["block_hashes"] == [bytes(32), 2**63]
    assert stored["token_ids"] == [0, 1, 2, 3]
    assert stored["extra_keys"] == [None, ["a", -5, 3.5, True]]
    assert removed == {"type": "BlockRemoved", "block_hashes": [b"x" * 40], "medium": "GPU"}
    for end in range(len(WRITTEN)):
        with pytest.raises(BrokenStreamError):
            unpacked(WRITTEN[:end])


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=40))
def test_other_bytes_are_a_value_or_refused(data: bytes) -> None:
    with suppress(BrokenStreamError):
        unpacked(data)


def test_blocks_are_counted_over_restarts_and_gaps(tmp_path: Path) -> None:
    """Two publishers: one misses batches and is cut off within a frame, one speaks nonsense between."""
    cleared = b"\x93\x01\x91\x81\xa4type\xb0AllBlocksCleared\x00"
    streams = [
        message(0, WRITTEN) + message(3, WRITTEN) + message(4, WRITTEN)[:-7],
        message(0, b"\xc1"),
        message(0, WRITTEN) + message(1, cleared),
    ]
    events = KVEvents(tmp_path / "events")
    with publisher(tmp_path / "events", streams) as done:
        assert done.wait(20)
    wait = threading.Event()
    expected = KVCounts(stored=6, removed=3, cleared=1, missed=2)
    for _ in range(500):
        if events.counts == expected:
            break
        wait.wait(0.01)
    assert events.counts == expected
    events.close()
