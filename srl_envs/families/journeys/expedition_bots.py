"""Scripted explorers: they read the map of a prompt, go to what they see or to its edge, and come home."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.families.journeys.expedition import UNSEEN, YOUR_MOVE
from srl_envs.families.journeys.land import (
    CAMP,
    DIRECTIONS,
    FAR,
    FOOD,
    beside,
    cheapest,
    way,
    within,
)
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]
SITE, SELF = "!", "@"
_SIZE = re.compile(r"explore (\d+) by \d+ cells around a camp for (\d+) sites")
_BAG = re.compile(r"A bag holds (\d+)")
_AT = re.compile(
    r"^You are at row (\d+), column (\d+), on ([\w ]+)\. Food in your bag: (\d+)\. Stock of the camp: "
    r"(\d+)\.$",
    re.MULTILINE,
)
_MAP = re.compile(r"^(?:Your map|What you see now):\n((?:\S+\n)+)", re.MULTILINE)
_REPORTED = re.compile(
    r"^Found and not reported, by value: (.*)\. Sites reported: (\d+) of", re.MULTILINE
)
_WEATHER = re.compile(r"^Weather: (\w+)\.", re.MULTILINE)
_TURN = re.compile(r"^TURN (\d+) of (\d+)\.", re.MULTILINE)
_OTHER = re.compile(r'^player_\d: at row (\d+), column (\d+)(?:, sends "(.*)")?\.$', re.MULTILINE)
_SAID = re.compile(r"site at row (\d+), column (\d+)")
_UNKNOWN = 1.7
"""Food that a step into the unknown is taken to need."""
_WORDS = {"plain": ".", "forest": "f", "hill": "h", "swamp": "s", "camp": CAMP}


@dataclass
class Sight:
    """What one prompt shows."""

    side: int
    cells: list[str]
    """Terrain, `UNSEEN`, or `SITE`, which is taken to be plain."""
    at: int
    food: int
    stock: int
    room: int
    carrying: bool
    reported: int
    sites: int
    weather: str
    left: int
    """Own turns that are left, this one included."""
    others: list[int]
    """Where the others are."""
    sure: list[int]
    """Sites that are seen."""
    said: list[int]
    """Places at which others have seen sites."""

    @property
    def camp(self) -> int:
        """Cell of the camp."""
        return len(self.cells) // 2


def read_text(text: str) -> Sight | None:
    """What a prompt shows; None where it asks for no move."""
    size, bag, at, drawn = (pattern.search(text) for pattern in (_SIZE, _BAG, _AT, _MAP))
    found, turn = _REPORTED.search(text), _TURN.search(text)
    if not (size and bag and at and drawn and found and turn) or YOUR_MOVE not in text:
        return None
    side = int(size[1])
    cells = list(drawn[1].replace("\n", ""))
    here = (int(at[1]) - 1) * side + int(at[2]) - 1
    sure = [cell for cell, mark in enumerate(cells) if mark == SITE]
    cells = ["." if mark == SITE else mark for mark in cells]
    cells[here] = _WORDS.get(at[3], ".")
    others = _OTHER.findall(text)
    said = [
        (int(row) - 1) * side + int(column) - 1
        for *_, words in others
        for row, column in _SAID.findall(words)
        if 0 < int(row) <= side and 0 < int(column) <= side
    ]
    weather = _WEATHER.search(text)
    return Sight(
        side, cells, here, int(at[4]), int(at[5]), int(bag[1]),
        carrying=found[1] != "nothing", reported=int(found[2]), sites=int(size[2]),
        weather=weather[1] if weather else "calm",
        left=(int(turn[2]) - int(turn[1])) // (len(others) + 1) + 1,
        others=[(int(row) - 1) * side + int(column) - 1 for row, column, _ in others],
        sure=sure, said=[cell for cell in said if cells[cell] == UNSEEN],
    )  # fmt: skip


def _edges(sight: Sight) -> list[int]:
    """Cells on the map that can be entered, next to what was not seen."""
    return [
        cell
        for cell, mark in enumerate(sight.cells)
        if mark in FOOD
        and any(sight.cells[other] == UNSEEN for other in within(sight.side, cell, 2))
    ]


def _step(sight: Sight, cell: int) -> str:
    for direction, (down, right) in DIRECTIONS.items():
        if beside(sight.side, sight.at, down, right) == cell:
            return f"go {direction}"
    return "rest"


class _Explorer:
    """One way of exploring.

    Args:
        margin: food beyond what the way home needs, for each step of it.
        waits: whether it rests in a storm.
        prefer: what an edge of the map costs, of food to it, its distance from the camp, how much
            is unseen around it and how near another explorer is; the least is chosen.
        careless: chance of a step in any direction.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        margin: float,
        waits: bool,
        prefer: Callable[[float, int, int, int], float],
        careless: float = 0.0,
    ) -> None:
        self.rng, self.margin, self.waits = rng, margin, waits
        self.prefer, self.careless = prefer, careless

    def __call__(self, text: str) -> str:
        sight = read_text(text)
        if sight is None:
            return action("rest")
        move = self._move(sight)
        far = [cell for cell in sight.sure if cell != sight.at]
        if far and sight.others:
            row, column = divmod(far[-1], sight.side)
            return action(f"say: site at row {row + 1}, column {column + 1}\n{move}")
        return action(move)

    def _move(self, sight: Sight) -> str:
        home = sight.at == sight.camp
        if home and sight.reported == sight.sites:
            return "end"
        if home and sight.food < sight.room and sight.stock:
            return f"take {min(sight.room - sight.food, sight.stock)}"
        food, before = cheapest(sight.cells, sight.side, sight.at, _UNKNOWN)
        known, back = cheapest(sight.cells, sight.side, sight.at)
        if self.careless and self.rng.random() < self.careless:
            return _any_step(sight, self.rng)
        target = self._target(sight, food, before)
        spare = sight.food - known[sight.camp]
        if self.waits and sight.weather == "storm" and not home and spare >= 1:
            return "rest"
        if target is None:
            if home:
                return "end"
            return _go(sight, way(back, sight.camp)) if known[sight.camp] < FAR else "rest"
        return _go(sight, way(before, target))

    def _target(self, sight: Sight, food: list[float], before: list[int]) -> int | None:
        """A site that is in reach, or an edge of the map."""
        out, _ = cheapest(sight.cells, sight.side, sight.camp)
        guess, _ = cheapest(sight.cells, sight.side, sight.camp, _UNKNOWN)

        def in_reach(cell: int) -> bool:
            if cell == sight.at or food[cell] >= FAR:
                return False
            steps = len(way(before, cell)), _apart(sight.side, cell, sight.camp)
            home = out[cell] if out[cell] < FAR else guess[cell]
            need = food[cell] + home + self.margin * sum(steps)
            return need + 1 <= sight.food and 1.3 * sum(steps) + 1 <= sight.left

        sites = [cell for cell in (*sight.sure, *sight.said) if in_reach(cell)]
        if sites:
            return min(sites, key=lambda cell: food[cell])
        edges = [cell for cell in _edges(sight) if in_reach(cell)]
        return min(edges, key=lambda cell: self._cost(sight, cell, food[cell]), default=None)

    def _cost(self, sight: Sight, cell: int, food: float) -> float:
        unseen = sum(sight.cells[c] == UNSEEN for c in within(sight.side, cell, 2))
        near = min((_apart(sight.side, cell, other) for other in sight.others), default=FAR)
        return self.prefer(food, _apart(sight.side, cell, sight.camp), unseen, near)


