"""A run goes on with the rows that it began with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.start.task_files import TASK_FILES, check_task_files, keep_task_files
from srl_envs.errors import ConfigError


def test_a_file_of_tasks_that_changed_between_two_starts_is_refused(tmp_path: Path) -> None:
    rows, run = tmp_path / "rows.jsonl", tmp_path / "run"
    run.mkdir()
    lines = [
        json.dumps({"question": f"What is {k} + {k}?", "answer": f"So #### {2 * k}"})
        for k in range(40)
    ]
    rows.write_text("\n".join(lines))
    options = {"tasks": f"gsm8k:{rows}", "problems": 1}
    recipe = LeagueRecipe(name="r", model="tiny", env="math_duel-v0", env_options=options)
    check_task_files(recipe, run)
    keep_task_files(recipe, run)
    check_task_files(recipe, run)

    rows.write_text("\n".join(lines[1:]))
    with pytest.raises(ConfigError, match=r"gsm8k:.*other rows than when the run"):
        check_task_files(recipe, run)


def test_a_recipe_without_rows_keeps_no_file(tmp_path: Path) -> None:
    keep_task_files(LeagueRecipe(name="r", model="tiny", env="nim-v0"), tmp_path)
    assert not (tmp_path / TASK_FILES).exists()
