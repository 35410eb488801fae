"""Rows that another learner wrote: their tokens, their weight, and their gradient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from srl_agents.credit.batches import exchanged_batch
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import ExchangedBatch, ForeignTurn, TrainingBatch, Turn, WeightVersion
from srl_agents.sharing.exchange_settings import ExchangeSettings
from srl_agents.trainers.foreign_replies import mean_logprobs, read_reply, weigh_for_step
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from tests.srl_agents.trainers.conftest import sample_batch

BOB = WeightVersion("bob", 3, "0123456789abcdef")
RATIOS = (0.9, 0.95, 0.5, 1.2, 0.81)
"""Probability ratios of the rows that bob wrote: the third is below the clip, the fourth above."""
TEXTS = ("rock", "<action>1</action>", "paper scissors", "Reply with one move", "é 12")


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of another width, whose tokenizer merges less."""
    folder = tmp_path_factory.mktemp("other") / "model"
    return random_model.build(folder, hidden=32, vocab=290, seed=1)


@pytest.fixture
def author(other_folder: Path) -> BaseModel:
    return BaseModel.load(other_folder, lora_rank=2, device="cpu")


def turn_of(ids: tuple[int, ...], logprobs: tuple[float, ...] | None = None) -> Turn:
    return Turn(
        turn_index=0, observation="o", reply="", invalid=None, reward=0.0, components={},
        version=str(BOB), prompt_ids=(5, 6), completion_ids=ids,
        logprobs=logprobs if logprobs is not None else (-0.5,) * len(ids), finish="stop",
    )  # fmt: skip


# --- tokens --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_another_base_reads_the_text_in_its_own_tokens(
    base: BaseModel, author: BaseModel, text: str
) -> None:
    ids = author.encode_reply(text)
    logprobs = tuple(-0.1 * (k + 1) for k in range(len(ids)))
    found = read_reply(turn_of(ids, logprobs), author, base)
    assert found is not None
    assert base.decode(found.ids) == text
    assert found.ids[-1] not in base.eos_token_ids
    assert found.author_logprob == pytest.approx(np.mean(logprobs[:-1]))  # without the end


def test_the_two_tokenizers_cut_a_text_differently(base: BaseModel, author: BaseModel) -> None:
    assert len(base.encode_reply("paper scissors")) < len(author.encode_reply("paper scissors"))


def test_learners_of_one_base_read_what_was_sampled(base: BaseModel) -> None:
    """Also where no text would give these tokens again."""
    letters = [base.encode_reply(letter)[0] for letter in "rock"]
    ids = (*letters, base.tokenizer.eos_token_id)
    assert ids != base.encode_reply("rock")
    found = read_reply(turn_of(ids, (-1.0, -2.0, -3.0, -4.0, -50.0)), base, base)
    assert found is not None
    assert (found.ids, found.author_logprob) == (tuple(letters), -2.5)
    cut = read_reply(turn_of(ids[:-1], (-1.0, -2.0, -3.0, -4.0)), base, base)
    assert cut == found


def test_an_empty_reply_is_the_readers_own_end(base: BaseModel, author: BaseModel) -> None:
    ended = turn_of((author.tokenizer.eos_token_id,), (-0.25,))
    found = read_reply(ended, author, base)
    assert found is not None
    assert (found.ids, found.author_logprob) == ((base.tokenizer.eos_token_id,), -0.25)
    own = read_reply(turn_of((base.tokenizer.eos_token_id,), (-0.25,)), base, base)
    assert own == found


def test_a_reply_whose_text_is_not_what_was_sampled_is_unreadable(
    base: BaseModel, author: BaseModel
) -> None:
    whole = author.encode_reply("é")[:-1]
    assert len(whole) == 2
    assert read_reply(turn_of(whole[:1]), author, base) is None  # half a character
    (word,) = author.encode_reply("a")[:-1]
    start = author.tokenizer.convert_tokens_to_ids(random_model.START)
    assert read_reply(turn_of((start, word)), author, base) is None  # a template token
    assert read_reply(turn_of((start,)), author, base) is None  # and no text at all


def test_a_text_that_spells_a_template_token_of_the_reader_is_unreadable(
    base: BaseModel, author: BaseModel
) -> None:
    plain = [author.encode_reply(letter)[0] for letter in random_model.END]
    assert author.decode(plain) == random_model.END  # written letter by letter
    assert read_reply(turn_of(tuple(plain)), author, base) is None


