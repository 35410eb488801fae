"""The public suites of PettingZoo and Gymnasium, run so that they play legal moves."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any

from srl_envs.api.making import make
from srl_envs.gymnasium_ids import gymnasium_id
from srl_envs.parallel import GameEnv
from srl_envs.registry import spec
from srl_envs.testing.episodes import ConformanceError, require, seed_spaces
from srl_envs.views.aec import GameAEC

LEGAL_SHARE = 0.6
"""Least share of the suites' replies that must be accepted; below it they tested only the error path."""

_EXPECTED_WARNINGS = (
    "Observation is not NumPy array",  # it is a dict with text
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be",
    "Action space for each agent probably should be",
    "no render fps was declared",
)


class LegalCount:
    """Counts the replies of seats on move that an environment accepted."""

    def __init__(self) -> None:
        self.replies = 0
        self.accepted = 0

    def watch(self, env: Any) -> Any:
        """Count the steps of ``env`` from now on; returns it."""
        if isinstance(env, GameEnv):
            seed_spaces(env, 0)
            on_move: set[str] = set()
            reset, step = env.reset, env.step

            def counted_reset(*args: Any, **kwargs: Any) -> Any:
                result = reset(*args, **kwargs)
                see(result[0])
                return result

            def counted_step(actions: dict[str, str]) -> Any:
                result = step(actions)
                self.replies += len(on_move)
                self.accepted += sum(result[-1][agent]["invalid"] is None for agent in on_move)
                see(result[0])
                return result

            def see(observations: dict[str, Any]) -> None:
                on_move.clear()
                on_move.update(a for a, seen in observations.items() if seen["can_act"])

            for name, method in (("reset", counted_reset), ("step", counted_step)):
                setattr(env, name, method)
        return env


def check_public_suites(env_id: str, *, cycles: int = 1000) -> None:
    """PettingZoo's four suites and Gymnasium's `check_env`, with at least 60 % legal replies each.

    Gymnasium's runs on what `gymnasium.make` makes of the environment's name there.

    Args:
        env_id: a registered id.
        cycles: ``num_cycles`` of PettingZoo's API suites; its seed suites get half.

    Raises:
        ConformanceError: a suite fails or warns of something new, or too few replies were legal.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # PettingZoo's own, of its own modules
        import gymnasium  # noqa: PLC0415 - these pull in much
        from gymnasium.utils.env_checker import check_env  # noqa: PLC0415
        from pettingzoo.test import (  # noqa: PLC0415
            api_test,
            parallel_api_test,
            parallel_seed_test,
            seed_test,
        )

    def parallel(count: LegalCount) -> Any:
        return count.watch(make(env_id))

    def aec(count: LegalCount) -> Any:
        return GameAEC(parallel(count))

    def single(count: LegalCount) -> Any:
        env: Any = gymnasium.make(gymnasium_id(spec(env_id).id)).unwrapped
        count.watch(env.env)
        return env

    suites: dict[str, Callable[[LegalCount], object]] = {
        "parallel_api_test": lambda count: parallel_api_test(parallel(count), num_cycles=cycles),
        "parallel_seed_test": lambda count: parallel_seed_test(
            lambda: parallel(count), num_cycles=cycles // 2
        ),
    }
    env = make(env_id)
    if isinstance(env, GameEnv):
        suites["api_test"] = lambda count: api_test(
            aec(count), num_cycles=cycles, verbose_progress=False
        )
        suites["seed_test"] = lambda count: seed_test(lambda: aec(count), num_cycles=cycles // 2)
        suites["check_env"] = lambda count: check_env(single(count))
    env.close()
    for name, suite in suites.items():
        _run(env_id, name, suite)


def _run(env_id: str, name: str, suite: Callable[[LegalCount], object]) -> None:
    count = LegalCount()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            suite(count)
        except Exception as error:  # the suites raise AssertionError and whatever the code raises
            raise ConformanceError(
                f"{env_id} fails {name}: {type(error).__name__}: {error}"
            ) from error
    for warning in caught:
        text = str(warning.message)
        if warning.category is not ResourceWarning:
            known = any(expected in text for expected in _EXPECTED_WARNINGS)
            require(known, f"{env_id}: {name} warns: {text}")
    if count.replies:
        require(
            count.accepted >= LEGAL_SHARE * count.replies,
            f"{env_id}: {name} played {count.accepted} legal replies of {count.replies}; at least "
            f"{LEGAL_SHARE:.0%} are needed, or it tests nothing but errors.",
        )
