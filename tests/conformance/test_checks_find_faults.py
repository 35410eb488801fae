"""The checks themselves: a sound game passes, and each fault is found by the check that is for it."""

import inspect
from collections.abc import Iterator

import broken_games
import pytest
from broken_games import Coins, Pennies

from srl_envs import registry
from srl_envs.aec import GameAEC
from srl_envs.core import Streams
from srl_envs.registry import make
from srl_envs.testing import CHECKS, ConformanceError, check, check_contract

FAULTS = [
    fault
    for _, fault in inspect.getmembers(broken_games, inspect.isclass)
    if issubclass(fault, Pennies) and fault is not Pennies
]
COIN, RUDE, MOODY = (f"broken_games:{name}_bot" for name in ("coin", "rude", "moody"))


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    return


def register(game: type, **bots: str) -> str:
    bots = bots or {"random": COIN, "middle": COIN}
    registry.register(
        id="pennies-v0", entry_point=f"{game.__module__}:{game.__name__}", mode="competitive",
        bots=bots,
    )  # fmt: skip
    return "pennies-v0"


def test_a_sound_game_passes_every_check() -> None:
    check(register(Pennies), episodes=3)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found(fault: type) -> None:
    """The first word of a fault's docstring names the check."""
    name = (fault.__doc__ or "").partition(":")[0]
    env_id = register(fault)
    with pytest.raises(ConformanceError, match=env_id):
        CHECKS[name](env_id, 4)


class ThousandsOfInstances(Pennies):
    """Sound: the splits are drawn independently, but out of a few thousand instances."""

    def new(self, streams: Streams) -> Coins:
        return Coins((int(streams.instance.integers(1, POOL)), 2, 3, 4), 0)


POOL = 4000
"""Here 50 seeds of train draw 50 instances, and some of them are among those of eval."""


def test_instances_that_meet_by_chance_are_no_leak() -> None:
    env_id = register(ThousandsOfInstances)
    env = make(env_id)
    train, held_back = (
        {
            env.reset(seed=seed, options={"split": split})[0]["player_0"]["text"]
            for seed in range(50)
        }
        for split in ("train", "eval")
    )
    assert len(train) == 50
    assert 1 <= len(train & held_back) <= 5
    CHECKS["splits"](env_id, 4)


class PaidInParts(Pennies):
    """Sound: 0.9 is paid and taken back in two parts, which leaves -6e-17 of an outcome of 0."""

    def earned(self, state: Coins) -> tuple[float, ...]:
        value = (0.0, 0.9, 0.9, 0.3, 0.0)[len(state.shown)]
        return value, -value

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        return (0.0, 0.0) if len(state.shown) == len(state.stakes) else None


def test_the_rounding_of_payments_is_no_fault() -> None:
    CHECKS["payoffs"](register(PaidInParts), 2)


@pytest.mark.parametrize("bot", [RUDE, MOODY, "broken_games:absent_bot"])
def test_a_bad_bot_is_found(bot: str) -> None:
    with pytest.raises(ConformanceError, match="bot 'other'"):
        CHECKS["bots"](register(Pennies, random=COIN, other=bot), 3)


def test_a_view_that_tells_replies_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(self: GameAEC, agent: str) -> dict[str, object]:
        seen = dict(self._observations[agent])
        return {**seen, "text": f"{seen['text']} {self._held}"}

    monkeypatch.setattr(GameAEC, "observe", observe)
    with pytest.raises(ConformanceError, match="AEC"):
        CHECKS["views"](register(Pennies), 1)


def test_an_environment_that_is_no_game_gets_the_public_suites_alone() -> None:
    registry.register(
        id="foreign-v0", entry_point="test_checks_find_faults:foreign", mode="mixed", seats=2
    )
    CHECKS["public_suites"]("foreign-v0", 1)
    with pytest.raises(ConformanceError, match="check_public_suites"):
        check_contract("foreign-v0")


def foreign() -> object:
    """A ParallelEnv of another make: one step, nothing learned."""
    from gymnasium.spaces import Discrete
    from pettingzoo import ParallelEnv

    class Foreign(ParallelEnv[str, int, int]):
        metadata = {"name": "foreign"}  # noqa: RUF012
        possible_agents = ["a", "b"]  # noqa: RUF012
        _space = Discrete(2)

        def observation_space(self, agent: str) -> Discrete:
            return self._space

        action_space = observation_space

        def reset(self, seed: object = None, options: object = None) -> tuple[object, object]:
            self.agents = list(self.possible_agents)
            return dict.fromkeys(self.agents, 0), {a: {} for a in self.agents}

        def step(self, actions: dict[str, int]) -> tuple[object, ...]:
            agents, self.agents = self.agents, []
            told = (dict.fromkeys(agents, value) for value in (0, 0.0, True, False))
            return *told, {agent: {} for agent in agents}

    return Foreign()
