"""One subclass of a sound game per fault that a check must find.

The docstring of a fault starts with the check whose rule it breaks, and ends with those that cannot but
find it too. A fault may bring its own ``bots``.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from srl_envs.core import Streams
from srl_envs.draws import Draws
from srl_envs.errors import IllegalMoveError
from srl_envs.wrappers.numeric import Features, Reading
from srl_envs.wrappers.numeric.features import floats
from tests.conformance.sound_games import ROUNDS, Coins, Hands, Pennies, Recall, RecallOfFive


class GlobalDraws(Pennies):
    """determinism: the instance comes from a generator of the process.

    Also found by: public_suites, contract, subprocess, reset_isolation, splits,
    state_round_trip, replay, views, bots, conversions, copies.
    """

    def new(self, streams: Streams) -> Coins:
        return Coins((random.getrandbits(12) + 1,) * ROUNDS, int(streams.seats.integers(2)))


class LateDraws(Pennies):
    """determinism: the opening is right; a later step asks the process's generator.

    Also found by: public_suites, contract, subprocess, reset_isolation, state_round_trip,
    replay, views, bots, conversions, copies.
    """

    def apply(self, state: Coins, actions: Mapping[int, str]) -> Coins:
        after = super().apply(state, actions)
        return after._replace(stakes=(*after.stakes[:-1], random.getrandbits(12) + 1))


class SharedRounds(Pennies):
    """determinism: two instances share a counter, though each by itself repeats itself.

    Also found by: public_suites, state_round_trip, copies.
    """

    live = 0

    def new(self, streams: Streams) -> Coins:
        SharedRounds.live = 0
        return super().new(streams)

    def apply(self, state: Coins, actions: Mapping[int, str]) -> Coins:
        SharedRounds.live += 1
        after = super().apply(state, actions)
        return after._replace(stakes=(*after.stakes[:-1], SharedRounds.live))


class HashOrder(Pennies):
    """subprocess: the order of a set of strings leaks into the text."""

    def observe(self, state: Coins, seat: int) -> str:
        words = {f"word{number}" for number in range(20)}
        return f"{super().observe(state, seat)} {' '.join(words)}"


class LeftOver(Pennies):
    """reset_isolation: an abandoned episode shows in the next one.

    Also found by: state_round_trip.
    """

    def __init__(self) -> None:
        self._seen: tuple[tuple[str, str], ...] = ()

    def new(self, streams: Streams) -> Coins:
        fresh = super().new(streams)
        left, self._seen = len(self._seen) % 3, ()
        return fresh._replace(stakes=tuple(stake + left for stake in fresh.stakes))

    def apply(self, state: Coins, actions: Mapping[int, str]) -> Coins:
        after = super().apply(state, actions)
        self._seen = () if len(after.shown) == ROUNDS else after.shown
        return after


class SharedList(Pennies):
    """reset_isolation: the caller gets the game's own dict of statistics.

    Also found by: public_suites, contract, determinism, state_round_trip, views, bots,
    hidden_information, hidden_replies, fuzz, conversions, copies.
    """

    def __init__(self) -> None:
        self._open = {"seed": 1.0}

    def observe(self, state: Coins, seat: int) -> str:
        return f"{super().observe(state, seat)} {sorted(self._open)}"

    def legal(self, state: Coins, seat: int) -> Sequence[str]:
        return _CallersOwn(self._open, ["heads", "tails"])


class _CallersOwn(list[str]):
    """A list that, once read, breaks the game; stands for state that escapes."""

    def __init__(self, target: dict[str, float], values: list[str]) -> None:
        super().__init__(values)
        self._target = target

    def __iter__(self) -> Any:
        self._target[f"read {len(self._target)}"] = 0.0
        return super().__iter__()


class OneSplit(Pennies):
    """splits: ignores the entropy it is given."""

    def new(self, streams: Streams) -> Coins:
        return Coins((1, 2, 3, 4), 0)


class FewSeeds(Pennies):
    """splits: every instance is new, but train and eval draw from one pool."""

    def new(self, streams: Streams) -> Coins:
        split, seed = streams._entropy[-2:]
        return Coins((seed + split + 1, 2, 3, 4), 0)


class Forgetful(Pennies):
    """state_round_trip: a part of the state is not encoded.

    Also found by: hidden_replies.
    """

    def encode(self, state: Coins) -> Any:
        return [list(state.stakes), 0, [list(pair) for pair in state.shown]]


class NotJson(Pennies):
    """state_round_trip: keys that JSON turns into strings."""

    def encode(self, state: Coins) -> Any:
        return {0: super().encode(state)}

    def decode(self, data: Any) -> Coins:
        return super().decode(data[0])


class Aging(Pennies):
    """replay: each new episode of a process starts elsewhere.

    Also found by: public_suites, contract, determinism, subprocess, reset_isolation, splits,
    state_round_trip, views, bots, conversions, copies.
    """

    _episodes = 0

    def new(self, streams: Streams) -> Coins:
        Aging._episodes += 1
        return super().new(streams)._replace(stakes=(Aging._episodes, 1, 1, 1))


class Generous(Pennies):
    """payoffs: what one wins the other does not lose."""

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        paid = super().returns(state)
        return paid and (paid[0], paid[1] / 2)


class TooMuch(Pennies):
    """payoffs: an outcome above 1."""

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        paid = super().returns(state)
        return paid and (paid[0] * 3, paid[1] * 3)


class NotANumber(Pennies):
    """payoffs: a statistic without a value.

    Also found by: public_suites, contract, determinism, reset_isolation, state_round_trip,
    replay, bots, copies.
    """

    def components(self, state: Coins, seat: int) -> Mapping[str, float]:
        return {"ratio": float("nan")}


class LateStatistics(Pennies):
    """contract: a statistic that has no name before the end."""

    def components(self, state: Coins, seat: int) -> Mapping[str, float]:
        return {"rounds": 4.0} if len(state.shown) == ROUNDS else {}


class Favoured(Pennies):
    """seat_symmetry: ties of no one's making go to seat 0."""

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        paid = super().returns(state)
        if paid is None:
            return None
        value = max(-1.0, min(1.0, paid[0] + 0.5))
        return value, -value


