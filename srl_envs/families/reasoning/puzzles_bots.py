"""Bots for puzzles: they read the question, as any policy does, and search.

Each kind has a solver that yields answers from nothing but the text, in the form that the library's checker
reads. They share no code with the generators, so a strong bot that earns everything shows that the
library's answers are right.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from srl_envs.families.reasoning.puzzle_kinds import KINDS, guess, one_line, parts_of
from srl_envs.turns.grammar import action

Bot = Callable[[str], str]

_PUZZLE = re.compile(
    r"^PUZZLE \d+ of \d+ \((\w+)\):\n(.*?)\n\n((?:[ABC]: .*\n)*)(?:One of these|Write )[^\n]*"
    r"<action>(.*?)</action>$",
    re.MULTILINE | re.DOTALL,
)
_BUTTON = re.compile(r"^([ABC]): (Add|Subtract|Multiply) (\d+) \(when (\w+)\)$", re.MULTILINE)
_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_MOST_PRESSES = 16
_IS = re.compile(r"([A-Z]\w+) is an? (\w+)")


# --- solvers: question -> answers ---------------------------------------------------------------


def spelled(question: str) -> Iterator[str]:
    """The last word of the question, backward."""
    yield question.rpartition(" ")[2].lower()[::-1]


def presses(question: str) -> Iterator[str]:
    """Shortest sequences of presses, breadth first; every press counts and changes the light."""
    buttons = _BUTTON.findall(question)
    target = int(re.findall(r"^Target: (-?\d+)$", question, re.MULTILINE)[0])
    level: dict[tuple[int, str], list[str]] = {(0, "red"): [""]}
    seen = set(level)
    for _ in range(_MOST_PRESSES):
        after: dict[tuple[int, str], list[str]] = {}
        for (value, light), paths in level.items():
            for name, does, amount, when in buttons:
                if when not in (light, "any"):
                    continue
                given = int(amount)
                new = {"Add": value + given, "Subtract": value - given, "Multiply": value * given}[
                    does
                ]
                place = (new, "green" if light == "red" else "red")
                if place not in seen:
                    after.setdefault(place, []).extend(path + name for path in paths)
        found = [path for (value, _), paths in after.items() if value == target for path in paths]
        if found:
            yield from (" → ".join(path) for path in sorted(found))
            return
        seen |= set(after)
        level = after


def paths(question: str) -> Iterator[str]:
    """Shortest ways through the map, breadth first."""
    rows = [
        line.split() for line in question.splitlines() if re.fullmatch(r"[*#OX]( [*#OX])+", line)
    ]
    marks = {(r, c): mark for r, row in enumerate(rows) for c, mark in enumerate(row)}
    start = next(place for place, mark in marks.items() if mark == "*")
    far = {start: 0}
    queue = deque([(start, "")])
    best = 0
    while queue:
        (r, c), way = queue.popleft()
        if best and far[(r, c)] >= best:
            return
        for name, (down, right) in _STEPS.items():
            place = (r + down, c + right)
            if marks.get(place, "X") == "X" or far.get(place, 99) < far[(r, c)] + 1:
                continue
            far[place] = far[(r, c)] + 1
            step = f"{way} {name}".strip()
            if marks[place] == "#":
                best = far[place]
                yield step
            else:
                queue.append((place, step))


def sums(question: str) -> Iterator[str]:
    """Grids of 0 and 1 with the given sums, row by row."""
    rows, columns = (
        [int(number) for number in found.split(",")]
        for found in re.findall(r"(?:[Rr]ow|[Cc]olumn) sums(?: are|:)? \[([\d, ]+)\]", question)
    )
    fits = {
        total: [
            bits
            for bits in product((0, 1), repeat=len(columns))
            if sum(k * bit for k, bit in enumerate(bits, 1)) == total
        ]
        for total in set(rows)
    }

    def fill(done: tuple[tuple[int, ...], ...], left: Sequence[int]) -> Iterator[str]:
        if len(done) == len(rows):
            if not any(left):
                yield "\n".join(" ".join(map(str, row)) for row in done)
            return
        weight = len(done) + 1
        for bits in fits[rows[len(done)]]:
            rest = [total - weight * bit for total, bit in zip(left, bits, strict=True)]
            if min(rest) >= 0:
                yield from fill((*done, bits), rest)

    yield from fill((), columns)


def colorings(question: str) -> Iterator[str]:
    """Colors of the vertices in order, each unlike its neighbours'."""
    size = len(re.findall(r"^Vertices: \[(.*)\]$", question, re.MULTILINE)[0].split(","))
    edges = [(int(u), int(v)) for u, v in re.findall(r"\((\d+), (\d+)\)", question)]
    near = [[u + v - k for u, v in edges if k in (u, v) and u + v - k < k] for k in range(size)]

    def color(done: tuple[int, ...]) -> Iterator[str]:
        if len(done) == size:
            yield json.dumps({str(k): given for k, given in enumerate(done)})
            return
        for given in (1, 2, 3):
            if all(done[other] != given for other in near[len(done)]):
                yield from color((*done, given))

    yield from color(())


