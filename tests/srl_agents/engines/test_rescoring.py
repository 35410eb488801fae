"""Scores of recorded replies equal those of the engine that sampled them, whatever its batches were."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.embedded.rescoring import Rescorer, SampledReply
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_envs.errors import ModelError

MOST = 12


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> BaseModel:
    folder: Path = random_model.build(tmp_path_factory.mktemp("model"), context=256)
    model = BaseModel.load(folder, lora_rank=2, lora_alpha=4)
    for name, seed in (("a", 1), ("b", 2)):
        model.add_adapter(name, seed)
        with torch.no_grad():
            for key, tensor in model.trainable_parameters(name).items():
                if "lora_B" in key:
                    tensor.fill_(0.05 * seed)
    return model


def requests(base: BaseModel, seed: int = 7) -> list[GenerationRequest]:
    texts = ["Reply.", "You are playing a game. " * 4, "rock", "paper scissors rock " * 6]
    versions = [None, base.freeze_adapter("a"), base.freeze_adapter("b"), base.freeze_adapter("a")]
    return [
        GenerationRequest(observation=text, version=version, key=(seed, k, len(text)))
        for k, version in enumerate(versions)
        for text in texts
    ]


def sampled(
    engine: TransformersEngine, asked: list[GenerationRequest]
) -> tuple[list[Generation], list[SampledReply]]:
    """Replies, and what an audit would have of them."""
    replies = asyncio.run(engine.generate_together(asked))
    records = [
        SampledReply(
            prompt_ids=reply.prompt_ids,
            token_ids=reply.token_ids,
            adapter=None if request.version is None else str(request.version),
            key=request.key,
        )
        for request, reply in zip(asked, replies, strict=True)
    ]
    return replies, records


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(temperature=0.0, max_new_tokens=MOST),
        SamplingSettings(temperature=0.7, max_new_tokens=MOST),
        SamplingSettings(max_new_tokens=MOST),
        SamplingSettings(max_new_tokens=MOST, top_k=5),
        SamplingSettings(max_new_tokens=MOST, top_p=0.8),
        SamplingSettings(max_new_tokens=MOST, min_p=0.1),
        SamplingSettings(max_new_tokens=MOST, temperature=1.3, top_k=20, top_p=0.9, min_p=0.02),
    ],
    ids=str,
)
def test_scores_are_those_of_the_engine(base: BaseModel, settings: SamplingSettings) -> None:
    engine = TransformersEngine(base, settings, max_batch_rows=3)
    replies, records = sampled(engine, requests(base))
    scorer = Rescorer(engine)
    for reply, scores in zip(replies, scorer.score(records), strict=True):
        assert scores.logprobs == pytest.approx(reply.logprobs, abs=1e-4)
        assert max(scores.misses) < 1e-5
        assert scorer.fault(reply.token_ids) == ""


def test_another_draw_misses_its_numbers(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=MOST))
    _, records = sampled(engine, requests(base, seed=8)[:4])
    lent = [replace(record, key=(7, *record.key[1:])) for record in records]
    assert all(max(scores.misses) > 0.01 for scores in Rescorer(engine).score(lent))


def test_a_token_that_the_filters_leave_out_misses(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=MOST))
    _, records = sampled(engine, requests(base))
    strict = TransformersEngine(base, SamplingSettings(max_new_tokens=MOST, top_k=1))
    scored = Rescorer(strict).score(records)
    assert min(min(scores.logprobs) for scores in scored) == -float("inf")
    for scores in scored:
        for logprob, miss in zip(scores.logprobs, scores.misses, strict=True):
            assert (miss > 0) == (logprob == -float("inf"))


def test_another_adapter_gives_other_scores(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=MOST))
    (reply,), (record,) = sampled(engine, requests(base)[5:6])
    scored = Rescorer(engine).score([replace(record, adapter="b")])[0]
    assert max(abs(x - y) for x, y in zip(scored.logprobs, reply.logprobs, strict=True)) > 0.05


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ((), "1 to 12 tokens, this one 0"),
        ((5,) * 13, "this one 13"),
        ((5, 400), "outside the vocabulary"),
        ((5, -1), "outside the vocabulary"),
        ((5, 2, 5), "goes on after it ended at token 1"),
        ((5, 6), "cut short"),
    ],
)
def test_tokens_that_no_reply_has_are_named(
    base: BaseModel, ids: tuple[int, ...], words: str
) -> None:
    scorer = Rescorer(TransformersEngine(base, SamplingSettings(max_new_tokens=MOST)))
    assert words in scorer.fault(ids)


def test_a_stop_text_ends_a_reply(base: BaseModel) -> None:
    scorer = Rescorer(TransformersEngine(base, SamplingSettings(max_new_tokens=64)))
    ids = tuple(base.tokenizer.encode("</action>"))
    assert scorer.fault(ids) == ""
    assert "goes on" in scorer.fault((*ids, *ids))


def test_replies_that_do_not_fit_the_context_are_refused(base: BaseModel) -> None:
    scorer = Rescorer(TransformersEngine(base, SamplingSettings(max_new_tokens=MOST)))
    assert not scorer.fits((5,) * 250)
    assert scorer.fits((5,) * 244)
    with pytest.raises(ModelError, match="258"):
        scorer.score(
            [SampledReply(prompt_ids=(5,) * 250, token_ids=(5,) * 8, adapter=None, key=(0,))]
        )
