"""Forks of an update, and estimators on them, against sums done by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_agents.agents import ScriptedPolicy
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.estimators import ESTIMATORS, Earned
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Branch, Episode, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.branches import branch_spec
from srl_agents.testing.forked_updates import earned_by, forked_in, played
from srl_envs.errors import ConfigError

FORKED = [name for name in ESTIMATORS.built_in if ESTIMATORS.find(name).reads_forks]
ROOT = MatchSpec(
    env_id="e-v0", seed=0, split="train", seats=("a@1", "a@1"), learner_seats=(0, 1),
    schedule="train/a",
)  # fmt: skip


def branch_of(
    parent: Episode, decision: int, alternative: int, rewards: Sequence[Sequence[float]],
    *, joint: bool = False, kept: Sequence[int] = (),
) -> Episode:  # fmt: skip
    """A branch whose seats are paid ``rewards`` for what they reply anew."""
    left = Branch(
        parent=parent.spec.match_id, decision=decision, alternative=alternative, joint=joint, prefix="p"
    )  # fmt: skip
    return played(replace(parent.spec, branch=left), rewards, parent, kept=kept)


def credited(episodes: Sequence[Episode], estimator: str, **more: Any) -> dict[str, float]:
    """Advantage by the reply that earned it."""
    scale = more.pop("scale", False)
    assigner = CreditAssigner(
        CreditSettings(estimator=estimator, level="turn", **more), scale=scale
    )
    rows, _ = assigner.assign(episodes, "a", "a@1")
    found = {turn.reply: advantage for turn, advantage in rows}
    assert len(found) == len(rows), "a reply taught twice"
    return found


def reply(episode: Episode, seat: int, k: int) -> str:
    return episode.trajectories[seat].turns[k].reply


# --- forks ------------------------------------------------------------------------------------


def two_turns() -> list[Episode]:
    """Seat 0, seat 1; both decisions fork. The end pays both seats alike, with their last turns."""
    parent = played(ROOT, [[1.0], [1.0]])
    first = [branch_of(parent, 0, a, [[r], [r]]) for a, r in ((1, 0.0), (2, 0.5))]
    second = [branch_of(parent, 1, a, [[], [r]]) for a, r in ((1, 0.2), (2, 0.6))]
    return [parent, *first, *second]


def test_alternatives_stand_with_the_parent_first_and_in_their_order() -> None:
    parent, one, two, *rest = two_turns()
    forest = earned_by([two, *rest, parent, one]).forest
    assert forest is not None
    fork = next(f for f in forest.forks if f.decision == 0)
    assert fork.matches == tuple(e.spec.match_id for e in (parent, one, two))
    assert list(fork.choices) == [0]
    entries = [forest.entries[match, 0] for match in fork.matches]
    assert fork.choices[0] == tuple((entry, 0) for entry in entries)


def test_c3_compares_each_reply_with_the_mean_of_the_others() -> None:
    """The parent's reply at turn 0 is worth its own end: what seat 1 is paid later is not seat 0's."""
    parent, one, two, three, four = two_turns()
    assert credited(two_turns(), "c3") == pytest.approx(
        {
            reply(parent, 0, 0): 1.0 - 0.25,
            reply(one, 0, 0): 0.0 - 0.75,
            reply(two, 0, 0): 0.5 - 0.5,
            reply(parent, 1, 0): 1.0 - 0.4,
            reply(three, 1, 0): 0.2 - 0.8,
            reply(four, 1, 0): 0.6 - 0.6,
        }
    )


def test_at_grpo_divides_by_the_deviation_inside_game_agent_and_turn() -> None:
    parent = played(ROOT, [[1.0], [0.0]])
    rest = [branch_of(parent, 0, a, [[r], [0.0]]) for a, r in ((1, 0.0), (2, 0.0), (3, 1.0))]
    found = credited([parent, *rest], "at_grpo")
    by_hand = [1.0, -1.0, -1.0, 1.0]
    assert [found[reply(e, 0, 0)] for e in (parent, *rest)] == pytest.approx(by_hand, rel=1e-5)
    assert len(found) == 4  # seat 1 did not fork


def test_vine_is_the_difference_of_two_measured_values() -> None:
    """As in the docstring: fresh continuations only, and the next fork of any seat."""
    parent = played(ROOT, [[0.0, 0.25], [0.0]])
    first = [
        branch_of(parent, 0, a, [[0.0, r], [0.0]]) for a, r in ((1, 0.0), (2, 1.0))
    ]  # fmt: skip
    second = [branch_of(parent, 1, a, [[r], [0.0]]) for a, r in ((1, 1.0), (2, 0.5))]
    last = [branch_of(parent, 2, 1, [[1.0], []])]
    found = credited([parent, *first, *second, *last], "vine")
    assert found == pytest.approx(
        {reply(parent, 0, 0): 0.75 - 0.5, reply(parent, 0, 1): 0.25 - 1.0}
    )  # seat 1 is paid nothing, whatever it does


def test_tree_adds_what_a_leaf_gains_within_its_tree_and_among_all() -> None:
    one = played(ROOT, [[0.0, 1.0], [0.0]])
    sibling = branch_of(one, 2, 1, [[0.0], []])
    other = played(replace(ROOT, attempt=1), [[0.0, 0.0], [0.0]])
    cousin = branch_of(other, 2, 1, [[0.0], []])
    found = credited([one, sibling, other, cousin], "tree")
    assert found == pytest.approx(
        {
            reply(one, 0, 0): (1.25 - 0.75) / 2,
            reply(one, 0, 1): 0.5 + 0.75,
            reply(sibling, 0, 1): -0.5 - 0.25,
            reply(other, 0, 0): -0.25,
            reply(other, 0, 1): -0.25,
            reply(cousin, 0, 1): -0.25,
        }
    )


def test_later_forks_are_averaged_into_the_worth_of_what_led_to_them() -> None:
    parent = played(ROOT, [[0.0, 1.0], [0.0]])
    left = branch_of(parent, 0, 1, [[0.0, 0.4], [0.0]])
    below = [branch_of(left, 2, a, [[r], []]) for a, r in ((1, 0.0), (2, 0.8))]
    found = credited([parent, left, *below], "c3")
    assert found[reply(parent, 0, 0)] == pytest.approx(1.0 - (0.4 + 0.0 + 0.8) / 3)
    assert found[reply(left, 0, 1)] == pytest.approx(0.4 - 0.4, abs=1e-9)
    own = credited([parent, left, *below], "at_grpo")
    sign = [own[reply(parent, 0, 0)], own[reply(left, 0, 0)]]
    assert sign == pytest.approx([1.0, -1.0], rel=1e-4)  # 1.0 against 0.4, not against its mean


def test_a_partner_that_forks_at_the_same_moment_is_not_what_came_of_it() -> None:
    """The others' kept replies of the step are part of the context, for both seats' forks."""
    parent = played(ROOT, [[1.0], [1.0]])
    mine = branch_of(parent, 0, 1, [[0.0], []], kept=[1])
    theirs = branch_of(parent, 1, 1, [[], [0.5]])
    found = credited([parent, mine, theirs], "c3")
    assert found[reply(parent, 0, 0)] == pytest.approx(1.0)
    assert found[reply(parent, 1, 0)] == pytest.approx(0.5)


def test_seats_of_a_joint_fork_are_those_that_read_the_same() -> None:
    parent = played(ROOT, [[1.0, 0.0], [0.0, 0.0]])
    branch = branch_of(parent, 0, 1, [[0.0, 0.0], [1.0, 0.0]], joint=True)
    both = earned_by([parent, branch]).forest
    assert both is not None
    assert (sorted(both.forks[0].choices), both.forks[0].end) == ([0, 1], 1)
    first, second = branch.trajectories
    answered = replace(second.turns[0], observation="what seat 0 said")
    later = replace(
        branch, trajectories=(first, replace(second, turns=(answered, *second.turns[1:])))
    )
    one = earned_by([parent, later]).forest
    assert one is not None
    assert (list(one.forks[0].choices), one.forks[0].end) == ([0], 0)


def test_steps_of_the_records_decide_who_answered_together() -> None:
    """A game may hide what was done, so that the next seat reads the same whatever it was."""
    parent = played(ROOT, [[1.0], [0.0]])
    branch = branch_of(parent, 0, 1, [[0.0], [1.0]], joint=True)
    for steps, seats in (((0, 0), [0, 1]), ((0, 1), [0])):
        forest = earned_by([in_steps(parent, steps), in_steps(branch, steps)]).forest
        assert forest is not None
        assert sorted(forest.forks[0].choices) == seats


def in_steps(episode: Episode, steps: Sequence[int]) -> Episode:
    """The episode with the number of the step at each seat's only turn."""
    seats = tuple(
        replace(own, turns=(replace(own.turns[0], step=step),))
        for own, step in zip(episode.trajectories, steps, strict=True)
    )
    return replace(episode, trajectories=seats)


