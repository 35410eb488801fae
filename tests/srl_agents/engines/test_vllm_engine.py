"""The client side of a vLLM server, against a stub; tests/vllm runs a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.engines.settings import ENGINE
from srl_agents.engines.vllm.engine import ServedAdapters, VLLMEngine, seed_of
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.options import PYTHON, VLLMServerSettings
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.digests import version_of
from srl_agents.models.sources.catalog import TINY
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing import check_engine
from srl_agents.transports.files import FilesTransport
from srl_envs.errors import ConfigError, DeadlineError, ModelError
from tests.vllm_stub import VLLMStub, vllm_stub

SAMPLING = SamplingSettings(max_new_tokens=8)


@pytest.fixture
def stub() -> Iterator[VLLMStub]:
    with vllm_stub() as running:
        yield running


@pytest.fixture(scope="module")
def chat() -> ChatTokenizer:
    return ChatTokenizer.load(TINY)


@pytest.fixture
def transport(tmp_path: Path) -> FilesTransport:
    return FilesTransport(tmp_path / "versions")


def published(transport: FilesTransport, number: int, *names: str) -> WeightUpdate:
    tensors = {name: torch.full((2, 3), float(number + 1)) for name in names or ("a", "b")}
    return transport.publish(version_of("alice", number, tensors), tensors)


def engine(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport, **settings: Any
) -> VLLMEngine:
    adapters = ServedAdapters(config={"r": 2}, tensors=published(transport, 0).tensors)
    given: dict[str, Any] = {"context_length": 2048, "adapters": adapters, **settings}
    return VLLMEngine(HTTPLink(stub.url), chat, SAMPLING, open_update=transport.open, **given)


def ask(
    number: int = 0, version: WeightVersion | None = None, **settings: Any
) -> GenerationRequest:
    return GenerationRequest(
        observation=f"Position {number}.", version=version, key=(1, number), **settings
    )


@pytest.mark.slow
def test_it_keeps_what_every_engine_promises(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    stub.delay_s = 0.02
    check_engine(
        lambda: engine(stub, chat, transport, concurrency=4),
        updates=[published(transport, 1), published(transport, 2)],
        broken=[published(transport, 3, "a")],
        requests=8,  # twice as many as it answers at once
    )


@pytest.mark.parametrize("fault", ["abort", "cut"])
def test_a_reply_that_was_cut_off_is_asked_for_again_under_its_seed(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport, fault: str
) -> None:
    async def play() -> None:
        served = engine(stub, chat, transport)
        whole = await served.generate(ask(priority=-3.4))
        stub.faults = [fault]
        assert await served.generate(ask(priority=-3.4)) == whole
        await served.close()

    asyncio.run(play())
    assert {request["sampling_params"]["seed"] for request in stub.asked} == {seed_of((1, 0))}
    assert {request["priority"] for request in stub.asked} == {-3}
    assert not any("kv_transfer_params" in request for request in stub.asked)


def test_our_eviction_receives_the_games_session_and_turns(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    async def play() -> int:
        served = engine(stub, chat, transport, tells_cache=True)
        reply = await served.generate(ask(3, turns_ahead=2))
        await served.close()
        return len(reply.prompt_ids)

    length = asyncio.run(play())
    hints = {"srl_session": "1", "srl_turns_ahead": 2, "srl_prompt_tokens": length}
    assert [request["kv_transfer_params"] for request in stub.asked] == [hints]


def test_a_server_that_lost_its_adapters_gets_them_back(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    async def play() -> None:
        served, update = engine(stub, chat, transport), published(transport, 1)
        await served.install(update)
        before = await served.generate(ask(version=update.version))
        stub.adapters.clear()
        assert await served.generate(ask(version=update.version)) == before
        assert len(stub.adapters) == 2  # and the zeros
        await served.close()

    asyncio.run(play())
    assert not stub.adapters


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b"{}",
        b'{"choices": []}',
        b'{"model": "base", "usage": {"prompt_tokens": 1}, "choices": [{"finish_reason": "stop", '
        b'"token_ids": [1, 2], "logprobs": {"content": [{"token_id": 1, "logprob": -1.0}]}}]}',
    ],
)
def test_an_answer_that_is_not_a_reply_is_refused(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport, answer: bytes
) -> None:
    async def play() -> None:
        served = engine(stub, chat, transport)
        stub.faults = [answer]
        with pytest.raises(ModelError, match="something else than a reply of base"):
            await served.generate(ask())
        stub.faults = [500]
        with pytest.raises(ModelError, match="answered 500"):
            await served.generate(ask())
        await served.close()

    asyncio.run(play())


def test_more_versions_than_the_server_holds_are_refused_before_it_evicts_one(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    async def play() -> None:
        served = engine(stub, chat, transport, max_versions=1)
        await served.install(published(transport, 1))
        with pytest.raises(ModelError, match="max_versions is 1"):
            await served.install(published(transport, 2))
        await served.retire(published(transport, 1).version)
        await served.install(published(transport, 2))
        await served.close()

    asyncio.run(play())


def test_no_more_requests_than_wanted_are_at_the_server(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    async def play() -> None:
        served = engine(stub, chat, transport, concurrency=3)
        replies = await asyncio.gather(*(served.generate(ask(i)) for i in range(9)))
        assert len({reply.token_ids for reply in replies}) == 9
        await served.close()

    stub.delay_s, stub.gathers = 0.05, 3
    asyncio.run(play())
    assert stub.at_once == 3


def test_no_two_installs_share_a_name_at_the_server(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    """vLLM takes adapters of one name for the same, also where the first was unloaded."""
    names: list[str] = []

    async def play() -> None:
        served, update = engine(stub, chat, transport), published(transport, 1)
        for _ in range(2):
            await served.install(update)
            names.extend(name for name in stub.adapters if name.startswith("alice"))
            await served.retire(update.version)
        await served.close()

    asyncio.run(play())
    assert len(set(names)) == 2
    assert not stub.adapters


def test_what_is_being_installed_when_the_engine_closes_is_unloaded(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    async def play() -> None:
        served = engine(stub, chat, transport)
        loading = asyncio.create_task(served.install(published(transport, 1)))
        while not stub.adapters:  # that of zeros comes first
            await asyncio.sleep(0)
        await served.close()
        await asyncio.gather(loading, return_exceptions=True)

    asyncio.run(play())
    assert not stub.adapters


def test_a_version_that_is_installed_again_while_it_retires_stays(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    update = published(transport, 0)

    async def play() -> None:
        playing = engine(stub, chat, transport)
        await playing.install(update)
        asked = asyncio.create_task(playing.generate(ask(0, update.version)))
        await asyncio.sleep(0)
        retiring = asyncio.create_task(playing.retire(update.version))
        await asyncio.sleep(0)
        await playing.install(update)
        await asyncio.gather(asked, retiring)
        assert (await playing.generate(ask(1, update.version))).version == update.version
        await playing.close()

    asyncio.run(play())


def test_beside_adapters_the_base_replies_through_zeros(
    stub: VLLMStub, chat: ChatTokenizer, transport: FilesTransport
) -> None:
    """vLLM's CPU kernels read the last slot for rows without an adapter."""

    async def play() -> None:
        served = engine(stub, chat, transport)
        await served.generate(ask())
        await served.install(published(transport, 1))
        reply = await served.generate(ask())
        assert reply.version is None
        await served.close()

    asyncio.run(play())
    first, second = (request["model"] for request in stub.asked)
    assert first == "base"
    assert second.startswith("base.")


def test_a_server_that_is_gone_ends_in_the_deadline(
    chat: ChatTokenizer, transport: FilesTransport
) -> None:
    async def play(url: str) -> None:
        served = VLLMEngine(HTTPLink(url), chat, SAMPLING, context_length=2048)
        with pytest.raises(DeadlineError, match=r"within 1\.2 s"):
            await served.generate(ask(deadline_s=1.2))
        await served.close()

    with vllm_stub() as stub:
        url = stub.url
    asyncio.run(play(url))


def test_settings_name_the_interpreter_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON, raising=False)
    with pytest.raises(ConfigError, match=PYTHON):
        _ = VLLMServerSettings(model="x").interpreter
    with pytest.raises(ConfigError, match="not an interpreter"):
        _ = VLLMServerSettings(model="x", python="/nowhere/python").interpreter
    with pytest.raises(ConfigError, match="port=70000"):
        VLLMServerSettings(model="x", port=70000)


def test_a_recipe_names_the_server_or_its_interpreter(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave out one"):
        ENGINE.convert({"kind": "vllm", "url": "http://h:1", "python": "p"}, "engine")
    with pytest.raises(ConfigError, match="give an address"):
        ENGINE.convert({"kind": "vllm", "url": "here"}, "engine")
