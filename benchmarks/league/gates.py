"""How often the promotion gate errs, and how many pairs it takes, by kind of score and against other rules.

    python -m benchmarks.league.gates [--runs 2500] [--json FILE]

Three tables. *Kinds*: scores of many shapes, for candidates as strong as the best (each promotion is an
error) and elo1 (each other end is one); errors with the upper end of their 95 % interval, candidates that
the end of the test left undecided, and mean pairs beside those of the rule of commit 2582fa9. *Rules*: the
same for other rules on the kinds that tell them apart, with a fifth of the candidates. *Strengths*:
mirrored games of candidates from weak to strong, beside the rule that leagues use most, 55 % of the last
100 games.

With ``--json`` each row is written when it is done, and a run that was stopped goes on after the last one.
Settings and number of candidates are part of a row's name. Takes about 8 minutes of one processor.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.league.pair_scores import KINDS, SEAT_LUCK, mirrored_games
from benchmarks.league.stopping_rules import RULES, Rule, gate, pentanomial
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.league.ratings.betting import MeanTest
from srl_agents.league.ratings.intervals import wilson
from srl_agents.league.ratings.tables import expected_score

Floats = NDArray[np.float64]
Row = dict[str, float]
STRENGTHS = (-35.0, 0.0, 17.0, 35.0, 70.0, 120.0)
TELLING = (
    "Gaussian, sd .05",
    "Gaussian, sd .15",
    "win or loss",
    "90 % drawn",
    "loses all, 3 % of seeds",
    "loses all, 10 % of seeds",
    "wins all, 10 % of seeds",
    ".45 or .95",
)
_AT_ONCE = 250
"""Candidates that are simulated in one array."""


def errors(rule: Rule, kind: str, test: MeanTest, runs: int) -> Row:
    """Shares of both errors and of undecided ends, upper ends of the errors, and mean pairs."""
    row: Row = {}
    for side, mean in (("equal", test.low), ("better", test.high)):
        promoted, undecided, pairs = simulate(rule, kind, test, mean, runs)
        wrong = promoted if side == "equal" else 1 - promoted
        row |= {
            side: wrong,
            f"{side}_upper": float(wilson(np.array(wrong), np.array(runs))[1]),
            f"{side}_undecided": undecided,
            f"{side}_pairs": pairs,
        }
    return row


def simulate(
    rule: Rule, kind: str, test: MeanTest, mean: float, runs: int
) -> tuple[float, float, float]:
    """Shares of candidates that are promoted and undecided, and their mean number of pairs."""
    promoted, undecided, pairs = 0, 0, 0
    for first in range(0, runs, _AT_ONCE):
        rng = np.random.default_rng([list(KINDS).index(kind), round(1e6 * mean), first])
        scores = KINDS[kind](mean, (min(_AT_ONCE, runs - first), test.most), rng)
        found = rule(scores, test)
        promoted += int(found.promoted_R.sum())
        undecided += int(found.undecided_R.sum())
        pairs += int(found.pairs_R.sum())
    return promoted / runs, undecided / runs, pairs / runs


def window(games: Floats, size: int = 100, threshold: float = 0.55) -> Row:
    """Share of candidates that a moving window promotes, and the mean number of games.

    Args:
        games: (R, K) scores.
        size: of the window.
        threshold: mean above which it promotes.
    """
    total = np.cumsum(np.pad(games, ((0, 0), (1, 0))), axis=1)
    above = (total[:, size:] - total[:, :-size]) / size > threshold
    first = np.where(above.any(axis=1), above.argmax(axis=1) + size, games.shape[1])
    return {"window": float(above.any(axis=1).mean()), "window_games": float(first.mean())}


def strength(elo: float, settings: PromotionSettings, runs: int) -> Row:
    """Promotions of candidates of one strength in mirrored games, by the gate and by the window."""
    mean = expected_score(elo)
    promoted, _, pairs = simulate(gate, "mirrored games", settings.against_best, mean, runs)
    rng = np.random.default_rng(round(elo) + 1000)
    games = mirrored_games(mean, (runs, 300), rng, SEAT_LUCK).reshape(runs, -1)
    return {"promoted": promoted, "games": 2 * pairs, **window(games)}


class Table:
    """Rows by name; with a file, those of earlier runs are taken from it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: dict[str, Row] = json.loads(path.read_text()) if path and path.exists() else {}

    def row(self, name: str, make: Callable[[], Row]) -> Row:
        """A row, made unless an earlier run has made it."""
        if name not in self._rows:
            self._rows[name] = make()
            if self._path:
                part = self._path.with_suffix(".part")
                part.write_text(json.dumps(self._rows, indent=1) + "\n")
                part.replace(self._path)
        return self._rows[name]