def test_magrpo_gives_all_agents_of_a_joint_action_its_one_advantage() -> None:
    parent = played(ROOT, [[1.0], [1.0]])
    joint = branch_of(parent, 0, 1, [[0.2], [0.2]], joint=True)
    alone = branch_of(parent, 1, 1, [[], [9.0]])  # of one seat: no joint action
    expected = {
        reply(parent, 0, 0): 0.4, reply(parent, 1, 0): 0.4,
        reply(joint, 0, 0): -0.4, reply(joint, 1, 0): -0.4,
    }  # fmt: skip
    assert credited([parent, joint, alone], "magrpo") == pytest.approx(expected)
    assert credited([parent, joint], "magrpo_crossed") == pytest.approx(expected)
    scaled = credited([parent, joint], "magrpo", scale=True)
    assert scaled[reply(joint, 1, 0)] == pytest.approx(-1.0, rel=1e-4)


def test_magrpo_backs_returns_up_over_the_joint_actions_that_follow() -> None:
    parent = played(ROOT, [[0.0, 1.0], [0.0, 1.0]])
    other = branch_of(parent, 0, 1, [[0.0, 0.0], [0.0, 0.0]], joint=True)
    below = branch_of(parent, 2, 1, [[0.5], [0.5]], joint=True)
    found = credited([parent, other, below], "magrpo")
    assert found[reply(parent, 0, 0)] == pytest.approx((1.0 + 0.5) / 2 - 0.375)
    assert found[reply(other, 1, 0)] == pytest.approx(0.0 - 0.375)
    assert found[reply(below, 0, 1)] == pytest.approx(0.5 - 0.75)


