"""Exploitability, exactly: what a best response earns against a policy whose chances are known.

A policy is read as a table: for every decision of the game, what its seat sees and how likely each
legal reply is. The games are zero-sum and fair to both seats, so an equilibrium earns 0 against any
policy, and the gain of a best response against a policy is its distance from one. Payoffs,
observations and legal moves are the environments' own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations, product

from srl_envs.families.cards.kuhn_poker import RANKS, KuhnPoker, Table
from srl_envs.families.dilemmas.blotto import Blotto, Campaign, Spread, balance
from srl_envs.families.dilemmas.blotto_bots import best_answer

Policy = Mapping[str, Mapping[str, float]]
"""Observation -> what stands between the action tags -> its chance; chances sum to 1."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A place in a game where a seat has to reply."""

    text: str
    """Text that the seat on move sees."""
    replies: tuple[str, ...]
    """All that it may do, as it stands between the action tags."""
    fallback: str
    """The one that the game takes for a reply that it refused."""


def uniform(decisions: Iterator[Decision]) -> Policy:
    """Every legal reply as likely as any other."""
    return {d.text: dict.fromkeys(d.replies, 1 / len(d.replies)) for d in decisions}


# --- Kuhn poker ----------------------------------------------------------------------------------


def kuhn_decisions() -> Iterator[Decision]:
    """The 24 decisions of one hand: which seat begins, a card, and what was done before."""
    game = KuhnPoker(hands=1)
    waiting = [
        Table((card + other,), first, first)
        for first in (0, 1)
        for card, other in permutations(RANKS, 2)
    ]
    known: set[str] = set()
    while waiting:
        state = waiting.pop(0)
        for seat in game.to_move(state):
            words, text = game.legal(state, seat), game.observe(state, seat)
            waiting += [game.apply(state, {seat: word}) for word in words]
            if text not in known:
                known.add(text)
                yield Decision(text, tuple(words), game.fallback(state, seat))


def kuhn_exploitability(policy: Policy) -> float:
    """What a best response wins from ``policy`` in one hand of Kuhn poker.

    Args:
        policy: a chance for both words at each of `kuhn_decisions`.

    Returns:
        Chips per hand, mean over seats and who begins. An equilibrium has 0: its best response loses
        1/18 when it begins and wins 1/18 when it does not.
    """
    game = KuhnPoker(hands=1)
    total = 0.0
    for me, first, card in product((0, 1), (0, 1), RANKS):
        deals = [card + other for other in RANKS if other != card]
        reach = {Table((deal if me == 0 else deal[::-1],), first, first): 1 / 6 for deal in deals}
        total += _best_value(game, me, reach, policy)
    return total / 4 * game.deck.most


def _best_value(game: KuhnPoker, me: int, reach: Mapping[Table, float], policy: Policy) -> float:
    """Value of a seat's best play.

    Args:
        game: its rules.
        me: the seat that plays its best against the policy.
        reach: states that it cannot tell apart -> how likely chance and the policy lead there.
        policy: of the other seat.

    Returns:
        Outcome, weighted by the chances.
    """
    some = next(iter(reach))
    if not game.to_move(some):
        return sum(weight * game.earned(state)[me] for state, weight in reach.items())
    seat = game.to_move(some)[0]
    values = [
        _best_value(
            game,
            me,
            {
                game.apply(state, {seat: word}): weight
                * (1.0 if seat == me else policy[game.observe(state, seat)].get(word, 0.0))
                for state, weight in reach.items()
            },
            policy,
        )
        for word in game.legal(some, seat)
    ]
    return max(values) if seat == me else sum(values)


# --- blotto --------------------------------------------------------------------------------------


def blotto_decisions(soldiers: int, fields: int) -> Iterator[Decision]:
    """The one decision of a single round, for every order of the fields' values."""
    ranks = range(1, fields + 1)
    game = Blotto(soldiers=soldiers, fields=fields, rounds=1, values=list(ranks))
    replies = tuple(" ".join(map(str, spread)) for spread in spreads(soldiers, fields))
    for values in permutations(ranks):
        state = Campaign(values)
        yield Decision(game.observe(state, 0), replies, game.fallback(state, 0))


def spreads(soldiers: int, fields: int) -> Iterator[Spread]:
    """All ways to spread soldiers over fields."""
    if fields == 1:
        yield (soldiers,)
        return
    for here in range(soldiers + 1):
        for rest in spreads(soldiers - here, fields - 1):
            yield (here, *rest)


def blotto_exploitability(policy: Policy, soldiers: int, fields: int) -> float:
    """What a best response earns against ``policy`` in one round of blotto.

    Args:
        policy: chances of spreads at each of `blotto_decisions`.
        soldiers: of each seat.
        fields: their number.

    Returns:
        Outcome in [0, 1], the share of all value won and not lost: mean over the orders of values.
    """
    orders = list(permutations(range(1, fields + 1)))
    decisions = blotto_decisions(soldiers, fields)
    total = 0.0
    for values, decision in zip(orders, decisions, strict=True):
        chances = {
            tuple(map(int, body.split())): chance for body, chance in policy[decision.text].items()
        }
        answer = best_answer(values, soldiers, chances)
        won = sum(chance * balance(values, answer, spread) for spread, chance in chances.items())
        total += won / sum(values)
    return total / len(orders)
