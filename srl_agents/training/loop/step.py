"""The optimizer steps of one update, as the coordinator decides, in every process the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from srl_agents.coordination.members import AdapterShape, Decision, Member, Tensors
from srl_agents.memory.spreading import spread_learners
from srl_agents.models.memory.available import empty_cache
from srl_agents.recipes.sections.base_models import Base
from srl_agents.records import TrainingBatch
from srl_agents.trainers.learner import Batch, DivisibleBatch, joined_shares
from srl_agents.trainers.mixed_gradients import mixed_gradients, worth_mixing
from srl_agents.training.faults.vital_signs import Finding
from srl_agents.training.loop.stages import Learning, Parts
from srl_agents.training.parts.memory_roles import phase_on
from srl_envs.errors import FaultError, MemoryLimitError, ModelError

Metrics = dict[str, dict[str, float]]
"""Metrics by learner and name."""


def take_steps(parts: Parts, batches: Mapping[str, Batch], learners: Metrics) -> dict[str, float]:
    """Take all steps of one update, then combine learners' weights where the recipe asks for it.

    Args:
        parts: of the run.
        batches: of the learners that have something to learn from.
        learners: metrics, which are added to.

    Returns:
        Metrics of the run.
    """
    run: dict[str, float] = {}
    parts.view.advance(len(parts.learners) - len(batches))
    steps = {name: parts.learners[name].steps(batch) for name, batch in batches.items()}
    skipping: set[str] = set()
    for number in range(max(map(len, steps.values()), default=0)):
        first = number == 0
        now = {
            name: own[number]
            for name, own in steps.items()
            if number < len(own) and name not in skipping
        }
        for base in parts.bases:
            own = {name: now[name] for name in base.settings.learners if name in now}
            if not own:
                continue
            with parts.memory.phase(phase_on("gradients", base.settings.folder)):
                ready = _weighed(parts, own, number, learners)
                for name in own.keys() - ready.keys():
                    del now[name]
                found = _gradients(parts, ready)
            for name, (metrics, broken) in found.items():
                learners[name] |= metrics
                if first:
                    parts.view.advance()
                finding = broken or parts.survival.signs.before_step(name, metrics, first=first)
                if finding is not None and parts.survival.meet(finding) == "skip_batch":
                    parts.learners[name].drop_gradients()
                    del now[name]
                    skipping.add(name)
                    learners[name]["skipped"] = 1.0
        with parts.memory.phase("steps"):
            decision = parts.coordinator.before_step(_members(parts, now), first=first)
            _step(parts, decision)
        run |= decision.run
        _add(decision, learners)
    for name in batches.keys() - skipping:
        parts.survival.stepped(name)
    require_equal_weights(parts)
    return run | _combine(parts, batches, learners)


def _weighed(
    parts: Learning, batches: dict[str, Batch], step: int, learners: Metrics
) -> dict[str, Batch]:
    """Batches of a step; with an exchange, rows of others by what they weigh in it."""
    if parts.exchange is None:
        return batches
    ready, metrics = parts.exchange.weighed(batches, step)
    for name, values in metrics.items():
        learners[name] |= values
    return ready


def require_equal_weights(parts: Learning) -> None:
    """Stop when the processes no longer hold the same learners.

    Raises:
        ModelError: they do not.
    """
    judge = [] if parts.learned_reward is None else [parts.learned_reward.learner]
    for learner in (*parts.learners.values(), *judge):
        name = learner.name
        weights = learner.base.trainable_parameters(name)
        parts.processes.require_equal(f"the weights of {name!r}", weights)


def _step(parts: Learning, decision: Decision) -> None:
    for name, learner in parts.learners.items():
        if name in decision.changes:
            learner.set_gradients(decision.changes[name])
            learner.apply_gradients()
        else:
            learner.drop_gradients()


def _combine(parts: Learning, batches: Mapping[str, Batch], learners: Metrics) -> dict[str, float]:
    """What happens between the weights of several learners after their steps."""
    decision = parts.coordinator.after_step(_members(parts, batches, stepped=True))
    for name, tensors in decision.changes.items():
        parts.learners[name].replace_weights(tensors, reset_moments=decision.reset_moments)
    _add(decision, learners)
    parts.coordinator.observe(
        {name: values["reward"] for name, values in learners.items() if "reward" in values}
    )
    return decision.run


def _add(decision: Decision, learners: Metrics) -> None:
    for name, values in decision.learners.items():
        learners[name] |= values


def _gradients(
    parts: Learning, batches: Mapping[str, Batch]
) -> dict[str, tuple[dict[str, float], Finding | None]]:
    """Put its gradient on every learner of one base; returns each learner's metrics, or its fault.

    Each process computes those of some learners, and receives the others. Where that would leave a
    process idle, each computes a share of every learner's rows instead.
    """
    computed = _together(parts, batches)
    divided = {
        name: _divided(parts, name, batch)
        for name, batch in batches.items()
        if (len(batches) % parts.processes.size or parts.recipe.memory.sharded)
        and isinstance(batch, DivisibleBatch)
    }
    whole = [name for name in batches if name not in computed.keys() | divided.keys()]
    at = spread_learners({name: batches[name].rows for name in whole}, parts.processes.size)
    for name in [name for name in whole if at[name] == parts.processes.rank]:
        metrics, finding = _gradient(parts, name, batches[name])
        computed[name] = (metrics, finding, {})
        if parts.processes.size > 1:
            exported = parts.learners[name].exported_gradients()
            computed[name] = (metrics, finding, exported)
    everywhere = {
        name: gradients
        for part in parts.processes.gather(computed)
        for name, gradients in part.items()
    }
    for name in whole:
        if name not in computed:
            parts.learners[name].import_gradients(everywhere[name][2])
    return {name: divided.get(name) or everywhere[name][:2] for name in batches}


def _together(
    parts: Learning, batches: Mapping[str, Batch]
) -> dict[str, tuple[dict[str, float], Finding | None, Tensors]]:
    """Metrics of learners that share passes; empty where one has a fault, which is then answered separately.

    Raises:
        MemoryLimitError: not even one row at a time fits.
    """
    if parts.processes.size > 1:
        return {}
    while mixed := worth_mixing(parts.learners, batches):
        learners: Any = {name: parts.learners[name] for name in mixed}
        try:
            metrics_of = mixed_gradients(learners, mixed)
            return {name: (metrics, None, {}) for name, metrics in metrics_of.items()}
        except FaultError:
            for learner in learners.values():
                learner.drop_gradients()
            return {}
        except MemoryLimitError as error:
            _halve_rows(parts, [*mixed], error)
    return {}


def _gradient(parts: Learning, name: str, batch: Batch) -> tuple[dict[str, float], Finding | None]:
    """One learner's.

    Raises:
        MemoryLimitError: not even one row at a time fits.
    """
    try:
        return parts.learners[name].checked(*_added(parts, name, batch, batch)), None
    except FaultError as error:
        return {}, Finding(fault=error.fault, message=str(error), learner=name)


def _divided(
    parts: Learning, name: str, batch: DivisibleBatch
) -> tuple[dict[str, float], Finding | None]:
    """One learner's, of which every process computes a share.

    Raises:
        MemoryLimitError: not even one row at a time fits.
    """
    learner, processes = parts.learners[name], parts.processes
    learner.begin(batch)
    own, summed = batch.share(processes.rank, processes.size), (0.0, dict[str, float]())
    behind = _passes_behind(parts, name, own) if parts.recipe.memory.sharded else 0
    if own is not None:
        summed = _added(parts, name, batch, own)
    if behind:
        _keep_pace(parts, name, batch, behind)
    whole = joined_shares(processes.gather(summed))
    learner.import_gradients(processes.sum(learner.exported_gradients()))
    try:
        return learner.checked(*whole), None
    except FaultError as error:
        return {}, Finding(fault=error.fault, message=str(error), learner=name)


def _passes_behind(parts: Learning, name: str, own: Batch | None) -> int:
    """Passes that the process with most makes and this one does not.

    All say it before their first pass: within one, each waits for the others in every layer.
    """
    made = 0 if own is None else parts.learners[name].passes(own)
    return max(parts.processes.gather(made)) - made


def _keep_pace(parts: Learning, name: str, batch: Batch, passes: int) -> None:
    """Make passes over one row that change nothing, as each layer is gathered from all processes."""
    if not isinstance(batch, TrainingBatch):
        raise ModelError(f"memory.sharded: batches of learner {name!r} cannot be divided.")
    one = batch.take(np.flatnonzero(batch.learned_RT.any(axis=1))[:1])
    parts.learners[name].keep_pace(one, passes)


def _added(
    parts: Learning, name: str, batch: Batch, share: Batch
) -> tuple[float, dict[str, float]]:
    """Add one learner's gradient; in smaller parts where memory runs out, if the recipe allows it.

    Args:
        parts: of the run.
        name: of the learner.
        batch: all of its rows.
        share: those of them that are read here.

    Raises:
        MemoryLimitError: not even one row at a time fits.
    """
    learner = parts.learners[name]
    while True:
        learner.begin(batch)
        try:
            return learner.add_gradients(share)
        except MemoryLimitError as error:
            _halve_rows(parts, [name], error)


def _halve_rows(parts: Learning, names: Sequence[str], error: MemoryLimitError) -> None:
    """Drop gradients and let a pass have half the rows, if the recipe allows it.

    Args:
        parts: of the run.
        names: of the learners whose pass it was.
        error: why.

    Raises:
        MemoryLimitError: the error, where the recipe has another policy or one row did not fit.
    """
    learners = [parts.learners[name] for name in names]
    rows = min(learner.micro_batch_rows for learner in learners)
    halve = parts.recipe.survival.policy("out_of_memory") == "halve_micro_batch"
    if rows == 1 or not halve or parts.recipe.memory.sharded:  # other processes wait in a layer
        raise error
    message = f"{error} (micro_batch_rows {rows} -> {rows // 2})"
    owner = names[0] if len(names) == 1 else ""
    parts.survival.meet(Finding(fault="out_of_memory", message=message, learner=owner))
    for learner in learners:
        learner.micro_batch_rows = rows // 2
        learner.drop_gradients()
    empty_cache(learners[0].base.device)


def _members(
    parts: Learning, batches: Mapping[str, Batch], *, stepped: bool = False
) -> list[Member]:
    """All learners as coordination sees them, before a step or after the last."""
    shapes = {
        name: _shape(base.settings) for base in parts.bases for name in base.settings.learners
    }
    return [
        Member(
            name=name,
            shape=shapes[name],
            adapter={k: p.detach() for k, p in learner.base.trainable_parameters(name).items()},
            gradients=learner.gradients if name in batches and not stepped else None,
            rows=batches[name].rows if name in batches else 0,
        )
        for name, learner in parts.learners.items()
    ]


def _shape(base: Base) -> AdapterShape:
    if base.parameters == "full":
        return AdapterShape(base=base.name, rank=None)
    return AdapterShape(
        base=base.name, rank=base.lora.rank, scaling=base.lora.alpha / base.lora.rank
    )
