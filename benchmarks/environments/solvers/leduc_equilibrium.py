"""An equilibrium of Leduc poker for the strong bot, by CFR+ over ranks.

    python -m benchmarks.environments.solvers.leduc_equilibrium [--iterations N]

Writes `srl_envs/families/cards/leduc_table.py`, the same bytes each time, and prints by how many chips a
hand the rounded strategy can be beaten.

Source: CFR+ with alternating updates and linear averaging, arXiv:1407.5042.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import srl_envs

Floats = NDArray[np.float64]
Strategy = Callable[[str, int | None, int], Floats]
"""(line, table card, number of words) -> chances (3 ranks, words)."""

PATH = Path(srl_envs.__file__).parent / "families/cards/leduc_table.py"
ITERATIONS = 2000
BETS, RAISES, RANKS = (2, 4), 2, 3


def _deals() -> Floats:
    """Probability of each deal, (own rank, other's rank, table rank)."""
    left = np.full((RANKS, RANKS, RANKS), 1.0)
    for mine, theirs, table in np.ndindex(left.shape):
        others = 2 - (mine == theirs)
        left[mine, theirs, table] = 2 * others * (2 - (mine == table) - (theirs == table)) / 120
    return left


def _shown() -> Floats:
    """Who wins a showdown, (own rank, other's rank, table rank): 1, 0 or -1."""
    value = np.array([[own + 9 * (own == table) for table in range(RANKS)] for own in range(RANKS)])
    signs: Floats = np.sign(value[:, None, :] - value[None, :, :]).astype(float)
    return signs


DEALS, SHOWN = _deals(), _shown()


def words(line: str) -> str:
    """Letters of the words that are possible after a line, as in `kuhn_poker.Table.line`."""
    betting = line.rpartition("/")[2]
    raised = sum(letter in "br" for letter in betting)
    if not raised:
        return "kb"
    return "fcr" if raised < RAISES else "fc"


def pot(line: str) -> list[int]:
    """Chips of who begins and of the other."""
    chips = [1, 1]
    for number, betting in enumerate(line.split("/")):
        for place, letter in enumerate(betting):
            mover = place % 2
            if letter in "cbr":
                chips[mover] = chips[1 - mover] + (BETS[number] if letter != "c" else 0)
    return chips


Visit = Callable[[str, int | None, Floats, Floats], Floats]
"""(line, table card, own reach, values of words (words, 3)) -> value at a decision of the seat."""


class Tree:
    """Counterfactual values over the public tree.

    Args:
        seat: whose values; 0 begins.
        strategy: of both seats.
        visit: gives the value at the seat's decisions.
    """

    def __init__(self, seat: int, strategy: Strategy, visit: Visit) -> None:
        self.seat, self.strategy, self.visit = seat, strategy, visit

    def values(self, line: str, table: int | None, own: Floats, other: Floats) -> Floats:
        """(3,) value of each rank of the seat, weighted by the other's reach and by chance.

        Args:
            line: so far.
            table: rank of the table card, None before it is shown.
            own: (3,) reach of the seat by its own words.
            other: (3,) the other's.
        """
        betting = line.rpartition("/")[2]
        if betting.endswith("f"):
            return self._folded(line, table, other)
        if betting.endswith("c") or betting == "kk":
            if table is not None:
                return self._shown(line, table, other)
            return _total(self.values(line + "/", k, own, other) for k in range(RANKS))
        chances_3W = self.strategy(line, table, len(words(line)))
        mine = len(betting) % 2 == self.seat
        moves = [
            self.values(
                line + word,
                table,
                own * chances if mine else own,
                other if mine else other * chances,
            )
            for word, chances in zip(words(line), chances_3W.T, strict=True)
        ]
        return self.visit(line, table, own, np.array(moves)) if mine else _total(moves)

    def _folded(self, line: str, table: int | None, other: Floats) -> Floats:
        folder = (len(line.rpartition("/")[2]) - 1) % 2
        won = pot(line)[folder] * (-1 if folder == self.seat else 1)
        deals = DEALS.sum(axis=2) if table is None else DEALS[:, :, table]
        return _total((won * deals * other).T)

    def _shown(self, line: str, table: int, other: Floats) -> Floats:
        won = pot(line)[self.seat] * SHOWN[:, :, table]
        return _total((won * DEALS[:, :, table] * other).T)


def _total(parts: Iterable[Floats]) -> Floats:
    total = np.zeros(RANKS)
    for part in parts:
        total = total + part
    return total


class Solver:
    """Regrets and average chances per public decision."""

    def __init__(self) -> None:
        self.regrets: dict[tuple[str, int | None], Floats] = {}
        self.sums: dict[tuple[str, int | None], Floats] = {}

    def now(self, line: str, table: int | None, count: int) -> Floats:
        """The present strategy, by regret matching."""
        regrets = self.regrets.setdefault((line, table), np.zeros((RANKS, count)))
        total = regrets.sum(axis=1, keepdims=True)
        return np.where(total > 0, regrets / np.where(total > 0, total, 1), 1 / count)

    def average(self, line: str, table: int | None, count: int) -> Floats:
        """The average strategy."""
        sums = self.sums.get((line, table), np.zeros((RANKS, count)))
        total = sums.sum(axis=1, keepdims=True)
        return np.where(total > 0, sums / np.where(total > 0, total, 1), 1 / count)

    def run(self, iterations: int) -> None:
        """Both seats in turn, so many times."""
        ones = np.ones(RANKS)
        for number in range(1, iterations + 1):

            def learn(
                line: str, table: int | None, own: Floats, moves: Floats, weight: int = number
            ) -> Floats:
                chances = self.now(line, table, len(moves))
                value: Floats = (chances * moves.T).sum(axis=1)
                key = line, table
                self.regrets[key] = np.maximum(self.regrets[key] + moves.T - value[:, None], 0)
                known = self.sums.setdefault(key, np.zeros_like(chances))
                known += weight * own[:, None] * chances
                return value

            for seat in (0, 1):
                Tree(seat, self.now, learn).values("", None, ones, ones)


def exploitability(strategy: Strategy) -> float:
    """Chips a hand that best responses to a strategy win, the mean over both seats; see OpenSpiel's."""
    ones = np.ones(RANKS)

    def best(_line: str, _table: int | None, _own: Floats, moves: Floats) -> Floats:
        found: Floats = moves.max(axis=0)
        return found

    trees = (Tree(seat, strategy, best) for seat in (0, 1))
    return sum(float(tree.values("", None, ones, ones).sum()) for tree in trees) / 2


def rounded(chances: Floats) -> list[list[int]]:
    """Chances in thousandths; each row adds up to 1000."""
    rows = []
    for row in chances:
        whole = [round(1000 * float(chance)) for chance in row]
        whole[int(np.argmax(row))] += 1000 - sum(whole)
        rows.append(whole)
    return rows


def table_of(solver: Solver) -> dict[str, tuple[tuple[int, int], ...]]:
    """Line -> thousandths of (bet or raise, call), by the own rank, and by that of the table card."""
    lines: dict[str, list[tuple[int, int]]] = {}
    for line, table in sorted(solver.sums, key=lambda key: (len(key[0]), key[0], key[1] or 0)):
        said = words(line)
        for row in rounded(solver.average(line, table, len(said))):
            parts = dict(zip(said, row, strict=True))
            push = parts.get("b", 0) + parts.get("r", 0)
            lines.setdefault(line, []).append((push, parts.get("c", 0)))
    return {line: tuple(rows) for line, rows in lines.items()}


def strategy_of(rows: dict[str, tuple[tuple[int, int], ...]]) -> Strategy:
    """The strategy of a table, as the bot plays it."""

    def chances(line: str, table: int | None, count: int) -> Floats:
        start = 0 if table is None else RANKS * table
        found = np.array(rows[line][start : start + RANKS]) / 1000
        push, call = found.T
        if words(line) == "kb":
            return np.array([1 - push, push]).T
        moves = [1 - push - call, call, push]
        return np.array(moves[:count]).T

    return chances


def source(rows: dict[str, tuple[tuple[int, int], ...]], left: float) -> str:
    """The module that holds the table."""
    shown = "\n".join(f'    "{line}": {row},' for line, row in rows.items())
    return f'''"""An equilibrium of Leduc poker, to {left:.4f} chips a hand.

Do not edit. Written by:

    python -m benchmarks.environments.solvers.leduc_equilibrium
"""

# fmt: off
CHANCES: dict[str, tuple[tuple[int, int], ...]] = {{
{shown}
}}
# fmt: on
"""Line of a hand, as in `kuhn_poker.Table.line` -> thousandths of (bet or raise, call), by own J, Q, K;
after a slash three times, for a table card J, Q, K. What is left checks or folds."""
'''


def main() -> int:
    """Solve, write, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument("--path", type=Path, default=PATH)
    asked = parser.parse_args()
    solver = Solver()
    solver.run(asked.iterations)
    rows = table_of(solver)
    left = exploitability(strategy_of(rows))
    asked.path.write_text(source(rows, left))
    exact = exploitability(solver.average)
    sys.stdout.write(f"{left:.5f} chips a hand; {exact:.5f} before rounding\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
