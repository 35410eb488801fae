"""Games of OpenSpiel as environments, held to the same checks as ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: pip install open-spiel")

import srl_envs
from srl_envs import registry
from srl_envs.adapters import open_spiel
from srl_envs.adapters.open_spiel import OpenSpielGame, Position, register_game, scaled_returns
from srl_envs.api import making
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.testing import CHECKS
from tests.srl_envs.adapters import neighbours_guide

pytestmark = pytest.mark.slow


class SmallBreakthrough(OpenSpielGame):
    """What a user writes to give fixed parameters an id of their own."""

    spiel_name = "breakthrough(rows=5,columns=4)"


SMALL = "open_spiel/small_breakthrough-v0"
NAMES = ("tic_tac_toe", "kuhn_poker", "leduc_poker", "liars_dice", "goofspiel", "tiny_hanabi")
SIMULTANEOUS = "open_spiel/goofspiel-v0"


@pytest.fixture(scope="module", autouse=True)
def ids() -> object:
    before = dict(registry._SPECS)
    made = [register_game(name) for name in NAMES]
    srl_envs.register(
        id=SMALL,
        entry_point=f"{__name__}:SmallBreakthrough",
        mode="competitive",
        bots={"random": "srl_envs.adapters.open_spiel:random_bot"},
    )
    yield [*made, SMALL]
    registry._SPECS.clear()
    registry._SPECS.update(before)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "env_id", [*(f"open_spiel/{name}-v0" for name in NAMES if name != "tiny_hanabi"), SMALL]
)
def test_a_game_of_open_spiel_keeps_our_contract(env_id: str, check: str) -> None:
    CHECKS[check](env_id, 2)


def test_a_cooperative_game_keeps_it_too() -> None:
    for check in ("contract", "determinism", "payoffs", "state_round_trip", "hidden_information"):
        CHECKS[check]("open_spiel/tiny_hanabi-v0", 2)


def walk(name: str, seed: int) -> tuple[OpenSpielGame, Position, list[tuple[int, str]]]:
    """One random episode on the bare rules; the bodies that were played."""
    game: OpenSpielGame = getattr(open_spiel, name)()
    rng = np.random.default_rng(seed)
    state, played = game.new(Streams(seed)), list[tuple[int, str]]()
    while seats := game.to_move(state):
        bodies = {seat: game.sample(state, seat, rng) for seat in seats}
        played += bodies.items()
        state = game.apply(state, {s: game.parse(state, s, body) for s, body in bodies.items()})
    return game, state, played


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "goofspiel", "tic_tac_toe"])
def test_outcomes_are_open_spiels_returns_over_its_bound(name: str) -> None:
    bound = {"kuhn_poker": 2, "leduc_poker": 13, "goofspiel": 1, "tic_tac_toe": 1}[name]
    for seed in range(20):
        game, state, _ = walk(name, seed)
        paid = game.returns(state)
        assert paid is not None
        theirs = state.spiel.returns()
        assert sum(paid) == 0.0
        for seat, player in enumerate(state.players):
            assert paid[seat] == pytest.approx(theirs[player] / bound, abs=1e-9)
            assert game.components(state, seat) == {"utility": theirs[player]}


def test_either_seat_may_be_player_0_and_every_deal_of_kuhn_comes_up() -> None:
    game = open_spiel.kuhn_poker()
    states = [game.new(Streams(seed)) for seed in range(200)]
    assert {state.players for state in states} == {(0, 1), (1, 0)}
    deals = [state.moves for state in states]
    assert set(deals) == {(a, b) for a in range(3) for b in range(3) if a != b}
    # 6 equally likely deals in 200 draws: 33.3 each with a standard deviation of 5.3
    assert all(12 < deals.count(deal) < 55 for deal in set(deals))


def test_a_seat_sees_its_own_card_alone() -> None:
    game = open_spiel.kuhn_poker()
    seen: dict[tuple[int, Any], set[str]] = {}
    for seed in range(100):
        state = game.new(Streams(seed))
        for seat in (0, 1):
            own = state.moves[state.players[seat]]
            seen.setdefault((state.players[seat], own), set()).add(game.observe(state, seat))
    assert len(seen) == 6
    assert {len(texts) for texts in seen.values()} == {1}


def test_a_swap_changes_the_cards_that_a_player_does_not_see() -> None:
    game = open_spiel.kuhn_poker()
    state, other = (game.decode([[0, 1], 5, moves]) for moves in ([0, 1, 1], [2, 0]))
    assert game.swap_hidden(state, 0, other).moves == (0, 1, 1)  # both may not hold card 0
    assert game.swap_hidden(state, 1, other).moves == (2, 1, 1)
    for seat in (0, 1):
        assert game.observe(game.swap_hidden(state, seat, other), seat) == game.observe(state, seat)


def test_a_state_with_an_illegal_move_is_refused() -> None:
    game = open_spiel.kuhn_poker()
    for moves in ([0, 0], [7], [0, 1, 5], [0, 1, 0, 0, 0], [[0, 1]]):
        with pytest.raises(ConfigError, match="not legal"):
            game.decode([[0, 1], 5, moves])
    with pytest.raises(ConfigError, match="one seat"):
        game.decode([[0, 0], 5, [0, 1]])
    both = open_spiel.goofspiel()
    state = both.new(Streams(0))
    with pytest.raises(ConfigError, match="not legal"):
        both.decode([[0, 1], 0, [*both.encode(state)[2], 0]])


def test_an_action_is_open_spiels_name_and_nothing_else() -> None:
    game = open_spiel.tic_tac_toe()
    state = game.new(Streams(0))
    (seat,) = game.to_move(state)
    legal = game.legal(state, seat)
    assert legal is not None
    assert legal[4] == "x(1,1)"
    assert game.parse(state, seat, "x(1,1)") == 4
    for wrong in ("4", "x(1, 1)", "X(1,1)", "o(1,1)", "", "x(1,1) x(0,0)"):
        with pytest.raises(IllegalMoveError):
            game.parse(state, seat, wrong)


@given(
    st.lists(st.integers(-7, 7), min_size=1, max_size=5),
    st.sampled_from([1.0, 3.0, 7.0, 13.0]),
)
def test_competitive_outcomes_sum_to_exactly_zero(others: list[int], scale: float) -> None:
    returns = [*map(float, others), -float(sum(others))]
    bound = max(1.0, *map(abs, returns)) * scale
    paid = scaled_returns(returns, low=-bound, high=bound, total=0.0, mode="competitive")
    assert sum(paid) == 0.0
    assert all(abs(value) <= 1 for value in paid)


def test_scales_of_the_three_modes() -> None:
    # a constant sum of 1 shared by two: an equal share of 0.5 is worth 0
    assert scaled_returns([1, 0], low=0, high=1, total=1, mode="competitive") == (1.0, -1.0)
    assert scaled_returns([0.5, 0.5], low=0, high=1, total=1, mode="competitive") == (0.0, 0.0)
    assert scaled_returns([5, 5], low=0, high=10, total=None, mode="cooperative") == (0.5, 0.5)
    assert scaled_returns([-1, -1], low=-2, high=2, total=None, mode="cooperative") == (0.25, 0.25)
    assert scaled_returns([3, -1], low=-2, high=4, total=None, mode="mixed") == (0.75, -0.25)


def test_parameters_of_a_game_are_options() -> None:
    env = srl_envs.make("open_spiel/kuhn_poker-v0", players=4)
    assert making.count_seats("open_spiel/kuhn_poker-v0", players=4) == 4
    observations, _ = env.reset(seed=3)
    assert sum(seen["can_act"] for seen in observations.values()) == 1
    with pytest.raises(ConfigError, match="Did you mean 'players'"):
        srl_envs.make("open_spiel/kuhn_poker-v0", player=4)
    with pytest.raises(ConfigError, match="cannot load"):
        srl_envs.make("open_spiel/kuhn_poker-v0", players=99)


def test_seats_of_a_simultaneous_game_move_at_once() -> None:
    env = srl_envs.make(SIMULTANEOUS)
    observations, _ = env.reset(seed=1)
    assert [seen["can_act"] for seen in observations.values()] == [1, 1]
    bids = {agent: info["legal_actions"][0] for agent, info in env.reset(seed=1)[1].items()}
    before = env.get_state()["state"][2]
    env.step(bids)
    assert env.get_state()["state"][2][len(before)] == [0, 0]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("negotiation", "draws chance by itself"),
        ("mfg_garnet", "mean-field"),
        ("kuhn_pokr", "Did you mean 'kuhn_poker'"),
        ("misere", "cannot load"),
        ("crossword", "structures"),
        ("morpion_solitaire", "ends the process"),
    ],
)
def test_what_cannot_be_played_is_refused_with_its_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        register_game(name)


def test_the_example_of_the_guide_runs() -> None:
    (code,) = neighbours_guide.examples("OpenSpiel")
    names = neighbours_guide.run(code)
    episode, three = names["episode"], names["three"]
    assert episode.outcomes[0] * 13 == pytest.approx(episode.components[0]["utility"])
    assert len(three.possible_agents) == 3


def test_listing_loads_no_open_spiel() -> None:
    program = "import sys, srl_envs; srl_envs.list_envs(); sys.exit('pyspiel' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
