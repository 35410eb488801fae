"""Sampling: exact tokens, honest log-probabilities, and randomness that belongs to the request."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from srl_agents.engines.token_choice import StopTexts, inverse_cdf, uniforms
from srl_agents.engines.transformers_engine import (
    GenerationRequest,
    SamplingSettings,
    TransformersEngine,
)
from srl_agents.models.base_model import BaseModel
from srl_envs.errors import ConfigError, MemoryLimitError, ModelError, UnknownPolicyError


def two_adapters(base: BaseModel) -> BaseModel:
    generator = torch.Generator().manual_seed(0)
    for name in ("alice", "bob"):
        base.add_adapter(name, seed=1)
        tensors = base.adapter_tensors(name)
        base.set_adapter_tensors(
            name, {k: 0.1 * torch.randn(v.shape, generator=generator) for k, v in tensors.items()}
        )
    return base


def requests(count: int, seed: int = 0) -> list[GenerationRequest]:
    rng = np.random.default_rng(seed)
    return [
        GenerationRequest(
            prompt_ids=tuple(int(i) for i in rng.integers(3, 300, size=int(rng.integers(4, 40)))),
            adapter=("alice", "bob", None)[i % 3],
            key=(seed, i),
        )
        for i in range(count)
    ]


def test_company_and_order_do_not_change_a_reply(base: BaseModel) -> None:
    two_adapters(base)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=12))
    asked = requests(9)
    together = engine.generate(asked)
    assert len({reply.token_ids for reply in together}) > 6
    backwards = engine.generate(asked[::-1])[::-1]
    alone = [engine.generate([request])[0] for request in asked]
    small = TransformersEngine(
        base, SamplingSettings(max_new_tokens=12), max_batch_rows=4, max_batch_tokens=100
    ).generate(asked)
    for a, b, c, d in zip(together, backwards, alone, small, strict=True):
        assert a.token_ids == b.token_ids == c.token_ids == d.token_ids
        assert a.logprobs == pytest.approx(c.logprobs, abs=1e-4)


def test_the_same_call_twice_is_bit_equal(base: BaseModel) -> None:
    two_adapters(base)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=12))
    assert engine.generate(requests(5)) == engine.generate(requests(5))


def test_sampling_leaves_the_active_adapter_and_the_global_generator_alone(
    base: BaseModel,
) -> None:
    two_adapters(base).activate("bob")
    state = torch.random.get_rng_state()
    TransformersEngine(base, SamplingSettings(max_new_tokens=3)).generate(requests(4))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert base.active == "bob"
    assert all(p.requires_grad for p in base.trainable_parameters("bob").values())


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("adapter", ["alice", None])
def test_logprobs_are_those_of_a_plain_forward(
    base: BaseModel, adapter: str | None, temperature: float
) -> None:
    two_adapters(base)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=8, temperature=temperature))
    for request in (replace(r, adapter=adapter) for r in requests(3)):
        reply = engine.generate([request])[0]
        base.activate(adapter)
        ids = torch.tensor([request.prompt_ids + reply.token_ids])
        with torch.no_grad():
            logprobs = (base.model(ids).logits.float() / temperature).log_softmax(-1)
        start = len(request.prompt_ids) - 1
        expected = [logprobs[0, start + t, token].item() for t, token in enumerate(reply.token_ids)]
        assert reply.logprobs == pytest.approx(expected, abs=1e-4)


def test_sampled_frequencies_follow_the_distribution(base: BaseModel) -> None:
    prompt, draws = (5, 9, 40), 4000
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=1), max_batch_rows=1000)
    asked = [GenerationRequest(prompt_ids=prompt, adapter=None, key=(7, i)) for i in range(draws)]
    seen = Counter(reply.token_ids[0] for reply in engine.generate(asked))
    with torch.no_grad():
        expected = base.model(torch.tensor([prompt])).logits[0, -1].softmax(-1).numpy()
    wanted = expected.astype(np.float64) * draws
    counts = np.array([seen[i] for i in range(len(expected))])
    common = wanted > 5
    chi2 = ((counts - wanted)[common] ** 2 / wanted[common]).sum()
    freedom = common.sum()
    assert freedom > 30
    assert chi2 < freedom + 4 * np.sqrt(2 * freedom)


def test_temperature_zero_is_greedy_and_reports_temperature_one(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(temperature=0.0, max_new_tokens=1))
    a, b = engine.generate(
        [GenerationRequest(prompt_ids=(5, 9, 40), adapter=None, key=(i,)) for i in (1, 2)]
    )
    with torch.no_grad():
        logprobs = base.model(torch.tensor([[5, 9, 40]])).logits[0, -1].log_softmax(-1)
    assert a.token_ids == b.token_ids == (int(logprobs.argmax()),)
    assert a.logprobs[0] == pytest.approx(logprobs.max().item(), abs=1e-5)


def force(base: BaseModel, token: int) -> None:
    """Make the model write `token` always."""
    with torch.no_grad():
        head = base.model.get_output_embeddings()
        head.weight.zero_()
        head.bias = torch.nn.Parameter(torch.zeros(head.weight.shape[0]))
        head.bias[token] = 50.0


def test_the_end_token_ends_a_reply_and_stays_in_it(base: BaseModel) -> None:
    end = base.tokenizer.eos_token_id
    force(base, end)
    reply = TransformersEngine(base, SamplingSettings()).generate(
        [GenerationRequest(prompt_ids=(5, 9), adapter=None, key=(1,))]
    )[0]
    assert reply.token_ids == (end,)
    assert reply.finish == "stop"


def test_limits_are_per_request(base: BaseModel) -> None:
    force(base, 70)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=6, stop=()))
    asked = [
        GenerationRequest(prompt_ids=(5, 9), adapter=None, key=(1,), max_new_tokens=n)
        for n in (1, 3, None, 99)
    ]
    replies = engine.generate(asked)
    assert [len(reply.token_ids) for reply in replies] == [1, 3, 6, 6]
    assert {reply.finish for reply in replies} == {"length"}


def test_a_stop_text_ends_a_reply(base: BaseModel) -> None:
    force(base, base.tokenizer.convert_tokens_to_ids("a"))
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=9, stop=("aaa",)))
    reply = engine.generate([GenerationRequest(prompt_ids=(97,), adapter=None, key=(1,))])[0]
    assert base.decode(reply.token_ids) == "aaa"
    assert reply.finish == "stop"


@pytest.mark.parametrize("stop", ["</action>", "é!", "é"])
def test_stop_texts_are_found_at_the_token_that_completes_them(base: BaseModel, stop: str) -> None:
    ids = base.tokenizer.encode(f"x {stop} y", add_special_tokens=False)
    stops = StopTexts(base.tokenizer, (stop, "never"))
    found = [n for n in range(1, len(ids) + 1) if stops.ended(ids[:n])]
    first = next(n for n in range(1, len(ids) + 1) if stop in base.tokenizer.decode(ids[:n]))
    assert found
    assert found[0] == first


def test_uniforms_belong_to_their_key() -> None:
    assert uniforms((1, 2), 4).tolist() == uniforms((1, 2), 9)[:4].tolist()
    assert uniforms((1, 2), 4).tolist() != uniforms((12,), 4).tolist()
    assert uniforms((2**80,), 1)[0] < 1


def test_inverse_cdf_never_picks_an_impossible_token() -> None:
    logprobs = torch.tensor([[-np.inf, np.log(0.25), np.log(0.75), -np.inf]]).float().repeat(4, 1)
    chosen = inverse_cdf(logprobs, torch.tensor([0.0, 0.2499, 0.2501, 1.0]))
    assert chosen.tolist() == [1, 1, 2, 2]


def test_mistakes_are_named(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings())
    with pytest.raises(ModelError, match="do not fit"):
        engine.generate([GenerationRequest(prompt_ids=(5,) * 1000, adapter=None, key=())])
    with pytest.raises(UnknownPolicyError, match="nobody"):
        engine.generate([GenerationRequest(prompt_ids=(5,), adapter="nobody", key=())])
    with pytest.raises(ConfigError, match="temperature"):
        SamplingSettings(temperature=-1.0)
    with pytest.raises(ConfigError, match="stop"):
        SamplingSettings(stop=("",))
    assert engine.generate([]) == []


def test_replies_that_do_not_fit_into_memory_say_what_to_lower(
    base: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_adapters(base)
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=4))
    inner = base.model.get_base_model().base_model
    monkeypatch.setattr(inner, "forward", lambda *_args, **_kwargs: torch.empty(2**50))
    with pytest.raises(
        MemoryLimitError, match=r"generation of 3 replies .*Lower rollout.batch_rows"
    ):
        engine.generate(requests(3))
