"""PPO with a critic on the shared base: TRL's clipped loss, and a value loss of our own beside it.

Advantages come from `srl_agents.credit.critic`, made of the critic's values before any step of the
update. Source: arXiv:1707.06347; clipped values as in its reference implementation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from trl import GRPOConfig

from srl_agents.credit.batches import training_batch, with_seats
from srl_agents.credit.by_game import Credit, games_of
from srl_agents.credit.critic import VALUE_CLIP, VALUE_COEF, explained_variance, judged
from srl_agents.models.base_model import BaseModel
from srl_agents.records import CriticBatch, Episode, TrainingBatch
from srl_agents.trainers.experience import Teachers, weighed
from srl_agents.trainers.learner import AdapterLearner, Extras
from srl_agents.trainers.passes.attention_reach import AttentionReach, sharing_of
from srl_agents.trainers.policy_gradient import (
    RowTrainer,
    backward_batch,
    check_temperature,
    micro_batches,
    passes_over,
    reference_adapter,
    token_logprobs,
)

if TYPE_CHECKING:  # the settings make this learner
    from srl_agents.trainers.ppo_settings import PPOSettings


class ValueHead(torch.nn.Module):
    """A linear map from a hidden state to one number; 0 everywhere until it is trained."""

    def __init__(self, inputs: int) -> None:
        """Draws nothing from a generator.

        Args:
            inputs: size of the hidden state.
        """
        super().__init__()
        self._inputs = inputs
        with torch.random.fork_rng(devices=[]):
            last = torch.nn.Linear(inputs, 1)
        torch.nn.init.zeros_(last.weight)
        torch.nn.init.zeros_(last.bias)
        self.layers = torch.nn.Sequential(last)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """(..., H) hidden states to (...) values; the states' scale does not matter."""
        even = torch.nn.functional.layer_norm(hidden.float(), (self._inputs,))
        values: torch.Tensor = self.layers(even).squeeze(-1)
        return values


def value_loss(
    values: torch.Tensor, returns: torch.Tensor, before: torch.Tensor, clip: float | None
) -> torch.Tensor:
    """Half the squared error per token; where a value moved by more than ``clip``, the worse of two.

    Args:
        values: predictions of the critic.
        returns: targets of the predictions.
        before: predictions before the update.
        clip: largest move of a value that may still pay; None clips nothing.
    """
    missed = (values - returns) ** 2
    if clip is not None:
        near = before + (values - before).clamp(-clip, clip)
        missed = torch.maximum(missed, (near - returns) ** 2)
    return 0.5 * missed


