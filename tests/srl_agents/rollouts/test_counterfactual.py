"""Recorded matches played again: the same without idle seats, the game's defaults for idle ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from srl_agents.agents import Policy, ScriptedPolicy
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.counterfactual import Replays, _Seat
from srl_envs import make, make_bot
from srl_envs.turns.grammar import action

GAMES: dict[str, dict[str, Any]] = {
    "connect_four-v0": {"rows": 4, "cols": 4, "k": 3},
    "public_goods-v0": {"rounds": 3, "cuts_from": 2},
    "iterated_dilemma-v0": {"rounds": 3},
    "hanabi_mini-v0": {"colours": 2},
    "liars_dice-v0": {"dice": 1},
    "kuhn_poker-v0": {"hands": 2},
    "negotiation-v0": {},
}


class Careless(ScriptedPolicy):
    """The random bot, every third reply of which is not one."""

    def player(self, env_id: str, seed: int) -> Callable[[str], str]:
        bot, rng = make_bot(env_id, "random", seed=seed), np.random.default_rng(seed)
        return lambda text: bot(text) if rng.random() < 0.67 else "well"


class Generous(ScriptedPolicy):
    """Gives all its tokens, which is what public goods takes for a reply that it cannot read."""

    def player(self, env_id: str, seed: int) -> Callable[[str], str]:
        return lambda text: action(text.rpartition("to ")[2].split()[0])


def played(env_id: str, seed: int, options: dict[str, Any], *seats: str) -> Episode:
    env = make(env_id, **options)
    policies: dict[str, Policy] = {"careless": Careless("random"), "generous": Generous("random")}
    names = seats or ("careless",) * len(env.possible_agents)
    spec = MatchSpec(env_id=env_id, options=options, seed=seed, split="train", seats=names)
    with Rollouts(policies, root_seed=0) as rollouts:
        return rollouts.play([spec])[0]


@pytest.mark.parametrize("env_id", GAMES)
@pytest.mark.parametrize("invalid", ["retry", "random_legal", "forfeit"])
def test_with_nobody_idle_a_replay_pays_what_was_paid(env_id: str, invalid: str) -> None:
    replays = Replays()
    for seed in range(6):
        episode = played(env_id, seed, {**GAMES[env_id], "invalid": invalid})
        expected = tuple(t.outcome for t in episode.trajectories)
        assert replays.outcomes(episode, frozenset()) == expected
    replays.close()


@pytest.mark.parametrize("env_id", GAMES)
def test_a_replay_ends_whoever_is_idle_and_no_idle_seat_forfeits(env_id: str) -> None:
    replays = Replays()
    for seed in range(3):
        episode = played(env_id, seed, {**GAMES[env_id], "forfeit_after": 99})
        seats = range(len(episode.trajectories))
        for size in (1, len(seats)):
            for idle in combinations(seats, size):
                outcomes = replays.outcomes(episode, frozenset(idle))
                assert all(-1 <= outcome <= 1 for outcome in outcomes)
                assert not replays._env(episode.spec).forfeited


def test_a_reply_that_is_refused_now_is_replaced_and_the_next_one_waits_its_turn() -> None:
    options = GAMES["connect_four-v0"]
    trajectory = played("connect_four-v0", 1, options).trajectories[0]
    turns = tuple(replace(trajectory.turns[0], reply=text, invalid=None) for text in ("a", "b"))
    env = make("connect_four-v0", **options)
    env.reset(seed=1)
    seat = _Seat(env, 0, replace(trajectory, turns=turns), idle=False)
    default = action(env.game.fallback(env.game.decode(env.get_state()["state"]), 0))
    refused = "illegal"  # by the replay, though the recorded game took it
    assert [seat.reply(r) for r in (None, refused, None, None)] == ["a", default, "b", default]
    broken = replace(turns[0], invalid=refused)  # refused in the recorded game too
    seat = _Seat(env, 0, replace(trajectory, turns=(broken, turns[1])), idle=False)
    assert [seat.reply(r) for r in (None, refused)] == ["a", "b"]


def test_an_idle_seat_makes_the_default_move_and_the_others_theirs() -> None:
    options = {"rounds": 1, "cuts_from": 0}
    replays = Replays()
    for seed in range(5):
        episode = played("public_goods-v0", seed, options)
        for seat in range(4):
            names = ["careless"] * 4
            names[seat] = "generous"
            expected = played("public_goods-v0", seed, options, *names)
            assert replays.outcomes(episode, frozenset([seat])) == pytest.approx(
                [t.outcome for t in expected.trajectories]
            )
