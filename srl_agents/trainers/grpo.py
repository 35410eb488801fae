"""GRPO on TRL's loss, driven one update at a time, one learner per adapter of a shared base.

TRL computes the loss and builds the optimizer; rows, advantages, reference and resume are
ours. Rows enter TRL at the one method that we override. Source: arXiv:2402.03300.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray
from trl import GRPOConfig, GRPOTrainer

from srl_agents.engines.base_model import BaseModel
from srl_agents.engines.quiet import quiet_libraries
from srl_agents.records import TrainingBatch
from srl_agents.trainers import optimizer_state
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_envs.errors import CheckpointError, ConfigError, ModelError, ShapeError

_CLIPPED_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")


class AgentGRPO(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer for one adapter; overrides where rows enter and what is saved."""

    def __init__(self, base: BaseModel, adapter: str, config: GRPOConfig, kl_coef: float) -> None:
        """Build TRL's trainer around the shared model.

        Args:
            base: owner of the model.
            adapter: the active adapter, which the optimizer will hold.
            config: from `GRPOSettings.to_trl`.
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
                inputs["ref_per_token_logps"], _, _ = self._get_per_token_logps_and_entropies(
                    self.model,
                    torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
                    torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
                    inputs["completion_ids"].shape[1],
                )
        return inputs

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save this learner's adapter alone.

        transformers saves, and on resume loads, all adapters of the shared base, which would
        throw the other learners back to old weights.
        """
        self.base.save_adapter(self.adapter, Path(output_dir or self.args.output_dir))


def _no_reward(completions: list[Any], **_: Any) -> list[float]:
    return [0.0] * len(completions)


_TEMPERATURE: WeakKeyDictionary[BaseModel, float] = WeakKeyDictionary()
"""TRL patches its temperature into the model, so learners of one base cannot differ in it."""


