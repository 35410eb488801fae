"""The faults of a run, by name: description, likely cause, remedy and allowed policies.

A detector raises or reports a name of `FAULTS`; a recipe's ``survival.policies`` sets what is done then.
`docs/reference/faults.md` is written from this table and from the faults that the tests inject.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Policy = Literal["go_on", "skip_batch", "halve_micro_batch", "halve_play", "roll_back", "stop"]
"""``go_on``: say it. ``skip_batch``: the learner takes no (further) step on this update's batch.
``halve_micro_batch``: compute the gradient again with half the rows per pass. ``halve_play``: play what was
interrupted again, with half as many matches live and half the replies written at once, until the run ends.
``roll_back``: go on from the last checkpoint before the fault, with a lower learning rate. ``stop``: keep the
last whole update as a checkpoint and end with `STOPPED`."""

STOPPED = 3
"""Exit code of a run that a fault stopped."""
NOTHING_LEARNED = 1
"""Exit code of a run that came to its end and in which no learner took a step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultKind:
    """One thing that can go wrong."""

    what: str
    """When it is reported; names of settings are those of `SurvivalSettings`."""
    cause: str
    """The likely one."""
    fix: str
    """Remedy; an imperative."""
    policy: Policy
    """The default; a recipe may set another."""
    may: tuple[Policy, ...]
    """Policies that make sense."""


_STEP: tuple[Policy, ...] = ("skip_batch", "roll_back", "stop")
_WEIGHTS: tuple[Policy, ...] = ("roll_back", "stop")
_SIGNS: tuple[Policy, ...] = ("go_on", "skip_batch", "roll_back", "stop")
_LATER: tuple[Policy, ...] = ("go_on", "roll_back", "stop")
_MEMORY: tuple[Policy, ...] = ("halve_micro_batch", "stop")
_ENDS: tuple[Policy, ...] = ("stop",)
_OUTSIDE: tuple[Policy, ...] = ("go_on", "stop")
_CALMER = "lower training.learning_rate or training.max_grad_norm, or raise training.kl_coef"

