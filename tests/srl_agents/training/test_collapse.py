"""A learner that lost the game's language stops the run; one that never had it, or stumbles, does not."""

from __future__ import annotations

import json

import pytest

from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.training.collapse import PATIENCE, CollapseWatch
from srl_envs.errors import ModelError

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


def watch(*updates: tuple[int, int], last: bool = False) -> CollapseWatch:
    seen = CollapseWatch(["alice"])
    for number, replies in enumerate(updates, 1):
        seen.observe(number, episodes(*replies), LIVE, last=last and number == len(updates))
    return seen


def test_a_collapse_is_named_with_what_was_seen() -> None:
    with pytest.raises(ModelError) as caught:
        watch((30, 10), *[(0, 40)] * PATIENCE)
    assert str(caught.value).startswith(
        f"learner 'alice' has collapsed: the game refused all {40 * PATIENCE} of its replies since "
        "update 2, and accepted 75% of 40 before."
    )
    with pytest.raises(ModelError, match="since update 2"):  # a run that ends waits for no more
        watch((30, 10), (0, 40), last=True)


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
    watch(*updates)


def test_a_resumed_run_counts_on() -> None:
    before = watch((30, 10), *[(0, 40)] * (PATIENCE - 1))
    after = CollapseWatch(["alice"])
    after.load_state(json.loads(json.dumps(before.state())))
    with pytest.raises(ModelError, match="collapsed"):
        after.observe(PATIENCE + 1, episodes(0, 40), LIVE, last=False)
