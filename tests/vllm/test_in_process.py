"""vLLM in this process, on SmolLM2-135M; run it in vLLM's environment with SRL installed beside it."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.vllm.engine import ServedAdapters, VLLMEngine
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.process import VLLMProcess
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.digests import version_of
from srl_agents.models.prompt import Prompt, ThoughtSettings
from srl_agents.models.sources import catalog
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightUpdate
from srl_agents.testing import check_engine
from srl_agents.transports.files import FilesTransport
from tests.training_runs import train_run

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore"),  # vLLM's own imports warn
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="vLLM is not installed in this environment"
    ),
]
MODEL, CONTEXT = "smollm2-135m", 1024


class Kept:
    """A vLLM that stays when an engine on it is closed: loading it takes long."""

    def __init__(self, process: VLLMProcess) -> None:
        self._process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    async def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def process() -> Iterator[Kept]:
    settings = VLLMServerSettings(
        model=str(catalog.resolve(MODEL)), max_versions=4, max_running=4, max_length=CONTEXT,
        dtype="float32", cache_gib=1, compiled=False,
    )  # fmt: skip
    made = VLLMProcess(settings)
    yield Kept(made)
    asyncio.run(made.close())


@pytest.fixture(scope="module")
def base() -> BaseModel:
    base = BaseModel.load(MODEL, device="cpu")
    base.add_adapter("alice", 0)
    return base


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> FilesTransport:
    return FilesTransport(tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def updates(base: BaseModel, transport: FilesTransport) -> list[WeightUpdate]:
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


def engine(
    process: Any,
    base: BaseModel,
    transport: FilesTransport,
    updates: list[WeightUpdate],
    folder: Path,
    prompt: Prompt | None = None,
) -> VLLMEngine:
    base.save_adapter("alice", folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    return VLLMEngine(
        process,
        ChatTokenizer.load(catalog.resolve(MODEL), prompt),
        SamplingSettings(max_new_tokens=5),
        context_length=CONTEXT,
        adapters=ServedAdapters(config=config, tensors=updates[0].tensors),
        open_update=transport.open,
        max_versions=4,
    )


def test_thoughts_and_log_probabilities_are_those_of_a_forward_pass(
    process: Kept,
    base: BaseModel,
    transport: FilesTransport,
    updates: list[WeightUpdate],
    tmp_path: Path,
) -> None:
    prompt = Prompt(thoughts=ThoughtSettings(budget=8))

    async def play() -> list[Generation]:
        served = engine(process, base, transport, updates, tmp_path, prompt)
        for update in updates:
            await served.install(update)
        versions = (None, updates[0].version, updates[1].version)
        asked = [
            GenerationRequest(observation=f"Name a number above {n}.", version=v, key=(3, n))
            for n in range(4)
            for v in versions
        ]
        given = list(await asyncio.gather(*(served.generate(request) for request in asked)))
        speed = await served.take_speed()
        assert speed.first_token.count >= len(asked)
        assert 0 < speed.between_tokens.quantile(0.5) <= speed.between_tokens.quantile(0.99)
        await served.close()
        return given

    for reply in asyncio.run(play()):
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        name = None if reply.version is None else str(reply.version)
        with torch.no_grad(), base.through(name):
            logits = base.model(input_ids=ids).logits[0, len(reply.prompt_ids) - 1 : -1].float()
        plain = torch.log_softmax(logits, dim=-1).gather(1, ids[0, len(reply.prompt_ids) :, None])
        own = reply.thought_tokens - reply.forced_tokens
        gaps = (plain[:, 0] - torch.tensor(reply.logprobs)).abs()
        drawn = torch.cat([gaps[:own], gaps[reply.thought_tokens :]])
        assert drawn.max() < 1e-4
        assert 1 <= own <= 8
        assert reply.forced_tokens > 0 or reply.finish == "stop"


def test_it_keeps_what_every_engine_promises(
    process: Kept,
    base: BaseModel,
    transport: FilesTransport,
    updates: list[WeightUpdate],
    tmp_path: Path,
) -> None:
    part = dict(list(base.adapter_tensors("alice").items())[:-1])
    broken = transport.publish(version_of("alice", 3, part), part)
    check_engine(
        lambda: engine(process, base, transport, updates, tmp_path),
        updates=updates,
        broken=[broken],
        requests=6,
        patience_s=300,
    )


RECIPE = """
name: within
model: smollm2-135m
env: math_duel-v0
env_options: {difficulty: 1, problems: 1, max_retries: 0}
learners: [alice]
updates: 1
prompt:
  examples:
    - {observation: "Problem: 2 + 3 = ?", reply: "<action>5; 1</action>"}
    - {observation: "Problem: 30 - 12 = ?", reply: "<action>18; 3</action>"}
lora: {rank: 8, alpha: 16}
rollout: {start_states: 4, group_size: 4, max_new_tokens: 14, order: free, batch_rows: 8}
opponents: {mirror: 0, live: 0, past: 0, bots: {random: 1}}
training: {learning_rate: 0.0001}
engine: {kind: vllm_process, max_versions: 4, max_length: 1024, cache_gib: 1, compiled: false}
transport: {kind: files}
evaluation: {every: 0, final_pairs: 1, bots: []}
"""


def test_a_recipe_trains_an_update_on_it(tmp_path: Path) -> None:
    path = tmp_path / "within.yaml"
    path.write_text(RECIPE)
    training = train_run(load(LeagueRecipe, path), tmp_path / "run")
    (record,) = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert record["run"]["void"] == 0
    assert record["learners"]["alice"]["sampler_kl"] < 0.05
    assert training.parts.league.versions["alice"].number == 1
    assert (tmp_path / "run" / "adapters" / "alice").is_dir()
