"""The optimizer steps of one update, as the coordinator decides, in every process the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from srl_agents.coordination.members import AdapterShape, Decision, Member, Tensors
from srl_agents.trainers.learner import Batch
from srl_agents.training.parts import Learning

Metrics = dict[str, dict[str, float]]
"""By learner."""


def take_steps(
    parts: Learning, batches: Mapping[str, Batch], learners: Metrics
) -> dict[str, float]:
    """Take all steps of one update, then combine learners' weights where the recipe wants that.

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
    for number in range(max(map(len, steps.values()), default=0)):
        now = {name: own[number] for name, own in steps.items() if number < len(own)}
        for name, metrics in _gradients(parts, now).items():
            learners[name] |= metrics
            if number == 0:
                parts.view.advance()
        decision = parts.coordinator.before_step(_members(parts, now), first=number == 0)
        _step(parts, decision)
        run |= decision.run
        _add(decision, learners)
    require_equal_weights(parts)
    return run | _combine(parts, batches, learners)


def require_equal_weights(parts: Learning) -> None:
    """Stop when the processes no longer hold the same learners.

    Raises:
        ModelError: they do not.
    """
    judge = [] if parts.learned_reward is None else [parts.learned_reward.learner.name]
    for name in (*parts.learners, *judge):
        weights = parts.base.trainable_parameters(name)
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


def _gradients(parts: Learning, batches: Mapping[str, Batch]) -> Metrics:
    """Put its gradient on every learner that has a batch; returns what they say of it.

    Each process computes those of some learners, and hears of the others.
    """
    computed: dict[str, tuple[dict[str, float], Tensors]] = {}
    for name in [n for i, n in enumerate(batches) if parts.processes.mine(i)]:
        metrics = parts.learners[name].compute_gradients(batches[name])
        computed[name] = (metrics, {})
        if parts.processes.size > 1:
            computed[name] = (metrics, parts.learners[name].exported_gradients())
    everywhere = {
        name: gradients
        for part in parts.processes.gather(computed)
        for name, gradients in part.items()
    }
    for name in batches:
        if name not in computed:
            parts.learners[name].import_gradients(everywhere[name][1])
    return {name: everywhere[name][0] for name in batches}


def _members(
    parts: Learning, batches: Mapping[str, Batch], *, stepped: bool = False
) -> list[Member]:
    """All learners as coordination sees them, before a step or after the last."""
    recipe = parts.recipe
    shape = AdapterShape(base=recipe.model, rank=None)
    if recipe.parameters == "lora":
        lora = recipe.lora
        shape = replace(shape, rank=lora.rank, scaling=lora.alpha / lora.rank)
    return [
        Member(
            name=name,
            shape=shape,
            adapter={k: p.detach() for k, p in parts.base.trainable_parameters(name).items()},
            gradients=learner.gradients if name in batches and not stepped else None,
            rows=batches[name].rows if name in batches else 0,
        )
        for name, learner in parts.learners.items()
    ]
