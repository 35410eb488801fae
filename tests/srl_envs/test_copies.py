"""Cases outside the checks of `srl_envs.testing`: other processes, numbers, wrappers, refusals."""

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs.errors import ConfigError, VectorError
from srl_envs.families.coding.judging import Judge
from srl_envs.sandbox import Budget, CodeExecutor, Limits
from srl_envs.testing.copies import WAYS
from srl_envs.wrappers import (
    HistoryWindow,
    ObservationNoise,
    PotentialShaping,
    Recording,
    TurnLimit,
    numeric,
)

EVERY_WAY = pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
PROGRAM = "def solve(data):\n    return len(data)"

OTHER_PROCESS = """
import pickle, sys
view = pickle.load(sys.stdin.buffer)
total, over = 0.0, False
while not over:
    _, reward, over, _, info = view.step(view.action_space.sample())
    total += reward
print(repr(total), info["statistics"])
"""


@pytest.mark.slow
@EVERY_WAY
def test_a_copied_judge_starts_a_sandbox_of_its_own(way: Callable[[Any], Any]) -> None:
    judge = Judge()
    work, budgets = [(PROGRAM, ["[1, 2]"])], [Budget(20.0)]
    ((before,),) = judge.calls(work, "solve", budgets)
    twin = way(judge)
    assert twin._executor is None
    judge.close()
    ((after,),) = twin.calls(work, "solve", [Budget(20.0)])
    assert (before.status, before.value) == (after.status, after.value) == ("ok", 2)
    twin.close()


@pytest.mark.slow
@EVERY_WAY
def test_a_copied_executor_has_the_same_settings(way: Callable[[Any], Any]) -> None:
    limits = Limits(memory_mib=128)
    with CodeExecutor(limits, packages=()) as executor, way(executor) as twin:
        assert (twin.limits, twin.isolation, twin.language) == (limits, "strongest", "python")
        assert twin.layers == executor.layers
        assert twin.run("import numpy", [{"function": "f", "args": []}])[0].status != "ok"


def test_a_view_goes_on_in_a_process_that_knows_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment is registered only here; the game and the bot are found by their modules."""
    monkeypatch.setattr(srl_envs.registry, "_SPECS", dict(srl_envs.registry._SPECS))
    known = srl_envs.spec("nim-v0")
    srl_envs.register(
        id="mine/nim-v3", entry_point=known.entry_point, mode=known.mode, bots=known.bots,
        options=known.options,
    )  # fmt: skip
    view = srl_envs.make_single("mine/nim-v3", opponents="random", heaps=5)
    view.reset(seed=4)
    view.action_space.seed(1)
    view.step(view.action_space.sample())
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        input=pickle.dumps(view), capture_output=True, check=True,
    )  # fmt: skip
    total, over = 0.0, False
    while not over:
        _, reward, over, _, info = view.step(view.action_space.sample())
        total += reward
    assert done.stdout.decode().strip() == f"{total!r} {info['statistics']}"


@EVERY_WAY
@pytest.mark.parametrize("make", [numeric.make_parallel, numeric.make_aec, numeric.make_single])
def test_numeric_views_can_be_copied(way: Callable[[Any], Any], make: Callable[..., Any]) -> None:
    view = make("kuhn_poker-v0")
    view.reset(seed=2)

    def rest(of: Any) -> list[Any]:
        seen = []
        for _ in range(6):
            if isinstance(of, numeric.NumericSingle):
                seen.append(str(of.step(int(of.action_masks().argmax()))[:3]))
            elif isinstance(of, numeric.NumericAEC):
                of.step(int(of.last()[0]["action_mask"].argmax()))
                seen.append(str((of.last(), of.rewards)))
            else:
                numbers = {agent: int(np.argmax(of._on_move == [agent])) for agent in of.agents}
                seen.append(str(of.step(numbers)[:2]))
        return seen

    twin = way(view)
    assert rest(twin) == rest(view)


def in_the_middle(value: str, seat: int) -> float:
    return value.count("X") / 42


@EVERY_WAY
def test_wrapped_environments_can_be_copied(way: Callable[[Any], Any]) -> None:
    env: Any = ObservationNoise(srl_envs.make("connect_four-v0"), rate=0.2)
    env = PotentialShaping(env, potential=in_the_middle)
    env = HistoryWindow(TurnLimit(env, steps=12), turns=2)
    env.reset(seed=1)
    for _ in range(3):
        env.step(dict.fromkeys(env.agents, srl_envs.action(3)))
    twin = way(env)
    while env.agents:
        actions = dict.fromkeys(env.agents, srl_envs.action(2 + env.get_state()["turn"] % 4))
        assert twin.step(actions) == env.step(actions)
    assert not twin.agents


@EVERY_WAY
def test_what_cannot_be_copied_says_why_and_what_to_do(
    way: Callable[[Any], Any], tmp_path: Path
) -> None:
    with srl_envs.make_vec("nim-v0", 2) as vec, pytest.raises(VectorError, match="same seed"):
        way(vec)
    recorded = Recording(srl_envs.make("nim-v0"), tmp_path / "games.jsonl")
    with pytest.raises(ConfigError, match=r"a second time; .*\.env"):
        way(recorded)


@EVERY_WAY
def test_a_copied_bot_draws_from_a_generator_of_its_own(way: Callable[[Any], Any]) -> None:
    text = srl_envs.make("blotto-v0").reset(seed=0)[0]["player_0"]["text"]
    bot = srl_envs.make_bot("blotto-v0", "random", seed=3)
    bot(text)
    twin = way(bot)
    replies = [twin(text) for _ in range(5)]
    assert [bot(text) for _ in range(5)] == replies
    assert len(set(replies)) > 1


class Counting:
    """A policy that remembers, and draws."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.replies = rng, 0

    def __call__(self, text: str) -> str:
        self.replies += 1
        return f"{self.replies} {self.rng.integers(100)}"


@EVERY_WAY
def test_a_bot_that_is_an_object_keeps_what_it_remembers(way: Callable[[Any], Any]) -> None:
    from srl_envs.turns.bots import Bot

    bot = Bot(f"{__name__}:Counting", 0)
    bot("")
    twin = way(bot)
    assert [twin("") for _ in range(3)] == [bot("") for _ in range(3)]


def test_a_copied_action_space_draws_what_the_original_draws_and_disturbs_nothing() -> None:
    env = srl_envs.make("connect_four-v0")
    env.reset(seed=0)
    space = env.action_space("player_0")
    space.seed(5)
    twin = copy.deepcopy(space)
    assert [twin.sample() for _ in range(5)] == [space.sample() for _ in range(5)]
