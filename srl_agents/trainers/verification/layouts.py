"""Ways in which the trainers lay rows out, and what real learners compute in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.models.base_model import BaseModel
from srl_agents.models.weights.lora_targets import Targets
from srl_agents.records import CriticBatch, TrainingBatch, WeightVersion
from srl_agents.trainers.algorithms import AlgorithmSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients
from srl_agents.trainers.verification.drawing import Row
from srl_agents.trainers.verification.expected import Gradients, Pair, Sheet, Tensors
from srl_envs.errors import ConfigError

_ALL, _FEW = 64, 4
"""Rows of a pass: all, or so few that there are several passes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """One way to lay rows out."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that turn it on."""
    parts: int = 1
    """Shares of the batch whose gradients are added, as by several processes."""
    mixes: bool = False
    """Whether rows of several learners share passes."""

    def settings(self, settings: AlgorithmSettings) -> AlgorithmSettings | None:
        """Settings of an algorithm in this layout; None where the algorithm has no such layout."""
        known = {entry.name for entry in fields(settings)}
        if not known.issuperset(self.changes):
            return None
        if self.mixes and not isinstance(settings, GRPOSettings):
            return None
        plain = {name: value for name, value in _PLAIN.items() if name in known}
        try:
            return replace(settings, **{**plain, **self.changes})
        except ConfigError:  # the algorithm refuses it, as PPO's own adapter does checkpointing
            return None


_PLAIN: Mapping[str, Any] = {
    "share_prefixes": False,
    "pack_rows": False,
    "log_probabilities": "trl",
    "gradient_checkpointing": False,
    "micro_batch_rows": _ALL,
    "autocast": False,
}
"""Settings of padded float32 rows in one pass; an algorithm that lacks one of them has nothing else."""
LAYOUTS = (
    Layout(name="padded"),
    Layout(name="padded, several passes", changes={"micro_batch_rows": _FEW}),
    Layout(name="shared prefixes", changes={"share_prefixes": True}),
    Layout(
        name="shared prefixes, several passes",
        changes={"share_prefixes": True, "micro_batch_rows": _FEW},
    ),
    Layout(name="packed rows", changes={"pack_rows": True}),
    Layout(name="chunked logits", changes={"log_probabilities": "chunked"}),
    Layout(
        name="chunked logits, shared prefixes",
        changes={"log_probabilities": "chunked", "share_prefixes": True},
    ),
    Layout(name="divided batch", changes={"micro_batch_rows": _FEW}, parts=2),
    Layout(name="mixed adapters", mixes=True),
    Layout(
        name="recomputed activations",
        changes={"gradient_checkpointing": True, "micro_batch_rows": _FEW},
    ),
    Layout(
        name="recomputed activations, shared prefixes",
        changes={"gradient_checkpointing": True, "share_prefixes": True},
    ),
)
"""All of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterForm:
    """LoRA factors of a recipe."""

    rank: int = 4
    alpha: float = 16.0
    targets: Targets = "all-linear"
    excluded: tuple[str, ...] = ()
    activation: Literal["start", "reply"] = "start"


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Weights that learners are given, by the names of their tensors."""

    adapters: Mapping[str, Tensors]
    """Tensors of each learner's adapter, by name."""
    start: Tensors
    """With which learners are made."""
    critic: Tensors
    """Of a critic: of its head and of its adapter."""