class GRPOLearner:
    """One adapter that learns. Learners of one base take turns; they share no state."""

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
        if not temperature > 0:
            raise ConfigError(f"temperature={temperature}: greedy samples cannot be learned from.")
        if _TEMPERATURE.setdefault(base, temperature) != temperature:
            raise ConfigError(
                f"temperature={temperature} of {name!r}: learners of one base share one, here "
                f"{_TEMPERATURE[base]}. Load the base twice to use two."
            )
        self.name = name
        self.base = base
        self.settings = settings
        self.version = 0
        """Changes of the weights: optimizer steps and merges."""
        if name not in base.adapters:
            base.add_adapter(name, seed)
        base.activate(name)
        cpu = base.device.type == "cpu"
        with tempfile.TemporaryDirectory() as folder, _global_generators_kept(), quiet_libraries():
            config = settings.to_trl(Path(folder), temperature=temperature, seed=seed, cpu=cpu)
            self._trainer = AgentGRPO(base, name, config, settings.kl_coef)
            if settings.gradient_checkpointing:
                base.model.gradient_checkpointing_enable({"use_reentrant": False})
        self._optimizer = self._trainer.create_optimizer()
        self._scheduler = self._trainer.create_scheduler(
            max(settings.total_updates, 1), self._optimizer
        )
        self._parameters = list(base.trainable_parameters(name).values())

    def update(self, batch: TrainingBatch) -> dict[str, float]:
        """Take `settings.iterations` optimizer steps on one batch; metrics of the last."""
        metrics: dict[str, float] = {}
        for _ in range(self.settings.iterations):
            metrics = self.compute_gradients(batch)
            self.apply_gradients()
        return metrics

    def compute_gradients(self, batch: TrainingBatch) -> dict[str, float]:
        """Put the gradient of the loss over the whole batch on the adapter; take no step.

        Returns:
            ``loss``; means over the batch's tokens of ``kl`` (to the base; only with kl_coef),
            ``entropy`` (nats), ``clip_fraction`` and ``sampler_kl`` (absolute difference between
            the log-probabilities now and when sampled); ``grad_norm`` before clipping;
            ``learning_rate`` of the next step.

        Raises:
            ShapeError: the batch belongs to another learner.
            ModelError: the gradient is not finite.
        """
        if batch.learner != self.name:
            raise ShapeError(f"batch of {batch.learner!r} given to learner {self.name!r}.")
        self.base.activate(self.name)
        self.drop_gradients()
        rows = len(batch.prompt_ids_RP)
        tokens = float(batch.completion_mask_RT.sum())
        loss = 0.0
        sums: dict[str, float] = {}
        for _, part in _micro_batches(batch, self.settings.micro_batch_rows, self.base.device):
            value, metrics = self._accumulate(part, rows, tokens)
            loss += value
            for key, metric in metrics.items():
                sums[key] = sums.get(key, 0.0) + metric
        norm = torch.nn.utils.get_total_norm(
            [p.grad for p in self._parameters if p.grad is not None]
        ).item()
        if not np.isfinite(norm) or not np.isfinite(loss):
            raise ModelError(
                f"learner {self.name!r}, version {self.version}: loss {loss}, gradient norm "
                f"{norm}. Lower learning_rate or max_grad_norm and resume from a checkpoint."
            )
        return {
            "loss": loss,
            **{key: value / tokens for key, value in sums.items()},
            "grad_norm": norm,
            "learning_rate": self._scheduler.get_last_lr()[0],
        }

    def _accumulate(
        self, part: dict[str, torch.Tensor], rows: int, tokens: float
    ) -> tuple[float, dict[str, float]]:
        """Add one micro-batch's share of the gradient; its loss share and sums over its tokens."""
        part_rows = len(part["completion_ids"])
        part_tokens = float(part["completion_mask"].sum())
        # TRL divides a mean over the micro-batch by the number of micro-batches. This factor,
        # which need not be whole, makes it the micro-batch's part of the mean over all.
        factor = tokens / part_tokens if self.settings.loss_type == "bnpo" else rows / part_rows
        self._trainer.current_gradient_accumulation_steps = factor
        part["num_items_in_batch"] = torch.tensor(tokens / factor)
        seen: list[Any] = []
        hook = self.base.model.register_forward_hook(lambda _m, _i, output: seen.append(output))
        try:
            with _global_generators_kept():
                torch.manual_seed(0)  # TRL shuffles the rows: always into the same order
                loss = self._trainer.training_step(self.base.model, part, None).item()
        finally:
            hook.remove()
        used = self._trainer._buffered_inputs[0]
        metrics = self._metrics(used, seen[-1].log_probs, seen[-1].entropy)
        self._trainer._buffered_inputs = None
        self._trainer._metrics["train"].clear()
        return loss, metrics

    @torch.no_grad()
    def _metrics(
        self, used: dict[str, torch.Tensor], logps: torch.Tensor, entropy: torch.Tensor
    ) -> dict[str, float]:
        """Sums over tokens; `used` and the other two have their rows in the same order."""
        mask_RT = used["completion_mask"].bool()
        width = mask_RT.shape[1]
        logps_RT, entropy_RT = logps[:, -width:], entropy[:, -width:]
        log_ratio_RT = logps_RT - used["old_per_token_logps"]
        low, high = self._trainer.epsilon_low, self._trainer.epsilon_high
        advantages_RT = used["advantages"]
        ratio_RT = log_ratio_RT.exp()
        clipped_RT = ((ratio_RT < 1 - low) & (advantages_RT < 0)) | (
            (ratio_RT > 1 + high) & (advantages_RT > 0)
        )
        values = {"entropy": entropy_RT, "sampler_kl": log_ratio_RT.abs()}
        if self.settings.loss_type in _CLIPPED_LOSSES:
            values["clip_fraction"] = clipped_RT.float()
        if "ref_per_token_logps" in used:
            difference_RT = used["ref_per_token_logps"] - logps_RT
            values["kl"] = difference_RT.exp() - difference_RT - 1
        return {key: float(value_RT[mask_RT].sum()) for key, value_RT in values.items()}

    def apply_gradients(self) -> None:
        """Clip, step the optimizer and the schedule, and count one version.

        Raises:
            ModelError: there are no gradients.
        """
        if all(parameter.grad is None for parameter in self._parameters):
            raise ModelError(f"learner {self.name!r} has no gradients: call compute_gradients.")
        if self.settings.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(self._parameters, self.settings.max_grad_norm)
        self._optimizer.step()
        self._scheduler.step()
        self.drop_gradients()
        self.version += 1

    def set_gradients(self, gradients: dict[str, torch.Tensor]) -> None:
        """Put these gradients, by the adapter's tensor names, where `apply_gradients` finds them.

        Raises:
            ShapeError: names or shapes are not those of the adapter.
        """
        own = self.base.trainable_parameters(self.name)
        if {k: p.shape for k, p in own.items()} != {k: g.shape for k, g in gradients.items()}:
            raise ShapeError(f"gradients do not fit the adapter of learner {self.name!r}.")
        for key, parameter in own.items():
            parameter.grad = gradients[key].to(parameter)

    def drop_gradients(self) -> None:
        """Take no step along what `compute_gradients` left."""
        for parameter in self._parameters:
            parameter.grad = None

    def replace_weights(self, tensors: dict[str, torch.Tensor], *, reset_moments: bool) -> None:
        """Go on with other weights, under a new version.

        Args:
            tensors: of the adapter.
            reset_moments: forget what the optimizer knows of the old ones; the schedule stays.

        Raises:
            ModelError: the tensors do not fit.
        """
        self.base.set_adapter_tensors(self.name, tensors)
        if reset_moments:
            self._optimizer.state.clear()
        self.version += 1

    @torch.no_grad()
    def token_logprobs(self, batch: TrainingBatch, adapter: str) -> NDArray[np.float32]:
        """(R, T) log-probabilities of the batch's tokens under an adapter; 0 where masked."""
        active = self.base.active
        self.base.activate(adapter)
        logprobs_RT = np.zeros(batch.completion_mask_RT.shape, dtype=np.float32)
        parts = _micro_batches(batch, self.settings.micro_batch_rows, self.base.device)
        for rows, part in parts:
            width = part["completion_ids"].shape[1]
            values, _, _ = self._trainer._get_per_token_logps_and_entropies(
                self.base.model,
                torch.cat([part["prompt_ids"], part["completion_ids"]], dim=1),
                torch.cat([part["prompt_mask"], part["completion_mask"]], dim=1),
                width,
            )
            logprobs_RT[rows, :width] = values.float().cpu().numpy()
        self.base.activate(active)
        return np.where(batch.completion_mask_RT, logprobs_RT, np.float32(0))

    @property
    def gradients(self) -> dict[str, torch.Tensor]:
        """The gradients by the adapter's tensor names, to read or to change in place."""
        return {
            key: parameter.grad
            for key, parameter in self.base.trainable_parameters(self.name).items()
            if parameter.grad is not None
        }

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Optimizer, schedule and version as tensors and JSON.

        The adapter's weights are not in it: `BaseModel.adapter_tensors` has them.
        """
        tensors, values = optimizer_state.pack(self._optimizer, self._scheduler)
        return tensors, {"version": self.version, "optimizer": self.settings.optimizer, **values}

    def load_state(self, tensors: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
        """Continue where `state` was taken.

        Raises:
            CheckpointError: it belongs to another optimizer or adapter shape.
        """
        if state["optimizer"] != self.settings.optimizer:
            raise CheckpointError(
                f"the checkpoint was made with optimizer={state['optimizer']!r}, the recipe says "
                f"{self.settings.optimizer!r}: use the same."
            )
        try:
            optimizer_state.unpack(self._optimizer, self._scheduler, tensors, state)
        except ValueError as error:
            raise CheckpointError(f"optimizer state does not fit {self.name!r}: {error}") from error
        self.version = int(state["version"])


def _micro_batches(
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
        yield some, {key: torch.from_numpy(array).to(device) for key, array in arrays.items()}


@contextmanager
def _global_generators_kept() -> Iterator[None]:
    """TRL seeds and draws from the process's generators; a neighbour must not notice."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (saved, not used)
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
