"""Time of each phase of an update on a device's roofline, and the share of its peak that is used.

A step takes as long as its arithmetic or its bytes, whichever is longer; decoding also as long as the
host needs
to start its kernels. These are expectations from stated rates: compare plans with them, and measure a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from srl_agents.memory.architecture import Architecture
from srl_agents.memory.description import Description
from srl_agents.memory.devices import CAPTURED, Target
from srl_agents.memory.tensor_bytes import base_bytes, kv_bytes_per_token

ENVIRONMENT_S = 0.0
"""Games answer beside generation; what they take is not planned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Expected seconds of one update, by phase."""

    seconds: dict[str, float]
    written_tokens: float
    """Tokens of all replies."""
    mfu: float
    """Arithmetic of the model, without what is computed twice, over the device's peak in that time."""

    @property
    def total_s(self) -> float:
        """Seconds of one update."""
        return sum(self.seconds.values())

    @property
    def written_per_s(self) -> float:
        """Tokens of replies per second of rollout."""
        return self.written_tokens / self.seconds["rollout"]

    @property
    def learned_per_s(self) -> float:
        """Tokens of replies per second of the whole update."""
        return self.written_tokens / self.total_s


def pace(plan: Description, target: Target) -> Pace:
    """Expected times of one update; several bases write and learn one after the other."""
    if not plan.others:
        return _alone(plan, target)
    found = [_alone(base, target) for base in plan.bases]
    names = dict.fromkeys(name for own in found for name in own.seconds)
    total = sum(own.total_s for own in found)
    return Pace(
        seconds={name: sum(own.seconds.get(name, 0.0) for own in found) for name in names},
        written_tokens=sum(own.written_tokens for own in found),
        mfu=sum(own.mfu * own.total_s for own in found) / total,
    )


def _alone(plan: Description, target: Target) -> Pace:
    traffic, model = plan.traffic, plan.model
    width = traffic.mean_prompt_tokens + traffic.mean_reply_tokens
    rows = plan.learners * plan.own_rows
    forward = flops(model, width) * rows * _read_share(plan)
    rate = _rate(plan, target)
    seconds = {"rollout": _rollout(plan, target)}
    passes = forward * ((1 if plan.reference else 0) + (1 if plan.critic else 0))
    if plan.reward_model:  # it judges, and learns: three times a pass
        passes += 4 * flops(plan.judge or model, width) * rows
    if passes:
        seconds["judge and reference"] = passes / rate
    backward = 2.0 if plan.parameters == "full" else 1.0  # LoRA has no gradients of frozen weights
    again = 1.0 if plan.checkpointing else 0.0
    seconds["train"] = plan.iterations * forward * (1 + backward + again) / rate
    passes_made = plan.iterations * (2 + again) * math.ceil(plan.own_rows / plan.micro_rows)
    if target.accelerator:  # a backward pass starts about twice the kernels of a forward one
        started = target.host_s_per_layer * model.layers * plan.learners * passes_made * 1.5
        seconds["train"] = max(seconds["train"], started)
    if plan.base_type == "nf4":  # every pass unpacks all weights: reads 4 bits and writes 16
        moved = 2.5 * model.linear_parameters * plan.learners * passes_made
        seconds["train"] += moved / target.memory_bytes_per_s
    useful = plan.iterations * forward * (1 + backward) + passes
    prompt = flops(model, traffic.mean_prompt_tokens)
    useful += _prompts_read(plan) * prompt + plan.own_replies * (flops(model, width) - prompt)
    total = sum(seconds.values())
    return Pace(
        seconds=seconds,
        written_tokens=plan.replies * traffic.mean_reply_tokens,
        mfu=useful * target.mfu / (total * rate),
    )


def _rate(plan: Description, target: Target) -> float:
    """Operations per second that passes of the base reach."""
    return (
        target.peak_flops * target.mfu * (1 if plan.base_type == "float32" else target.half_speed)
    )


def _read_share(plan: Description) -> float:
    """Of the tokens of all rows, those that training reads: a pass may read once what its rows begin with."""
    traffic, rows = plan.traffic, plan.micro_rows
    if plan.shared_by == 1 or traffic.mean_new_tokens is None:
        return 1.0
    whole = rows * (traffic.mean_prompt_tokens + traffic.mean_reply_tokens)
    shared = traffic.mean_prompt_tokens + rows * (
        traffic.mean_new_tokens + traffic.mean_reply_tokens
    )
    return min(1.0, shared / whole)


def _prompts_read(plan: Description) -> float:
    """Number of whole prompts that one process reads while it plays.

    What prompts begin with is read once by each version, as adapters change with every update; the engine's
    prefix cache has it from then on.
    """
    traffic, own = plan.traffic, plan.own_replies
    if traffic.mean_new_tokens is None:
        return own
    versions = plan.learners * max(1.0, plan.replies / (plan.learners * traffic.rows))
    return min(own, versions + own * traffic.mean_new_tokens / traffic.mean_prompt_tokens)


def flops(model: Architecture, tokens: float) -> float:
    """Operations of one forward pass over a row: two per weight and token, and causal attention."""
    return 2.0 * model.multiplied_parameters * tokens + 2.0 * model.layers * model.query * tokens**2


def _rollout(plan: Description, target: Target) -> float:
    """Reading prompts, then one step per token of a batch of replies."""
    traffic, model = plan.traffic, plan.model
    rate = _rate(plan, target)
    read = _prompts_read(plan) * flops(model, traffic.mean_prompt_tokens) / rate
    at_once = min(float(plan.batch_rows), max(1.0, plan.own_replies))
    steps = math.ceil(plan.own_replies / at_once) * traffic.mean_reply_tokens
    context = at_once * (traffic.mean_prompt_tokens + traffic.mean_reply_tokens / 2)
    moved = base_bytes(model, plan.base_type) + context * kv_bytes_per_token(model, plan.base_type)
    captured = target.accelerator and plan.parameters == "lora" and plan.processes == 1
    host = target.host_s_per_layer * model.layers * (CAPTURED if captured else 1.0)
    step = max(
        2.0 * model.multiplied_parameters * at_once / rate,
        moved / target.memory_bytes_per_s,
        host,
    )
    return read + steps * step
