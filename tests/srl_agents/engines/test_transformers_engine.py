"""The embedded engine: exact tokens, honest log-probabilities, randomness that belongs to the request."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import (
    Generation,
    GenerationRequest,
    RepeatableEngine,
    SamplingSettings,
)
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.sources import random_model
from srl_agents.records import WeightUpdate, WeightVersion
from srl_agents.testing import check_engine
from srl_agents.transports.shared import SharedTransport
from srl_envs.errors import (
    ConfigError,
    DeadlineError,
    MemoryLimitError,
    ModelError,
    UnknownVersionError,
)

WORDS = ("rock", "paper", "scissors", "You are playing a game.", "Reply with one move.")


def disturb(base: BaseModel, name: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    tensors = base.adapter_tensors(name)
    base.set_adapter_tensors(
        name, {k: 0.1 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
    )


def two_versions(base: BaseModel) -> tuple[WeightVersion, WeightVersion]:
    for seed, name in enumerate(("alice", "bob")):
        base.add_adapter(name, seed)
        disturb(base, name, seed)
    return base.freeze_adapter("alice"), base.freeze_adapter("bob")


def requests(
    versions: Sequence[WeightVersion | None], count: int, seed: int = 0
) -> list[GenerationRequest]:
    rng = np.random.default_rng(seed)
    return [
        GenerationRequest(
            observation=" ".join(rng.choice(WORDS, size=int(rng.integers(1, 12)))),
            version=versions[i % len(versions)],
            key=(seed, i),
        )
        for i in range(count)
    ]


def together(engine: RepeatableEngine, asked: Sequence[GenerationRequest]) -> list[Generation]:
    return asyncio.run(engine.generate_together(asked))


def at_once(engine: TransformersEngine, asked: Sequence[GenerationRequest]) -> list[Generation]:
    async def gather() -> list[Generation]:
        return await asyncio.gather(*map(engine.generate, asked))

    return asyncio.run(gather())


def assert_same(one: Sequence[Generation], other: Sequence[Generation]) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.token_ids == b.token_ids
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


def test_company_order_and_history_do_not_change_a_reply(base: BaseModel) -> None:
    asked = requests((*two_versions(base), None), 9)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=12))
    replies = together(engine, asked)
    assert len({reply.token_ids for reply in replies}) > 6
    small = TransformersEngine(base, SamplingSettings(max_new_tokens=12), max_batch_rows=2)
    assert_same(together(engine, asked[::-1])[::-1], replies)
    assert_same([together(engine, [request])[0] for request in asked], replies)
    assert_same(together(small, asked), replies)
    assert_same(at_once(engine, asked), replies)
    warm = at_once(engine, asked)
    assert_same(warm, replies)
    assert all(reply.cached_tokens >= len(reply.prompt_ids) - 2 for reply in warm)


def test_equal_sequences_get_bit_equal_replies_whatever_was_played(base: BaseModel) -> None:
    asked = requests((*two_versions(base), None), 12)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=12), max_batch_rows=5)
    first = together(engine, asked)
    at_once(engine, requests((None,), 7, seed=3))
    together(engine, asked[4:])
    assert together(engine, asked) == first


def test_sampling_changes_neither_the_trainers_model_nor_the_global_generator(
    base: BaseModel,
) -> None:
    asked = requests(two_versions(base), 4)
    base.activate("bob")
    base.model.train()
    state = torch.random.get_rng_state()
    together(TransformersEngine(base, SamplingSettings(max_new_tokens=3)), asked)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert base.active == "bob"
    assert base.model.training
    assert all(p.requires_grad for p in base.trainable_parameters("bob").values())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("own", [True, False])
def test_logprobs_are_those_of_a_plain_forward(
    base: BaseModel, own: bool, temperature: float
) -> None:
    version = two_versions(base)[0] if own else None
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=8, temperature=temperature))
    base.activate("alice" if own else None)
    for reply in together(engine, requests((version,), 3)):
        ids = torch.tensor([reply.prompt_ids + reply.token_ids])
        with torch.no_grad():
            logprobs = (base.model(ids).logits.float() / temperature).log_softmax(-1)
        start = len(reply.prompt_ids) - 1
        expected = [logprobs[0, start + t, token].item() for t, token in enumerate(reply.token_ids)]
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_sampled_frequencies_follow_the_distribution(base: BaseModel) -> None:
    draws = 4000
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=1), max_batch_rows=1000)
    asked = [GenerationRequest(observation="rock", version=None, key=(7, i)) for i in range(draws)]
    replies = together(engine, asked)
    seen = Counter(reply.token_ids[0] for reply in replies)
    with torch.no_grad():
        logits = base.model(torch.tensor([replies[0].prompt_ids])).logits[0, -1]
    wanted = logits.softmax(-1).numpy().astype(np.float64) * draws
    counts = np.array([seen[i] for i in range(len(wanted))])
    common = wanted > 5
    chi2 = ((counts - wanted)[common] ** 2 / wanted[common]).sum()
    freedom = common.sum()
    assert freedom > 10
    assert chi2 < freedom + 4 * np.sqrt(2 * freedom)


def test_temperature_zero_is_greedy_and_reports_temperature_one(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(temperature=0.0, max_new_tokens=1))
    asked = [GenerationRequest(observation="rock", version=None, key=(i,)) for i in (1, 2)]
    a, b = together(engine, asked)
    with torch.no_grad():
        logprobs = base.model(torch.tensor([a.prompt_ids])).logits[0, -1].log_softmax(-1)
    assert a.token_ids == b.token_ids == (int(logprobs.argmax()),)
    assert a.logprobs[0] == pytest.approx(logprobs.max().item(), abs=1e-5)


def always(folder: Path, text: str) -> BaseModel:
    """A model that writes one token always."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        head = model.get_output_embeddings()
        head.weight.zero_()
        head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
        head.bias[tokenizer.convert_tokens_to_ids(text)] = 50.0
    return BaseModel("always", model, ChatTokenizer(tokenizer), lora_rank=2, lora_alpha=4)