def test_crossed_magrpo_credits_a_reply_over_all_joint_actions_that_hold_it() -> None:
    """As in the docstring: a0 and a1 against b0, and each against one fresh reply of the other agent."""
    parent = played(ROOT, [[1.0], [1.0]])
    a1 = branch_of(parent, 0, 1, [[0.5], []], kept=[1])
    a1 = with_kept_reward(a1, 1, 0.5)
    b1 = with_kept_reward(branch_of(parent, 1, 1, [[], [0.0]]), 0, 0.0)
    b2 = with_kept_reward(branch_of(a1, 1, 1, [[], [0.1]]), 0, 0.1)
    mean = (0.75 + 0.0 + 0.1) / 3
    assert credited([parent, a1, b1, b2], "magrpo_crossed") == pytest.approx(
        {
            reply(parent, 0, 0): 0.1,
            reply(a1, 0, 0): -0.1,
            reply(parent, 1, 0): 0.75 - mean,
            reply(b1, 1, 0): -mean,
            reply(b2, 1, 0): 0.1 - mean,
        }
    )


def with_kept_reward(branch: Episode, seat: int, reward: float) -> Episode:
    """The branch with what the step of its decision paid a seat whose reply was kept."""
    seats = list(branch.trajectories)
    *rest, kept = seats[seat].turns
    assert kept.inherited
    seats[seat] = replace(
        seats[seat],
        turns=(*rest, replace(kept, reward=reward)),
        total_reward=reward,
        outcome=reward,
    )
    return replace(branch, trajectories=tuple(seats))


@pytest.mark.parametrize(
    ("env_id", "deciding"), [("iterated_dilemma-v0", [0, 1]), ("hanabi_mini-v0", [1])]
)
def test_branches_that_rollouts_play_are_the_forks_of_an_update(
    env_id: str, deciding: list[int]
) -> None:
    """Decision 2 is of both seats in the first game, and of seat 1 in the second, which begins there."""
    spec = MatchSpec(
        env_id=env_id, seed=1, split="train", seats=("bot:random",) * 2, learner_seats=(0, 1)
    )
    with Rollouts({"bot:random": ScriptedPolicy("random")}, root_seed=1) as rollouts:
        (parent,) = rollouts.play([spec])
        leaving = [branch_spec(parent, 2, alternative=a, joint=True) for a in (1, 2)]
        leaving.append(branch_spec(parent, 2, alternative=1))
        branches = rollouts.play(leaving, parents={spec.match_id: parent})
    forest = earned_by([parent, *branches]).forest
    assert forest is not None
    joint, alone = forest.forks
    assert (len(joint.matches), len(alone.matches)) == (3, 2)
    assert sorted(joint.choices) == deciding
    assert joint.end == alone.end
    assert len(alone.choices) == 1
    for places in joint.choices.values():
        assert {k for _, k in places} == {1}


# --- what teaches -----------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", FORKED)
def test_inherited_turns_never_teach(estimator: str) -> None:
    parent = played(ROOT, [[0.3, 1.0], [0.1, 0.4]])
    joint = ESTIMATORS.find(estimator).needs_joint
    branches = [
        branch_of(parent, 2, a, [[r], [r]], joint=joint) for a, r in ((1, 0.2), (2, 0.7))
    ]  # fmt: skip
    assigner = CreditAssigner(CreditSettings(estimator=estimator, level="turn"))
    rows, metrics = assigner.assign([parent, *branches], "a", "a@1")
    assert rows
    assert not any(turn.inherited for turn, _ in rows)
    assert metrics["reward"] == pytest.approx((1.3 + 0.5) / 2), (
        "branches are not play from the start"
    )


