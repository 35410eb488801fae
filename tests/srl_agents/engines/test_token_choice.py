"""How a token is drawn: filters, uniforms, and the texts that end a reply."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.token_choice import (
    StopTexts,
    distribution,
    draw,
    inverse_cdf,
    uniforms,
)
from srl_agents.models.base_model import BaseModel
from srl_envs.errors import ConfigError

FILTERS = st.builds(
    SamplingSettings,
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 50]),
    top_p=st.sampled_from([0.05, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1, 1.0]),
)


def some_logits(seed: int, rows: int = 4, vocabulary: int = 40) -> torch.Tensor:
    return 3 * torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=60, deadline=None)
@given(sampling=FILTERS, seed=st.integers(0, 99))
def test_the_filters_are_those_of_transformers(sampling: SamplingSettings, seed: int) -> None:
    logits = some_logits(seed)
    theirs = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        theirs.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        theirs.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        theirs.append(MinPLogitsWarper(sampling.min_p))
    expected = theirs(None, logits).log_softmax(-1)
    torch.testing.assert_close(distribution(logits, sampling), expected)


@settings(max_examples=60, deadline=None)
@given(sampling=FILTERS, seed=st.integers(0, 99))
def test_only_what_the_filters_leave_is_drawn(sampling: SamplingSettings, seed: int) -> None:
    logits = some_logits(seed, rows=1).repeat(64, 1)
    tokens, logprobs = draw(logits, torch.rand(64), sampling)
    expected = distribution(logits, sampling).gather(1, tokens[:, None])[:, 0]
    assert logprobs.isfinite().all()
    assert torch.equal(logprobs, expected)


def test_a_logit_that_is_nan_shows() -> None:
    logits = some_logits(0)
    logits[1, 7] = float("nan")
    logits[2, 7] = float("inf")
    for sampling in (
        SamplingSettings(),
        SamplingSettings(top_k=3),
        SamplingSettings(temperature=0),
    ):
        _, logprobs = draw(logits, torch.full((4,), 0.5), sampling)
        assert logprobs.isnan().tolist() == [False, True, True, False]


def test_uniforms_belong_to_their_key() -> None:
    assert uniforms((1, 2), 4).tolist() == uniforms((1, 2), 9)[:4].tolist()
    assert uniforms((1, 2), 4).tolist() != uniforms((12,), 4).tolist()
    assert uniforms((2**80,), 1)[0] < 1


def test_inverse_cdf_never_picks_an_impossible_token() -> None:
    logprobs = torch.tensor([[-np.inf, np.log(0.25), np.log(0.75), -np.inf]]).float().repeat(4, 1)
    chosen = inverse_cdf(logprobs, torch.tensor([0.0, 0.2499, 0.2501, 1.0]))
    assert chosen.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("stop", ["</action>", "é!", "é"])
def test_stop_texts_are_found_at_the_token_that_completes_them(base: BaseModel, stop: str) -> None:
    ids = base.tokenizer.encode(f"x {stop} y", add_special_tokens=False)
    stops = StopTexts(base.tokenizer, (stop, "never"))
    found = [n for n in range(1, len(ids) + 1) if stops.ended(ids[:n])]
    first = next(n for n in range(1, len(ids) + 1) if stop in base.tokenizer.decode(ids[:n]))
    assert found
    assert found[0] == first


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -1.0), ("top_k", -1), ("top_p", 0.0), ("min_p", 2.0), ("stop", ("",))],
)
def test_settings_that_make_no_sense_are_named(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        SamplingSettings(**{name: value})  # type: ignore[arg-type]
