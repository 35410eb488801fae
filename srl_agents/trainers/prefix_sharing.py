"""The rule of ``share_prefixes: auto``: whether a model reads what rows begin with alike once.

`srl plan` asks it of a recipe, and a learner of its loaded model, so both decide alike. Without torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, Protocol

from srl_agents.records import TrainingBatch

ShareSetting = bool | Literal["auto"]
MASKED_LAYERS = ("full_attention", "sliding_attention")
"""Types of layers that take a mask of the tokens of a row."""
PASSES_PER_SHARED = 4
"""Passes over separate rows that one pass over shared prefixes is worth: with groups of 8 it was measured to
take .22 of their time. Learners share micro-batches instead where that saves more."""
_OWN_MASKS = ("auto", "sdpa", "eager")
"""Attention functions that take any mask."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """A decision, and its reason for the reader."""

    shares: bool
    reason: str

    def __str__(self) -> str:
        return f"{'on' if self.shares else 'off'} ({self.reason})"


def prefix_sharing(
    setting: ShareSetting, *, attention: str, layers: Iterable[str] = (), packs: bool = False
) -> Sharing:
    """Decide whether rows share what they begin with.

    Args:
        setting: of the learner; with True or False it is the decision.
        attention: function that computes attention, by transformers' name, or ``auto``.
        layers: types of the model's layers, by transformers' names; empty where all have full attention.
        packs: whether rows are packed into one sequence without padding.
    """
    if setting != "auto":
        return Sharing(bool(setting), "set in the recipe")
    if packs:
        return Sharing(False, "auto: pack_rows lays rows out")
    if attention not in _OWN_MASKS:
        return Sharing(False, f"auto: attention {attention!r} takes no mask per token")
    unmasked = sorted(set(layers) - set(MASKED_LAYERS))
    if unmasked:
        return Sharing(False, f"auto: layers of type {', '.join(unmasked)} take no mask per token")
    return Sharing(True, "auto: attention takes a mask per token")


def mixing_saves(separate: int, together: int, *, shares: bool) -> bool:
    """Whether learners that share micro-batches take less time than learners with passes of their own.

    Args:
        separate: passes of all learners, each over its own rows.
        together: passes over the rows of all.
        shares: whether a learner's own passes read common prefixes once.
    """
    return together * (PASSES_PER_SHARED if shares else 1) < separate


class Mixing(Protocol):
    """A learner, as far as the rule asks it."""

    @property
    def mixes(self) -> bool:
        """Whether its rows may stand in one batch with others'."""

    @property
    def micro_batch_rows(self) -> int:
        """Most rows of one pass."""

    @property
    def sharing(self) -> Sharing:
        """Whether its own passes read common prefixes once."""


def worth_mixing(
    learners: Mapping[str, Mixing], batches: Mapping[str, object]
) -> dict[str, TrainingBatch]:
    """Batches of learners that save passes when they share them; fewer than two are none."""
    mixing = {
        name: batch
        for name, batch in batches.items()
        if learners[name].mixes and isinstance(batch, TrainingBatch)
    }
    if not mixing:
        return {}
    most = min(learners[name].micro_batch_rows for name in mixing)
    separate = sum(ceil(batch.rows / most) for batch in mixing.values())
    together = ceil(sum(batch.rows for batch in mixing.values()) / most)
    shares = any(learners[name].sharing.shares for name in mixing)
    return mixing if mixing_saves(separate, together, shares=shares) else {}
