"""Kuhn and Leduc poker, exactly, and the end of hold'em tournaments: jam or fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.environments.solvers.leduc_equilibrium import exploitability, strategy_of
from benchmarks.environments.solvers.rows import Bot, MakeBot, Solved, chances, move
from benchmarks.league.best_response import kuhn_decisions, kuhn_exploitability
from srl_envs.families.cards.holdem import Deal, Holdem, Match, begun
from srl_envs.families.cards.kuhn_poker import KuhnPoker, Table
from srl_envs.families.cards.leduc_table import CHANCES
from srl_envs.families.cards.poker_ranks import CARDS, strength

_NAMES = {"check": "Call", "call": "Call", "bet": "Raise", "raise": "Raise", "fold": "Fold"}
"""Our words -> OpenSpiel's."""


def kuhn(bots: tuple[str, ...], make: MakeBot, *, draws: int = 400) -> Solved:
    """What a best response wins from each bot in one hand of Kuhn poker; an equilibrium loses nothing."""
    decisions = list(kuhn_decisions())
    found = {}
    for name in bots:
        bot = make(name, 0)
        found[name] = kuhn_exploitability({d.text: chances(bot, d.text, draws) for d in decisions})
    return Solved(
        game="kuhn_poker-v0 hands=1",
        measure="chips per hand that a best response wins; seats in turn",
        solver="the whole tree; an equilibrium loses nothing (Kuhn 1950: -1/18 chip for who begins)",
        solution=0.0,
        bots=found,
    )


def leduc(bots: tuple[str, ...], make: MakeBot, *, draws: int = 2000) -> Solved:
    """The same in Leduc poker, with OpenSpiel's tree and best response."""
    import pyspiel

    game = pyspiel.load_game("leduc_poker")
    texts = leduc_texts(game)
    found = {}
    for name in bots:
        bot = make(name, 0)
        asked = {text: chances(bot, text, draws) for text in sorted({t for t, _ in texts.values()})}
        policy = {
            key: [(n, sum(asked[text].get(word, 0.0) for word in words)) for n, words in legal]
            for key, (text, legal) in texts.items()
        }
        found[name] = float(pyspiel.exploitability(game, policy))
    return Solved(
        game="kuhn_poker-v0 deck=leduc hands=1",
        measure="chips per hand that a best response wins; seats in turn",
        solver=(
            "OpenSpiel's best response over all 936 decisions; an equilibrium loses nothing, and the table "
            f"that strong draws from {exploitability(strategy_of(CHANCES)):.3f}"
        ),
        solution=0.0,
        bots=found,
    )


Asked = dict[str, tuple[str, list[tuple[int, list[str]]]]]
"""OpenSpiel's name of a decision -> our text of it, and its actions with our words for each."""


def leduc_texts(theirs: Any) -> Asked:
    """Every decision of Leduc poker as a bot reads it.

    Args:
        theirs: OpenSpiel's game.
    """
    ours = KuhnPoker(deck="leduc", hands=1)
    texts: Asked = {}

    def walk(state: Any, cards: str, table: Table | None) -> None:
        if state.is_terminal():
            return
        if state.is_chance_node():
            for number, _ in state.chance_outcomes():
                dealt = cards + ours.deck.cards[number]
                after = table and table._replace(deals=(dealt,))
                if len(dealt) == 2:  # the third card is dealt later
                    after = Table((dealt + "J",), 0, 0)
                walk(state.child(number), dealt, after)
            return
        assert table is not None
        (seat,) = ours.to_move(table)
        key = state.information_state_string()
        words = {word: _NAMES[word] for word in ours.legal(table, seat)}
        numbers = {
            state.action_to_string(state.current_player(), n): n for n in state.legal_actions()
        }
        if key not in texts:
            legal = [
                (n, [w for w, said in words.items() if said == name]) for name, n in numbers.items()
            ]
            texts[key] = (ours.observe(table, seat), legal)
        for word, said in words.items():
            walk(state.child(numbers[said]), cards, ours.apply(table, {seat: word}))

    walk(theirs.new_initial_state(), "", None)
    return texts


# --- hold'em, jam or fold ------------------------------------------------------------------------

CLASSES = 169
"""Pairs, suited and unsuited hands."""


def hand_class(hole: tuple[int, ...]) -> int:
    """The number of a hand among `CLASSES`: suits count only where they are equal."""
    low, high = sorted(card >> 2 for card in hole)
    return 13 * high + low if hole[0] & 3 == hole[1] & 3 else 13 * low + high


