"""The plan of a run on a device: peaks, times, whether it fits, or the cheapest change that makes it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from srl_agents.memory.description import Description
from srl_agents.memory.devices import Target
from srl_agents.memory.pace import Pace, pace
from srl_agents.memory.phase_peaks import Phase, phases

Change = tuple[str, Callable[[Description], Description | None]]
"""What a user would set, and the run with it; None where it is so already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Memory and time of a run on a device."""

    description: Description
    target: Target
    phases: tuple[Phase, ...]
    pace: Pace
    advice: tuple[str, ...]
    """Settings with which it fits, the cheapest first; empty where it fits, or where nothing helps."""

    @property
    def peak(self) -> Phase:
        """The phase that holds most."""
        return max(self.phases, key=lambda phase: phase.bytes)

    @property
    def fits(self) -> bool:
        """Whether the peak is within the device's memory."""
        return self.peak.bytes <= self.target.memory_bytes

    @property
    def line(self) -> str:
        """The plan in one line."""
        d, peak, room = self.description, self.peak, self.target.memory_bytes
        verdict = "fits" if self.fits else "does NOT fit"
        name, unit = self.target.unit
        each = "" if d.processes == 1 else f" in each of {d.processes} processes"
        pace_s = self.pace.total_s
        pace = f"{pace_s:.3g} s" if pace_s < 7200 else f"{pace_s / 3600:.1f} hours"
        return (
            f"plan: {d.name} {verdict} {self.target.name}: {peak.bytes / unit:.1f} of {room / unit:.1f} "
            f"{name}{each}, in phase {peak.name!r}; about {pace} per update"
        )

    def numbers(self) -> dict[str, Any]:
        """The whole plan as JSON values."""
        d = self.description
        return {
            "name": d.name,
            "model": d.model.name,
            "parameters": d.model.parameters,
            "base_type": d.base_type,
            "processes": d.processes,
            "learners": sum(base.learners for base in d.bases),
            "bases": {
                base.base or base.model.name: {
                    "model": base.model.name,
                    "parameters": base.model.parameters,
                    "base_type": base.base_type,
                    "learners": base.learners,
                    "placement": base.placement,
                    "sharing": base.sharing,
                }
                for base in d.bases
            },
            "device": self.target.name,
            "device_bytes": self.target.memory_bytes,
            "device_source": self.target.source,
            "fits": self.fits,
            "peak_bytes": self.peak.bytes,
            "peak_phase": self.peak.name,
            "phases": {p.name: p.parts | {"total": p.bytes} for p in self.phases},
            "traffic": {
                "rows_per_learner": d.traffic.rows,
                "longest_prompt_tokens": d.traffic.prompt_tokens,
                "longest_reply_tokens": d.traffic.reply_tokens,
                "mean_prompt_tokens": d.traffic.mean_prompt_tokens,
                "mean_reply_tokens": d.traffic.mean_reply_tokens,
                "source": d.traffic.source,
            },
            "seconds": dict(self.pace.seconds),
            "seconds_per_update": self.pace.total_s,
            "reply_tokens_per_s_of_rollout": self.pace.written_per_s,
            "reply_tokens_per_s_of_update": self.pace.learned_per_s,
            "model_flop_utilisation": self.pace.mfu,
            "assumed_mfu": self.target.mfu,
            "advice": list(self.advice),
        }


def plan(description: Description, target: Target) -> Plan:
    """Plan a run; where processes divide the base's layers, one of them.

    On a CPU they share the memory of one machine.

    Raises:
        ConfigError: the run has an optimizer or layers that the planner does not cover.
    """
    if description.processes > 1 and not target.accelerator:
        each = f"{target.source}; each of {description.processes} processes has an equal part"
        own = target.memory_bytes / description.processes
        target = replace(target, memory_bytes=own, source=each)
    made = _without_advice(description, target)
    if not made.fits and _by_plan(description):
        description = _checkpointed(description)
        made = _without_advice(description, target)
    return made if made.fits else replace(made, advice=tuple(_advice(description, target)))


def _without_advice(description: Description, target: Target) -> Plan:
    return Plan(
        description=description,
        target=target,
        phases=tuple(phases(description, target)),
        pace=pace(description, target),
        advice=(),
    )


def _by_plan(description: Description) -> bool:
    return any(d.checkpointing_by_plan for d in (description, *description.others))


def _checkpointed(description: Description) -> Description:
    """With activations recomputed wherever the plan may decide that."""
    return replace(
        description,
        checkpointing=description.checkpointing or description.checkpointing_by_plan,
        others=tuple(map(_checkpointed, description.others)),
    )


def changes() -> list[Change]:
    """Settings that can be lowered, the cheapest first."""
    return [
        ("training.optimizer=adamw_8bit", _if(lambda d: d.optimizer in ("adamw_torch", "adamw_torch_fused"),
                                              optimizer="adamw_8bit")),
        ("training.log_probabilities=chunked", _if(lambda d: d.head == "trl" and d.parameters == "lora",
                                                   head="chunked")),
        ("training.micro_batch_rows halved", _halved("micro_batch_rows")),
        ("rollout.batch_rows halved", _halved("batch_rows")),
        ("training.micro_batch_rows=1", _if(lambda d: d.micro_batch_rows > 1, micro_batch_rows=1)),
        ("training.gradient_checkpointing=true", _if(lambda d: not d.checkpointing, checkpointing=True)),
        ("dtype=bfloat16", _if(lambda d: d.base_type == "float32" and d.parameters == "lora",
                               base_type="bfloat16", autocast=False)),
        ("rollout.batch_rows=8", _if(lambda d: d.batch_rows > 8, batch_rows=8)),
        ("quantization=nf4", _if(lambda d: d.base_type == "bfloat16" and d.processes == 1,
                                 base_type="nf4")),
        ("parameters=lora", _if(lambda d: d.parameters == "full", parameters="lora")),
    ]  # fmt: skip


def _if(
    applies: Callable[[Description], bool], **settings: Any
) -> Callable[[Description], Description | None]:
    return lambda d: _on_all(d, lambda one: replace(one, **settings) if applies(one) else None)


def _halved(name: str) -> Callable[[Description], Description | None]:
    def halve(d: Description) -> Description | None:
        now = int(getattr(d, name))
        return replace(d, **{name: now // 2}) if now > 1 else None  # type: ignore[arg-type]

    return lambda d: _on_all(d, halve)


def _on_all(
    d: Description, change: Callable[[Description], Description | None]
) -> Description | None:
    """A change of every base that it applies to; None where there is none."""
    changed = [change(one) for one in d.bases]
    if not any(changed):
        return None
    first, *others = (new or old for new, old in zip(changed, d.bases, strict=True))
    return replace(first, others=tuple(others))


def _advice(description: Description, target: Target) -> Iterator[str]:
    """The single change that fits and costs least time, or the shortest list of them in order."""
    single = []
    for name, change in changes():
        changed = change(description)
        if changed is not None and _without_advice(changed, target).fits:
            single.append((pace(changed, target).total_s, name))
    if single:
        yield min(single, key=lambda found: found[0])[1]
        return
    now, taken = description, []
    for name, change in changes():
        changed = change(now)
        if changed is None:
            continue
        if _peak(changed, target) >= _peak(now, target):
            continue
        now = changed
        taken.append(name)
        if _without_advice(now, target).fits:
            yield from taken
            return


def _peak(description: Description, target: Target) -> float:
    return max(phase.bytes for phase in phases(description, target))
