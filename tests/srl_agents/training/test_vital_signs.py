"""What is unusual is found, what is usual is not, and a resumed run remembers what is usual."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.recipes.sections.fault_kinds import FAULTS
from srl_agents.recipes.sections.fault_policy import SurvivalSettings
from srl_agents.training.faults import vital_signs
from srl_agents.training.faults.vital_signs import VitalSigns
from srl_envs.errors import ConfigError

STEADY = {"loss": 0.5, "grad_norm": 2.0, "reward": 0.0, "entropy": 1.0, "kl": 0.1}


def signs(updates: int = 6) -> VitalSigns:
    """Of a learner with some steady updates behind it."""
    seen = VitalSigns(["alice"])
    seen.begin("alice", 3.0)
    for number in range(1, updates + 1):
        assert seen.before_step("alice", STEADY, first=True) is None
        assert seen.after_update(number, "alice", STEADY, 3.1) == []
    return seen


@pytest.mark.parametrize(
    ("metrics", "fault"),
    [
        ({"loss": -1001.0}, "loss_exploded"),
        ({"grad_norm": 2001.0}, "gradient_exploded"),
        ({"kl": 10.1}, "kl_blown_up"),
        ({"sampler_kl": 1.1}, "sampler_differs"),
    ],
)
def test_an_unusual_gradient_is_found_before_the_step(
    metrics: dict[str, float], fault: str
) -> None:
    found = signs().before_step("alice", STEADY | metrics, first=True)
    assert found is not None
    assert (found.fault, found.learner) == (fault, "alice")
    assert found.fault in FAULTS


def test_later_steps_of_an_update_may_differ_from_the_sampler() -> None:
    assert signs().before_step("alice", STEADY | {"sampler_kl": 9.0}, first=False) is None


def test_growth_needs_something_to_compare_with() -> None:
    assert signs(updates=3).before_step("alice", STEADY | {"loss": 1e9}, first=True) is None


def test_weights_entropy_and_reward_are_judged_over_updates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vital_signs, "PATIENCE", 2)
    assert [f.fault for f in signs().after_update(7, "alice", STEADY, 301.0)] == [
        "weights_exploded"
    ]
    flat = signs()
    assert flat.after_update(7, "alice", STEADY | {"entropy": 0.0}, 3.0) == []
    (found,) = flat.after_update(8, "alice", STEADY | {"entropy": 0.0}, 3.0)
    assert (found.fault, found.since) == ("entropy_collapsed", 7)
    poor = signs(updates=4)
    assert poor.after_update(5, "alice", STEADY | {"reward": -0.2}, 3.0) == []
    (found,) = poor.after_update(6, "alice", STEADY | {"reward": -0.3}, 3.0)
    assert (found.fault, found.since) == ("reward_collapsed", 5)


def collapses(rewards: list[float]) -> list[int]:
    """Updates, from 1, after which a collapse of the reward is reported."""
    seen = VitalSigns(["alice"])
    found = [
        seen.after_update(number, "alice", {"reward": reward}, 1.0)
        for number, reward in enumerate(rewards, 1)
    ]
    return [number for number, findings in enumerate(found, 1) if findings]


@given(st.lists(st.floats(0, 0.1), max_size=60), st.floats(0, 0.02))
def test_noise_and_a_slow_decline_are_not_a_collapse(noise: list[float], slope: float) -> None:
    assert collapses(noise) == []
    assert collapses([1.0 - slope * number for number in range(60)]) == []


def test_a_learner_that_loses_all_it_learned_has_collapsed_until_it_is_back() -> None:
    climb = [0.0, 0.1, 0.3, 0.6, *[0.9, 0.95] * 5]
    assert collapses([*climb, *[0.0] * 8, *[0.9] * 3]) == [19, 20, 21, 22]


def test_a_harder_level_is_not_a_collapse() -> None:
    assert collapses([0.1, *[0.9] * 12, *[0.3] * 8]) == []


def test_a_resumed_run_remembers_what_is_usual() -> None:
    before, after = signs(), VitalSigns(["alice"])
    after.load_state(json.loads(json.dumps(before.state())))
    assert after.state() == before.state()
    found = after.before_step("alice", STEADY | {"grad_norm": 2001.0}, first=True)
    assert found is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policies": {"disk_ful": "stop"}}, "Did you mean 'disk_full'?"),
        ({"policies": {"disk_full": "go_on"}}, "disk_full cannot be answered by 'go_on'"),
        ({"most_roll_backs": -1}, "most_roll_backs=-1: use 0 or more"),
        ({"phase_deadline_s": 0}, "phase_deadline_s=0: use more than 0"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        SurvivalSettings(**settings)  # type: ignore[arg-type]
