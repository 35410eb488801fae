import json

import pytest

import srl_envs
from srl_agents.cli import envs
from srl_agents.cli.main import main
from srl_agents.league.settings import EvaluationSettings
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs import registry
from srl_envs.errors import ConfigError
from srl_envs.parallel import SHELL_OPTIONS


def test_the_list_has_a_line_per_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "mode", "seats", "bots", "summary"]
    assert [line.split()[0] for line in lines] == srl_envs.list_envs()
    line = next(line for line in lines if line.startswith("connect_four-v0"))
    assert "competitive  2      random, middle, strong, held_out" in line


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in data] == srl_envs.list_envs()
    board = next(entry for entry in data if entry["id"] == "connect_four-v0")
    assert board["options"]["rows"].startswith("height")


@pytest.mark.parametrize("env_id", srl_envs.list_envs())
def test_one_environment_is_explained(env_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", env_id]) == 0
    out = capsys.readouterr().out
    spec = srl_envs.spec(env_id)
    for part in (spec.summary, *spec.bots, *spec.options, "max_retries", "<action>"):
        assert part in out
    assert f"srl play {env_id} human{' random' * (spec.seats > 1)}" in out


def test_one_environment_as_json_with_a_legal_sample(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "connect_four", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    env = srl_envs.make(data["id"])
    seen, _ = env.reset(seed=0)
    agent = f"player_{data['sample']['seat']}"
    assert seen[agent]["text"] == data["sample"]["observation"]
    infos = env.step({agent: data["sample"]["reply"]})[-1]
    assert infos[agent]["invalid"] is None


def test_the_options_of_every_game_are_all_explained() -> None:
    assert set(envs.SHELL_OPTIONS) == set(SHELL_OPTIONS) - {"render_mode"}


def test_a_terminal_gets_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["envs"]) == 0
    out = capsys.readouterr().out
    assert "┃" in out
    assert all(env_id in out for env_id in srl_envs.list_envs())


def test_mistakes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "math_dual-v0"]) == 2
    assert "Did you mean 'math_duel-v0'?" in capsys.readouterr().err
    assert main(["envs", "--jsn"]) == 2
    assert "--json" in capsys.readouterr().err
    assert main(["envs", "--help"]) == 0
    assert "srl envs math_duel-v0" in capsys.readouterr().out


def test_an_environment_without_bots_is_explained_with_steps_that_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    game = srl_envs.spec("connect_four-v0").entry_point
    srl_envs.register(id="mine/bare-v0", entry_point=game, mode="competitive")
    assert main(["envs", "mine/bare-v0"]) == 0
    out = capsys.readouterr().out
    assert "Play it:  srl play mine/bare-v0 human human" in out
    assert "| <action>" in out
    assert main(["play", "mine/bare-v0"]) == 2
    assert "Try: srl play mine/bare-v0 human human" in capsys.readouterr().err
    assert main(["play", "mine/bare-v0", "random", "random"]) == 2
    assert "Bots of mine/bare-v0: none;" in capsys.readouterr().err
    with pytest.raises(
        ConfigError,
        match=r"evaluation\.bots: mine/bare-v0 has no bot 'random'.*`evaluation: \{bots: \[\]\}`",
    ):
        LeagueRecipe(name="a", model="tiny", env="mine/bare-v0")
    without = EvaluationSettings(bots=())
    LeagueRecipe(name="a", model="tiny", env="mine/bare-v0", evaluation=without)
