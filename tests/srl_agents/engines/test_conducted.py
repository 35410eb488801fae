"""Several engines as one: all hold every version, replies do not depend on who writes them, one may die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srl_agents.engines.conducted import ConductedEngine
from srl_agents.engines.protocol import Generation, GenerationRequest
from srl_agents.engines.settings import ENGINE
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.engines.vllm.settings import capacity_of
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.sources.catalog import TINY
from srl_agents.transports.files import FilesTransport
from srl_envs.errors import ConfigError, DeadlineError, ModelError
from tests.srl_agents.engines.test_vllm_engine import ask, engine, published
from tests.vllm_stub import VLLMStub, vllm_stub


@pytest.fixture
def stubs() -> Iterator[list[VLLMStub]]:
    with vllm_stub() as one, vllm_stub() as other:
        yield [one, other]


@pytest.fixture
def transport(tmp_path: Path) -> FilesTransport:
    return FilesTransport(tmp_path / "versions")


def blocks(request: GenerationRequest) -> tuple[str, ...]:
    words = request.observation.split()
    return tuple(" ".join(words[: n + 1]) for n in range(len(words)))


def conducted(
    stubs: list[VLLMStub], transport: FilesTransport
) -> tuple[ConductedEngine, VLLMEngine]:
    """Two instances as one, and a third engine that uses only the first server."""
    chat = ChatTokenizer.load(TINY)
    both = [engine(stub, chat, transport) for stub in stubs]
    return ConductedEngine(both, blocks, places=4), engine(stubs[0], chat, transport)


def test_every_instance_holds_a_version_and_replies_are_those_of_one(
    stubs: list[VLLMStub], transport: FilesTransport
) -> None:
    update = published(transport, 1)

    async def play() -> tuple[list[Generation], list[Generation]]:
        engines = conducted(stubs, transport)
        replies = []
        for each in engines:
            await each.install(update)
            asked = [ask(n, update.version) for n in range(12)]
            replies.append(list(await asyncio.gather(*map(each.generate, asked))))
        assert all(len(stub.adapters) >= 2 for stub in stubs)
        for each in engines:
            await each.retire(update.version)
            await each.close()
        return replies[0], replies[1]

    together, single = asyncio.run(play())
    assert together == single
    assert all(stub.asked for stub in stubs)
    assert not any(stub.adapters for stub in stubs)


def test_turns_of_one_match_stay_at_one_instance(
    stubs: list[VLLMStub], transport: FilesTransport
) -> None:
    async def play() -> None:
        engines = conducted(stubs, transport)
        for turn in range(1, 8):
            text = " ".join(f"move{n}" for n in range(turn))
            request = GenerationRequest(observation=text, version=None, key=(1, turn))
            await engines[0].generate(request)
        speed = await engines[0].take_speed()  # of both servers together
        assert (speed.first_token.count, speed.steps, speed.rows) == (6, 8, 12)
        assert speed.conducted is not None
        assert list(speed.conducted.requests.values()) == [7]
        assert (speed.conducted.blocks, speed.conducted.known) == (28, 21)
        for each in engines:
            await each.close()

    asyncio.run(play())
    assert sorted(len(stub.asked) for stub in stubs) == [0, 7]


def test_requests_of_an_instance_that_died_go_to_the_other(transport: FilesTransport) -> None:
    class Dead(VLLMEngine):
        async def generate(self, request: GenerationRequest) -> Generation:
            await asyncio.sleep(0.02)
            raise ModelError("it died.")

    chat = ChatTokenizer.load(TINY)
    with vllm_stub() as stub:

        async def play() -> list[Generation]:
            living, dead = engine(stub, chat, transport), engine(stub, chat, transport)
            dead.__class__ = Dead
            both = ConductedEngine([dead, living], blocks, places=2)
            replies = await asyncio.gather(*(both.generate(ask(n)) for n in range(6)))
            await both.close()
            return list(replies)

        assert len(asyncio.run(play())) == 6


def test_what_every_instance_refuses_is_refused_and_costs_no_instance(
    stubs: list[VLLMStub], transport: FilesTransport
) -> None:
    async def play() -> None:
        both, single = conducted(stubs, transport)
        with pytest.raises(ModelError):
            await both.generate(ask(0, published(transport, 1).version))
        await both.generate(ask(0))
        await both.install(published(transport, 2))
        assert all(stub.adapters for stub in stubs)
        await both.close()
        await single.close()

    asyncio.run(play())


def test_the_deadline_holds_while_a_request_waits_for_a_place(
    stubs: list[VLLMStub], transport: FilesTransport
) -> None:
    async def play() -> None:
        both, single = conducted(stubs, transport)
        for stub in stubs:
            stub.delay_s = 0.5
        busy = [asyncio.create_task(both.generate(ask(n))) for n in range(8)]
        await asyncio.sleep(0.05)
        with pytest.raises(DeadlineError):
            await both.generate(ask(99, deadline_s=0.1))
        await asyncio.gather(*busy)
        await both.close()
        await single.close()

    asyncio.run(play())


def test_no_more_is_asked_of_a_server_than_its_cache_has_room_for(
    stubs: list[VLLMStub], transport: FilesTransport
) -> None:
    """Each has room for two prompts and replies, and has places for eight."""
    sizes = []
    for stub, blocks_there in zip(stubs, (100, 12), strict=True):
        stub.delay_s, stub.gathers = 0.02, 2
        labels = f'block_size="1",num_gpu_blocks="{blocks_there}"'
        stub.counters += f"vllm:cache_config_info{{{labels}}} 1.0\n"
        sizes.append(capacity_of(stub.url, 1))
    assert sizes == [100, 12]
    assert (
        capacity_of("http://127.0.0.1:9", 1) > 10**5
    )  # where none answers, the first request finds out

    async def play() -> None:
        chat = ChatTokenizer.load(TINY)
        both = ConductedEngine(
            [engine(stub, chat, transport) for stub in stubs],
            lambda request: [(request.key, n) for n in range(5)],  # nothing is shared
            places=8,
            capacity=[12, 12],
        )
        await asyncio.gather(*(both.generate(ask(n)) for n in range(20)))
        await both.close()

    asyncio.run(play())
    assert [stub.at_once for stub in stubs] == [2, 2]


def test_each_of_several_servers_has_an_address() -> None:
    kind: Callable[..., Any] = ENGINE.kinds.find("vllm")
    with pytest.raises(ConfigError, match="address"):
        kind(url=("http://127.0.0.1:1", "somewhere"))
    one, two = "http://127.0.0.1:1", "http://127.0.0.1:2"
    read = ENGINE.convert({"kind": "vllm", "url": [one, two], "urls": []}, "engine")
    assert read.addresses == (one, two)
    with pytest.raises(ConfigError, match=r"urls.*write engine.url: \[FIRST, SECOND"):
        ENGINE.convert({"kind": "vllm", "url": one, "urls": [two]}, "engine")
