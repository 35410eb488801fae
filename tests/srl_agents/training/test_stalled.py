"""A learner that lost the game's language stops the run; one that never had it, or stumbles, does not."""

from __future__ import annotations

import json

import pytest

from srl_agents.recipes.sections.fault_policy import SILENT_UPDATES
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.training.faults.stalled import PATIENCE, CollapseWatch
from srl_agents.training.faults.vital_signs import Finding

LIVE = {"alice@0-0123456789abcdef": "alice"}


def episodes(accepted: int, refused: int) -> list[Episode]:
    replies = [None] * accepted + ["illegal"] * refused
    turns = tuple(
        Turn(turn_index=k, observation="", reply="", invalid=invalid, reward=0.0, components={})
        for k, invalid in enumerate(replies)
    )
    spec = MatchSpec(
        env_id="nim-v0", seed=0, split="train", seats=(*LIVE, "bot:random"), learner_seats=(0,)
    )
    seats = [
        Trajectory(
            seat=seat, policy=name, turns=turns, outcome=0.0, total_reward=0.0, components={}
        )
        for seat, name in enumerate(spec.seats)
    ]
    return [Episode(spec=spec, trajectories=tuple(seats), termination="ok")]


def watch(
    *updates: tuple[int, int], last: bool = False, seen: CollapseWatch | None = None
) -> list[Finding]:
    """What is found in the last of these updates; nothing may be found before."""
    watching = seen or CollapseWatch(["alice"])
    found: list[Finding] = []
    for number, replies in enumerate(updates, 1):
        assert not found
        end = last and number == len(updates)
        found = watching.observe(number, episodes(*replies), LIVE, last=end)
    return found


def test_a_collapse_is_named_with_what_was_seen_and_since_when() -> None:
    (found,) = watch((30, 10), *[(0, 40)] * PATIENCE)
    assert (found.fault, found.learner, found.since) == ("replies_refused", "alice", 2)
    assert found.message == (
        f"learner 'alice' has collapsed: the game refused all {40 * PATIENCE} of its replies since "
        "update 2, and accepted 75% of 40 before"
    )
    (found,) = watch((30, 10), (0, 40), last=True)  # a run that ends waits for no more
    assert found.since == 2


def test_who_was_never_accepted_is_named_after_enough_updates() -> None:
    (found,) = watch(*[(0, 40)] * SILENT_UPDATES)
    assert (found.fault, found.since) == ("never_accepted", 1)
    assert found.message == f"none of {40 * SILENT_UPDATES} replies in {SILENT_UPDATES} updates"


@pytest.mark.parametrize(
    "updates",
    [
        [(0, 40)] * 9,  # it never wrote a legal reply
        [(30, 10), (0, 40), (0, 40), (1, 39), (0, 40), (0, 40)],
        [(1, 39)] + [(0, 4)] * PATIENCE,  # so rare before that chance explains it
        [(40, 0)] + [(0, 0)] * 9,  # it does not play
    ],
)
def test_beginners_and_those_that_stumble_go_on(updates: list[tuple[int, int]]) -> None:
    assert watch(*updates) == []


def test_a_resumed_run_counts_on() -> None:
    before = CollapseWatch(["alice"])
    assert watch((30, 10), *[(0, 40)] * (PATIENCE - 1), seen=before) == []
    after = CollapseWatch(["alice"])
    after.load_state(json.loads(json.dumps(before.state())))
    (found,) = after.observe(PATIENCE + 1, episodes(0, 40), LIVE, last=False)
    assert found.fault == "replies_refused"
