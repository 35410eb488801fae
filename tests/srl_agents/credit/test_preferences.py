"""Pairs hold two replies to one prompt, the better one first; ties and strangers' prompts make none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.credit.preferences import (
    Answer,
    PairSettings,
    Preference,
    outcome_answers,
    outcome_pairs,
    paid_pairs,
    preferences,
    rank_answers,
    rank_pairs,
)
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_envs.errors import ConfigError

ALL = PairSettings()


def turn(prompt: str, reply: str, *, invalid: str | None = None) -> Turn:
    return Turn(
        turn_index=0,
        observation=prompt,
        reply=reply,
        invalid=invalid,
        reward=0.0,
        components={},
        prompt_ids=tuple(map(ord, prompt)),
        completion_ids=tuple(map(ord, reply)),
        logprobs=(-1.0,) * len(reply),
        finish="stop",
    )


def answer(prompt: str, reply: str, worth: float, **more: Any) -> Answer:
    invalid = more.pop("invalid", None)
    given = {"start": "s", "seat": 0, "policy": "alice@1", **more}
    return Answer(turn=turn(prompt, reply, invalid=invalid), worth=worth, **given)


def episode(
    turns: dict[str, list[Turn]],
    outcomes: dict[str, float],
    *,
    learners: tuple[str, ...],
    seed: int = 5,
    split: Any = "train",
    termination: Any = "ok",
) -> Episode:
    seats = tuple(turns)
    spec = MatchSpec(
        env_id="nim-v0",
        seed=seed,
        split=split,
        seats=seats,
        learner_seats=tuple(i for i, name in enumerate(seats) if name in learners),
    )
    return Episode(
        spec=spec,
        termination=termination,
        trajectories=tuple(
            Trajectory(
                seat=seat,
                policy=name,
                turns=tuple(turns[name]),
                outcome=outcomes[name],
                total_reward=outcomes[name],
                components={},
            )
            for seat, name in enumerate(seats)
        ),
    )


def shown(pairs: list[Preference]) -> list[tuple[str, str, str, float]]:
    def text(ids: tuple[int, ...]) -> str:
        return "".join(map(chr, ids))

    return [(text(p.prompt_ids), text(p.chosen_ids), text(p.rejected_ids), p.margin) for p in pairs]


def test_the_best_attempt_meets_the_worst_and_the_second_best_the_second_worst() -> None:
    answers = [answer("p", reply, worth) for reply, worth in zip("abcd", (0, 3, 1, 2), strict=True)]
    assert shown(rank_pairs(answers, ALL)) == [("p", "b", "a", 3), ("p", "d", "c", 1)]
    many = [answer("p", reply, ord(reply)) for reply in "abcdefghijkl"]
    assert [pair[3] for pair in shown(rank_pairs(many, ALL))] == [11, 9, 7, 5], "four of six"


def test_ties_make_no_pair() -> None:
    assert rank_pairs([answer("p", "a", 1.0), answer("p", "b", 1.0)], ALL) == []
    assert rank_pairs([answer("p", "a", 1.0), answer("p", "b", 1.0 + 1e-12)], ALL) == []


def test_equal_replies_are_one_candidate_worth_their_mean() -> None:
    # "a" won once and lost once (mean 0), "b" drew always (mean 0.2): one pair, not three
    answers = [answer("p", "a", 1.0), answer("p", "a", -1.0), answer("p", "b", 0.2)]
    assert shown(rank_pairs(answers, ALL)) == [("p", "b", "a", 0.2)]


@pytest.mark.parametrize(
    "other",
    [
        answer("q", "b", 0.0),
        answer("p", "b", 0.0, seat=1),
        answer("p", "b", 0.0, policy="bob@1"),
        answer("p", "b", 0.0, start="t"),
    ],
    ids=["prompt", "seat", "policy", "start"],
)
def test_ranks_compare_one_policy_in_one_seat_at_one_prompt_of_one_start(other: Answer) -> None:
    assert rank_pairs([answer("p", "a", 1.0), other], ALL) == []


def test_a_refused_reply_may_be_rejected_but_never_chosen() -> None:
    refused = answer("p", "a", 1.0, invalid="illegal")
    assert rank_pairs([refused, answer("p", "b", 0.0)], ALL) == []
    lost = replace(refused, worth=-1.0)
    assert shown(rank_pairs([lost, answer("p", "b", 0.0)], ALL)) == [("p", "b", "a", 1.0)]


def test_replies_too_unequal_in_length_make_no_pair() -> None:
    answers = [answer("p", "aaaa", 1.0), answer("p", "bb", 0.0)]
    assert len(rank_pairs(answers, PairSettings(max_length_ratio=2.0))) == 1
    assert rank_pairs(answers, PairSettings(max_length_ratio=1.9)) == []
    (pair,) = rank_pairs(answers, PairSettings())
    assert pair.length_difference == 2


def test_outcomes_compare_rivals_at_one_prompt_and_name_who_wrote_what() -> None:
    winner = answer("p", "a", 1.0, policy="alice@1", seat=0)
    loser = answer("p", "b", -1.0, policy="bob@2", seat=1)
    (pair,) = outcome_pairs([loser, winner], ALL)
    assert shown([pair]) == [("p", "a", "b", 2.0)]
    assert (pair.chosen_by, pair.rejected_by, pair.source) == (("alice@1",), ("bob@2",), "outcome")
    own = replace(loser, policy="alice@1", seat=0)
    assert outcome_pairs([winner, own], ALL) == [], "one author's attempts are for ranks"
    mirrored = replace(own, seat=1)
    assert len(outcome_pairs([winner, mirrored], ALL)) == 1


def test_only_valid_training_episodes_of_the_learner_are_looked_at() -> None:
    def played(**more: Any) -> Episode:
        won, lost = turn("p", "a"), turn("p", "b")
        given: dict[str, Any] = {"learners": ("alice@1",), **more}
        return episode(
            {"alice@1": [won], "bob@1": [lost]}, {"alice@1": 1.0, "bob@1": -1.0}, **given
        )

    assert len(outcome_answers([played()], "alice@1")) == 2
    assert outcome_answers([played(learners=("bob@1",))], "alice@1") == []
    assert outcome_answers([played(split="eval")], "alice@1") == []
    assert outcome_answers([played(termination="void")], "alice@1") == []
    evaluated = played(split="eval")
    rows = [(t, 1.0) for trajectory in evaluated.trajectories for t in trajectory.turns]
    assert rank_answers([evaluated], rows) == []


def test_worth_belongs_to_a_turn_and_not_to_its_like() -> None:
    first, second = turn("p", "a"), turn("p", "a")
    episodes = [
        episode({"alice@1": [t], "bot": []}, {"alice@1": 0.0, "bot": 0.0}, learners=("alice@1",))
        for t in (first, second)
    ]
    answers = rank_answers(episodes, [(first, 1.0), (second, -1.0)])
    assert [a.worth for a in answers] == [1.0, -1.0]
    assert [a.worth for a in rank_answers(episodes, [(second, -1.0)])] == [-1.0]


def test_where_both_sources_order_two_replies_credit_decides() -> None:
    # alice's "a" lost to bob's "b", and both drew with "b"; but credit, which counts costs, prefers "a"
    mine = [turn("p", "a"), turn("p", "b")]
    episodes = [
        episode(
            {"alice@1": [t], "bob@1": [turn("p", "b")]},
            {"alice@1": outcome, "bob@1": -outcome},
            learners=("alice@1",),
        )
        for t, outcome in zip(mine, (-1.0, 0.0), strict=True)
    ]
    rows = [(mine[0], 0.5), (mine[1], -0.5)]
    pairs, metrics = preferences(episodes, rows, "alice@1", ALL)
    assert shown(pairs) == [("p", "a", "b", 1.0)]
    assert metrics == {
        "pairs": 1.0,
        "pairs_outcome": 0.0,
        "pair_margin": 1.0,
        "length_difference": 0.0,
        "foreign_share": 0.0,
    }
    only = PairSettings(sources=("outcome",))
    pairs, metrics = preferences(episodes, rows, "alice@1", only)
    ((*texts, margin),) = shown(pairs)
    assert texts == ["p", "b", "a"]
    assert margin == pytest.approx(1 / 3 + 1)
    assert metrics["pairs_outcome"] == 1.0


def test_a_rivals_winning_reply_is_counted_as_foreign() -> None:
    played = episode(
        {"alice@1": [turn("p", "bb")], "bob@1": [turn("p", "a")]},
        {"alice@1": -1.0, "bob@1": 1.0},
        learners=("alice@1",),
    )
    pairs, metrics = preferences([played], [], "alice@1", ALL)
    assert shown(pairs) == [("p", "a", "bb", 2.0)]
    assert (metrics["foreign_share"], metrics["length_difference"]) == (1.0, -1.0)
    assert preferences([], [], "alice@1", ALL) == ([], {"pairs": 0.0, "pairs_outcome": 0.0})


@given(
    st.lists(
        st.tuples(
            st.sampled_from("pq"),
            st.sampled_from(["a", "bb", "ccc", "dd"]),
            st.integers(-2, 2),
            st.booleans(),
        ),
        max_size=20,
    )
)
def test_pairs_never_contradict_repeat_or_praise(
    given_answers: list[tuple[str, str, int, bool]],
) -> None:
    answers = [
        answer(prompt, reply, worth, invalid="illegal" if refused else None)
        for prompt, reply, worth, refused in given_answers
    ]
    pairs = shown(rank_pairs(answers, ALL))
    used = [(p, reply) for p, chosen, rejected, _ in pairs for reply in (chosen, rejected)]
    assert len(used) == len(set(used)), "no reply is in two pairs of a prompt"
    refused = {(p, reply) for p, reply, _, r in given_answers if r}
    for prompt, chosen, rejected, margin in pairs:
        mean = {
            reply: sum(w for p, r, w, _ in given_answers if (p, r) == (prompt, reply))
            / sum((p, r) == (prompt, reply) for p, r, _, _ in given_answers)
            for reply in (chosen, rejected)
        }
        assert margin == pytest.approx(mean[chosen] - mean[rejected])
        assert margin > 0
        assert (prompt, chosen) not in refused


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"sources": ("rnak",)}, "rank"),
        ({"sources": ()}, "at least one"),
        ({"max_length_ratio": 0.5}, "max_length_ratio"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        PairSettings(**settings)


def test_paid_pairs_are_those_of_the_named_learners_by_total_reward() -> None:
    def played(name: str, reply: str, reward: float, *, learners: tuple[str, ...]) -> Episode:
        return episode(
            {name: [turn("p", reply)], "bot": []}, {name: reward, "bot": 0.0}, learners=learners
        )

    episodes = [
        played(name, reply, reward, learners=learners)
        for name, learners in (("alice@1", ("alice@1",)), ("bob@2", ("bob@2",)), ("cat@1", ()))
        for reply, reward in (("a", 1.0), ("b", 0.5))
    ]
    pairs = paid_pairs(episodes, ("alice@1", "cat@1"), ALL)
    assert shown(pairs) == [("p", "a", "b", 0.5)]
    assert pairs[0].chosen_by == ("alice@1",)
    assert len(paid_pairs(episodes, ("alice@1", "bob@2"), ALL)) == 2
