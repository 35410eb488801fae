"""Matches between the same agents are one meeting, whatever their seats."""

from __future__ import annotations

from dataclasses import replace

from srl_agents.metrics.meetings import meetings
from srl_agents.records import Episode, MatchSpec, Trajectory

ALICE = "alice@3-9f2c1a0b7d5e4c31"


def episode(
    seats: tuple[str, str], outcomes: tuple[float, float], *, void: bool = False
) -> Episode:
    spec = MatchSpec(env_id="nim-v0", seed=1, split="train", seats=seats)
    played = tuple(
        Trajectory(seat=k, policy=who, turns=(), outcome=o, total_reward=o, components={})
        for k, (who, o) in enumerate(zip(seats, outcomes, strict=True))
    )
    return Episode(spec=spec, trajectories=played, termination="void" if void else "ok")


def test_seats_do_not_matter_and_outcomes_stay_with_their_agents() -> None:
    first = episode((ALICE, "bot:middle"), (1.0, -1.0))
    second = episode(("bot:middle", ALICE), (0.0, 0.0))
    lost = episode((ALICE, "bot:middle"), (0.0, 0.0), void=True)
    (met,) = meetings([first, second, lost])
    assert met.names == ("alice@3", "bot:middle")
    assert (met.matches, met.void, met.outcomes) == (3, 1, (0.5, -0.5))


def test_the_most_frequent_meeting_comes_first() -> None:
    mirror = episode((ALICE, ALICE), (1.0, -1.0))
    other = episode((ALICE, "bot:random"), (1.0, -1.0))
    assert [met.names[1] for met in meetings([mirror, other, other])] == ["bot:random", "alice@3"]


def test_a_meeting_whose_matches_were_all_lost_has_no_outcomes() -> None:
    (met,) = meetings([replace(episode((ALICE, "tiny"), (0.0, 0.0)), termination="void")])
    assert (met.matches, met.void, met.outcomes) == (1, 1, ())
