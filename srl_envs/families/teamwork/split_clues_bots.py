"""Scripted players of split clues: they pass clues on word for word, and solve by elimination."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.errors import IllegalMoveError
from srl_envs.families.teamwork.split_clues import (
    ROUNDS,
    SILENCE,
    grid_text,
    listed_grid,
    parse_grid,
    random_grid,
    random_message,
)
from srl_envs.families.teamwork.split_clues_puzzle import (
    Puzzle,
    Solution,
    possible,
    read_clues,
    solutions,
)
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_PEOPLE = re.compile(r"^People: (.*)\.$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^Each person has a different (\w+): (.*)\.$", re.MULTILINE)
_CLUES = re.compile(r"^Your clues: (.*)$", re.MULTILINE)
_MESSAGE = re.compile(r'^Round \d, (you|player_\d): "(.*)"$', re.MULTILINE)
_LIMIT = re.compile(r"at most (\d+) characters each")
_ROUND = re.compile(r"^Round (\d) of \d: write", re.MULTILINE)


class Seen(NamedTuple):
    """Facts that a bot reads from an observation."""

    puzzle: Puzzle
    clues: tuple[str, ...]
    """Its own clues, as sentences."""
    heard: tuple[str, ...]
    """Messages of the others, by round and seat."""
    round: int
    """1 or 2; 3 when the grid is due."""
    limit: int
    """Most characters of a message."""


def read(text: str) -> Seen:
    """The puzzle, the clues and the messages of an observation."""
    people, clues, limit = _PEOPLE.search(text), _CLUES.search(text), _LIMIT.search(text)
    if people is None or clues is None or limit is None:
        raise ValueError("the text holds no split clues")
    attributes = _ATTRIBUTE.findall(text)
    puzzle = Puzzle(
        tuple(people.group(1).split(", ")),
        tuple(name for name, _ in attributes),
        tuple(tuple(values.split(", ")) for _, values in attributes),
    )
    heard = [message for who, message in _MESSAGE.findall(text) if who != "you"]
    now = _ROUND.search(text)
    return Seen(
        puzzle,
        tuple(f"{part}." for part in clues.group(1).removesuffix(".").split(". ")),
        tuple(heard),
        int(now.group(1)) if now else ROUNDS + 1,
        int(limit.group(1)),
    )


def random_bot(rng: np.random.Generator) -> Bot:
    """Chatters and guesses."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.round <= ROUNDS:
            return action(random_message(rng))
        return action(grid_text(seen.puzzle, random_grid(seen.puzzle, rng)))

    return act


def silent_bot(_rng: np.random.Generator) -> Bot:
    """Sends nothing, reads nothing, and hands in the likeliest grid given its own clues."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.round <= ROUNDS:
            return action(SILENCE)
        return action(grid_text(seen.puzzle, likeliest(seen.puzzle, seen.clues)))

    return act


def middle_bot(rng: np.random.Generator) -> Bot:
    """Passes on each of its clues with probability 0.7, and believes all that it reads."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.round <= ROUNDS:
            passed_on = [clue for clue in _part(seen) if rng.random() < 0.7]
            return action(" ".join(passed_on) or SILENCE)
        return action(grid_text(seen.puzzle, likeliest(seen.puzzle, (*seen.clues, *seen.heard))))

    return act


def strong_bot(_rng: np.random.Generator) -> Bot:
    """Passes on all its clues, as many as fit in each round, and solves."""

    def act(text: str) -> str:
        seen = read(text)
        if seen.round <= ROUNDS:
            return action(" ".join(_part(seen)) or SILENCE)
        return action(grid_text(seen.puzzle, likeliest(seen.puzzle, (*seen.clues, *seen.heard))))

    return act


def held_out_bot(_rng: np.random.Generator) -> Bot:
    """Passes its clues on in the first round, a grid in the second, and hands in the first grid it gets.

    Where the limit leaves no room for a grid, it goes by its own.
    """

    def act(text: str) -> str:
        seen = read(text)
        if seen.round == 1:
            return action(" ".join(_part(seen)) or SILENCE)
        own = grid_text(seen.puzzle, likeliest(seen.puzzle, (*seen.clues, *seen.heard)))
        if seen.round == ROUNDS:
            return action(own.replace('"', "'") if len(own) <= seen.limit else SILENCE)
        return action(next(_grids(seen), own))

    return act


def _grids(seen: Seen) -> Iterator[str]:
    """The grids that others have sent."""
    for message in seen.heard:
        try:
            yield grid_text(seen.puzzle, parse_grid(seen.puzzle, message.replace("'", '"')))
        except IllegalMoveError:
            continue


def _part(seen: Seen) -> list[str]:
    """The clues for this round: as many as fit, in turn; those that fit no message are left out."""
    rest = sorted((clue for clue in seen.clues if len(clue) <= seen.limit), key=len)
    for _ in range(seen.round):
        part: list[str] = []
        for clue in list(rest):
            if len(" ".join([*part, clue])) <= seen.limit:
                part.append(clue)
                rest.remove(clue)
    return part


def likeliest(puzzle: Puzzle, texts: Sequence[str]) -> Solution:
    """A grid that fits all clues stated in ``texts`` and shares most cells with the others that do."""
    clues = [clue for text in texts for clue in read_clues(puzzle, text)]
    fitting = solutions(puzzle, possible(puzzle, clues))
    if not fitting:
        return listed_grid(puzzle)
    grids_SAN = np.array(fitting)  # solutions, attributes, people
    shared = np.zeros(len(fitting))
    for value in range(len(puzzle.people)):
        has = grids_SAN == value
        shared += (has * has.mean(axis=0)).sum(axis=(1, 2))
    return fitting[int(shared.argmax())]
