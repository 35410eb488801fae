"""Policy-gradient updates on TRL's GRPO and RLOO trainers: the input of rows, and their results.

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
from trl import GRPOConfig, GRPOTrainer, RLOOTrainer

from srl_agents.models.base_model import BaseModel
from srl_agents.records import CriticBatch, TrainingBatch, digest
from srl_agents.trainers.learner import global_generators_kept
from srl_agents.trainers.passes.attention_reach import AttentionReach
from srl_agents.trainers.passes.packed_rows import PackedRows, check_packing, pack_rows
from srl_agents.trainers.passes.row_positions import (
    has_position_table,
    positions_given,
    row_positions,
)
from srl_agents.trainers.passes.shared_prefixes import SharedPrefixes, share_prefixes, worth_sharing
from srl_agents.trainers.passes.token_head import TokenHead, wear_token_head
from srl_envs.errors import ConfigError, ShapeError

LARGEST_KL = "kl/max"
"""The one metric that is not a mean over tokens."""
_CLIPPED_LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_ROW_MEANS = ("grpo", "sapo", "dr_grpo", "luspo")
"""Losses that TRL averages over rows; the others over tokens."""

_TEMPERATURE: WeakKeyDictionary[BaseModel, float] = WeakKeyDictionary()
"""TRL patches its temperature into the model, so learners of one base cannot differ in it."""


class RowTrainer(GRPOTrainer):  # type: ignore[misc]
    """TRL's trainer for one adapter; overrides where rows enter and what is saved."""

    _buffered_inputs: Any
    _seen: tuple[torch.Tensor, torch.Tensor | None]

    def __init__(
        self,
        base: BaseModel,
        adapter: str,
        config: GRPOConfig,
        *,
        kl_coef: float = 0.0,
        reference: str | None = None,
        reach: AttentionReach | None = None,
        pack: bool = False,
        head: TokenHead = "auto",
    ) -> None:
        """Build TRL's trainer around the shared model.

        Args:
            base: owner of the model.
            adapter: the active adapter, which the optimizer will hold.
            config: TRL's.
            kl_coef: weight of TRL's own KL term over the reference that we compute.
            reference: adapter that the KL term is measured from; None is the frozen base.
            reach: the windows of the model's layers, where what rows begin with is read once.
            pack: read rows as one sequence without padding.
            head: what scores tokens; that of the base's first learner serves all.

        Raises:
            ConfigError: the model cannot pack rows, or has no such head.
        """
        self.base = base
        self.adapter = adapter
        self.share = reach is not None
        """Whether rows that begin alike belong into one micro-batch."""
        self._pack = pack
        if pack:
            check_packing(base)
        self._has_position_table = has_position_table(base)
        self._reach = reach
        self._reference = reference
        self._used_layout: SharedPrefixes | None = None
        self._scored: tuple[torch.Tensor, torch.Tensor] | None = None
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
        else:
            learns = bool(config.entropy_coef)
            wear_token_head(base, head, self.temperature, entropy_learns=learns)
        self.beta = kl_coef

    def _generate_and_score_completions(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Rows are sampled and judged already; only the reference is missing."""
        if self.beta:
            with torch.no_grad(), self.base.through(self._reference):
                inputs["ref_per_token_logps"] = self.row_logprobs(inputs)
        return inputs

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save only this learner's adapter.

        transformers saves, and on resume loads, all adapters of the shared base, which would
        throw the other learners back to old weights.
        """
        self.base.save_adapter(self.adapter, Path(output_dir or self.args.output_dir))

    def row_logprobs(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """(R, T) log-probabilities of the completions of rows under TRL's names."""
        values, _, _ = self._get_per_token_logps_and_entropies(
            self.base.model,
            torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1),
            torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1),
            rows["completion_ids"].shape[1],
        )
        return values

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """TRL's, or one forward over shared prefixes with the same numbers; the result is kept."""
        auxiliary = None
        self._used_layout = self._layout(input_ids, attention_mask, logits_to_keep)
        if self._scored is not None:
            logps, entropy = self._scored
        elif self._reach is not None and self._used_layout is not None:
            logps, entropy = self._over_shared_prefixes(model, self._used_layout, self._reach)
        elif self._pack:
            packed = pack_rows(
                input_ids,
                attention_mask,
                logits_to_keep,
                self._acted(input_ids.shape[1], logits_to_keep),
            )
            logps, entropy = self._over_packed_rows(model, packed)
        else:
            logps, entropy, auxiliary = self.padded_scores(
                model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
            )
        self._seen = logps.detach(), None if entropy is None else entropy.detach()
        return logps, entropy, auxiliary

    def padded_scores(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """TRL's log-probabilities, entropies and balance of routers, of rows that are read one by one."""
        acting = self.base.acting(self._acted(input_ids.shape[1], logits_to_keep))
        with acting, positions_given(self.base, table=self._has_position_table):
            scores: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None] = (
                super()._get_per_token_logps_and_entropies(
                    model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
                )
            )
        return scores

    def _over_shared_prefixes(
        self, model: Any, layout: SharedPrefixes, reach: AttentionReach
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(R, T) log-probabilities and entropies."""
        inputs = reach.inputs(layout, model.dtype)
        with self.accelerator.autocast(), self.base.acting(layout.acted_GL):
            output = model(**inputs, shift_labels=layout.labels_GL, fused_lm_head=True)
        return layout.rows(output.log_probs), layout.rows(output.entropy)

    def _over_packed_rows(
        self, model: Any, packed: PackedRows
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(R, T) log-probabilities and entropies."""
        with self.accelerator.autocast(), self.base.acting(packed.acted_1N):
            output = model(
                input_ids=packed.input_ids_1N,
                position_ids=packed.position_ids_1N,
                shift_labels=packed.labels_1N,
                fused_lm_head=True,
            )
        return packed.rows(output.log_probs), packed.rows(output.entropy)

    def _layout(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int
    ) -> SharedPrefixes | None:
        """Rows that begin alike in one sequence; None where rows are read one by one."""
        if self._reach is None or self._scored is not None:
            return None
        ids_RL, mask_RL = input_ids.cpu().numpy(), attention_mask.bool().cpu().numpy()
        prompts, replies = (
            [ids[mask] for ids, mask in zip(ids_RL[:, part], mask_RL[:, part], strict=True)]
            for part in (slice(-logits_to_keep), slice(-logits_to_keep, None))
        )
        width = self.base.model.config.get_text_config().hidden_size
        last = self.base.activated_tokens
        if not worth_sharing(prompts, replies, width=width, activated_tokens=last):
            return None
        return share_prefixes(
            prompts, replies, width=width, device=input_ids.device, activated_tokens=last
        )

    def _acted(self, columns: int, reply_columns: int) -> torch.Tensor:
        """(1, L) the places of replies and of what begins them, of prompts that are padded on the left."""
        first = columns - reply_columns - self.base.activated_tokens
        return (torch.arange(columns, device=self.base.device) >= first)[None]

    def last_hidden(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """(R, T, H) the state of the model from which each completion token was written."""
        ids = torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1)
        mask = torch.cat([rows["prompt_mask"], rows["completion_mask"]], dim=1)
        tokens = rows["completion_ids"].shape[1]
        layout, inputs = None, {"input_ids": ids, "attention_mask": mask}
        if self._reach is not None and (layout := self._layout(ids, mask, tokens)) is not None:
            inputs = self._reach.inputs(layout, self.backbone.dtype)
        elif self._has_position_table:
            inputs["position_ids"] = row_positions(mask)
        with self.accelerator.autocast():
            hidden = self.backbone(**inputs, use_cache=False).last_hidden_state
        return self._of_tokens(hidden, tokens, layout)

    @property
    def backbone(self) -> Any:
        """The model without its language head."""
        return self.base.model.get_base_model().base_model

    @staticmethod
    def _of_tokens(
        hidden: torch.Tensor, tokens: int, layout: SharedPrefixes | None
    ) -> torch.Tensor:
        """(R, T, H) the states from which completion tokens were written, of a forward's output."""
        return hidden[:, -tokens - 1 : -1] if layout is None else layout.rows(hidden)

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
        self._set_share(rows, all_rows, all_tokens)
        with global_generators_kept(self.base.device):
            torch.default_generator.manual_seed(0)  # TRL shuffles the rows: always alike
            loss = self.training_step(self.base.model, rows, None).item()
        used = self._buffered_inputs[0]
        self._buffered_inputs = None
        return loss, self._told(used)

    def prepared(
        self, rows: dict[str, torch.Tensor], all_rows: int, all_tokens: float
    ) -> dict[str, torch.Tensor]:
        """What the loss of a micro-batch reads, for `loss_on`, of a model that trains; arguments as those of
        `backward`."""
        self._set_share(rows, all_rows, all_tokens)
        with global_generators_kept(self.base.device):
            torch.default_generator.manual_seed(0)
            inputs: dict[str, torch.Tensor] = self._prepare_inputs(rows)
        self._buffered_inputs = None
        return inputs

    def loss_on(
        self, inputs: dict[str, torch.Tensor], logps: torch.Tensor, entropy: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """The micro-batch's share of the loss where the caller made the forward pass.

        Args:
            inputs: from `prepared`.
            logps: (R, T) log-probabilities, with their graph.
            entropy: (R, T) entropies.

        Returns:
            The loss, and metrics summed over its tokens.
        """
        self._scored = logps, entropy
        try:
            with self.compute_loss_context_manager():
                loss: torch.Tensor = self.compute_loss(self.base.model, inputs)
        finally:
            self._scored = None
        return loss, self._told(inputs)

    def _told(self, used: dict[str, torch.Tensor]) -> dict[str, float]:
        metrics = self._token_sums(used, *self._seen)
        self._metrics["train"].clear()
        return metrics

    def _set_share(self, rows: dict[str, torch.Tensor], all_rows: int, all_tokens: float) -> None:
        """Tell TRL what part of the batch the micro-batch is."""
        part_rows = len(rows["completion_ids"])
        part_tokens = float(rows["tool_mask"].sum())
        # TRL divides a mean over the micro-batch by the number of micro-batches. This factor,
        # which need not be whole, makes it the micro-batch's part of the mean over all.
        by_rows = self.loss_type in _ROW_MEANS
        factor = all_rows / part_rows if by_rows else all_tokens / part_tokens
        self.current_gradient_accumulation_steps = factor
        rows["num_items_in_batch"] = torch.tensor(all_tokens / factor)
        self.entropy_coef = self.args.entropy_coef * factor * part_tokens / all_tokens

    @torch.no_grad()
    def _token_sums(
        self,
        used: dict[str, torch.Tensor],
        logps_RT: torch.Tensor,
        entropy_RT: torch.Tensor | None,
    ) -> dict[str, float]:
        """Metrics summed over tokens; all arguments have their rows in the same order."""
        mask_RT = used["tool_mask"].bool()
        log_ratio_RT = (logps_RT - used["old_per_token_logps"]) * mask_RT
        values = {"sampler_kl": log_ratio_RT.abs()}
        if entropy_RT is not None:
            values["entropy"] = entropy_RT
        clipped_RT = self._clipped(log_ratio_RT, mask_RT, used["advantages"])
        if clipped_RT is not None:
            values["clip_fraction"] = clipped_RT.float().expand_as(mask_RT)
        if "ref_per_token_logps" in used:
            difference_RT = used["ref_per_token_logps"] - logps_RT
            values["kl"] = difference_RT.exp() - difference_RT - 1
        sums = {key: float(value_RT[mask_RT].sum()) for key, value_RT in values.items()}
        if "kl" in values:
            sums[LARGEST_KL] = float(values["kl"][mask_RT].max())
        return sums

    def _clipped(
        self, log_ratio_RT: torch.Tensor, mask_RT: torch.Tensor, advantages: torch.Tensor
    ) -> torch.Tensor | None:
        """(R, T) or (R, 1): whose ratio is clipped; None if this loss clips nothing."""
        if self.importance_sampling_level == "sequence":
            log_ratio_RT = log_ratio_RT.sum(1, keepdim=True) / mask_RT.sum(1, keepdim=True)
        ratio_RT = log_ratio_RT.exp()
        if self.loss_type == "cispo":
            return ratio_RT.gt(self.epsilon_high) & (advantages > 0)
        if self.loss_type not in _CLIPPED_LOSSES:
            return None
        return self._outside(ratio_RT, advantages)

    def _outside(self, ratio: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        """Like both: whether a ratio has left the clipped range on the side where its gradient is cut."""
        low, high = ratio.lt(1 - self.epsilon_low), ratio.gt(1 + self.epsilon_high)
        return (low & (advantages < 0)) | (high & (advantages > 0))


class LeaveOneOutTrainer(RowTrainer):
    """With TRL's RLOO loss: one clipped ratio per row, that of its whole text.

    TRL's own RLOO trainer refuses a model whose adapter is not called "default".
    """

    _learned_RT: torch.Tensor | int = 1
    """Mask of the rows that enter the loss."""

    def _generate_and_score_completions(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """TRL's rows have one advantage and one old log-probability each."""
        mask_RT, advantages_RT = inputs["tool_mask"], inputs["advantages"]
        whole_R1 = advantages_RT.gather(1, mask_RT.argmax(1, keepdim=True))  # of the first learned
        uneven_RT = (advantages_RT != whole_R1) & mask_RT.bool()
        if uneven_RT.any():
            raise ShapeError(
                "loss_type 'rloo' weighs whole replies, and these have an advantage for each token: "
                "use another loss_type, or no teacher and no importance weights per token."
            )
        inputs["advantages"] = whole_R1[:, 0]
        inputs["old_logps"] = (inputs["old_per_token_logps"] * mask_RT).sum(1)
        return inputs

    def _get_per_token_logps_and_entropies(
        self, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """TRL's, with log-probabilities set to 0 where nothing is learned: the loss sums whole rows."""
        logps, entropy, auxiliary = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return logps * self._learned_RT, entropy, auxiliary

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._learned_RT = inputs["tool_mask"]  # in the order of the loss
        loss: torch.Tensor = RLOOTrainer._compute_loss(self, model, inputs)
        self._learned_RT = 1
        return loss / self.current_gradient_accumulation_steps

    def _clipped(
        self, log_ratio_RT: torch.Tensor, mask_RT: torch.Tensor, advantages: torch.Tensor
    ) -> torch.Tensor:
        return self._outside(log_ratio_RT.sum(1).exp(), advantages)[:, None]


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


def reference_adapter(base: BaseModel, name: str, reference: str, kl_coef: float) -> str | None:
    """The frozen adapter that a learner's divergence is measured from; None is the base.

    Args:
        base: gets the adapter if it has it not.
        name: the learner's adapter, as it is when the run begins.
        reference: ``base``, ``start``, or the folder of a saved adapter.
        kl_coef: without a weight there is nothing to measure, and no adapter is added.

    Raises:
        ModelError: the folder holds no adapter that fits the base.
    """
    if reference == "base" or not kl_coef:
        return None
    frozen = f"{name}@start" if reference == "start" else f"{name}@{digest(reference)[:8]}"
    if frozen not in base.adapters:  # a second learner of the adapter shares it
        if reference == "start":
            base.add_adapter(frozen, seed=0)
            base.set_adapter_tensors(frozen, base.adapter_tensors(name))
        else:
            base.load_adapter(frozen, Path(reference))
    return frozen


def backward_batch(
    trainer: RowTrainer, batch: TrainingBatch, micro_batch_rows: int
) -> tuple[float, dict[str, float]]:
    """Add the gradient of the loss over a batch, or a share of it, micro-batch by micro-batch.

    Returns:
        The loss, and means over the whole batch's tokens of ``kl`` (to the reference; only with a
        coefficient; ``kl/max`` is the largest), ``entropy`` (nats), ``clip_fraction`` and
        ``sampler_kl`` (absolute difference between the log-probabilities now and when sampled).
    """
    whole = batch.extent
    sums = TokenSums(whole.tokens)
    for _, part in micro_batches(batch, micro_batch_rows, trainer.base.device, share=trainer.share):
        if part["tool_mask"].any():  # rows of which nothing is learned have no gradient
            sums.add(*trainer.backward(part, whole.rows, whole.tokens))
    return sums.loss, sums.means


def passes_over(batch: TrainingBatch, micro_batch_rows: int, *, share: bool) -> int:
    """Passes that `backward_batch` makes."""
    parts = micro_batches(batch, micro_batch_rows, torch.device("cpu"), share=share)
    return sum(bool(part["tool_mask"].any()) for _, part in parts)


class TokenSums:
    """Loss and metrics of one batch, micro-batch by micro-batch.

    Args:
        tokens: of the batch.
    """

    def __init__(self, tokens: float) -> None:
        self._tokens = tokens
        self.loss = 0.0
        self._sums: dict[str, float] = {}

    def add(self, loss: float, metrics: dict[str, float]) -> None:
        """Take in a micro-batch: its share of the loss, metrics summed over its tokens."""
        self.loss += loss
        for key, metric in metrics.items():
            before = self._sums.get(key, 0.0)
            self._sums[key] = max(before, metric) if key == LARGEST_KL else before + metric

    @property
    def means(self) -> dict[str, float]:
        """Metrics per token."""
        return {
            key: value if key == LARGEST_KL else value / self._tokens
            for key, value in self._sums.items()
        }


@torch.no_grad()
def token_logprobs(
    trainer: RowTrainer, batch: TrainingBatch, adapter: str, micro_batch_rows: int
) -> NDArray[np.float32]:
    """(R, T) log-probabilities under an adapter of tokens that are learned; 0 elsewhere."""
    base = trainer.base
    active = base.active
    base.activate(adapter)
    logprobs_RT = np.zeros(batch.completion_mask_RT.shape, dtype=np.float32)
    for rows, part in micro_batches(batch, micro_batch_rows, base.device, share=trainer.share):
        values = trainer.row_logprobs(part)
        logprobs_RT[rows, : values.shape[1]] = values.float().cpu().numpy()
    base.activate(active)
    return np.where(batch.learned_RT, logprobs_RT, np.float32(0))


def micro_batches(
    batch: TrainingBatch, rows: int, device: torch.device, *, share: bool = False
) -> Iterator[tuple[NDArray[np.intp], dict[str, torch.Tensor]]]:
    """Rows of like length together, trimmed to their longest, under TRL's names; and which rows.

    With ``share``, rows that begin alike stand together.
    """
    prompt_R, reply_R = batch.prompt_mask_RP.sum(axis=1), batch.completion_mask_RT.sum(axis=1)
    order = np.argsort(-(prompt_R + reply_R), kind="stable")
    if share:
        prompts = [
            ids[mask].tolist()
            for ids, mask in zip(batch.prompt_ids_RP, batch.prompt_mask_RP, strict=True)
        ]
        order = np.array(sorted(order, key=lambda row: prompts[row]))
    for start in range(0, len(order), rows):
        some = order[start : start + rows]
        left = batch.prompt_ids_RP.shape[1] - int(prompt_R[some].max())
        width = int(reply_R[some].max())
        arrays = {
            "prompt_ids": batch.prompt_ids_RP[some, left:],
            "prompt_mask": batch.prompt_mask_RP[some, left:].astype(np.int64),
            "completion_ids": batch.completion_ids_RT[some, :width],
            "completion_mask": batch.completion_mask_RT[some, :width].astype(np.int64),
            "tool_mask": batch.learned_RT[some, :width].astype(np.int64),  # TRL's name
            "advantages": batch.advantages_RT[some, :width],
            "old_per_token_logps": batch.logprobs_RT[some, :width],
        }
        if isinstance(batch, CriticBatch):
            arrays |= {
                "values": batch.values_RT[some, :width],
                "returns": batch.returns_RT[some, :width],
            }
        yield some, {key: torch.from_numpy(array).to(device) for key, array in arrays.items()}
