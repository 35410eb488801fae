"""Policies that do not do the task, as data: a search mutates them, a case holds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from srl_envs.redteam.reading import examples, message_form, size_of
from srl_envs.turns.grammar import action

Kind = Literal[
    "silence", "babble", "stall", "constant", "cycle", "example", "rank", "random", "echo", "legal"
]
NO_MOVES: tuple[Kind, ...] = ("silence", "babble")
"""Kinds whose replies are never moves."""
_SAMPLES = 16
"""Legal moves that are drawn where they cannot be listed."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What an attacker has before it: the prompt, and how to find moves that are legal."""

    text: str
    number: int
    """Turns of this seat before this one."""
    retries: int
    """Replies that were refused in this turn."""
    attempts_left: int
    legal: Sequence[str]
    """Bodies of the legal actions; empty where they are not listed."""
    sample: Callable[[np.random.Generator], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attack:
    """A policy without any thought of the game. A move that is refused is followed by a random one."""

    kind: Kind
    bodies: tuple[str, ...] = ()
    """For ``constant`` and ``cycle``: what it plays, turn by turn, again and again."""
    position: float = 0.0
    """For ``rank``: place among the legal moves in the order of their numbers, 0 to 1; for
    ``example``, ``echo`` and ``legal``: which of them, counted from 0."""
    speech: str = ""
    """Message that it sends where a seat may speak."""

    def to_data(self) -> dict[str, Any]:
        """The attack as JSON values."""
        return {key: value for key, value in asdict(self).items() if value not in ("", (), 0.0)}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Attack:
        """The inverse of `to_data`."""
        return cls(**{**data, "bodies": tuple(data.get("bodies", ()))})

    def __str__(self) -> str:
        what = " / ".join(self.bodies) if self.bodies else f"{self.position:g}"
        plain = self.kind in ("random", "stall", *NO_MOVES)
        name = self.kind if plain else f"{self.kind} {what}"
        shown = name if len(name) < 60 else name[:57] + "..."
        return f"{shown}, saying {self.speech[:20]!r}" if self.speech else shown


def reply(attack: Attack, turn: Turn, rng: np.random.Generator) -> str:
    """The reply of ``attack``; draws only from ``rng``."""
    if attack.kind == "silence":
        return ""
    if attack.kind == "babble":
        return _babble(turn.text, rng)
    if attack.kind == "stall":
        return _babble(turn.text, rng) if turn.attempts_left > 1 else action(turn.sample(rng))
    body = turn.sample(rng) if turn.retries else _body(attack, turn, rng)
    form = message_form(turn.text)
    if attack.speech and form is not None:
        body = f"{form[0]}{attack.speech}\n{body.splitlines()[-1] if body else ''}"
    return action(body)


def _babble(text: str, rng: np.random.Generator) -> str:
    words = [word for word in text.split() if "<" not in word]  # no example of a move
    return " ".join(words[i] for i in rng.integers(len(words), size=12)) if words else "?"


def _body(attack: Attack, turn: Turn, rng: np.random.Generator) -> str:
    if attack.kind in ("constant", "cycle"):
        return attack.bodies[turn.number % len(attack.bodies)]
    if attack.kind == "random":
        return turn.sample(rng)
    if attack.kind == "example":
        found = examples(turn.text)
        return found[int(attack.position) % len(found)] if found else turn.sample(rng)
    legal = list(turn.legal or dict.fromkeys(turn.sample(rng) for _ in range(_SAMPLES)))
    if attack.kind == "legal":
        return legal[int(attack.position) % len(legal)]
    if attack.kind == "rank":
        return sorted(legal, key=size_of)[round(attack.position * (len(legal) - 1))]
    tail = turn.text[-600:]  # echo: what was said or done last
    heard = sorted((body for body in legal if body in tail), key=tail.rfind, reverse=True)
    return heard[int(attack.position) % len(heard)] if heard else legal[0]


def library(bodies: Sequence[str], prompt: str, seats: int) -> list[Attack]:
    """The first generation: every kind, every action that was seen in play, every quoted example."""
    attacks = [
        Attack(kind="random"),
        Attack(kind="stall"),
        *(Attack(kind="example", position=k) for k in range(min(6, len(examples(prompt))))),
        *(Attack(kind="rank", position=k / 8) for k in range(9)),
        *(Attack(kind="legal", position=k) for k in (0, 1, 2, -1)),
        *(Attack(kind="echo", position=k) for k in range(min(seats, 3))),
        *(Attack(kind="constant", bodies=(body,)) for body in bodies),
    ]
    return list(dict.fromkeys(attacks))


def mutated(attack: Attack, bodies: Sequence[str], rng: np.random.Generator) -> Attack:
    """A neighbour: another place, another or one more action, or a plan of two actions in turn."""
    if attack.kind in ("rank", "example", "legal", "echo"):
        step = rng.normal(0, 0.1) if attack.kind == "rank" else rng.integers(-1, 2)
        low, high = (0.0, 1.0) if attack.kind == "rank" else (0.0, 8.0)
        return replace(attack, position=float(np.clip(attack.position + step, low, high)))
    plan = list(attack.bodies or (bodies[int(rng.integers(len(bodies)))],))
    other = bodies[int(rng.integers(len(bodies)))]
    choice = rng.integers(4)
    if choice == 0:
        plan[rng.integers(len(plan))] = other
    elif choice == 1:
        plan.insert(int(rng.integers(len(plan) + 1)), other)
    elif choice == 2 and len(plan) > 1:
        plan.pop(int(rng.integers(len(plan))))
    else:
        plan = [part for part in plan for _ in range(2)] + [other]
    return Attack(kind="cycle" if len(plan) > 1 else "constant", bodies=tuple(plan[:12]))
