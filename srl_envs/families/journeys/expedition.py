"""Expedition: explorers leave a camp for land that they do not know, find sites, and bring the news home.

Cooperative, one to four seats in turn, 150 turns in all. A seat sees a few cells around it and keeps a map
of its own. Steps take food by terrain and weather, a bag has little room, and the camp's stock ends; food
can be left on the way in caches. A pass through a ridge is a wager: the more food is staked, the likelier
it is crossed, and the stake is spent either way. An explorer without food is fetched home, and what it did
not report has to be found again. Explorers in one place join their maps; apart, they have a line of words
with each move.

A quarter of a site's value is for finding it, the rest for its report at the camp. The outcome is this
value as a share of par, times 0.9 plus 0.1 for the share of food saved. Par is what a planner with the
whole map brings home, in calm weather and without passes (`srl_envs.families.journeys.par`). With shaped
rewards finds and reports are paid when they are made.

Weather and the luck of passes are drawn for every turn beforehand, so any episode can be continued from any
point, with the same chances or with fresh ones. The first turn is calm. What is seen from the camp then
names the split, the same for all land turned or mirrored: so no episode of eval begins as one of train.

Levels: `level=1` first, a camp in 5 by 5 cells with two sites and no weather, where a random explorer finds a
site in three episodes of five; then larger land, ridges, weather, and at 4 and 5 sites beyond a bag's reach.

Measured over 40 seeds of train at level 4, alone: strong 0.47, held out 0.43, middle 0.21, random 0.01; with
two seats 0.47, 0.35, 0.24 and 0.01. At level 1, alone, over 100 seeds: 0.98, 0.98, 0.96 and 0.16. Par is 0.93
of the value of all sites at level 4, and 0.84 at level 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.journeys.land import (
    CAMP,
    DIRECTIONS,
    FOOD,
    NAMES,
    PASS,
    SEEN_SITE,
    Land,
    Size,
    beside,
    draw_land,
    view_key,
    within,
)
from srl_envs.families.journeys.land import HILL as _HILL
from srl_envs.families.journeys.orders import Move, read_move, why_illegal
from srl_envs.families.journeys.par import par
from srl_envs.messages import quoted, split_body

PLAYERS, LEVEL, MESSAGE_CHARS = 2, 4, 80
"""Default options."""
REWARDS, MAPS = ("sparse", "shaped"), ("kept", "view")
FOUND_SHARE = 0.25
"""Of a site's value, for finding it; the rest is for the report."""
SITES_SHARE = 0.9
"""Of the outcome; the rest is for food that is saved."""
CALM, RAIN, STORM = "crs"
WEATHER = {CALM: "calm", RAIN: "rain", STORM: "storm"}
EXTRA = {CALM: 0, RAIN: 0, STORM: 2}
"""Food that a step takes beside the terrain's, by weather."""
SIGHT = {CALM: 2, RAIN: 1, STORM: 1}
"""Cells that are seen in each direction; one more from a hill."""
MOST_STAKE = 5
OUT, HOME, FETCHED = "out", "home", "fetched"
YOUR_MOVE = "Make your move now."
_FORECAST_RIGHT = 4
"""Of five forecasts, so many are right."""
UNSEEN = "?"


class Level(NamedTuple):
    """What an expedition is like."""

    size: Size
    turns: int
    room: int
    """Food that a bag holds."""
    stock: int
    """Food in the camp, beside a full bag of every seat."""
    weather: bool


LEVELS: Mapping[int, Level] = {
    1: Level(Size(5, 2, 1, 0, 0), 24, 24, 24, weather=False),
    2: Level(Size(9, 3, 3, 30, 0), 60, 20, 50, weather=False),
    3: Level(Size(11, 4, 3, 35, 1), 100, 26, 70, weather=True),
    4: Level(Size(15, 6, 4, 40, 2), 150, 32, 110, weather=True),
    5: Level(Size(19, 8, 5, 40, 2), 150, 36, 140, weather=True),
}