class HarshForfeit(Pennies):
    """seat_symmetry: forfeits cost only one seat."""

    def forfeit(self, state: Coins, seat: int) -> tuple[float, ...]:
        return (-1.0, 1.0)


class Leaky(Pennies):
    """hidden_replies: what was just parsed can be seen by the other seat.

    Also found by: state_round_trip.
    """

    def __init__(self) -> None:
        self._last = ""

    def new(self, streams: Streams) -> Coins:
        self._last = ""
        return super().new(streams)

    def parse(self, state: Coins, seat: int, body: str) -> str:
        self._last = f"seat {seat} shows {super().parse(state, seat, body)}"
        return body

    def observe(self, state: Coins, seat: int) -> str:
        return f"{super().observe(state, seat)} {self._last}"


class Fragile(Pennies):
    """fuzz: reads numbers of any length. Also found by: exploits."""

    def parse(self, state: Coins, seat: int, body: str) -> str:
        if body[:1].isdigit():
            int(body)
        return super().parse(state, seat, body)


class Echoing(Pennies):
    """fuzz: the error repeats the reply without a limit."""

    max_action_chars = 4096

    def parse(self, state: Coins, seat: int, body: str) -> str:
        if body not in ("heads", "tails"):
            raise IllegalMoveError(f"{body!r} is neither heads nor tails")
        return body


class Gullible(Pennies):
    """exploits: a reply that claims the win gets it."""

    max_action_chars = 100

    def parse(self, state: Coins, seat: int, body: str) -> str:
        if "outcome" in body:
            return "win"
        return super().parse(state, seat, body)

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        paid = super().returns(state)
        winners = {seat for pair in state.shown for seat in (0, 1) if pair[seat] == "win"}
        return (
            paid if not paid or len(winners) != 1 else (1.0, -1.0) if 0 in winners else (-1.0, 1.0)
        )


