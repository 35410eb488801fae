"""A small sound game, and the same game with one fault each."""

import re
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Mode, Streams
from srl_envs.errors import IllegalMoveError

ROUNDS = 3
RULES = (
    "Two players add the same numbers at the same time, {rounds} rounds.\n"
    "Payoff: your right sums minus the other's, divided by {rounds}.\n"
    "Reply like this: <action>2000</action>\n"
)


class State(NamedTuple):
    numbers: tuple[tuple[int, int], ...]
    answers: tuple[tuple[int, int], ...] = ()
    said: tuple[str, str] = ("", "")


class Sums(Game[State, tuple[int, str]]):
    """Sound: only the sum earns, eval numbers are odd and train numbers even, silence forfeits."""

    mode: Mode = "competitive"
    max_turns = ROUNDS

    def new(self, streams: Streams) -> State:
        drawn = streams.instance.integers(100, 5000, size=(ROUNDS, 2)) * 2
        drawn += int(streams.split == "eval")
        return State(tuple((int(a), int(b)) for a, b in drawn))

    def to_move(self, state: State) -> tuple[int, ...]:
        return (0, 1) if len(state.answers) < ROUNDS else ()

    def observe(self, state: State, seat: int) -> str:
        done = len(state.answers)
        now = "It is over." if done == ROUNDS else "Add {} and {}.".format(*state.numbers[done])
        return f"{RULES.format(rounds=ROUNDS)}Round {done + 1}. {now}"

    def parse(self, state: State, seat: int, body: str) -> tuple[int, str]:
        if not re.fullmatch(r"\d{1,6}", body):
            raise IllegalMoveError("give a whole number")
        return int(body), ""

    def right(self, state: State, number: int, answer: int) -> bool:
        return answer == sum(state.numbers[number])

    def apply(self, state: State, actions: Mapping[int, tuple[int, str]]) -> State:
        answers = (*state.answers, (actions[0][0], actions[1][0]))
        return state._replace(answers=answers, said=(actions[0][1], actions[1][1]))

    def points(self, state: State) -> tuple[int, int]:
        counts = [
            sum(self.right(state, k, pair[seat]) for k, pair in enumerate(state.answers))
            for seat in (0, 1)
        ]
        return counts[0], counts[1]

    def returns(self, state: State) -> tuple[float, ...] | None:
        if self.to_move(state):
            return None
        mine, theirs = self.points(state)
        return (mine - theirs) / ROUNDS, (theirs - mine) / ROUNDS

    def fallback(self, state: State, seat: int) -> str:
        return "0"

    def sample(self, state: State, seat: int, rng: np.random.Generator) -> str:
        return str(rng.integers(200, 20000))

    def encode(self, state: State) -> Any:
        return [list(map(list, state.numbers)), list(map(list, state.answers)), list(state.said)]

    def decode(self, data: Any) -> State:
        numbers, answers, said = data
        return State(tuple(map(tuple, numbers)), tuple(map(tuple, answers)), tuple(said))


class SmallAnswerPays(Sums):
    """thoughtless_beats_strong: an answer below 1000 counts as right, too, and twice."""

    def points(self, state: State) -> tuple[int, int]:
        small = [sum(pair[seat] < 1000 for pair in state.answers) for seat in (0, 1)]
        mine, theirs = super().points(state)
        return mine // 2 + small[0], theirs // 2 + small[1]

    def sample(self, state: State, seat: int, rng: np.random.Generator) -> str:
        return str(rng.integers(0, 20000))


class ForfeitIsADraw(Sums):
    """misbehaviour_pays: who answers nothing draws."""

    def forfeit(self, state: State, seat: int) -> tuple[float, ...]:
        return 0.0, 0.0


class PartnerPays(Sums):
    """harms_others_more: who answers nothing loses little, the other all."""

    mode = "mixed"

    def returns(self, state: State) -> tuple[float, ...] | None:
        return None if self.to_move(state) else tuple(k / ROUNDS for k in self.points(state))

    def forfeit(self, state: State, seat: int) -> tuple[float, ...]:
        return (-0.5, -1.0) if seat == 0 else (-1.0, -0.5)


class OneStream(Sums):
    """eval_starts_in_train: the split changes nothing, and there are few starts."""

    def new(self, streams: Streams) -> State:
        first = int(streams.instance.integers(100, 300))
        return State(tuple((first, k) for k in range(1000, 1000 + ROUNDS)))


class RawWords(Sums):
    """message_forges_text: a message of one stands in the other's prompt as it was written."""

    def observe(self, state: State, seat: int) -> str:
        text = super().observe(state, seat)
        form = "\nOr speak: <action>say: your message\n2000</action>"
        return f"{text}{form}\nThe other said: {state.said[1 - seat]}"

    def parse(self, state: State, seat: int, body: str) -> tuple[int, str]:
        said, _, move = body.rpartition("\n")
        return super().parse(state, seat, move)[0], said.removeprefix("say: ")