class Trek(NamedTuple):
    """Immutable state; tuples with one entry per seat where not said otherwise."""

    land: Land
    weather: str
    """By turn, one of `WEATHER`."""
    forecast: str
    """By turn, what was forecast."""
    luck: str
    """By turn, 1 to 6: a pass is crossed where a stake plus 1 reaches it."""
    at: tuple[int, ...]
    food: tuple[int, ...]
    status: tuple[str, ...]
    carried: tuple[tuple[int, ...], ...]
    """Sites that were found and are not reported."""
    seen: tuple[str, ...]
    """Cells that a seat has on its map, as ``1`` and ``0``."""
    reported: tuple[int, ...]
    """Sites, in the order of their reports."""
    found: tuple[int, ...]
    """Sites that were ever found, also by explorers who were fetched."""
    stock: int
    caches: tuple[tuple[int, int], ...] = ()
    """Cell and food of each, none twice."""
    turn: int = 0
    next: int = 0
    """Seat that moves next, where any does."""
    said: tuple[str, ...] = ()
    """Last message."""
    log: tuple[str, ...] = ()
    """What the last move led to."""


class Expedition(Game[Trek, Move]):
    """Observation: rules, the seat's map, bag, weather and messages. Action: a move such as ``go north``.

    Args:
        players: 1 to 4.
        level: 1 to 5.
        turns: of all seats together, 10 to 300; None for the level's number.
        map: ``"kept"`` shows all that a seat has seen, ``"view"`` only what it sees now.
        reward: ``"sparse"`` or ``"shaped"``.

    Raises:
        ConfigError: an option is impossible.
    """

    seats = PLAYERS
    mode = "cooperative"
    max_action_chars = 1000
    max_observation_chars = 6144

    def __init__(
        self,
        *,
        players: int = PLAYERS,
        level: int = LEVEL,
        turns: int | None = None,
        map: str = "kept",
        reward: str = "sparse",
    ) -> None:
        _check("players", players, 1, 4)
        _check("level", level, min(LEVELS), max(LEVELS))
        at = LEVELS[level]
        self.turns = at.turns if turns is None else turns
        _check("turns", self.turns, 10, 300)
        for name, value, known in (("map", map, MAPS), ("reward", reward, REWARDS)):
            if not isinstance(value, str) or value not in known:
                raise ConfigError(f"expedition: {name}={value!r}; give one of {', '.join(known)}.")
        self.seats, self.map, self.reward = players, map, reward
        self.size, self.room, self.stock, self.has_weather = at.size, at.room, at.stock, at.weather
        self.max_turns = self.turns
        self._rules = self._write_rules()

    def new(self, streams: Streams) -> Trek:
        """Draw the land, and the weather and luck of every turn."""
        draws = streams.draws("instance")
        seen_first = partial(view_key, reach=SIGHT[CALM])
        land = streams.held(partial(self._draw, draws), seen_first)
        while not self._par(land):
            land = streams.held(partial(self._draw, draws), seen_first)
        camp, n = len(land.cells) // 2, self.seats
        weather, forecast, luck = self._chances(streams.draws("chance"), self.turns)
        state = Trek(
            land, weather, forecast, luck,
            at=(camp,) * n, food=(self.room,) * n, status=(OUT,) * n, carried=((),) * n,
            seen=("0" * len(land.cells),) * n, reported=(), found=(), stock=self.stock,
            next=streams.draws("seats").integers(n), said=("",) * n, log=("",) * n,
        )  # fmt: skip
        for seat in range(n):
            state = self._look(state, seat)
        return state

    def _draw(self, draws: Draws) -> Land:
        while True:
            land = draw_land(draws, self.size)
            if land is not None:
                return land

    def _par(self, land: Land) -> int:
        return par(land, self.room, self.stock + self.seats * self.room, self.turns)

    def _chances(self, draws: Draws, turns: int) -> tuple[str, str, str]:
        """Weather that is calm at first and tends to stay, forecasts of it, and luck."""
        now, weather, forecast = CALM, "", ""
        for turn in range(turns):
            roll = draws.integers(20)
            if turn and self.has_weather and roll < 8:
                now = CALM if roll < 5 else RAIN if roll < 7 else STORM
            weather += now
            guess = (CALM, RAIN, STORM)[draws.integers(3)] if self.has_weather else CALM
            forecast += now if draws.integers(5) < _FORECAST_RIGHT else guess
        return weather, forecast, "".join(str(1 + draws.integers(6)) for _ in range(turns))

    # --- whose turn ---

    def to_move(self, state: Trek) -> tuple[int, ...]:
        """The next explorer that is out, until the turns are used up."""
        if state.turn == self.turns or OUT not in state.status:
            return ()
        return (state.next,)

    # --- what is seen ---

    def observe(self, state: Trek, seat: int) -> str:
        """Rules, the seat's map, where all are, its bag, weather, caches, messages, and what is due."""
        side = self.size.side
        lines = [self._rules, "", *([f"You are {seat_name(seat)}."] if self.seats > 1 else [])]
        lines += [
            "Your map:" if self.map == "kept" else "What you see now:",
            *self._drawn(state, seat),
        ]
        terrain = NAMES[state.land.cells[state.at[seat]]]
        lines.append(
            f"You are at {_place(side, state.at[seat])}, on {terrain}. Food in your bag: {state.food[seat]}. "
            f"Stock of the camp: {state.stock}."
        )
        found = [state.land.sites[k][1] for k in state.carried[seat]]
        lines.append(f"Found and not reported, by value: {_listed(found)}. {self._reported(state)}")
        if state.caches:
            caches = [f"{food} at {_place(side, cell)}" for cell, food in state.caches]
            lines.append(f"Caches, food and place: {'; '.join(caches)}.")
        if self.has_weather and self.to_move(state):
            lines.append(self._weather(state))
        for other in range(self.seats):
            if other == seat:
                continue
            where = f"at {_place(side, state.at[other])}"
            status = {OUT: where, HOME: "has ended", FETCHED: "was fetched home"}[
                state.status[other]
            ]
            said = f", sends {quoted(state.said[other])}" if state.said[other] else ""
            lines.append(f"{seat_name(other)}: {status}{said}.")
        if state.log[seat]:
            lines.append(f"Your last move: {state.log[seat]}.")
        return "\n".join([*lines, self._due(state, seat)]) + "\n"

    def _drawn(self, state: Trek, seat: int) -> list[str]:
        side, cells = self.size.side, state.land.cells
        shown = state.seen[seat]
        if self.map == "view":
            near = {*self._in_sight(state, seat)}
            shown = "".join("1" if cell in near else "0" for cell in range(len(cells)))
        marks = [mark if known == "1" else UNSEEN for mark, known in zip(cells, shown, strict=True)]
        gone = {*state.reported, *(k for found in state.carried for k in found)}
        for k, (cell, _) in enumerate(state.land.sites):
            if shown[cell] == "1" and k not in gone:
                marks[cell] = SEEN_SITE
        marks[state.at[seat]] = "@"
        return ["".join(marks[row : row + side]) for row in range(0, len(cells), side)]

    def _in_sight(self, state: Trek, seat: int) -> tuple[int, ...]:
        turn = min(state.turn, self.turns - 1)
        reach = SIGHT[state.weather[turn]] + (state.land.cells[state.at[seat]] == _HILL)
        return within(self.size.side, state.at[seat], reach)

    def _reported(self, state: Trek) -> str:
        values = [state.land.sites[k][1] for k in state.reported]
        return f"Sites reported: {len(values)} of {len(state.land.sites)}, worth {sum(values)}."

    def _weather(self, state: Trek) -> str:
        coming = [WEATHER[mark] for mark in state.forecast[state.turn + 1 : state.turn + 4]]
        later = f" Forecast of the next turns: {', '.join(coming)}." if coming else ""
        return f"Weather: {WEATHER[state.weather[state.turn]]}.{later}"

    def _due(self, state: Trek, seat: int) -> str:
        on_move = self.to_move(state)
        if not on_move:
            worth = self._worth(state)
            return (
                f"THE END. {self._reported(state)} Par: {self._par(state.land)}. Paid: {worth:.3f}."
            )
        head = f"TURN {state.turn + 1} of {self.turns}."
        if seat not in on_move:
            return f"{head} {'Wait' if state.status[seat] == OUT else 'You are done; wait'}."
        return f"{head} {YOUR_MOVE}"

    # --- moves ---

    def moves(self, state: Trek, seat: int) -> list[Move]:
        """All legal moves of a seat that is on move, without words."""
        at, food, camp = state.at[seat], state.food[seat], len(state.land.cells) // 2
        found = []
        for direction, (down, right) in DIRECTIONS.items():
            cell = beside(self.size.side, at, down, right)
            if cell is None:
                continue
            mark = state.land.cells[cell]
            if mark in FOOD and self._cost(state, cell) <= food:
                found.append(Move("go", direction))
            if mark == PASS:
                found += [Move("cross", direction, n) for n in range(1, min(MOST_STAKE, food) + 1)]
        there = state.stock if at == camp else dict(state.caches).get(at, 0)
        left = food if at == camp else food - 1
        found += [Move("take", "", n) for n in range(1, min(there, self.room - max(0, left)) + 1)]
        found += [Move("drop", "", n) for n in range(1, left + 1)]
        return [*found, Move("rest"), *([Move("end")] if at == camp else [])]

    def _cost(self, state: Trek, cell: int) -> int:
        return FOOD[state.land.cells[cell]] + EXTRA[state.weather[state.turn]]

    def parse(self, state: Trek, seat: int, body: str) -> Move:
        """A move; with more seats than one also words above it."""
        message = ""
        if self.seats > 1:
            message, body = split_body(body, MESSAGE_CHARS, example="go north")
        move = read_move(body)
        legal = self.moves(state, seat)
        if move not in legal:
            raise IllegalMoveError(why_illegal(move, legal))
        return move._replace(message=message)

    def apply(self, state: Trek, actions: Mapping[int, Move]) -> Trek:
        """Carry out the move; then report, look around, join maps, and pass the turn."""
        ((seat, move),) = actions.items()
        state, text = self._carried_out(state, seat, move)
        state = state._replace(said=_put(state.said, seat, move.message))
        if state.status[seat] == OUT:
            state, more = self._arrived(state, seat)
            text += more
        state = state._replace(log=_put(state.log, seat, text), turn=state.turn + 1)
        if state.status[seat] != FETCHED:
            state = self._look(state, seat)
        return state._replace(next=self._after(state, seat))

    def _after(self, state: Trek, seat: int) -> int:
        order = [(seat + k) % self.seats for k in range(1, self.seats + 1)]
        return next((other for other in order if state.status[other] == OUT), seat)

    def _carried_out(self, state: Trek, seat: int, move: Move) -> tuple[Trek, str]:
        at, food, camp = state.at[seat], state.food[seat], len(state.land.cells) // 2
        if move.kind == "end":
            return state._replace(status=_put(state.status, seat, HOME)), "you ended"
        if move.kind == "go":
            cell = beside(self.size.side, at, *DIRECTIONS[move.direction])
            cost = self._cost(state, cell) if cell is not None else 0
            state = state._replace(
                at=_put(state.at, seat, cell), food=_put(state.food, seat, food - cost)
            )
            return state, f"{move.body}, which took {cost} food"
        if move.kind == "cross":
            return self._crossed(state, seat, move)
        eaten = 0 if at == camp else 1
        if move.kind == "rest" and food < eaten:
            lost = "you had no food and were fetched home without a report"
            return state._replace(
                at=_put(state.at, seat, camp), status=_put(state.status, seat, FETCHED),
                carried=_put(state.carried, seat, ()),
            ), lost  # fmt: skip
        moved = {"take": move.amount, "drop": -move.amount}.get(move.kind, 0)
        state = state._replace(food=_put(state.food, seat, food - eaten + moved))
        if at == camp:
            state = state._replace(stock=state.stock - moved)
        elif moved:
            caches = dict(state.caches)
            caches[at] = caches.get(at, 0) - moved
            state = state._replace(caches=tuple(sorted((c, n) for c, n in caches.items() if n)))
        return state, f"{move.body}{', which took 1 food' if eaten else ''}"

    def _crossed(self, state: Trek, seat: int, move: Move) -> tuple[Trek, str]:
        at, (down, right) = state.at[seat], DIRECTIONS[move.direction]
        beyond = beside(self.size.side, at, 2 * down, 2 * right)
        lucky = int(state.luck[state.turn]) <= move.amount + 1
        through = lucky and beyond is not None and state.land.cells[beyond] in FOOD
        state = state._replace(food=_put(state.food, seat, state.food[seat] - move.amount))
        if not through:
            return state, f"{move.body}, which failed"
        return state._replace(at=_put(state.at, seat, beyond)), f"{move.body}, which led through"

    def _arrived(self, state: Trek, seat: int) -> tuple[Trek, str]:
        """Find the site of the cell; at the camp report."""
        at, text = state.at[seat], ""
        for k, (cell, value) in enumerate(state.land.sites):
            gone = k in state.reported or any(k in found for found in state.carried)
            if cell == at and not gone:
                carried = _put(state.carried, seat, (*state.carried[seat], k))
                state = state._replace(
                    carried=carried, found=tuple(dict.fromkeys((*state.found, k)))
                )
                text += f"; you found a site of value {value}"
        if state.land.cells[at] == CAMP and state.carried[seat]:
            text += f"; you reported {len(state.carried[seat])}"
            state = state._replace(
                reported=(*state.reported, *state.carried[seat]),
                carried=_put(state.carried, seat, ()),
            )
        return state, text

    def _look(self, state: Trek, seat: int) -> Trek:
        """Note what is in sight, and join the maps of explorers in one place."""
        near = {*self._in_sight(state, seat)}
        company = [
            other
            for other in range(self.seats)
            if state.at[other] == state.at[seat] and state.status[other] != FETCHED
        ]
        known = [state.seen[other] for other in company] or [state.seen[seat]]
        joined = "".join(
            "1" if cell in near or any(seen[cell] == "1" for seen in known) else "0"
            for cell in range(len(state.land.cells))
        )
        seen = state.seen
        for other in {*company, seat}:
            seen = _put(seen, other, joined)
        return state._replace(seen=seen)

    # --- what is paid ---

    def returns(self, state: Trek) -> tuple[float, ...] | None:
        """The same for all; see the module."""
        return None if self.to_move(state) else (self._worth(state),) * self.seats

    def earned(self, state: Trek) -> tuple[float, ...] | None:
        """With shaped rewards, what was found and reported so far is worth."""
        if self.reward == "sparse":
            return None
        return (SITES_SHARE * self._share(state),) * self.seats

    def _share(self, state: Trek) -> float:
        found, reported = (
            sum(state.land.sites[k][1] for k in sites) for sites in (state.found, state.reported)
        )
        worth = FOUND_SHARE * found + (1 - FOUND_SHARE) * reported
        return min(1.0, worth / self._par(state.land))

    def _saved(self, state: Trek) -> float:
        """Share of all food that is in the camp, in bags there included."""
        camp = len(state.land.cells) // 2
        bags = sum(
            food
            for food, at, status in zip(state.food, state.at, state.status, strict=True)
            if at == camp and status != FETCHED
        )
        return (state.stock + bags) / (self.stock + self.seats * self.room)

    def _worth(self, state: Trek) -> float:
        return self._share(state) * (SITES_SHARE + (1 - SITES_SHARE) * self._saved(state))

    def legal(self, state: Trek, seat: int) -> Sequence[str]:
        """All moves, without words."""
        return [move.body for move in self.moves(state, seat)]

    def fallback(self, state: Trek, seat: int) -> str:
        """Rest."""
        return "rest"

    def sample(self, state: Trek, seat: int, rng: np.random.Generator) -> str:
        """A step, most often; or any other move."""
        moves = self.moves(state, seat)
        steps = [move for move in moves if move.kind == "go"]
        among = steps if steps and rng.random() < 0.8 else moves
        return among[int(rng.integers(len(among)))].body

    def components(self, state: Trek, seat: int) -> Mapping[str, float]:
        """Sites found and reported, par, shares of par and of food saved, explorers fetched, turns."""
        return {
            "found": float(len(state.found)),
            "reported": float(len(state.reported)),
            "par": float(self._par(state.land)),
            "of_par": self._share(state),
            "saved": self._saved(state),
            "fetched": float(state.status.count(FETCHED)),
            "turns": float(state.turn),
        }

    def swap_hidden(self, state: Trek, seat: int, other: Trek) -> Trek:
        """What the seat has not seen of the land, the weather and luck to come, and the others' maps."""
        if not self.to_move(state):
            return state
        mine = state.seen[seat]
        cells = "".join(
            old if known == "1" else new
            for old, new, known in zip(state.land.cells, other.land.cells, mine, strict=True)
        )
        touched = {*state.found, *(k for found in state.carried for k in found)}
        sites = tuple(
            (cell, value)
            if k in touched or mine[cell] == "1"
            else (next(c for c in range(len(mine)) if mine[c] != "1"), 1)
            for k, (cell, value) in enumerate(state.land.sites)
        )
        past = state.turn
        blank = "0" * len(mine)
        return state._replace(
            land=Land(cells, sites),
            weather=state.weather[: past + 1] + other.weather[past + 1 :],
            forecast=state.forecast[: past + 4] + other.forecast[past + 4 :],
            luck=state.luck[:past] + other.luck[past:],
            seen=tuple(mine if k == seat else blank for k in range(self.seats)),
            log=tuple(text if k == seat else "" for k, text in enumerate(state.log)),
        )

    def reshuffled(self, state: Trek, draws: Draws) -> Trek:
        """Weather past the forecasts that are shown, and luck from this turn on."""
        past = state.turn
        weather, forecast, luck = self._chances(draws, self.turns)
        return state._replace(
            weather=state.weather[: past + 4] + weather[past + 4 :],
            forecast=state.forecast[: past + 4] + forecast[past + 4 :],
            luck=state.luck[:past] + luck[past:],
        )

    def encode(self, state: Trek) -> Any:
        """Field name -> value; tuples become lists."""
        return {name: _as_lists(value) for name, value in state._asdict().items()}

    def decode(self, data: Any) -> Trek:
        """The inverse of `encode`."""
        fields = {name: _as_tuples(value) for name, value in data.items()}
        return Trek(**{**fields, "land": Land(*fields["land"])})

    def _write_rules(self) -> str:
        side, n, ridges = self.size.side, self.seats, self.size.ridges
        who = "You explore" if n == 1 else f"{n} players explore"
        turns = f"{self.turns} turns{'' if n == 1 else ' of all players together'}"
        same = "" if n == 1 else "the same for all: "
        seen = f"You see {SIGHT[CALM]} steps far, from a hill 1 more."
        if self.has_weather:
            seen += (
                f" In rain and storm it is {SIGHT[RAIN]}, and a storm adds {EXTRA[STORM]} to the food of a "
                "step. About four forecasts in five are right."
            )
        lines = [
            f"EXPEDITION. {who} {side} by {side} cells around a camp for {self.size.sites} sites, in at "
            f"most {turns}. Enter a site to find it, and come back to the camp to report it.",
            "Map: C camp, . plain, f forest, h hill, s swamp, ~ water and ^ mountain (both closed), "
            f"{'= pass, ' if ridges else ''}! a site that you saw and no player found, @ you, ? not seen "
            "yet. Row 1 is north, column 1 is west.",
            "Food: a step onto plain or camp takes 1, forest or hill 2, swamp 3; any other move takes 1 "
            f"outside the camp, 0 in it. A bag holds {self.room}. Take and drop move food between your "
            "bag and the stock of the camp, or a cache where you stand. Who rests outside the camp "
            "without food is fetched home and done; what it did not report has to be found again.",
            seen,
        ]
        if ridges:
            lines.append(
                f"A pass is a wager: stake 1 to {MOST_STAKE} food, which is spent. A stake of N leads to "
                "its other side with chance (N + 1) / 6; otherwise you stay."
            )
        if n > 1:
            lines.append(
                "Players move in turn. In one place they join their maps. A line above your move that "
                f"begins with say: is read by the others, up to {MESSAGE_CHARS} characters."
            )
        more = "cross north 4 (at a pass), " if ridges else ""
        lines += [
            f"Payoff: {same}({FOUND_SHARE} * value found + {1 - FOUND_SHARE} * value reported) / par, at "
            f"most 1, times ({SITES_SHARE} + {1 - SITES_SHARE:.1f} * share of food left in the camp). Par "
            "is what a planner with the whole map reports in calm weather, without passes.",
            "Reply with one move, like this: <action>go north</action>\n"
            f"Other moves: {more}take 5, drop 3, rest, and in the camp end, after which you are done.",
        ]
        return "\n".join(lines)


def _check(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(
            f"expedition: {name}={value!r}; give a whole number from {low} to {high}."
        )


def _put(values: tuple[Any, ...], seat: int, value: Any) -> tuple[Any, ...]:
    return (*values[:seat], value, *values[seat + 1 :])


def _place(side: int, cell: int) -> str:
    return f"row {cell // side + 1}, column {cell % side + 1}"


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "nothing"


def _as_lists(value: Any) -> Any:
    return [_as_lists(item) for item in value] if isinstance(value, tuple) else value


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value
