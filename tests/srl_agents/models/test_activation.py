"""Adapters that act from the reply on: PEFT's own numbers, prompts read once, refusals by name."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.rescoring import Rescorer, SampledReply
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import random_model
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import TrainingBatch
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import ConfigError, ModelError
from tests.srl_agents.trainers.conftest import sample_batch

CLOSE = 1e-5
RULES = "The rules of the game, which everybody reads, are long: " + "take one or two. " * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model") / "qwen3")


@pytest.fixture
def base(folder: Path) -> BaseModel:
    base = BaseModel.load(folder, lora_rank=4, lora_activation="reply", device="cpu")
    for seed, name in enumerate(("alice", "bob")):
        base.add_adapter(name, seed)
        drawn = torch.Generator().manual_seed(seed)
        tensors = {
            key: tensor + 0.2 * torch.randn(tensor.shape, generator=drawn)
            for key, tensor in base.adapter_tensors(name).items()
        }
        base.set_adapter_tensors(name, tensors)
    return base


def replies(base: BaseModel, **decoding: Any) -> list[Generation]:
    """Of both adapters and the base, to two turns of one match."""
    engine = TransformersEngine(
        base, SamplingSettings(max_new_tokens=8, stop=()), decoding=DecodingRules(**decoding)
    )
    versions = [base.freeze_adapter("alice"), base.freeze_adapter("bob"), None]

    async def ask() -> list[Generation]:
        replied = []
        for turn in range(2):
            for seat, version in enumerate(versions):
                request = GenerationRequest(
                    observation=RULES + "Turn. " * turn, version=version, key=(turn, seat)
                )
                replied.append(await engine.generate(request))
        await engine.close()
        return replied

    return asyncio.run(ask())


def peft_logprobs(folder: Path, saved: Path, reply: Generation) -> torch.Tensor:
    """(T,) by PEFT's own activated LoRA, loaded from what was saved."""
    with quiet_libraries():
        model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), saved)
    model.eval()
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0].float()
    logps = torch.log_softmax(logits[len(reply.prompt_ids) - 1 : -1], dim=-1)
    return logps.gather(1, torch.tensor(reply.token_ids)[:, None])[:, 0]


@pytest.mark.parametrize("share", [True, False])
def test_replies_have_the_logprobs_of_pefts_activated_lora(
    base: BaseModel, folder: Path, tmp_path: Path, share: bool
) -> None:
    for reply in replies(base, share_prefixes=share):
        if reply.version is None:
            continue
        base.save_adapter(reply.version.learner, tmp_path / reply.version.learner)
        expected = peft_logprobs(folder, tmp_path / reply.version.learner, reply)
        assert (torch.tensor(reply.logprobs) - expected).abs().max() < CLOSE


def test_a_prompt_is_computed_once_for_all_adapters_and_the_base(base: BaseModel) -> None:
    first, *others = replies(base)[:3]
    assert first.cached_tokens == 0
    own = base.activated_tokens
    assert [len(r.prompt_ids) - r.cached_tokens for r in others] == [own, own]


def test_adapters_say_different_things(base: BaseModel) -> None:
    assert len({reply.token_ids for reply in replies(base)[:3]}) == 3


def test_forgetting_a_version_keeps_what_the_base_read(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=4, stop=()))
    alice, bob = base.freeze_adapter("alice"), base.freeze_adapter("bob")

    async def ask() -> Generation:
        request = GenerationRequest(observation=RULES, version=alice, key=(0,))
        await engine.generate(request)
        await engine.retire(alice)
        replied = await engine.generate(replace(request, version=bob))
        await engine.close()
        return replied

    replied = asyncio.run(ask())
    assert len(replied.prompt_ids) - replied.cached_tokens == base.activated_tokens


def test_rescoring_agrees_with_sampling(base: BaseModel) -> None:
    replied = replies(base)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=8, stop=()))
    scored = Rescorer(engine).score(
        [
            SampledReply(
                prompt_ids=r.prompt_ids,
                token_ids=r.token_ids,
                adapter=None if r.version is None else str(r.version),
                key=(0,),
            )
            for r in replied
        ]
    )
    asyncio.run(engine.close())
    for one, other in zip(replied, scored, strict=True):
        assert max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True)) < 2e-5


def gradients(base: BaseModel, batch: TrainingBatch, **settings: Any) -> dict[str, torch.Tensor]:
    chosen = GRPOSettings(optimizer="adamw_torch", **settings)
    learner = GRPOLearner("alice", base, chosen, temperature=1.0, seed=0)
    learner.compute_gradients(batch)
    return {key: gradient.clone() for key, gradient in learner.gradients.items()}


@pytest.mark.parametrize("share", [True, False])
def test_the_trainer_reads_prompts_with_the_base(base: BaseModel, share: bool) -> None:
    batch = sample_batch(base, "alice", rows=5)
    settings = GRPOSettings(optimizer="adamw_torch", share_prefixes=share, micro_batch_rows=3)
    learner = GRPOLearner("alice", base, settings, temperature=1.0, seed=0)
    metrics = learner.compute_gradients(batch)
    assert metrics["sampler_kl"] < CLOSE


@pytest.mark.slow
def test_shared_prefixes_change_no_gradient(base: BaseModel) -> None:
    batch = sample_batch(base, "alice", rows=5)
    plain, shared = (gradients(base, batch, share_prefixes=share) for share in (False, True))
    for key, gradient in plain.items():
        assert torch.allclose(gradient, shared[key], atol=1e-5), key


def test_an_adapter_is_read_as_it_was_made(base: BaseModel, folder: Path, tmp_path: Path) -> None:
    base.save_adapter("alice", tmp_path)
    plain = BaseModel.load(folder, lora_rank=4, lora_alpha=16, device="cpu")
    with pytest.raises(ModelError, match=r"lora\.activation"):
        plain.load_adapter("alice", tmp_path)
    base.load_adapter("carol", tmp_path)


def test_a_pass_that_does_not_say_where_is_refused(base: BaseModel) -> None:
    base.activate("alice")
    with pytest.raises(ModelError, match="where replies begin"):
        base.model(input_ids=torch.tensor([[1, 2, 3]]))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"parameters": "full"}, "parameters"),
        ({"engine": {"kind": "vllm"}}, "engine.kind"),
        ({"training": {"algorithm": "dpo"}}, "training.algorithm"),
        ({"training": {"gradient_checkpointing": True}}, "gradient_checkpointing"),
        ({"warm_start": {"bots": ["strong"]}}, "warm_start"),
    ],
)
def test_parts_that_act_on_whole_prompts_are_refused(
    change: dict[str, Any], named: str, tmp_path: Path
) -> None:
    recipe = {"name": "r", "model": "tiny", "env": "nim-v0", "lora": {"activation": "reply"}}
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(recipe))
    assert load(LeagueRecipe, path).lora.activation == "reply"
    path.write_text(json.dumps(recipe | change))
    with pytest.raises(ConfigError, match=named):
        load(LeagueRecipe, path)


def test_every_prompt_ends_with_the_opening_of_a_reply(base: BaseModel) -> None:
    opening = base.chat.reply_opening()
    assert len(opening) == base.activated_tokens > 0
    assert base.encode_prompt("any")[-len(opening) :] == opening
    assert math.isfinite(sum(opening))
