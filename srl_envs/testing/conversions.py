"""PettingZoo's conversions of the agent-by-agent view play the same game as the parallel view."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from srl_envs.parallel import GameEnv
from srl_envs.testing.episodes import Recording, game_env, live_state, record, require
from srl_envs.views.aec import GameAEC


def check_conversions(env_id: str, *, episodes: int = 3) -> None:
    """`turn_based_aec_to_parallel` fits every game, `aec_to_parallel` every simultaneous one.

    Each episode is played with the replies of the parallel view, of which some are invalid, and must
    show the same texts and pay the same. A game declares itself `Game.simultaneous` exactly where its
    `to_move` names all seats at every step.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: a conversion fails or plays another game, or the declaration is wrong.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's own, of its own modules
        from pettingzoo.utils import conversions  # noqa: PLC0415 - pulls in much

    everybody = True
    with game_env(env_id) as env, game_env(env_id) as other:
        declared = env.game.simultaneous
        for seed in range(episodes):
            movers: list[bool] = []
            expected = record(env, seed, between=lambda: movers.append(_all_move(env)))  # noqa: B023
            everybody = everybody and all(movers)
            require(
                everybody or not declared,
                f"{env_id}: seed {seed}: the game is declared simultaneous, but at step "
                f"{movers.index(False) + 1 if False in movers else 0} only some seats are on move.",
            )
            view = GameAEC(other)
            turns = conversions.turn_based_aec_to_parallel(view)
            _require_same(
                f"{env_id}: seed {seed}, turn_based_aec_to_parallel", turns, expected, seed
            )
            if declared:
                cycles = conversions.aec_to_parallel(view)
                _require_same(f"{env_id}: seed {seed}, aec_to_parallel", cycles, expected, seed)
    require(
        declared or not everybody or env.game.seats == 1,
        f"{env_id}: all seats are on move at every step of {episodes} episodes, but the game does not "
        f"say so: set `simultaneous = True` in its class.",
    )


def _all_move(env: GameEnv) -> bool:
    return env.game.to_move(live_state(env)) == tuple(range(env.game.seats))


def _require_same(where: str, converted: Any, expected: Recording, seed: int) -> None:
    """Play the replies of ``expected`` through a converted view; texts and rewards are the same."""
    seen, _ = converted.reset(seed=seed)
    require(_texts(seen) == _texts(expected.first[0]), f"{where}: reset shows other texts.")
    for number, (actions, (observations, rewards, terminations, *_)) in enumerate(
        expected.steps, 1
    ):
        step = f"{where}, step {number}"
        paid = dict.fromkeys(rewards, 0.0)
        infos = converted.aec_env.infos
        while converted.agents and converted.aec_env.infos is infos:  # until the joint step is made
            seen, parts, ended, _, _ = converted.step(actions)
            for agent, reward in parts.items():
                paid[agent] += reward
        require(_texts(seen) == _texts(observations), f"{step}: a seat reads something else.")
        require(paid == rewards, f"{step}: it pays {paid} instead of {rewards}.")
        require(ended == terminations, f"{step}: terminations {ended}.")
    require(not converted.agents, f"{where}: the episode does not end.")


def _texts(observations: Mapping[str, Any]) -> dict[str, str]:
    return {agent: seen["text"] for agent, seen in observations.items()}
