"""The comparison of self-play with a league: recipes that can be built, policies read off exactly."""

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import srl_envs
from benchmarks.league.best_response import Decision, blotto_decisions
from benchmarks.league.self_play import (
    PLAYED,
    UPDATES,
    WAYS,
    Reader,
    entropy,
    load,
    recipe,
    save,
    table_text,
    wanted,
)
from srl_agents.recipes.loading import load as load_recipe
from srl_agents.recipes.settings import LeagueRecipe

ANSWERS = ("1", "2", "3", "4", "5", "7")
BOARD = (
    "Connect four. Rows: 5. Columns: 5.\n"
    "Drop a piece with a column from 1 to 5, like this: <action>2</action>\n"
)


@pytest.mark.parametrize("game", list(PLAYED))
def test_both_ways_play_as_many_matches(game: str, tmp_path: Path) -> None:
    built = {}
    for way in WAYS:
        path = tmp_path / f"{way}.yaml"
        path.write_text(recipe(PLAYED[game], way, game, Path("tiny")))
        built[way] = load_recipe(LeagueRecipe, path)
    matches = {
        way: len(r.learners) * r.rollout.start_states * r.rollout.group_size
        for way, r in built.items()
    }
    assert matches["mirror"] == matches["league"]
    assert {r.updates for r in built.values()} == {UPDATES}
    assert built["mirror"].training == built["league"].training


@pytest.mark.slow
def test_chances_that_are_read_off_are_those_of_sampling() -> None:
    """Six replies of many, the rest is refused and goes to the fallback."""
    from srl_agents.engines.protocol import GenerationRequest

    reader = Reader(Path("tiny"))
    decision = Decision(BOARD, ANSWERS, fallback="3")
    policy, refused = reader.policy(iter([decision]), None)
    chances = dict(policy[BOARD])
    assert sum(chances.values()) == pytest.approx(1)
    chances["3"] -= refused
    asked = [GenerationRequest(observation=BOARD, version=None, key=(k,)) for k in range(640)]
    replies = [reply.text for reply in asyncio.run(reader.engine.generate_together(asked))]
    for body, chance in chances.items():
        share = np.mean([reply == f"<action>{body}</action>" for reply in replies])
        assert share == pytest.approx(chance, abs=4 * (chance / 640) ** 0.5 + 0.002)


def test_decisions_are_read_as_the_environment_shows_them() -> None:
    game = PLAYED["kuhn_poker"]
    texts = {game.header + decision.text for decision in game.decisions()}
    env = srl_envs.make(game.env_id, **game.options)
    for seed in range(20):
        seen = env.reset(seed=seed)[0].values()
        assert [each["text"] in texts for each in seen] == [bool(each["can_act"]) for each in seen]


def test_entropy_of_a_uniform_policy_is_the_logarithm_of_its_replies() -> None:
    policy = {d.text: dict.fromkeys(d.replies, 1 / 66) for d in blotto_decisions(10, 3)}
    assert entropy(policy) == pytest.approx(np.log(66))
    assert entropy({"": {"a": 1.0, "b": 0.0}}) == 0


def test_the_queue_goes_seed_by_seed() -> None:
    keys = wanted(["blotto/*", "*/league"], [1, 0])
    once = [("blotto", "mirror"), ("blotto", "league"), ("kuhn_poker", "league")]
    assert keys == [(*name, seed) for seed in (1, 0) for name in once]


def test_the_table_takes_the_last_quarter_of_each_curve(tmp_path: Path) -> None:
    curve = [
        {"update": k, "exploitability": value, "entropy": 0.5, "refused": 0.0}
        for k, value in enumerate((0.9, 0.5, 0.1, 0.3))
    ]
    rows = [
        {"game": "kuhn_poker", "way": "mirror", "seed": seed, "tokens": 1000, "cpu_s": 3.0, "curve": curve}
        for seed in (0, 1)
    ]  # fmt: skip
    save({"runs": rows, "pools": []}, tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text()) == load(tmp_path / "rows.json")
    text = table_text("kuhn_poker", load(tmp_path / "rows.json"))
    assert "uniform replies: 0.458" in text  # 11/24 chip
    row = text.splitlines()[-1]
    cells = ["0.900", "0.300 ± 0.000", "0.300 ± 0.000", "0.100 ± 0.000"]
    assert row == f"| mirror | 2 | 1,000 | 3 | {' | '.join(cells)} | 0.500 ± 0.000 |"
