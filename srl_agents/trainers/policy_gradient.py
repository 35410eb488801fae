"""Policy-gradient updates on TRL's GRPO trainer: where rows enter it, and what comes out.

TRL computes the loss and builds the optimizer; rows, advantages, reference and resume are
ours. Rows enter TRL at the one method that we override.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from trl import GRPOConfig, GRPOTrainer

from srl_agents.engines.base_model import BaseModel
from srl_agents.records import CriticBatch, TrainingBatch
from srl_agents.trainers.learner import global_generators_kept
from srl_envs.errors import ConfigError

LARGEST_KL = "kl/max"
"""The one metric that is no mean over tokens."""
_CLIPPED_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_ROW_MEANS = ("grpo", "sapo", "dr_grpo", "luspo")
"""Losses that TRL averages over rows; the others over tokens."""

_TEMPERATURE: WeakKeyDictionary[BaseModel, float] = WeakKeyDictionary()
"""TRL patches its temperature into the model, so learners of one base cannot differ in it."""


class RowTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer for one adapter; overrides where rows enter and what is saved."""

    _buffered_inputs: Any

    def __init__(self, base: BaseModel, adapter: str, config: GRPOConfig, kl_coef: float) -> None:
        """Build TRL's trainer around the shared model.

        Args:
            base: owner of the model.
            adapter: the active adapter, which the optimizer will hold.
            config: TRL's.
            kl_coef: weight of TRL's own KL term over the reference that we compute.
        """
        self.base = base
        self.adapter = adapter
        inner = base.model.get_base_model()
        patched = inner.__dict__.get("forward")
        super().__init__(
            model=base.model,
            reward_funcs=_no_reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": ["", ""]}),
            processing_class=base.tokenizer,
        )
        if patched is not None:  # one fused head per base: learners share their temperature
            inner.forward = patched
        self.beta = kl_coef

    def _generate_and_score_completions(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Rows are sampled and judged already; only the reference is missing."""
        if self.beta:
            with torch.no_grad(), self.base.reference():
                inputs["ref_per_token_logps"] = self.row_logprobs(inputs)
        return inputs

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save this learner's adapter alone.

        transformers saves, and on resume loads, all adapters of the shared base, which would
        throw the other learners back to old weights.
        """
        self.base.save_adapter(self.adapter, Path(output_dir or self.args.output_dir))

    def row_logprobs(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """(R, T) log-probabilities of the completions of rows under TRL's names."""
        values, _, _ = self._get_per_token_logps_and_entropies(
            self.model,
            torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1),
            torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1),
            rows["completion_ids"].shape[1],
        )
        return values

    def backward(
        self, rows: dict[str, torch.Tensor], all_rows: int, all_tokens: float
    ) -> tuple[float, dict[str, float]]:
        """Add one micro-batch's share of the gradient.

        Args:
            rows: under TRL's names.
            all_rows: of the batch that the micro-batch is a part of.
            all_tokens: completion tokens of that batch.

        Returns:
            The micro-batch's share of the loss, and metrics summed over its tokens.
        """
        part_rows = len(rows["completion_ids"])
        part_tokens = float(rows["completion_mask"].sum())
        # TRL divides a mean over the micro-batch by the number of micro-batches. This factor,
        # which need not be whole, makes it the micro-batch's part of the mean over all.
        by_rows = self.loss_type in _ROW_MEANS
        factor = all_rows / part_rows if by_rows else all_tokens / part_tokens
        self.current_gradient_accumulation_steps = factor
        rows["num_items_in_batch"] = torch.tensor(all_tokens / factor)
        self.entropy_coef = self.args.entropy_coef * factor * part_tokens / all_tokens
        seen: list[Any] = []
        hook = self.model.register_forward_hook(lambda _m, _i, output: seen.append(output))
        try:
            with global_generators_kept():
                torch.manual_seed(0)  # TRL shuffles the rows: always into the same order
                loss = self.training_step(self.model, rows, None).item()
        finally:
            hook.remove()
        used = self._buffered_inputs[0]
        metrics = self._token_sums(used, seen[-1].log_probs, seen[-1].entropy)
        self._buffered_inputs = None
        self._metrics["train"].clear()
        return loss, metrics

    @torch.no_grad()
    def _token_sums(
        self, used: dict[str, torch.Tensor], logps: torch.Tensor, entropy: torch.Tensor
    ) -> dict[str, float]:
        """Metrics summed over tokens; all arguments have their rows in the same order."""
        mask_RT = used["completion_mask"].bool()
        width = mask_RT.shape[1]
        logps_RT, entropy_RT = logps[:, -width:], entropy[:, -width:]
        log_ratio_RT = logps_RT - used["old_per_token_logps"]
        low, high = self.epsilon_low, self.epsilon_high
        advantages_RT = used["advantages"]
        ratio_RT = log_ratio_RT.exp()
        clipped_RT = ((ratio_RT < 1 - low) & (advantages_RT < 0)) | (
            (ratio_RT > 1 + high) & (advantages_RT > 0)
        )
        values = {"entropy": entropy_RT, "sampler_kl": log_ratio_RT.abs()}
        if self.loss_type in _CLIPPED_LOSSES:
            values["clip_fraction"] = clipped_RT.float()
        if "ref_per_token_logps" in used:
            difference_RT = used["ref_per_token_logps"] - logps_RT
            values["kl"] = difference_RT.exp() - difference_RT - 1
        sums = {key: float(value_RT[mask_RT].sum()) for key, value_RT in values.items()}
        if "kl" in values:
            sums[LARGEST_KL] = float(values["kl"][mask_RT].max())
        return sums


