"""Forks of an update: decisions that were answered more than once, and what each answer led to.

Axes: ``E`` one entry per episode and seat that the policy held, ``K`` the seat's own turns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from srl_agents.records import Episode, MatchSpec, Trajectory
from srl_envs.errors import ConfigError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Place = tuple[int, int]
"""(entry, number of the turn among the seat's own)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    """One decision with its alternatives: the reply of the parent first, then those of its branches."""

    decision: int
    """`Turn.turn_index` in every alternative; with ``joint`` that of the first turn of its step."""
    joint: bool
    """Whether all seats on move in that step answered anew, together."""
    matches: tuple[str, ...]
    """`MatchSpec.match_id` of each valid alternative."""
    end: int
    """Last `Turn.turn_index` of its step: what is decided later depends on the alternative."""
    choices: Mapping[int, tuple[Place, ...]]
    """Deciding seat, as far as the policy held it -> where its reply is in each alternative."""

    @property
    def parent(self) -> str:
        """The match that the others left."""
        return self.matches[0]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Forest:
    """Forks among what one policy played in an update. A match and all that left it are a tree.

    Only valid matches count: a fork of which one alternative is left has none.
    """

    forks: tuple[Fork, ...]
    """In the order of their first branches."""
    tree_E: Ints
    """Which tree an entry is of: entries with equal numbers come from one parent."""
    sampled_EK: Flags
    """True for turns that were written in their own match: what a branch inherits is not its own."""
    entries: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(match, seat) -> entry, valid ones only."""
    children: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Match -> valid branches that leave it."""

    @classmethod
    def of(cls, episodes: Sequence[Episode], seats: Sequence[tuple[Episode, Trajectory]]) -> Forest:
        """The forks of an update.

        Args:
            episodes: all of the update, also those in which the policy held no seat.
            seats: E; episodes with the trajectory of the policy.

        Raises:
            ConfigError: the parent of a branch is absent, or has no such decision.
        """
        lineage = {e.spec.match_id: e for e in episodes} if _any_branch(episodes) else {}
        roots = [_root(e.spec, lineage) for e, _ in seats]
        number = {root: i for i, root in enumerate(dict.fromkeys(roots))}
        sampled_EK = np.zeros((len(seats), max([1, *(len(t.turns) for _, t in seats)])), bool)
        for e, (_, trajectory) in enumerate(seats):
            sampled_EK[e, : len(trajectory.turns)] = [
                not turn.inherited for turn in trajectory.turns
            ]
        entries = {
            (episode.spec.match_id, trajectory.seat): e
            for e, (episode, trajectory) in enumerate(seats)
            if lineage and episode.valid
        }
        return cls(
            forks=tuple(_forks(lineage, entries)),
            tree_E=np.array([number[root] for root in roots], dtype=np.int64),
            sampled_EK=sampled_EK,
            entries=entries,
            children=_children(lineage),
        )

    def backed_up(self, fork: Fork, seat: int, returns_EK: Floats) -> Floats:
        """(alternatives,) what each was worth to a seat from the decision on, later forks averaged.

        The return of an alternative is its match's own; where the match forks again, the mean over the
        alternatives there, and so on to the leaves. That is unbiased where paths go on from a fixed or a
        sampled alternative, and not where they go on from the best.

        Args:
            fork: a decision.
            seat: one of its `Fork.choices`.
            returns_EK: (E, K) rewards from each turn on.
        """
        return np.array(
            [
                self.worth(match, seat, place[1], fork.end, returns_EK)
                for match, place in zip(fork.matches, fork.choices[seat], strict=True)
            ]
        )

    def next_fork(self, match: str, after: int) -> Fork | None:
        """The first decision of a match behind a turn index at which others left it."""
        later = [f for f in self.forks if f.parent == match and f.decision > after]
        return min(later, key=lambda f: (f.decision, f.joint), default=None)

    def worth(self, match: str, seat: int, turn: int, after: int, returns_EK: Floats) -> float:
        """What a match paid a seat from one of its turns on, forks behind ``after`` averaged."""
        fork = self.next_fork(match, after)
        below = [] if fork is None else [m for m in fork.matches if (m, seat) in self.entries]
        if fork is None or len(below) < 2:
            return float(returns_EK[self.entries[match, seat], turn])
        return float(np.mean([self.worth(m, seat, turn, fork.end, returns_EK) for m in below]))

    def worth_after(
        self, match: str, seat: int, turn: int, after: int, returns_EK: Floats
    ) -> float | None:
        """Mean worth of the fresh continuations at the next fork; None where no fork follows.

        Args:
            match: whose next fork.
            seat: for whom.
            turn: number of the seat's turn from which returns count.
            after: turn index behind which the fork is.
            returns_EK: (E, K) rewards from each turn on.
        """
        fork = self.next_fork(match, after)
        fresh = [] if fork is None else [m for m in fork.matches[1:] if (m, seat) in self.entries]
        if fork is None or not fresh:
            return None
        return float(np.mean([self.worth(m, seat, turn, fork.end, returns_EK) for m in fresh]))

    def leaves(self, match: str, seat: int, turn: int) -> list[int]:
        """Entries of all matches that hold this turn: the match's own, and those that inherited it."""
        own = self.entries[match, seat]
        found = [own]
        for child in self.children.get(match, ()):
            entry = self.entries.get((child, seat))
            if (
                entry is not None
                and turn < self.sampled_EK.shape[1]
                and self._inherits(entry, turn)
            ):
                found += self.leaves(child, seat, turn)
        return found

    def _inherits(self, entry: int, turn: int) -> bool:
        """Whether a turn of a branch's entry is its parent's: all before the first sampled one are."""
        sampled = np.flatnonzero(self.sampled_EK[entry])
        first = int(sampled[0]) if len(sampled) else self.sampled_EK.shape[1]
        return turn < first


def _any_branch(episodes: Sequence[Episode]) -> bool:
    return any(e.spec.branch is not None for e in episodes)


def _root(spec: MatchSpec, lineage: Mapping[str, Episode]) -> str:
    """The match that a match comes from, over all its parents."""
    while spec.branch is not None:
        if spec.branch.parent not in lineage:
            raise ConfigError(
                f"credit: match {spec.match_id} leaves {spec.branch.parent}, which is not among the "
                f"{len(lineage)} episodes of the update. Give parents and branches together."
            )
        spec = lineage[spec.branch.parent].spec
    return spec.match_id


def root_specs(
    episodes: Sequence[Episode], seats: Sequence[tuple[Episode, Trajectory]]
) -> list[MatchSpec]:
    """(E,) spec of the match from its start that each entry comes from.

    Raises:
        ConfigError: the parent of a branch is absent.
    """
    if not _any_branch(episodes):
        return [e.spec for e, _ in seats]
    lineage = {e.spec.match_id: e for e in episodes}
    return [lineage[_root(e.spec, lineage)].spec for e, _ in seats]


def _children(lineage: Mapping[str, Episode]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for match, episode in lineage.items():
        branch = episode.spec.branch
        if branch is not None and episode.valid:
            found[branch.parent] = (*found.get(branch.parent, ()), match)
    return found


def _forks(
    lineage: Mapping[str, Episode], entries: Mapping[tuple[str, int], int]
) -> Iterator[Fork]:
    """Each decision of each match that valid branches leave there."""
    found: dict[tuple[str, int, bool], list[Episode]] = {}
    for episode in lineage.values():
        branch = episode.spec.branch
        if branch is not None and episode.valid and lineage[branch.parent].valid:
            key = (branch.parent, branch.decision, branch.joint)
            found.setdefault(key, []).append(episode)
    for (parent, decision, joint), branches in found.items():
        branches.sort(key=lambda e: e.spec.branch.alternative if e.spec.branch else 0)
        yield _fork(lineage[parent], decision, joint, branches, entries)


def _fork(
    parent: Episode,
    decision: int,
    joint: bool,
    branches: Sequence[Episode],
    entries: Mapping[tuple[str, int], int],
) -> Fork:
    deciding = _deciding(parent, decision, joint, branches)
    if not deciding or any(_first_index(branch) < decision for branch in branches):
        raise ConfigError(
            f"credit: branches of match {parent.spec.match_id} leave it at turn {decision}, which is not "
            "where their first own reply is."
        )
    matches = [e.spec.match_id for e in (parent, *branches)]
    kept = [
        turn.turn_index
        for branch in branches
        for trajectory in branch.trajectories
        for turn in trajectory.turns
        if turn.inherited
    ]
    own = [parent.trajectories[seat].turns[k].turn_index for seat, k in deciding.items()]
    return Fork(
        decision=decision,
        joint=joint,
        matches=tuple(matches),
        end=max([*kept, *own]),
        choices={
            seat: tuple((entries[match, seat], k) for match in matches)
            for seat, k in deciding.items()
            if all((match, seat) in entries for match in matches)
        },
    )


def _deciding(
    parent: Episode, decision: int, joint: bool, branches: Sequence[Episode]
) -> dict[int, int]:
    """Seats that answered anew at the decision -> number of that turn among their own.

    A seat is on move in the step if its turn has the step's number. Records without steps show it by what the
    seat read, the same in every alternative, at a turn index within the number of seats.
    """
    found: dict[int, int] = {}
    turns = [turn for trajectory in parent.trajectories for turn in trajectory.turns]
    step = next((turn.step for turn in turns if turn.turn_index == decision), -1)
    for trajectory in parent.trajectories:
        seat = trajectory.seat
        first = {_first_sampled(branch.trajectories[seat]) for branch in branches}
        k = first.pop()
        if first or k is None or k >= len(trajectory.turns):
            continue
        turn = trajectory.turns[k]
        last = decision + (len(parent.trajectories) - 1 if joint else 0)
        same = {turn.observation, *(b.trajectories[seat].turns[k].observation for b in branches)}
        together = len(same) == 1 if step < 0 else turn.step == step
        if decision <= turn.turn_index <= last and (together or not joint):
            found[seat] = k
    return found


def _first_index(branch: Episode) -> float:
    """Turn index of the first reply that is the branch's own."""
    own = (t.turn_index for seat in branch.trajectories for t in seat.turns if not t.inherited)
    return min(own, default=math.inf)


def _first_sampled(trajectory: Trajectory) -> int | None:
    """Number of the first turn that is the match's own; None where there is none."""
    own = (k for k, turn in enumerate(trajectory.turns) if not turn.inherited)
    return next(own, None)
