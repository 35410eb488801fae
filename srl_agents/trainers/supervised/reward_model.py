"""A reward model on the shared base, by TRL's loss: an adapter of its own and one linear head.

It reads a prompt and a reply and gives one number; of two replies to a prompt, the one that the
rules paid more for should get the higher one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from transformers.modeling_outputs import SequenceClassifierOutput
from trl import RewardTrainer

from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.models.base_model import BaseModel
from srl_agents.trainers.learner import AdapterLearner, Extras
from srl_agents.trainers.supervised.reward_model_settings import RewardModelSettings

NAME = "reward@model"
"""Name of the adapter; learners cannot have this name."""
_CHUNK = 64
"""Replies in one forward pass when judging."""


class ScoringModel(torch.nn.Module):
    """The base under its active adapter, with one score per sequence in the place of logits."""

    def __init__(self, base: BaseModel, head: torch.nn.Linear) -> None:
        """Borrow the base.

        Args:
            base: owner of the model.
            head: hidden state to score.
        """
        super().__init__()
        self.model = base.model
        self.config = copy.copy(base.model.config)
        self.config.num_labels = 1
        self._head = (head,)  # no submodule: the learner's optimizer gets it as an extra
        inner = base.model.get_base_model()
        self._trunk = (getattr(inner, inner.base_model_prefix),)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any
    ) -> SequenceClassifierOutput:
        """(N, T) tokens, padded on the right, to (N, 1) scores, read off at each last token."""
        hidden_NTH = self._trunk[0](
            input_ids=input_ids, attention_mask=attention_mask, use_cache=False
        ).last_hidden_state
        last_N = attention_mask.sum(dim=1) - 1
        rows_N = torch.arange(len(last_N), device=last_N.device)
        return SequenceClassifierOutput(
            logits=self._head[0](hidden_NTH[rows_N, last_N].to(self._head[0].weight.dtype))
        )

    def add_model_tags(self, tags: Any) -> None:
        """Do nothing: TRL tags models for a hub, and this one is not uploaded."""


class PairScorer(RewardTrainer):  # type: ignore[misc]
    """TRL's trainer around the scoring model; pairs come from outside."""

    def __init__(self, base: BaseModel, head: torch.nn.Linear, config: Any) -> None:
        """Build TRL's trainer around the shared model.

        Args:
            base: owner of the model.
            head: hidden state to score.
            config: TRL's.
        """
        self.base = base
        super().__init__(
            model=ScoringModel(base, head),
            args=config,
            train_dataset=Dataset.from_dict({"chosen_ids": [[0]], "rejected_ids": [[0]]}),
            processing_class=base.tokenizer,
        )

    def _prepare_dataset(self, dataset: Dataset, *_: Any) -> Dataset:
        """Return the dataset as it is: pairs come from outside, as tokens; TRL only requires a dataset."""
        return dataset

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save only the reward model's adapter, not those of its neighbours."""
        self.base.save_adapter(NAME, Path(output_dir or self.args.output_dir))


class RewardLearner(AdapterLearner[PreferenceBatch]):
    """The reward model of a run."""

    def __init__(self, base: BaseModel, settings: RewardModelSettings, seed: int) -> None:
        """Add its adapter, a head that is 0, and their optimizer.

        Args:
            base: the shared base.
            settings: of the updates.
            seed: of the adapter's weights.
        """
        self.settings = settings
        hidden = int(base.model.config.get_text_config().hidden_size)
        with torch.random.fork_rng(devices=[]):  # what it draws is thrown away
            self._head = torch.nn.Linear(hidden, 1, bias=False, device=base.device)
        torch.nn.init.zeros_(self._head.weight)
        head = {f"head.{key}": p for key, p in self._head.named_parameters()}
        extras = Extras(parameters=head, learning_rate=settings.learning_rate)
        super().__init__(NAME, base, settings, seed, extras)

    def _make_trainer(self, folder: Path) -> PairScorer:
        cpu = self.base.device.type == "cpu"
        config = self.settings.to_trl(folder, seed=self.seed, cpu=cpu)
        return PairScorer(self.base, self._head, config)

    def _backward(self, batch: PreferenceBatch) -> tuple[float, dict[str, float]]:
        """Add the gradient of the mean loss over the pairs.

        Returns:
            The loss, and ``accuracy`` (pairs scored the right way round) and ``margin`` (mean
            difference of scores), before the step.
        """
        count = len(batch.pairs)
        loss, sums = 0.0, {"accuracy": 0.0, "margin": 0.0}
        for pairs in self._micro_batches(batch.pairs):
            padded = self._trainer.data_collator(
                [
                    {
                        "chosen_ids": [*pair.prompt_ids, *pair.chosen_ids],
                        "rejected_ids": [*pair.prompt_ids, *pair.rejected_ids],
                    }
                    for pair in pairs
                ]
            )
            inputs = {key: tensor.to(self.base.device) for key, tensor in padded.items()}
            self._trainer.current_gradient_accumulation_steps = count / len(pairs)
            loss += self._trainer.training_step(self._trainer.model, inputs, None).item()
            seen = self._trainer._metrics["train"]
            for key in sums:
                sums[key] += seen[key][0] * len(pairs) / count
            seen.clear()
        return loss, sums

    def _micro_batches(self, pairs: Sequence[Preference]) -> Iterator[list[Preference]]:
        """Pairs of like length together; a pair is two rows."""
        size = max(1, self.micro_batch_rows // 2)
        ordered = sorted(
            pairs,
            key=lambda p: -len(p.prompt_ids) - max(len(p.chosen_ids), len(p.rejected_ids)),
        )
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]

    @torch.no_grad()
    def scores(
        self, replies: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> NDArray[np.float64]:
        """(R,) scores of (prompt, reply) pairs of token ids; comparable within a prompt.

        A score depends only on its reply, up to rounding, whatever is judged beside it.
        """
        rows = [[*prompt, *reply] for prompt, reply in replies]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        scores_R = np.zeros(len(rows))
        self._trainer.model.eval()
        with self.base.through(NAME), self.memory_limit(f"scores of {len(rows)} replies"):
            for start in range(0, len(order), _CHUNK):
                some = order[start : start + _CHUNK]
                width = len(rows[some[0]])
                ids = torch.full((len(some), width), self.base.tokenizer.pad_token_id)
                mask = torch.zeros((len(some), width), dtype=torch.long)
                for place, row in enumerate(some):
                    ids[place, : len(rows[row])] = torch.tensor(rows[row])
                    mask[place, : len(rows[row])] = 1
                output = self._trainer.model(ids.to(self.base.device), mask.to(self.base.device))
                scores_R[some] = output.logits[:, 0].double().cpu().numpy()
        return scores_R

    def judgements(
        self, replies: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    ) -> NDArray[np.float64]:
        """(R,) scores brought into (-1, 1): twice the chance to beat a reply of score 0, minus 1."""
        return np.asarray(np.tanh(self.scores(replies) / 2))