FAULTS: Mapping[str, FaultKind] = {
    "loss_not_finite": FaultKind(
        what="the loss of a batch is NaN or infinite",
        cause="advantages or probabilities that left what a float holds",
        fix=_CALMER,
        policy="skip_batch",
        may=_STEP,
    ),
    "loss_exploded": FaultKind(
        what="the loss is more than 1,000 times the median of the updates before",
        cause="a batch unlike the others, or weights that have begun to drift",
        fix=_CALMER,
        policy="skip_batch",
        may=_SIGNS,
    ),
    "gradient_not_finite": FaultKind(
        what="the gradient of a batch is NaN or infinite",
        cause="a number that left its type on the way back",
        fix=f"{_CALMER}; use dtype float32 or no training.autocast",
        policy="skip_batch",
        may=_STEP,
    ),
    "gradient_exploded": FaultKind(
        what="the gradient's norm is more than 1,000 times the median of the updates before",
        cause="a batch unlike the others, or weights that have begun to drift",
        fix=_CALMER,
        policy="skip_batch",
        may=_SIGNS,
    ),
    "weights_broken": FaultKind(
        what="after a step or a merge weights are NaN, or larger than 1e6",
        cause="a learning rate that is far too high",
        fix="lower training.learning_rate, first by a factor of 10",
        policy="roll_back",
        may=_WEIGHTS,
    ),
    "weights_exploded": FaultKind(
        what="the norm of a learner's weights is more than 100 times what it was at first",
        cause="a learning rate that is too high",
        fix="lower training.learning_rate, first by a factor of 10",
        policy="roll_back",
        may=_LATER,
    ),
    "replies_refused": FaultKind(
        what="the game refused all replies for some updates, and accepted enough of them before",
        cause="steps that broke the learner's language",
        fix=_CALMER,
        policy="roll_back",
        may=_LATER,
    ),
    "never_accepted": FaultKind(
        what="after 10 updates the game has accepted no reply of any learner",
        cause="a model that does not know the game's format",
        fix="add a warm_start, prompt.examples, a larger model, or an easier environment",
        policy="stop",
        may=_OUTSIDE,
    ),
    "reward_collapsed": FaultKind(
        what="for 5 updates the reward is as low as it ever was, and below the twice as many "
        "updates before by more than their range; until it is back",
        cause="steps that broke the learner, or opponents that it cannot answer",
        fix=f"{_CALMER}; look at opponents and at srl report",
        policy="roll_back",
        may=_LATER,
    ),
    "kl_blown_up": FaultKind(
        what="the mean divergence from the reference is above 10 nats per token",
        cause="steps that are too large for the divergence's weight",
        fix="raise training.kl_coef or lower training.learning_rate",
        policy="roll_back",
        may=_SIGNS,
    ),
    "entropy_collapsed": FaultKind(
        what="for 5 updates the entropy is below .001 nats per token",
        cause="one reply for everything: nothing is explored any more, or the game is solved",
        fix="raise training.entropy_coef, training.kl_coef or rollout.temperature, if reward is not at its "
        "best",
        policy="go_on",
        may=_LATER,
    ),
    "sampler_differs": FaultKind(
        what="probabilities of trainer and engine differ by more than 1 nat per token",
        cause="an engine of another precision, or one that plays other weights",
        fix="use the same dtype in engine and trainer, or training.autocast false",
        policy="go_on",
        may=_SIGNS,
    ),
    "rollouts_stale": FaultKind(
        what="rows are on average more than 16 steps older than the version that learns",
        cause="play that is slower than training",
        fix="lower training.iterations or what is allowed to wait, or give play more of the device",
        policy="skip_batch",
        may=("go_on", "skip_batch", "stop"),
    ),
    "out_of_memory": FaultKind(
        what="an update does not fit into the device's or the host's memory",
        cause="too many rows or tokens in one pass",
        fix="lower training.micro_batch_rows, or set training.gradient_checkpointing",
        policy="halve_micro_batch",
        may=_MEMORY,
    ),
    "play_out_of_memory": FaultKind(
        what="play does not fit into the device's or the host's memory",
        cause="too many rows of keys and values at once",
        fix="lower rollout.batch_rows, rollout.max_new_tokens or the engine's memory",
        policy="halve_play",
        may=("halve_play", "stop"),
    ),
    "host_memory_low": FaultKind(
        what="before an update less than 64 MiB of host memory are free",
        cause="another program, or a leak; the system would soon kill the run without a word",
        fix="free memory on the machine, or lower rollout.concurrency",
        policy="stop",
        may=_OUTSIDE,
    ),
    "engine_hung": FaultKind(
        what="an engine gave no reply within its deadline",
        cause="a server that is gone, overloaded or stuck",
        fix="look at the engine's log and start it again; raise survival.reply_deadline_s if it is only slow",
        policy="stop",
        may=_ENDS,
    ),
    "phase_hung": FaultKind(
        what="a phase of an update takes longer than phase_deadline_s, or closing than 120 s",
        cause="a driver, a file system or another process that does not answer",
        fix="look at the stacks in the run's hang.txt; raise the deadline if it is only slow",
        policy="stop",
        may=_ENDS,
    ),
    "disk_full": FaultKind(
        what="a file cannot be written because the disk, a quota or a limit on file sizes is full",
        cause="checkpoints and snapshots, or another program",
        fix="free space; lower keep_checkpoints",
        policy="stop",
        may=_ENDS,
    ),
    "disk_low": FaultKind(
        what="before an update less is free than 64 MiB and two checkpoints",
        cause="checkpoints and snapshots, or another program",
        fix="free space; lower keep_checkpoints",
        policy="stop",
        may=_OUTSIDE,
    ),
    "clock_jumped": FaultKind(
        what="the system's clock moved by more than 60 s against the time that passed",
        cause="a clock that was set, or a machine that slept",
        fix="nothing: durations and deadlines are measured with another clock; dates in the store and in "
        "dashboards have a gap",
        policy="go_on",
        may=_OUTSIDE,
    ),
    "matches_lost": FaultKind(
        what="most matches of a phase could not be finished",
        cause="a sandbox that cannot start, or code of the environment that raises",
        fix="mend the fault of the first lost match",
        policy="stop",
        may=_ENDS,
    ),
}
"""By name."""
