"""GRPO on TRL's loss, driven one update at a time, one learner per adapter of a shared base.

Source: arXiv:2402.03300; variants in `grpo_settings.VARIANTS`. Advantages come from `srl_agents.credit`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.passes.attention_reach import sharing_of
from srl_agents.trainers.policy_gradient import (
    LeaveOneOutTrainer,
    RowTrainer,
    backward_batch,
    check_temperature,
    passes_over,
    reference_adapter,
    token_logprobs,
)

if TYPE_CHECKING:  # the settings make this learner
    from srl_agents.trainers.grpo_settings import GRPOSettings


class GRPOLearner(AdapterLearner[TrainingBatch]):
    """One adapter that learns from rows with advantages."""

    def __init__(
        self, name: str, base: BaseModel, settings: GRPOSettings, temperature: float, seed: int
    ) -> None:
        """Add the adapter if it does not exist, and build its optimizer.

        Args:
            name: of the adapter.
            base: the shared base.
            settings: of the updates.
            temperature: at which rows are sampled; the same for all learners of the base.
            seed: of a new adapter's weights.

        Raises:
            ConfigError: temperature 0, or not that of the base's other learners.
        """
        check_temperature(name, base, temperature)
        self.settings = settings
        self.temperature = temperature
        self.sharing, self._reach = sharing_of(
            base, settings.share_prefixes, packs=settings.pack_rows
        )
        super().__init__(name, base, settings, seed)
        apart = settings.share_prefixes is True or settings.pack_rows
        together = settings.mix_learners and not apart
        self.mixes = together and base.parameters == "lora"

    def _make_trainer(self, folder: Path) -> RowTrainer | LeaveOneOutTrainer:
        settings = self.settings
        cpu = self.base.device.type == "cpu"
        config = settings.to_trl(folder, temperature=self.temperature, seed=self.seed, cpu=cpu)
        if settings.loss.loss_type == "rloo":
            return LeaveOneOutTrainer(
                self.base,
                self.name,
                config,
                reach=self._reach,
                pack=settings.pack_rows,
                head=settings.log_probabilities,
            )
        kl_coef = settings.loss.kl_coef
        reference = reference_adapter(self.base, self.name, settings.reference, kl_coef)
        return RowTrainer(
            self.base,
            self.name,
            config,
            kl_coef=kl_coef,
            reference=reference,
            reach=self._reach,
            pack=settings.pack_rows,
            head=settings.log_probabilities,
        )

    def passes(self, batch: TrainingBatch) -> int:
        """See `AdapterLearner`; rows of which nothing is learned take none."""
        return passes_over(batch, self.micro_batch_rows, share=self.sharing.shares)

    def _backward(self, batch: TrainingBatch) -> tuple[float, dict[str, float]]:
        return backward_batch(self._trainer, batch, self.micro_batch_rows)

    @property
    def trainer(self) -> RowTrainer:
        """TRL's, which has the loss."""
        return self._trainer  # type: ignore[no-any-return]

    def token_logprobs(self, batch: TrainingBatch, adapter: str) -> NDArray[np.float32]:
        """(R, T) log-probabilities of the batch's tokens under an adapter; 0 where masked."""
        with self.memory_limit(f"probabilities of {batch.rows} rows"):
            return token_logprobs(self._trainer, batch, adapter, self.micro_batch_rows)
