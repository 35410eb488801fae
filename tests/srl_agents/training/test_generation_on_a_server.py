"""Generation beside training on a vLLM server: versions arrive by files, and every turn names its writer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from srl_agents.agents import Policy, ScriptedPolicy
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.vllm.engine import ServedAdapters, VLLMEngine
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.digests import version_of
from srl_agents.models.sources.catalog import TINY
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import MatchSpec, WeightUpdate
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder
from srl_agents.training.ahead.player import Generator
from srl_agents.transports.files import FilesTransport
from tests.training_runs import train_run
from tests.vllm_fake import VLLMFake
from tests.vllm_stub import VLLMStub, vllm_stub


@pytest.fixture
def stub() -> Iterator[VLLMStub]:
    with vllm_stub() as running:
        yield running


def published(transport: FilesTransport, number: int) -> WeightUpdate:
    tensors = {"a": torch.full((2, 3), float(number))}
    return transport.publish(version_of("alice", number, tensors), tensors)


def order(number: int, update: WeightUpdate) -> MatchOrder:
    """Five matches of a version of alice against a bot."""
    specs = [
        MatchSpec(
            env_id="connect_four-v0", seed=10 * number + k, split="train",
            seats=(str(update.version), "bot:random"), schedule="train/alice", number=k,
        )
        for k in range(5)
    ]  # fmt: skip
    return MatchOrder(
        number=number,
        specs=tuple(specs),
        players={str(update.version): "alice"},
        updates=(update,),
    )


@pytest.mark.slow
def test_a_version_that_arrives_writes_the_next_turns_of_matches_in_flight(
    stub: VLLMStub, tmp_path: Path
) -> None:
    """The second order comes with the sixth request; matches of the first end under both versions."""
    buffer, transport = MatchBuffer(tmp_path / "b", 2), FilesTransport(tmp_path / "v")
    old, new = (published(transport, number) for number in (1, 2))
    buffer.order(order(1, old), learned=0)
    reply, first = stub.generate, threading.Lock()

    def generate(request: dict[str, Any]) -> tuple[int, Any]:
        if len(stub.asked) >= 6 and first.acquire(blocking=False):  # two requests may see six
            buffer.order(order(2, new), learned=0)
            until = time.monotonic() + 20
            while not any(name.startswith(str(new.version)) for name in stub.adapters):
                assert time.monotonic() < until
                time.sleep(0.01)
        return reply(request)

    stub.generate = generate  # type: ignore[method-assign]

    async def play() -> None:
        engine = VLLMEngine(
            HTTPLink(stub.url), ChatTokenizer.load(TINY), SamplingSettings(max_new_tokens=4),
            context_length=2048, open_update=transport.open,
            adapters=ServedAdapters(config={"r": 2}, tensors=old.tensors),
        )  # fmt: skip
        policies: dict[str, Policy] = {"bot:random": ScriptedPolicy("random")}
        rollouts = Rollouts(policies, root_seed=7, order="free", concurrency=2)
        generator = Generator(
            buffer, lambda _: engine, rollouts, policies=policies, drawn_as={}, switch=True
        )
        await generator.run(until=lambda: True)
        rollouts.close()
        await engine.close()

    asyncio.run(play())
    turns_by_version: Counter[str] = Counter()
    mixed = []
    for number in (1, 2):
        played = buffer.played(number)
        played.refresh()
        assert len(played.episodes) == 5
        for episode in played.episodes.values():
            writers = [turn.version for turn in episode.trajectories[0].turns]
            turns_by_version.update(writers)
            mixed += [writers] * (len(set(writers)) > 1)
            assert writers == sorted(writers)
            assert number == 1 or set(writers) == {str(new.version)}
    assert mixed
    assert turns_by_version == Counter(
        request["model"].rpartition(".")[0] for request in stub.asked
    )


RECIPE = """
name: served-ahead
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 4
learners: [alice, bob]
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 3, max_new_tokens: 8, order: free}
opponents: {mirror: 0, live: 1, past: 1}
training: {learning_rate: 0.003}
credit: {importance_cap: 2.0}
asynchronous: {ahead: 1, max_staleness: 1, in_flight: switch}
transport: {kind: files}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 4
"""


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_trains_while_the_matches_of_later_updates_are_played_on_a_server(
    tmp_path: Path,
) -> None:
    """The server has the run's base, as it proves, and writes moves of the game for the learners."""
    stub = VLLMFake(base=BaseModel.load(TINY, lora_rank=2, lora_alpha=4))
    chat = stub.base.chat
    moves = [list(chat.encode_reply(f"<action>{column}</action>")) for column in (1, 2, 3, 4)]
    reply = stub.generate

    def generate(request: dict[str, Any]) -> tuple[int, Any]:
        if "seed" in request["sampling_params"] and not request["model"].startswith("base"):
            request["sampling_params"]["max_tokens"] = 1
        status, answer = reply(request)
        if request["model"].startswith("base") or "prompt_logprobs" in answer:
            return status, answer
        choice = answer["choices"][0]
        tokens = moves[request["sampling_params"]["seed"] % 4]
        choice["token_ids"] = tokens
        choice["logprobs"]["content"] = [{"token_id": t, "logprob": -0.5} for t in tokens]
        return status, answer

    stub.generate, stub.delay_s = generate, 0.01  # type: ignore[method-assign]
    path = tmp_path / "r.yaml"
    path.write_text(RECIPE)
    run = tmp_path / "run"
    with vllm_stub(stub):
        train_run(load(LeagueRecipe, path, [f"engine={{kind: vllm, url: '{stub.url}'}}"]), run)
    records = read_lines(run / "metrics.jsonl")
    assert [record["update"] for record in records] == [1, 2, 3, 4]
    for record in records:
        for values in record["learners"].values():
            assert values.get("rows_too_old", 0) == 0
            assert values.get("version_lag/max", 0) <= 1
    assert sum(values.get("rows_lag:1", 0) for r in records for values in r["learners"].values())
    assert sum(record["run"]["overlap_s"] for record in records) > 0
    asked = {request["model"].partition("-")[0] for request in stub.asked}
    assert {"alice@0", "alice@1", "bob@0", "bob@1"} <= asked
