"""When a candidate replaces the best version: better in one game or in all together, worse in none.

In every game the scores are half the difference of the points of both, one per seed, 1/2 where they are
equal. Two tests read the same scores of a game: one of ``better``, from equal to stronger by ``elo1``; and,
of several games, one of ``held``, from worse by the margin to equal.

Better: in each of G games a gambler bets on 1/G of a common capital, one game after the other, and what one
game brings is the capital of the next. The product is a gambler as well, so it exceeds 1 / chance with at
most that chance where the candidate is better in no game (Ville), however often one looks. A candidate that
is better in one game pays log G + 1 in log-wealth for the others; one that is better in all adds up what
all of them show. With one game it is the test of that game.

Held: the candidate passes only if every game shows it. So a candidate that is worse in one by the margin
passes with the chance of error of that one test, and no correction for several games is needed (Berger's
intersection-union test). Chances to keep a good candidate out add up over games, so they are divided among
them.

Sources: Ville, "Étude critique de la notion de collectif" (1939); Vovk and Wang, "E-values: calibration,
combination and applications", arXiv:1912.06116, section 4 for products of independent e-values and mixtures
of such; Berger, "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24 (1982).
Difference: the weights of the mixture are products, so that the number of its terms does not grow as 2^G.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srl_agents.league.ratings.betting import MeanTest
from srl_agents.league.ratings.intervals import Floats

Ask = Callable[[Sequence[str], range], Mapping[str, Floats]]
"""Plays pairs: (games, numbers of pairs) -> game -> scores, one per pair that no game lost to a fault."""
Verdict = Literal["passed", "not better", "worse", "not held"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """End of a gate's first part."""

    verdict: Verdict
    """``not better`` in any game, ``worse`` in one, ``not held`` where a game could not show that it is
    not."""
    game: str
    """The one that is worse or was not held; empty otherwise."""
    pairs: Mapping[str, int]
    """Game -> pairs that were needed."""
    means: Mapping[str, float]
    """Game -> mean score of these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GateRule:
    """Both tests, alike in all games."""

    better: MeanTest
    """With the chance of error of one game: its goal is what the product needs if no other game helps."""
    held: MeanTest | None
    """None in a single game: what is better there is not worse."""
    goal: float
    """Log-wealth of all games together at which the candidate is better."""

    @property
    def most(self) -> int:
        """Pairs per game after which nothing is open."""
        return max(self.better.most, self.held.most if self.held else 0)

    def judge(self, games: Sequence[str], ask: Ask, at_once: int) -> Judgement:
        """Play batches of pairs in the games that are open until the rule decides.

        Args:
            games: names.
            ask: plays them.
            at_once: pairs per batch.

        Returns:
            The verdict; with scores that never come it is the one that keeps the candidate out.
        """
        scores = {game: np.zeros(0) for game in games}
        needed: dict[str, int] | None = None
        """Scores with which the candidate was better first."""
        open_ = list(games)
        for first in range(0, 2 * self.most, at_once):
            for game, more in ask(open_, range(first, first + at_once)).items():
                scores[game] = np.append(scores[game], more)
            worse = self._games(scores, "below")
            if worse:
                return _ended("worse", scores, worse[0])
            if needed is None:
                needed, waiting = self._first_better(scores)
                if needed is None and not waiting:
                    return _ended("not better", self._until_kept(scores))
            open_ = waiting if needed is None else self._games(scores, "open")
            if not open_:
                counts = needed if needed is not None and self.held is None else {}
                return _ended("passed", {g: own[: counts.get(g)] for g, own in scores.items()})
        return (
            _ended("not better", scores) if needed is None else _ended("not held", scores, open_[0])
        )

    def _games(self, scores: Mapping[str, Floats], answer: str) -> list[str]:
        """Games in which the test of ``held`` has this answer."""
        if self.held is None:
            return []
        return [game for game, own in scores.items() if self.held.find(own).answer == answer]

    def _first_better(
        self, scores: Mapping[str, Floats]
    ) -> tuple[dict[str, int] | None, list[str]]:
        """Game -> scores with which the candidate was better first, None where it is not; and the games that
        may still show it."""
        ends = {game: self._kept_after(own) for game, own in scores.items()}
        longest = max(own.size for own in scores.values())
        total_K = self.together(
            np.stack([self._path(own[: ends[game]], longest) for game, own in scores.items()])
        )
        reached = (total_K >= self.goal) & (np.arange(1, longest + 1) >= self.better.least)
        waiting = [game for game, end in ends.items() if end is None]
        if not reached.any():
            return None, waiting
        count = int(np.argmax(reached)) + 1
        return {game: min(count, ends[game] or own.size) for game, own in scores.items()}, waiting

    def together(self, above_GK: Floats) -> Floats:
        """(K,) log-wealth of the gambler who bets a share of one capital in each of G games."""
        games = above_GK.shape[0]
        cash = math.log(1 - 1 / games) if games > 1 else -math.inf
        total: Floats = np.logaddexp(cash, above_GK - math.log(games)).sum(axis=0)
        return total

    def _path(self, scores: Floats, length: int) -> Floats:
        """(length,) log-wealth in one game, which stays as it is once the game is not played any more."""
        above = self.better.wealth(scores)[0] if scores.size else np.zeros(1)
        return np.append(above, np.full(max(0, length - above.size), above[-1]))[:length]

    def _kept_after(self, scores: Floats) -> int | None:
        """Scores after which a game has shown that the candidate is not stronger there by ``elo1``."""
        below = self.better.wealth(scores)[1] >= self.better.goals[1]
        below &= np.arange(1, scores.size + 1) >= self.better.least
        below |= np.arange(1, scores.size + 1) >= self.better.most
        return int(np.argmax(below)) + 1 if below.any() else None

    def _until_kept(self, scores: Mapping[str, Floats]) -> dict[str, Floats]:
        return {game: own[: self._kept_after(own)] for game, own in scores.items()}


def one_of_several(chance: float, games: int) -> float:
    """Chance of error of one game's test whose goal is enough for all, though the others lost all they
    bet."""
    return chance * (1 - 1 / games) ** (games - 1) / games


def _ended(verdict: Verdict, scores: Mapping[str, Floats], game: str = "") -> Judgement:
    return Judgement(
        verdict=verdict,
        game=game,
        pairs={name: own.size for name, own in scores.items()},
        means={name: float(own.mean()) if own.size else math.nan for name, own in scores.items()},
    )
