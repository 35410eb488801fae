"""A gate over several games: better in one of them, worse in none, with the chances that its settings
state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from benchmarks.league.gates_by_game import promoted
from benchmarks.league.pair_scores import KINDS
from srl_agents.league.matchmaking.gate_rule import GateRule, one_of_several
from srl_agents.league.matchmaking.promotion import PromotionSettings
from srl_agents.league.ratings.intervals import Floats
from srl_envs.errors import ConfigError

GATE = PromotionSettings()
RUNS = 150


def at_most(chance: float) -> float:
    """A share that a true chance exceeds only by three standard errors."""
    return chance + 3 * math.sqrt(chance * (1 - chance) / RUNS)


@pytest.mark.parametrize("mean", [0.48, 0.5, 0.55, 0.6])
def test_in_one_game_it_is_the_test_of_that_game(mean: float) -> None:
    test = GATE.against_best
    scores = KINDS["mirrored games"](mean, (20, 2 * test.most), np.random.default_rng(3))
    for row in scores:
        found = GATE.rule().judge(["go"], lambda _, pairs, row=row: {"go": row[pairs]}, 20)  # type: ignore[misc]
        alone = test.find(row)
        assert found.pairs == {"go": alone.scores}
        assert (found.verdict == "passed") == (alone.answer == "above")


def test_games_are_bets_of_one_capital_one_after_the_other() -> None:
    """By hand: half the capital in each of two games, of which one makes 4 of 1 and the other 1/4."""
    wealth_GK = np.log(np.array([[4.0, 1.0], [0.25, 3.0]]))
    assert np.exp(GATE.rule(2).together(wealth_GK)) == pytest.approx(
        [(0.5 + 4 / 2) * (0.5 + 0.25 / 2), (0.5 + 1 / 2) * (0.5 + 3 / 2)]
    )
    assert GATE.rule().together(wealth_GK[:1]) == pytest.approx(wealth_GK[0])


@pytest.mark.parametrize("games", [2, 3, 8])
def test_one_game_is_enough_although_the_others_lost_all_they_bet(games: int) -> None:
    rule = GATE.rule(games)
    alone = -math.log(0.8 * one_of_several(GATE.alpha, games))
    assert rule.better.goals[0] == pytest.approx(alone)
    wealth_GK = np.full((games, 1), -1000.0)
    wealth_GK[0] = alone
    assert rule.goal <= rule.together(wealth_GK)[0] <= rule.goal + 0.02  # its own cash is left


def test_a_product_with_a_fair_bookmaker_gains_nothing_on_average() -> None:
    """The mean wealth of many candidates who are equal in every game stays 1."""
    rng = np.random.default_rng(1)
    scores = KINDS["win or loss"](0.5, (3, 20_000, 6), rng)
    above = GATE.rule(3).better.wealth(scores)[0][:, :, -1]
    wealth = np.exp(GATE.rule(3).together(above))
    assert wealth.mean() == pytest.approx(1.0, abs=4 * wealth.std() / math.sqrt(20_000))


@pytest.mark.slow
def test_one_game_hardly_ever_promotes_what_is_worse_in_another_by_the_margin() -> None:
    assert promoted("by game", GATE, (0.65, 0.45), RUNS)["promoted"] <= at_most(GATE.alpha)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("means", "passes"),
    [
        ((0.5, 0.5), False),
        ((0.45, 0.75, 0.6, 0.6), False),
        ((0.55, 0.5), True),
        ((0.55, 0.55, 0.55), True),
    ],
)
def test_both_chances_of_error_hold_over_games(means: Sequence[float], passes: bool) -> None:
    share = promoted("by game", GATE, means, RUNS)["promoted"]
    assert (1 - share if passes else share) <= at_most(0.05)


@pytest.mark.slow
def test_a_mean_over_games_promotes_what_is_worse_in_one() -> None:
    """So that the test above can fail: the rule of before does."""
    assert promoted("mean", GATE, (0.7, 0.45), 40)["promoted"] > 0.9


def test_pairs_are_played_only_where_something_is_open() -> None:
    """A game in which the candidate is shown not to be stronger waits until another shows that it is."""
    asked: list[tuple[str, ...]] = []
    means = {"go": 0.9, "nim": 0.5}

    def ask(games: Sequence[str], pairs: range) -> Mapping[str, Floats]:
        asked.append(tuple(games))
        return {game: np.full(len(pairs), means[game]) for game in games}

    found = GATE.rule(2).judge(["go", "nim"], ask, 20)
    assert found.verdict == "passed"
    assert asked[0] == ("go", "nim")
    assert all(games == ("nim",) for games in asked[1:])
    assert found.pairs["nim"] > found.pairs["go"] == 20


def test_scores_that_never_come_keep_the_candidate_out() -> None:
    for games in (1, 2):
        names = ["go", "nim"][:games]
        found = GATE.rule(games).judge(names, lambda open_, _: {g: np.zeros(0) for g in open_}, 500)
        assert found.verdict == "not better"


def test_a_gate_over_many_games_that_may_take_too_many_pairs_is_refused() -> None:
    settings = PromotionSettings(elo1=14)
    assert isinstance(settings.rule(1), GateRule)
    with pytest.raises(
        ConfigError, match=r"in 6 games one candidate may take [\d,]+ mirrored pairs"
    ):
        settings.rule(6)
    assert "in each of 3 games" in GATE.line(3)
