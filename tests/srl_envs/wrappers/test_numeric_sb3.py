"""What Stable-Baselines3 and sb3-contrib themselves do with the numeric views."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.wrappers import numeric
from srl_envs.wrappers.numeric.policies import sb3_probabilities

pytestmark = pytest.mark.slow  # importing torch takes seconds
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.vec_env import DummyVecEnv

GAME: dict[str, Any] = {"rows": 4, "cols": 5, "k": 3}


def view() -> Any:
    return numeric.make_single("connect_four-v0", opponents={1: "middle"}, **GAME)


@pytest.fixture(scope="module")
def model() -> Any:
    made = MaskablePPO(
        "MlpPolicy", DummyVecEnv([view] * 2), n_steps=16, batch_size=16, seed=0, device="cpu"
    )
    return made.learn(64)


def test_the_view_is_what_they_expect() -> None:
    check_env(view())
    copies = DummyVecEnv([view] * 2)
    assert is_masking_supported(copies)
    copies.reset()
    assert get_action_masks(copies).shape == (2, 5)


@pytest.mark.parametrize("env_id", numeric.list_numeric())
def test_every_twin_is_learned_from(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some updates in random opponents' company; no action of the model is refused."""
    views = [numeric.make_single(env_id) for _ in range(2)]
    refused: list[Any] = []
    for made in views:
        monkeypatch.setattr(made.env, "step", partial(_watched, made.env.step, refused))
    model = MaskablePPO(
        "MlpPolicy", DummyVecEnv([lambda made=made: made for made in views]), n_steps=8, batch_size=8,
        n_epochs=1, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(32)
    assert model.num_timesteps == 32
    assert not any(refused)


def _watched(step: Callable[[Any], Any], refused: list[Any], action: Any) -> Any:
    result = step(action)
    refused.append(result[-1]["invalid"])
    return result


def test_a_trained_model_sits_beside_text_policies(model: Any) -> None:
    env: Any = srl_envs.make("connect_four-v0", **GAME)
    features = numeric.features_of(env)
    policies: dict[int, Callable[[str], str]] = {
        0: numeric.text_policy(numeric.sb3_chooser(model), features),
        1: srl_envs.make_bot("connect_four-v0", "middle", 1),
    }
    for by in (0, 1):
        played = srl_envs.play(env, srl_envs.rotate_seats(policies, by), seed=3)
        assert not any(label for step in played.steps for label in step.invalid)


def test_it_takes_the_action_that_the_model_predicts(model: Any) -> None:
    env: Any = srl_envs.make("connect_four-v0", **GAME)
    text = next(seen["text"] for seen in env.reset(seed=0)[0].values() if seen["can_act"])
    features = numeric.features_of(env)
    reading = features.read(text)
    number, _ = model.predict(reading.values, action_masks=reading.mask, deterministic=True)
    assert numeric.text_policy(numeric.sb3_chooser(model), features)(text) == features.reply(number)


def test_draws_follow_the_models_probabilities_and_the_generator_alone(model: Any) -> None:
    features = numeric.features_of(srl_envs.make("connect_four-v0", **GAME))
    text = "; 3 in a row\nX....\nX....\nO....\nX.XO.\n12345\n"
    reading = features.read(text)
    chances = sb3_probabilities(model, reading.values, reading.mask)
    assert chances[0] == 0
    assert chances.sum() == pytest.approx(1)
    rng = np.random.default_rng(0)
    choose = numeric.sb3_chooser(model, rng=rng)
    counts = np.bincount([choose(reading.values, reading.mask) for _ in range(400)], minlength=5)
    assert counts[0] == 0
    assert np.abs(counts / 400 - chances).max() < 0.1
    draws = [
        numeric.sb3_chooser(model, rng=np.random.default_rng(5))(reading.values, reading.mask)
        for _ in range(2)
    ]
    assert draws[0] == draws[1]