def kinds(table: Table, test: MeanTest, runs: int) -> None:
    """Print the first table."""
    print(f"\n{'kind':28}{'equal promoted':>22}{'better kept':>22}{'undecided':>14}", end="")
    print(f"{'pairs':>12}{'2582fa9: errors':>18}{'pairs':>12}{'ratio':>7}")
    for kind in KINDS:
        own, old = (
            table.row(f"{name}, {kind}, {runs}, {test}", partial(errors, rule, kind, test, runs))
            for name, rule in (("gate", gate), ("2582fa9", pentanomial))
        )
        line = f"{kind:28}"
        for side in ("equal", "better"):
            line += f"{100 * own[side]:9.1f} % (to {100 * own[f'{side}_upper']:4.1f} %)"
        line += f"{100 * own['equal_undecided']:6.1f}{100 * own['better_undecided']:6.1f} %"
        line += f"{own['equal_pairs']:6.0f}{own['better_pairs']:6.0f}"
        line += f"{100 * old['equal']:9.1f}{100 * old['better']:7.1f} %"
        line += f"{old['equal_pairs']:6.0f}{old['better_pairs']:6.0f}"
        ratio = sum(own[f"{s}_pairs"] for s in ("equal", "better")) / sum(
            old[f"{s}_pairs"] for s in ("equal", "better")
        )
        print(f"{line}{ratio:7.2f}", flush=True)


def rules(table: Table, test: MeanTest, runs: int) -> None:
    """Print the second table: errors for equal and for better candidates, and mean pairs of both."""
    for kind in TELLING:
        print(f"\n{kind:28}{'equal':>7}{'better':>8}{'pairs':>12}{'undecided':>14}")
        for name, rule in RULES.items():
            # commit 2582fa9's rule had its own smallest number of pairs; the others need none
            row = table.row(
                f"{name}, {kind}, {runs}, {test}", partial(errors, rule, kind, test, runs)
            )
            print(
                f"  {name:26}{100 * row['equal']:6.1f}{100 * row['better']:7.1f} %"
                f"{row['equal_pairs']:6.0f}{row['better_pairs']:6.0f}"
                f"{100 * row['equal_undecided']:8.1f}{100 * row['better_undecided']:5.1f} %",
                flush=True,
            )


def strengths(table: Table, settings: PromotionSettings, runs: int) -> None:
    """Print the third table."""
    print(f"\n{'Elo':>5}{'promoted':>10}{'games':>7}{'window':>9}{'games':>7}")
    for elo in STRENGTHS:
        row = table.row(
            f"strength {elo:+.0f}, {runs}, {settings}", partial(strength, elo, settings, runs)
        )
        print(
            f"{elo:+5.0f}{row['promoted']:10.4f}{row['games']:7.0f}{row['window']:9.4f}"
            f"{row['window_games']:7.0f}",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings, table = PromotionSettings(), Table(options.json)
    print(settings.line())
    kinds(table, settings.against_best, options.runs)
    rules(table, replace(settings.against_best, least=1), max(50, options.runs // 5))
    strengths(table, settings, options.runs)


if __name__ == "__main__":
    main()
