"""Nothing that one entrant does moves another's row, and a row is what its own matches make it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.league.ratings.pairs import Pairs
from srl_agents.league.ratings.separate import rate_separately
from srl_agents.league.ratings.tables import expected_score, rate
from srl_envs.errors import ConfigError

BOTS = {"bot:a": -200.0, "bot:b": 0.0, "bot:c": 200.0}
Row = tuple[str, str, float, str]


def rows(
    name: str, elo: float, others: dict[str, float], seed: int, clusters: int = 40
) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [
        (name, other, float(rng.random() < expected_score(elo - their)), f"{name}{k}")
        for k in range(clusters)
        for other, their in others.items()
        if other != name
    ]


REFERENCES = [row for k, (name, elo) in enumerate(BOTS.items()) for row in rows(name, elo, BOTS, k)]


def table(*entrants: list[Row]):  # type: ignore[no-untyped-def]
    pairs = Pairs.of([*REFERENCES, *(row for own in entrants for row in own)])
    return rate_separately(pairs, list(BOTS), anchors=list(BOTS))


@pytest.mark.slow
@given(
    strange=st.lists(
        st.tuples(st.sampled_from([*BOTS, "mine"]), st.sampled_from([0.0, 0.5, 1.0])),
        min_size=1,
        max_size=30,
    )
)
def test_no_result_of_another_moves_a_number(strange: list[tuple[str, float]]) -> None:
    mine = rows("mine", 100, BOTS, 7)
    without = table(mine)
    attack = [("enemy", other, score, f"e{k}") for k, (other, score) in enumerate(strange)]
    if not any(other in BOTS for other, *_ in strange):
        attack.append(("enemy", "bot:a", 0.0, "e"))
    beside = table(mine, attack)
    for agent in [*BOTS, "mine"]:
        one, other = without[agent], beside[agent]
        assert (one.elo, one.low, one.high) == (other.elo, other.low, other.high)


def test_one_fit_of_all_would_be_moved() -> None:
    """What this module is for: the same attack moves everybody in a joint fit."""
    mine, attack = (
        rows("mine", 100, BOTS, 7),
        [
            *[("enemy", "bot:a", 0.0, f"e{k}") for k in range(200)],
            *[("enemy", "bot:c", 1.0, f"e{k}") for k in range(200)],
        ],
    )
    joint = rate(Pairs.of([*REFERENCES, *mine, *attack]), anchors=list(BOTS))
    assert abs(joint["mine"].elo - table(mine)["mine"].elo) > 10


def test_an_entrants_row_is_that_of_a_fit_with_the_references() -> None:
    mine, other = rows("mine", 100, BOTS, 7), rows("other", -300, BOTS, 8)
    both = table(mine, other)
    own = rate(Pairs.of([*REFERENCES, *mine]), anchors=list(BOTS))["mine"]
    assert (both["mine"].elo, both["mine"].low, both["mine"].high) == pytest.approx(
        (own.elo, own.low, own.high)
    )
    assert [r.agent for r in both.ratings] == sorted(both.agents, key=lambda name: -both[name].elo)
    assert both.difference("mine", "other").low > 0
    assert both["other"].best_rank > both["mine"].worst_rank


def test_references_that_never_met_rate_nobody() -> None:
    with pytest.raises(ConfigError, match="no match between two references"):
        rate_separately(Pairs.of(rows("mine", 0, BOTS, 1)), list(BOTS), anchors=list(BOTS))
