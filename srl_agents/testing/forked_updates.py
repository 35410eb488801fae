"""Updates with branches, drawn on the spot: what estimators that read forks are checked on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from srl_agents.credit.estimators import Earned
from srl_agents.credit.forks import Forest
from srl_agents.credit.returns import rewards_to_go
from srl_agents.records import Branch, Episode, MatchSpec, Trajectory, Turn

_GROUPS, _SEATS, _TURNS = 3, 2, 3
_BRANCHES = 2


def forked_in(update: int, *, learner: str = "alice", joint: bool = False) -> Earned:
    """What a policy earned in an update whose matches fork at every decision; one branch of each failed.

    Args:
        update: changes the numbers.
        learner: whose running means apply.
        joint: both seats answer at once and fork together; else they take turns and fork one by one.
    """
    rng = np.random.default_rng(update)
    episodes = [
        episode
        for group in range(_GROUPS)
        for episode in _tree(group, rng, f"{learner}@{update}", joint=joint)
    ]
    return earned_by(episodes, learner=learner)


def earned_by(episodes: Sequence[Episode], *, learner: str = "alice") -> Earned:
    """What the only policy of these episodes earned, turn by turn.

    Args:
        episodes: of one update; the policy holds all seats.
        learner: its name.
    """
    seats = [(e, t) for e in episodes for t in e.trajectories]
    shape = (len(seats), max(len(t.turns) for _, t in seats))
    rewards_EK, valid_EK = np.zeros(shape), np.zeros(shape, dtype=bool)
    for e, (episode, trajectory) in enumerate(seats):
        if episode.valid:
            rewards_EK[e, : len(trajectory.turns)] = [turn.reward for turn in trajectory.turns]
            valid_EK[e, : len(trajectory.turns)] = True
    return Earned(
        rewards_EK=rewards_EK,
        returns_EK=rewards_to_go(rewards_EK, valid_EK),
        valid_EK=valid_EK,
        group_E=np.array([e.spec.number for e, _ in seats]),
        seat_E=np.array([t.seat for _, t in seats]),
        roles_E=tuple((e.spec.env_id, t.seat, learner) for e, t in seats),
        forest=Forest.of(episodes, seats),
    )


def played(
    spec: MatchSpec,
    rewards: Sequence[Sequence[float]],
    parent: Episode | None = None,
    *,
    kept: Sequence[int] = (),
) -> Episode:
    """A match in which the seats reply in order, turn after turn, or a branch of one.

    Args:
        spec: of the match; before its decision it inherits what the parent replied.
        rewards: seat -> what its own turns paid, inherited ones left out.
        parent: of a branch.
        kept: turn indexes behind the decision whose replies are the parent's, too.
    """
    trajectories = []
    for seat, own in enumerate(rewards):
        turns: list[Turn] = []
        if parent is not None and spec.branch is not None:
            turns = [
                replace(turn, inherited=True)
                for turn in parent.trajectories[seat].turns
                if turn.turn_index < spec.branch.decision or turn.turn_index in kept
            ]
        for k, reward in enumerate(own, start=len(turns)):
            turns.append(_turn(seat, k, len(rewards), reward, spec))
        paid = sum(turn.reward for turn in turns)
        trajectories.append(
            Trajectory(
                seat=seat,
                policy=spec.seats[seat],
                turns=tuple(turns),
                outcome=paid,
                total_reward=paid,
                components={"format": 0.0},
            )
        )
    return Episode(spec=spec, trajectories=tuple(trajectories), termination="ok")


def _turn(seat: int, k: int, seats: int, reward: float, spec: MatchSpec) -> Turn:
    return Turn(
        turn_index=k * seats + seat,
        observation=f"seat {seat}, turn {k}",
        reply=f"{spec.match_id} {seat} {k}",
        invalid=None,
        reward=reward,
        components={},
        completion_ids=(1,),
        logprobs=(-0.5,),
    )


def _tree(group: int, rng: np.random.Generator, policy: str, *, joint: bool) -> list[Episode]:
    """A match of two seats, and branches that leave it at every decision."""
    spec = MatchSpec(
        env_id="none-v0",
        seed=group,
        split="train",
        seats=(policy,) * _SEATS,
        learner_seats=tuple(range(_SEATS)),
        number=group,
    )
    parent = played(spec, rng.uniform(-1, 1, (_SEATS, _TURNS)).tolist())
    found = [parent]
    for decision in range(0, _SEATS * _TURNS, _SEATS if joint else 1):
        for alternative in range(1, _BRANCHES + 2):
            branch = Branch(
                parent=spec.match_id,
                decision=decision,
                joint=joint,
                alternative=alternative,
                prefix="",
            )
            left = [
                _TURNS - sum(k * _SEATS + s < decision for k in range(_TURNS))
                for s in range(_SEATS)
            ]
            rewards = [rng.uniform(-1, 1, n).tolist() for n in left]
            episode = played(replace(spec, branch=branch), rewards, parent)
            failed = alternative > _BRANCHES
            found.append(replace(episode, termination="void") if failed else episode)
    return found
