"""The board shows the best and latest of the others; nothing from evaluation ever gets onto it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.sharing.board import Board, Notice
from srl_agents.sharing.learner_transcripts import (
    SharedTurn,
    Transcript,
    examples_of,
    transcripts_of,
)


def transcript(*replies: str) -> Transcript:
    return Transcript(
        turns=tuple(
            SharedTurn(
                observation=f"see {reply}",
                reply=reply,
                prompt_ids=(1, *map(ord, reply)),
                reply_ids=tuple(map(ord, reply)),
            )
            for reply in replies
        )
    )


def notice(learner: str, reply: str, worth: float, version: int = 0) -> Notice[Transcript]:
    return Notice(
        learner=learner, policy=f"{learner}@{version}", worth=worth, item=transcript(reply)
    )


def shown(board: Board[Transcript], reader: str, top: int = 9) -> list[str]:
    return [n.item.turns[0].reply for n in board.best_for(reader, top)]


def new_board(**settings: Any) -> Board[Transcript]:
    return Board(Transcript, **{"keep": 2, "window": 3, **settings})


def test_readers_see_the_best_of_the_others_and_nothing_of_their_own() -> None:
    board = new_board()
    board.offer(1, [notice("alice", "a", 3), notice("bob", "b", 1), notice("carol", "c", 2)])
    assert shown(board, "alice") == ["c", "b"]
    assert shown(board, "bob") == ["a", "c"]
    assert shown(board, "bob", top=1) == ["a"]


def test_each_learner_keeps_its_best_and_of_equals_the_latest() -> None:
    board = new_board()
    board.offer(1, [notice("bob", "old", 1), notice("bob", "bad", 0), notice("bob", "good", 2)])
    assert shown(board, "alice") == ["good", "old"]
    board.offer(2, [notice("bob", "new", 1)])
    assert shown(board, "alice") == ["good", "new"]


def test_notices_come_down_when_they_are_too_old() -> None:
    board = new_board()
    board.offer(1, [notice("bob", "b", 1)])
    board.offer(3, [])
    assert shown(board, "alice") == ["b"]
    board.offer(4, [])
    assert shown(board, "alice") == []


def test_equal_items_of_one_author_stay_up_once() -> None:
    board = new_board()
    board.offer(1, [notice("bob", "b", 1), notice("bob", "b", 1, version=2)])
    (only,) = board.best_for("alice", 9)
    assert only.policy == "bob@0"


def test_a_board_survives_json() -> None:
    board, copy = new_board(), new_board()
    board.offer(1, [notice("alice", "a", 3), notice("bob", "b", 1)])
    copy.load_state(json.loads(json.dumps(board.state())))
    assert copy.best_for("carol", 9) == board.best_for("carol", 9)
    for one in (board, copy):
        one.offer(3, [notice("bob", "later", 1)])
    assert copy.state() == board.state()


def turn(reply: str, *, invalid: str | None = None, written: bool = True) -> Turn:
    return Turn(
        turn_index=0,
        observation=f"see {reply}",
        reply=reply,
        invalid=invalid,
        reward=0.0,
        components={},
        prompt_ids=(1,),
        completion_ids=tuple(map(ord, reply)) if written else (),
        logprobs=(-1.0,) * len(reply) if written else (),
        finish="stop",
    )


def episode(*turns: Turn, split: Any = "train", termination: Any = "ok", seats: Any = (0,)) -> Any:
    spec = MatchSpec(
        env_id="nim-v0", seed=1, split=split, seats=("alice@1", "bob@2"), learner_seats=seats
    )
    played = [turns, (turn("z"),)]
    return Episode(
        spec=spec,
        termination=termination,
        trajectories=tuple(
            Trajectory(
                seat=seat,
                policy=spec.seats[seat],
                turns=tuple(played[seat]),
                outcome=0.0,
                total_reward=0.5 - seat,
                components={},
            )
            for seat in range(2)
        ),
    )


LIVE = {"alice@1": "alice", "bob@2": "bob"}


def test_a_transcript_is_what_a_learner_wrote_and_was_paid() -> None:
    (only,) = transcripts_of([episode(turn("a"), turn("b"))], LIVE)
    assert (only.learner, only.policy, only.worth) == ("alice", "alice@1", 0.5)
    assert [(t.observation, t.reply) for t in only.item.turns] == [("see a", "a"), ("see b", "b")]
    rows = only.item.demonstrations(only.policy)
    assert [(r.prompt_ids, r.reply_ids, r.by) for r in rows] == [
        ((1,), (97,), "alice@1"),
        ((1,), (98,), "alice@1"),
    ]
    both = transcripts_of([episode(turn("a"), seats=(0, 1))], LIVE)
    assert [n.learner for n in both] == ["alice", "bob"]


@pytest.mark.parametrize(
    "played",
    [
        episode(turn("a"), split="eval"),
        episode(turn("a"), termination="void"),
        episode(turn("a"), turn("b", invalid="illegal")),
        episode(turn("a", written=False)),
        episode(turn("a"), seats=()),
        episode(),
    ],
    ids=["eval", "void", "refused", "scripted", "frozen", "silent"],
)
def test_what_nobody_should_imitate_does_not_get_onto_the_board(played: Episode) -> None:
    assert transcripts_of([played], LIVE) == []


def test_versions_that_do_not_learn_are_not_authors() -> None:
    assert transcripts_of([episode(turn("a"))], {"bob@2": "bob"}) == []


def test_examples_stand_from_the_least_to_the_best_and_once() -> None:
    notices = [
        Notice(learner="bob", policy="bob@1", worth=2.0, item=transcript("a", "b", "c")),
        Notice(learner="bob", policy="bob@1", worth=1.0, item=transcript("a", "d")),
    ]
    assert [reply for _, reply in examples_of(notices, 2)] == ["d", "b", "a"]
    assert [reply for _, reply in examples_of(notices, 1)] == ["a"]
