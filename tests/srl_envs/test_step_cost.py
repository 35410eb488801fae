"""What a step may cost, in calls: times depend on the machine, counts do not."""

import gc
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from statistics import median
from types import FrameType
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.parallel import GameEnv
from srl_envs.turns.grammar import action

ENVS = [
    name
    for name in srl_envs.list_envs()
    if "/" not in name and not srl_envs.registry.spec(name).runs_programs
]
CALLS = {
    "connect_four-v0": (22, 11), "nim-v0": (21, 10), "kuhn_poker-v0": (26, 14), "blotto-v0": (34, 26),
    "iterated_dilemma-v0": (36, 26),
}  # fmt: skip
"""Most calls of Python functions in a usual step, a tenth above the costliest Python: of the parallel view,
and of one that reads the texts of the seats on move and nothing else."""


PER_SEAT = ("observe", "parse", "legal", "components")


def recorded(env: GameEnv, seed: int) -> list[dict[str, str]]:
    """Random legal replies, drawn apart from what is counted."""
    rng = np.random.default_rng(seed)
    observations, _ = env.reset(seed=seed)
    joint_replies = []
    while env.agents:
        joint_replies.append(
            {
                agent: action(env.sample_legal(seat, rng))
                for seat, agent in enumerate(env.possible_agents)
                if observations[agent]["can_act"]
            }
        )
        observations, *_ = env.step(joint_replies[-1])
    return joint_replies


def python_calls(act: Callable[[], object]) -> Counter[str]:
    """Calls of Python functions by file and name, comprehensions aside."""
    calls = Counter[str]()

    def hook(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and not name.endswith("comp>"):  # newer interpreters inline these
            calls[f"{frame.f_code.co_filename}:{name}"] += 1

    gc.disable()  # libraries have functions called at a collection
    sys.setprofile(hook)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.parametrize("env_id", ENVS)
def test_a_step_reads_and_writes_each_text_once_and_makes_no_tools(
    env_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    env: Any = srl_envs.make(env_id)
    game, asked = env.game, Counter[str]()
    episode = recorded(env, seed=4)
    re.purge()
    env.reset(seed=4)

    def counting(name: str, real: Any) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            asked[f"{name} {args[1]}" if name in PER_SEAT else name] += 1
            return real(*args)

        return counted

    for name in (*PER_SEAT, "apply"):
        monkeypatch.setattr(game, name, counting(name, getattr(game, name)))
    for name in ("PCG64", "SeedSequence", "Generator", "default_rng"):
        monkeypatch.setattr(np.random, name, counting(name, getattr(np.random, name)))
    for joint in episode:
        asked.clear()
        calls = python_calls(partial(env.step, joint))
        assert set(asked.values()) == {1}, asked
        texts = {name for name in asked if name.startswith("observe")}
        assert texts == {f"observe {seat}" for seat in range(game.seats)}
        assert not asked.keys() & {"PCG64", "SeedSequence", "Generator", "default_rng"}
        assert not [name for name in calls if "_compiler.py" in name]


@pytest.mark.parametrize("env_id", CALLS)
def test_a_step_of_a_shared_game_makes_few_calls(env_id: str) -> None:
    env: Any = srl_envs.make(env_id)
    recorded(env, seed=3)
    episode = recorded(env, seed=4)

    def read_and_reply(joint: dict[str, str]) -> None:
        for agent in env.on_move:
            env.text(agent)
        env.advance(joint)

    for way, most in zip((env.step, read_and_reply), CALLS[env_id], strict=True):
        plays = []
        for _ in range(3):  # calls that other parts of the process make once do not count
            env.reset(seed=4)
            plays.append([python_calls(partial(way, joint)) for joint in episode])
        least = [min(steps, key=Counter.total) for steps in zip(*plays, strict=True)]
        assert median(step.total() for step in least[:-1]) <= most, least
