"""Hostile episodes end without a fault in sound games, and a leak or an exception is a fault."""

import pytest

from benchmarks.environments.hostile_episodes import measure
from srl_envs.families.board.nim import Heaps, Nim
from srl_envs.parallel import GameEnv


@pytest.mark.parametrize("env_id", ["nim-v0", "iterated_dilemma-v0", "werewolf-v0", "chess-v0"])
def test_sound_games_have_no_fault(env_id: str) -> None:
    row = measure(env_id, 6, 60.0)
    assert row["faults"] == []
    assert row["episodes"] == 6
    assert 0 < row["refused"] < row["replies"]


def test_a_leak_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a seat wrote outside of its move stands in the other's prompt."""
    heard: list[str] = []
    step, observe = GameEnv.step, Nim.observe

    def listening(self: GameEnv, actions: dict[str, str]) -> object:
        heard[:] = actions.values()
        return step(self, actions)

    monkeypatch.setattr(GameEnv, "step", listening)
    monkeypatch.setattr(Nim, "observe", lambda *a: f"{observe(*a)}{''.join(heard)}")
    row = measure("nim-v0", 2, 60.0)
    assert len(row["faults"]) == 2
    assert "outside of the move" in row["faults"][0]


def test_an_exception_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Nim, state: Heaps, actions: object) -> Heaps:
        raise ZeroDivisionError("heaps")

    monkeypatch.setattr(Nim, "apply", broken)
    assert "ZeroDivisionError: heaps" in measure("nim-v0", 1, 60.0)["faults"][0]
