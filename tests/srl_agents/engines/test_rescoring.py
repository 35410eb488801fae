"""Scores of recorded replies equal those of the engine that sampled them, whatever its batches were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from srl_agents.engines.rescoring import Rescorer, SampledReply
from srl_agents.engines.transformers_engine import (
    Generation,
    GenerationRequest,
    SamplingSettings,
    TransformersEngine,
)
from srl_agents.models import random_model
from srl_agents.models.base_model import BaseModel
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


def requests(base: BaseModel) -> list[GenerationRequest]:
    texts = ["Reply.", "You are playing a game. " * 4, "rock", "paper scissors rock " * 6]
    return [
        GenerationRequest(
            prompt_ids=base.encode_prompt(text), adapter=adapter, key=(7, k, len(text))
        )
        for k, adapter in enumerate((None, "a", "b", "a"))
        for text in texts
    ]


def as_reply(request: GenerationRequest, generation: Generation) -> SampledReply:
    return SampledReply(
        prompt_ids=request.prompt_ids,
        token_ids=generation.token_ids,
        adapter=request.adapter,
        key=request.key,
    )


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_scores_are_those_of_the_engine(base: BaseModel, temperature: float) -> None:
    engine = TransformersEngine(
        base, SamplingSettings(temperature=temperature, max_new_tokens=MOST), max_batch_rows=3
    )
    asked = requests(base)
    replies = engine.generate(asked)
    scorer = Rescorer(engine)
    scored = scorer.score([as_reply(q, g) for q, g in zip(asked, replies, strict=True)])
    for reply, scores in zip(replies, scored, strict=True):
        assert scores.logprobs == pytest.approx(reply.logprobs, abs=1e-4)
        assert max(scores.misses) < 1e-5
        assert scorer.fault(reply.token_ids) == ""


def test_another_draw_misses_its_numbers(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=MOST))
    asked = requests(base)[:4]
    others = [
        GenerationRequest(prompt_ids=q.prompt_ids, adapter=q.adapter, key=(8, *q.key))
        for q in asked
    ]
    scored = Rescorer(engine).score(
        [as_reply(q, g) for q, g in zip(asked, engine.generate(others), strict=True)]
    )
    assert all(max(scores.misses) > 0.01 for scores in scored)


def test_another_adapter_gives_other_scores(base: BaseModel) -> None:
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=MOST))
    request = requests(base)[5]
    reply = engine.generate([request])[0]
    lent = SampledReply(
        prompt_ids=request.prompt_ids, token_ids=reply.token_ids, adapter="b", key=request.key
    )
    scored = Rescorer(engine).score([lent])[0]
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
