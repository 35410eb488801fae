"""Solvers beside values that are known, and the published rows beside what they claim."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from benchmarks.environments import solved_values
from benchmarks.environments.solvers import bids, boards, cards, leduc_equilibrium
from srl_envs.families.bargaining.sealed_auction import RESERVES
from srl_envs.families.cards.leduc_table import CHANCES
from srl_envs.turns.grammar import action

ROWS = {row["name"]: row for row in json.loads(solved_values.RESULTS.read_text())}


def test_every_game_that_is_solved_has_a_row_of_all_its_bots() -> None:
    assert [*ROWS] == [*solved_values.SOLVED]
    for name, (env_id, _) in solved_values.SOLVED.items():
        assert [*ROWS[name]["bots"]] == [*srl_envs.spec(env_id).bots]
        assert ROWS[name]["game"].split()[0] == env_id


def test_connect_four_on_small_boards() -> None:
    """Who begins wins on 4 x 4 with three in a row, and draws with four (Tromp's table of solved sizes)."""
    assert boards.Solver(4, 4, 3).value(0, 0) == 1
    assert boards.Solver(4, 4, 4).value(0, 0) == 0
    solver = boards.Solver(4, 5, 4)
    mine, theirs = 0b111, 0b111 << 5  # three on top of each other, in the first columns
    assert solver.moves(mine, mine | theirs)[0] == 1
    assert solver.moves(theirs, mine | theirs)[1] == 1


def test_a_box_is_pushed_and_never_pulled() -> None:
    walls = frozenset((r, c) for r in range(3) for c in range(5) if r in (0, 2) or c in (0, 4))
    room = boards.Maze(walls, frozenset({(1, 2)}), frozenset({(1, 3)}), (1, 1))
    assert boards.fewest_moves(room) == 1
    with pytest.raises(ValueError, match="no way"):
        boards.fewest_moves(room._replace(goals=frozenset({(1, 1)})))


def test_first_price_bids_of_equals() -> None:
    """With many values, bid b for v with (v - b) (3 / (v b') + 1 / (b - 11.5)) = 1: what more wins is what
    it costs. The lowest reserve is 12, so 11.5 where bids are not whole.
    """
    mixed, left = bids.first_price_equilibrium(rounds=4000)
    assert left < 0.01
    low, step = 11.5, 1e-3
    value, bid = low + 0.05, low + 0.025 + 0.75 / low * 0.05**2  # a series at the lowest reserve
    due = {}
    while value < 20.1:
        due[round(value, 3)] = bid
        bid += step * 3 * (value - bid) / value / (1 - (value - bid) / (bid - low))
        value += step
    for worth in range(14, 21):
        assert mixed[worth] @ np.array(bids.BIDS) == pytest.approx(due[worth], abs=0.8)
    assert mixed[12] @ (np.array(bids.BIDS) > 0) < 0.01  # below every reserve


def test_a_bid_wins_as_often_as_by_simulation() -> None:
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(len(bids.BIDS)))
    drawn = rng.choice(len(bids.BIDS), size=(40_000, 3), p=chances)
    reserves = rng.choice(RESERVES, size=40_000)
    for number in (0, 4, 15, len(bids.BIDS) - 1):
        lost = (drawn > number).any(axis=1) | (number < reserves)
        won = np.where(lost, 0.0, 1 / (1 + (drawn == number).sum(axis=1)))
        assert bids.chance_to_win(chances)[number] == pytest.approx(won.mean(), abs=0.01)


def test_jam_or_fold_plays_aces_and_leaves_the_worst() -> None:
    sample = cards.deals(20_000, np.random.default_rng(1))
    jams, calls, left = cards.jam_or_fold(sample, 16, rounds=1000)
    aces, worst = cards.hand_class((48, 49)), cards.hand_class((0, 21))  # AA, and 7 2 of two suits
    assert left < 0.01
    assert min(jams[aces], calls[aces]) > 0.95
    assert max(jams[worst], calls[worst]) < 0.3
    assert (
        cards.hand_class((48, 44)) > cards.hand_class((48, 45)) - 169
    )  # suited and unsuited differ
    assert cards.hand_class((48, 44)) != cards.hand_class((48, 45))


def test_the_shipped_table_of_leduc_is_an_equilibrium() -> None:
    """OpenSpiel's best response finds the same: see the row of leduc."""
    shipped = leduc_equilibrium.strategy_of(CHANCES)
    assert leduc_equilibrium.exploitability(shipped) < 0.002
    assert ROWS["leduc"]["bots"]["strong"] < 0.05  # its chances are counted in 2,000 replies
    folds = {line: tuple((0, 0) for _ in rows) for line, rows in CHANCES.items()}
    assert leduc_equilibrium.exploitability(leduc_equilibrium.strategy_of(folds)) == pytest.approx(
        1
    )


def test_fewer_rounds_of_regrets_are_further_from_the_equilibrium() -> None:
    left = []
    for iterations in (10, 60):
        solver = leduc_equilibrium.Solver()
        solver.run(iterations)
        left.append(leduc_equilibrium.exploitability(solver.average))
    assert 1 > left[0] > 2 * left[1] > 0.002


@pytest.mark.nightly
def test_the_table_of_leduc_comes_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["leduc_equilibrium", "--path", str(tmp_path / "table.py")])
    assert leduc_equilibrium.main() == 0
    assert (tmp_path / "table.py").read_bytes() == leduc_equilibrium.PATH.read_bytes()


@pytest.mark.slow
def test_who_always_calls_is_beaten_and_who_never_calls_is_stolen_from() -> None:
    replies = {"always": action("call"), "never": action("fold")}
    row = cards.holdem(
        ("always", "never"), lambda name, _: lambda _text: replies[name], sample=20_000, draws=1
    )
    assert row.bots["never"] == pytest.approx(2, abs=0.2)  # the blind, every time
    assert 0.3 < row.bots["always"] < 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kuhn", "connect four, small", "plan path"])
def test_rows_come_out_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(solved_values, "publish", found.append)
    monkeypatch.setattr("sys.argv", ["solved_values", "--publish", "--only", name])
    assert solved_values.main() == 0
    assert found[0]["bots"] == pytest.approx(ROWS[name]["bots"], abs=1e-9)
