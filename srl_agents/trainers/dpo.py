"""DPO on TRL's losses: one adapter learns from pairs of replies that were played.

Pairs come from `srl_agents.credit.preferences`; TRL pads them and computes the loss against
log-probabilities of a reference that we compute. Source: arXiv:2305.18290.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from datasets import Dataset
from trl import DPOTrainer

from srl_agents.credit.by_game import Credit
from srl_agents.credit.preferences import Preference, PreferenceBatch, preferences
from srl_agents.models.base_model import BaseModel
from srl_agents.models.quiet import quiet_libraries
from srl_agents.records import Episode
from srl_agents.trainers.learner import AdapterLearner
from srl_agents.trainers.passes.own_head import OwnHead
from srl_agents.trainers.policy_gradient import reference_adapter

if TYPE_CHECKING:  # the settings make this learner
    from srl_agents.trainers.dpo_settings import DPOSettings

_REPORTED = ("rewards/accuracies", "rewards/margins", "rewards/chosen", "rewards/rejected")


class PairTrainer(DPOTrainer):  # type: ignore[misc]
    """TRL's trainer for one adapter; pairs bring their reference log-probabilities along."""

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
            # Left out, TRL would copy an adapter called "default", which there is not. This one
            # shares all weights and is only asked whether it exists: we compute the reference.
            ref_model=copy.copy(base.model.get_base_model()),
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=base.tokenizer,
        )
        self.precompute_ref_logps = True  # the losses read the batch's own

    def _prepare_dataset(self, dataset: Dataset, *_: Any) -> Dataset:
        """Return the dataset as it is: pairs come from outside, as tokens; TRL only requires a dataset."""
        return dataset

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save only this learner's adapter, not those of its neighbours."""
        self.base.save_adapter(self.adapter, Path(output_dir or self.args.output_dir))


class DPOLearner(AdapterLearner[PreferenceBatch]):
    """One adapter that learns from pairs."""

    def __init__(
        self, name: str, base: BaseModel, settings: DPOSettings, temperature: float, seed: int
    ) -> None:
        """Add the adapter if it does not exist, and build its optimizer.

        Args:
            name: of the adapter.
            base: the shared base.
            settings: of the updates.
            temperature: at which replies are sampled. Pairs may come from anywhere: the loss
                compares probabilities at temperature 1, whatever this is.
            seed: of a new adapter's weights.
        """
        self.temperature = temperature
        self.settings = settings
        self._head = OwnHead(base)
        super().__init__(name, base, settings, seed)
        self._reference = reference_adapter(base, name, settings.reference, settings.kl_coef)

    def _make_trainer(self, folder: Path) -> PairTrainer:
        cpu = self.base.device.type == "cpu"
        config = self.settings.to_trl(folder, seed=self.seed, cpu=cpu)
        with self._head.patching():
            return PairTrainer(self.base, self.name, config)

    def _backward(self, batch: PreferenceBatch) -> tuple[float, dict[str, float]]:
        """Add the gradient of the mean loss over the pairs, of which these may be a share.

        Returns:
            The loss, and means over all pairs of TRL's ``rewards/chosen``, ``rewards/rejected``
            (kl_coef times the log-ratio to the reference), ``rewards/margins`` and
            ``rewards/accuracies`` (chosen above rejected; with an offset: by more than that), and
            over the tokens of ``entropy`` (nats).
        """
        count, tokens = batch.extent.rows // 2, batch.extent.tokens
        loss, sums, entropy = 0.0, dict.fromkeys(_REPORTED, 0.0), 0.0
        for pairs in self._micro_batches(batch.pairs):
            inputs = self._inputs(pairs)
            self._trainer.current_gradient_accumulation_steps = count / len(pairs)
            with self._head.worn():
                loss += self._trainer.training_step(self.base.model, inputs, None).item()
            seen = self._trainer._metrics["train"]
            for key in _REPORTED:
                sums[key] += seen[key][0] * len(pairs) / count
            entropy += seen["entropy"][0] * float(inputs["completion_mask"].sum()) / tokens
            seen.clear()
        offset = self.settings.offset * sum(pair.margin for pair in batch.pairs) / count
        sums["rewards/chosen"] += offset  # the margin asked for on top is not a reward
        sums["rewards/margins"] += offset
        return loss, {**sums, "entropy": entropy}

    def _micro_batches(self, pairs: Sequence[Preference]) -> Iterator[list[Preference]]:
        """Pairs of like length together; a pair is two rows."""
        size = max(1, self.micro_batch_rows // 2)
        ordered = sorted(
            pairs,
            key=lambda p: -len(p.prompt_ids) - max(len(p.chosen_ids), len(p.rejected_ids)),
        )
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]

    def _inputs(self, pairs: Sequence[Preference]) -> dict[str, torch.Tensor]:
        """Padded rows under TRL's names, with the reference's log-probabilities per reply."""
        padded = self._trainer.data_collator(
            [
                {
                    "prompt_ids": list(pair.prompt_ids),
                    "chosen_ids": list(pair.chosen_ids),
                    "rejected_ids": list(pair.rejected_ids),
                }
                for pair in pairs
            ]
        )
        inputs = {key: tensor.to(self.base.device) for key, tensor in padded.items()}
        with self._head.worn(), self.base.through(self._reference), quiet_libraries():
            chosen, rejected = self._trainer.compute_ref_log_probs(self.base.model, inputs)
        if self.settings.offset:
            margins = torch.tensor([pair.margin for pair in pairs]).to(chosen)
            chosen = chosen + self.settings.offset * margins / self.settings.kl_coef
        return inputs | {"ref_chosen_logps": chosen, "ref_rejected_logps": rejected}


@dataclass(frozen=True)
class PreferencePairs:
    """Pairs by credit and by outcome; see `srl_agents.credit.preferences`.

    Args:
        learners: all of them.
        credit: what attempts were worth.
    """

    learners: Mapping[str, DPOLearner]
    credit: Credit

    def batch(
        self, learner: str, episodes: Sequence[Episode], policy: str
    ) -> tuple[PreferenceBatch | None, dict[str, float]]:
        """See `Experience`; an update without pairs reports ``pairs`` 0 and takes no step."""
        own = self.learners[learner]
        rows, values = self.credit.assign(episodes, learner, policy)
        pairs, counts = preferences(episodes, rows, policy, own.settings.pairs)
        values |= counts
        if not pairs:
            return None, values
        return PreferenceBatch(learner=learner, pairs=tuple(pairs)), values
