"""Scripted players of the iterated dilemma; they read the observation's text and nothing else.

``middle`` is tit for tat and ``held_out`` two tits for tat. What is generous and what is not follows
from the table: the generous move leaves the other more points over both of its moves.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from srl_envs.messages import join_body
from srl_envs.turns.grammar import action

_SEAT = re.compile(r"^You are player_(\d)\.$", re.MULTILINE)
_CELL = re.compile(r"^You ([AB]), other ([AB]): you get (\d), other gets (\d)\.$", re.MULTILINE)
_ROUND = re.compile(r"^Round \d+: you ([AB]), other ([AB]);", re.MULTILINE)
_OF = re.compile(r"^You have .*Round (\d+) of (\d+): choose\.$", re.MULTILINE)
_DOUBT = 0.3
"""Points by which a worse plan still looks as good as a better one, more or less."""
_END = 2
"""Rounds before the end in which service for both is worth no more than what it pays."""
_SLIP = 0.03
"""How often a player breaks its own habit."""
_CHANCE = 0.05
"""Weight at first of a player who throws coins, and of one whose habit is yet to be learned."""
_OPEN_END = 10
"""Rounds that a player expects to be left where the prompt does not state it."""


@dataclass(frozen=True, slots=True)
class View:
    """What a bot sees; moves are 0 for A and 1 for B."""

    seat: int
    mine: dict[tuple[int, int], int]
    """Own points by (own move, other's move)."""
    theirs: dict[tuple[int, int], int]
    past: tuple[tuple[int, int], ...]
    """Past rounds: own move, other's move."""
    left: int
    """Rounds left, this one included."""
    talk: bool

    def generous(self) -> int:
        """The own move that leaves the other more."""
        return _better(
            sum(self.theirs[0, o] for o in (0, 1)), sum(self.theirs[1, o] for o in (0, 1))
        )

    def their_generous(self) -> int:
        """The other's move that leaves us more."""
        return _better(sum(self.mine[m, 0] for m in (0, 1)), sum(self.mine[m, 1] for m in (0, 1)))

    def serving(self, number: int) -> tuple[int, int]:
        """Own and the other's move of the round, counted from 0, that serve both best over time."""
        sums = {cell: points + self.theirs[cell] for cell, points in self.mine.items()}
        most = max(sums.values())
        best = [cell for cell, both in sums.items() if both == most]
        own_turn = number % 2 == self.seat
        return max(best, key=lambda cell: self.mine[cell] if own_turn else self.theirs[cell])

    def was_generous(self, rounds_ago: int) -> bool:
        """Whether the other was, that many rounds ago (1: the last one); True before the start."""
        if rounds_ago > len(self.past):
            return True
        return self.past[-rounds_ago][1] == self.their_generous()


def _better(of_a: int, of_b: int) -> int:
    return 0 if of_a >= of_b else 1


def read_view(text: str) -> View:
    """The game as read from an observation."""
    cells = {("AB".index(m), "AB".index(o)): (int(a), int(b)) for m, o, a, b in _CELL.findall(text)}
    if len(cells) != 4:
        raise ValueError("the text holds no table of the iterated dilemma")
    past = tuple(("AB".index(m), "AB".index(o)) for m, o in _ROUND.findall(text))
    of = _OF.search(text)
    left = int(of.group(2)) - int(of.group(1)) + 1 if of else _OPEN_END
    seat = _SEAT.search(text)
    return View(
        int(seat.group(1)) if seat else 0,
        {key: cell[0] for key, cell in cells.items()},
        {key: cell[1] for key, cell in cells.items()},
        past, left, "<action>say:" in text,
    )  # fmt: skip


def random_bot(rng: np.random.Generator) -> Callable[[str], str]:
    """Either move with equal chances."""

    def act(text: str) -> str:
        read_view(text)
        return _reply(int(rng.integers(2)))

    return act


def generous_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Always the generous move, and announces it."""

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
    """Serves both as long as the other does; then plans to the end against the habits that fit it.

    What serves both best is one cell of the table, or two in turns, `player_0`'s favourite first. It is
    left in the last rounds, and after the other has left it.
    """

    def act(text: str) -> str:
        view = read_view(text)
        served = all(both == view.serving(number) for number, both in enumerate(view.past))
        if served and view.left > _END:
            return _reply(view.serving(len(view.past))[0])
        of_a = of_b = 0.0
        for weight, answers in _likely_habits(view):
            planned = _plan(view, answers)
            of_a += weight * planned[0]
            of_b += weight * planned[1]
        # a little chance, so that two planners who miss each other do not do so for ever
        likely_b = 1 / (1 + np.exp(np.clip((of_a - of_b) / _DOUBT, -30, 30)))
        return _reply(int(rng.random() < likely_b))

    return act


_Context = tuple[int, int]
_Habit = dict[_Context | None, float]
"""Chance of the other's B after each round (own move, its move); before any round: None."""


def _likely_habits(view: View) -> list[tuple[float, _Habit]]:
    """Habits with their weights, which sum to 1."""
    habits = _habits(view)
    for number, (_, theirs) in enumerate(view.past):
        before = view.past[number - 1] if number else None
        habits = [
            (weight * (habit[before] if theirs else 1 - habit[before]), habit)
            for weight, habit in habits
        ]
    total = sum(weight for weight, _ in habits)
    return [(weight / total, habit) for weight, habit in habits]


def _habits(view: View) -> list[tuple[float, _Habit]]:
    """What players do who remember one round, each with the weight that it has at first."""
    generous, theirs = view.generous(), view.their_generous()
    own = [sum(view.theirs[m, o] for m in (0, 1)) for o in (0, 1)]
    mean = sum(own) / 4

    def repays(m: int, _: int) -> int:
        return theirs if m == generous else 1 - theirs

    def forgives_nothing(m: int, o: int) -> int:
        return theirs if (m, o) == (generous, theirs) else 1 - theirs

    def stays_with_a_win(m: int, o: int) -> int:
        return o if view.theirs[m, o] > mean else 1 - o

    answers = [
        (0.4, theirs, repays), (0.2, theirs, forgives_nothing), (0.1, theirs, stays_with_a_win),
        (0.1, theirs, lambda _m, _o: theirs), (0.05, 1 - theirs, lambda _m, _o: 1 - theirs),
        (0.15, _better(*own), lambda _m, _o: _better(*own)),
    ]  # fmt: skip
    found = [
        (weight, _certain(first, {(m, o): answer(m, o) for m in (0, 1) for o in (0, 1)}))
        for weight, first, answer in answers
    ]
    return [*found, (_CHANCE, dict.fromkeys(found[0][1], 0.5)), (_CHANCE, _learned(view))]


def _certain(first: int, answers: dict[_Context, int]) -> _Habit:
    """Probabilities of a fixed habit with rare slips."""
    habit: _Habit = {None: 1 - _SLIP if first else _SLIP}
    for context, move in answers.items():
        habit[context] = 1 - _SLIP if move else _SLIP
    return habit


def _learned(view: View) -> _Habit:
    """What it did most after each round so far; no habit is known before it has shown."""
    seen: dict[_Context, list[int]] = {(m, o): [] for m in (0, 1) for o in (0, 1)}
    for before, after in zip(view.past, view.past[1:], strict=False):
        seen[before].append(after[1])
    chances: _Habit = {None: 0.5}
    for context, found in seen.items():
        chances[context] = (1 + sum(found)) / (2 + len(found))
    return chances


def _plan(view: View, answers: _Habit) -> tuple[float, float]:
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
