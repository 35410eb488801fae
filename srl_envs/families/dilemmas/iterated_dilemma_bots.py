"""Scripted players of the iterated dilemma; they read the observation's text and nothing else.

``middle`` is tit for tat and ``held_out`` two tits for tat. What is generous and what is not follows
from the table: the generous move leaves the other more points over both of its moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.grammar import action
from srl_envs.messages import join_body

_CELL = re.compile(r"^You ([AB]), other ([AB]): you get (\d), other gets (\d)\.$", re.MULTILINE)
_ROUND = re.compile(r"^Round \d+: you ([AB]), other ([AB]);", re.MULTILINE)
_OF = re.compile(r"^You have .*Round (\d+) of (\d+): choose\.$", re.MULTILINE)
_DOUBT = 0.3
"""Points by which a worse plan still looks as good as a better one, more or less."""
_OPEN_END = 10
"""Rounds that a player expects to be left where it is not told."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees; moves are 0 for A and 1 for B."""

    mine: dict[tuple[int, int], int]
    """Own points by (own move, other's move)."""
    theirs: dict[tuple[int, int], int]
    past: tuple[tuple[int, int], ...]
    """Per round: own move, other's move."""
    left: int
    """Rounds to come, this one included."""
    talk: bool

    def generous(self) -> int:
        """The own move that leaves the other more."""
        return _better(
            sum(self.theirs[0, o] for o in (0, 1)), sum(self.theirs[1, o] for o in (0, 1))
        )

    def their_generous(self) -> int:
        """The other's move that leaves us more."""
        return _better(sum(self.mine[m, 0] for m in (0, 1)), sum(self.mine[m, 1] for m in (0, 1)))

    def was_generous(self, rounds_ago: int) -> bool:
        """Whether the other was, that many rounds ago (1: the last one); True before the start."""
        if rounds_ago > len(self.past):
            return True
        return self.past[-rounds_ago][1] == self.their_generous()


def _better(of_a: int, of_b: int) -> int:
    return 0 if of_a >= of_b else 1


def read_view(text: str) -> View:
    """The game as an observation tells it."""
    cells = {("AB".index(m), "AB".index(o)): (int(a), int(b)) for m, o, a, b in _CELL.findall(text)}
    if len(cells) != 4:
        raise ValueError("the text holds no table of the iterated dilemma")
    past = tuple(("AB".index(m), "AB".index(o)) for m, o in _ROUND.findall(text))
    of = _OF.search(text)
    left = int(of.group(2)) - int(of.group(1)) + 1 if of else _OPEN_END
    return View(
        {key: cell[0] for key, cell in cells.items()},
        {key: cell[1] for key, cell in cells.items()},
        past, left, "say:" in text.partition("\n\n")[0],
    )  # fmt: skip


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """A coin."""

    def act(text: str) -> str:
        read_view(text)
        return _reply(int(rng.integers(2)))

    return act


def generous_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Always the generous move, and says so."""

    def act(text: str) -> str:
        view = read_view(text)
        move = view.generous()
        return _reply(move, f"I play {'AB'[move]} in every round." if view.talk else "")

    return act


def selfish_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Always the move with more points for itself over both moves of the other."""

    def act(text: str) -> str:
        view = read_view(text)
        of_a, of_b = (sum(view.mine[m, o] for o in (0, 1)) for m in (0, 1))
        return _reply(_better(of_a, of_b))

    return act


def middle_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Tit for tat: generous, unless the other was not in the last round."""

    def act(text: str) -> str:
        view = read_view(text)
        kind = view.generous()
        plan = f"I start with {'AB'[kind]} and treat you as you treat me."
        move = kind if view.was_generous(1) else 1 - kind
        return _reply(move, plan if view.talk and not view.past else "")

    return act


def grim_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Generous until the other fails once, then never again."""

    def act(text: str) -> str:
        view = read_view(text)
        trusts = all(view.was_generous(n) for n in range(1, len(view.past) + 1))
        return _reply(view.generous() if trusts else 1 - view.generous())

    return act


def win_stay_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Repeats its move after a round that paid more than its mean cell, else changes it."""

    def act(text: str) -> str:
        view = read_view(text)
        if not view.past:
            return _reply(view.generous())
        move, other = view.past[-1]
        pleased = 4 * view.mine[move, other] > sum(view.mine.values())
        return _reply(move if pleased else 1 - move)

    return act


def held_out_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Two tits for tat: answers one failure with two; for rating only."""

    def act(text: str) -> str:
        view = read_view(text)
        forgives = view.was_generous(1) and view.was_generous(2)
        return _reply(view.generous() if forgives else 1 - view.generous())

    return act


def strong_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Learns how the other answers what happened last, and plans to the end."""

    def act(text: str) -> str:
        view = read_view(text)
        of_a, of_b = _plan(view, _answers(view))
        # a little chance, so that two planners who miss each other do not do so for ever
        likely_b = 1 / (1 + np.exp(np.clip((of_a - of_b) / _DOUBT, -30, 30)))
        return _reply(int(rng.random() < likely_b))

    return act


_Context = tuple[int, int]


def _answers(view: View) -> dict[_Context | None, float]:
    """Chance of the other's B after each round (own move, its move); before any round: None.

    A prior of two rounds says that it repays in kind; counts of what it did outweigh that.
    """
    kind, theirs = view.generous(), view.their_generous()
    seen: dict[_Context, list[int]] = {(m, o): [] for m in (0, 1) for o in (0, 1)}
    for before, after in zip(view.past, view.past[1:], strict=False):
        seen[before].append(after[1])
    chances: dict[_Context | None, float] = {None: 0.8 if theirs else 0.2}
    for (m, o), found in seen.items():
        repaid = theirs if m == kind else 1 - theirs
        prior = 0.9 if repaid else 0.1
        chances[m, o] = (2 * prior + sum(found)) / (2 + len(found))
    return chances


def _plan(view: View, answers: dict[_Context | None, float]) -> tuple[float, float]:
    """Expected own points of A and of B now, with the best moves in all rounds after it."""
    last = view.past[-1] if view.past else None
    rest = {(m, o): 0.0 for m in (0, 1) for o in (0, 1)}

    def worth(context: _Context | None, move: int) -> float:
        of_b = answers[context]
        return sum(
            chance * (view.mine[move, o] + rest[move, o])
            for o, chance in ((0, 1 - of_b), (1, of_b))
        )

    for _ in range(view.left - 1):
        rest = {context: max(worth(context, 0), worth(context, 1)) for context in rest}
    return worth(last, 0), worth(last, 1)


def _reply(move: int, message: str = "") -> str:
    return action(join_body(message, "AB"[move]))
