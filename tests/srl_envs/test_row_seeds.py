"""A seed may choose an episode's rows; any other seed draws at random."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs import make
from srl_envs.core import SPLITS
from srl_envs.errors import ConfigError
from srl_envs.row_seeds import naming_rows, rows_named

PLACES = st.lists(st.integers(0, 2**32 - 1), max_size=10)
ROWS = 24


@given(st.integers(0, 2**64 - 1), PLACES)
def test_what_a_seed_names_is_read_back(seed: int, places: list[int]) -> None:
    assert rows_named(naming_rows(seed, places)) == tuple(places)


@given(st.integers(0, 2**64 - 1))
def test_seeds_of_protocols_name_nothing(seed: int) -> None:
    assert rows_named(seed) == ()


def questions(env: Any, seed: int, split: str) -> list[str]:
    env.reset(seed=seed, options={"split": split})
    return [text for text, _ in env.get_state()["state"]["problems"]]


@pytest.fixture
def duel(tmp_path: Path) -> Any:
    rows = [
        {"question": f"Ann has {k} pears. How many?", "answer": f"#### {k}"} for k in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return make("math_duel-v0", problems=2, tasks=f"gsm8k:{tmp_path / 'rows.jsonl'}")


def test_an_episode_asks_the_rows_that_its_seed_names_and_of_its_own_split_alone(duel: Any) -> None:
    held = {name: [row.text for row in duel.game.task_report.splits[name]] for name in SPLITS}
    count = duel.game.rows_to_train
    assert (count, duel.game.rows_each) == (len(held["train"]), 2)
    for place in range(count - 1):
        asked = questions(duel, naming_rows(5, [place + 1, place]), "train")
        assert asked == [held["train"][place + 1], held["train"][place]]
    assert questions(duel, naming_rows(5, [1, 0]), "eval") == held["eval"][1::-1]


@pytest.mark.parametrize("places", [[0], [1, 1], [0, ROWS]])
def test_rows_that_an_episode_cannot_ask_are_refused(duel: Any, places: list[int]) -> None:
    with pytest.raises(ConfigError, match="asks 2 different ones of 0 to"):
        duel.reset(seed=naming_rows(0, places))
