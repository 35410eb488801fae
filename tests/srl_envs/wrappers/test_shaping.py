from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.errors import ConfigError
from srl_envs.parallel import GameEnv
from srl_envs.testing.episodes import draw_actions, seed_spaces
from srl_envs.wrappers import PotentialShaping, TurnLimit, as_single


def pieces(text: str, seat: int) -> float:
    """Something that changes at every move and differs between seats."""
    return 0.1 * text.count("X") - 0.3 * text.count("O") + 0.7 * seat


def returns_by_turn(
    env: GameEnv, seed: int
) -> tuple[dict[str, list[float]], dict[str, float], bool]:
    """Per agent: rewards from one turn of its own to the next; potential of its first turn; truncated?"""
    observations, _ = env.reset(seed=seed)
    seed_spaces(env, seed)
    paid: dict[str, list[float]] = {agent: [] for agent in env.agents}
    first: dict[str, float] = {}
    truncated = False
    while env.agents:
        for seat, (agent, seen) in enumerate(observations.items()):
            if seen["can_act"]:
                paid[agent].append(0.0)
                first.setdefault(agent, pieces(seen["text"], seat))
        observations, rewards, _, truncations, _ = env.step(draw_actions(env))
        for agent, reward in rewards.items():
            if paid[agent]:
                paid[agent][-1] += reward
            else:
                assert reward == 0.0
        truncated = any(truncations.values())
    return paid, first, truncated


def discounted(rewards: list[float], gamma: float) -> float:
    return sum(gamma**turn * reward for turn, reward in enumerate(rewards))


@given(st.integers(0, 10_000), st.sampled_from([1.0, 0.9, 0.5]))
def test_the_shaped_return_differs_by_the_first_potential_whatever_is_played(
    seed: int, gamma: float
) -> None:
    plain = srl_envs.make("connect_four-v0", rows=4, cols=4, k=3)
    env = PotentialShaping(
        srl_envs.make("connect_four-v0", rows=4, cols=4, k=3), potential=pieces, gamma=gamma
    )
    bare, first, _ = returns_by_turn(plain, seed)
    shaped, _, _ = returns_by_turn(env, seed)
    for agent in first:
        assert len(shaped[agent]) == len(bare[agent])
        gained = discounted(shaped[agent], gamma) - discounted(bare[agent], gamma)
        assert gained == pytest.approx(-first[agent])


def test_simultaneous_moves_telescope_too() -> None:
    env = PotentialShaping(srl_envs.make("iterated_dilemma-v0"), potential=lambda t, s: len(t) / 99)
    observations, _ = env.reset(seed=0)
    start = {agent: len(seen["text"]) / 99 for agent, seen in observations.items()}
    total = dict.fromkeys(env.agents, 0.0)
    while env.agents:
        *_, infos = env.step(dict.fromkeys(env.agents, "<action>A</action>"))
        for agent, info in infos.items():
            total[agent] += info["reward_components"]["shaping"]
    assert total == pytest.approx({agent: -value for agent, value in start.items()})


def test_a_truncated_episode_ends_at_the_potential_of_what_is_seen() -> None:
    env = PotentialShaping(
        TurnLimit(srl_envs.make("iterated_dilemma-v0"), steps=2), potential=lambda t, s: len(t) / 99
    )
    start = len(env.reset(seed=0)[0]["player_0"]["text"]) / 99
    total = 0.0
    for _ in range(2):
        observations, *_, infos = env.step(dict.fromkeys(env.agents, "<action>B</action>"))
        total += infos["player_0"]["reward_components"]["shaping"]
    assert total == pytest.approx(len(observations["player_0"]["text"]) / 99 - start)


def test_components_add_up_to_the_reward_and_enter_transcripts() -> None:
    env = PotentialShaping(srl_envs.make("connect_four-v0"), potential=pieces)
    bots = {seat: srl_envs.make_bot("connect_four-v0", "middle", seat) for seat in (0, 1)}
    transcript = srl_envs.play(env, bots, seed=2)
    for seat in (0, 1):
        parts: dict[str, float] = dict(transcript.components[seat])
        assert parts["outcome"] == transcript.outcomes[seat]
        assert parts["outcome"] + parts["format"] + parts["shaping"] == pytest.approx(
            transcript.rewards[seat]
        )
        assert parts["shaping"] != 0


def test_the_single_view_gets_the_same_sum() -> None:
    env = PotentialShaping(srl_envs.make("connect_four-v0"), potential=pieces)
    view = as_single(env, seat=1, opponents={0: "middle"})
    seen, _ = view.reset(seed=4)
    start, total, over = pieces(seen["text"], 1), 0.0, False
    bot = srl_envs.make_bot("connect_four-v0", "middle", 1)
    while not over:
        seen, reward, over, _, _ = view.step(bot(seen["text"]))
        total += reward
    assert env.outcomes is not None
    assert total == pytest.approx(env.outcomes[1] - start)


@pytest.mark.parametrize("gamma", [0, -1, 1.1, float("nan")])
def test_impossible_discounts_are_refused(gamma: Any) -> None:
    with pytest.raises(ConfigError, match="gamma="):
        PotentialShaping(srl_envs.make("nim-v0"), potential=pieces, gamma=gamma)


def test_a_potential_that_is_not_finite_is_refused() -> None:
    env = PotentialShaping(srl_envs.make("nim-v0"), potential=lambda text, seat: float("inf"))
    with pytest.raises(ConfigError, match="gave inf"):
        env.reset(seed=0)
