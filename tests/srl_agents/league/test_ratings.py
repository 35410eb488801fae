"""Ratings against sums done by hand and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.league import wide_fields
from srl_agents.league.ratings import davidson
from srl_agents.league.ratings.interval_ends import LENT_CLUSTERS, Evidence, limits
from srl_agents.league.ratings.tables import (
    DEFAULT_RIDGE,
    ELO_PER_NAT,
    Pairs,
    RatingTable,
    expected_score,
    head_to_head,
    paired_interval,
    rate,
    t_quantile,
)
from srl_envs.errors import ConfigError, ShapeError
from tests.srl_agents.league.rated_games import Row, field, games

# --- known answers ---------------------------------------------------------------------------


def test_two_agents_differ_by_the_log_of_wins_over_losses() -> None:
    table = rate(Pairs.of(games("a", "b", won=30, lost=10)), ridge=1e-9)
    assert table["a"].elo - table["b"].elo == pytest.approx(ELO_PER_NAT * math.log(3), abs=1e-4)
    assert table.tie_nu == 0


def test_ties_leave_the_log_odds_and_set_nu() -> None:
    """Davidson with two agents: d = log(W/L), nu = T / sqrt(W L)."""
    table = rate(Pairs.of(games("a", "b", won=40, tied=30, lost=10)), ridge=1e-9)
    assert table["a"].elo - table["b"].elo == pytest.approx(ELO_PER_NAT * math.log(4), abs=1e-4)
    assert table.tie_nu == pytest.approx(30 / math.sqrt(40 * 10), abs=1e-6)


@pytest.mark.parametrize(("won", "lost"), [(600, 400), (97, 3), (398, 2), (99, 1)])
def test_each_end_leaves_a_fortieth_beyond_the_results(won: int, lost: int) -> None:
    """Independent games of two agents: the binomial's tails, of which the result itself counts half."""
    interval = rate(Pairs.of(games("a", "b", won=won, lost=lost)), ridge=1e-9).difference("a", "b")
    total = won + lost

    def fewer(elo: float) -> float:
        p = 1 - expected_score(elo)
        chance = [math.comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(lost + 1)]
        return sum(chance) - chance[-1] / 2

    unbeaten_is_likely = expected_score(interval.high) ** total > 0.06
    above = 0.05 if unbeaten_is_likely else 0.025
    assert 1 - fewer(interval.high) == pytest.approx(above, rel=0.15)
    assert fewer(interval.low) == pytest.approx(0.025, rel=0.15)
    assert unbeaten_is_likely == (lost < 5)


