"""Public goods: four seats give tokens to a pot that grows and is shared by all, givers or not.

Mixed payoffs, simultaneous, paid round by round. The seed draws the tokens, what a cut takes, and the
factor of the pot in every round, all shown from the start. In a poor round the factor is below 4: a
token given comes back as less than one to its giver and as more than one to the four together. In a
rich round it is above 4, and giving pays the giver as well. The first round of several is rich, so who
keeps its tokens there shows that it does not look at the numbers. In the later rounds a seat may
pay to cut another's points; a cut takes at most six tenths of the tokens.

A seat's outcome is its points over a par, in [-1, 1]. Par is the most that one seat can have: in every
poor round what a lone free rider has among three who give all, in every rich one what all have who give
all. Measured over 200 seeds: random bots among their like earn 0.58; who gives only in rich rounds 0.69
among its like, 0.75 among `strong` and 0.78 among `punisher`; `strong` 0.91 among its like and among
`punisher`, 0.64 among random bots.

A cut goes with the contribution in one action and answers the rounds before, which spares a second
turn in every round. The default move gives all: the selfish one would pay those who babble. Eval
instances are held out by tokens, cut and factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams, require_action, seat_name
from srl_envs.draws import Draws
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.dilemmas.one_number import one_number
from srl_envs.messages import whole_number

SEATS = 4
UNIT = 40
"""Points are kept as whole numbers of fortieths: the factor has one decimal, the pot four sharers."""
_NAMES = tuple(map(seat_name, range(SEATS)))
LEAST_TOKENS, MOST_TOKENS = 8, 24
EFFECTS = (2, 3, 4)
"""Points that the target loses for each point spent on a cut."""
POOR = tuple(range(14, 30, 2))
"""Factors of rounds in which a giver loses, in tenths."""
RICH = tuple(range(46, 64, 2))
"""Factors of rounds in which a giver gains, in tenths."""
MOST_CUT = MOST_TOKENS * 6 // (10 * EFFECTS[0])
"""Points of the dearest cut of all episodes."""


class Gift(NamedTuple):
    """Move of a seat in one round."""

    tokens: int
    target: int = -1
    """Seat whose points are cut; -1 for none."""
    spent: int = 0
    """Points paid for the cut."""


class Terms(NamedTuple):
    """Parameters of an episode."""

    tokens: int
    """Tokens of each seat in every round."""
    effect: int
    """Points that a cut takes for each point paid; 0 where cuts are never possible."""
    factors: tuple[int, ...]
    """Per round, tenths by which the pot grows."""


class Pot(NamedTuple):
    """Immutable state."""

    terms: Terms
    rounds: tuple[tuple[Gift, ...], ...] = ()
    """Gifts of all seats, per round."""
    points: tuple[int, ...] = (0,) * SEATS
    """Points of each seat so far, in fortieths."""
    log: str = ""
    """The past rounds as every seat reads them."""


def draw_terms(rng: Draws, rounds: int, cuts: bool) -> Terms:
    """Tokens, cut and factors; of several rounds the first is rich, and a fourth of the others."""
    tokens = rng.integers(LEAST_TOKENS, MOST_TOKENS + 1)
    effect = EFFECTS[rng.integers(len(EFFECTS))] if cuts else 0
    kinds = [RICH if rounds > 1 else POOR]
    kinds += [POOR if rng.integers(4) else RICH for _ in range(rounds - 1)]
    return Terms(tokens, effect, tuple(kind[rng.integers(len(kind))] for kind in kinds))


def round_points(tokens: int, factor: int, effect: int, gifts: tuple[Gift, ...]) -> tuple[int, ...]:
    """Fortieths of a point that each seat has from one round.

    Args:
        tokens: of each seat.
        factor: of the pot, in tenths.
        effect: points that a cut takes for each point paid.
        gifts: of all seats.
    """
    share = factor * sum(gift.tokens for gift in gifts)
    lost = [0] * SEATS
    for gift in gifts:
        if gift.spent:
            lost[gift.target] += effect * gift.spent
    return tuple(
        share + UNIT * (tokens - gift.tokens - gift.spent - cut)
        for gift, cut in zip(gifts, lost, strict=True)
    )


@lru_cache(maxsize=1024)
def par(terms: Terms) -> int:
    """Fortieths of a point that are worth an outcome of 1: the most that one seat can have."""
    return terms.tokens * sum(
        max(UNIT + (SEATS - 1) * factor, SEATS * factor) for factor in terms.factors
    )


def largest_cut(terms: Terms) -> int:
    """Most points that a seat may pay for a cut in one round; 0 where there are none."""
    return terms.tokens * 6 // (10 * terms.effect) if terms.effect else 0


class PublicGoods(Game[Pot, Gift]):
    """Observation: rules, past rounds. Action: tokens to give, later also ``cut player_1 3``.

    Args:
        rounds: 1 to 12.
        cuts_from: first round in which cuts are possible, 1 to 12; 0 for none at all.

    Raises:
        ConfigError: a value is out of range.
    """

    seats = SEATS
    mode = "mixed"
    simultaneous = True
    max_action_chars = 64

    def __init__(self, *, rounds: int = 8, cuts_from: int = 5) -> None:
        for name, value, low in (("rounds", rounds, 1), ("cuts_from", cuts_from, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 12:
                raise ConfigError(f"public_goods: {name}={value!r}; give {low} to 12.")
        self.max_turns, self.cuts_from = rounds, cuts_from
        self._with_cuts = 0 < cuts_from <= rounds
        self.max_observation_chars = 1700 + 320 * rounds
        self._rules = self._write_rules()

    def _write_rules(self) -> str:
        text = (
            f"Four players share a pot for {self.max_turns} rounds. In each round each has TOKENS "
            "tokens, gives some of them to the pot and keeps the rest, all at the same moment.\n"
            "The pot is multiplied by the FACTOR of the round and split into four equal parts, one for "
            "each player, whoever gave.\n"
        )
        if self._with_cuts:
            text += (
                f"From round {self.cuts_from} on you may also pay points to cut another player's: each "
                "point you pay takes CUT points from that player.\n"
            )
        text += (
            "Payoff: your points / PAR. Your points are the tokens you keep and your parts of the pot"
            f"{', less cuts' if self._with_cuts else ''}. The others' points do not count for you.\n"
            "Reply with the tokens you give, like this: <action>1</action>\n"
        )
        if self._with_cuts:
            text += "To give 1 and pay 2 against player_3: <action>1 cut player_3 2</action>\n"
        return text + "\n"

    def new(self, streams: Streams) -> Pot:
        """Draw the terms."""
        rng = streams.draws("instance")
        return Pot(streams.held(lambda: draw_terms(rng, self.max_turns, self._with_cuts), tuple))

    def to_move(self, state: Pot) -> tuple[int, ...]:
        """All seats until the last round is played."""
        return (0, 1, 2, 3) if len(state.rounds) < self.max_turns else ()

    def observe(self, state: Pot, seat: int) -> str:
        """Rules, terms, past rounds, and the round to come."""
        head = _heading(state.terms, seat)
        return f"{self._rules}{head}{state.log}{self._status(state, seat)}\n"

    def _status(self, state: Pot, seat: int) -> str:
        number, terms = len(state.rounds) + 1, state.terms
        text = f"You have {state.points[seat] / UNIT:g} points.\n"
        if number > self.max_turns:
            return f"{text}It is over."
        text += f"Round {number} of {self.max_turns}, FACTOR {terms.factors[number - 1] / 10}: "
        if self._cuts(state):
            text += f"a cut may cost 1 to {largest_cut(terms)} points; "
        return f"{text}give 0 to {terms.tokens} tokens."

    def _cuts(self, state: Pot) -> bool:
        return 0 < self.cuts_from <= len(state.rounds) + 1

    def parse(self, state: Pot, seat: int, body: str) -> Gift:
        """Tokens to give, and where cuts are possible optionally ``cut player_1 2``."""
        most = state.terms.tokens
        bare_number = whole_number(body, 0, most)
        if bare_number is not None:
            return Gift(bare_number)
        cuts = self._cuts(state)
        gift, cut, target = body.lower().replace(",", " ").partition("cut")
        tokens = one_number(gift, 0, most)
        if tokens is None:
            example = "1 or 1 cut player_3 2" if cuts else "1"
            raise IllegalMoveError(
                f"it must start with a whole number from 0 to {most}, for example {example}"
            )
        if not cut:
            return Gift(tokens)
        require_action(cuts, "only a number of tokens is possible now, for example 1")
        words = target.replace(" by ", " ").split()
        require_action(len(words) == 2, "write a cut like 1 cut player_3 2")
        others = {seat_name(other): other for other in range(SEATS) if other != seat}
        name = words[0] if words[0].startswith("player_") else f"player_{words[0]}"
        require_action(name in others, f"you can cut one of {', '.join(others)}")
        dearest = largest_cut(state.terms)
        spent = whole_number(words[1].rstrip("."), 1, dearest)
        if spent is None:
            raise IllegalMoveError(f"a cut costs a whole number from 1 to {dearest}")
        return Gift(tokens, others[name], spent)

    def apply(self, state: Pot, actions: Mapping[int, Gift]) -> Pot:
        """Reveal and score all gifts and cuts."""
        gifts = (actions[0], actions[1], actions[2], actions[3])
        tokens, effect, factors = state.terms
        number = len(state.rounds)
        gained = round_points(tokens, factors[number], effect, gifts)
        return state._replace(
            rounds=(*state.rounds, gifts),
            points=tuple(a + b for a, b in zip(state.points, gained, strict=True)),
            log=f"{state.log}Round {number + 1}: {_describe(gifts, effect, gained)}\n",
        )

    def returns(self, state: Pot) -> tuple[float, ...] | None:
        """Points over par."""
        return None if self.to_move(state) else self.earned(state)

    def earned(self, state: Pot) -> tuple[float, ...]:
        """What the rounds so far add to the outcome."""
        scale = par(state.terms)
        first, second, third, fourth = state.points
        return first / scale, second / scale, third / scale, fourth / scale

    def forfeit(self, state: Pot, seat: int) -> tuple[float, ...]:
        """-1 for the seat; the others keep their tokens in the rounds that are left."""
        left = self.max_turns - len(state.rounds)
        kept = left * UNIT * state.terms.tokens
        scale = par(state.terms)
        return tuple(
            -1.0 if other == seat else (state.points[other] + kept) / scale
            for other in range(SEATS)
        )

    def fallback(self, state: Pot, seat: int) -> str:
        """All tokens: the seat's own worst gift in a poor round, so that nonsense does not pay."""
        return str(state.terms.tokens)

    def sample(self, state: Pot, seat: int, rng: np.random.Generator) -> str:
        """Any number of tokens; a cut of any other seat one time in four where it is possible."""
        body = str(rng.integers(state.terms.tokens + 1))
        if self._cuts(state) and rng.random() < 0.25:
            other = (seat + 1 + int(rng.integers(SEATS - 1))) % SEATS
            body += f" cut {seat_name(other)} {rng.integers(1, largest_cut(state.terms) + 1)}"
        return body

    def components(self, state: Pot, seat: int) -> Mapping[str, float]:
        """Shares of the tokens given, spent on cuts and lost to cuts; and the table's ``welfare``.

        ``welfare`` is the points of all seats over those they have when all give all.
        """
        tokens, effect, factors = state.terms
        gifts = [gift for every in state.rounds for gift in every]
        budget = max(len(state.rounds), 1) * tokens
        mine = [every[seat] for every in state.rounds]
        best = SEATS * SEATS * tokens * sum(factors[: max(len(state.rounds), 1)])
        suffered = sum(effect * gift.spent for gift in gifts if gift.target == seat)
        return {
            "contribution": sum(gift.tokens for gift in mine) / budget,
            "punishing": sum(gift.spent for gift in mine) / budget,
            "punished": suffered / budget,
            "welfare": sum(state.points) / best,
        }

    def encode(self, state: Pot) -> Any:
        """Lists of numbers."""
        tokens, effect, factors = state.terms
        rounds = [[list(gift) for gift in gifts] for gifts in state.rounds]
        return [tokens, effect, list(factors), rounds, list(state.points), state.log]

    def decode(self, data: Any) -> Pot:
        """The inverse of `encode`."""
        tokens, effect, factors, rounds, points, log = data
        return Pot(
            Terms(tokens, effect, tuple(factors)),
            tuple(tuple(Gift(*gift) for gift in gifts) for gifts in rounds),
            tuple(points),
            log,
        )


@lru_cache(maxsize=1024)
def _heading(terms: Terms, seat: int) -> str:
    """Who the seat is, and the numbers of the episode."""
    cut = f"CUT {terms.effect}, " if terms.effect else ""
    factors = " ".join(str(factor / 10) for factor in terms.factors)
    return (
        f"You are {seat_name(seat)}. TOKENS {terms.tokens}, {cut}PAR {par(terms) / UNIT:g}, "
        f"FACTOR by round: {factors}.\n"
    )


def _describe(gifts: tuple[Gift, ...], effect: int, gained: tuple[int, ...]) -> str:
    """One round in words: what every seat gave, who cut whom, what every seat got."""
    given = ", ".join([f"{name} {gift.tokens}" for name, gift in zip(_NAMES, gifts, strict=True)])
    cuts = "".join(
        f"{seat_name(seat)} cut {seat_name(gift.target)} by {effect * gift.spent}; "
        for seat, gift in enumerate(gifts)
        if gift.spent
    )
    got = ", ".join(
        [f"{name} {points / UNIT:g}" for name, points in zip(_NAMES, gained, strict=True)]
    )
    return f"gave {given}; {cuts}points {got}."
