"""Losses and gradients of the independent computation, for cases and adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.credit.critic import VALUE_CLIP, VALUE_COEF
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.verification.cases import pair_objective, row_objective
from srl_agents.trainers.verification.drawing import (
    Row,
    draw_advantages,
    draw_judgements,
    draw_log_ratios,
)
from srl_agents.trainers.verification.independent.pair_objectives import ScoredPair
from srl_agents.trainers.verification.independent.plain_policy import PlainPolicy, Scores
from srl_agents.trainers.verification.independent.row_objectives import RowObjective, ScoredRow
from srl_agents.trainers.verification.independent.value_objective import (
    JudgedRow,
    value_loss,
    values,
)

Tensors = dict[str, torch.Tensor]
Pair = tuple[list[int], list[int], list[int], float]
_WRAPPER = "base_model.model."
"""What stands before a layer's name in the names of an adapter's tensors."""
Layers = list[tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradients:
    """Loss, its gradient by the names of the adapter's tensors, and by those of the critic's weights."""

    loss: float
    size: float = 1.0
    """Size of the terms of the loss together, to which its rounding is in proportion."""
    adapter: Tensors
    critic: Tensors


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """What an algorithm gets for rows: old log-probabilities, advantages, and what a critic learns from."""

    sampled: list[NDArray[np.float64]]
    advantages: list[NDArray[np.float64]]
    values: list[NDArray[np.float64]] | None = None
    returns: list[NDArray[np.float64]] | None = None


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """Weights of one learner, on one plain model; readings are kept, with their graphs."""

    plain: PlainPolicy
    tensors: Tensors
    """By the names that an adapter's file has."""
    start: Tensors
    """Weights that the learner began with, from which a divergence may be measured."""
    critic: Tensors
    """Weights of a critic's own adapter."""
    scale: float
    temperature: float
    rows: Sequence[Row]
    pairs: Sequence[Pair]

    @cached_property
    def leaves(self) -> Tensors:
        """The weights, to be differentiated."""
        return {name: tensor.clone().requires_grad_() for name, tensor in self.tensors.items()}

    @cached_property
    def critic_leaves(self) -> Tensors:
        """The critic's weights, to be differentiated."""
        return {name: tensor.clone().requires_grad_() for name, tensor in self.critic.items()}

    def _read_rows(self, tensors: Tensors) -> list[Scores]:
        with self.plain.adapted(_factors(tensors), self.scale):
            return [self.plain.read(r.prompt, r.reply, self.temperature) for r in self.rows]

    @cached_property
    def own_rows(self) -> list[Scores]:
        """Rows read with the weights."""
        return self._read_rows(self.leaves)

    @cached_property
    def base_rows(self) -> list[Scores]:
        """Rows read without an adapter."""
        with torch.no_grad():
            return self._read_rows({})

    @cached_property
    def start_rows(self) -> list[Scores]:
        """Rows read with the first weights."""
        with torch.no_grad():
            return self._read_rows(self.start)

    @cached_property
    def critic_rows(self) -> list[Scores]:
        """Rows read with the critic's adapter."""
        return self._read_rows(self.critic_leaves)

    def _read_pairs(self, tensors: Tensors) -> list[tuple[torch.Tensor, torch.Tensor]]:
        with self.plain.adapted(_factors(tensors), self.scale):
            return [
                (self.plain.read(p, one, 1.0).logps_T, self.plain.read(p, other, 1.0).logps_T)
                for p, one, other, _ in self.pairs
            ]

    @cached_property
    def own_pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs read with the weights, at temperature 1."""
        return self._read_pairs(self.leaves)

    @cached_property
    def base_pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs read without an adapter."""
        with torch.no_grad():
            return self._read_pairs({})

    @cached_property
    def start_pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs read with the first weights."""
        with torch.no_grad():
            return self._read_pairs(self.start)

    # --- rows --------------------------------------------------------------------------------

    def sheet(self, settings: GRPOSettings | PPOSettings, head: Tensors, seed: int) -> Sheet:
        """Draw what the algorithm gets.

        Args:
            settings: of the algorithm.
            head: weights of PPO's value head; empty for GRPO.
            seed: of all draws.
        """
        objective = row_objective(settings)
        advantages = draw_advantages(objective, self.rows, seed)
        ratios = draw_log_ratios(objective, self.rows, seed + 1)
        sampled = [
            np.where(row.learned_T, own.logps_T.detach().numpy() - ratio, 0)
            for row, own, ratio in zip(self.rows, self.own_rows, ratios, strict=True)
        ]
        sheet = Sheet(sampled=sampled, advantages=advantages)
        if not isinstance(settings, PPOSettings):
            return sheet
        now = [values(s, layers_of(head)).detach() for s in self._states(settings)]
        judged = draw_judgements(now, VALUE_CLIP, seed + 2)
        before, returns = (
            [_widened(pair[part].numpy(), row) for pair, row in zip(judged, self.rows, strict=True)]
            for part in (0, 1)
        )
        return replace(sheet, values=before, returns=returns)

    def of_rows(
        self, settings: GRPOSettings | PPOSettings, sheet: Sheet, head: Tensors
    ) -> tuple[Gradients, float | None]:
        """Loss and gradients, and the share of tokens that are clipped: of ratios and values the smaller."""
        objective, leaves = row_objective(settings), {**self.leaves}
        rows = self._scored(settings, objective, sheet)
        loss, clipped = objective.loss(rows), objective.clipped(rows)
        critic: Tensors = {}
        if isinstance(settings, PPOSettings):
            own = {name: tensor.clone().requires_grad_() for name, tensor in head.items()}
            own |= self.critic_leaves if settings.critic == "adapter" else {}
            judged = self._judged(settings, sheet)
            error, held = value_loss(judged, layers_of(own), VALUE_CLIP)
            loss = loss + VALUE_COEF * error
            critic = own
            shares = [share for share in (clipped, held) if share is not None]
            clipped = min(shares) if shares else None
        size = max(1.0, objective.size(rows))
        return replace(_differentiated(loss, leaves, critic), size=size), clipped

    def _scored(
        self, settings: GRPOSettings | PPOSettings, objective: RowObjective, sheet: Sheet
    ) -> list[ScoredRow]:
        from_start = settings.reference == "start"
        references = None
        if objective.kl_coef:
            references = self.start_rows if from_start else self.base_rows
        found = []
        for number, row in enumerate(self.rows):
            learned = torch.from_numpy(row.learned_T)
            own = self.own_rows[number]
            found.append(
                ScoredRow(
                    logps_T=own.logps_T[learned],
                    entropies_T=own.entropies_T[learned],
                    sampled_T=torch.from_numpy(sheet.sampled[number])[learned],
                    advantages_T=torch.from_numpy(sheet.advantages[number])[learned],
                    reference_T=None if references is None else references[number].logps_T[learned],
                )
            )
        return found

    def _judged(self, settings: PPOSettings, sheet: Sheet) -> list[JudgedRow]:
        befores, returns = sheet.values or [], sheet.returns or []
        return [
            JudgedRow(
                hidden_TH=states,
                before_T=torch.from_numpy(before[row.learned_T]),
                returns_T=torch.from_numpy(paid[row.learned_T]),
            )
            for row, states, before, paid in zip(
                self.rows, self._states(settings), befores, returns, strict=True
            )
        ]

    def _states(self, settings: PPOSettings) -> list[torch.Tensor]:
        """Hidden states of learned tokens, as the critic reads them."""
        read = {"base": "base_rows", "adapter": "critic_rows"}.get(settings.critic, "own_rows")
        states = [
            own.hidden_TH[torch.from_numpy(row.learned_T)]
            for own, row in zip(getattr(self, read), self.rows, strict=True)
        ]
        return [s.detach() for s in states] if settings.critic == "detached" else states

    # --- pairs -------------------------------------------------------------------------------

    def of_pairs(self, settings: DPOSettings) -> tuple[Gradients, float]:
        """Loss and gradients, and the share of tokens that the loss holds back."""
        objective = pair_objective(settings)
        references = self.start_pairs if settings.reference == "start" else self.base_pairs
        scored = [
            ScoredPair(*own, *reference, margin=margin)
            for own, reference, (*_, margin) in zip(
                self.own_pairs, references, self.pairs, strict=True
            )
        ]
        return _differentiated(objective.loss(scored), self.leaves, {}), objective.held(scored)


def layers_of(head: Mapping[str, torch.Tensor]) -> Layers:
    """Weight and bias of each linear layer of a value head, in order, from its tensors by name."""
    stems = sorted(
        name.removesuffix(".weight")
        for name in head
        if name.startswith("head.") and name.endswith(".weight")
    )
    return [(head[f"{stem}.weight"], head[f"{stem}.bias"]) for stem in stems]


def _factors(tensors: Tensors) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Both factors by layer."""
    return {
        name.removeprefix(_WRAPPER).removesuffix(".lora_A.weight"): (
            tensor,
            tensors[name.replace(".lora_A.", ".lora_B.")],
        )
        for name, tensor in tensors.items()
        if ".lora_A." in name
    }


def _widened(learned: NDArray[Any], row: Row) -> NDArray[np.float64]:
    """Numbers of learned tokens among zeros."""
    whole = np.zeros(len(row.reply))
    whole[row.learned_T] = learned
    return whole


def _differentiated(loss: torch.Tensor, adapter: Tensors, critic: Tensors) -> Gradients:
    leaves = [*adapter.values(), *critic.values()]
    found = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    filled = [
        torch.zeros_like(leaf) if gradient is None else gradient
        for leaf, gradient in zip(leaves, found, strict=True)
    ]
    return Gradients(
        loss=float(loss.detach()),
        adapter=dict(zip(adapter, filled, strict=False)),
        critic=dict(zip(critic, filled[len(adapter) :], strict=True)),
    )