# --- weight and gradient -------------------------------------------------------------------------


def learner_of(base: BaseModel, **more: Any) -> GRPOLearner:
    """A learner whose adapter changes something already."""
    settings = GRPOSettings(variant="gspo", micro_batch_rows=3, **more)
    learner = GRPOLearner("alice", base, settings, 1.0, 0)
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for key, parameter in base.trainable_parameters("alice").items():
            if "lora_B" in key:
                parameter.normal_(std=0.1, generator=draw)
    return learner


def exchanged(learner: GRPOLearner, author: BaseModel, own: TrainingBatch | None) -> ExchangedBatch:
    """Own rows, and a row for each of `TEXTS` with the ratio of `RATIOS`."""
    base = learner.base
    rows = []
    for number, text in enumerate(TEXTS):
        read = read_reply(turn_of(author.encode_reply(text)), author, base)
        assert read is not None
        rows.append(
            ForeignTurn(
                author=BOB,
                prompt_ids=base.encode_prompt("move " * number),
                completion_ids=read.ids,
                author_logprob=0.0,
                advantage=(-1.5, 0.7, 2.0, 1.0, 0.4)[number],
                coefficient=(2.0, 0.5, 1.0, 1.0, 1.25)[number],
            )
        )
    pad_id = base.tokenizer.pad_token_id
    _, means_R = mean_logprobs(learner, exchanged_batch("alice", None, rows, pad_id))
    rows = [
        replace(row, author_logprob=float(mean - np.log(ratio)))
        for row, mean, ratio in zip(rows, means_R, RATIOS, strict=True)
    ]
    return exchanged_batch("alice", own, rows, pad_id)


def plain_logprobs(base: BaseModel, prompt: list[int], reply: list[int]) -> torch.Tensor:
    """(T,) by transformers, one row at a time, without padding."""
    logits = base.model(input_ids=torch.tensor([[*prompt, *reply]])).logits[0]
    scores = torch.log_softmax(logits[len(prompt) - 1 : -1].float(), dim=-1)
    return scores.gather(1, torch.tensor(reply)[:, None])[:, 0]


def hacpo_objective(learner: GRPOLearner, batch: ExchangedBatch, step: int) -> torch.Tensor:
    """The paper's objective, row by row: own rows GSPO, those of others clip(s) * sg[s] * omega * A."""
    settings, terms = ExchangeSettings(), []
    lowest = 1 - 0.2 + 0.025 * step
    for row in range(batch.rows):
        prompt = batch.prompt_ids_RP[row][batch.prompt_mask_RP[row]].tolist()
        reply = batch.completion_ids_RT[row][batch.completion_mask_RT[row]].tolist()
        mean = plain_logprobs(learner.base, prompt, reply).mean()
        advantage = float(batch.advantages_RT[row, 0])
        if not batch.foreign_R[row]:
            old = float(batch.logprobs_RT[row, : len(reply)].mean())
            ratio = (mean - old).exp()
            clipped = ratio.clamp(1 - 3e-4, 1 + 4e-4)
            terms.append(torch.minimum(ratio * advantage, clipped * advantage))
            continue
        ratio = (mean - float(batch.author_logprobs_R[row])).exp()
        inside = lowest <= ratio.item() <= 1.0
        clipped = ratio.clamp(lowest, 1.0) * ratio.detach() ** settings.exponent
        if inside:
            terms.append(float(batch.coefficients_R[row]) * clipped * advantage)
    return torch.stack(terms).mean()


def gradient_of(learner: GRPOLearner, objective: torch.Tensor) -> dict[str, torch.Tensor]:
    own = learner.base.trainable_parameters("alice")
    found = torch.autograd.grad(-objective, list(own.values()))
    return dict(zip(own, found, strict=True))


