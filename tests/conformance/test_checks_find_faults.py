"""The checks themselves: sound games pass, and the right check finds each fault."""

import inspect
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_envs import registry
from srl_envs.api.making import make
from srl_envs.core import Game, Streams
from srl_envs.errors import UnknownEnvironmentError
from srl_envs.testing import (
    CHECKS,
    ConformanceError,
    check,
    check_contract,
    check_exploits,
    check_golden,
)
from srl_envs.views.aec import GameAEC
from tests.conformance import broken_games
from tests.conformance.sound_games import Coins, Hands, Pennies, Recall, RecallOfFive, RecallOfTwo

SOUND = (Pennies, Recall, RecallOfTwo, RecallOfFive)
FAULTS = [
    fault
    for _, fault in inspect.getmembers(broken_games, inspect.isclass)
    if issubclass(fault, (Pennies, Recall)) and fault not in SOUND
]
EPISODES = 4


def claimed_by(fault: type[Game]) -> str:
    """The check whose rule a fault breaks: the first word of its docstring."""
    return (fault.__doc__ or "").partition(":")[0]


def found_by(fault: type[Game]) -> set[str]:
    """All checks that must find it: the one that claims it, and those named after that."""
    also = inspect.cleandoc(fault.__doc__ or "").partition("Also found by: ")[2]
    return {claimed_by(fault), *also.rstrip(".").replace("\n", " ").split(", ")} - {""}


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))


def register(game: type[Game], **bots: str) -> str:
    usual = {"random": "coin_bot", "middle": "coin_bot"}
    if issubclass(game, Recall):
        usual = {"random": "number_bot", "middle": "number_bot", "strong": "card_bot"}
    chosen = bots or getattr(game, "bots", usual)
    registry.register(
        id="pennies-v0",
        entry_point=f"{game.__module__}:{game.__name__}",
        mode=game.mode,
        seats=game.seats,
        bots={name: f"tests.conformance.sound_games:{bot}" for name, bot in chosen.items()},
        numeric=getattr(game, "numeric", ""),
    )
    return "pennies-v0"


@pytest.mark.slow
@pytest.mark.parametrize("game", SOUND, ids=lambda game: game.__name__)
def test_a_sound_game_passes_every_check(game: type[Game]) -> None:
    check(register(game), episodes=3)


def test_every_check_has_a_fault_that_it_must_find() -> None:
    """A new check comes with a broken game whose docstring starts with its name."""
    assert {claimed_by(fault) for fault in FAULTS} == set(CHECKS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found(fault: type[Game]) -> None:
    name = claimed_by(fault)
    env_id = register(fault)
    with pytest.raises(ConformanceError, match=f"(?s){env_id}.*What to do: ") as caught:
        CHECKS[name](env_id, EPISODES)
    assert CHECKS[name].advice in str(caught.value)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_by_the_checks_that_it_names_and_no_other(fault: type[Game]) -> None:
    env_id = register(fault)
    finding = set()
    for name, held_to in CHECKS.items():
        try:
            held_to(env_id, EPISODES)
        except ConformanceError:
            finding.add(name)
    assert finding == found_by(fault)


def test_check_stops_at_a_recording_that_does_not_replay(tmp_path: Path) -> None:
    env_id = register(Pennies)
    with pytest.raises(ConformanceError, match="no recording"):
        check_golden(env_id, tmp_path)
    env = make(env_id)
    bots = {seat: srl_envs.make_bot(env_id, "random", seat) for seat in (0, 1)}
    srl_envs.play(env, bots, seed=3).save(tmp_path / f"{env_id}.3.jsonl")
    check_golden(env_id, tmp_path)
    monkey = broken_games.TooMuch
    registry._SPECS.pop(env_id)
    register(monkey)
    with pytest.raises(ConformanceError, match=r"3\.jsonl does not replay.*next version"):
        check_golden(env_id, tmp_path)


def test_exploits_are_tried_in_every_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that can be talked round only in the last seat is found."""

    def parse(self: RecallOfFive, state: Hands, seat: int, body: str) -> int:
        if seat == 4 and str(state.cards[seat]) in body:
            return state.cards[seat]
        return Recall.parse(self, state, seat, body)

    monkeypatch.setattr(RecallOfFive, "parse", parse)
    monkeypatch.setattr(RecallOfFive, "max_action_chars", 4000)
    with pytest.raises(ConformanceError, match="exploit"):
        check_exploits(register(RecallOfFive), episodes=20)


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


@pytest.mark.parametrize("bot", ["rude_bot", "moody_bot", "absent_bot"])
def test_a_bad_bot_is_found(bot: str) -> None:
    with pytest.raises(ConformanceError, match="bot 'other'"):
        CHECKS["bots"](register(Pennies, random="coin_bot", other=bot), 3)


def test_a_view_that_tells_replies_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(self: GameAEC, agent: str) -> dict[str, object]:
        seen = self.env.observation(agent)
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
            wrong_values = (dict.fromkeys(agents, value) for value in (0, 0.0, True, False))
            return *wrong_values, {agent: {} for agent in agents}

    return Foreign()


@pytest.mark.parametrize("wrong", [{"seats": 3}, {"mode": "mixed"}])
def test_a_registration_that_differs_from_the_class_is_found(wrong: dict[str, Any]) -> None:
    found = asdict(registry.spec(register(Pennies)))
    registry.register(**{**found, "id": "other_pennies-v0", **wrong})
    with pytest.raises(ConformanceError, match=rf"registered with {next(iter(wrong))}="):
        CHECKS["contract"]("other_pennies-v0", 1)


def test_an_unknown_id_is_no_fault_of_a_game() -> None:
    with pytest.raises(UnknownEnvironmentError, match="Did you mean 'connect_four-v0'"):
        check("connect_for-v0")


def test_a_misspelt_entry_point_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    registry.register(
        id="typo-v0", entry_point="broken_games:Pennie", mode="competitive", seats=2, summary="x"
    )
    with pytest.raises(AttributeError, match=r"broken_games has no 'Pennie'.*Pennies"):
        check("typo-v0")
