import pytest

import srl_envs
from srl_envs.errors import ConfigError
from srl_envs.wrappers import TurnLimit


def test_an_episode_is_truncated_at_the_limit_and_keeps_what_was_paid() -> None:
    env = TurnLimit(srl_envs.make("iterated_dilemma-v0", kinds=["harmony"]), steps=3)
    env.reset(seed=0)
    total = 0.0
    for number in range(1, 4):
        _, rewards, terminations, truncations, infos = env.step(
            dict.fromkeys(env.agents, "<action>A</action>")
        )
        total += rewards["player_0"]
        assert truncations == dict.fromkeys(truncations, number == 3)
        assert not any(terminations.values())
    assert env.agents == []
    assert total == env.paid[0] > 0
    assert infos["player_0"]["forfeited"] is False


def test_a_refused_reply_counts_as_a_step() -> None:
    env = TurnLimit(srl_envs.make("connect_four-v0"), steps=1)
    env.reset(seed=0)
    _, _, _, truncations, _ = env.step(dict.fromkeys(env.agents, "no move"))
    assert all(truncations.values())


def test_the_tightest_limit_counts() -> None:
    env = TurnLimit(TurnLimit(srl_envs.make("nim-v0"), steps=2), steps=9)
    assert env.max_cycles == 2
    env.max_cycles = 1
    assert env.unwrapped.max_cycles == 1
    env.max_cycles = 50  # as the public suites do
    assert env.unwrapped.max_cycles == 2


@pytest.mark.parametrize("steps", [0, -1, 1.5, True, None])
def test_impossible_limits_are_refused(steps: object) -> None:
    with pytest.raises(ConfigError, match="TurnLimit: steps="):
        TurnLimit(srl_envs.make("nim-v0"), steps=steps)  # type: ignore[arg-type]