class Learners:
    """Real learners on bases of one folder, made anew for every computation."""

    def __init__(self, folder: Path, form: AdapterForm, temperature: float) -> None:
        """Load nothing yet.

        Args:
            folder: of the model.
            form: of the adapters.
            temperature: of sampling.
        """
        self._folder, self._form, self._temperature = folder, form, temperature
        self._bases: dict[tuple[str, bool], BaseModel] = {}

    def base(self, head: str = "trl", *, entropy_learns: bool = False) -> BaseModel:
        """A base for learners that score tokens with one head: the first learner's head stays on it.

        Args:
            head: ``trl`` or ``chunked``.
            entropy_learns: whether the loss sends gradients through entropies; TRL's head always can.
        """
        key = head, entropy_learns and head != "trl"
        if key not in self._bases:
            form = self._form
            self._bases[key] = BaseModel.load(
                self._folder,
                lora_rank=form.rank,
                lora_alpha=form.alpha,
                lora_targets=form.targets,
                lora_excluded=form.excluded,
                lora_activation=form.activation,
                dtype="float32",
                device="cpu",
            )
        return self._bases[key]

    def gradients(
        self,
        settings: AlgorithmSettings,
        layout: Layout,
        batches: Mapping[str, Any],
        weights: Weights,
    ) -> dict[str, Gradients]:
        """Loss and gradients of each learner in one layout.

        Args:
            settings: of the algorithm, in the layout.
            layout: of the rows.
            batches: of each learner; only the first is used where learners do not mix.
            weights: of all of them.

        Raises:
            ConfigError: the model refuses the layout.
        """
        if self._form.activation == "reply" and settings.gradient_checkpointing:
            raise ConfigError(
                "gradient_checkpointing: adapters that act from the reply on cannot be recomputed."
            )
        base = self.base(
            str(getattr(settings, "log_probabilities", "trl")),
            entropy_learns=bool(getattr(settings, "entropy_coef", 0.0)),
        )
        names = list(batches) if layout.mixes else list(batches)[:1]
        try:
            return self._gradients(base, settings, layout, {n: batches[n] for n in names}, weights)
        except ConfigError:  # TRL's head may be on the base, which a next learner would take over
            self._bases = {key: own for key, own in self._bases.items() if own is not base}
            raise

    def _gradients(
        self,
        base: BaseModel,
        settings: AlgorithmSettings,
        layout: Layout,
        batches: Mapping[str, Any],
        weights: Weights,
    ) -> dict[str, Gradients]:
        names = list(batches)
        with self._learners(base, settings, names, weights.start) as learners:
            for name, learner in learners.items():
                base.set_adapter_tensors(name, weights.adapters[name])
                with torch.no_grad():
                    for key, parameter in learner._extras.items():
                        parameter.copy_(weights.critic[key])
            if layout.mixes:
                metrics = mixed_gradients(learners, batches)
                return {n: _found(learners[n], metrics[n]["loss"]) for n in names}
            (name,) = names
            learner, batch = learners[name], batches[name]
            learner.begin(batch)
            parts = [batch]
            if layout.parts > 1:
                parts = [batch.share(part, layout.parts) for part in range(layout.parts)]
            loss = sum(learner.add_gradients(part)[0] for part in parts)
            return {name: _found(learner, loss)}

    @contextmanager
    def _learners(
        self, base: BaseModel, settings: AlgorithmSettings, names: Sequence[str], start: Tensors
    ) -> Iterator[dict[str, Any]]:
        """Learners that begin with these weights; afterwards nothing but their adapters is left."""
        for name in set(names).difference(base.adapters):
            base.add_adapter(name, seed=0)
        before = set(base.adapters)
        for name in names:
            base.set_adapter_tensors(name, start)
        try:
            yield {
                name: settings.make_learner(name, base, temperature=self._temperature, seed=0)
                for name in names
            }
        finally:
            if settings.gradient_checkpointing:  # on for the base once a learner asked for it
                base.model.get_base_model().activation_checkpointing_disable()
            for name in set(base.adapters) - before:
                base.remove_adapter(name)


def row_batch(
    learner: str, rows: Sequence[Row], sheet: Sheet, pad: int, numbers: Sequence[int]
) -> TrainingBatch:
    """Some of the rows as a trainer reads them: prompts padded on the left, replies on the right.

    Args:
        learner: whose batch it is.
        rows: all of them.
        sheet: what the algorithm gets for all of them.
        pad: token that pads.
        numbers: of the rows that are taken.
    """
    some = [rows[number] for number in numbers]
    width, columns = max(len(r.prompt) for r in some), max(len(r.reply) for r in some)

    def padded(given: Sequence[Sequence[Any] | NDArray[Any]], kind: Any, fill: Any) -> NDArray[Any]:
        array = np.full((len(some), columns), fill, dtype=kind)
        for place, entries in enumerate(given):
            array[place, : len(entries)] = entries
        return array

    prompts, shown = np.full((len(some), width), pad), np.zeros((len(some), width), dtype=bool)
    for place, row in enumerate(some):
        prompts[place, width - len(row.prompt) :] = row.prompt
        shown[place, width - len(row.prompt) :] = True
    arrays: dict[str, Any] = {
        "learner": learner,
        "versions": (WeightVersion(learner, 0, "0" * 16),) * len(some),
        "prompt_ids_RP": prompts,
        "prompt_mask_RP": shown,
        "completion_ids_RT": padded([r.reply for r in some], np.int64, pad),
        "completion_mask_RT": padded([np.ones(len(r.reply), bool) for r in some], np.bool_, False),
        "learned_RT": padded([r.learned_T for r in some], np.bool_, False),
        "logprobs_RT": padded([sheet.sampled[n] for n in numbers], np.float32, 0),
        "advantages_RT": padded([sheet.advantages[n] for n in numbers], np.float32, 0),
    }
    if sheet.values is None or sheet.returns is None:
        return TrainingBatch(**arrays)
    return CriticBatch(
        **arrays,
        values_RT=padded([sheet.values[n] for n in numbers], np.float32, 0),
        returns_RT=padded([sheet.returns[n] for n in numbers], np.float32, 0),
    )


def pair_batch(learner: str, pairs: Sequence[Pair]) -> PreferenceBatch:
    """Pairs as a trainer reads them."""
    return PreferenceBatch(
        learner=learner,
        pairs=tuple(
            Preference(
                start="",
                prompt_ids=tuple(prompt),
                chosen_ids=tuple(chosen),
                rejected_ids=tuple(rejected),
                chosen_by=(learner,),
                rejected_by=(learner,),
                margin=margin,
                source="rank",
            )
            for prompt, chosen, rejected, margin in pairs
        ),
    )


def _found(learner: Any, loss: float) -> Gradients:
    critic = {
        key: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for key, parameter in learner._extras.items()
    }
    adapter = {key: gradient.clone() for key, gradient in learner.gradients.items()}
    return Gradients(loss=loss, adapter=adapter, critic=critic)
