"""A real vLLM server with SmolLM2-135M; `make vllm` makes its environment and runs this."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.vllm_engine import ServedAdapters, VLLMEngine
from srl_agents.engines.vllm_http import HTTPLink
from srl_agents.engines.vllm_server import PYTHON, VLLMServer, VLLMServerSettings
from srl_agents.models import catalog
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.digests import version_of
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing import check_engine
from srl_agents.transports.files import FilesTransport

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter"),
]
MODEL = "smollm2-135m"
CONTEXT = 1024


@pytest.fixture(scope="module")
def base() -> BaseModel:
    base = BaseModel.load(MODEL)
    base.add_adapter("alice", 0)
    return base


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServer]:
    settings = VLLMServerSettings(
        model=str(catalog.resolve(MODEL)),
        max_versions=4,
        max_running=16,
        max_length=CONTEXT,
        dtype="float32",
        cache_gib=1,
        compiled=False,
    )
    server = VLLMServer(settings, tmp_path_factory.mktemp("vllm") / "server.log")
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> FilesTransport:
    return FilesTransport(tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def updates(base: BaseModel, transport: FilesTransport) -> list[WeightUpdate]:
    """Two versions of alice that say something else than the base."""
    drawn = torch.Generator().manual_seed(1)
    published = []
    for number in (1, 2):
        tensors = {
            key: tensor + 0.05 * torch.randn(tensor.shape, generator=drawn)
            for key, tensor in base.adapter_tensors("alice").items()
        }
        version = version_of("alice", number, tensors)
        base.freeze(str(version), tensors)
        published.append(transport.publish(version, tensors))
    return published


def config_of(base: BaseModel) -> dict[str, Any]:
    """What PEFT writes beside an adapter."""
    with tempfile.TemporaryDirectory() as folder:
        base.save_adapter("alice", Path(folder))
        config: dict[str, Any] = json.loads((Path(folder) / "adapter_config.json").read_text())
    return config


def engine(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> VLLMEngine:
    return VLLMEngine(
        HTTPLink(server),
        ChatTokenizer.load(catalog.resolve(MODEL)),
        SamplingSettings(max_new_tokens=12),
        context_length=CONTEXT,
        adapters=ServedAdapters(config=config_of(base), tensors=updates[0].tensors),
        open_update=transport.open,
        max_versions=4,
    )


def ask(number: int, version: WeightVersion | None, **settings: Any) -> GenerationRequest:
    text = f"Name a number above {number}."
    return GenerationRequest(observation=text, version=version, key=(3, number), **settings)


def test_it_keeps_what_every_engine_promises(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    part = dict(list(base.adapter_tensors("alice").items())[:-1])
    broken = transport.publish(version_of("alice", 3, part), part)
    check_engine(
        lambda: engine(server, base, transport, updates),
        updates=updates,
        broken=[broken],
        patience_s=300,
    )


def forced_logprobs(base: BaseModel, reply: Generation) -> torch.Tensor:
    """(T,) log-probabilities of the reply's tokens by one forward pass of the trainer's model."""
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    name = None if reply.version is None else str(reply.version)
    with torch.no_grad(), base.mixture([name]):
        logits = base.model(input_ids=ids).logits[0, len(reply.prompt_ids) - 1 : -1].float()
    tokens = ids[0, len(reply.prompt_ids) :, None]
    return torch.log_softmax(logits, dim=-1).gather(1, tokens)[:, 0]


def test_log_probabilities_are_those_of_a_forward_pass(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    async def play() -> list[Generation]:
        served = engine(server, base, transport, updates)
        for update in updates:
            await served.install(update)
        versions = [None, *(update.version for update in updates)]
        asked = [ask(i, versions[i % 3]) for i in range(12)]
        replies = await asyncio.gather(*map(served.generate, asked))
        for update in updates:
            await served.retire(update.version)
        await served.close()
        return replies

    for reply in asyncio.run(play()):
        told = torch.tensor(reply.logprobs)
        torch.testing.assert_close(told, forced_logprobs(base, reply), atol=1e-4, rtol=0)


def test_replies_in_flight_keep_their_version_while_another_comes_in(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    old, new = updates

    async def play() -> None:
        served = engine(server, base, transport, updates)
        await served.install(old)
        long = SamplingSettings(max_new_tokens=48, stop=())
        asked = [
            asyncio.create_task(served.generate(ask(i, old.version, sampling=long)))
            for i in range(8)
        ]
        await asyncio.sleep(0.2)
        await served.install(new)
        later = await served.generate(ask(99, new.version))
        replies = await asyncio.gather(*asked)
        assert {reply.version for reply in replies} == {old.version}
        assert later.version == new.version
        for reply in replies:
            told = torch.tensor(reply.logprobs)
            torch.testing.assert_close(told, forced_logprobs(base, reply), atol=1e-4, rtol=0)
        for update in updates:
            await served.retire(update.version)
        await served.close()

    asyncio.run(play())


def test_a_killed_server_comes_back_and_every_request_is_answered_under_its_seed(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    async def play() -> None:
        served = engine(server, base, transport, updates)
        await served.install(updates[0])
        asked = [ask(i, updates[0].version) for i in range(24)]
        before = await asyncio.gather(*map(served.generate, asked))
        starts = server.starts
        again = [asyncio.create_task(served.generate(request)) for request in asked]
        await asyncio.sleep(0.3)
        assert server.pid is not None
        os.killpg(server.pid, signal.SIGKILL)
        after = await asyncio.gather(*again)
        assert server.starts == starts + 1
        assert [r.token_ids for r in after] == [r.token_ids for r in before]
        await served.retire(updates[0].version)
        await served.close()

    asyncio.run(play())


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from srl_agents.engines.vllm_server import VLLMServer, VLLMServerSettings\n"
        f"server = VLLMServer(VLLMServerSettings(model='x'), Path({str(tmp_path / 'log')!r}))\n"
        "server._launch()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = json.loads(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
