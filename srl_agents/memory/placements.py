"""Choice of the placement in which a base's versions are sampled, with its reason.

`colocated`: engine and trainer take turns in one process, each with weights of its own. `hybrid`: they
share the memory of the base's weights, in one process or, where they work at the same time, in two.
`disaggregated`: each has a process and weights of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Placement = Literal["colocated", "hybrid", "disaggregated"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementFacts:
    """Facts that decide where a base is sampled."""

    engine: str
    """Kind of the engine, for messages."""
    has_weights: bool
    """The engine has weights of its own, whatever the trainer holds."""
    is_server: bool
    """The engine is a process of its own, which the run talks to."""
    beside: bool
    """Matches are played while training goes on."""
    fixed: str = ""
    """Why two processes cannot map one copy of the base; empty where they can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A placement and why it was taken."""

    placement: Placement
    reason: str


def choose_placement(facts: PlacementFacts) -> Choice:
    """The placement with the fewest copies of the base in memory that can do what is asked."""
    if facts.is_server:
        reason = f"engine {facts.engine!r} is a process with weights of its own"
        return Choice(placement="disaggregated", reason=reason)
    if facts.has_weights and facts.beside:
        reason = f"engine {facts.engine!r} has weights of its own and plays while training goes on"
        return Choice(placement="disaggregated", reason=reason)
    if facts.has_weights:
        reason = f"engine {facts.engine!r} has weights of its own in the process that trains"
        return Choice(placement="colocated", reason=reason)
    if not facts.beside:
        reason = "the engine reads the learners' own base, so its weights are in memory once"
        return Choice(placement="hybrid", reason=reason)
    if facts.fixed:
        return Choice(placement="disaggregated", reason=facts.fixed)
    reason = "two processes map one copy of the base's weights"
    return Choice(placement="hybrid", reason=reason)


def placement_fault(placement: Placement, facts: PlacementFacts) -> str:
    """What contradicts a placement that a recipe names, and what to do; empty if nothing does."""
    name = f"placement={placement!r}"
    if facts.is_server and placement != "disaggregated":
        return (
            f"{name}: engine {facts.engine!r} is a process with weights of its own. Use "
            "'disaggregated', or engine 'transformers'."
        )
    if placement == "colocated" and facts.beside:
        return (
            f"{name}: engine and trainer take turns in one process, so nothing can be played ahead. "
            "Leave out asynchronous, or use 'hybrid' or 'disaggregated'."
        )
    if placement == "hybrid" and facts.has_weights:
        return (
            f"{name}: engine {facts.engine!r} has weights of its own and shares none. Use "
            "'colocated' or 'disaggregated', or engine 'transformers'."
        )
    if placement == "hybrid" and facts.beside and facts.fixed:
        return f"{name}: with asynchronous {facts.fixed}. Use 'disaggregated'."
    return ""
