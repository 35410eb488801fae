"""The learning experiments' recipes can be built, and their tables name conditions that exist."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning.conditions import ARENAS, BASELINE, TABLES, Table
from benchmarks.learning.experiments import arguments, interval, load, save, table_text, wanted
from srl_agents.recipes.loading import load as load_recipe
from srl_agents.recipes.settings import LeagueRecipe

PAIRS = [(arena, name) for arena, found in ARENAS.items() for name in found.conditions]


@pytest.mark.parametrize(("arena", "condition"), PAIRS)
def test_every_condition_is_a_recipe(arena: str, condition: str, tmp_path: Path) -> None:
    recipe, _, seed, _, out, *sets = arguments((arena, condition, 2), tmp_path)
    built = load_recipe(LeagueRecipe, Path(recipe), [*sets[1::2], f"seed={seed}"])
    assert built.seed == 2
    assert out.endswith(f"{arena}/{condition}/seed2")
    baseline = load_recipe(LeagueRecipe, Path(recipe), ["seed=2"])
    assert (built == baseline) == (condition == BASELINE)
    assert built.rollout == baseline.rollout  # as many tokens to learn from
    assert built.updates == baseline.updates or condition == "untrained"


def test_tables_compare_conditions_of_their_arena() -> None:
    for table in TABLES:
        assert set(table.conditions) <= set(ARENAS[table.arena].conditions) - {BASELINE}
    assert {(t.arena, name) for t in TABLES for name in (BASELINE, *t.conditions)} == set(PAIRS)


def test_the_queue_keeps_the_order_of_the_patterns_within_a_seed() -> None:
    keys = wanted(["public_goods/mixed", "math_duel/p*", "*/mixed"], [1, 0])
    order = [
        ("public_goods", "mixed"),
        ("math_duel", "ppo"),
        ("math_duel", "mixed"),
        ("public_goods_fluent", "mixed"),
    ]
    assert keys == [(*name, seed) for seed in (1, 0) for name in order]


def test_intervals_over_three_seeds() -> None:
    """Mean 0.2, deviation 0.1: t(2) = 4.303, over the root of 3."""
    assert interval([0.1, 0.2, 0.3]) == "+0.200 ± 0.248"
    assert interval([0.25]) == "+0.250"


def test_differences_are_taken_seed_by_seed(tmp_path: Path) -> None:
    table = Table(
        title="t",
        name="n",
        arena="math_duel",
        conditions=("ppo", "dpo"),
        measures={"points": "points"},
    )
    rows = [
        {
            "arena": "math_duel", "condition": condition, "seed": seed, "tokens": 10, "cpu_s": 1.0,
            "final": {"points": points},
        }
        for condition, points_S in ((BASELINE, (0.1, 0.5, 0.9)), ("ppo", (0.2, 0.6, 1.0)))
        for seed, points in enumerate(points_S)
    ]  # fmt: skip
    save(rows[::-1], tmp_path / "rows.json")
    lines = table_text(table, load(tmp_path / "rows.json")).splitlines()
    assert len(lines) == 4  # no row for what was not run
    assert lines[3].endswith("| +0.600 ± 0.994 | +0.100 ± 0.000 |")
    assert np.mean(
        [row["final"]["points"] for row in load(tmp_path / "rows.json")]
    ) == pytest.approx(0.55)