class Deals(NamedTuple):
    """What a sample of deals says about every pair of hands."""

    seen: np.ndarray
    """Share of deals, by class of the button and of the big blind."""
    won: np.ndarray
    """The same, times +1 where the button's hand is better after five cards and -1 where it is worse."""


def deals(count: int, rng: np.random.Generator) -> Deals:
    """Deal ``count`` times."""
    seen, won = np.zeros((CLASSES, CLASSES)), np.zeros((CLASSES, CLASSES))
    for _ in range(count):
        cards = rng.permutation(CARDS)[:9].tolist()
        mine, theirs, board = tuple(cards[:2]), tuple(cards[2:4]), cards[4:]
        first, second = strength((*mine, *board)), strength((*theirs, *board))
        where = hand_class(mine), hand_class(theirs)
        seen[where] += 1
        won[where] += (first > second) - (first < second)
    return Deals(seen / count, won / count)


def jam_values(sample: Deals, stack: int, calls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What jamming and folding bring the button, by class.

    Args:
        sample: of deals.
        stack: chips; blinds are 1 and 2.
        calls: chance of a call, by class of the big blind.

    Returns:
        Chips times the chance of the class: of jamming, of folding.
    """
    jam = (sample.seen * 2 * (1 - calls) + sample.won * stack * calls).sum(axis=1)
    return jam, -sample.seen.sum(axis=1)


def jam_or_fold(
    sample: Deals, stack: int, rounds: int = 4000
) -> tuple[np.ndarray, np.ndarray, float]:
    """Equilibrium where the button jams or folds and the big blind calls or folds, by fictitious play.

    Returns:
        Chances of jamming and of calling by class, and what is left between both best responses, in chips.
    """
    jams, calls = np.full(CLASSES, 0.5), np.full(CLASSES, 0.5)
    for number in range(1, rounds + 1):
        jam, fold = jam_values(sample, stack, calls)
        called = (sample.won * stack * jams[:, None]).sum(axis=0)
        folded = (sample.seen * 2 * jams[:, None]).sum(axis=0)
        jams += ((jam > fold) - jams) / (number + 1)
        calls += ((called < folded) - calls) / (number + 1)
    jam, fold = jam_values(sample, stack, calls)
    called = (sample.won * stack * jams[:, None]).sum(axis=0)
    folded = (sample.seen * 2 * jams[:, None]).sum(axis=0)
    at_most = np.maximum(jam, fold).sum()
    at_least = np.minimum(called, folded).sum() + (fold * (1 - jams)).sum()
    return jams, calls, float(at_most - at_least)


def bots_calls(bot: Bot, stack: int, draws: int) -> np.ndarray:
    """How often a bot in the big blind calls all in, by class of its hand."""
    game, calls = Holdem(hands=1, stack=stack), np.zeros(CLASSES)
    for number in range(CLASSES):
        first, second = divmod(number, 13)
        suited = first > second
        hole = (4 * first, 4 * second + (0 if suited else 1))
        rest = [card for card in range(CARDS) if card not in hole][:7]
        state = begun(Match((Deal(((rest[0], rest[1]), hole), tuple(rest[2:])),), 0, 0))
        state = game.apply(state, {0: game.parse(state, 0, "all in")})
        text = game.observe(state, 1)
        said = [game.parse(state, 1, move(bot, text)) for _ in range(draws)]
        calls[number] = said.count("call") / draws
    return calls


def holdem(
    bots: tuple[str, ...],
    make: MakeBot,
    *,
    stack: int = 16,
    sample: int = 300_000,
    draws: int = 8,
) -> Solved:
    """What the best jams win from each bot's calls, in the big blind, above the equilibrium's."""
    dealt = deals(sample, np.random.default_rng(0))
    _, calls, left = jam_or_fold(dealt, stack)

    def best(against: np.ndarray) -> float:
        return float(np.maximum(*jam_values(dealt, stack, against)).sum())

    value = best(calls)
    return Solved(
        game=f"holdem-v0 hands=1 stack={stack}",
        measure=(
            f"chips per hand that the best jams win from its calls in the big blind, above the "
            f"{value:+.3f} of the equilibrium"
        ),
        solver=(
            f"fictitious play of jam or fold over {CLASSES} kinds of hand, {sample:,} deals; best "
            f"responses are {left:.3f} chips apart"
        ),
        solution=0.0,
        bots={name: best(bots_calls(make(name, 0), stack, draws)) - value for name in bots},
    )