class Unsampled(Pennies):
    """public_suites: the space offers nothing that is accepted.

    Also found by: contract, state_round_trip, hidden_replies.
    """

    def sample(self, state: Coins, seat: int, rng: np.random.Generator) -> str:
        return "edge"


class Crashing(Pennies):
    """public_suites: raises in the middle.

    Also found by: contract, determinism, subprocess, reset_isolation, state_round_trip, replay,
    views, bots, payoffs, seat_symmetry, hidden_information, hidden_replies, fuzz, exploits,
    conversions, copies.
    """

    def apply(self, state: Coins, actions: Mapping[int, str]) -> Coins:
        raise RuntimeError("no coins left")


class Verbose(Pennies):
    """contract: an observation longer than declared.

    Also found by: public_suites, fuzz.
    """

    def observe(self, state: Coins, seat: int) -> str:
        return super().observe(state, seat) + "." * (700 if len(state.shown) == 2 else 0)


class TwiceLegal(Pennies):
    """contract: a legal action is listed twice."""

    def legal(self, state: Coins, seat: int) -> Sequence[str]:
        return ["heads", "tails", "heads"]


class Endless(Pennies):
    """contract: more turns than declared.

    Also found by: public_suites, determinism, subprocess, reset_isolation, state_round_trip,
    fuzz, conversions.
    """

    max_turns = 1


class Ended(Pennies):
    """contract: over, but a seat is still on move.

    Also found by: public_suites, determinism, subprocess, reset_isolation, state_round_trip,
    replay, views, bots, payoffs, seat_symmetry, hidden_information, hidden_replies, fuzz,
    exploits, conversions, copies.
    """

    def returns(self, state: Coins) -> tuple[float, ...] | None:
        return None


class Curious(Pennies):
    """views: how often it was asked shows in the text.

    Also found by: contract, public_suites, determinism, reset_isolation, state_round_trip, bots,
    conversions, copies.
    """

    def __init__(self) -> None:
        self._asked = 0

    def new(self, streams: Streams) -> Coins:
        self._asked += 1
        return super().new(streams)

    def observe(self, state: Coins, seat: int) -> str:
        return f"{super().observe(state, seat)} {self._asked}"


class RudeBot(Pennies):
    """bots: one replies without an action block."""

    bots: ClassVar = {"random": "coin_bot", "other": "rude_bot"}


class AimlessStrong(Recall):
    """strength: the strong bot plays no better than the random one."""

    bots: ClassVar = {"random": "number_bot", "strong": "number_bot"}


class BackwardPay(RecallOfFive):
    """strength: being right costs."""

    def returns(self, state: Hands) -> tuple[float, ...] | None:
        paid = super().returns(state)
        return paid and tuple(1.0 - value for value in paid)


class PaidApart(Recall):
    """payoffs: a team whose members are paid differently."""

    def returns(self, state: Hands) -> tuple[float, ...] | None:
        paid = super().returns(state)
        return paid and (1.0, *paid[1:])


class FirstSeatPaid(RecallOfFive):
    """seat_symmetry: one seat of five has a head start."""

    def returns(self, state: Hands) -> tuple[float, ...] | None:
        paid = super().returns(state)
        return paid and (min(1.0, paid[0] + 0.5), *paid[1:])


class TakesTurnsInSecret(Recall):
    """conversions: it is declared simultaneous, and one seat after the other moves.

    Also found by: strength.
    """

    max_turns = 6

    def to_move(self, state: Hands) -> tuple[int, ...]:
        moves = sum(map(len, state.named))
        return (moves % self.seats,) if moves < self.max_turns else ()

    def apply(self, state: Hands, actions: Mapping[int, int]) -> Hands:
        (number,) = actions.values()
        *rows, row = state.named or ((),)
        full = len(row) == self.seats
        return state._replace(named=(*rows, row, (number,)) if full else (*rows, (*row, number)))

    def returns(self, state: Hands) -> tuple[float, ...] | None:
        return None if self.to_move(state) else (0.5,) * self.seats


