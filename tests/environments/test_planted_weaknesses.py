"""Planted games play as their hosts do but for the weakness, and only that is credited to the red team."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from benchmarks.environments import planted_weaknesses, weak_games
from benchmarks.environments.planted_weaknesses import is_due_to, tried
from benchmarks.environments.weak_games import KINDS, Planted, plant
from srl_envs import gymnasium_ids, registry
from srl_envs.core import Game, Streams
from srl_envs.redteam.attack import attack
from srl_envs.redteam.budget import Budget


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    monkeypatch.setattr(gymnasium_ids, "add", lambda _: None)
    names = set(vars(weak_games))
    yield
    for name in set(vars(weak_games)) - names:
        delattr(weak_games, name)


def planted(kind: str, draw: int = 0) -> Planted:
    return plant(kind, np.random.default_rng([0, draw, [*KINDS].index(kind)]))


def finished(game: Game[Any, Any], choose: Callable[[Any, int], str]) -> Any:
    """The last state of a game in which ``choose`` gives the body of a seat."""
    state = game.new(Streams(1, 2, 0, 3))
    while seats := game.to_move(state):
        state = game.apply(state, {s: game.parse(state, s, choose(state, s)) for s in seats})
    return state


def sampled(game: Game[Any, Any], rng: np.random.Generator, state: Any, seat: int) -> str:
    return game.sample(state, seat, rng)


@pytest.mark.parametrize("host", sorted({host for kind in KINDS.values() for host in kind.hosts}))
def test_a_sound_host_plays_as_the_game_does(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "one split", KINDS["one split"]._replace(hosts=(host,)))
    found = planted("one split")
    ends = []
    for env_id in (host, found.sound):
        game, rng = srl_envs.make(env_id).game, np.random.default_rng(5)
        end = finished(game, partial(sampled, game, rng))
        assert game.decode(json.loads(json.dumps(game.encode(end)))) == end
        ends.append((game.returns(end), [game.observe(end, seat) for seat in range(game.seats)]))
    assert ends[0] == ends[1]


def test_a_paid_move_pays_the_one_who_plays_it_and_keeps_the_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = "a word that nothing shows"
    monkeypatch.setitem(KINDS, kind, KINDS[kind]._replace(hosts=("nim-v0",)))
    game = srl_envs.make(planted(kind).weak).game
    end = finished(game, lambda state, seat: game.fallback(state, 1) if seat else weak_games.WORD)
    assert isinstance(game, weak_games.Host)
    due = game.game.returns(end.inner)
    assert due is not None
    assert game.returns(end) == pytest.approx((0.7 * due[0] + 0.3, 0.7 * due[1] - 0.3))


def test_a_phase_begins_at_its_round() -> None:
    bot = weak_games.Phased(lambda _: "<action>1</action>", 3, "7")
    assert bot("Round 2 of 5: choose.") == "<action>1</action>"
    assert bot("Round 1: it was 4.\nRound 3 of 5: choose.") == "<action>7</action>"


def test_a_weakness_is_found_and_nothing_else_is_credited() -> None:
    found = planted("raw messages")
    row = tried(found, 0, Budget(steps=400))
    assert row["found"]
    assert row["by"] == "message_forges_text"
    report = attack(found.weak, budget=Budget(steps=400))
    finding = next(one for one in report.findings if one.kind == row["by"])
    assert is_due_to(finding, found)
    assert not is_due_to(finding, replace(found, sound=found.weak))


def test_what_was_missed_is_attacked_again_and_the_rest_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planted_weaknesses, "RESULTS", tmp_path / "rows.json")
    monkeypatch.setattr("sys.argv", ["planted", "--publish", "--seconds", "1"])
    found = {"one split", "raw messages"}
    attacked: list[str] = []

    def tried(planted: Planted, seed: int, budget: Budget) -> dict[str, object]:
        attacked.append(planted.kind)
        return {"kind": planted.kind, "found": planted.kind in found, "cpu_s": budget.seconds}

    monkeypatch.setattr(planted_weaknesses, "tried", tried)
    planted_weaknesses.main()
    assert attacked == [*KINDS]
    attacked.clear()
    found.add("a focal move")
    monkeypatch.setattr("sys.argv", ["planted", "--publish", "--again", "--seconds", "9"])
    planted_weaknesses.main()
    assert attacked == [kind for kind in KINDS if kind not in {"one split", "raw messages"}]
    data = json.loads((tmp_path / "rows.json").read_text())
    assert (data["found"], data["planted"]) == (3, len(KINDS))
    assert {row["kind"]: row["seconds"] for row in data["rows"]}["one split"] == 1
    assert data["low"] < 3 / len(KINDS) < data["high"]
