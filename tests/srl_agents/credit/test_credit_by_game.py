"""Several games have their own credit: no game's rewards move another's baselines or scale."""

from __future__ import annotations

import pytest

from srl_agents.credit.assignment import CreditAssigner
from srl_agents.credit.by_game import CreditByGame, mean_metrics
from srl_agents.credit.settings import CreditSettings
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn


def episode(game: str, attempt: int, reward: float) -> Episode:
    turn = Turn(
        turn_index=0, observation="?", reply="!", invalid=None, reward=reward,
        components={"outcome": reward}, version="v", prompt_ids=(1,), completion_ids=(2,),
        logprobs=(-1.0,), finish="stop",
    )  # fmt: skip
    return Episode(
        spec=MatchSpec(
            env_id=game, seed=1, split="train", seats=("v",), learner_seats=(0,), attempt=attempt
        ),
        trajectories=(
            Trajectory(
                seat=0, policy="v", turns=(turn,), outcome=reward, total_reward=reward,
                components={"outcome": reward, "format": 0.0},
            ),
        ),
        termination="ok",
    )  # fmt: skip


SMALL = [episode("small", k, 0.01 * k) for k in range(4)]
LARGE = [episode("large", k, 100.0 * k) for k in range(4)]


def credit(**settings: object) -> CreditByGame:
    own = CreditSettings(**settings)  # type: ignore[arg-type]
    return CreditByGame(
        {"small": CreditAssigner(own), "large": CreditAssigner(own)}, lambda spec: spec.env_id
    )


@pytest.mark.parametrize("settings", [{"normalise": "agent"}, {"estimator": "role_baseline"}])
def test_a_game_s_advantages_are_what_they_are_without_the_other(
    settings: dict[str, object],
) -> None:
    both, small_only = credit(**settings), credit(**settings)
    mixed = [e for pair in zip(LARGE, SMALL, strict=True) for e in pair]
    rows, metrics = both.assign(mixed, "alice", "v")
    expected, own = small_only.assign(SMALL, "alice", "v")
    assert [value for turn, value in rows if turn.reward < 1][: len(expected)] == pytest.approx(
        [value for _, value in expected]
    )
    assert metrics["rows"] == len(rows)
    assert metrics["game/small/reward"] == own["reward"] == pytest.approx(0.015)
    assert metrics["reward"] == pytest.approx((0.015 + 150) / 2)


def test_state_is_each_game_s_own_and_is_taken_over() -> None:
    first, second = credit(estimator="role_baseline"), credit(estimator="role_baseline")
    first.assign([*SMALL, *LARGE], "alice", "v")
    second.load_state(first.state())
    again = [c.assign([*SMALL, *LARGE], "alice", "v")[0] for c in (first, second)]
    assert again[0] == again[1]


def test_paid_turns_of_two_games_are_different_seats() -> None:
    paid, _ = credit().paid_turns([*SMALL, *LARGE], "alice", "v")
    assert len({turn.episode for turn in paid}) == len(paid) == 8


def test_counts_add_up_and_other_metrics_are_means_by_weight() -> None:
    weighted = [(1, {"rows": 2.0, "reward": 1.0}), (3, {"rows": 4.0, "reward": 0.0, "beta": 0.5})]
    assert mean_metrics(weighted) == {"rows": 6.0, "reward": 0.25, "beta": 0.5}