class SimultaneousInSecret(Pennies):
    """conversions: both seats move at every step, and the game does not say so."""

    simultaneous = False


class HoldsALock(Pennies):
    """copies: a lock cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class ForgettingBot(Pennies):
    """copies: the bot counts its replies in its closure, which a copy does not take over."""

    bots: ClassVar = {"random": "counting_bot"}


class SideFeatures(Features):
    """Reads nothing; sound for matching pennies, where both sides are always legal."""

    size = 1
    actions: tuple[str, ...] = ("heads", "tails")

    def __init__(self, game: Pennies) -> None:
        self.reads = 0

    def read(self, text: str) -> Reading:
        return Reading(floats([0.0]), self.mask(self.actions))


class EdgeFeatures(SideFeatures):
    actions = ("heads", "tails", "edge")


class ShyFeatures(SideFeatures):
    def read(self, text: str) -> Reading:
        return Reading(floats([0.0]), self.mask(["heads"]))


class CountingFeatures(SideFeatures):
    def read(self, text: str) -> Reading:
        self.reads += 1
        return Reading(floats([self.reads % 2]), self.mask(self.actions))


class OffersTheEdge(Pennies):
    """numeric: the mask offers what the game refuses."""

    numeric = "tests.conformance.broken_games:EdgeFeatures"


class KeepsTailsBack(Pennies):
    """numeric: the mask leaves out a legal move."""

    numeric = "tests.conformance.broken_games:ShyFeatures"


class MoreThanTheText(Pennies):
    """numeric: the arrays hold what the text does not say."""

    numeric = "tests.conformance.broken_games:CountingFeatures"


class OpenCards(Recall):
    """hidden_information: everybody reads all cards."""

    def observe(self, state: Hands, seat: int) -> str:
        return f"{super().observe(state, seat)} Cards: {state.cards}"


class TellingList(Recall):
    """hidden_information: the legal actions leave out the next seat's card."""

    def legal(self, state: Hands, seat: int) -> Sequence[str]:
        return [n for n in "123456789" if n != str(state.cards[(seat + 1) % self.seats])]


class TellingRefusal(Recall):
    """hidden_information: a wrong reply is answered with the next seat's card."""

    def parse(self, state: Hands, seat: int, body: str) -> int:
        if body not in [*"123456789"]:
            raise IllegalMoveError(f"not a number like {state.cards[(seat + 1) % self.seats]}")
        return int(body)


class HelpfulDefault(Recall):
    """hidden_information: the default move depends on the next seat's card."""

    def fallback(self, state: Hands, seat: int) -> str:
        return str(state.cards[(seat + 1) % self.seats])


class Undeclared(Recall):
    """hidden_information: seats know different things, and the game does not say so."""

    def swap_hidden(self, state: Hands, seat: int, other: Hands) -> Hands:
        return state


class Redealt(Recall):
    """replay: what is dealt already is drawn anew with what is left to chance."""

    def reshuffled(self, state: Hands, draws: Draws) -> Hands:
        return state._replace(cards=tuple(draws.several(self.seats, 1, 10)))


class HalfDeclared(Recall):
    """hidden_information: of the two other cards only one is said to be hidden."""

    def swap_hidden(self, state: Hands, seat: int, other: Hands) -> Hands:
        cards = list(state.cards)
        hidden = (seat + 1) % self.seats
        cards[hidden] = other.cards[hidden]
        return state._replace(cards=tuple(cards))


class FindsTheMove(RecallOfFive):
    """exploits: any text that has the right number somewhere in it is taken for it."""

    max_action_chars = 4000

    def parse(self, state: Hands, seat: int, body: str) -> int:
        if str(state.cards[seat]) in body:
            return state.cards[seat]
        return super().parse(state, seat, body[:1])
