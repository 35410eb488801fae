"""Public goods: four seats give tokens to a pot that grows and is shared by all, givers or not.

Mixed payoffs, simultaneous, paid round by round. A token given comes back as less than one to its
giver and as more than one to the four together. In the later rounds a seat may pay to cut another's
points by three times as much. The seed draws the tokens and the factor of the pot; the cut is limited
to a fifth of the tokens, so that no round can cost more than the best one pays.

A seat's outcome is its points over those of a lone free rider among three who give all, the most
there is, in [-1, 1]. With 20 tokens and factor 1.6: 44 points a round for the lone free rider, 32 if
all give all, 20 if nobody gives. Measured over 120 seeds: random bots among their like earn 0.57 (the
floor), who only keeps its tokens 0.70 among random bots but 0.42 among its like, givers among givers
0.77 (the optimum of the table), a lone free rider among them 1.0, among punishers 0.66; `strong` earns
0.64 among random bots and 0.74 among conditional givers.

A cut goes with the contribution in one action and answers the rounds before, which spares a second
turn in every round. The default move gives all: the selfish one would pay those who babble.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.messages import whole_number

SEATS = 4
CUT_FACTOR = 3
"""Points that the target loses for each point spent on a cut."""
UNIT = 40
"""Points are kept as whole numbers of fortieths: the factor has one decimal, the pot four sharers."""
LEAST_TOKENS, MOST_TOKENS = 10, 20
FACTORS = (14, 16, 18, 20, 22, 24)
"""Tenths."""


class Gift(NamedTuple):
    """What a seat does in one round."""

    tokens: int
    target: int = -1
    """Seat whose points are cut; -1 for nobody."""
    spent: int = 0
    """Points paid for the cut."""


class Pot(NamedTuple):
    """Immutable state."""

    tokens: int
    """That each seat has in every round."""
    factor: int
    """Tenths by which the pot grows."""
    rounds: tuple[tuple[Gift, ...], ...] = ()
    """Per round, all seats."""
    points: tuple[int, ...] = (0,) * SEATS
    """Per seat so far, in fortieths."""
    log: str = ""
    """The past rounds as every seat reads them."""


def round_points(tokens: int, factor: int, gifts: tuple[Gift, ...]) -> tuple[int, ...]:
    """Fortieths of a point that each seat has from one round.

    Args:
        tokens: of each seat.
        factor: of the pot, in tenths.
        gifts: of all seats.
    """
    share = factor * sum(gift.tokens for gift in gifts)
    lost = [0] * SEATS
    for gift in gifts:
        if gift.spent:
            lost[gift.target] += CUT_FACTOR * gift.spent
    return tuple(
        share + UNIT * (tokens - gift.tokens - gift.spent - cut)
        for gift, cut in zip(gifts, lost, strict=True)
    )


class PublicGoods(Game[Pot, Gift]):
    """Observation: rules, past rounds. Action: tokens to give, later also ``cut P2 3``.

    Args:
        rounds: 1 to 12.
        cuts_from: first round in which cuts are possible, 1 to 12; 0 for none at all.

    Raises:
        ConfigError: a value is out of range.
    """

    seats = SEATS
    mode = "mixed"
    simultaneous = True
    max_action_chars = 32

    def __init__(self, *, rounds: int = 8, cuts_from: int = 5) -> None:
        for name, value, low in (("rounds", rounds, 1), ("cuts_from", cuts_from, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 12:
                raise ConfigError(f"public_goods: {name}={value!r}; give {low} to 12.")
        self.max_turns, self.cuts_from = rounds, cuts_from
        self.max_observation_chars = 1500 + 240 * rounds
        self._rules = self._write_rules()

    def _write_rules(self) -> str:
        text = (
            f"Four players, P1 to P4, share a pot for {self.max_turns} rounds. In every round each "
            "gets tokens and says how many it gives to the pot; it keeps the rest.\n"
            "The pot is multiplied and split into four equal parts, one for each player, whoever "
            "gave.\nYour points are the tokens you keep and your part of the pot. Only your own "
            "points count for you.\n"
            "Reply with the tokens you give, like this: <action>7</action>\n"
        )
        if 0 < self.cuts_from <= self.max_turns:
            text += (
                f"From round {self.cuts_from} on you may also pay points to cut another player's: "
                f"each point you pay takes {CUT_FACTOR} from that player.\n"
                "To give 7 tokens and pay 2 points against P3: <action>7 cut P3 2</action>\n"
            )
        return text + "\n"

    def new(self, streams: Streams) -> Pot:
        """Draw the tokens and the factor."""
        rng = streams.instance
        tokens = int(rng.integers(LEAST_TOKENS, MOST_TOKENS + 1))
        return Pot(tokens, FACTORS[int(rng.integers(len(FACTORS)))])

    def to_move(self, state: Pot) -> tuple[int, ...]:
        """All seats until the last round is played."""
        return (0, 1, 2, 3) if len(state.rounds) < self.max_turns else ()

    def observe(self, state: Pot, seat: int) -> str:
        """Rules, tokens and factor, past rounds, and the round to come."""
        head = (
            f"You are P{seat + 1}. Tokens in every round: {state.tokens}. The pot is multiplied by "
            f"{state.factor / 10}.\n"
        )
        return f"{self._rules}{head}{state.log}{self._status(state, seat)}\n"

    def _status(self, state: Pot, seat: int) -> str:
        number = len(state.rounds) + 1
        text = f"Your points so far: {state.points[seat] / UNIT:g}."
        if number > self.max_turns:
            return f"{text} It is over."
        text += f" Round {number} of {self.max_turns}: give 0 to {state.tokens} tokens"
        if self._cuts(state):
            text += f"; a cut may cost 1 to {largest_cut(state)} points"
        return f"{text}."

    def _cuts(self, state: Pot) -> bool:
        return 0 < self.cuts_from <= len(state.rounds) + 1

    def parse(self, state: Pot, seat: int, body: str) -> Gift:
        """Tokens to give, and where cuts are possible optionally ``cut P3 2``."""
        words = body.split()
        example = "7 or 7 cut P3 2" if self._cuts(state) else "7"
        tokens = whole_number(words[0], 0, state.tokens) if words else None
        if tokens is None:
            raise IllegalMoveError(
                f"it must start with a whole number from 0 to {state.tokens}, for example {example}"
            )
        if len(words) == 1:
            return Gift(tokens)
        require_action(self._cuts(state), "only a number of tokens is possible now, for example 7")
        require_action(len(words) == 4 and words[1] == "cut", f"write it like {example}")
        names = [f"P{other + 1}" for other in range(SEATS) if other != seat]
        require_action(words[2] in names, f"you can cut one of {', '.join(names)}")
        spent = whole_number(words[3], 1, largest_cut(state))
        if spent is None:
            raise IllegalMoveError(f"a cut costs a whole number from 1 to {largest_cut(state)}")
        return Gift(tokens, int(words[2][1]) - 1, spent)

    def apply(self, state: Pot, actions: Mapping[int, Gift]) -> Pot:
        """All gifts and cuts come out together."""
        gifts = (actions[0], actions[1], actions[2], actions[3])
        gained = round_points(state.tokens, state.factor, gifts)
        return state._replace(
            rounds=(*state.rounds, gifts),
            points=tuple(a + b for a, b in zip(state.points, gained, strict=True)),
            log=f"{state.log}Round {len(state.rounds) + 1}: {_describe(gifts, gained)}\n",
        )

    def returns(self, state: Pot) -> tuple[float, ...] | None:
        """Points over those of a lone free rider."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Pot) -> tuple[float, ...]:
        """What the rounds so far add to the outcome."""
        scale = self._scale(state)
        first, second, third, fourth = state.points
        return first / scale, second / scale, third / scale, fourth / scale

    def _scale(self, state: Pot) -> int:
        most = UNIT * state.tokens + state.factor * (SEATS - 1) * state.tokens
        return self.max_turns * most

    def forfeit(self, state: Pot, seat: int) -> tuple[float, ...]:
        """-1 for the seat; the others keep their tokens in the rounds that are left."""
        left = self.max_turns - len(state.rounds)
        kept = left * UNIT * state.tokens
        scale = self._scale(state)
        return tuple(
            -1.0 if other == seat else (state.points[other] + kept) / scale
            for other in range(SEATS)
        )

    def fallback(self, state: Pot, seat: int) -> str:
        """All tokens: the seat's own worst gift, so that nonsense never pays."""
        return str(state.tokens)

    def sample(self, state: Pot, seat: int, rng: np.random.Generator) -> str:
        """Any number of tokens; a cut of any other seat one time in four where it is possible."""
        body = str(rng.integers(state.tokens + 1))
        if self._cuts(state) and rng.random() < 0.25:
            other = (seat + 1 + int(rng.integers(SEATS - 1))) % SEATS
            body += f" cut P{other + 1} {rng.integers(1, largest_cut(state) + 1)}"
        return body

    def components(self, state: Pot, seat: int) -> Mapping[str, float]:
        """Shares of the tokens given, spent on cuts and lost to cuts; and the table's ``welfare``.

        ``welfare`` is the points of all seats over those they have when all give all.
        """
        gifts = [gift for every in state.rounds for gift in every]
        budget = max(len(state.rounds), 1) * state.tokens
        mine = [every[seat] for every in state.rounds]
        best = max(len(state.rounds), 1) * SEATS * state.factor * SEATS * state.tokens
        suffered = sum(CUT_FACTOR * gift.spent for gift in gifts if gift.target == seat)
        return {
            "contribution": sum(gift.tokens for gift in mine) / budget,
            "punishing": sum(gift.spent for gift in mine) / budget,
            "punished": suffered / budget,
            "welfare": sum(state.points) / best,
        }

    def encode(self, state: Pot) -> Any:
        """Lists of numbers."""
        rounds = [[list(gift) for gift in gifts] for gifts in state.rounds]
        return [state.tokens, state.factor, rounds, list(state.points), state.log]

    def decode(self, data: Any) -> Pot:
        """The inverse of `encode`."""
        tokens, factor, rounds, points, log = data
        return Pot(
            tokens,
            factor,
            tuple(tuple(Gift(*gift) for gift in gifts) for gifts in rounds),
            tuple(points),
            log,
        )


def largest_cut(state: Pot) -> int:
    """Most points that a seat may pay for a cut in one round."""
    return state.tokens // 5


def _describe(gifts: tuple[Gift, ...], gained: tuple[int, ...]) -> str:
    """One round in words: what every seat gave, who cut whom, what every seat got."""
    given = ", ".join(f"P{seat} {gift.tokens}" for seat, gift in enumerate(gifts, 1))
    cuts = "".join(
        f"P{seat} cut P{gift.target + 1} by {CUT_FACTOR * gift.spent}; "
        for seat, gift in enumerate(gifts, 1)
        if gift.spent
    )
    got = ", ".join(f"P{seat} {points / UNIT:g}" for seat, points in enumerate(gained, 1))
    return f"given by {given}; {cuts}points: {got}."
