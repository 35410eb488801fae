"""Imitation on TRL's SFT loss: one adapter learns the tokens of replies, never those of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from trl import SFTTrainer

from srl_agents.models.base_model import BaseModel
from srl_agents.sharing.demonstrations import Demonstration, DemonstrationBatch
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.passes.attention_reach import AttentionReach, sharing_of
from srl_agents.trainers.passes.own_head import OwnHead
from srl_agents.trainers.passes.shared_prefixes import share_prefixes
from srl_agents.trainers.supervised.sft_settings import SFTSettings

_IGNORED = -100
"""TRL's label of a token that is read and not learned."""


class ReplyTrainer(SFTTrainer):  # type: ignore[misc]
    """TRL's trainer for one adapter; rows come from outside."""

    def __init__(self, base: BaseModel, adapter: str, config: Any) -> None:
        """Build TRL's trainer around the shared model.

        Args:
            base: owner of the model.
            adapter: the active adapter, which the optimizer will hold.
            config: TRL's.
        """
        self.base = base
        self.adapter = adapter
        super().__init__(
            model=base.model,
            args=config,
            train_dataset=Dataset.from_dict({"input_ids": [[0, 0]], "labels": [[0, 0]]}),
            processing_class=base.tokenizer,
        )

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save only this learner's adapter, not those of its neighbours."""
        self.base.save_adapter(self.adapter, Path(output_dir or self.args.output_dir))


class SFTLearner(AdapterLearner[DemonstrationBatch]):
    """One adapter that imitates."""

    def __init__(self, name: str, base: BaseModel, settings: SFTSettings, seed: int) -> None:
        """Add the adapter if it does not exist, and build its optimizer.

        Args:
            name: of the adapter.
            base: the shared base.
            settings: of the updates.
            seed: of a new adapter's weights.

        Raises:
            ConfigError: the model cannot share what rows begin with.
        """
        self.settings = settings
        self.sharing, self._reach = sharing_of(base, settings.share_prefixes)
        self._head = OwnHead(base)
        super().__init__(name, base, settings, seed)

    def _make_trainer(self, folder: Path) -> ReplyTrainer:
        cpu = self.base.device.type == "cpu"
        config = self.settings.to_trl(folder, seed=self.seed, cpu=cpu)
        with self._head.patching():
            return ReplyTrainer(self.base, self.name, config)

    def _backward(self, batch: DemonstrationBatch) -> tuple[float, dict[str, float]]:
        """Add the gradient of the mean loss over all reply tokens.

        Returns:
            The loss, and means over those tokens of ``entropy`` (nats) and ``token_accuracy``
            (the likeliest token is the one that was written).
        """
        reach = self._reach
        rows = sorted(batch.demonstrations, key=_fewer_tokens if reach is None else _prompt)
        tokens = sum(len(row.reply_ids) for row in rows)
        size = self.micro_batch_rows
        loss, entropy, accuracy = 0.0, 0.0, 0.0
        self._trainer.current_gradient_accumulation_steps = 1  # the token count divides already
        for part in (rows[start : start + size] for start in range(0, len(rows), size)):
            with self._head.worn():
                loss += self._trainer.training_step(
                    self.base.model,
                    self._padded(part) if reach is None else self._shared(part, reach),
                    torch.tensor(tokens),
                ).item()
            seen = self._trainer._metrics["train"]
            share = sum(len(row.reply_ids) for row in part) / tokens
            entropy += seen["entropy"][0] * share
            accuracy += seen["mean_token_accuracy"][0] * share
            seen.clear()
        return loss, {"entropy": entropy, "token_accuracy": accuracy}

    def _padded(self, rows: Sequence[Demonstration]) -> dict[str, torch.Tensor]:
        """One sequence per row, under TRL's names."""
        padded = self._trainer.data_collator(
            [
                {
                    "input_ids": [*row.prompt_ids, *row.reply_ids],
                    "labels": [_IGNORED] * len(row.prompt_ids) + list(row.reply_ids),
                }
                for row in rows
            ]
        )
        return {key: tensor.to(self.base.device) for key, tensor in padded.items()}

    def _shared(self, rows: Sequence[Demonstration], reach: AttentionReach) -> dict[str, Any]:
        """Rows that begin alike in one sequence; TRL's loss sums over its tokens all the same."""
        layout = share_prefixes(
            [np.array(row.prompt_ids) for row in rows],
            [np.array(row.reply_ids) for row in rows],
            width=self.base.model.config.get_text_config().hidden_size,
            device=self.base.device,
        )
        return reach.inputs(layout, self.base.model.dtype) | {"shift_labels": layout.labels_GL}


def _prompt(row: Demonstration) -> tuple[int, ...]:
    return row.prompt_ids


def _fewer_tokens(row: Demonstration) -> int:
    return -len(row.prompt_ids) - len(row.reply_ids)
