"""Decision lists as data: tests on features of the prompt, each with the move to reply.

A move is described without any game: the reply of a scripted player with its last number shifted, a
number of the prompt, a legal move by rank, a body that was seen, one's own last move, no move at all, the
best answer to samples of the opponents, or a word of a code that partners agreed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

import srl_envs
from srl_envs.redteam.attacks import Turn
from srl_envs.redteam.readers.answers import best_answer
from srl_envs.redteam.readers.codes import coded
from srl_envs.redteam.readers.features import numbers, value
from srl_envs.redteam.reading import examples, size_of
from srl_envs.turns.grammar import action

Kind = Literal["bot", "number", "rank", "constant", "past", "refuse", "answer", "code"]
_LAST_NUMBER = re.compile(r"-?\d+(?!.*\d)", re.DOTALL)
_SAMPLES = 24
"""Legal moves that are drawn where they cannot be listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """How to find a reply."""

    kind: Kind
    name: str = ""
    """The scripted player of ``bot`` and ``answer``, the feature of ``number``, the body of ``constant``,
    the label of the secret of ``code``."""
    shift: int = 0
    """Added to the last number of the body, as far as that is legal."""
    factor: float = 1.0
    """Multiplies that number before the shift; rounded down."""
    position: float = 0.0
    """For ``rank``: place among the legal moves in the order of their numbers, 0 to 1."""

    def __str__(self) -> str:
        what = f"{self.position:.2f}" if self.kind == "rank" else self.name.replace("\n", " / ")
        shown = f"{self.kind} {what[-45:]}".strip()
        shown = f"{shown} x{self.factor:g}" if self.factor != 1 else shown
        return f"{shown} {self.shift:+d}" if self.shift else shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """Whether a feature of the prompt is at least ``bound``."""

    feature: str
    bound: float

    def holds(self, text: str) -> bool:
        """False where the prompt lacks the feature."""
        found = value(self.feature, text)
        return found is not None and found >= self.bound

    def __str__(self) -> str:
        return f"{self.feature[-45:]!r} >= {self.bound:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A move, and the tests that must all hold for it."""

    tests: tuple[Threshold, ...]
    move: Move

    def __str__(self) -> str:
        return f"if {' and '.join(map(str, self.tests))}: {self.move}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """A decision list: the first rule whose tests hold, else ``move``."""

    move: Move
    rules: tuple[Rule, ...] = ()

    def choose(self, text: str) -> Move:
        """The move for a prompt."""
        held = (rule.move for rule in self.rules if all(test.holds(text) for test in rule.tests))
        return next(held, self.move)

    def take(self, env: Any, seat: int, seed: int) -> Callable[[Turn], str]:
        """A policy for one episode; a scripted player in it draws as it would in this seat."""
        return seated(self.choose, env, seat, seed)

    def to_data(self) -> dict[str, Any]:
        """The program as JSON values."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Reader:
        """The inverse of `to_data`."""
        rules = tuple(
            Rule(
                tests=tuple(Threshold(**test) for test in rule["tests"]), move=Move(**rule["move"])
            )
            for rule in data["rules"]
        )
        return cls(move=Move(**data["move"]), rules=rules)

    def __str__(self) -> str:
        return "; ".join(
            [*map(str, self.rules), f"else {self.move}" if self.rules else str(self.move)]
        )


def seated(choose: Callable[[str], Move], env: Any, seat: int, seed: int) -> Callable[[Turn], str]:
    """A policy for one seat in one episode; a scripted player in it draws as it would there.

    Args:
        choose: the move for a prompt.
        env: the running environment.
        seat: where it sits.
        seed: of the episode.
    """
    draws = np.random.default_rng([seed, seat, 7])
    return _Seated(choose, env, seat, 1000 * seed + seat, draws).reply


@dataclass(slots=True)
class _Seated:
    """A program in one seat of one episode."""

    choose: Callable[[str], Move]
    env: Any
    seat: int
    seed: int
    """Seed of the scripted players."""
    rng: np.random.Generator
    last: str = ""
    """Body of its last reply."""
    bots: dict[str, Callable[[str], str]] = field(default_factory=dict)

    def reply(self, turn: Turn) -> str:
        """The reply; after a refusal a legal move at random."""
        move = self.choose(turn.text)
        if move.kind == "refuse" and turn.attempts_left > 1:
            return ""
        self.last = turn.sample(self.rng) if turn.retries else self._body(move, turn)
        return action(self.last)

    def _body(self, move: Move, turn: Turn) -> str:
        if move.kind == "bot":
            return _shifted(self._played(move.name, turn.text), move, turn, self.rng)
        if move.kind == "number":
            found = numbers(turn.text).get(move.name)
            body = turn.sample(self.rng) if found is None else f"{found:g}"
            return _shifted(body, move, turn, self.rng)
        if move.kind == "past":
            return _shifted(self.last or turn.sample(self.rng), move, turn, self.rng)
        if move.kind == "rank":
            moves = legal_moves(turn, self.rng)
            return moves[round(move.position * (len(moves) - 1))]
        if move.kind == "answer":
            legal = legal_moves(turn, self.rng)
            best = best_answer(self.env, self.seat, move.name, legal, self.rng)
            return self._played(move.name, turn.text) if best is None else best
        if move.kind == "code":
            return coded(move.name, turn, self.rng)
        if move.kind == "constant" and not (turn.legal and move.name not in turn.legal):
            return move.name
        return turn.sample(self.rng)

    def _played(self, name: str, text: str) -> str:
        if name not in self.bots:
            self.bots[name] = srl_envs.make_bot(self.env.env_spec.id, name, seed=self.seed)
        found = examples(self.bots[name](text))
        return found[-1] if found else ""


def legal_moves(turn: Turn, rng: np.random.Generator) -> list[str]:
    """Legal bodies in the order of their numbers; some of them where they cannot be listed."""
    moves = turn.legal or dict.fromkeys(turn.sample(rng) for _ in range(_SAMPLES))
    return sorted(moves, key=size_of)


def _shifted(body: str, move: Move, turn: Turn, rng: np.random.Generator) -> str:
    """``body`` with its last number moved, no further than the legal moves that are seen go."""
    found = _LAST_NUMBER.search(body)
    plain = move.shift == 0 and move.factor == 1
    if found is None or (plain and (not turn.legal or body in turn.legal)):
        return body
    sizes = [size for other in legal_moves(turn, rng) if (size := _last_number(other)) is not None]
    if not sizes:
        return body
    wanted = int(int(found.group()) * move.factor) + move.shift
    if turn.legal:
        wanted = min(sizes, key=lambda size: abs(size - wanted))
    else:
        wanted = min(max(wanted, *([0] if min(sizes) >= 0 else [min(sizes)])), max(sizes))
    return f"{body[: found.start()]}{wanted}{body[found.end() :]}"


def _last_number(body: str) -> int | None:
    found = _LAST_NUMBER.search(body)
    return int(found.group()) if found else None
