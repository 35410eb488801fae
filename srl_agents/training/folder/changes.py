"""Settings that may change while a run is continued, the effect of each change, and a record of changes.

A run that goes on from a checkpoint plays the matches after it again. The store refuses a result that
differs from the one it has, unless something has changed since that checkpoint was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from srl_agents.records import plain_json

CHANGES = "changes.jsonl"
"""File in a run's folder: one line per change of its settings."""
Effect = Literal["none", "rounding", "other"]
MEANINGS: Mapping[Effect, str] = {
    "none": "what is computed stays equal bit for bit",
    "rounding": "numbers round differently from here on; repeatable, not equal to a run without the change",
    "other": "another experiment from here on; say so when you report it",
}
EFFECTS: Mapping[str, Effect] = {
    "updates": "none",
    "stop": "none",
    "report_to": "none",
    "keep_checkpoints": "none",
    "checkpoint_every": "none",
    "evaluation.final_pairs": "none",
    "survival": "none",
    "transport": "none",
    "memory.budget_gib": "none",
    "ray": "none",
    "placement": "none",
    "memory.sharded": "rounding",
    "device": "rounding",
    "memory.tf32": "rounding",
    "memory.float32_islands": "rounding",
    "attention": "rounding",
    "engine": "rounding",
    "rollout.concurrency": "rounding",
    "rollout.batch_rows": "rounding",
    "asynchronous.part_matches": "rounding",
    "evaluation.seat_gradients": "none",
    "training.micro_batch_rows": "rounding",
    "training.gradient_checkpointing": "rounding",
    "training.share_prefixes": "rounding",
    "training.pack_rows": "rounding",
    "training.mix_learners": "rounding",
    "training.log_probabilities": "rounding",
    "training.learning_rate": "other",
    "training.critic_learning_rate": "other",
    "training.total_updates": "other",
    "training.max_grad_norm": "other",
    "training.kl_coef": "other",
    "training.entropy_coef": "other",
    "rollout.max_new_tokens": "other",
    "rollout.temperature": "other",
    "rollout.start_states": "other",
    "rollout.group_size": "other",
}
"""Settings of a league's recipe, or whole sections of it."""
LOOKS: Mapping[str, Effect] = {"evaluation.every": "none", "evaluation.pairs": "none"}
"""Besides, where samplers of opponents do not read what looks show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One setting that is not what it was."""

    key: str
    there: Any
    here: Any

    @property
    def effect(self) -> Effect:
        """Effect of the change on what is computed."""
        known = {**EFFECTS, **LOOKS}
        return next(effect for key, effect in known.items() if within(self.key, key))

    def __str__(self) -> str:
        return f"{self.key}: {self.there!r} -> {self.here!r} ({MEANINGS[self.effect]})"


def within(key: str, section: str) -> bool:
    """Whether a dotted key is a section or in it."""
    return key == section or key.startswith(f"{section}.")


def keep_changes(folder: Path, changes: Sequence[Change], after: int) -> None:
    """Append changes to the record, before the run's recipe gets the new settings.

    Args:
        folder: of the run.
        changes: of its settings.
        after: updates that its newest checkpoint holds.
    """
    if changes:
        entries = {c.key: {"there": c.there, "here": c.here, "effect": c.effect} for c in changes}
        path = folder / CHANGES
        before = path.read_text() if path.is_file() else ""
        work = path.with_suffix(".tmp")
        work.write_text(before + plain_json({"after": after, "changes": entries}) + "\n")
        work.replace(path)  # a full disk leaves no part of a line


def changed_before(folder: Path) -> bool:
    """Whether any change was ever written down."""
    return (folder / CHANGES).is_file()


def repeats_since(folder: Path, step: int) -> bool:
    """Whether all that was played after a checkpoint was played with the present settings.

    Args:
        folder: of the run.
        step: updates that the checkpoint holds.
    """
    path = folder / CHANGES
    if not path.is_file():
        return True
    return all(
        change["after"] < step
        for change in map(json.loads, path.read_text().splitlines())
        if any(entry["effect"] != "none" for entry in change["changes"].values())
    )
