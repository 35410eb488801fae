"""Plain REINFORCE: advantage times log-probability, averaged over tokens; no ratios, nothing clipped.

Source: "Simple statistical gradient-following algorithms for connectionist reinforcement learning",
Machine Learning 8 (1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments

from srl_agents.records import TrainingBatch
from srl_agents.trainers.algorithms import AlgorithmSettings, Plan
from srl_agents.trainers.experience import AdvantageRows
from srl_agents.trainers.learner import AdapterLearner
from srl_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class ReinforceSettings(AlgorithmSettings):
    """Nothing beside the optimizer's settings."""

    def make_learner(self, name: str, base: Any, *, temperature: float, seed: int) -> Reinforce:
        """What holds one adapter and updates it."""
        return Reinforce(name, base, self, temperature, seed)

    def make_experience(self, learners: Any, credit: Any, teachers: Any) -> AdvantageRows:
        """What turns finished matches into rows to learn from."""
        return AdvantageRows(learners, credit, teachers)

    def check(self, plan: Plan) -> None:
        """Refuse recipes that this algorithm would misread."""
        AlgorithmSettings.check(self, plan)
        if plan.teacher or plan.credit.importance_cap is not None:
            raise ConfigError("algorithm 'reinforce' weighs no tokens: leave out what does.")


class Reinforce(AdapterLearner[TrainingBatch]):
    """One adapter that learns from rows with advantages."""

    def __init__(
        self, name: str, base: Any, settings: ReinforceSettings, temperature: float, seed: int
    ) -> None:
        self.settings, self.temperature = settings, temperature
        super().__init__(name, base, settings, seed)

    def _make_trainer(self, folder: Path) -> Trainer:
        cpu = self.base.device.type == "cpu"
        arguments = self.settings.arguments(folder, seed=self.seed, cpu=cpu)
        return Trainer(self.base.model, TrainingArguments(**arguments))

    def _backward(self, batch: TrainingBatch) -> tuple[float, dict[str, float]]:
        total, tokens = 0.0, int(batch.learned_RT.sum())
        for start in range(0, batch.rows, self.settings.micro_batch_rows):
            part = slice(start, start + self.settings.micro_batch_rows)
            gain = self._weighted_logprobs(batch, part).sum() / tokens
            torch.autograd.backward(-gain)
            total -= gain.item()
        return total, {}

    def _weighted_logprobs(self, batch: TrainingBatch, part: slice) -> torch.Tensor:
        """(R, T) advantage times log-probability; 0 where masked."""

        def tensor(array: Any) -> torch.Tensor:
            return torch.from_numpy(array[part]).to(self.base.device)

        said, mask = tensor(batch.completion_ids_RT), tensor(batch.completion_mask_RT)
        ids = torch.cat([tensor(batch.prompt_ids_RP), said], dim=1)
        seen = torch.cat([tensor(batch.prompt_mask_RP), mask], dim=1).long()
        logits = self.base.model(input_ids=ids, attention_mask=seen).logits
        logits = logits[:, -said.shape[1] - 1 : -1].float() / self.temperature
        logprobs = logits.log_softmax(-1).gather(-1, said[..., None])[..., 0]
        return torch.where(mask, logprobs * tensor(batch.advantages_RT), 0.0)
