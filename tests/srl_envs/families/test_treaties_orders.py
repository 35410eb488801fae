"""Adjudication of treaties: cases by hand, and a second implementation that tries every combination."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.draws import Draws
from srl_envs.errors import IllegalMoveError
from srl_envs.families.tables.treaties_map import Land, draw_sector, land_of
from srl_envs.families.tables.treaties_orders import (
    NO_SEAT,
    Order,
    Outcome,
    Table,
    carried_out,
    positions,
    standing,
)

RED, BLUE, GREEN = 0, 1, 2
Orders = dict[int, Order]


def full_map(size: int) -> Land:
    """A map on which every province borders on every other one; names are a, b, c, ..."""
    everywhere = frozenset(range(size))
    borders = tuple(everywhere - {at} for at in range(size))
    steps = tuple(tuple(int(a != b) for b in range(size)) for a in range(size))
    return Land(tuple("abcdefgh"[:size]), borders, (), (), steps)


def after(**orders: str) -> tuple[str, Outcome]:
    """Positions and outcome; ``a_red="move b"`` is the order of the red unit in province a.

    Positions are one letter a province, ``.`` without a unit.
    """
    sides = {"red": RED, "blue": BLUE, "green": GREEN}
    units = [NO_SEAT] * 8
    for key in orders:
        units["abcdefgh".index(key[0])] = sides[key[2:]]
    table = Table(full_map(8), units, True)
    given_: Orders = {}
    for key, order in orders.items():
        read = table.read(f"{key[0]} {order}", sides[key[2:]])
        given_ |= {o.at: o for o in read}
    outcome = carried_out(units, given_)
    return "".join("rbg."[seat] for seat in positions(units, given_, outcome)), outcome


# -- cases by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orders", "there"),
    [
        ({"a_red": "move b"}, ".r......"),
        ({"a_red": "move c", "b_blue": "move c"}, "rb......"),  # equal force
        ({"a_red": "move b", "b_blue": "hold"}, "rb......"),
        ({"a_red": "move b", "b_blue": "move c"}, ".rb....."),  # into a place that is left
        ({"a_red": "move b", "b_blue": "move a"}, "rb......"),  # no exchange
        ({"a_red": "move b", "b_red": "move a", "c_red": "support a move b"}, "rrr....."),  # nor by friends
        ({"a_red": "move b", "b_blue": "move c", "c_green": "move a"}, "grb....."),  # a ring
        ({"a_red": "move b", "b_blue": "move c", "c_green": "move a", "d_red": "move a"}, "rbgr...."),
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "hold"}, ".rr....."),
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "hold", "d_blue": "support b"},
         "rbrb...."),  # defended as strongly
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "hold", "d_blue": "support b",
          "e_green": "move d"}, ".rrbg..."),  # the defence is cut
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "move c"}, ".rr....."),
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "hold", "d_blue": "move c"},
         "rbrb...."),  # attack is cut
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "hold", "d_red": "move c"},
         ".rrr...."),  # own attack cuts nothing
        ({"a_red": "move b", "b_red": "hold", "c_blue": "support a move b"}, "rrb....."),  # own unit
        ({"a_red": "move b", "b_blue": "hold", "c_blue": "support a move b"}, "rbb....."),  # own unit
        ({"a_red": "move b", "b_blue": "support c", "c_blue": "hold", "d_red": "support a move b"},
         ".rbr...."),
        ({"a_red": "move c", "b_red": "support a move c", "c_blue": "move b", "d_blue": "support c move b",
          "e_blue": "support c move b"}, ".brbb..."),  # the helper is driven out, and leaves a gap
        ({"a_red": "move d", "b_red": "support a move d", "c_blue": "move d", "e_blue": "support c move d",
          "d_green": "hold"}, "rrbgb..."),  # two attacks of one strength
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "move a", "d_blue": "move b"},
         ".rrb...."),  # who loses head to head keeps no unit out
        ({"a_red": "move b", "c_red": "support a move b", "b_blue": "move a", "e_green": "move a"},
         "grr....."),  # nor from the place that it comes for
        ({"a_red": "support b move c", "b_blue": "hold", "c_green": "hold"}, "rbg....."),
        ({"a_red": "move b", "b_blue": "move c", "c_green": "hold"}, "rbg....."),  # the queue stands
        ({"a_red": "move b", "d_red": "support a move b", "b_blue": "move c", "c_green": "hold"},
         ".rgr...."),
    ],
)  # fmt: skip
def test_orders_are_carried_out_as_the_rules_say(orders: dict[str, str], there: str) -> None:
    assert after(**orders)[0] == there


def test_a_support_is_not_cut_from_where_it_goes_unless_it_is_driven_out() -> None:
    attack = {"a_red": "move b", "c_red": "support a move b"}
    assert 2 in after(**attack, b_blue="move c")[1].given
    beaten = after(**attack, b_blue="move c", d_blue="support b move c")
    assert 2 not in beaten[1].given
    assert beaten[0] == ".rbb...."  # into the place that is left


def test_a_support_for_what_was_not_ordered_is_worth_nothing() -> None:
    lost = after(a_red="move b", c_red="support a move d", b_blue="hold")
    assert lost[0] == "rbr....."
    assert not lost[1].given


# -- a second implementation -----------------------------------------------------------------


def every_consistent(units: list[int], orders: Orders) -> list[Outcome]:
    """All ways to call moves made and supports given that agree with the rules, by trying each."""
    moves = {at: o.target for at, o in orders.items() if o.moves}
    helps = {
        at: o
        for at, o in orders.items()
        if o.supports and moves.get(o.source, o.source) == o.target
    }
    found = []
    for verdicts in product((False, True), repeat=len(moves) + len(helps)):
        made = {at for at, yes in zip(moves, verdicts, strict=False) if yes}
        given_ = {at for at, yes in zip(helps, verdicts[len(moves) :], strict=True) if yes}
        entered = {moves[at] for at in made}
        out = {
            at for at, side in enumerate(units) if side >= 0 and at in entered and at not in made
        }

        def force(at: int, given_: set[int] = given_, but: int | None = None) -> int:
            return 1 + sum(helps[h].source == at and units[h] != but for h in given_)

        def whole(made: set[int] = made, given_: set[int] = given_, out: set[int] = out) -> bool:
            for at, order in helps.items():
                cut = any(
                    to == at and units[a] != units[at] and a != order.target
                    for a, to in moves.items()
                )
                if (at in given_) == (cut or at in out):
                    return False
            for at, to in moves.items():
                head_on = moves.get(to) == at
                empty = units[to] < 0 or (to in made and not head_on)
                attack = force(at, given_) if empty else force(at, given_, units[to])
                if not empty and units[to] == units[at]:
                    attack = 0
                against = [0]
                if head_on or (units[to] >= 0 and to not in moves):
                    against.append(force(to, given_))
                elif not empty:
                    against.append(1)
                for other, goal in moves.items():
                    beaten = moves.get(goal) == other and goal in made
                    if other != at and goal == to and not beaten:
                        against.append(force(other, given_))
                if (attack > max(against)) != (at in made):
                    return False
            return True

        if whole():
            found.append(Outcome(frozenset(made), frozenset(given_), frozenset(out)))
    return found


@st.composite
def conflicts(draw: st.DrawFn) -> tuple[list[int], Orders]:
    """Up to seven units of three sides on a full map; supports mostly fit what is ordered."""
    size = draw(st.integers(3, 7))
    units = [draw(st.sampled_from((NO_SEAT, RED, BLUE, GREEN))) for _ in range(size)]
    orders: Orders = {}
    occupied = [at for at, side in enumerate(units) if side >= 0]
    for at in occupied:
        to = draw(st.integers(0, size - 1))
        if draw(st.integers(0, 2)):
            orders[at] = Order(at, at, to)
    for at in occupied:
        source = draw(st.sampled_from(occupied))
        if source != at and not orders.get(at, Order(at, at, at)).moves:
            helped = orders.get(source, Order(source, source, source))
            to = helped.target if helped.at == helped.source else source
            if to != at and draw(st.integers(0, 3)):
                orders[at] = Order(at, source, to)
    return units, orders


@settings(max_examples=400, deadline=None)
@given(conflicts(), st.randoms(use_true_random=False))
def test_both_implementations_agree_whatever_the_order_of_orders(
    conflict: tuple[list[int], Orders], rng: object
) -> None:
    units, orders = conflict
    outcome = carried_out(units, orders)
    consistent = every_consistent(units, orders)
    assert outcome == max(consistent, key=lambda found: len(found.made))  # rings move
    shuffled = list(orders.items())
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert carried_out(units, dict(shuffled)) == outcome


@settings(max_examples=300, deadline=None)
@given(conflicts())
def test_no_unit_is_lost_or_doubled(conflict: tuple[list[int], Orders]) -> None:
    units, orders = conflict
    outcome = carried_out(units, orders)
    there = positions(units, orders, outcome)
    for side in (RED, BLUE, GREEN):
        lost = sum(units[at] == side for at in outcome.driven_out)
        assert there.count(side) == units.count(side) - lost
    targets = [orders[at].target for at in outcome.made]
    assert len(set(targets)) == len(targets)
    for at in outcome.made:
        assert there[orders[at].target] == units[at]
    for at in outcome.driven_out:  # never by its own side
        (winner,) = (a for a in outcome.made if orders[a].target == at)
        assert units[winner] != units[at]


@settings(max_examples=200, deadline=None)
@given(conflicts(), st.permutations((RED, BLUE, GREEN)))
def test_sides_are_treated_alike(
    conflict: tuple[list[int], Orders], names: tuple[int, ...]
) -> None:
    units, orders = conflict
    renamed = [names[side] if side >= 0 else side for side in units]
    assert carried_out(renamed, orders) == carried_out(units, orders)


# -- words --------------------------------------------------------------------------------------

LAND = land_of(draw_sector(Draws(5), 3, 3, 1))
UNITS = [NO_SEAT] * len(LAND.names)
HOME = LAND.homes[0][0]
UNITS[HOME] = RED
NEAR = min(LAND.borders[HOME])
UNITS[NEAR] = BLUE
TABLE = Table(LAND, UNITS, True)
A, B = LAND.names[HOME], LAND.names[NEAR]
FAR = next(at for at in range(len(UNITS)) if at != HOME and at not in LAND.borders[HOME])


def test_what_is_possible_is_read_back_and_nothing_twice() -> None:
    for at, seat in ((HOME, RED), (NEAR, BLUE)):
        orders = TABLE.possible(at)
        assert len(set(orders)) == len(orders)
        assert [TABLE.read(TABLE.written(order), seat) for order in orders] == [
            (o,) for o in orders
        ]
    assert not any(order.supports for order in Table(LAND, UNITS, False).possible(HOME))


@pytest.mark.parametrize(
    "text",
    [f"{A} move {B}", f"{A.lower()}  MOVES TO {B}", f"{A} - {B}", f"{A}-{B}", f"{A} -> {B};"],
)
def test_a_move_may_be_written_in_several_ways(text: str) -> None:
    assert TABLE.read(text, RED) == (Order(HOME, HOME, NEAR),)


def test_a_support_may_name_a_unit_that_stays_or_its_move() -> None:
    assert TABLE.read(f"{A} support {B}", RED) == (Order(HOME, NEAR, NEAR),)
    assert TABLE.read(f"{A} supports {B} holds", RED) == (Order(HOME, NEAR, NEAR),)


@pytest.mark.parametrize(
    "text",
    [
        "", ";", "hold", "none", f"{B} hold", "Z9 hold", f"{A} hold; {A} hold", f"{A} move {A}",
        f"{A} move {LAND.names[FAR]}", f"{A} support {LAND.names[FAR]}", f"{A} support {A}",
        f"{A} support {B} move {A}", f"{A} convoys {B}", f"{A} hold {B}", f"{A} move {B} move {A}",
    ],
)  # fmt: skip
def test_what_no_unit_can_do_is_refused(text: str) -> None:
    with pytest.raises(IllegalMoveError):
        TABLE.read(text, RED)


def test_without_supports_none_is_read() -> None:
    with pytest.raises(IllegalMoveError, match="hold or move"):
        Table(LAND, UNITS, False).read(f"{A} support {B}", RED)


def test_a_seat_without_units_sends_none() -> None:
    assert TABLE.read("None", GREEN) == ()
    assert standing(UNITS, GREEN) == []
    with pytest.raises(IllegalMoveError, match="none"):
        TABLE.read(f"{A} hold", GREEN)
