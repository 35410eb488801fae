"""Faults that a run's metrics indicate, in order of likelihood, each with a remedy.

Arithmetic on the records that every run writes; nothing is loaded.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from srl_agents.metrics.sinks import METRICS, read_lines
from srl_agents.recipes.sections.fault_kinds import FAULTS
from srl_agents.training.faults.survival import read_events

_RECENT = 5
"""Updates that say how a run is now."""
_ENOUGH = 6
"""Updates before a trend is meaningful."""

Records = Sequence[Mapping[str, Any]]
Series = Callable[[str], list[float]]
"""Metric -> its values, update by update, where it was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """Something that is probably wrong."""

    likelihood: float
    """A judgement between 0 and 1, to sort by."""
    what: str
    remedy: str
    learner: str = ""


def diagnose(folder: Path, recipe: Mapping[str, Any]) -> list[Complaint]:
    """Complaints about a run, the likeliest first.

    Args:
        folder: of the run.
        recipe: of it, as plain values.
    """
    records = read_lines(folder / METRICS)
    found = [*_of_faults(folder, len(records)), *_of_run(records)]
    if not records:
        found.append(
            Complaint(
                likelihood=0.5,
                what="the run has not recorded an update yet",
                remedy="wait for the first update; if nothing runs, go on with: "
                f"srl train {shlex.quote(str(folder))}",
            )
        )
    for name in records[-1]["learners"] if records else ():
        found += [*_of_learner(name, records, recipe)]
    return sorted(found, key=lambda one: (-one.likelihood, one.learner, one.what))


def _of_faults(folder: Path, updates: int) -> Iterator[Complaint]:
    """What the run met; the last attempt's faults are likelier to matter than old ones."""
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for event in read_events(folder):
        last[event["fault"], event["learner"]] = event
    for (fault, learner), event in last.items():
        ended = event["policy"] == "stop"
        fresh = event["update"] >= updates
        yield Complaint(
            likelihood=0.99
            if ended and fresh
            else 0.8
            if fresh or event["policy"] != "go_on"
            else 0.3,
            what=f"{fault} in update {event['update']} ({event['policy']}): {event['told']}",
            remedy=FAULTS[fault].fix if fault in FAULTS else "see `srl docs survival`",
            learner=learner,
        )


