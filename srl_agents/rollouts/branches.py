"""Branches of played matches: their specs, and what they keep of the parent.

A branch needs no copy of an environment: the parent's replies are given again from the parent's seed, and
what is seen on the way must be what the parent saw. Design: docs/design/forks.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from srl_agents.records import Branch, Episode, MatchSpec, Turn, digest
from srl_envs.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Prefix:
    """Replies of a parent that its branch gives again."""

    steps: tuple[Mapping[int, Turn], ...]
    """Of each joint step before the decision: seat -> turn, in the order of the parent's turns."""
    beside: Mapping[int, Turn]
    """In the step of the decision, what the seats that do not answer anew replied."""
    order: tuple[int, ...]
    """Seats on move in the step of the decision, in the order of the parent's turns."""
    seen: Mapping[int, str]
    """Seat -> what it saw in the step of the decision."""
    reshuffles: tuple[tuple[int, int], ...] = ()
    """(joint steps before it, number) of each time at which chance was drawn anew up to the decision."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of what was replied and is kept; it stands in `Branch.prefix`."""
        drawn = [[list(pair) for pair in self.reshuffles]] if self.reshuffles else []
        return digest([[_plain(step) for step in self.steps], _plain(self.beside), *drawn])


def _plain(step: Mapping[int, Turn]) -> list[list[object]]:
    return [[seat, turn.reply, list(turn.completion_ids)] for seat, turn in sorted(step.items())]


def branch_spec(
    parent: Episode,
    decision: int,
    *,
    alternative: int,
    joint: bool = False,
    chances: Literal["parent", "fresh"] = "parent",
    seats: Sequence[str] | None = None,
) -> MatchSpec:
    """The spec of a match that leaves ``parent`` at a decision.

    Args:
        parent: as it was played; it may be a branch itself.
        decision: `Turn.turn_index` of the reply that is given anew; with ``joint``, of the first in its step.
        alternative: from 1; equal arguments with another number are another match.
        joint: whether all seats on move in that step answer anew.
        chances: whether random events from the decision on are those that the parent would meet, or drawn
            anew: what has not happened and no seat has seen (`srl_envs.core.Game.reshuffled`).
        seats: agent id per seat from the decision on; the parent's by default.

    Raises:
        ConfigError: the parent was lost, has no such decision or was recorded without its steps; or the
            number of seats differs.
    """
    spec = parent.spec
    kept = _prefix(parent, decision, joint=joint)
    if seats is not None and len(seats) != len(spec.seats):
        raise ConfigError(
            f"branch of {spec.match_id}: {len(seats)} seats for {len(spec.seats)} of {spec.env_id}."
        )
    return replace(
        spec,
        seats=spec.seats if seats is None else tuple(seats),
        purpose="fork",
        branch=Branch(
            parent=spec.match_id,
            decision=decision,
            joint=joint,
            alternative=alternative,
            chances=chances,
            prefix=kept.digest,
        ),
    )


def number_of(spec: MatchSpec) -> int:
    """What addresses the fresh chances of a branch: another number for every match."""
    return int(digest([spec.match_id])[:8], 16)


def prefix_of(spec: MatchSpec, branch: Branch, parents: Mapping[str, Episode]) -> Prefix:
    """What a branch keeps of its parent.

    Args:
        spec: of the match.
        branch: that the match is.
        parents: match id -> episode, as it was played.

    Raises:
        ConfigError: the parent is not there, or is not the one that the branch was made of.
    """
    name = f"branch {spec.match_id} of {branch.parent}"
    parent = parents.get(branch.parent)
    if parent is None:
        raise ConfigError(f"{name}: its parent was not given.")
    own = (spec.env_id, spec.options, spec.split, spec.seed)
    theirs = (parent.spec.env_id, parent.spec.options, parent.spec.split, parent.spec.seed)
    if own != theirs:
        raise ConfigError(
            f"{name}: it is of {spec.env_id}, split {spec.split}, seed {spec.seed}, options {spec.options}; "
            f"its parent of {parent.spec.env_id}, {parent.spec.split}, {parent.spec.seed}, "
            f"{parent.spec.options}."
        )
    kept = _prefix(parent, branch.decision, joint=branch.joint)
    if kept.digest != branch.prefix:
        raise ConfigError(
            f"{name}: the parent that was given replied otherwise before the decision."
        )
    return kept


def _prefix(parent: Episode, decision: int, *, joint: bool) -> Prefix:
    name = f"match {parent.spec.match_id}"
    if not parent.valid:
        raise ConfigError(f"{name} was lost ({parent.fault}): it has no branches.")
    if any(turn.step < 0 for own in parent.trajectories for turn in own.turns):
        raise ConfigError(
            f"{name} was recorded without its steps, by an older SRL: it has no branches."
        )
    steps = list(_steps(parent))
    turns = [
        (turn, seat, number) for number, step in enumerate(steps) for seat, turn in step.items()
    ]
    found = next((place for place in turns if place[0].turn_index == decision), None)
    if found is None:
        raise ConfigError(
            f"{name} has no decision {decision}: it ended after {len(turns)}, numbered from 0."
        )
    _, seat, number = found
    order = tuple(steps[number])
    if joint and seat != order[0]:
        first = steps[number][order[0]].turn_index
        raise ConfigError(
            f"{name}: decision {decision} is not the first of its step; that is {first}."
        )
    beside = {} if joint else {k: turn for k, turn in steps[number].items() if k != seat}
    seen = {k: turn.observation for k, turn in steps[number].items()}
    drawn = tuple(pair for pair in parent.reshuffles if pair[0] <= number)
    return Prefix(tuple(steps[:number]), beside, order, seen, drawn)


def _steps(parent: Episode) -> Iterator[Mapping[int, Turn]]:
    """Joint steps in order: seat -> turn, in the order of turns."""
    turns = sorted(
        ((turn, own.seat) for own in parent.trajectories for turn in own.turns),
        key=lambda pair: pair[0].turn_index,
    )
    for _, step in groupby(turns, key=lambda pair: pair[0].step):
        yield {seat: turn for turn, seat in step}
