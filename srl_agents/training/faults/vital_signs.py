"""Reads a run's metrics for signs that learning goes wrong: arithmetic on numbers that sinks get anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from srl_agents.recipes.sections.fault_policy import (
    ENTROPY_BELOW,
    GRADIENT_GROWTH,
    KL_ABOVE,
    LOSS_GROWTH,
    PATIENCE,
    SAMPLER_KL_ABOVE,
    WEIGHT_GROWTH,
)

_ENOUGH = 4
"""Updates before a median shows what is usual."""
_KEPT = 200
"""Numbers of each kind that are remembered."""
_LEAST_DROP = 0.1
"""Smallest drop of reward that counts, where the reward did not move before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something that went wrong, not yet answered."""

    fault: str
    """Name of the fault in `FAULTS`."""
    message: str
    """The observation in one line, with its number."""
    learner: str = ""
    """Learner that has the fault; empty where the run has it."""
    since: int | None = None
    """First update that it spoiled; None where it is the present one."""


@dataclass(slots=True)
class _Past:
    """History of one learner's updates, against which the next one is compared."""

    losses: list[float] = field(default_factory=list)
    """Absolute losses of the last updates."""
    norms: list[float] = field(default_factory=list)
    """Norms of the gradients of the last updates."""
    rewards: list[float] = field(default_factory=list)
    low_entropy: int = 0
    """Updates in a row with low entropy."""
    first_weights: float = 0.0
    """Norm of the weights; 0 before it is known."""
    fell_from: float | None = None
    """Reward that would end a collapse; None where there is none."""
    fell_in: int = 0
    """Update in which that collapse began."""


class VitalSigns:
    """Compares each learner's update with its earlier ones, and reports what is unusual.

    Args:
        learners: their names.
    """

    def __init__(self, learners: Iterable[str]) -> None:
        self._past = {name: _Past() for name in learners}

    def before_step(
        self, name: str, metrics: Mapping[str, float], *, first: bool
    ) -> Finding | None:
        """Judge a gradient before any step along it.

        Args:
            name: the learner's.
            metrics: of its gradient.
            first: it is the first step of the update, so the version that played is the one that learns.
        """
        past = self._past[name]
        growth = (
            ("loss_exploded", abs(metrics.get("loss", 0.0)), past.losses, LOSS_GROWTH, 1.0),
            ("gradient_exploded", metrics.get("grad_norm", 0.0), past.norms, GRADIENT_GROWTH, 0.0),
        )  # fmt: skip
        for fault, value, before, most, floor in growth:
            usual = max(median(before), floor) if len(before) >= _ENOUGH else 0.0
            if usual and value > most * usual:
                message = f"{value:.3g}, {value / usual:,.0f} times the usual {usual:.3g}"
                return Finding(fault=fault, message=message, learner=name)
        ceilings = [("kl_blown_up", "kl", KL_ABOVE)]
        if first:
            ceilings.append(("sampler_differs", "sampler_kl", SAMPLER_KL_ABOVE))
        for fault, metric, most in ceilings:
            if metrics.get(metric, 0.0) > most:
                message = f"{metrics[metric]:.3g} nats per token, more than {most:g}"
                return Finding(fault=fault, message=message, learner=name)
        return None

    def after_update(
        self, update: int, name: str, metrics: Mapping[str, float], weights: float
    ) -> list[Finding]:
        """Judge a learner's whole update, and remember it.

        Args:
            update: its number, from 1.
            name: the learner's.
            metrics: of its play and its steps.
            weights: norm of its weights now.
        """
        past = self._past[name]
        for kind, metric in (
            (past.losses, "loss"),
            (past.norms, "grad_norm"),
            (past.rewards, "reward"),
        ):
            if metric in metrics:
                kind.append(abs(metrics[metric]) if metric == "loss" else metrics[metric])
                del kind[:-_KEPT]
        past.first_weights = past.first_weights or weights
        found = [
            self._weights(past, name, weights),
            self._entropy(past, update, name, metrics),
            self._reward(past, update, name),
        ]
        return [finding for finding in found if finding is not None]

    def begin(self, name: str, weights: float) -> None:
        """Note the norm of the weights that a learner begins with."""
        self._past[name].first_weights = weights

    def _weights(self, past: _Past, name: str, weights: float) -> Finding | None:
        if not weights > WEIGHT_GROWTH * past.first_weights:
            return None
        message = f"their norm is {weights:.3g}, and was {past.first_weights:.3g} at first"
        return Finding(fault="weights_exploded", message=message, learner=name)

    def _entropy(
        self, past: _Past, update: int, name: str, metrics: Mapping[str, float]
    ) -> Finding | None:
        if "entropy" not in metrics:
            return None
        past.low_entropy = past.low_entropy + 1 if metrics["entropy"] < ENTROPY_BELOW else 0
        if past.low_entropy < PATIENCE:
            return None
        since = update - past.low_entropy + 1
        entropy, bound = metrics["entropy"], ENTROPY_BELOW
        message = f"{entropy:.2g} nats per token, below {bound:g} since update {since}"
        return Finding(fault="entropy_collapsed", message=message, learner=name, since=since)

    def _reward(self, past: _Past, update: int, name: str) -> Finding | None:
        before, recent = past.rewards[:-PATIENCE], past.rewards[-PATIENCE:]
        usual = before[-2 * PATIENCE :]
        if past.fell_from is not None and max(recent) >= past.fell_from:
            past.fell_from = None
        if past.fell_from is None and len(usual) == 2 * PATIENCE:
            limit = min(usual) - max(max(usual) - min(usual), _LEAST_DROP)
            # a fall to what was seen before comes from stronger opponents or harder levels
            if max(recent) < limit and max(recent) <= min(before):
                past.fell_from, past.fell_in = limit, update - PATIENCE + 1
        if past.fell_from is None:
            return None
        message = (
            f"at most {max(recent):.3g} in {PATIENCE} updates, and above {past.fell_from:.3g} until "
            f"update {past.fell_in}"
        )
        return Finding(fault="reward_collapsed", message=message, learner=name, since=past.fell_in)

    def state(self) -> dict[str, Any]:
        """Past numbers of all learners, as JSON values."""
        return {name: asdict(past) for name, past in self._past.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""
        self._past = {name: _Past(**state[name]) for name in self._past}
