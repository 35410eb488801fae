"""Expedition: land and par, food, sight, passes, caches, what is paid, and how explorers fare."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest

from srl_envs.core import SPLITS, Streams, episode_entropy
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.journeys import expedition_bots as bots
from srl_envs.families.journeys.expedition import (
    FETCHED,
    HOME,
    LEVELS,
    OUT,
    Expedition,
    Trek,
)
from srl_envs.families.journeys.land import (
    FAR,
    FOOD,
    PASS,
    Land,
    cheapest,
    draw_land,
    view_key,
    way,
    within,
)
from srl_envs.families.journeys.par import par
from srl_envs.turns.grammar import parse_reply

ENV = "expedition-v0"
TIERS = ("random", "middle", "strong", "held_out")


def start(game: Expedition, seed: int = 0, split: str = "train") -> Trek:
    return game.new(Streams(*episode_entropy(ENV, 0, split, seed)))  # type: ignore[arg-type]


def say(game: Expedition, state: Trek, *bodies: str) -> Trek:
    for body in bodies:
        (seat,) = game.to_move(state)
        state = game.apply(state, {seat: game.parse(state, seat, body)})
    return state


def on(drawing: str, sites: tuple[tuple[int, int], ...], **changes: Any) -> tuple[Expedition, Trek]:
    """One explorer at the camp of 5 by 5 cells as they are drawn, in calm weather."""
    game = Expedition(players=1, level=1)
    cells = "".join(drawing.split())
    state = start(game)._replace(land=Land(cells, sites), seen=("0" * 25,))
    state = game._look(state, 0)
    return game, state._replace(**changes)


def paid(game: Expedition, state: Trek) -> float:
    outcome = game.returns(state)
    assert outcome is not None
    assert set(outcome) == {outcome[0]}
    return outcome[0]


FLAT = ".....\n.....\n..C..\n.....\n....."

# -- land and par ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_every_site_can_be_reached_on_foot_and_passes_lead_between_open_cells(level: int) -> None:
    size = LEVELS[level].size
    for seed in range(20):
        land = draw_land(Draws(seed), size)
        if land is None:
            continue
        food, _ = cheapest(land.cells, size.side, len(land.cells) // 2)
        assert len(land.sites) == size.sites
        assert all(food[cell] < FAR and value > 0 for cell, value in land.sites)
        for cell, mark in enumerate(land.cells):
            if mark == PASS:
                north, south = land.cells[cell - size.side], land.cells[cell + size.side]
                west, east = land.cells[cell - 1], land.cells[cell + 1]
                assert {north, south} <= {*FOOD} or {west, east} <= {*FOOD}


def test_the_cheapest_way_is_the_one_that_trying_all_finds() -> None:
    """Against relaxation until nothing changes, on drawn land."""
    for seed in range(5):
        land = draw_land(Draws(seed), LEVELS[2].size)
        assert land is not None
        side, camp = 9, 40
        food, before = cheapest(land.cells, side, camp)
        slow = [float(FAR)] * 81
        slow[camp] = 0.0
        for _ in range(81):
            for at in range(81):
                for other in within(side, at, 1):
                    if land.cells[at] in FOOD and other != at:
                        slow[at] = min(slow[at], slow[other] + FOOD[land.cells[at]])
        assert [f for f in food if f < FAR] == [f for f in slow if f < FAR]
        for cell, _ in land.sites:
            assert sum(FOOD[land.cells[c]] for c in way(before, cell)) == food[cell]


def by_hand(land: Land, room: int, stock: int, turns: int) -> int:
    """Par by trying every order of sites in one trip each, and every way to divide them among trips."""
    side, camp = 5, 12
    places = [camp, *(cell for cell, _ in land.sites)]
    tables = {at: cheapest(land.cells, side, at) for at in places}

    def trip(order: tuple[int, ...]) -> tuple[float, int] | None:
        food, moves = 0.0, 0
        for one, other in itertools.pairwise((camp, *order, camp)):
            food += tables[one][0][other]
            moves += len(way(tables[one][1], other))
        missing = max(0.0, food - room)
        if missing > room / 3:
            return None
        return food + 2 * missing, moves + 2 + (2 * int(missing) + 2 if missing else 0)

    best, cells = 0, [cell for cell, _ in land.sites]
    values = dict(land.sites)
    for count in range(1, len(cells) + 1):
        for order in itertools.permutations(cells, count):
            for cuts in itertools.product((False, True), repeat=count - 1):
                parts: list[tuple[int, ...]] = [(order[0],)]
                for cut, cell in zip(cuts, order[1:], strict=True):
                    parts = [*parts, (cell,)] if cut else [*parts[:-1], (*parts[-1], cell)]
                made = [trip(part) for part in parts]
                fit = [each for each in made if each is not None]
                if len(fit) == len(made):
                    food, moves = (sum(column) for column in zip(*fit, strict=True))
                    if food <= stock and moves <= turns:
                        best = max(best, sum(values[cell] for cell in order))
    return best


def test_par_is_the_best_of_all_plans() -> None:
    """Where food decides; turns only ever break ties between plans of equal food."""
    for seed in range(6):
        land = draw_land(Draws(seed), LEVELS[1].size._replace(rough=60, sites=3))
        if land is None:
            continue
        for room, stock in ((4, 30), (6, 9), (9, 12), (3, 60), (20, 5)):
            assert par(land, room, stock, 300) == by_hand(land, room, stock, 300)
    one = Land("".join(FLAT.split()), ((0, 5),))
    assert par(one, 8, 8, 10) == 5
    assert par(one, 8, 8, 9) == par(one, 8, 7, 99) == 0
    assert par(one, 6, 12, 99) == 5  # a cache of 2 takes 4 food more
    assert par(one, 6, 11, 99) == par(one, 5, 99, 99) == 0


def test_turned_and_mirrored_land_looks_the_same_and_another_site_in_sight_does_not() -> None:
    land = draw_land(Draws(3), LEVELS[2].size)
    assert land is not None
    rows = [land.cells[k : k + 9] for k in range(0, 81, 9)]
    mirrored = Land(
        "".join(row[::-1] for row in rows),
        tuple(sorted((cell // 9 * 9 + 8 - cell % 9, value) for cell, value in land.sites)),
    )
    assert view_key(mirrored, 2) == view_key(land, 2)
    assert view_key(land._replace(sites=((22, 4),)), 2) != view_key(land._replace(sites=()), 2)
    assert view_key(land._replace(sites=((0, 4),)), 2) == view_key(land._replace(sites=()), 2)


@pytest.mark.parametrize("level", LEVELS)
def test_no_first_map_of_eval_occurs_in_train_however_it_is_turned(level: int) -> None:
    game = Expedition(level=level)

    def drawn(split: str) -> set[str]:
        views = set()
        for seed in range(60):
            state = start(game, seed, split)
            rows = game._drawn(state, 0)
            for _ in range(4):
                rows = ["".join(column) for column in zip(*rows[::-1], strict=True)]
                views |= {"\n".join(rows), "\n".join(row[::-1] for row in rows)}
        return views

    found = {split: drawn(split) for split in SPLITS}
    assert min(map(len, found.values())) > 8
    assert not found["train"] & found["eval"]


# -- moves -----------------------------------------------------------------------------------------


def test_steps_take_food_by_terrain_and_storms_add_to_it() -> None:
    game, state = on(".....\n..s..\n..Cf.\n..h..\n.....", ((0, 5),), food=(24,))
    assert say(game, state, "go north").food == (21,)
    assert say(game, state, "go east").food == (22,)
    assert say(game, state, "E").food == (22,)
    assert say(game, state, "west").food == (23,)
    stormy = state._replace(weather="s" * game.turns)
    assert say(game, stormy, "go north").food == (19,)
    for closed in "~^=":
        game, state = on(FLAT.replace("..C", f".{closed}C"), ((0, 5),))
        with pytest.raises(IllegalMoveError):
            say(game, state, "go west")
    game, state = on(".....\n..s..\n..C..\n.....\n.....", ((0, 5),), food=(2,))
    with pytest.raises(IllegalMoveError, match="east, south, west"):
        say(game, state, "go north")


def test_rain_and_storm_shorten_sight_and_hills_lengthen_it() -> None:
    game, state = on(FLAT, ((0, 5),))
    assert state.seen[0].count("1") == 13
    blind = state._replace(weather="r" * game.turns, seen=("0" * 25,))
    assert game._look(blind, 0).seen[0].count("1") == 5
    game, state = on(FLAT, ((0, 5),))
    hill = state._replace(land=Land(state.land.cells[:12] + "h" + state.land.cells[13:], ((0, 5),)))
    assert game._look(hill, 0).seen[0].count("1") == 21


@pytest.mark.parametrize("luck", range(1, 7))
@pytest.mark.parametrize("stake", range(1, 6))
def test_a_stake_of_n_crosses_a_pass_n_plus_1_times_in_six(luck: int, stake: int) -> None:
    game, state = on(
        "..^..\n..^..\n.C=..\n..^..\n..^..", ((0, 5),), luck=str(luck) * 24, at=(11,), food=(9,)
    )
    after = say(game, state, f"cross east {stake}")
    assert after.food == (9 - stake,)
    assert after.at == ((13,) if luck <= stake + 1 else (11,))
    with pytest.raises(IllegalMoveError):
        say(game, state, "cross north 2")


def test_caches_and_the_stock_give_back_what_was_dropped() -> None:
    game, state = on(FLAT, ((0, 5),), food=(10,), stock=7)
    state = say(game, state, "take 7")
    assert (state.food, state.stock) == ((17,), 0)
    state = say(game, state, "drop 5", "go north", "drop 6")
    assert (state.food, state.stock, state.caches) == ((4,), 5, ((7, 6),))
    assert "Caches, food and place: 6 at row 2, column 3." in game.observe(state, 0)
    state = say(game, state, "take 6")
    assert (state.food, state.caches) == ((9,), ())
    with pytest.raises(IllegalMoveError, match="cannot take"):
        say(game, state, "take 1")
    hungry = say(game, state, "drop 3")._replace(food=(0,))
    assert say(game, hungry, "take 2").food == (1,)  # eats one of the two


def test_sites_are_found_by_entering_and_paid_in_full_once_reported() -> None:
    game, state = on(FLAT, ((2, 6), (22, 6)))
    share = 6 / 12
    assert game._par(state.land) == 12
    found = say(game, state, "go north", "go north")
    assert (found.found, found.carried, found.reported) == ((0,), ((0,),), ())
    assert game._share(found) == pytest.approx(0.25 * share)
    home = say(game, found, "go south", "go south")
    assert (home.reported, home.carried) == ((0,), ((),))
    drawn = "".join(game._drawn(home, 0))
    assert (drawn[2], drawn[22]) == (".", "!")
    ended = say(game, home, "end")
    saved = (state.stock + 24 - 4) / 48
    assert paid(game, ended) == pytest.approx(share * (0.9 + 0.1 * saved))
    assert say(game, home, "go north", "go north").carried == ((),)  # not twice


def test_who_rests_without_food_is_fetched_and_the_find_is_open_again() -> None:
    game = Expedition(players=2, level=1)
    state = start(game)._replace(land=Land("".join(FLAT.split()), ((2, 6), (22, 6))), next=0)
    state = say(game, state, "go north", "rest", "go north", "rest")._replace(food=(0, 9))
    state = say(game, state, "rest")
    assert state.status == (FETCHED, OUT)
    assert (state.found, state.carried, state.at) == ((0,), ((), ()), (12, 12))
    assert game.to_move(state) == (1,)
    again = say(game, state, "go north", "go north", "go south", "go south")
    assert again.reported == (0,)
    over = say(game, again, "end")
    assert over.status == (FETCHED, HOME)
    assert game.to_move(over) == ()


def test_doing_nothing_pays_nothing() -> None:
    game, state = on(FLAT, ((2, 6),))
    assert paid(game, say(game, state, "end")) == 0.0
    assert paid(game, say(game, state, *["rest"] * game.turns)) == 0.0


def test_shaped_rewards_pay_finds_and_reports_when_they_are_made() -> None:
    game = Expedition(players=1, level=1, reward="shaped")
    _, state = on(FLAT, ((2, 6),))
    at = [state]
    for body in ("go north", "go north", "go south", "go south", "end"):
        at.append(say(game, at[-1], body))
    earned = [(game.earned(each) or (0.0,))[0] for each in at]
    assert earned == pytest.approx([0, 0, 0.225, 0.225, 0.9, 0.9])
    assert 0.9 < paid(game, at[-1]) <= 1.0
    assert Expedition().earned(state) is None


# -- what is seen ----------------------------------------------------------------------------------


def test_explorers_in_one_place_join_maps_and_apart_keep_their_own() -> None:
    game = Expedition(level=3)
    state = start(game)._replace(weather="c" * game.turns, next=0)
    state = say(game, state, "go north", "say: <b>east</b> is\tfree\ngo south", "go north")
    assert state.seen[0] != state.seen[1]
    assert 'player_1: at row 7, column 6, sends "beast/b is free".' in game.observe(state, 0)
    state = state._replace(at=(state.at[1], state.at[1]))
    joined = say(game, state, "rest")
    assert joined.seen[0] == joined.seen[1]
    both = {c for seen in state.seen for c in range(121) if seen[c] == "1"}
    assert both <= {c for c in range(121) if joined.seen[0][c] == "1"}


def test_a_view_shows_less_than_a_kept_map() -> None:
    kept, view = Expedition(players=1, level=2), Expedition(players=1, level=2, map="view")
    state = say(kept, start(kept), "go north", "go south", "go south")
    drawn = ["".join(game._drawn(state, 0)) for game in (kept, view)]
    assert drawn[0].count("?") < drawn[1].count("?")
    assert all(b in (a, "?") for a, b in zip(*drawn, strict=True))


def test_what_was_not_seen_shows_in_no_text_and_no_refusal() -> None:
    game = Expedition()
    state = say(game, start(game, 3), "go north", "go north", "go east", "go west")
    other = start(game, 4)
    for seat in range(2):
        swapped = game.swap_hidden(state, seat, other)
        assert swapped.land.cells != state.land.cells
        assert game.observe(swapped, seat) == game.observe(state, seat)
        assert game.legal(swapped, seat) == game.legal(state, seat)


def test_fresh_chances_leave_what_was_shown() -> None:
    game = Expedition()
    state = say(game, start(game), "go north", "go north")
    fresh = game.reshuffled(state, Draws(5))
    assert fresh.weather[6:] != state.weather[6:]
    assert fresh.weather[:6] == state.weather[:6]
    assert {len(fresh.weather), len(fresh.forecast), len(fresh.luck)} == {game.turns}
    assert fresh.luck[2:] != state.luck[2:]
    assert fresh.luck[:2] == state.luck[:2]
    assert [game.observe(fresh, seat) for seat in range(2)] == [
        game.observe(state, seat) for seat in range(2)
    ]


@pytest.mark.parametrize("players", [1, 2, 4])
@pytest.mark.parametrize("level", LEVELS)
def test_the_example_and_the_listed_moves_are_legal(players: int, level: int) -> None:
    game = Expedition(players=players, level=level)
    state, rng = start(game, 2), np.random.default_rng(0)
    (seat,) = game.to_move(state)
    examples = re.findall(r"<action>(.*?)</action>", game.observe(state, seat))
    assert examples == ["go north"]
    game.parse(state, seat, examples[0])
    for _ in range(30):
        (seat,) = game.to_move(state)
        listed = game.legal(state, seat)
        assert "rest" in listed
        assert len(listed) <= 200
        assert [game.parse(state, seat, body).body for body in listed] == listed
        state = say(game, state, game.sample(state, seat, rng))
        assert len(game.observe(state, seat)) <= game.max_observation_chars
        if not game.to_move(state):
            break


@pytest.mark.parametrize(
    "body",
    ["", "go", "go up", "go north 2", "cross north", "take", "take -1", "take 999", "drop 0", "north south",
     "rest now", "say: hi", "say: a\nsay: b\nrest", "go \u202enorth", "end\nend", "take 1e3", "9" * 900],
)  # fmt: skip
def test_what_is_no_move_is_refused(body: str) -> None:
    game = Expedition()
    with pytest.raises(IllegalMoveError):
        say(game, start(game), body)


def test_states_survive_json() -> None:
    game = Expedition()
    state = say(game, start(game), "say: hi\ngo north", "go south", "drop 3")
    assert game.decode(json.loads(json.dumps(game.encode(state)))) == state


@pytest.mark.parametrize(
    "options",
    [{"players": 0}, {"players": 5}, {"level": 6}, {"turns": 9}, {"map": "none"}, {"reward": "dense"},
     {"turns": True}],
)  # fmt: skip
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expedition"):
        Expedition(**options)


# -- bots ------------------------------------------------------------------------------------------


def played(game: Expedition, tier: str, seed: int) -> Trek:
    seats = [
        getattr(bots, f"{tier}_bot")(np.random.default_rng(10 * seed + seat))
        for seat in range(game.seats)
    ]
    state = start(game, seed)
    while game.to_move(state):
        (seat,) = game.to_move(state)
        body = parse_reply(seats[seat](game.observe(state, seat)), game.max_action_chars)[0]
        state = say(game, state, str(body))  # every reply of a bot is legal
    return state


@pytest.mark.parametrize("players", [1, 2])
def test_bots_stand_in_their_order_and_make_only_legal_moves(players: int) -> None:
    game = Expedition(players=players, level=2)
    mean = {
        tier: np.mean([paid(game, played(game, tier, seed)) for seed in range(16)])
        for tier in TIERS
    }
    assert mean["random"] < 0.15 < mean["middle"] < mean["held_out"] + 0.05 < mean["strong"] + 0.1
    assert mean["strong"] > mean["middle"] + 0.1


def test_a_long_expedition_lasts_150_turns_at_most() -> None:
    game = Expedition()
    state = played(game, "strong", 1)
    assert game.max_turns == 150 >= state.turn > 75
    assert state.found
