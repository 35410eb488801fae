"""From episodes to (turn, advantage) rows, against sums done by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from srl_agents.credit import assignment
from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn


def turn(reply: str, invalid: str | None = None, tokens: int = 2) -> Turn:
    return Turn(
        turn_index=0, observation="o", reply=reply, invalid=invalid, reward=0.0, components={},
        prompt_ids=(1,), completion_ids=(2,) * tokens, logprobs=(-0.5,) * tokens,
    )  # fmt: skip


def episode(
    number: int, attempt: int, rewards: tuple[float, float], seats: tuple[str, str] = ("a@1", "x"),
    learners: tuple[int, ...] = (0,), void: bool = False,
) -> Episode:  # fmt: skip
    spec = MatchSpec(
        env_id="e-v0", seed=number, split="train", seats=seats, learner_seats=learners,
        schedule="train/a", number=number, attempt=attempt,
    )  # fmt: skip
    return Episode(
        spec=spec,
        trajectories=tuple(
            Trajectory(
                seat=s, policy=seats[s], turns=(turn(f"{number}/{attempt}/{s}"),) * 2,
                outcome=rewards[s], total_reward=rewards[s], components={"format": -0.05},
            )
            for s in (0, 1)
        ),
        termination="void" if void else "ok",
    )  # fmt: skip


def credit(
    episodes: list[Episode], policy: str, scale: bool
) -> tuple[list[tuple[Turn, float]], dict[str, float]]:
    return CreditAssigner(CreditSettings(), scale=scale).assign(episodes, "a", policy)


def by_reply(rows: list[tuple[Turn, float]]) -> dict[str, float]:
    return {t.reply: advantage for t, advantage in rows}


def test_each_group_is_centred_on_its_own_mean() -> None:
    episodes = [
        episode(0, 0, (1.0, -1.0)), episode(0, 1, (0.0, 0.0)),
        episode(1, 0, (0.2, -0.2)), episode(1, 1, (-0.4, 0.4)),
    ]  # fmt: skip
    rows, metrics = credit(episodes, "a@1", scale=False)
    assert by_reply(rows) == pytest.approx(
        {"0/0/0": 0.5, "0/1/0": -0.5, "1/0/0": 0.3, "1/1/0": -0.3}
    )
    assert len(rows) == 8  # both turns of every episode
    assert metrics["reward"] == pytest.approx(0.2)
    assert metrics["format"] == pytest.approx(-0.05)
    assert metrics["rows"] == 8


def test_the_two_seats_of_mirror_play_have_their_own_baselines() -> None:
    mirror = ("a@1", "a@1")
    episodes = [
        episode(0, 0, (1.0, -1.0), mirror, (0, 1)), episode(0, 1, (0.5, -0.5), mirror, (0, 1)),
    ]  # fmt: skip
    rows, _ = credit(episodes, "a@1", scale=False)
    assert by_reply(rows) == pytest.approx(
        {"0/0/0": 0.25, "0/1/0": -0.25, "0/0/1": -0.25, "0/1/1": 0.25}
    )


def test_void_episodes_move_no_baseline_and_give_no_rows() -> None:
    episodes = [
        episode(0, 0, (1.0, -1.0)), episode(0, 1, (0.0, 0.0)), episode(0, 2, (-9.0, 9.0), void=True),
    ]  # fmt: skip
    rows, metrics = credit(episodes, "a@1", scale=False)
    assert by_reply(rows) == pytest.approx({"0/0/0": 0.5, "0/1/0": -0.5})
    assert metrics["reward"] == pytest.approx(0.5)


def test_a_learner_with_void_episodes_alone_has_no_metrics() -> None:
    """A mean reward of 0 would be a plausible number for what was never measured."""
    void = [episode(0, 0, (1.0, -1.0), void=True), episode(0, 1, (0.0, 0.0), void=True)]
    assert credit(void, "a@1", scale=False) == ([], {})
    assigner = CreditAssigner(CreditSettings(mode="adaptive", estimator="role_baseline"))
    assert assigner.assign(void, "a", "a@1") == ([], {})
    assert assigner.paid_turns(void, "a", "a@1") == ([], {})
    assert assigner.state() == {"estimator": {"baselines": []}, "adaptive": {}}


def test_flat_groups_carry_no_signal() -> None:
    rows, metrics = credit([episode(0, 0, (1, -1)), episode(0, 1, (1, -1))], "a@1", scale=False)
    assert rows == []
    assert metrics["flat_groups"] == 1.0


def test_only_the_named_policy_in_a_learning_seat_counts() -> None:
    episodes = [episode(0, 0, (1.0, -1.0)), episode(0, 1, (0.0, 0.0))]
    assert credit(episodes, "x", scale=False) == ([], {})
    assert credit(episodes, "b@1", scale=False) == ([], {})


def test_scaling_divides_by_the_deviation_of_the_group() -> None:
    episodes = [episode(0, 0, (1.0, -1.0)), episode(0, 1, (0.0, 0.0))]
    rows, _ = credit(episodes, "a@1", scale=True)
    assert by_reply(rows) == pytest.approx({"0/0/0": 1.0, "0/1/0": -1.0}, rel=1e-4)


def test_a_refused_reply_is_blamed_for_a_loss_and_never_praised_for_a_win() -> None:
    episodes = []
    for attempt, reward in enumerate((1.0, -1.0)):
        played = episode(0, attempt, (reward, -reward))
        first, *others = played.trajectories
        turns = (turn(f"good {attempt}"), turn(f"bad {attempt}", "illegal"))
        episodes.append(replace(played, trajectories=(replace(first, turns=turns), *others)))
    rows, _ = credit(episodes, "a@1", scale=False)
    assert by_reply(rows) == {"good 0": 1.0, "good 1": -1.0, "bad 1": -1.0}


def test_flat_groups_do_not_leak_through_rounding() -> None:
    episodes = [episode(0, attempt, (0.95, -0.95)) for attempt in range(7)]
    rows, metrics = credit(episodes, "a@1", scale=False)
    assert rows == []
    assert metrics["flat_groups"] == 1.0


# --- terms -----------------------------------------------------------------------------------


def assigner(**settings: Any) -> CreditAssigner:
    return CreditAssigner(CreditSettings(**settings))


def shared(number: int, attempt: int, own: float, other: float, form: float = 0.0) -> Episode:
    """Outcomes of two seats; the learner in seat 0 also pays for its form."""
    played = episode(number, attempt, (own, other))
    first, *others = played.trajectories
    return replace(
        played, trajectories=(replace(first, total_reward=own + form), *others)
    )  # fmt: skip


def test_cooperation_blends_outcomes_and_leaves_form_to_its_writer() -> None:
    episodes = [shared(0, 0, 1.0, 0.0, form=-0.1), shared(0, 1, 0.0, 0.4)]
    rows, metrics = assigner(mode="cooperative", cooperation=0.5).assign(episodes, "a", "a@1")
    worth = [0.5 * 1.0 + 0.5 * 0.5 - 0.1, 0.5 * 0.0 + 0.5 * 0.2]
    mean = sum(worth) / 2
    assert by_reply(rows) == pytest.approx({"0/0/0": worth[0] - mean, "0/1/0": worth[1] - mean})
    assert (metrics["beta"], metrics["gamma"]) == (0.5, 0.0)
    assert metrics["own_term"] == metrics["reward"] == pytest.approx((0.9 + 0.0) / 2)
    assert metrics["team_term"] == pytest.approx((-0.5 + 0.2) / 2)
    assert metrics["rival_term"] == pytest.approx(0.0)  # one win, one defeat


def test_competition_adds_the_standing() -> None:
    episodes = [shared(0, 0, 0.6, 0.5), shared(0, 1, 0.6, 0.7)]
    rows, metrics = assigner(mode="competitive", competition=0.3).assign(episodes, "a", "a@1")
    assert by_reply(rows) == pytest.approx({"0/0/0": 0.3, "0/1/0": -0.3})
    margin = assigner(mode="competitive", competition=0.5, standing="margin")
    rows, _ = margin.assign(episodes, "a", "a@1")
    assert by_reply(rows) == pytest.approx({"0/0/0": 0.05, "0/1/0": -0.05})
    assert metrics["gamma"] == 0.3


def test_mixed_weights_of_zero_are_individual_play() -> None:
    episodes = [shared(0, 0, 0.6, 0.5), shared(0, 1, 0.1, 0.7)]
    mixed, _ = assigner(mode="mixed", cooperation=0.0, competition=0.0).assign(episodes, "a", "a@1")
    plain, _ = assigner().assign(episodes, "a", "a@1")
    assert mixed == plain


def test_full_cooperation_in_a_zero_sum_game_has_nothing_to_say() -> None:
    episodes = [episode(0, 0, (1.0, -1.0)), episode(0, 1, (-1.0, 1.0))]
    rows, _ = assigner(mode="cooperative", cooperation=1.0).assign(episodes, "a", "a@1")
    assert rows == []


def test_adaptive_weights_are_read_before_they_move_and_find_the_zero_sum_game(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assignment, "ADAPTATION_RATE", 0.5)
    credit_ = assigner(mode="adaptive", cooperation=0.8, competition=0.4)
    episodes = [episode(0, 0, (1.0, -1.0)), episode(0, 1, (-1.0, 1.0))]
    trace = [credit_.assign(episodes, "a", "a@1")[1] for _ in range(3)]
    assert [m["beta"] for m in trace] == pytest.approx([0.4, 0.2, 0.1])
    assert [m["gamma"] for m in trace] == pytest.approx([0.2, 0.3, 0.35])
    void = [episode(0, 0, (1.0, 1.0), void=True), episode(0, 1, (-1.0, -1.0), void=True)]
    before = credit_.state()
    credit_.assign(void, "a", "a@1")
    assert credit_.state() == before
    others = [episode(0, 0, (1.0, 0.0)), episode(0, 1, (0.0, 1.0))]  # a constant sum that is not 0
    credit_.assign([*others, *void], "a", "a@1")  # beside valid ones they say nothing either
    assert credit_.state()["adaptive"]["a"] == pytest.approx({"beta": 0.025, "gamma": 0.3875})


# --- estimators ------------------------------------------------------------------------------


def test_leaving_one_out_widens_small_groups() -> None:
    episodes = [episode(0, a, (r, -r)) for a, r in enumerate((1.0, 0.0, 0.5))]
    rows, _ = assigner(estimator="leave_one_out").assign(episodes, "a", "a@1")
    assert by_reply(rows) == pytest.approx({"0/0/0": 0.75, "0/1/0": -0.75, "0/2/0": 0.0})


def test_role_baselines_are_read_first_and_moved_by_valid_episodes() -> None:
    credit_ = assigner(estimator="role_baseline")
    rows, metrics = credit_.assign([episode(0, 0, (0.8, -0.8))], "a", "a@1")
    assert by_reply(rows) == pytest.approx(
        {"0/0/0": 0.8}
    )  # one turn in its group, and no baseline yet
    assert metrics["baseline"] == 0.0
    assert "flat_groups" not in metrics
    rows, metrics = credit_.assign(
        [episode(1, 0, (0.2, -0.2)), episode(1, 1, (9.0, 9.0), void=True)], "a", "a@2"
    )
    assert rows == []  # another version of the policy played
    rows, metrics = credit_.assign(
        [episode(1, 0, (0.2, -0.2)), episode(1, 1, (9.0, 9.0), void=True)], "a", "a@1"
    )
    assert by_reply(rows) == pytest.approx({"1/0/0": 0.2 - 0.8})
    by_hand = (0.95 * 0.05 * 0.8 + 0.05 * 0.2) / (1 - 0.95**2)
    _, metrics = credit_.assign([episode(2, 0, (0.0, 0.0))], "a", "a@1")
    assert metrics["baseline"] == pytest.approx(by_hand)
    _, metrics = credit_.assign([episode(2, 0, (0.0, 0.0))], "b", "a@1")
    assert metrics["baseline"] == 0.0  # another learner has its own


def turns_episode(number: int, attempt: int, rewards: tuple[float, ...], end: float) -> Episode:
    """The learner's turns pay ``rewards``; ``end`` more comes with the episode's total."""
    played = episode(number, attempt, (sum(rewards) + end, 0.0))
    first, *others = played.trajectories
    turns = tuple(
        replace(turn(f"{number}/{attempt} t{k}"), reward=r) for k, r in enumerate(rewards)
    )
    return replace(played, trajectories=(replace(first, turns=turns), *others))


def test_turns_are_worth_what_was_paid_from_there_on() -> None:
    episodes = [turns_episode(0, 0, (0.5, 0.0), 0.5), turns_episode(0, 1, (0.0, 0.2), 0.0)]
    rows, _ = assigner(level="turn", discount=0.5).assign(episodes, "a", "a@1")
    to_go = {"0/0 t0": 0.5 + 0.5 * 0.5, "0/0 t1": 0.5, "0/1 t0": 0.5 * 0.2, "0/1 t1": 0.2}
    first, second = (0.75 + 0.1) / 2, (0.5 + 0.2) / 2
    assert by_reply(rows) == pytest.approx(
        {k: v - (first if k.endswith("t0") else second) for k, v in to_go.items()}
    )


@pytest.mark.parametrize("estimator", ["group", "role_baseline", "gae"])
def test_turns_of_void_episodes_are_paid_nothing(estimator: Any) -> None:
    valid = [turns_episode(0, a, (0.5 * a, 0.1), 0.0) for a in range(3)]
    void = replace(turns_episode(0, 3, (9.0, float("nan")), 1.0), termination="void")
    rows = []
    for episodes in (valid, [*valid, void]):
        credit_ = assigner(level="turn", estimator=estimator)
        paid, _ = credit_.paid_turns(episodes, "a", "a@1")
        given, _ = credit_.assign(episodes, "a", "a@1")
        rows.append((paid, given, credit_.state()))
    assert rows[0] == rows[1]


def test_a_turn_that_only_one_attempt_reached_has_no_peers() -> None:
    episodes = [turns_episode(0, 0, (0.5, 0.5), 0.0), turns_episode(0, 1, (0.0,), 0.0)]
    rows, _ = assigner(level="turn").assign(episodes, "a", "a@1")
    assert by_reply(rows) == pytest.approx({"0/0 t0": 0.5, "0/1 t0": -0.5})


def test_gae_takes_running_means_per_turn_number_as_values() -> None:
    credit_ = assigner(level="turn", estimator="gae", discount=0.9, trace=0.5)
    credit_.assign([turns_episode(0, 0, (0.0, 0.4), 0.0)], "a", "a@1")
    values = [0.9 * 0.4, 0.4]
    rows, _ = credit_.assign([turns_episode(1, 0, (0.1, 1.0), 0.0)], "a", "a@1")
    last = 1.0 - values[1]
    first = 0.1 + 0.9 * values[1] - values[0] + 0.9 * 0.5 * last
    assert by_reply(rows) == pytest.approx({"1/0 t0": first, "1/0 t1": last})


def test_normalising_per_agent_or_per_turn_number() -> None:
    episodes = [turns_episode(0, 0, (0.9, 0.1), 0.0), turns_episode(0, 1, (0.0, 0.0), 0.0)]
    by_agent, _ = assigner(level="turn", normalise="agent").assign(episodes, "a", "a@1")
    size = ((0.5**2 + 0.05**2) / 2) ** 0.5
    assert by_reply(by_agent) == pytest.approx(
        {
            "0/0 t0": 0.5 / size,
            "0/0 t1": 0.05 / size,
            "0/1 t0": -0.5 / size,
            "0/1 t1": -0.05 / size,
        },
        rel=1e-4,
    )
    by_turn, _ = assigner(level="turn", normalise="turn").assign(episodes, "a", "a@1")
    assert sorted(by_reply(by_turn).values()) == pytest.approx([-1, -1, 1, 1], rel=1e-4)


def test_kept_flat_groups_carry_advantage_zero_and_void_ones_stay_out() -> None:
    episodes = [episode(0, 0, (1, -1)), episode(0, 1, (1, -1)), episode(0, 2, (1, -1), void=True)]
    rows, metrics = assigner().assign(episodes, "a", "a@1", keep_flat=True)
    assert by_reply(rows) == {"0/0/0": 0.0, "0/1/0": 0.0}
    assert metrics["flat_groups"] == 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "adaptive", "estimator": "role_baseline"},
        {"mode": "adaptive", "estimator": "gae", "level": "turn"},
    ],
)
def test_the_state_survives_json_bit_for_bit(settings: dict[str, Any]) -> None:
    batches = [
        [episode(n, a, (0.1 * n - 0.3 * a, 0.2 * a)) for a in range(3)] for n in range(4)
    ]  # fmt: skip
    whole, first, second = (assigner(**settings) for _ in range(3))
    for batch in batches[:2]:
        whole.assign(batch, "a", "a@1")
        first.assign(batch, "a", "a@1")
    second.load_state(json.loads(json.dumps(first.state())))
    for batch in batches[2:]:
        assert second.assign(batch, "a", "a@1") == whole.assign(batch, "a", "a@1")
    assert second.state() == whole.state()
