"""A copy in the middle of an episode goes on as the original does, whether copied or pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from srl_envs.parallel import GameEnv
from srl_envs.registry import spec
from srl_envs.testing.episodes import (
    ConformanceError,
    draw_actions,
    game_env,
    require,
    seed_spaces,
)
from srl_envs.views.aec import GameAEC
from srl_envs.views.single import GameSingle

_PICKLE_BYTES = 200_000
"""A larger pickle carries data that belongs to the module, such as a word list."""

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda view: pickle.loads(pickle.dumps(view)),
}


def check_copies(env_id: str, *, episodes: int = 2) -> None:
    """The parallel, agent-by-agent and single view are copied at some step, and play the same rest.

    Replies are drawn from the copies' own action spaces, and in the single view the other seats are
    one kind of bot after the other: generators are copied, not shared. Episodes are copied half way,
    so after a program ran where the game runs any. A pickle is small.

    Args:
        env_id: a registered id, of this package or of another.
        episodes: how many are played, one per seed.

    Raises:
        ConformanceError: a view cannot be copied, or a copy plays another game.
    """
    bots: list[str | None] = [*spec(env_id).bots] or [None]
    for seed in range(episodes):
        with game_env(env_id) as env:
            _require_same_rest(f"{env_id}: seed {seed}, the parallel view", env, seed, _parallel)
            _require_same_rest(f"{env_id}: seed {seed}, the AEC view", GameAEC(env), seed, _aec)
            bot = bots[seed % len(bots)]
            view = GameSingle(env, seat=seed % len(env.possible_agents), opponents=bot)
            where = f"{env_id}: seed {seed}, the single view against {bot or 'random moves'}"
            _require_same_rest(where, view, seed, _single)


_Step = Callable[[Any], Any]
"""Moves a view on; returns what the caller sees, None at the end."""


def _require_same_rest(where: str, view: Any, seed: int, step: _Step) -> None:
    whole = _rest(_started(view, seed), step)
    half = len(whole) // 2
    _started(view, seed)
    for _ in range(half):
        step(view)
    for way, copied in WAYS.items():
        try:
            twin = copied(view)
        except Exception as error:
            raise ConformanceError(
                f"{where}: {way} raises {type(error).__name__}: {error}"
            ) from error
        if way == "pickle":
            size = len(pickle.dumps(view))
            require(size <= _PICKLE_BYTES, f"{where}: a pickle has {size} bytes.")
        try:
            same = _rest(twin, step) == whole[half:]
            require(same, f"{where}: a copy by {way} plays another game.")
        finally:
            twin.close()
    same = _rest(view, step) == whole[half:]
    require(same, f"{where}: something is shared with the copies, and they changed it.")


def _started(view: Any, seed: int) -> Any:
    seed_spaces(_game(view), seed)
    view.reset(seed=seed)
    return view


def _game(view: Any) -> GameEnv:
    return view if isinstance(view, GameEnv) else view.env


def _rest(view: Any, step: _Step) -> list[Any]:
    seen = []
    while _game(view).agents:
        seen.append(step(view))
    return seen


def _parallel(env: GameEnv) -> Any:
    return copy.deepcopy(env.step(draw_actions(env)))


def _aec(view: GameAEC) -> Any:
    agent = view.agent_selection
    view.step(view.action_space(agent).sample())
    return agent, copy.deepcopy((view.last(), view.rewards, view.infos))


def _single(view: GameSingle) -> Any:
    return copy.deepcopy(view.step(view.action_space.sample()))
