"""Shares of a team's outcome on episodes played again, against sums done by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest

from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.settings import CreditSettings
from srl_agents.credit.teams.coalitions import EXACT_LIMIT
from srl_agents.credit.teams.shares import difference_shares, shapley_seat_shares
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_envs.errors import ConfigError


def episode(*outcomes: float, attempt: int = 0, observation: str = "o") -> Episode:
    turns = tuple(
        Turn(
            turn_index=k, observation=f"{observation}{k}", reply=f"{attempt}/{k}", invalid=None,
            reward=0.0, components={}, prompt_ids=(1,), completion_ids=(2,), logprobs=(-0.5,),
        )
        for k in (0, 1)
    )  # fmt: skip
    seats = tuple("ab"[s % 2] for s in range(len(outcomes)))
    return Episode(
        spec=MatchSpec(
            env_id="e-v0", seed=0, split="train", seats=seats, learner_seats=(0,), attempt=attempt
        ),
        trajectories=tuple(
            Trajectory(
                seat=s, policy=seats[s], turns=turns, outcome=outcome, total_reward=outcome,
                components={"format": 0.0},
            )
            for s, outcome in enumerate(outcomes)
        ),
        termination="ok",
    )  # fmt: skip


Pay = dict[frozenset[int], tuple[float, ...]]
"""What each set of idle seats pays."""


def without(idle_pay: Pay) -> Callable[[Episode, frozenset[int]], tuple[float, ...]]:
    """Asking for no idle seats is a mistake: that was played."""
    return lambda _, idle: idle_pay[idle]


PAY: Pay = {
    frozenset({0}): (0.0, 0.1),
    frozenset({1}): (0.4, 0.0),
    frozenset({0, 1}): (0.0, 0.0),
}


def test_a_difference_is_what_the_teams_mean_lost() -> None:
    """The team made 1.0; 0.1 without seat 0, 0.4 without seat 1: means of two seats."""
    shares = difference_shares(episode(0.6, 0.4), [0, 1], without(PAY))
    assert shares == pytest.approx({0: 0.45, 1: 0.3})


def test_shapley_shares_of_two_seats() -> None:
    """Seat 0: half of (0.4 - 0) + half of (1.0 - 0.1); together all that was made."""
    shares = shapley_seat_shares(episode(0.6, 0.4), [0, 1], without(PAY))
    assert shares == pytest.approx({0: 0.65, 1: 0.35})


def test_seats_of_other_teams_never_idle_and_their_outcome_does_not_count() -> None:
    pay: Pay = {
        frozenset(idle): (0.0, 0.9, 0.2, 0.9)
        for size in (1, 2)
        for idle in combinations((0, 2), size)
    }
    shares = difference_shares(episode(0.5, -0.5, 0.5, -0.5), [0, 2], without(pay))
    assert shares == pytest.approx({0: 0.4, 2: 0.4})


def test_a_large_team_shares_out_all_that_it_made() -> None:
    """Every seat brings its number of hundredths, so that is its share in any order of joining."""
    seats = EXACT_LIMIT + 1
    made = [s / 100 for s in range(seats)]
    shares = shapley_seat_shares(
        episode(*made),
        range(seats),
        lambda _, idle: [0.0 if s in idle else made[s] for s in range(seats)],
    )
    assert shares == pytest.approx(dict(enumerate(made)))


@pytest.mark.parametrize(
    ("kind", "worths"),
    [
        # seat 0 is worth what it has of the team: half of the sum less 0.1, half of it less 0.3
        ("difference", ((1.0 - 0.1) / 2, (0.4 - 0.3) / 2)),
        ("shapley", ((0.4 + (1.0 - 0.1)) / 2, (0.2 + (0.4 - 0.3)) / 2)),
        ("mean", (0.5, 0.2)),
    ],
)
def test_full_cooperation_climbs_the_share(kind: str, worths: tuple[float, float]) -> None:
    first, second = episode(0.6, 0.4), episode(0.3, 0.1, attempt=1)
    other = {
        frozenset({0}): (0.0, 0.3),
        frozenset({1}): (0.2, 0.0),
        frozenset({0, 1}): (0.0, 0.0),
    }
    assigner = CreditAssigner(
        CreditSettings(mode="cooperative", cooperation=1.0, team_share=kind),  # type: ignore[arg-type]
        replayed=lambda which, idle: (PAY if which is first else other)[idle],
    )
    rows, metrics = assigner.assign([first, second], "a", "a")
    half = (worths[0] - worths[1]) / 2
    assert {turn.reply: advantage for turn, advantage in rows} == pytest.approx(
        {"0/0": half, "0/1": half, "1/0": -half, "1/1": -half}
    )
    assert metrics["team_term"] == pytest.approx(sum(worths) / 2 - 0.45)


def test_shares_from_replays_need_replays() -> None:
    with pytest.raises(ConfigError, match="team_share='shapley' needs episodes"):
        CreditAssigner(CreditSettings(mode="mixed", team_share="shapley"))


def digit(text: str, seat: int) -> float:
    """Potential of the tests: the observation's last digit, in tenths."""
    return int(text[-1]) / 10


def unmeasurable(text: str, seat: int) -> float:
    return float("nan")


def test_changes_of_the_potential_are_added_to_what_turns_are_paid() -> None:
    """Turns see 0.0 then 0.1 in one attempt, 0.5 then 0.1 in the other; only the end pays."""
    first, second = episode(0.6, 0.4), episode(0.3, 0.1, attempt=1)
    mine, other = second.trajectories
    turns = (replace(mine.turns[0], observation="o5"), mine.turns[1])
    second = replace(second, trajectories=(replace(mine, turns=turns), other))
    assigner = CreditAssigner(
        CreditSettings(level="turn", discount=0.5, potential=f"{__name__}:digit")
    )
    rows, _ = assigner.assign([first, second], "a", "a")
    # returns to go: 0.5 * 0.6 - 0.0 and 0.6 - 0.1; 0.5 * 0.3 - 0.5 and 0.3 - 0.1
    assert {turn.reply: advantage for turn, advantage in rows} == pytest.approx(
        {"0/0": 0.325, "1/0": -0.325, "0/1": 0.15, "1/1": -0.15}
    )


def test_a_potential_that_is_no_number_is_named() -> None:
    assigner = CreditAssigner(CreditSettings(level="turn", potential=f"{__name__}:unmeasurable"))
    with pytest.raises(ConfigError, match="unmeasurable' gave nan"):
        assigner.assign([episode(0.6, 0.4)], "a", "a")
