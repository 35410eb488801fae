"""Gradients of several learners of one base in one pass: each row goes through its own learner's adapter.

The base's weights are read once for all rows, so many learners with few rows each cost what one learner
with all of the rows costs. Each learner's loss is TRL's, over its own rows, and no loss depends on another's
adapter, so the gradients are those of separate passes, up to rounding. No optimizer steps here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import pad

from srl_agents.models.base_model import BaseModel
from srl_agents.models.memory.available import memory_limit
from srl_agents.records import TrainingBatch
from srl_agents.trainers.policy_gradient import RowTrainer, TokenSums, micro_batches

Inputs = dict[str, torch.Tensor]


class MixingLearner(Protocol):
    """A learner whose rows may stand in one batch with others'."""

    name: str
    base: BaseModel

    @property
    def trainer(self) -> RowTrainer:
        """The trainer that computes its loss."""

    @property
    def micro_batch_rows(self) -> int:
        """Most rows of one pass."""

    def begin(self, batch: Any) -> None:
        """See `AdapterLearner`."""

    def checked(self, loss: float, metrics: dict[str, float]) -> dict[str, float]:
        """See `AdapterLearner`."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one learner in one pass."""

    learner: MixingLearner
    rows: Inputs

    def __len__(self) -> int:
        return len(self.rows["completion_ids"])


def mixed_gradients(
    learners: Mapping[str, MixingLearner], batches: Mapping[str, TrainingBatch]
) -> dict[str, dict[str, float]]:
    """Put the gradient of its loss on every learner.

    Args:
        learners: of one base, by name; their rows are read one by one.
        batches: by learner.

    Returns:
        By learner, what its `AdapterLearner.compute_gradients` would return.

    Raises:
        ModelError: a gradient is not finite.
        MemoryLimitError: a pass does not fit into memory.
    """
    tokens = {name: float(batch.learned_RT.sum()) for name, batch in batches.items()}
    sums = {name: TokenSums(count) for name, count in tokens.items()}
    for name, batch in batches.items():
        learners[name].begin(batch)
    first = next(iter(learners.values()))
    if not first.base.model.training:
        first.base.model.train()  # walks over the modules of all adapters
    for waiting in _passes(learners, batches):
        # factors of neighbours with equally many rows are one product
        parts = sorted(waiting, key=len)
        inputs = [
            part.learner.trainer.prepared(
                part.rows, batches[part.learner.name].rows, tokens[part.learner.name]
            )
            for part in parts
        ]
        for part, loss, metrics in _backward(parts, inputs):
            sums[part.learner.name].add(loss, metrics)
    return {name: learners[name].checked(own.loss, own.means) for name, own in sums.items()}


def _backward(
    parts: Sequence[_Part], inputs: Sequence[Inputs]
) -> Iterator[tuple[_Part, float, dict[str, float]]]:
    """One forward and one backward pass over all parts."""
    (first, *_), base = parts, parts[0].learner.base
    owners = [part.learner.name for part in parts for _ in range(len(part))]
    doing = f"update of {len(parts)} learners on {len(owners)} rows, on {base.device}"
    base.activate(first.learner.name)
    with memory_limit(doing, "micro_batch_rows"), base.learning(owners):
        logps_RT, entropy_RT = _scores(first.learner.trainer, inputs)
        losses, start = [], 0
        for part, own in zip(parts, inputs, strict=True):
            place = slice(start, start + len(part)), slice(0, own["completion_ids"].shape[1])
            loss, metrics = part.learner.trainer.loss_on(own, logps_RT[place], entropy_RT[place])
            losses.append((part, loss, metrics))
            start += len(part)
        torch.stack([loss for _, loss, _ in losses]).sum().backward()  # type: ignore[no-untyped-call]
    for part, loss, metrics in losses:
        yield part, loss.item(), metrics


def _scores(trainer: RowTrainer, inputs: Sequence[Inputs]) -> tuple[torch.Tensor, torch.Tensor]:
    """(R, T) log-probabilities and entropies of all rows, padded to the longest."""
    prompts, replies = (
        [
            torch.cat([_widened(own[f"{kind}_{what}"], width, left=left) for own in inputs])
            for what in ("ids", "mask")
        ]
        for kind, left in (("prompt", True), ("completion", False))
        for width in [max(own[f"{kind}_ids"].shape[1] for own in inputs)]
    )
    (prompt_ids, prompt_mask), (reply_ids, reply_mask) = prompts, replies
    logps, entropy, _ = trainer.padded_scores(
        trainer.base.model,
        torch.cat([prompt_ids, reply_ids], dim=1),
        torch.cat([prompt_mask, reply_mask], dim=1),
        reply_ids.shape[1],
        compute_entropy=True,
    )
    if entropy is None:
        raise TypeError("TRL was asked for entropies.")
    return logps, entropy


def _widened(tensor: torch.Tensor, width: int, *, left: bool) -> torch.Tensor:
    """With zeros, which masks hide, on the left or on the right."""
    more = width - tensor.shape[1]
    return pad(tensor, (more, 0) if left else (0, more))


def _passes(
    learners: Mapping[str, MixingLearner], batches: Mapping[str, TrainingBatch]
) -> Iterator[list[_Part]]:
    """Micro-batches of all learners, filled up with those of others while rows are few enough."""
    waiting: list[_Part] = []
    most = min(learners[name].micro_batch_rows for name in batches)
    for name, batch in batches.items():
        learner = learners[name]
        for _, rows in micro_batches(batch, most, learner.base.device):
            part = _Part(learner, rows)
            if sum(map(len, waiting)) + len(part) > most:
                yield waiting
                waiting = []
            waiting.append(part)
    if waiting:
        yield waiting
