"""A recipe calls rows by the name of their collection, and a folder gives the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from srl_agents.cli.main import main
from srl_agents.recipes.loading import load
from srl_agents.recipes.named_rows import give_files
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.errors import ConfigError

ROWS = [f'{{"question": "What is {n} + 1?", "answer": "#### {n + 1}"}}' for n in range(30)]
TASK = {"env": "math_duel-v0", "env_options": {"problems": 1, "tasks": "gsm8k"}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / "gsm8k").mkdir(parents=True)
    (tmp_path / "data" / "gsm8k" / "test.jsonl").write_text("\n".join(ROWS))
    return tmp_path / "data"


def recipe_file(folder: Path, **settings: Any) -> Path:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({"name": "mine", "model": "tiny", **settings}))
    return path


def test_the_file_behind_a_name_stands_in_the_recipe(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = f"gsm8k:{data / 'gsm8k' / 'test.jsonl'}"
    path = recipe_file(tmp_path, environments=[TASK, {"env": "nim-v0"}])
    (task, nim) = load(LeagueRecipe, path, rows=data).games
    assert (task.options["tasks"], nim.options) == (found, {})
    one = load(LeagueRecipe, recipe_file(tmp_path, **TASK), rows=data)
    assert one.games[0].options["tasks"] == found
    monkeypatch.chdir(tmp_path)
    assert load(LeagueRecipe, path).games[0].options["tasks"] == found  # ./data by default


def test_levels_and_options_given_on_the_command_line_may_name_rows(data: Path) -> None:
    settings: dict[str, Any] = {"environments": [{"levels": [{"tasks": "gsm8k"}, {"players": 1}]}]}
    give_files(settings, data)
    named, other = settings["environments"][0]["levels"]
    assert named["tasks"].endswith("test.jsonl")
    assert other == {"players": 1}


def test_what_is_no_name_of_a_collection_stays_as_it_is() -> None:
    for settings in (
        {"env_options": {"tasks": "gsm8k:rows.jsonl"}},
        {"env_options": {"tasks": ["gsm8k"]}},
        {"env_options": 5, "environments": {"tasks": "gsm8k"}, "levels": "gsm8k"},
    ):
        before = repr(settings)
        give_files(settings, None)
        assert repr(settings) == before


@pytest.mark.parametrize("command", [["train"], ["plan"], ["league", "run"]])
def test_each_command_says_in_one_line_what_is_wrong_with_the_rows(
    command: list[str], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(recipe_file(tmp_path, environments=[TASK]))
    assert main([*command, path, "--data", str(tmp_path / "elsewhere")]) == 2
    assert "gsm8k: the folder" in capsys.readouterr().err
    assert main([*command, path, "--data", str(tmp_path)]) == 2
    assert "holds none of gsm8k.jsonl" in capsys.readouterr().err
    rows = data / "gsm8k" / "test.jsonl"
    rows.write_text("\n".join([*ROWS[:6], '{"question": "What?"}', *ROWS[7:]]))
    assert main([*command, path, "--data", str(data)]) == 2
    assert "test.jsonl line 7: missing field 'answer'" in capsys.readouterr().err


def test_a_folder_for_a_recipe_that_names_no_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no collection of tasks"):
        load(LeagueRecipe, recipe_file(tmp_path, env="nim-v0"), rows=tmp_path)
