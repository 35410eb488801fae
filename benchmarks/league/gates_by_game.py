"""How often the gate of several games errs, and how many pairs it takes, beside three simpler rules.

    python -m benchmarks.league.gates_by_game [--runs 2000] [--json FILE]

Candidates have a mean score in each game, one half where they are equal. Promoted should be at most 5 % of
those that are better in no game, and of those that are worse in one by the margin; at least 95 % of those
that are better by elo1 in a game and no worse in others. *by game* is the gate's rule. *best game* has no
product of what games show: one of them has to show it by itself. *all games* asks that every game be better.
*mean* is one test on the mean of all games, which leagues of several games had before. Pairs are of one
game, in the mean.

Takes about 6 minutes of one processor. With ``--json`` rows are written when they are done.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.league.gates import Row, Table
from benchmarks.league.pair_scores import KINDS
from srl_agents.league.matchmaking.gate_rule import GateRule, Judgement
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.league.ratings.intervals import Floats, wilson

CANDIDATES: Mapping[str, Sequence[float]] = {
    "equal in both": (0.5, 0.5),
    "better in both": (0.55, 0.55),
    "better in one": (0.55, 0.5),
    "better in one, worse in the other": (0.65, 0.45),
    "equal in four": (0.5,) * 4,
    "better in four": (0.55,) * 4,
    "better in one of four": (0.55, 0.5, 0.5, 0.5),
    "better in three, worse in one": (0.6, 0.6, 0.6, 0.45),
}
"""Name -> mean score in each game; elo1 is .55 and the margin .45."""
KINDS_OF_GAMES = ("mirrored games", "90 % drawn", "win or loss", "loses all, 10 % of seeds")
"""Kinds of score: game k has number k of them."""


class BestGame(GateRule):
    """Without the product: what the best game shows, at 1/G of the chance of error."""

    def together(self, above_GK: Floats) -> Floats:
        """(K,) log-wealth of a gambler whose capital is spread over the games and never moved."""
        total: Floats = above_GK.max(axis=0) - math.log(above_GK.shape[0])
        return total


class AllGames(GateRule):
    """Every game has to show that the candidate is better."""

    def together(self, above_GK: Floats) -> Floats:
        """(K,) log-wealth where it is smallest."""
        total: Floats = above_GK.min(axis=0)
        return total


def judge(rule: str, settings: PromotionSettings, means: Sequence[float], run: int) -> Judgement:
    """One candidate, whose scores come from ``run``."""
    rngs = [np.random.default_rng([run, game]) for game in range(len(means))]
    names = [str(game) for game in range(len(means))]
    usual = settings.rule(len(names))

    def draw(games: Sequence[str], pairs: range) -> Mapping[str, Floats]:
        return {
            game: KINDS[KINDS_OF_GAMES[int(game) % 4]](
                means[int(game)], (len(pairs),), rngs[int(game)]
            )
            for game in games
        }

    if rule == "mean":

        def draw_mean(_: Sequence[str], pairs: range) -> Mapping[str, Floats]:
            return {"all": np.mean(list(draw(names, pairs).values()), axis=0)}

        return settings.rule().judge(["all"], draw_mean, settings.min_pairs)
    if rule == "best game":
        usual = BestGame(better=usual.better, held=usual.held, goal=usual.goal)
    elif rule == "all games":
        each = replace(settings.against_best, beta=settings.beta / 2 / len(means))
        usual = AllGames(better=each, held=usual.held, goal=usual.goal)
    return usual.judge(names, draw, settings.min_pairs)


def promoted(rule: str, settings: PromotionSettings, means: Sequence[float], runs: int) -> Row:
    """Share of candidates that pass, the ends of its 95 % interval, and mean pairs per game."""
    found = [judge(rule, settings, means, run) for run in range(runs)]
    share = float(np.mean([one.verdict == "passed" for one in found]))
    low, high = wilson(np.array(share), np.array(runs))
    pairs = float(np.mean([np.mean(list(one.pairs.values())) for one in found]))
    return {"promoted": share, "low": float(low), "high": float(high), "pairs": pairs}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings, table = PromotionSettings(), Table(options.json)
    rules = ("by game", "best game", "all games", "mean")
    print(f"{'candidate':40}" + "".join(f"{rule:>24}" for rule in rules))
    for name, means in CANDIDATES.items():
        line = f"{name:40}"
        for rule in rules:
            make = partial(promoted, rule, settings, means, options.runs)
            row = table.row(f"{rule}, {name}, {options.runs}, {settings}", make)
            line += (
                f"{100 * row['promoted']:6.1f} % (to {100 * row['high']:5.1f}){row['pairs']:6.0f}"
            )
        print(line, flush=True)


if __name__ == "__main__":
    main()
