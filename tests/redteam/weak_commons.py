"""The commons with the faults that they had: all know the last round, and ``strong`` forgives a quarter."""

from collections.abc import Callable

import numpy as np

from srl_envs.core import Streams
from srl_envs.draws import Draws
from srl_envs.families.dilemmas.commons import Commons, Stock
from srl_envs.families.dilemmas.commons_bots import read_view
from srl_envs.turns.grammar import action

ROUNDS = 12


class KnownEnd(Commons):
    """Twelve rounds; the prompt states it."""

    def __init__(self) -> None:
        super().__init__(rounds=ROUNDS)
        self._expected = float(ROUNDS)
        first, _, rest = self._rules.partition("\n")
        before, _, how = first.partition(", for ")
        self._rules = f"{before}, for {ROUNDS} rounds.{how.partition('sure.')[2]}\n{rest}"

    def new(self, streams: Streams) -> Stock:
        """The shipped game's start with this length."""
        return super().new(streams)._replace(length=ROUNDS)

    def swap_hidden(self, state: Stock, seat: int, other: Stock) -> Stock:
        """Nothing is hidden."""
        return state

    def reshuffled(self, state: Stock, draws: Draws) -> Stock:
        """Nothing is left to chance."""
        return state


def grim_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Keeps the plan up to the last round, and forgives nothing."""
    return lambda text: _reply(text, forgiven=0)


def forgiving_bot(_rng: np.random.Generator) -> Callable[[str], str]:
    """Keeps the plan up to the last round until one seat takes a quarter more."""
    return lambda text: _reply(text, forgiven=1)


def _reply(text: str, forgiven: int) -> str:
    view = read_view(text)
    rounds = range(1, len(view.past) + 1)
    broken = any(max(view.excesses(n)) > forgiven * view.slack(n) for n in rounds)
    return action(str(view.limit if broken else view.fair_share()))