def _of_run(records: Records) -> Iterator[Complaint]:
    values = _series(record["run"] for record in records)
    lost = values("void")[-_RECENT:]
    if any(lost):
        yield Complaint(
            likelihood=0.7,
            what=f"{sum(lost):g} matches of the last {len(lost)} updates were lost",
            remedy="look at the sandbox (`srl doctor`) and at the environment's errors",
        )
    held = values("memory/allocated_gb")
    if len(held) >= _ENOUGH and held[-1] > 1.5 * held[len(held) // 2] and held[-1] - held[0] > 1:
        yield Complaint(
            likelihood=0.6,
            what=f"memory grows: {held[0]:.1f} GB at first, {held[-1]:.1f} GB now",
            remedy="lower engine.cache_gib and rollout.concurrency; report it if it goes on",
        )
    play, train = values("generate_s")[-_RECENT:], values("train_s")[-_RECENT:]
    if len(play) == _RECENT and sum(play) > 10 * max(sum(train), 1e-9):
        share = sum(play) / (sum(play) + sum(train))
        yield Complaint(
            likelihood=0.25,
            what=f"{share:.0%} of the time is play",
            remedy="set rollout.order free, raise rollout.batch_rows, or play through vLLM (srl serve)",
        )


def _of_learner(name: str, records: Records, recipe: Mapping[str, Any]) -> Iterator[Complaint]:
    values = _series(record["learners"].get(name, {}) for record in records)
    for rule in (_silent, _flat, _no_progress, _numbers, _cut):
        for likelihood, what, remedy in rule(values, recipe):
            yield Complaint(likelihood=likelihood, what=what, remedy=remedy, learner=name)


Found = Iterator[tuple[float, str, str]]


def _silent(values: Series, _: Mapping[str, Any]) -> Found:
    refused = values("invalid_share")
    if refused and (now := mean(refused[-_RECENT:])) > 0.5:
        before = mean(refused[:_RECENT])
        lost = now > before + 0.2
        why = "it has lost the format" if lost else "it does not know the format"
        remedy = "lower training.learning_rate, raise training.kl_coef"
        yield (
            0.5 + now / 2 - 0.01,
            f"{now:.0%} of its replies are refused ({before:.0%} at first): {why}",
            remedy if lost else "add a warm_start, prompt.examples, or a larger model",
        )
    if any(share > 0 for share in values("unread_share")[-_RECENT:]):
        yield 0.7, "prompts do not fit the model's context", "add a HistoryWindow wrapper"


def _flat(values: Series, recipe: Mapping[str, Any]) -> Found:
    flat, rows = values("flat_groups")[-_RECENT:], values("rows")
    if rows and not any(rows):
        yield 0.95, "it has never had a row to learn from", "see flat groups and refused replies"
    if flat and mean(flat) > 0.8:
        size = recipe.get("rollout", {}).get("group_size")
        yield (
            0.85,
            f"{mean(flat):.0%} of groups earn the same, and teach nothing",
            f"raise rollout.group_size ({size}) or temperature, or take an easier or harder environment",
        )


def _no_progress(values: Series, _: Mapping[str, Any]) -> Found:
    rewards = values("reward")
    third = len(rewards) // 3
    if third >= _ENOUGH // 3 and mean(rewards[-third:]) < mean(rewards[:third]) - 0.05:
        yield (
            0.45,
            f"its reward fell from {mean(rewards[:third]):.3f} to {mean(rewards[-third:]):.3f}",
            "compare with score_start: stronger opponents lower it, too; else lower training.learning_rate",
        )
    scores = values("score_start")
    if len(scores) >= 2 and scores[-1] < 0.45:
        yield (
            0.75,
            f"it scores {scores[-1]:.0%} against the version it started as",
            "go back to adapters/NAME-best; lower training.learning_rate",
        )
    elif len(scores) >= 3 and max(scores[-3:]) < 0.53:
        yield (
            0.5,
            "it plays as well as the version it started as, not better",
            "more updates, more start_states",
        )


def _numbers(values: Series, recipe: Mapping[str, Any]) -> Found:
    kl, entropy, norms = (values(name)[-_RECENT:] for name in ("kl", "entropy", "grad_norm"))
    if kl and mean(kl) > 1:
        yield (
            0.6,
            f"it is {mean(kl):.1f} nats per token from its reference",
            "raise training.kl_coef",
        )
    if entropy and mean(entropy) < 0.02:
        yield (
            0.4,
            f"its entropy is {mean(entropy):.3f} nats per token: it explores nothing",
            "raise rollout.temperature or training.entropy_coef, unless the game is solved",
        )
    most = recipe.get("training", {}).get("max_grad_norm") or 0
    if most and norms and median(norms) > 20 * most:
        yield (
            0.35,
            f"gradients of norm {median(norms):.3g} are clipped to {most:g} in every step",
            "lower training.learning_rate, or scale rewards",
        )
    clipped, differ = values("clip_fraction")[-_RECENT:], values("sampler_kl")[-_RECENT:]
    if clipped and mean(clipped) > 0.3:
        yield 0.4, f"{mean(clipped):.0%} of tokens are clipped", "lower iterations or learning_rate"
    if differ and mean(differ) > 0.1:
        yield (
            0.4,
            f"trainer and sampler differ by {mean(differ):.2f} nats per token",
            "use one dtype for both; set no top_k, top_p or min_p",
        )
    late = values("version_lag")[-_RECENT:]
    if late and mean(late) > 4:
        yield 0.4, f"its rows are {mean(late):.1f} steps old", "let fewer updates wait"


def _cut(values: Series, recipe: Mapping[str, Any]) -> Found:
    most = recipe.get("rollout", {}).get("max_new_tokens") or 0
    tokens = values("reply_tokens")[-_RECENT:]
    if most and tokens and mean(tokens) > 0.95 * most:
        yield (
            0.65,
            f"replies have {mean(tokens):.0f} tokens on average, and {most} is the limit: most are cut off",
            "raise rollout.max_new_tokens, or reward shorter replies",
        )


def _series(rows: Any) -> Series:
    kept = list(rows)
    return lambda metric: [float(row[metric]) for row in kept if metric in row]
