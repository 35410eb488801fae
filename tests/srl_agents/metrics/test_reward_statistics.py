"""Spread of rewards, over all seats and by seat, by hand."""

from __future__ import annotations

import math

import pytest

from srl_agents.metrics.names import reward_statistics
from srl_agents.records import Episode, MatchSpec, Termination, Trajectory, Turn


def episode(
    rewards: tuple[float, ...],
    seats: tuple[str, ...] = ("me", "other"),
    *,
    learner_seats: tuple[int, ...] = (0,),
    termination: Termination = "ok",
    invalid: str | None = None,
    tokens: int = 0,
    thoughts: int = 0,
) -> Episode:
    turn = Turn(
        turn_index=0, observation="", reply="", invalid=invalid, reward=0.0, components={},
        completion_ids=(7,) * tokens, thought_tokens=thoughts,
    )  # fmt: skip
    return Episode(
        spec=MatchSpec(
            env_id="nim-v0", seed=0, split="train", seats=seats, learner_seats=learner_seats
        ),
        trajectories=tuple(
            Trajectory(
                seat=k, policy=seats[k], turns=(turn,), outcome=r, total_reward=r, components={}
            )
            for k, r in enumerate(rewards)
        ),
        termination=termination,
    )


def test_mean_and_spread_over_seats_that_learn() -> None:
    """Rewards 1 and -1: standard deviation 1. The opponent's, and lost episodes, do not count."""
    found = reward_statistics(
        [
            episode((1.0, 9.0)),
            episode((-1.0, 9.0)),
            episode((50.0, 0.0), termination="void"),
            episode((70.0, 0.0), learner_seats=()),
        ],
        "me",
    )
    assert found == {"reward/std": 1.0, "reward/min": -1.0, "reward/max": 1.0}


def test_seats_are_told_apart_where_there_are_several() -> None:
    """Seat 0 earned 1 and 0 with one refused reply of two; seat 1 earned -1."""
    found = reward_statistics(
        [
            episode((1.0, 0.0)),
            episode((0.0, 0.0), invalid="illegal"),
            episode((0.0, -1.0), ("other", "me"), learner_seats=(1,)),
        ],
        "me",
    )
    assert found["reward/std"] == pytest.approx(math.sqrt(2 / 3))
    assert (found["seat0/reward/mean"], found["seat0/reward/std"]) == (0.5, 0.5)
    assert (found["seat0/invalid_share"], found["seat1/invalid_share"]) == (0.5, 0.0)
    assert (found["seat1/reward/min"], found["seat1/reward/max"]) == (-1.0, -1.0)


def test_seats_share_the_tokens_of_replies_and_think_apart() -> None:
    """Seat 0 wrote 2 and 4 reply tokens, seat 1 two behind three of thought."""
    found = reward_statistics(
        [
            episode((1.0, 0.0), tokens=2),
            episode((0.0, 0.0), tokens=4),
            episode((0.0, 1.0), ("other", "me"), learner_seats=(1,), tokens=5, thoughts=3),
        ],
        "me",
    )
    assert (found["seat0/token_share"], found["seat1/token_share"]) == (0.75, 0.25)
    assert found["seat1/thought_tokens"] == 3.0
    assert "seat0/thought_tokens" not in found


def test_who_played_nothing_has_no_statistics() -> None:
    assert reward_statistics([episode((1.0, 1.0))], "absent") == {}
    assert reward_statistics([], "me") == {}