def _no_reward(completions: list[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def check_temperature(name: str, base: BaseModel, temperature: float) -> None:
    """Refuse a learner whose temperature cannot be used.

    Raises:
        ConfigError: temperature 0, or not that of the base's other learners.
    """
    if not temperature > 0:
        raise ConfigError(f"temperature={temperature}: greedy samples cannot be learned from.")
    if _TEMPERATURE.setdefault(base, temperature) != temperature:
        raise ConfigError(
            f"temperature={temperature} of {name!r}: learners of one base share one, here "
            f"{_TEMPERATURE[base]}. Load the base twice to use two."
        )


def backward_batch(
    trainer: RowTrainer, batch: TrainingBatch, micro_batch_rows: int
) -> tuple[float, dict[str, float]]:
    """Add the gradient of the loss over a batch, micro-batch by micro-batch.

    Returns:
        The loss, and means over the batch's tokens of ``kl`` (to the reference; only with a
        coefficient; ``kl/max`` is the largest), ``entropy`` (nats), ``clip_fraction`` and
        ``sampler_kl`` (absolute difference between the log-probabilities now and when sampled).
    """
    rows, tokens = len(batch.prompt_ids_RP), float(batch.completion_mask_RT.sum())
    loss = 0.0
    sums: dict[str, float] = {}
    for _, part in micro_batches(batch, micro_batch_rows, trainer.base.device):
        share, metrics = trainer.backward(part, rows, tokens)
        loss += share
        for key, metric in metrics.items():
            before = sums.get(key, 0.0)
            sums[key] = max(before, metric) if key == LARGEST_KL else before + metric
    return loss, {
        key: value if key == LARGEST_KL else value / tokens for key, value in sums.items()
    }


@torch.no_grad()
def token_logprobs(
    trainer: RowTrainer, batch: TrainingBatch, adapter: str, micro_batch_rows: int
) -> NDArray[np.float32]:
    """(R, T) log-probabilities of the batch's tokens under an adapter; 0 where masked."""
    base = trainer.base
    active = base.active
    base.activate(adapter)
    logprobs_RT = np.zeros(batch.completion_mask_RT.shape, dtype=np.float32)
    for rows, part in micro_batches(batch, micro_batch_rows, base.device):
        values = trainer.row_logprobs(part)
        logprobs_RT[rows, : values.shape[1]] = values.float().cpu().numpy()
    base.activate(active)
    return np.where(batch.completion_mask_RT, logprobs_RT, np.float32(0))


def micro_batches(
    batch: TrainingBatch, rows: int, device: torch.device
) -> Iterator[tuple[NDArray[np.intp], dict[str, torch.Tensor]]]:
    """Rows of like length together, trimmed to their longest, under TRL's names; and which rows."""
    prompt_R, reply_R = batch.prompt_mask_RP.sum(axis=1), batch.completion_mask_RT.sum(axis=1)
    order = np.argsort(-(prompt_R + reply_R), kind="stable")
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        left = batch.prompt_ids_RP.shape[1] - int(prompt_R[some].max())
        width = int(reply_R[some].max())
        arrays = {
            "prompt_ids": batch.prompt_ids_RP[some, left:],
            "prompt_mask": batch.prompt_mask_RP[some, left:].astype(np.int64),
            "completion_ids": batch.completion_ids_RT[some, :width],
            "completion_mask": batch.completion_mask_RT[some, :width].astype(np.int64),
            "advantages": batch.advantages_RT[some, :width],
            "old_per_token_logps": batch.logprobs_RT[some, :width],
        }
        if isinstance(batch, CriticBatch):
            arrays |= {
                "values": batch.values_RT[some, :width],
                "returns": batch.returns_RT[some, :width],
            }
        yield some, {key: torch.from_numpy(array).to(device) for key, array in arrays.items()}