def _go(sight: Sight, cells: list[int]) -> str:
    """The first step of a way, or rest where the bag has too little for it."""
    if not cells:
        return "rest"
    extra = 2 if sight.weather == "storm" else 0
    cost = FOOD.get(sight.cells[cells[0]], 3) + extra
    return _step(sight, cells[0]) if cost <= sight.food else "rest"


def _any_step(sight: Sight, rng: np.random.Generator) -> str:
    near = [
        cell
        for down, right in DIRECTIONS.values()
        if (cell := beside(sight.side, sight.at, down, right)) is not None
        and sight.cells[cell] in FOOD
    ]
    return _go(sight, [near[int(rng.integers(len(near)))]]) if near else "rest"


def _apart(side: int, one: int, other: int) -> int:
    return abs(one // side - other // side) + abs(one % side - other % side)


def _much_unseen(food: float, _home: int, unseen: int, near: int) -> float:
    return food - 0.9 * unseen - 0.5 * min(near, 6)


def _nearest(food: float, _home: int, _unseen: int, _near: int) -> float:
    return food


def _near_camp(food: float, home: int, unseen: int, _near: int) -> float:
    return food + 0.4 * home - 0.4 * unseen


def strong_bot(rng: np.random.Generator) -> Bot:
    """Goes to seen sites, else to where much is unseen and no other explorer is; waits out storms."""
    return _Explorer(rng, margin=0.4, waits=True, prefer=_much_unseen)


def middle_bot(rng: np.random.Generator) -> Bot:
    """Goes to the nearest edge of its map, keeps much food for the way home, and strays."""
    return _Explorer(rng, margin=0.8, waits=False, prefer=_nearest, careless=0.15)


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Keeps near the camp first, and goes far when all around it is seen."""
    return _Explorer(rng, margin=0.5, waits=True, prefer=_near_camp)


def random_bot(rng: np.random.Generator) -> Bot:
    """Steps in any direction, and now and then something else."""

    def reply(text: str) -> str:
        sight = read_text(text)
        if sight is None or rng.random() < 0.1:
            return action("rest")
        if (
            sight.at == sight.camp
            and sight.food < sight.room
            and sight.stock
            and rng.random() < 0.5
        ):
            return action(f"take {min(sight.room - sight.food, sight.stock)}")
        return action(_any_step(sight, rng))

    return reply
