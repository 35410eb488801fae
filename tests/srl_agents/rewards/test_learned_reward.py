"""The learned reward is added only for credit, bounded, and never by a model that saw the reply."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources import random_model
from srl_agents.records import Episode, MatchSpec, Trajectory, Turn
from srl_agents.rewards.learned_reward import COMPONENT, LearnedReward, rule_reward
from srl_agents.trainers.supervised.reward_model_settings import RewardModelSettings


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return random_model.build(tmp_path_factory.mktemp("model"))


def turn(reply: tuple[int, ...], reward: float = 0.0) -> Turn:
    return Turn(
        turn_index=0,
        observation="",
        reply="",
        invalid=None,
        reward=reward,
        components={"outcome": reward},
        prompt_ids=(10, 11, 12),
        completion_ids=reply,
        logprobs=(-1.0,) * len(reply),
        finish="stop",
    )


def episode(*turns: Turn, seed: int = 1, termination: Any = "ok", learns: bool = True) -> Episode:
    total = sum(t.reward for t in turns)
    spec = MatchSpec(
        env_id="nim-v0",
        seed=seed,
        split="train",
        seats=("alice@1", "bot:middle"),
        learner_seats=(0,) if learns else (),
    )

    def seat(number: int, turns: tuple[Turn, ...], total: float) -> Trajectory:
        return Trajectory(
            seat=number,
            policy=spec.seats[number],
            turns=turns,
            outcome=total,
            total_reward=total,
            components={"outcome": total},
        )

    return Episode(
        spec=spec,
        trajectories=(seat(0, turns, total), seat(1, (), -total)),
        termination=termination,
    )


GOOD, BAD = turn((65, 70), 1.0), turn((66, 70), -1.0)


def learned(model: Any, **settings: Any) -> LearnedReward:
    base = BaseModel.load(model, lora_rank=4, device="cpu")
    given = {"learning_rate": 1e-2, "ready_pairs": 3, "weight": 0.5, **settings}
    return LearnedReward(RewardModelSettings(**given), base, seed=1)


def test_it_judges_when_it_has_learned_enough_and_keeps_the_rules_apart(model: Any) -> None:
    reward = learned(model)
    played = [episode(GOOD), episode(BAD)]
    first = reward.learn(played, ("alice@1",))
    assert first["reward_model/pairs"] == 1
    assert first["reward_model/accuracy"] == 0.0  # nothing was learned when it was asked
    assert reward.judged(played, ("alice@1",)) == (played, {})
    for _ in range(8):
        last = reward.learn(played, ("alice@1",))
    assert last["reward_model/accuracy"] == 1.0
    judged, metrics = reward.judged(played, ("alice@1",))
    raw = reward.learner.judgements([(t.prompt_ids, t.completion_ids) for t in (GOOD, BAD)])
    assert raw[0] > raw[1]
    for before, after, value in zip(played, judged, raw, strict=True):
        own = after.trajectories[0]
        assert own.components[COMPONENT] == pytest.approx(0.5 * value)
        assert own.total_reward == pytest.approx(before.trajectories[0].total_reward + 0.5 * value)
        assert own.outcome == before.trajectories[0].outcome
        assert own.turns[0].components["outcome"] == before.trajectories[0].turns[0].reward
        assert after.trajectories[1] == before.trajectories[1]
        assert after.result().outcomes == before.result().outcomes
    assert metrics == {"reward_model/judgement": pytest.approx(np.mean(raw))}
    assert played == [episode(GOOD), episode(BAD)], "what was played is not touched"


def test_an_episode_gets_the_mean_over_its_turns_so_long_games_gain_nothing(model: Any) -> None:
    reward = learned(model, ready_pairs=1)
    reward.learn([episode(GOOD), episode(BAD)], ("alice@1",))
    (once, thrice), _ = reward.judged([episode(GOOD), episode(GOOD, GOOD, GOOD)], ("alice@1",))
    extra = [e.trajectories[0].components[COMPONENT] for e in (once, thrice)]
    assert extra[0] == pytest.approx(extra[1])
    assert sum(t.components[COMPONENT] for t in thrice.trajectories[0].turns) == pytest.approx(
        extra[1]
    )
    for own in thrice.trajectories[0].turns:  # each reply is paid for itself, not at the end
        assert own.reward - GOOD.reward == pytest.approx(own.components[COMPONENT]) != 0


def test_only_valid_episodes_of_learning_seats_are_judged(model: Any) -> None:
    reward = learned(model, ready_pairs=1)
    reward.learn([episode(GOOD), episode(BAD)], ("alice@1",))
    others = [episode(GOOD, termination="void"), episode(GOOD, learns=False)]
    assert reward.judged(others, ("alice@1",)) == (others, {})
    assert reward.judged([episode(GOOD)], ("bob@1",))[0] == [episode(GOOD)]


def test_without_pairs_it_takes_no_step(model: Any) -> None:
    reward = learned(model)
    assert reward.learn([episode(GOOD)], ("alice@1",)) == {"reward_model/pairs": 0.0}
    assert reward.learner.version == 0


def test_the_rules_reward_is_what_is_reported() -> None:
    played = [episode(GOOD), episode(BAD), episode(BAD), episode(GOOD, termination="void")]
    assert rule_reward(played, "alice@1") == pytest.approx(-1 / 3)
    assert rule_reward(played, "bob@1") == 0.0


def test_a_reward_model_on_a_base_of_its_own_reads_what_was_written_as_text(
    model: Any, tmp_path: Path
) -> None:
    written_by = BaseModel.load(model, lora_rank=4, device="cpu")
    folder = random_model.build(tmp_path / "judge", hidden=32, layers=1, context=24)
    judge = BaseModel.load(folder, lora_rank=2, lora_alpha=4, device="cpu")
    settings = RewardModelSettings(learning_rate=3e-2, ready_pairs=3, weight=0.5)
    reward = LearnedReward(settings, judge, seed=1, written_by=written_by)
    long_prompt = tuple(range(40, 90))  # more than the judge reads
    played = [
        episode(replace(GOOD, prompt_ids=long_prompt)),
        episode(replace(BAD, prompt_ids=long_prompt)),
    ]
    for _ in range(8):
        last = reward.learn(played, ("alice@1",))
    assert last["reward_model/accuracy"] == 1.0
    judged, _ = reward.judged(played, ("alice@1",))
    good, bad = (e.trajectories[0].components[COMPONENT] for e in judged)
    assert good > bad
    assert written_by.adapters == ()