def test_an_estimator_without_forks_reads_no_branch() -> None:
    parent, other = (
        played(replace(ROOT, attempt=a), [[r], [r]]) for a, r in ((0, 1.0), (1, 0.0))
    )  # fmt: skip
    branch = branch_of(parent, 0, 1, [[9.0], [9.0]])
    for estimator in ("group", "role_baseline"):
        assert credited([parent, other, branch], estimator) == credited([parent, other], estimator)
    paid, _ = CreditAssigner(CreditSettings()).paid_turns([parent, other, branch], "a", "a@1")
    assert [turn.reward for turn in paid] == [1.0, 1.0, 0.0, 0.0]


def test_forks_work_for_the_seats_of_one_learner_only() -> None:
    """Seat 1 is a bot's: its decisions fork nothing of ours, and still lead to other ends."""
    spec = replace(ROOT, seats=("a@1", "bot:weak"), learner_seats=(0,))
    parent = played(spec, [[0.0, 1.0], [0.0]])
    theirs = branch_of(parent, 1, 1, [[0.0], [0.0]])
    mine = branch_of(parent, 0, 1, [[0.0, 0.2], [0.0]])
    found = credited([parent, theirs, mine], "c3")
    assert found == pytest.approx({reply(parent, 0, 0): 0.5 - 0.2, reply(mine, 0, 0): 0.2 - 0.5})


def test_branches_without_their_parent_are_refused() -> None:
    parent, one, *_ = two_turns()
    with pytest.raises(ConfigError, match="which is not among the 1 episodes of the update"):
        credited([one], "c3")
    wrong = replace(one, spec=replace(one.spec, branch=replace(one.spec.branch, decision=1)))  # type: ignore[type-var]
    with pytest.raises(ConfigError, match="at turn 1, which is not where their first own reply"):
        credited([parent, wrong], "c3")


def test_replayed_shares_do_not_go_with_live_alternatives() -> None:
    with pytest.raises(ConfigError, match="estimator 'c3' compares what live partners answered"):
        CreditSettings(estimator="c3", level="turn", mode="cooperative", team_share="difference")
    with pytest.raises(ConfigError, match="set level to 'turn'"):
        CreditSettings(estimator="vine")


# --- properties -------------------------------------------------------------------------------


def _asked(name: str, earned: Earned, *, scale: bool = False) -> tuple[Any, Any]:
    made = ESTIMATORS.find(name)(CreditSettings(estimator=name, level="turn"), scale=scale)
    advantages_EK, flat_EK, _ = made.advantages(earned)
    return advantages_EK, flat_EK


def _forked(name: str, update: int) -> Earned:
    return forked_in(update, joint=ESTIMATORS.find(name).needs_joint)


@pytest.mark.parametrize("name", FORKED)
@settings(max_examples=15, deadline=None)
@given(update=st.integers(0, 10_000), factor=st.floats(0.1, 10))
def test_credit_is_in_the_units_of_rewards_or_has_none(
    name: str, update: int, factor: float
) -> None:
    earned = _forked(name, update)
    larger = replace(earned, returns_EK=factor * earned.returns_EK)
    advantages_EK, flat_EK = _asked(name, earned)
    found_EK, _ = _asked(name, larger)
    units = 1.0 if name == "at_grpo" else factor
    assert np.allclose(found_EK[~flat_EK], units * advantages_EK[~flat_EK], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["c3", "at_grpo"])
@settings(max_examples=15, deadline=None)
@given(update=st.integers(0, 10_000))
def test_alternatives_of_a_fork_sum_to_nothing(name: str, update: int) -> None:
    earned = forked_in(update)
    advantages_EK, _ = _asked(name, earned)
    assert earned.forest is not None
    for fork in earned.forest.forks:
        for places in fork.choices.values():
            assert sum(advantages_EK[place] for place in places) == pytest.approx(0, abs=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    worths=st.lists(st.floats(-1, 1), min_size=2, max_size=5),
    policy=st.lists(st.floats(0.05, 1), min_size=2, max_size=5),
)
def test_c3_and_vine_are_unbiased(worths: list[float], policy: list[float]) -> None:
    """Over all samples of a one-step game, E[A * 1(reply = a)] = p(a) * (worth(a) - value)."""
    count = min(len(worths), len(policy))
    q, p = np.array(worths[:count]), np.array(policy[:count]) / sum(policy[:count])
    truth = p * (q - p @ q)
    for name in ("c3", "vine"):
        expected = np.zeros(count)
        for mine in range(count):
            for other in range(count):
                parent = played(ROOT, [[float(q[mine])], [0.0]])
                branch = branch_of(parent, 0, 1, [[float(q[other])], [0.0]])
                found = credited([parent, branch], name)
                advantage = found.get(reply(parent, 0, 0), 0.0)
                expected[mine] += p[mine] * p[other] * advantage
        assert expected == pytest.approx(truth, abs=1e-8)
