"""Blocks of keys and values over TCP: what one engine has read, another has, and no partner can spoil it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.places.kv_files import BlockFiles, KVForm
from srl_agents.engines.embedded.places.kv_network import BlockServer, Peers
from srl_agents.engines.embedded.places.kv_tiers import BLOCK, TierLimits
from srl_agents.models.base_model import BaseModel
from srl_agents.records import WeightVersion
from srl_envs.errors import ConfigError
from tests.srl_agents.engines.test_prefill_apart import SAMPLING, engine, replies, requests, tiny

SECRET = "sixteen characters or more"
FORM = KVForm(base="a", shape=(1, 8), dtype=torch.int8)


def files(folder: Path, form: KVForm = FORM) -> BlockFiles:
    return BlockFiles.shared(folder, form, 8)


@contextlib.contextmanager
def served(folder: Path, secret: str = SECRET) -> Iterator[BlockServer]:
    server = BlockServer(folder, secret)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def impostor(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers every client by `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = listener.accept()
                    with link, contextlib.suppress(OSError):
                        answer(link)

        threading.Thread(target=accept, daemon=True).start()
        yield "{}:{}".format(*listener.getsockname())
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def model() -> tuple[BaseModel, WeightVersion]:
    return tiny()


def far(base: BaseModel, folder: Path, *peers: str, secret: str = SECRET) -> TransformersEngine:
    """An engine that keeps nothing but what its peers send."""
    limits = TierLimits(disk_bytes=2**30, shared=folder, peers=peers, secret=secret, weigh=False)
    return TransformersEngine(base, SAMPLING, cache_bytes=0, tiers=limits)


def test_prompts_read_at_one_place_are_replied_to_at_another_with_the_same_tokens(
    model: tuple[BaseModel, WeightVersion], tmp_path: Path
) -> None:
    base, version = model
    asked = requests(version)
    expected = replies(engine(base, None), asked)
    reader = engine(base, tmp_path / "here")

    async def read() -> None:
        for request in asked:
            await reader.prefill(request)
        await reader.close()

    asyncio.run(read())
    with served(tmp_path / "here") as server:
        found = replies(far(base, tmp_path / "there", server.address), asked)
        blocks = [p for p in (tmp_path / "here").iterdir() if "." not in p.name]
        assert server.sent_blocks == len(blocks) > 0  # every block once, though prompts share some
    for one, other in zip(expected, found, strict=True):
        assert one.token_ids == other.token_ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert other.cached_tokens == (len(other.prompt_ids) - 1) // BLOCK * BLOCK


def test_a_server_that_dies_costs_time_and_no_token(
    model: tuple[BaseModel, WeightVersion], tmp_path: Path
) -> None:
    base, version = model
    asked = requests(version)
    expected = [one.token_ids for one in replies(engine(base, tmp_path / "here"), asked)]
    server = BlockServer(tmp_path / "here", SECRET)
    player = far(base, tmp_path / "there", server.address)
    server.close()
    with pytest.warns(UserWarning, match="are computed here from now on"):
        found = replies(player, asked)
    assert [one.token_ids for one in found] == expected
    assert found[0].cached_tokens == 0


def test_wrong_partners_are_refused_by_name(tmp_path: Path) -> None:
    files(tmp_path / "a").write(1, b"12345678")
    mine = files(tmp_path / "mine")

    def ask(address: str, secret: str = SECRET, form: str = str(FORM)) -> Peers:
        return Peers([address], secret, form, mine, timeout_s=0.5)

    with served(tmp_path / "a") as server:
        with pytest.raises(ConfigError, match="another secret"):
            ask(server.address, "some other secret of ours")
        with pytest.raises(ConfigError, match=r"serves keys and values of base a.*has base b"):
            ask(server.address, form=str(KVForm(base="b", shape=(1, 8), dtype=torch.int8)))
        with contextlib.closing(ask(server.address)) as peers:
            assert peers.bring([1, 2]) == [1]
    web = b"HTTP/1.0 400 Bad Request\r\n\r\n"
    with (
        impostor(lambda link: link.sendall(web)) as address,
        pytest.raises(ConfigError, match="not a server of blocks"),
    ):
        ask(address)
    began_s = time.monotonic()
    with (
        impostor(lambda link: time.sleep(2)) as address,  # accepts, and never speaks
        pytest.warns(UserWarning, match="timed out"),
    ):
        assert ask(address).bring([1]) == []
    assert time.monotonic() - began_s < 60
    for wrong in ("there", "host:", ":7070", "host:99999", "host:²"):
        with pytest.raises(ConfigError, match="host:port"):
            ask(wrong)
    with pytest.raises(ConfigError, match="16 or more"):
        ask("host:1", "short")
    with pytest.raises(ConfigError, match="16 or more"):
        BlockServer(tmp_path / "a", "short")
    with pytest.raises(ConfigError, match="not a shared folder of blocks"):
        BlockServer(tmp_path / "nowhere", SECRET)
    with pytest.raises(ConfigError, match="name a shared folder"):
        TierLimits(peers=("host:1",), secret=SECRET)
    assert SECRET not in repr(TierLimits(disk_bytes=1, shared=tmp_path, secret=SECRET))


def test_a_block_that_changed_on_the_way_is_not_taken(tmp_path: Path) -> None:
    source = files(tmp_path / "a")
    for name in (1, 2, 3):
        source.write(name, b"12345678")
    good = source.path(2).read_bytes()
    mine = files(tmp_path / "mine")
    for spoilt in (good[:-1] + b"9", source.path(3).read_bytes(), good[:-1], good + b"0"):
        source.path(2).write_bytes(spoilt)
        with served(tmp_path / "a") as server:
            peers = Peers([server.address], SECRET, str(FORM), mine)
            with pytest.warns(UserWarning, match="are computed here"):
                assert peers.bring([1, 2, 3]) == [1]
            assert peers.bring([3]) == []  # it rests
            peers.close()
    assert mine.read(mine.path(1), 1) == b"12345678"
    assert not mine.path(2).exists()
    assert not list(mine.folder.glob("*.new"))


def test_a_second_server_has_what_the_first_one_lacks(tmp_path: Path) -> None:
    for name, folder in ((1, "a"), (2, "b")):
        files(tmp_path / folder).write(name, b"12345678")
    mine = files(tmp_path / "mine")
    with served(tmp_path / "a") as one, served(tmp_path / "b") as two:
        peers = Peers([one.address, two.address], SECRET, str(FORM), mine)
        assert peers.bring([1, 2, 3]) == [1, 2]
        peers.close()
    assert peers.received.failures == 0
    assert (peers.received.blocks, peers.received.bytes) == (2, 2 * mine.file_bytes)


@settings(deadline=None, max_examples=40)
@given(noise=st.lists(st.binary(max_size=200), max_size=4), known=st.booleans())
def test_noise_neither_ends_a_server_nor_reads_a_file(
    tmp_path_factory: pytest.TempPathFactory, noise: list[bytes], known: bool
) -> None:
    folder = tmp_path_factory.mktemp("served")
    files(folder).write(1, b"12345678")
    with served(folder) as server:
        mine = files(tmp_path_factory.mktemp("mine"))
        if known:  # from one who has the secret
            peers = Peers([server.address], SECRET, str(FORM), mine)
            link = peers._peers[0].link
            assert link is not None
        else:
            host, port = server.address.split(":")
            link = socket.create_connection((host, int(port)))
        with contextlib.suppress(OSError):
            for part in noise:
                link.sendall(part)
            link.shutdown(socket.SHUT_WR)
            link.settimeout(5)
            said = bytearray()
            while part := link.recv(2**16):
                said += part
            if not known:
                assert b"12345678" not in said
        link.close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = Peers([server.address], SECRET, str(FORM), mine)
            assert again.bring([1]) == [1]
            again.close()
