"""Whole copies of the weights behind the same methods: what moves, what must not, what a folder holds."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.rescoring import Rescorer, SampledReply
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.models.weights.full import FullWeights
from srl_agents.records import WeightVersion
from srl_envs.errors import ConfigError, ModelError

IDS = torch.tensor([[5, 9, 40, 41, 7]])


@pytest.fixture(params=["qwen3", "tied llama"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "qwen3":
        return random_model.build(tmp_path / "model")
    return random_model.build(tmp_path / "model", kind="llama", tied=True)


@pytest.fixture
def full(folder: Path) -> BaseModel:
    return BaseModel.load(folder, parameters="full", device="cpu")


def logits(base: BaseModel, ids: torch.Tensor = IDS) -> torch.Tensor:
    with torch.no_grad():
        return base.model(ids).logits.clone()


def disturb(base: BaseModel, name: str, seed: int = 3) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: v + 0.1 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


def add_disturbed(base: BaseModel, *names: str) -> None:
    for seed, name in enumerate(names):
        base.add_adapter(name, seed)
        disturb(base, name, seed)


def digest(base: BaseModel) -> str:
    with base.reference():
        tensors = [p.detach().numpy().tobytes() for p in base.model.get_base_model().parameters()]
    return hashlib.sha256(b"".join(tensors)).hexdigest()


def test_a_copy_is_the_base_until_it_moves_and_the_base_never_does(
    full: BaseModel, folder: Path
) -> None:
    before, expected = digest(full), logits(full)
    full.add_adapter("alice", 1)
    full.activate("alice")
    assert torch.equal(logits(full), expected)
    disturb(full, "alice")
    assert not torch.allclose(logits(full), expected)
    with full.reference():
        assert torch.equal(logits(full), expected)
    full.activate(None)
    assert torch.equal(logits(full), expected)
    assert digest(full) == before
    with torch.no_grad():
        plain = AutoModelForCausalLM.from_pretrained(folder).eval()(IDS).logits
    assert torch.equal(expected, plain)


def test_names_are_those_of_the_folder_and_tied_weights_are_one_tensor(
    full: BaseModel, folder: Path
) -> None:
    plain = AutoModelForCausalLM.from_pretrained(folder)
    full.add_adapter("alice", 1)
    assert full.trainable_parameters("alice").keys() == dict(plain.named_parameters()).keys()
    full.activate("alice")
    inner = full.model.get_base_model()
    head, embedding = inner.get_output_embeddings().weight, inner.get_input_embeddings().weight
    assert (head is embedding) == plain.config.tie_word_embeddings


def test_only_the_active_copy_is_trainable(full: BaseModel) -> None:
    add_disturbed(full, "alice", "bob")
    for active in ("alice", "bob", None, "bob"):
        full.activate(active)
        for name in ("alice", "bob"):
            flags = {p.requires_grad for p in full.trainable_parameters(name).values()}
            assert flags == {name == active}
    trainable = {id(p) for p in full.model.parameters() if p.requires_grad}
    assert trainable == {id(p) for p in full.trainable_parameters("bob").values()}


def test_gradients_land_on_the_copy_that_was_active(full: BaseModel) -> None:
    add_disturbed(full, "alice", "bob")
    full.activate("alice")
    full.model(IDS).logits.sum().backward()
    assert all(p.grad is not None for p in full.trainable_parameters("alice").values())
    assert all(p.grad is None for p in full.trainable_parameters("bob").values())
    with full.reference():
        assert all(p.grad is None for p in full.model.get_base_model().parameters())


def test_through_lends_a_copy_and_gives_back_what_was_there(full: BaseModel) -> None:
    add_disturbed(full, "alice", "bob")
    full.activate("alice")
    alice = logits(full)
    full.activate("bob")
    bob = logits(full)
    with full.through("alice"):
        assert torch.equal(logits(full), alice)
        with full.reference(), full.through("bob"):
            assert torch.equal(logits(full), bob)
        assert torch.equal(logits(full), alice)
    assert torch.equal(logits(full), bob)
    assert full.active == "bob"


def sampled(base: BaseModel, *rows: str | None) -> list[Generation]:
    """Replies of adapters, as they are now, of frozen versions and of the base."""
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=12))
    versions: dict[str | None, WeightVersion | None] = {None: None}
    for name in {row for row in rows if row is not None}:
        own = name in base.adapters
        versions[name] = base.freeze_adapter(name) if own else WeightVersion.parse(name)
    requests = [
        GenerationRequest(observation="rock " * k, version=versions[name], key=(k,))
        for k, name in enumerate(rows)
    ]
    return asyncio.run(engine.generate_together(requests))


def assert_same(one: list[Generation], other: list[Generation]) -> None:
    assert [g.token_ids for g in one] == [g.token_ids for g in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_sampling_a_mixed_batch_is_sampling_each_policy_alone(full: BaseModel) -> None:
    add_disturbed(full, "alice", "bob")
    rows = ("alice", None, "bob", "alice", "bob", None)
    mixed = sampled(full, *rows)
    for name in (None, "alice", "bob"):
        separate = sampled(full, *[name] * len(rows))
        of_name = [k for k, row in enumerate(rows) if row == name]
        assert_same([mixed[k] for k in of_name], [separate[k] for k in of_name])


def test_the_rescorer_scores_each_reply_by_its_own_copy(full: BaseModel) -> None:
    add_disturbed(full, "alice", "bob")
    rows = ("alice", None, "bob", "alice")
    replies = sampled(full, *rows)
    rescorer = Rescorer(TransformersEngine(full, SamplingSettings(max_new_tokens=12)))
    scores = rescorer.score(
        [
            SampledReply(
                prompt_ids=reply.prompt_ids, token_ids=reply.token_ids, adapter=name, key=(k,)
            )
            for k, (reply, name) in enumerate(zip(replies, rows, strict=True))
        ]
    )
    for score, reply in zip(scores, replies, strict=True):
        assert score.logprobs == pytest.approx(reply.logprobs, abs=1e-4)


def test_a_saved_copy_is_a_model_for_everybody(
    full: BaseModel, folder: Path, tmp_path: Path
) -> None:
    add_disturbed(full, "alice")
    full.activate("alice")
    expected = logits(full)
    full.save_adapter("alice", tmp_path / "alice")

    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "alice").eval()
    with torch.no_grad():
        assert torch.equal(theirs(IDS).logits, expected)
    assert theirs.config.tie_word_embeddings == full.model.config.tie_word_embeddings
    chat = [{"role": "user", "content": "rock"}]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "alice")
    assert tokenizer.apply_chat_template(chat, return_dict=False) == (
        full.tokenizer.apply_chat_template(chat, return_dict=False)
    )
    again = BaseModel.load(tmp_path / "alice", parameters="full", device="cpu")
    assert torch.equal(logits(again), expected)
    assert again.eos_token_ids == full.eos_token_ids

    full.load_adapter("copy", tmp_path / "alice")
    full.activate("copy")
    assert torch.equal(logits(full), expected)


def test_frozen_copies_stay_on_disk_until_a_batch_needs_them(folder: Path, tmp_path: Path) -> None:
    full = BaseModel.load(folder, parameters="full", device="cpu", frozen_in_memory=2)
    v1, v2, v3, v4 = names = [str(WeightVersion("writer", n, f"{n:016x}")) for n in range(4)]
    expected = {}
    for seed, name in enumerate(names):
        full.add_adapter("writer", 0)
        disturb(full, "writer", seed)
        full.activate("writer")
        expected[name] = logits(full)
        full.save_adapter("writer", tmp_path / name)
        full.remove_adapter("writer")
        full.load_frozen(name, tmp_path / name)
    weights = full._weights
    assert isinstance(weights, FullWeights)
    assert full.frozen == tuple(names)
    assert not weights.in_memory
    for name in (*names, v1, v3, v1):
        with full.through(name):
            assert torch.equal(logits(full), expected[name])
        assert len(weights.in_memory) <= 2
    assert weights.in_memory == (v3, v1)

    rows = [v1, v2, None, v3, v4, v1]
    mixed = sampled(full, *rows)
    for name in names:
        separate = sampled(full, *[name] * len(rows))
        of_name = [k for k, row in enumerate(rows) if row == name]
        assert_same([mixed[k] for k in of_name], [separate[k] for k in of_name])
        assert len(weights.in_memory) <= 2
    full.forget(v1)
    assert v1 not in (*full.frozen, *weights.in_memory)


def test_a_frozen_copy_does_not_learn(full: BaseModel, tmp_path: Path) -> None:
    add_disturbed(full, "alice")
    full.save_adapter("alice", tmp_path / "alice")
    full.load_frozen("old", tmp_path / "alice")
    for change in (
        lambda: full.activate("old"),
        lambda: full.trainable_parameters("old"),
        lambda: full.set_adapter_tensors("old", full.adapter_tensors("alice")),
    ):
        with pytest.raises(ConfigError, match="never learns"):
            change()
    with pytest.raises(ConfigError, match="taken"):
        full.load_frozen("alice", tmp_path / "alice")


def test_a_version_that_its_owner_overwrote_is_refused(full: BaseModel) -> None:
    add_disturbed(full, "alice")
    with full.through("alice"):
        before = logits(full)
    full.freeze("kept", full.adapter_tensors("alice"))
    full.freeze("shared", full.trainable_parameters("alice"))
    weights = full._weights
    assert isinstance(weights, FullWeights)
    key = next(iter(weights.tensors("alice")))
    assert weights.tensors("shared")[key].is_set_to(weights.tensors("alice")[key])
    with full.through("shared"):
        assert torch.equal(logits(full), before)

    disturb(full, "alice", 5)

    with full.through("kept"):
        assert torch.equal(logits(full), before)
    with pytest.raises(ModelError, match="Install the version again"), full.through("shared"):
        logits(full)


def test_folders_that_do_not_fit_are_refused(full: BaseModel, folder: Path, tmp_path: Path) -> None:
    small = random_model.build(tmp_path / "small", hidden=32)
    lora = BaseModel.load(folder, device="cpu")
    lora.add_adapter("alice", 1)
    lora.save_adapter("alice", tmp_path / "lora")
    for other in (small, tmp_path / "lora", tmp_path / "nowhere"):
        for load in (full.load_adapter, full.load_frozen):
            with pytest.raises(ModelError):
                load("alice", other)
    assert full.adapters == ()
    full.add_adapter("alice", 1)
    full.save_adapter("alice", tmp_path / "full")
    with pytest.raises(ModelError, match="adapter_model"):
        lora.load_adapter("bob", tmp_path / "full")


def test_what_cannot_be_is_refused_by_name(folder: Path) -> None:
    with pytest.raises(ConfigError, match="parameters='ful'"):
        BaseModel.load(folder, parameters="ful")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="autocast"):
        BaseModel.load(folder, parameters="full", dtype="bfloat16")
    with pytest.raises(ConfigError, match="frozen_in_memory=0"):
        BaseModel.load(folder, parameters="full", frozen_in_memory=0)