ASK = GenerationRequest(observation="rock", version=None, key=(1,))


def test_the_end_token_ends_a_reply_and_stays_in_it(model_folder: Path) -> None:
    base = always(model_folder, random_model.END)
    (reply,) = together(TransformersEngine(base, SamplingSettings()), [ASK])
    assert reply.token_ids == (base.tokenizer.eos_token_id,)
    assert (reply.text, reply.finish) == ("", "stop")


def test_settings_are_per_request(model_folder: Path) -> None:
    engine = TransformersEngine(
        always(model_folder, "a"), SamplingSettings(max_new_tokens=6, stop=())
    )
    asked = [
        replace(ASK, sampling=SamplingSettings(max_new_tokens=n, stop=stop))
        for n, stop in ((1, ()), (3, ()), (9, ("aaaa",)))
    ]
    replies = together(engine, [*asked, ASK])
    assert [reply.text for reply in replies] == ["a", "aaa", "aaaa", "aaaaaa"]
    assert [reply.finish for reply in replies] == ["length", "length", "stop", "length"]


@pytest.mark.slow
def test_the_conformance_kit_passes(base: BaseModel) -> None:
    base.add_adapter("alice", 1)
    transport = SharedTransport()
    updates = []
    for number in range(3):
        disturb(base, "alice", number)
        version = base.freeze_adapter("alice", number)
        base.forget(str(version))
        updates.append(transport.publish(version, base.adapter_tensors("alice")))
    check_engine(
        lambda: TransformersEngine(
            base, SamplingSettings(max_new_tokens=8), open_update=transport.open, max_batch_rows=4
        ),
        updates=updates,
    )


def test_a_version_that_is_not_installed_is_refused(base: BaseModel) -> None:
    version, _ = two_versions(base)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=2))
    base.forget(str(version))
    with pytest.raises(UnknownVersionError, match="bob@0"):
        together(engine, [replace(ASK, version=version)])
    with pytest.raises(ConfigError, match="open_update"):
        asyncio.run(
            engine.install(SharedTransport().publish(version, base.adapter_tensors("alice")))
        )
    assert together(engine, []) == []


