"""Gains of the right answer's log-probability by turns, against sums done by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents import credit
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Episode, MatchSpec, Trajectory
from srl_agents.testing.forked_updates import played
from srl_envs.errors import ConfigError

SETTINGS = CreditSettings(estimator="information_gain", level="turn")
POLICY = "a@1-0123456789abcdef"


def attempts(rewards: Sequence[Sequence[float]]) -> list[Episode]:
    """One seat's episodes from one start state."""
    spec = MatchSpec(env_id="e-v0", seed=0, split="train", seats=(POLICY,), learner_seats=(0,))
    return [played(replace(spec, attempt=a), [own]) for a, own in enumerate(rewards)]


def credited(
    episodes: Sequence[Episode], answers: Sequence[Sequence[float]], *, discount: float = 1.0
) -> list[list[float]]:
    """Advantages per attempt and turn; NaN for turns that are left out."""
    given_ = {
        e.trajectories[0].turns[0].reply: row for e, row in zip(episodes, answers, strict=True)
    }

    def answer_logprobs(asked: Sequence[Trajectory]) -> list[Sequence[float]]:
        return [given_[trajectory.turns[0].reply] for trajectory in asked]

    assigner = CreditAssigner(replace(SETTINGS, discount=discount), answer_logprobs=answer_logprobs)
    rows, _ = assigner.assign(episodes, "a", POLICY)
    found = {turn.reply: advantage for turn, advantage in rows}
    return [
        [found.get(turn.reply, math.nan) for turn in e.trajectories[0].turns] for e in episodes
    ]  # fmt: skip


def test_gains_are_normalised_by_turn_number_and_summed_over_the_root_of_their_count() -> None:
    """As in the docstring."""
    one, other = credited(attempts([[0, 0, 0], [0, 0, 0]]), [[-2, -1, -1], [-2, -2, 0]])
    assert one == pytest.approx([0.0, -1.0, math.nan], abs=1e-5, nan_ok=True)
    assert other == pytest.approx([0.0, 1.0, math.nan], abs=1e-5, nan_ok=True)
    one, _ = credited(attempts([[0, 0, 0], [0, 0, 0]]), [[-2, -1, -1], [-2, -2, 0]], discount=0.5)
    assert one[0] == pytest.approx((1 - 0.5) / math.sqrt(2), abs=1e-5)


def test_the_outcome_counts_for_every_turn_and_alone_for_the_last() -> None:
    won, lost = credited(attempts([[0, 1.0], [0, 0.0]]), [[-2, -1], [-2, -1.5]])
    assert won == pytest.approx([2.0, 1.0], abs=1e-4)
    assert lost == pytest.approx([-2.0, -1.0], abs=1e-4)


def test_an_unknown_answer_leaves_the_outcome() -> None:
    nan = math.nan
    won, lost = credited(attempts([[0, 1.0], [0, 0.0]]), [[nan, nan], [-2, -1]])
    assert won == pytest.approx([1.0, 1.0], abs=1e-4)
    assert lost == pytest.approx([-1.0, -1.0], abs=1e-4)


def test_turns_between_two_that_are_asked_share_the_gain() -> None:
    """Gain 2 over two turns beside none: N = 1 in both numbers, so A = 2 / sqrt(2), then 1."""
    nan = math.nan
    one, other = credited(attempts([[0, 0, 0], [0, 0, 0]]), [[-3, nan, -1], [-3, nan, -3]])
    assert one == pytest.approx([math.sqrt(2), 1.0, nan], abs=1e-5, nan_ok=True)
    assert other == pytest.approx([-math.sqrt(2), -1.0, nan], abs=1e-5, nan_ok=True)


def test_answers_to_different_questions_are_not_compared() -> None:
    """The first question takes two turns, the second one: only the first turn has a gain."""
    episodes = [
        replace(
            episode,
            trajectories=tuple(
                replace(
                    own,
                    turns=tuple(
                        replace(turn, references={"answer": answer})
                        for turn, answer in zip(own.turns, "556", strict=True)
                    ),
                )
                for own in episode.trajectories
            ),
        )
        for episode in attempts([[0, 0, 0], [0, 0, 0]])
    ]
    one, other = credited(episodes, [[-2, -1, -9], [-2, -2, -1]])
    nan = math.nan
    assert one == pytest.approx([1.0, nan, nan], abs=1e-5, nan_ok=True)
    assert other == pytest.approx([-1.0, nan, nan], abs=1e-5, nan_ok=True)


def test_without_gains_and_differences_nothing_is_learned() -> None:
    assert all(
        math.isnan(a) for row in credited(attempts([[0, 1.0]] * 2), [[-2, -1]] * 2) for a in row
    )


@settings(max_examples=25, deadline=None)
@given(
    answers=st.lists(st.lists(st.floats(-20, 0), min_size=4, max_size=4), min_size=2, max_size=5),
    shift=st.floats(-5, 5),
)
def test_how_likely_answers_are_at_the_start_does_not_matter(
    answers: list[list[float]], shift: float
) -> None:
    answers = [[round(a, 3) for a in row] for row in answers]
    episodes = attempts([[0.0, 0.0, 0.0, float(i % 2)] for i in range(len(answers))])
    moved = [[a + round(shift, 3) for a in row] for row in answers]
    for one, other in zip(credited(episodes, answers), credited(episodes, moved), strict=True):
        assert one == pytest.approx(other, abs=1e-2, nan_ok=True)


def test_it_asks_for_what_it_needs() -> None:
    episodes = attempts([[0, 1.0], [0, 0.0]])
    with pytest.raises(ConfigError, match="estimator='information_gain' reads how likely"):
        CreditAssigner(SETTINGS)
    with pytest.raises(ConfigError, match="gave 1 numbers for a seat of 2 turns"):
        credited(episodes, [[-1], [-1]])
    rows = credit(
        episodes, estimator="information_gain", level="turn",
        answer_logprobs=lambda asked: [[-2.0, -1.0] for _ in asked],
    ).rows  # fmt: skip
    assert [advantage for _, advantage in rows] == pytest.approx([1, 1, -1, -1], abs=1e-4)
