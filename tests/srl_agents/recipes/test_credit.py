"""From episodes to (turn, advantage) rows, against sums done by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srl_agents.recipes.league_training import credit
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