class CriticTrainer(RowTrainer):
    """TRL's trainer for one adapter, with a critic's loss added to its own."""

    def __init__(
        self,
        base: BaseModel,
        adapter: str,
        config: GRPOConfig,
        *,
        settings: PPOSettings,
        head: ValueHead,
        critic_adapter: str | None,
        reach: AttentionReach | None,
    ) -> None:
        """Build TRL's trainer around the shared model.

        Args:
            base: owner of the model.
            adapter: the active adapter, which the optimizer will hold.
            config: from `PPOSettings.to_trl`.
            settings: the critic's.
            head: the critic's.
            critic_adapter: what the critic's trunk passes through, if that is its own.
            reach: the windows of the model's layers, where rows share what they begin with.
        """
        super().__init__(
            base,
            adapter,
            config,
            kl_coef=settings.kl_coef,
            reference=reference_adapter(base, adapter, settings.reference, settings.kl_coef),
            reach=reach,
            head=settings.log_probabilities,
        )
        self._settings = settings
        self._value_head = head
        self._critic_adapter = critic_adapter
        self._missed = 0.0

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        with self._last_hidden_kept() as kept:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
        settings, mask_RT = self._settings, inputs["tool_mask"]
        if settings.critic in ("detached", "shared"):
            hidden = self._of_tokens(kept[-1], mask_RT.shape[1], self._used_layout)
            values_RT = self._value_head(hidden if settings.critic == "shared" else hidden.detach())
        else:
            values_RT = self.values(inputs)
        each_RT = value_loss(values_RT, inputs["returns"], inputs["values"], VALUE_CLIP)
        missed = (each_RT * mask_RT).sum()
        self._missed = missed.item()
        share: torch.Tensor = missed / mask_RT.sum() / self.current_gradient_accumulation_steps
        return loss + VALUE_COEF * share

    def backward(
        self, rows: dict[str, torch.Tensor], all_rows: int, all_tokens: float
    ) -> tuple[float, dict[str, float]]:
        """See `RowTrainer.backward`; adds ``value/loss`` to the metrics."""
        loss, sums = super().backward(rows, all_rows, all_tokens)
        return loss, sums | {"value/loss": self._missed}

    def values(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """(R, T) the critic's value before each token of rows under TRL's names."""
        if self._settings.critic == "base":
            with torch.no_grad(), self.base.reference():
                hidden = self.last_hidden(rows)
        elif self._critic_adapter is not None:
            with self.base.through(self._critic_adapter):
                hidden = self.last_hidden(rows)
        else:
            hidden = self.last_hidden(rows)
        values: torch.Tensor = self._value_head(hidden)
        return values

    @contextmanager
    def _last_hidden_kept(self) -> Iterator[list[torch.Tensor]]:
        """Inside, every forward adds its last hidden state to the list."""
        kept: list[torch.Tensor] = []
        hook = self.backbone.register_forward_hook(
            lambda _m, _i, output: kept.append(output.last_hidden_state)
        )
        try:
            yield kept
        finally:
            hook.remove()


class PPOLearner(AdapterLearner[CriticBatch]):
    """One adapter that learns from rows which its own critic has judged."""

    def __init__(
        self, name: str, base: BaseModel, settings: PPOSettings, temperature: float, seed: int
    ) -> None:
        """Add the adapter if it does not exist, and build critic and optimizer.

        Args:
            name: of the adapter.
            base: the shared base.
            settings: of the updates.
            temperature: at which rows are sampled; the same for all learners of the base.
            seed: of a new adapter's weights, of the critic's, and of the order of rows.

        Raises:
            ConfigError: temperature 0, or not that of the base's other learners.
        """
        check_temperature(name, base, temperature)
        self.settings = settings
        self.temperature = temperature
        self.sharing, self._reach = sharing_of(base, settings.share_prefixes)
        width = base.model.config.get_text_config().hidden_size
        self._value_head = ValueHead(width).to(base.device)
        extras = {f"head.{key}": p for key, p in self._value_head.named_parameters()}
        self._critic_adapter: str | None = None
        if settings.critic == "adapter":
            self._critic_adapter = f"{name}@critic"
            base.add_adapter(self._critic_adapter, seed)
            extras |= base.trainable_parameters(self._critic_adapter)
        rate = settings.critic_learning_rate
        super().__init__(name, base, settings, seed, Extras(parameters=extras, learning_rate=rate))

    def _make_trainer(self, folder: Path) -> CriticTrainer:
        cpu = self.base.device.type == "cpu"
        config = self.settings.to_trl(folder, temperature=self.temperature, seed=self.seed, cpu=cpu)
        return CriticTrainer(
            self.base,
            self.name,
            config,
            settings=self.settings,
            head=self._value_head,
            critic_adapter=self._critic_adapter,
            reach=self._reach,
        )

    def steps(self, batch: CriticBatch) -> list[CriticBatch]:
        """Passes over the rows, each in another order, each cut into minibatches.

        The orders depend only on seed and version, so that a resumed run draws them again.
        """
        steps = []
        for number in range(self.settings.iterations):
            rng = np.random.default_rng([self.seed, self.version, number])
            order = rng.permutation(batch.rows)
            parts = min(self.settings.minibatches, batch.rows)
            steps += [batch.take(np.sort(rows)) for rows in np.array_split(order, parts)]
        return steps

    def passes(self, batch: CriticBatch) -> int:
        """See `AdapterLearner`; rows of which nothing is learned take none."""
        return passes_over(batch, self.micro_batch_rows, share=self.sharing.shares)

    def _backward(self, batch: CriticBatch) -> tuple[float, dict[str, float]]:
        critic = self._critic_adapter
        also = [] if critic is None else [*self.base.trainable_parameters(critic).values()]
        for parameter in also:
            parameter.requires_grad_(True)
        try:
            return backward_batch(self._trainer, batch, self.micro_batch_rows)
        finally:
            for parameter in also:
                parameter.requires_grad_(False)

    @torch.no_grad()
    def values(self, batch: TrainingBatch) -> NDArray[np.float32]:
        """(R, T) the critic's value before each token that is learned; 0 elsewhere."""
        active = self.base.active
        self.base.activate(self.name)
        values_RT = np.zeros(batch.completion_mask_RT.shape, dtype=np.float32)
        size, share = self.micro_batch_rows, self.sharing.shares
        with self.memory_limit(f"values of {batch.rows} rows"):
            for rows, part in micro_batches(batch, size, self.base.device, share=share):
                values = self._trainer.values(part)
                values_RT[rows, : values.shape[1]] = values.cpu().numpy()
        self.base.activate(active)
        return np.where(batch.learned_RT, values_RT, np.float32(0))

    def token_logprobs(self, batch: TrainingBatch, adapter: str) -> NDArray[np.float32]:
        """(R, T) log-probabilities of the batch's tokens under an adapter; 0 where masked."""
        with self.memory_limit(f"probabilities of {batch.rows} rows"):
            return token_logprobs(self._trainer, batch, adapter, self.micro_batch_rows)


@dataclass(frozen=True)
class CriticRows:
    """Rows that the learner's critic judges, for PPO.

    Args:
        learners: all of them, as a teacher may be any.
        credit: what each turn was paid.
        teachers: the teacher of each learner, if it has one.
    """

    learners: Mapping[str, PPOLearner]
    credit: Credit
    teachers: Teachers

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[CriticBatch | None, dict[str, float]]:
        """See `Experience`."""
        turns, values = self.credit.paid_turns(episodes, learner, policy)
        if not turns:
            return None, values
        own = self.learners[learner]
        settings = own.settings
        rows = training_batch(
            learner,
            [(paid.turn, 0.0) for paid in turns],
            own.base.tokenizer.pad_token_id,
            thoughts=self.credit.settings.train_thoughts,
        )
        rows = with_seats(rows, [paid.turn for paid in turns], episodes, games_of(self.credit))
        judgement = judged(
            rows,
            turns,
            own.values(rows),
            discount=settings.discount,
            trace=settings.trace,
        )
        values["value/explained_var"] = explained_variance(judgement)
        batch, more = weighed(self.credit.settings, own, judgement, self.teachers(learner))
        return batch, values | more
