"""Comparison of the trainers' losses and gradients with the independent computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.verification.cases import Case, pair_objective
from srl_agents.trainers.verification.drawing import draw_factors, draw_pairs, draw_rows
from srl_agents.trainers.verification.expected import Adapter, Gradients, Tensors
from srl_agents.trainers.verification.independent.plain_policy import PlainPolicy
from srl_agents.trainers.verification.layouts import (
    AdapterForm,
    Layout,
    Learners,
    Weights,
    pair_batch,
    row_batch,
)
from srl_envs.errors import ConfigError

BOUND = 5e-4
"""Largest difference that rounding in float32 may explain."""
LEAST_CLIPPED = 0.1
"""Share of tokens that must be clipped for clipping to be verified."""
_OWN_ROWS = {"alice": slice(None), "bob": slice(0, 3), "carol": slice(2, 8)}
"""Learners, and their rows; the first has all, the others only learn beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One case in one layout."""

    case: str = ""
    layout: str
    loss_difference: float = 0.0
    """Relative to the size of the loss's terms, where that is above 1."""
    gradient_difference: float = 0.0
    """Largest difference of an entry, relative to the largest entry, of adapter and critic the larger."""
    clipped: float | None = None
    """Share of learned tokens that are clipped, or held back in DPO; None where the loss does neither."""
    refused: str = ""
    """Why the model has no such layout; then nothing was compared."""

    @property
    def difference(self) -> float:
        """The larger of both."""
        return max(self.loss_difference, self.gradient_difference)

    @property
    def equal(self) -> bool:
        """Whether the differences are rounding, and enough was clipped; False for numbers that are NaN."""
        enough = self.clipped is None or self.clipped >= LEAST_CLIPPED
        return bool(self.refused) or (self.difference <= BOUND and enough)


class Verification:
    """One model: its plain policy, its learners, and the rows and weights that both get."""

    def __init__(
        self,
        folder: Path,
        form: AdapterForm | None = None,
        *,
        temperature: float = 0.8,
        seed: int = 0,
    ) -> None:
        """Load the model twice: for the independent computation, and for the trainers.

        Args:
            folder: of a model that transformers loads.
            form: of the adapters.
            temperature: of sampling; DPO compares at 1 always.
            seed: of all that is drawn.

        Raises:
            ModelError: the model cannot be loaded.
        """
        form = form or AdapterForm()
        self.learners = Learners(folder, form, temperature)
        base = self.learners.base()
        base.add_adapter("shapes", seed=0)
        shapes = {name: tuple(t.shape) for name, t in base.tensors_of("shapes").items()}
        base.remove_adapter("shapes")
        config = base.model.config.get_text_config()
        self._pad, self._hidden = int(base.tokenizer.pad_token_id), int(config.hidden_size)
        self._seed, self._plain = seed, PlainPolicy.load(folder, base.activated_tokens or None)
        vocabulary = int(config.vocab_size)
        self.rows = draw_rows(vocabulary, seed, base.activated_tokens)
        self.pairs = draw_pairs(vocabulary, seed)
        self._scale, self._temperature = form.alpha / form.rank, temperature
        self._start, self._critic = (draw_factors(shapes, seed, number) for number in (0, 1))
        self._weights = {
            name: draw_factors(shapes, seed, 2 + number) for number, name in enumerate(_OWN_ROWS)
        }

    @cached_property
    def adapters(self) -> dict[str, Adapter]:
        """The independent computation of each learner, over its rows."""
        return {
            name: Adapter(
                plain=self._plain,
                tensors=self._weights[name],
                start=self._start,
                critic=self._critic,
                scale=self._scale,
                temperature=self._temperature,
                rows=self.rows[own],
                pairs=self.pairs,
            )
            for name, own in _OWN_ROWS.items()
        }

    def results(self, case: Case, layouts: Sequence[Layout]) -> list[Result]:
        """One result for each layout that the case's algorithm has."""
        chosen = [
            (layout, settings)
            for layout in layouts
            if (settings := layout.settings(case.settings)) is not None
        ]
        names = list(_OWN_ROWS) if any(layout.mixes for layout, _ in chosen) else ["alice"]
        head = self._head(case)
        critic = {**self._critic, **head}
        batches: dict[str, Any] = {}
        expected: dict[str, Gradients] = {}
        clipped: float | None = None
        for number, name in enumerate(names):
            adapter, settings = self.adapters[name], case.settings
            if isinstance(settings, GRPOSettings | PPOSettings):
                sheet = adapter.sheet(settings, head, self._seed + 10 * number)
                everyone = range(len(adapter.rows))
                batches[name] = row_batch(name, adapter.rows, sheet, self._pad, everyone)
                expected[name], share = adapter.of_rows(settings, sheet, head)
            elif isinstance(settings, DPOSettings):
                batches[name] = pair_batch(name, adapter.pairs)
                objective = pair_objective(settings)
                expected[name], share = adapter.of_pairs(settings)
                share = share if objective.holds_back else None
            clipped = share if number == 0 else clipped
        return [
            replace(
                self._compared(layout, settings, batches, expected, critic),
                case=case.name,
                clipped=clipped,
            )
            for layout, settings in chosen
        ]

    def _compared(
        self,
        layout: Layout,
        settings: Any,
        batches: dict[str, Any],
        expected: dict[str, Gradients],
        critic: Tensors,
    ) -> Result:
        weights = Weights(adapters=self._weights, start=self._start, critic=critic)
        try:
            found = self.learners.gradients(settings, layout, batches, weights)
        except ConfigError as error:
            return Result(layout=layout.name, refused=str(error))
        losses = [
            abs(own.loss - expected[name].loss) / expected[name].size for name, own in found.items()
        ]
        gradients = [_gradient_difference(own, expected[name]) for name, own in found.items()]
        return Result(
            layout=layout.name,
            loss_difference=max(losses),
            gradient_difference=max(gradients),
        )

    def _head(self, case: Case) -> Tensors:
        """Random weights of a value head, by the learner's names; none for algorithms without a critic."""
        if not isinstance(case.settings, PPOSettings):
            return {}
        generator = torch.Generator().manual_seed(self._seed)
        weight = torch.randn((1, self._hidden), generator=generator) * self._hidden**-0.5
        bias = torch.randn(1, generator=generator) * 0.1
        return {"head.layers.0.weight": weight, "head.layers.0.bias": bias}


def verify(
    verification: Verification,
    cases: Sequence[Case],
    layouts: Sequence[Layout],
    on_case: Callable[[Case], None] = lambda case: None,
) -> list[Result]:
    """All cases in all layouts.

    Args:
        verification: of a model.
        cases: objectives.
        layouts: of rows.
        on_case: called after each case.
    """
    found = []
    for case in cases:
        found += verification.results(case, layouts)
        on_case(case)
    return found


def _gradient_difference(found: Gradients, expected: Gradients) -> float:
    """NaN where one of the numbers is; infinite where names differ."""
    largest = []
    for own, other in ((found.adapter, expected.adapter), (found.critic, expected.critic)):
        if own.keys() != other.keys():
            return float("inf")
        if own:
            size = max(float(gradient.abs().max()) for gradient in other.values())
            missed = torch.stack([(own[key] - other[key]).abs().max() for key in own])
            largest.append(float(missed.max()) / max(size, 1e-12))
    return max(largest)
