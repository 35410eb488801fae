"""Undercover: five seats hint at their words in turn, and vote for the one whose word is another.

Mixed payoffs. Four seats hold one word, one seat a related word; nobody is told on which side it is. In
each of two rounds every seat still in gives a short hint, one after the other, and then all vote at the
same moment. Who gets most votes is out; a tie removes nobody. The game ends when the odd one is out,
or after the second vote.

The odd one gets -1 if it is voted out, else +1; each of the others gets 0.25 or -0.25, and as much
as 0.25 more for the share of its own votes that went to the odd one, so that a seat in a hopeless
round still gains by thinking. Outcomes lie in [-1, 1] and do not sum to 0.

Hints at the same moment would let all say their first letter, so seats speak in turn. A sentence copied
from the speaker before would hide the odd one at no cost, so a hint may use no word again. A plurality
decides, as a majority of five hardly ever meets. A hint that names the word is an illegal reply like any
other; nobody is voted out for it.

Copies of one policy could hint by a code for their word, which earns a team 0.07 more than strong bots (the
red team's, `srl_envs.redteam.readers.codes`). So a score is what one seat earns among strangers, where the
same code earns 0.12 less: boards, gains of learners, balance and the red team seat one copy of a policy.

Measured over 400 games, each with an interval of 0.06 either way: among four middle bots, who tell the
truth and vote by their own word, a random one earns -0.07 (the floor), a silent one 0.08, a fifth middle
one 0.14, the strong bot, which notices when it is the odd one, 0.29; there is no exact oracle (1 is the
most for the odd one, 0.5 for the others). Among strong bots a random one earns -0.18, a silent one -0.06, a
strong one 0.11. Among random bots there is nothing to reason from, and the strong one earns what they do,
0.09.

Instances are held out by their words: words that pairs of the list join, directly or over others, are in one
split, so no seat holds the same word in both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Split, Streams, require_action, seat_name, split_of_instance
from srl_envs.errors import ConfigError
from srl_envs.lexicon import associations, undercover_pairs

SEATS = 5
MAX_HINT_WORDS = 4
MAX_HINT_CHARS = 40
SHARED_LETTERS = 4
"""A hint may hold no part of the own word that is as long as this."""
SILENCE = "-"
"""The hint of a seat that gives none."""
FUNCTION_WORDS = frozenset(
    {"and", "are", "can", "for", "from", "has", "its", "not", "one", "some", "that", "the", "this",
     "with", "you"}
)  # fmt: skip
"""Words that hints may repeat."""
ODD_PAY, TEAM_PAY, VOTE_PAY = 1.0, 0.25, 0.25

_SEATS = {seat_name(seat): seat for seat in range(SEATS)}
_VOTE = re.compile(r"(?:(?:i |my )?vote(?: is)?(?: for)?:? )?(?:player[_ ]?)?([0-9])")
_HINT = re.compile(rf"[a-z]+(?: [a-z]+){{0,{MAX_HINT_WORDS - 1}}}")


class Hint(NamedTuple):
    """Hint of one seat."""

    round: int
    seat: int
    text: str


class Party(NamedTuple):
    """Immutable state."""

    words: tuple[str, str]
    """Word of the majority, and word of the odd one."""
    odd: int
    order: tuple[int, ...]
    """Order in which the seats speak in the first round; the next rounds begin further on."""
    hints: tuple[Hint, ...] = ()
    votes: tuple[tuple[int, ...], ...] = ()
    """Per vote and seat: whom it named; -1 for a seat that was out."""
    out: tuple[int, ...] = ()
    """Seats that were voted out."""
    log: str = ""
    """Hints and votes in words; the same for all seats."""


Move = str | int
"""A hint, or the seat that is voted for."""


def word_of(state: Party, seat: int) -> str:
    """The word that a seat holds."""
    return state.words[1] if seat == state.odd else state.words[0]


def speakers(state: Party) -> list[int]:
    """The seats that speak in the present round, in order."""
    turn = 2 * len(state.votes) % SEATS
    return [seat for seat in state.order[turn:] + state.order[:turn] if seat not in state.out]


def said_now(state: Party) -> int:
    """Number of hints in the present round."""
    return sum(hint.round == len(state.votes) for hint in state.hints)


def voted_out(votes: Sequence[int]) -> int | None:
    """The seat that most votes name; None where two or more lead."""
    counts = [0] * SEATS
    for named in votes:
        if named >= 0:
            counts[named] += 1
    most = max(counts)
    return counts.index(most) if counts.count(most) == 1 else None


def payoffs(state: Party) -> tuple[float, ...]:
    """Outcome per seat of a game that is over."""
    caught = state.odd in state.out
    paid = []
    for seat in range(SEATS):
        if seat == state.odd:
            paid.append(-ODD_PAY if caught else ODD_PAY)
            continue
        cast = [vote[seat] for vote in state.votes if vote[seat] >= 0]
        right = cast.count(state.odd) / len(cast)
        paid.append((TEAM_PAY if caught else -TEAM_PAY) + VOTE_PAY * right)
    return tuple(paid)


def gives_away(text: str, word: str) -> bool:
    """Whether a hint holds the word, or so long a part of it, spaces left out."""
    joined = text.replace(" ", "")
    size = min(len(word), SHARED_LETTERS)
    return any(word[at : at + size] in joined for at in range(len(word) - size + 1))


def said_words(state: Party) -> set[str]:
    """Words that no hint may use again."""
    said = {word for hint in state.hints for word in hint.text.split()}
    return {word for word in said if len(word) > 2} - FUNCTION_WORDS


@cache
def related_words(word: str) -> frozenset[str]:
    """All words that are joined to ``word`` by pairs of the list, over others too."""
    reached, new = {word}, [word]
    while new:
        at = new.pop()
        for pair in undercover_pairs():
            if at in pair:
                new += {*pair} - reached
                reached |= {*pair}
    return frozenset(reached)


@cache
def pairs_of(split: Split) -> tuple[tuple[str, str], ...]:
    """The pairs of one split. Words that pairs join stay together, so no word is in both."""
    return tuple(
        pair
        for pair in undercover_pairs()
        if split_of_instance(sorted(related_words(pair[0]))) == split
    )


class Undercover(Game[Party, Move]):
    """Observation: rules, the own word, hints and votes so far. Action: a hint, or ``player_3``.

    Args:
        rounds: rounds of hints, each with a vote: 1 to 3.

    Raises:
        ConfigError: the number is out of range.
    """

    seats = SEATS
    mode = "mixed"
    max_action_chars = 80
    max_observation_chars = 3072

    def __init__(self, *, rounds: int = 2) -> None:
        if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= 3:
            raise ConfigError(f"undercover: rounds={rounds!r}; give 1 to 3.")
        self.rounds = rounds
        self.max_turns = rounds * (SEATS + 1)
        self._rules = (
            f"Undercover: {SEATS} players each hold a word. Four hold the same word; the odd one holds "
            "another that is much like it. Nobody is told who is the odd one, not even the odd one.\n"
            "In each round every player in turn gives a hint at its word; then all vote at the same "
            "time. The player with most votes is out; with a tie nobody is. The game ends when the odd "
            f"one is out, or after {rounds} {'round' if rounds == 1 else 'rounds'}.\n"
            f"A hint has 1 to {MAX_HINT_WORDS} words. It must not contain your word, {SHARED_LETTERS} "
            "letters of it in a row, or a word of an earlier hint.\n"
            f"Payoff: the odd one gets {ODD_PAY:g}, or -{ODD_PAY:g} if it is voted out. Each of the "
            f"others gets {TEAM_PAY} if the odd one is voted out, else -{TEAM_PAY}, plus {VOTE_PAY} "
            "times the share of its own votes that named the odd one.\n"
            "Reply with a hint, like this: <action>found in water</action>, or, when all vote, with a "
            f"player, like this: <action>{seat_name(3)}</action>. <action>{SILENCE}</action> gives no "
            "hint.\n\n"
        )
        self._heads = tuple(
            f"{self._rules}You are {seat_name(n)}. Your word: " for n in range(SEATS)
        )

    def new(self, streams: Streams) -> Party:
        """Draw the pair and which of it is the odd word; seat and order come from the seats' stream."""
        rng, pairs = streams.instance, pairs_of(streams.split)
        first, second = pairs[int(rng.integers(len(pairs)))]
        words = (first, second) if rng.integers(2) else (second, first)
        odd = int(streams.seats.integers(SEATS))
        return Party(words, odd, tuple(int(seat) for seat in streams.seats.permutation(SEATS)))

    def _over(self, state: Party) -> bool:
        return state.odd in state.out or len(state.votes) == self.rounds

    def to_move(self, state: Party) -> tuple[int, ...]:
        """The next to speak; all who are still in for the vote."""
        if self._over(state):
            return ()
        order, said = speakers(state), said_now(state)
        return (order[said],) if said < len(order) else tuple(sorted(order))

    def observe(self, state: Party, seat: int) -> str:
        """Rules, the own word, hints and votes, and what is to do."""
        return (
            f"{self._heads[seat]}{word_of(state, seat)}\n{state.log}{self._status(state, seat)}\n"
        )

    def _status(self, state: Party, seat: int) -> str:
        if self._over(state):
            return (
                f"The game is over. The odd one was {seat_name(state.odd)} with {state.words[1]}; the "
                f"others had {state.words[0]}."
            )
        if seat in state.out:
            return "You are out; wait for the end."
        order, said = speakers(state), said_now(state)
        if said == len(order):
            others = ", ".join(seat_name(other) for other in sorted(order) if other != seat)
            return f"Vote now: who is the odd one? Choose from {others}."
        if order[said] != seat:
            return "Wait for the others."
        return f"Round {len(state.votes) + 1} of {self.rounds}: give your hint."

    def parse(self, state: Party, seat: int, body: str) -> Move:
        """A hint in lower case, or the seat that is voted for."""
        order = speakers(state)
        if said_now(state) == len(order):
            others = [other for other in sorted(order) if other != seat]
            vote = _SEATS.get(body, -1)
            if vote < 0 and (named := _VOTE.fullmatch(" ".join(body.lower().split()))):
                vote = int(named.group(1))
            require_action(vote in others, f"name one of {', '.join(map(seat_name, others))}")
            return vote
        text = " ".join(body.lower().split())
        if text == SILENCE:
            return text
        require_action(
            len(text) <= MAX_HINT_CHARS and _HINT.fullmatch(text) is not None,
            f"a hint has 1 to {MAX_HINT_WORDS} words of letters a-z, at most {MAX_HINT_CHARS} "
            "characters",
        )
        require_action(
            not gives_away(text, word_of(state, seat)),
            f"your hint contains your word {word_of(state, seat)!r} or a part of it",
        )
        require_action(
            all(len(part) > 1 or part in "ai" for part in text.split()),
            "letters that stand alone are no words",
        )
        again = sorted(said_words(state).intersection(text.split()))
        require_action(not again, f"{', '.join(again)} was used before; use other words")
        return text

    def apply(self, state: Party, actions: Mapping[int, Move]) -> Party:
        """Note a hint, or count the votes."""
        order = speakers(state)
        if said_now(state) < len(order):
            ((seat, text),) = actions.items()
            hint = Hint(len(state.votes), seat, str(text))
            line = f'Round {hint.round + 1}, {seat_name(seat)}: "{hint.text}"\n'
            return state._replace(hints=(*state.hints, hint), log=state.log + line)
        votes = tuple(int(actions[seat]) if seat in actions else -1 for seat in range(SEATS))
        gone = voted_out(votes)
        cast = [(s, v) for s, v in enumerate(votes) if v >= 0]
        named = ", ".join(f"{seat_name(s)} for {seat_name(v)}" for s, v in cast)
        number = len(state.votes) + 1
        if gone is None:
            line = f"Vote {number}: {named}. A tie: nobody is out.\n"
        else:
            what = "the odd one" if gone == state.odd else "not the odd one"
            line = f"Vote {number}: {named}. {seat_name(gone)} is out and was {what}.\n"
        out = state.out if gone is None else (*state.out, gone)
        return state._replace(votes=(*state.votes, votes), out=out, log=state.log + line)

    def returns(self, state: Party) -> tuple[float, ...] | None:
        """See `payoffs`."""
        return payoffs(state) if self._over(state) else None

    def legal(self, state: Party, seat: int) -> Sequence[str] | None:
        """The seats that may be voted for; hints are too many to list."""
        order = speakers(state)
        if said_now(state) < len(order):
            return None
        return [seat_name(other) for other in sorted(order) if other != seat]

    def fallback(self, state: Party, seat: int) -> str:
        """No hint; a vote for the next player who is still in."""
        order = speakers(state)
        if said_now(state) < len(order):
            return SILENCE
        others = ((seat + step) % SEATS for step in range(1, SEATS))
        return seat_name(next(other for other in others if other in order))

    def sample(self, state: Party, seat: int, rng: np.random.Generator) -> str:
        """A random clue of the association table, or a random vote."""
        names = self.legal(state, seat)
        if names is not None:
            return names[int(rng.integers(len(names)))]
        return random_hint(word_of(state, seat), said_words(state), rng)

    def components(self, state: Party, seat: int) -> Mapping[str, float]:
        """``odd``, ``caught``, ``out``: 1 or 0; ``votes_right``: how many votes named the odd one."""
        right = sum(vote[seat] == state.odd for vote in state.votes)
        return {
            "odd": float(seat == state.odd),
            "caught": float(state.odd in state.out),
            "out": float(seat in state.out),
            "votes_right": float(right),
        }

    def swap_hidden(self, state: Party, seat: int, other: Party) -> Party:
        """The other word, who has it, and who speaks first where another seat does."""
        odd, own = state.odd if other.odd in state.out else other.odd, word_of(state, seat)
        words = (other.words[0], own) if odd == seat else (own, other.words[1])
        order_known = state.hints or seat in (state.order[0], other.order[0])
        return state._replace(
            words=words, odd=odd, order=state.order if order_known else other.order
        )

    def encode(self, state: Party) -> Any:
        """Lists, texts and numbers."""
        return [
            list(state.words), state.odd, list(state.order), [list(hint) for hint in state.hints],
            [list(vote) for vote in state.votes], list(state.out), state.log,
        ]  # fmt: skip

    def decode(self, data: Any) -> Party:
        """The inverse of `encode`."""
        words, odd, order, hints, votes, out, log = data
        return Party(
            (words[0], words[1]), odd, tuple(order), tuple(Hint(*hint) for hint in hints),
            tuple(tuple(vote) for vote in votes), tuple(out), log,
        )  # fmt: skip


def random_hint(word: str, said: set[str], rng: np.random.Generator) -> str:
    """A random clue of the association table that is legal for a seat with ``word``."""
    clues = list(associations())
    for _ in range(len(clues)):
        clue = clues[int(rng.integers(len(clues)))]
        if clue not in said and not gives_away(clue, word):
            return clue
    return SILENCE