def islanders(question: str) -> Iterator[str]:
    """Assignments of roles under which exactly the truthful say what holds."""
    names = re.split(r", and |, ", re.findall(r"inhabitants: (.*?)\. ?", question)[0])
    truthful, lying = (role.split()[1] for role in parts_of("knights_knaves", question))
    text = question.partition("inhabitants: ")[2].partition(". ")[2].partition(" So who is ")[0]
    said = {name: _Statement(content) for name, content in _quotes(text, names)}
    for roles in product((True, False), repeat=len(names)):
        world = dict(zip(names, roles, strict=True))
        if all(said[name].holds(world, truthful) == world[name] for name in names):
            yield ", and ".join(
                f"{name} is {'an' if role[0] in 'aeiou' else 'a'} {role}"
                for name, is_true in world.items()
                for role in (truthful if is_true else lying,)
            )


_FRAMES = [
    re.compile(frame)
    for frame in (
        r'^(?:According to|In) (\w+?)(?:\'s words:|,) "(.*)"$',
        r'^In a statement by (\w+): "(.*)"$',
        r'^As (\w+) put it, "(.*)"$',
        r'^"(.*),?" - (\w+)$',
        r'^"(.*),?" (\w+) (?:declared|mentioned|claimed)$',
        r'^(\w+) (?:said|told you|expressed)(?: that)?,? "?(.*?)"?$',
        r'^(\w+) (?:stated|remarked|was heard saying|asserted|commented|noted)[,:] "(.*)"$',
    )
]


def _quotes(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Speaker and statement of each sentence; sentences end in a stop, inside quotes or not."""
    for sentence in re.split(r"(?<=\.)\s+|(?<=\.\")\s+", text.strip()):
        plain = sentence.strip().replace('."', '"').rstrip(".")
        for frame in _FRAMES:
            found = frame.match(plain)
            if found:
                one, other = found.groups()
                speaker, content = (one, other) if one in names else (other, one)
                yield speaker, content.rstrip(",").strip()
                break
        else:
            raise ValueError(f"a sentence that no frame fits: {sentence!r}")


class _Statement:
    """A statement, read by descent: not, if and only if, if, or, and, brackets."""

    def __init__(self, text: str) -> None:
        self.tokens = re.findall(
            r"\(|\)|it is not the case that|if and only if|\b(?:if|then|and|or)\b|[A-Z]\w+ is an? \w+",
            text,
        )

    def holds(self, world: dict[str, bool], truthful: str) -> bool:
        """Whether it is true in a world of who is truthful."""
        self._rest = [*self.tokens]
        self._world, self._truthful = world, truthful
        return self._equivalence()

    def _equivalence(self) -> bool:
        value = self._choice()
        while self._rest and self._rest[0] in ("if and only if", "and", "or"):
            link = self._rest.pop(0)
            other = self._choice()
            if link == "and":
                value = value and other
            elif link == "or":
                value = value or other
            else:
                value = value == other
        return value

    def _choice(self) -> bool:
        token = self._rest.pop(0)
        if token == "(":
            value = self._equivalence()
            self._rest.pop(0)
            return value
        if token == "it is not the case that":
            return not self._choice()
        if token == "if":
            premise = self._equivalence()
            self._rest.pop(0)
            return self._equivalence() or not premise
        found = _IS.fullmatch(token)
        if found is None:
            raise ValueError(f"no statement: {token!r}")
        return self._world[found[1]] == (found[2] == self._truthful)


SOLVERS: dict[str, Callable[[str], Iterator[str]]] = {
    "spell_backward": spelled,
    "quantum_lock": presses,
    "shortest_path": paths,
    "kakurasu": sums,
    "graph_color": colorings,
    "knights_knaves": islanders,
}
_AT_ONCE = ("spell_backward", "shortest_path", "graph_color")
"""Kinds that the held-out bot solves."""


# --- bots ---------------------------------------------------------------------------------------


def random_bot(rng: np.random.Generator) -> Bot:
    """A guess that has the form of an answer."""
    return lambda text: _reply(text, rng, lambda _: False)


def middle_bot(rng: np.random.Generator) -> Bot:
    """Solves one puzzle in two, and guesses at the others."""
    return lambda text: _reply(text, rng, lambda _: rng.random() < 0.5)


def strong_bot(rng: np.random.Generator) -> Bot:
    """Solves every puzzle by search."""
    return lambda text: _reply(text, rng, lambda _: True)


def held_out_bot(rng: np.random.Generator) -> Bot:
    """Solves words, paths and colors, and guesses at the rest. For ratings only."""
    return lambda text: _reply(text, rng, lambda kind: kind in _AT_ONCE)


def _reply(text: str, rng: np.random.Generator, solves: Callable[[str], bool]) -> str:
    found = _PUZZLE.search(text)
    if found is None:
        return action("pass")
    kind, question, listed, example = found.groups()
    choices = [line[3:] for line in listed.splitlines()]
    if solves(kind):
        answers = SOLVERS[kind](question)
        if not choices:
            return action(one_line(next(answers, "pass")))
        right = next((answer for answer in map(one_line, answers) if answer in choices), None)
        if right is not None:
            return action("ABC"[choices.index(right)])
    if choices:
        return action("ABC"[rng.integers(len(choices))])
    shape = KINDS[kind].read(example)
    parts = parts_of(kind, question)
    return action(one_line(guess(kind, shape, parts, lambda high: int(rng.integers(high)))))