def test_a_newcomer_who_lost_everything_has_an_end_where_half_of_that_is_a_fortieth() -> None:
    table = rate(Pairs.of(games("a", "b", lost=128)), ridge=1e-9)
    unlucky = (1 - expected_score(table.difference("a", "b").high)) ** 128
    assert unlucky / 2 == pytest.approx(0.025, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("seeds", [8, pytest.param(30, marks=pytest.mark.nightly)])
def test_newcomers_far_outside_are_covered_in_95_of_100_cases(seeds: int, sign: int) -> None:
    """Exact: all numbers of ties and upsets against known references, with their probabilities.

    One skill's coverage is a sum of few probabilities and cannot be 95 %; a mean over skills can.
    """
    rng, games_played = np.random.default_rng(0), 16 * seeds
    surprises = [(ties, upsets) for ties in range(5 + seeds // 2) for upsets in range(5)]
    ends = [_newcomer(seeds, ties, upsets, sign, rng) for ties, upsets in surprises]
    covered = []
    for elo in range(1100, 1350, 20):
        upset, loss, tie = (
            float(p) for p in davidson.probabilities(np.array(-elo / ELO_PER_NAT), wide_fields.NU)
        )
        total = 0.0
        for (ties, upsets), (low, high) in zip(surprises, ends, strict=True):
            ways = math.comb(games_played, ties) * math.comb(games_played - ties, upsets)
            rest = games_played - ties - upsets
            held = np.mean((low <= sign * elo) & (sign * elo <= high))
            total += ways * tie**ties * upset**upsets * loss**rest * float(held)
        covered.append(total)
    assert 0.94 < np.mean(covered) < 0.97
    assert min(covered) > 0.91


def test_luck_with_seeds_widens_by_how_much_a_seed_tells() -> None:
    """Five agents whose clusters scatter three times as much as chance, and one that hardly has results."""
    information = np.array([200.0] * 5 + [0.5])
    found = limits(
        Evidence(
            variance_N=1 / information,
            observed_N=np.array([600.0] * 5 + [0.5]) / information**2,
            expected_N=1 / information,
            clusters_N=np.full(6, 8),
        )
    )
    assert found.half_N[:5] == pytest.approx(3 * t_quantile(7) ** 2, rel=0.02)
    assert found.half_N[5] == pytest.approx(1.96**2, rel=0.05)
    assert found.whole_N[5] == pytest.approx(1.645**2, rel=0.05)


def _newcomer(
    seeds: int, ties: int, upsets: int, sign: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a newcomer's intervals, surprises drawn among the seeds four times."""
    count, found = 16 * seeds, []
    known = 4000 // seeds * seeds
    tied = round(known * wide_fields.NU / (2 + wide_fields.NU) / 2) * 2
    level = np.repeat([0.5, 1.0, 0.0], [tied, (known - tied) // 2, (known - tied) // 2])
    for _ in range(4):
        own = np.repeat([0.5, 1.0, 0.0], [ties, upsets, count - ties - upsets])
        rng.shuffle(own)
        pairs = Pairs(
            ("one", "other", "new"),
            np.repeat([0, 2], [known, count]),
            np.concatenate([np.ones(known, dtype=np.int64), np.arange(count) // seeds % 2]),
            np.concatenate([level, own if sign < 0 else 1 - own]),
            np.concatenate([np.arange(known), np.arange(count)]) % seeds,
        )
        row = rate(pairs, anchors=["one", "other"])["new"]
        found.append((row.low, row.high))
    low, high = np.array(found).T
    return low, high


def test_games_of_one_seed_count_as_one_observation() -> None:
    once = rate(Pairs.of(games("a", "b", won=60, lost=40)), ridge=1e-6)
    eightfold = rate(Pairs.of(games("a", "b", won=60, lost=40) * 8), ridge=1e-6)
    assert eightfold["a"].half_width == pytest.approx(once["a"].half_width, rel=0.02)


def test_mirrored_wins_of_the_first_seat_say_nothing_about_skill() -> None:
    rows = [r for s in range(40) for r in (("a", "b", 1.0, f"s{s}"), ("b", "a", 1.0, f"s{s}"))]
    table = rate(Pairs.of(rows))
    assert table["a"].elo == pytest.approx(0, abs=1e-9)
    assert table["a"].half_width < 20  # only the prior is left


def test_the_fit_is_the_top_of_the_posterior() -> None:
    """Finite differences of a log-posterior written down independently."""
    rows, _ = field(5, 12, nu=0.6, rng=np.random.default_rng(0))
    table = rate(Pairs.of(rows))
    names = sorted(table.agents)

    def log_posterior(theta: np.ndarray) -> float:
        t, eta = dict(zip(names, theta[:-1], strict=True)), theta[-1]
        total = -DEFAULT_RIDGE / 2 * float(theta @ theta)
        for a, b, score, _ in rows:
            half = (t[a] - t[b]) / 2
            weight = {1.0: half, 0.0: -half, 0.5: eta}[score]
            total += weight - math.log(math.exp(half) + math.exp(-half) + math.exp(eta))
        return total

    t = np.array([table[a].elo for a in names]) / ELO_PER_NAT
    theta = np.append(t - t.mean(), math.log(table.tie_nu))
    for k in range(theta.size):
        step = np.eye(theta.size)[k] * 1e-5
        slope = (log_posterior(theta + step) - log_posterior(theta - step)) / 2e-5
        assert slope == pytest.approx(0, abs=1e-4)


def test_errors_correlate_as_in_the_sandwich_written_out() -> None:
    """Numerical gradients per cluster and a numerical Hessian, log nu included."""
    rng = np.random.default_rng(5)
    names = ["a", "b", "c", "d"]
    rows = []
    for cluster in range(9):
        for _ in range(12):
            i, j = rng.choice(4, 2, replace=False, p=[0.55, 0.25, 0.1, 0.1])
            score = float(
                rng.choice([1.0, 0.5, 0.0], p=[0.5, 0.3, 0.2] if i < j else [0.1, 0.3, 0.6])
            )
            rows.append((names[i], names[j], score, f"s{cluster}"))
    table = rate(Pairs.of(rows), anchors=["d"])

    def likelihood(theta: np.ndarray, chosen: list[Row]) -> float:
        total = 0.0
        for a, b, score, _ in chosen:
            half = (theta[names.index(a)] - theta[names.index(b)]) / 2
            log_weights = {1.0: half, 0.0: -half, 0.5: theta[4]}
            total += log_weights[score] - np.logaddexp.reduce(list(log_weights.values()))
        return total

    t = np.array([table[a].elo for a in names]) / ELO_PER_NAT
    theta, step = np.append(t - t.mean(), math.log(table.tie_nu)), 1e-4 * np.eye(5)

    def gradient(at: np.ndarray, chosen: list[Row]) -> np.ndarray:
        ends = [(likelihood(at + e, chosen), likelihood(at - e, chosen)) for e in step]
        return np.array([(up - down) / 2e-4 for up, down in ends])

    hessian = DEFAULT_RIDGE * np.eye(5)
    hessian -= np.array(
        [(gradient(theta + e, rows) - gradient(theta - e, rows)) / 2e-4 for e in step]
    )
    scores = [gradient(theta, [r for r in rows if r[3] == f"s{c}"]) for c in range(9)]
    prior = DEFAULT_RIDGE * np.eye(5)
    own = 8 / (8 + LENT_CLUSTERS)  # the rest of the results' share is the model's
    meat = own * 9 / 8 * sum(np.outer(u, u) for u in scores) + (1 - own) * (hessian - prior) + prior
    to_anchor = np.eye(5)  # differences to "d", so that no choice of gauge enters
    to_anchor[:4, 3] -= 1
    # the inverse on the sum-zero subspace, by a basis of that subspace
    basis = np.linalg.svd(np.array([[1.0, 1, 1, 1, 0]]))[2][1:].T
    bread = basis @ np.linalg.inv(basis.T @ hessian @ basis) @ basis.T
    covariance = ELO_PER_NAT**2 * (to_anchor @ bread @ meat @ bread @ to_anchor.T)[:4, :4]
    deviation = np.sqrt(np.diag(covariance))
    deviation[3] = 1  # of "d" itself, which has none
    order = [names.index(a) for a in table.agents]
    expected = (covariance / deviation[:, None] / deviation[None, :])[np.ix_(order, order)]
    assert table.correlation_NN == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("lucky", [False, True])
def test_differences_after_two_seeds_hold_the_truth(lucky: bool) -> None:
    """95 % of them, one per agent of 60 fields; by the scatter between two clusters only, 88 %."""
    design = wide_fields.Design(spread=300, seeds=2, lucky=lucky)
    found = wide_fields.measure(design, fields=60)
    assert found["coverage_differences"] >= 0.94


def test_a_strong_prior_pulls_everyone_to_zero_and_a_weak_one_lets_go() -> None:
    pairs = Pairs.of(games("a", "b", won=30, lost=10))
    spread = [rate(pairs, ridge=r)["a"].elo for r in (1e6, 10.0, 1.0, 1e-3, 1e-6)]
    assert spread == sorted(spread)
    assert spread[0] == pytest.approx(0, abs=0.05)
    assert spread[-1] == pytest.approx(ELO_PER_NAT * math.log(3) / 2, abs=1e-3)


def test_anchors_define_zero() -> None:
    rows, _ = field(5, 20, nu=0.3, rng=np.random.default_rng(1))
    pairs = Pairs.of(rows)
    free, anchored = rate(pairs), rate(pairs, anchors=["a1", "a3", "never played"])
    assert anchored.anchors == ("a1", "a3")
    assert anchored["a1"].elo + anchored["a3"].elo == pytest.approx(0, abs=1e-9)
    assert free["a0"].elo - free["a4"].elo == pytest.approx(anchored["a0"].elo - anchored["a4"].elo)
    assert free.difference("a0", "a4").half_width == pytest.approx(
        anchored.difference("a0", "a4").half_width, rel=0.1
    )
    assert sum(r.elo for r in free.ratings) == pytest.approx(0, abs=1e-9)


def test_a_single_anchor_has_no_width_and_an_unplayed_field_falls_back_to_the_mean() -> None:
    pairs = Pairs.of(games("a", "b", won=30, lost=20))
    table = rate(pairs, anchors=["b"])
    assert (table["b"].elo, table["b"].half_width) == pytest.approx((0, 0), abs=1e-6)
    assert rate(pairs, anchors=["x"]).anchors == ("a", "b")


# --- wide fields -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [8, 30])
@pytest.mark.parametrize(
    ("spread", "outsiders"), [(800, ()), (300, (-1200, -1200)), (300, (1200, -1200))]
)
def test_intervals_hold_far_apart_and_with_few_seeds(
    spread: int, outsiders: tuple[int, ...], seeds: int
) -> None:
    """`benchmarks.league.accuracy` measures this with fields enough to tell 93 from 97 %."""
    design = wide_fields.Design(spread=spread, seeds=seeds, lucky=True, outsiders=outsiders)
    found = wide_fields.measure(design, 40)
    for name in ("coverage", "coverage_others", "coverage_differences"):
        assert found[name] > 0.95 - 4 * max(found[f"{name}_se"], 0.005), name
    assert found["half_width_elo"] < 700


def clumps(upsets: int) -> RatingTable:
    """Two of three agents, equal inside; the upper one wins all between them but some of a4 against a1."""
    rows = []
    for seed in range(16):
        for i in range(6):
            for j in range(i):
                if (i < 3) == (j < 3):
                    scores = float(seed % 2), float(seed // 2 % 2)
                else:
                    scores = (float((i, j) != (4, 1) or seed >= upsets),) * 2
                rows += [(f"a{i}", f"a{j}", score, f"s{seed}") for score in scores]
    return rate(Pairs.of(rows))


@pytest.mark.parametrize("upsets", [1, 3])
def test_upsets_between_clumps_count_for_all_of_a_clump(upsets: int) -> None:
    """By their tails: the far side of the mates is longer, as that of the agent in the upsets is."""
    table = clumps(upsets)
    for name in ("a3", "a4", "a5"):
        row = table[name]
        assert 1.15 * (row.elo - row.low) < row.high - row.elo < 2 * (row.elo - row.low)
        assert not any("chain" in reason for reason in row.provisional)
    assert table.difference("a3", "a5").high < 200


def test_the_prior_is_no_evidence_on_a_side_that_a_result_ends() -> None:
    rows = [("a", "b", float(k > 0), f"s{k % 16}") for k in range(128)]
    free, pulled = (rate(Pairs.of(rows), anchors=["b"], ridge=r)["a"] for r in (1e-9, 0.134))
    assert pulled.elo < free.elo - 40
    assert pulled.high == pytest.approx(free.high, abs=45)  # 176 nearer if the prior counted
    unbeaten = Pairs.of([("a", "b", 1.0, f"s{k % 16}") for k in range(128)])
    assert rate(unbeaten, anchors=["b"], ridge=0.134)["a"].high < 2000


def test_clumps_without_an_upset_are_provisional_with_the_priors_far_end() -> None:
    table = clumps(0)
    for row in table.ratings:
        near, far = sorted((row.high - row.elo, row.elo - row.low))
        assert "chain of wins" in row.provisional[-1]
        assert 1.5 * near < far < 3000
    assert (table["a3"].worst_rank, table["a0"].best_rank) == (3, 4)
    assert table.difference("a3", "a5").high < 450


# --- newcomers, gaps, doubts -----------------------------------------------------------------


def test_an_undefeated_newcomer_leaves_the_others_in_order() -> None:
    rows, _ = field(8, 40, nu=0.3, rng=np.random.default_rng(2))
    before = rate(Pairs.of(rows))
    after = rate(Pairs.of(rows + games("new", "a0", won=3)), anchors=before.agents)
    assert [a for a in after.agents if a != "new"] == list(before.agents)
    for agent in before.agents:
        moved = after[agent].elo - after["a1"].elo - before[agent].elo + before["a1"].elo
        assert abs(moved) < 5
    new = after["new"]
    assert math.isfinite(new.elo)
    assert new.half_width > 200  # three wins prove little
    assert len(new.provisional) == 3
    assert not after["a1"].provisional


def test_one_sided_results_are_wide_whatever_the_number_of_seeds() -> None:
    table = rate(Pairs.of(games("a", "b", won=64)))
    assert 300 < table["a"].elo - table["b"].elo < 2000
    assert table.difference("a", "b").low > 0
    assert table["a"].provisional


def test_disconnected_groups_are_marked() -> None:
    rows = games("a", "b", won=40, lost=40) + games("c", "d", won=50, lost=30)
    table = rate(Pairs.of(rows))
    assert all("chain of wins" in r.provisional[-1] for r in table.ratings)


def test_one_cluster_gives_no_interval() -> None:
    table = rate(Pairs.of([("a", "b", 1.0, "s"), ("b", "a", 0.0, "s")]))
    assert table["a"].half_width == math.inf
    assert (table["a"].best_rank, table["a"].worst_rank) == (1, 2)


def test_an_agent_without_games_sits_at_the_prior_without_an_interval() -> None:
    rows = games("a", "b", won=30, lost=30)
    table = rate(Pairs.of(rows, agents=["ghost"]))
    assert table["ghost"].elo == pytest.approx(0, abs=1e-9)
    assert table["ghost"].half_width == math.inf
    assert math.isnan(table["ghost"].field_score)


def test_only_ties_is_a_level_field() -> None:
    table = rate(Pairs.of(games("a", "b", tied=50)))
    assert table["a"].elo == pytest.approx(0, abs=1e-9)
    assert math.isfinite(table.tie_nu)
    assert expected_score(0, table.tie_nu) == 0.5


def test_rank_sets_hold_the_unresolved_and_drop_the_resolved() -> None:
    rows = (
        games("strong", "weak", won=90, lost=10)
        + games("twin", "weak", won=90, lost=10)
        + games("strong", "twin", won=50, lost=50)
    )
    table = rate(Pairs.of(rows))
    assert [(r.best_rank, r.worst_rank) for r in table.ratings] == [(1, 2), (1, 2), (3, 3)]
    assert 20 < table.resolution < 150


def test_two_agents_far_from_the_anchor_are_still_told_apart() -> None:
    """The distance to the anchor is unknown for both, the one between them is not."""
    rows = games("a", "b", won=240, lost=160) + games("a", "anchor", won=2, lost=1, seed=1000)
    table = rate(Pairs.of(rows), anchors=["anchor"])
    a, b = table["a"], table["b"]
    assert a.elo - a.half_width < b.elo
    assert table.difference("a", "b").low > 0
    assert (a.worst_rank, b.best_rank) == (2, 2)


def test_expected_scores_are_those_observed() -> None:
    table = rate(Pairs.of(games("a", "b", won=40, tied=30, lost=10)), ridge=1e-9)
    assert table.expected_score("a", "b") == pytest.approx(55 / 80)


# --- simulation ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "luck"), [(16, 0.0), (48, 0.8)])
def test_intervals_cover_the_truth(clusters: int, luck: float) -> None:
    """Nominal 95 %. 40 fields of 6 agents; the standard error of the rate is about 2 %."""
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(40):
        rows, truth = field(6, clusters, nu=0.4, rng=rng, luck=luck)
        table = rate(Pairs.of(rows))
        scale = 1.0 if not luck else slope(table, truth)
        for k, elo in enumerate(truth):
            row = table[f"a{k}"]
            covered.append(abs(row.elo - elo * scale) <= row.half_width)
    assert 0.90 <= np.mean(covered) <= 0.99


def slope(table: RatingTable, truth: np.ndarray) -> float:
    """Unmodelled luck shrinks the marginal scale; coverage is about the shrunken truth."""
    elo = np.array([table[f"a{k}"].elo for k in range(truth.size)])
    return float(elo @ truth / (truth @ truth))


def test_ignoring_clusters_would_be_overconfident() -> None:
    """Eight games of one seed in the same seats, with a strong seed effect."""
    rng = np.random.default_rng(3)
    errors, clustered, naive = [], [], []
    for _ in range(60):
        rows = []
        for seed in range(24):
            p = 1 / (1 + math.exp(-2.0 * rng.normal()))
            rows += [("a", "b", float(rng.random() < p), f"s{seed}") for _ in range(8)]
        table = rate(Pairs.of(rows))
        errors.append(abs(table["a"].elo))
        clustered.append(table["a"].half_width)
        singles = [(a, b, s, str(k)) for k, (a, b, s, _) in enumerate(rows)]
        naive.append(rate(Pairs.of(singles))["a"].half_width)
    assert np.mean(np.array(errors) <= clustered) >= 0.88
    assert np.mean(np.array(errors) <= naive) <= 0.75


# --- mistakes --------------------------------------------------------------------------------


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="no result"):
        rate(Pairs.of([]))
    with pytest.raises(ConfigError, match="ridge=0"):
        rate(Pairs.of(games("a", "b", won=1)), ridge=0)
    with pytest.raises(ConfigError, match="against itself"):
        Pairs.of([("a", "a", 1.0, "s")])
    with pytest.raises(ConfigError, match="a score is"):
        Pairs.of([("a", "b", 0.7, "s")])
    with pytest.raises(ConfigError, match="never met"):
        head_to_head(Pairs.of(games("a", "b", won=1) + games("c", "a", won=1)), "c", "b")
    with pytest.raises(ConfigError, match="'x'"):
        head_to_head(Pairs.of(games("a", "b", won=1)), "a", "x")
    with pytest.raises(ConfigError, match="'x'"):
        rate(Pairs.of(games("a", "b", won=1)))["x"]
    with pytest.raises(ShapeError):
        paired_interval(np.ones(2), np.ones(3))
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(ShapeError, match="agent numbers"):
        Pairs(("a",), one, one + 1, np.ones(1), one)
    with pytest.raises(ShapeError, match="one length"):
        Pairs(("a", "b"), one, one + 1, np.ones(2), one)
