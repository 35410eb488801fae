"""What RLlib itself does with the numeric games: it checks them, and PPO learns from them with masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason='RLlib is not installed: pip install "ray[rllib]"')

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

from srl_envs.errors import ConfigError
from srl_envs.wrappers import numeric
from srl_envs.wrappers.numeric.rllib import RLlibGame

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # of Ray, about itself
FOUR = {"env_id": "connect_four-v0", "rows": 4, "cols": 5, "k": 3}
DILEMMA = {"env_id": "iterated_dilemma-v0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def config(game: dict[str, Any]) -> Any:
    spec = RLModuleSpec(
        module_class=ActionMaskingTorchRLModule, model_config={"fcnet_hiddens": [16]}
    )
    return (
        PPOConfig()
        .environment(RLlibGame, env_config=game)
        .env_runners(num_env_runners=0, rollout_fragment_length=64)
        .learners(num_learners=0)
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"shared": spec}))
        .training(train_batch_size_per_learner=64, minibatch_size=32, num_epochs=1)
    )


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("game", [FOUR, DILEMMA], ids=["turns", "simultaneous"])
def test_ppo_learns_from_legal_actions_only(
    game: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[bool] = []
    step = RLlibGame.step

    def watched(self: RLlibGame, actions: dict[str, int]) -> Any:
        found = step(self, actions)
        refused.extend(info["invalid"] is not None for info in found[-1].values())
        return found

    monkeypatch.setattr(RLlibGame, "step", watched)
    algorithm = config(game).build_algo()
    try:
        result = algorithm.train()
    finally:
        algorithm.stop()
    assert result["learners"]["shared"]["num_module_steps_trained"] > 0
    assert refused
    assert not any(refused)


@pytest.mark.parametrize("env_id", numeric.list_numeric())
def test_every_twin_keeps_to_its_spaces_and_shows_who_is_on_move(env_id: str) -> None:
    game = RLlibGame({"env_id": env_id})
    random = np.random.default_rng(0)
    seen, _ = game.reset(seed=3)
    over = False
    while not over:
        for agent, shown in seen.items():
            assert game.observation_spaces[agent].contains(shown)
        actions = {
            agent: int(random.choice(np.flatnonzero(shown["action_mask"])))
            for agent, shown in seen.items()
        }
        seen, rewards, terminated, truncated, infos = game.step(actions)
        over = terminated["__all__"] or truncated["__all__"]
        assert set(infos) == set(seen)
        assert set(rewards) == set(game.possible_agents)
    assert set(seen) == set(game.possible_agents)
    game.close()


def test_a_config_without_a_game_is_refused() -> None:
    with pytest.raises(ConfigError, match="env_id"):
        RLlibGame({"rows": 4})
    with pytest.raises(ConfigError):
        RLlibGame({**FOUR, "rows": 99})