def test_broken_weights_are_named_and_harm_no_other_version(base: BaseModel) -> None:
    base.add_adapter("alice", 1)
    base.set_adapter_tensors(
        "alice", {k: v * float("nan") for k, v in base.adapter_tensors("alice").items()}
    )
    version = base.freeze_adapter("alice")
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=4))

    async def both() -> list[Generation | BaseException]:
        asked = (ASK, replace(ASK, version=version), replace(ASK, key=(2,)))
        return await asyncio.gather(*map(engine.generate, asked), return_exceptions=True)

    one, broken, other = asyncio.run(both())
    assert isinstance(broken, ModelError)
    assert "alice@0" in str(broken)
    assert "not numbers" in str(broken)
    assert isinstance(one, Generation)
    assert isinstance(other, Generation)


def test_a_reply_that_is_late_or_cancelled_gives_its_place_away(base: BaseModel) -> None:
    engine = TransformersEngine(
        base, SamplingSettings(max_new_tokens=400, stop=(), temperature=0.0), max_batch_rows=1
    )
    base.eos_token_ids = frozenset()

    async def play() -> Generation:
        slow = asyncio.create_task(engine.generate(ASK))
        with pytest.raises(DeadlineError, match=r"within 0\.02 s"):
            await engine.generate(replace(ASK, deadline_s=0.02))
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        return await engine.generate(replace(ASK, sampling=SamplingSettings(max_new_tokens=2)))

    assert len(asyncio.run(play()).token_ids) == 2


def test_a_batch_that_is_cancelled_ends_early(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails where Ctrl-C, or closing the engine, waits until abandoned replies are whole."""
    sampling = SamplingSettings(max_new_tokens=400, stop=(), temperature=0.0)
    engine = TransformersEngine(base, sampling)
    base.eos_token_ids = frozenset()
    steps: list[int] = []
    logits = engine._model.logits

    def counted(*arguments: Any) -> torch.Tensor:
        steps.append(len(steps))
        return logits(*arguments)

    monkeypatch.setattr(engine._model, "logits", counted)

    async def play() -> None:
        batch = asyncio.create_task(engine.generate_together([ASK]))
        while not steps:
            await asyncio.sleep(0.001)
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        await engine.close()

    asyncio.run(play())
    assert 0 < len(steps) < 200


def test_replies_that_do_not_fit_into_memory_say_what_to_lower(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=4))
    monkeypatch.setattr(engine._model, "logits", lambda *_args: torch.empty(2**50))
    for ask in (together, at_once):
        with pytest.raises(MemoryLimitError, match=r"generation with .*Lower rollout.batch_rows"):
            ask(engine, [ASK])


def test_an_install_that_hangs_ends_with_its_deadline(base: BaseModel) -> None:
    opened = threading.Event()
    version = WeightVersion("alice", 9, "0" * 16)

    def hangs(_: WeightUpdate) -> dict[str, torch.Tensor]:
        opened.wait(30)
        raise ModelError("too late")

    engine = TransformersEngine(
        base, SamplingSettings(), open_update=hangs, control_deadline_s=0.05
    )
    try:
        with pytest.raises(DeadlineError, match="installing alice@9"):
            asyncio.run(engine.install(WeightUpdate(version=version, tensors=(), handle="")))
    finally:
        opened.set()
    assert str(version) not in base.frozen


def test_a_loop_that_hangs_is_noticed_by_its_callers(
    base: BaseModel,
) -> None:
    free = threading.Event()
    engine = TransformersEngine(base, SamplingSettings(), control_deadline_s=0.05)
    engine._thread.submit(lambda: free.wait(30))
    try:
        for work in (engine.sleep, engine.wake, engine.close):
            with pytest.raises(DeadlineError, match=f"{work.__name__} on the engine"):
                asyncio.run(work())
    finally:
        free.set()