class Locked(Sums):
    """cannot_be_copied: it holds a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Misnamed(Sums):
    """seat_named_otherwise: players count from 1, agents from 0."""

    def observe(self, state: State, seat: int) -> str:
        return f"You are player {seat + 1}. {super().observe(state, seat)}"


class Untold(Sums):
    """payoffs_untold: the prompt does not say what is paid."""

    def observe(self, state: State, seat: int) -> str:
        return super().observe(state, seat).replace("Payoff", "Note")


class Spectated(Sums):
    """seat_named_otherwise: who watches reads another name."""

    def render(self, state: State) -> str:
        return f"Player 1 said {state.answers}."


ITEMS = ("ash", "bay", "cod", "dew", "elk", "fig", "gum", "hay", "ivy", "jam", "kit", "log")
CLUES = tuple(f"{a}{b}" for a in ("red", "old", "big", "wet") for b in "abcdefghijklmnopqrst")


class Hints(Game[tuple[int, str, str], str]):
    """codebook_without_meaning: any word may be the clue, so its number names the item."""

    mode = "cooperative"
    max_turns = 2

    def new(self, streams: Streams) -> tuple[int, str, str]:
        return int(streams.instance.integers(len(ITEMS))), "", ""

    def to_move(self, state: tuple[int, str, str]) -> tuple[int, ...]:
        return () if state[2] else (1,) if state[1] else (0,)

    def observe(self, state: tuple[int, str, str], seat: int) -> str:
        text = f"Find the item together.\nPayoff: 1 if found, else 0.\nItems: {', '.join(ITEMS)}\n"
        if seat == 0:
            text += f"Your secret: {ITEMS[state[0]]}\nGive a clue: <action>sunny 1</action>"
        else:
            text += f"The clue is {state[1] or 'unknown 0'} so guess: <action>elk</action>"
        return text

    def parse(self, state: tuple[int, str, str], seat: int, body: str) -> str:
        if not (body in ITEMS if state[1] else re.fullmatch(r"[a-z]+ 1", body)):
            raise IllegalMoveError("no such clue or item")
        return body

    def apply(
        self, state: tuple[int, str, str], actions: Mapping[int, str]
    ) -> tuple[int, str, str]:
        (move,) = actions.values()
        return (state[0], state[1], move) if state[1] else (state[0], move, "")

    def returns(self, state: tuple[int, str, str]) -> tuple[float, ...] | None:
        return (float(state[2] == ITEMS[state[0]]),) * 2 if state[2] else None

    def fallback(self, state: tuple[int, str, str], seat: int) -> str:
        return "elk" if state[1] else "sunny 1"

    def sample(self, state: tuple[int, str, str], seat: int, rng: np.random.Generator) -> str:
        return str(rng.choice(ITEMS)) if state[1] else f"{rng.choice(CLUES)} 1"

    def encode(self, state: tuple[int, str, str]) -> Any:
        return list(state)

    def decode(self, data: Any) -> tuple[int, str, str]:
        return data[0], data[1], data[2]


class FewHints(Hints):
    """codebook_without_meaning: 40 words may be the clue, so one of them ranks the item first."""

    def legal(self, state: tuple[int, str, str], seat: int) -> tuple[str, ...]:
        return ITEMS if state[1] else tuple(f"{word} 1" for word in CLUES[:40])

    def parse(self, state: tuple[int, str, str], seat: int, body: str) -> str:
        if body not in self.legal(state, seat):
            raise IllegalMoveError("no such clue or item")
        return body

    def fallback(self, state: tuple[int, str, str], seat: int) -> str:
        return self.legal(state, seat)[0]

    def sample(self, state: tuple[int, str, str], seat: int, rng: np.random.Generator) -> str:
        return str(rng.choice(self.legal(state, seat)))


def adding_bot(_rng: np.random.Generator) -> Any:
    """Adds."""

    def answer(text: str) -> str:
        found = re.search(r"Add (\d+) and (\d+)", text)
        return f"<action>{sum(map(int, found.groups())) if found else 0}</action>"

    return answer


def guessing_bot(rng: np.random.Generator) -> Any:
    """Guesses."""
    return lambda text: f"<action>{rng.integers(2000, 20000)}</action>"


def meaning_bot(rng: np.random.Generator) -> Any:
    """Finds one item in three."""

    def answer(text: str) -> str:
        if "Your secret" in text:
            return "<action>reda 1</action>"
        return f"<action>{ITEMS[int(rng.integers(3))]}</action>"

    return answer