@pytest.mark.parametrize("step", [0, 1, 5])
def test_the_gradient_is_that_of_the_objective_of_hacpo(
    base: BaseModel, author: BaseModel, step: int
) -> None:
    learner = learner_of(base)
    batch = exchanged(learner, author, sample_batch(base, "alice", rows=4))
    weighed = weigh_for_step(learner, batch, ExchangeSettings(), step)
    assert weighed.batch is not None
    learner.compute_gradients(weighed.batch)
    ours = {key: gradient.clone() for key, gradient in learner.gradients.items()}
    learner.drop_gradients()

    expected = gradient_of(learner, hacpo_objective(learner, batch, step))

    wrong = sum(float((ours[key] - g).square().sum()) for key, g in expected.items())
    size = sum(float(g.square().sum()) for g in expected.values())
    assert size > 0
    assert (wrong / size) ** 0.5 < 1e-4
    kept = [0.9, 0.95, 0.81] if step == 0 else [0.9, 0.95] if step == 1 else [0.95]
    assert weighed.batch.rows == 4 + len(kept)
    assert weighed.metrics["exchange/below"] == pytest.approx((4 - len(kept)) / 5)
    assert weighed.metrics["exchange/above"] == pytest.approx(1 / 5)
    assert weighed.metrics["exchange/ratio"] == pytest.approx(np.mean(RATIOS), rel=1e-4)


def test_the_share_of_the_gradient_counts_weight_times_tokens(
    base: BaseModel, author: BaseModel
) -> None:
    learner = learner_of(base)
    batch = exchanged(learner, author, sample_batch(base, "alice", rows=4))
    found = weigh_for_step(learner, batch, ExchangeSettings(), 0).metrics["exchange/gradient_share"]
    lengths_R = batch.learned_RT.sum(axis=1)
    own = float((np.abs(batch.advantages_RT[:, 0]) * lengths_R)[:4].sum())
    weights = (2.0 * 0.81 * 1.5, 0.5 * 0.9025 * 0.7, 0.0, 0.0, 1.25 * 0.6561 * 0.4)
    others = float((np.array(weights) * lengths_R[4:]).sum())
    assert found == pytest.approx(others / (own + others), rel=1e-3)


def test_among_strangers_the_update_is_that_of_a_learner_by_itself(
    base: BaseModel, author: BaseModel
) -> None:
    """Rows that are all dropped leave no trace in the gradient, not even of padding."""
    learner = learner_of(base)
    own = sample_batch(base, "alice", rows=4)
    batch = exchanged(learner, author, own)
    far = replace(batch, author_logprobs_R=batch.author_logprobs_R + 3.0)
    weighed = weigh_for_step(learner, far, ExchangeSettings(), 0)
    assert weighed.batch is not None
    assert weighed.metrics["exchange/below"] == 1.0
    learner.compute_gradients(weighed.batch)
    ours = {key: gradient.clone() for key, gradient in learner.gradients.items()}
    learner.compute_gradients(own)
    assert all(torch.equal(ours[key], g) for key, g in learner.gradients.items())
    nothing = exchanged(learner, author, None)
    nothing = replace(nothing, author_logprobs_R=nothing.author_logprobs_R + 3.0)
    assert weigh_for_step(learner, nothing, ExchangeSettings(), 0).batch is None


def test_every_loss_of_an_exchange_weighs_a_row_by_its_factor(
    base: BaseModel, author: BaseModel
) -> None:
    """The clip of the loss stays idle on rows of others, whichever loss it is."""
    for number, loss in enumerate(("grpo", "dapo", "bnpo", "dr_grpo", "cispo")):
        more = {"clip_high": 5.0} if loss == "cispo" else {}
        settings = GRPOSettings(loss_type=loss, **more)  # type: ignore[arg-type]
        settings.check_exchange()
        learner = GRPOLearner(f"alice{number}", base, settings, 1.0, 0)
        batch = replace(exchanged(learner_named(learner), author, None), learner=learner.name)
        weighed = weigh_for_step(learner, batch, ExchangeSettings(clip=None), 0).batch
        assert weighed is not None
        gradients = []
        for rows in (weighed, replace(weighed, advantages_RT=2 * weighed.advantages_RT)):
            metrics = learner.compute_gradients(rows)
            assert metrics["clip_fraction"] == 0.0
            gradients.append({key: g.clone() for key, g in learner.gradients.items()})
        for key, gradient in gradients[0].items():
            assert torch.allclose(2 * gradient, gradients[1][key], rtol=1e-3, atol=1e-6)


def learner_named(learner: GRPOLearner) -> Any:
    """The learner under the name that `exchanged` gives its batches."""

    class Named:
        base = learner.base
        version = 0

        def token_logprobs(self, batch: TrainingBatch, adapter: str) -> Any:
            return learner.token_logprobs(batch, learner.name)

    return Named()
