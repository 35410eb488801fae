"""Learners begin as an existing adapter: exactly its weights, or a refusal with the reason."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from srl_agents.cli.main import main
from srl_agents.metrics import ConsoleView
from srl_agents.models.base_model import BaseModel
from srl_agents.models.digests import version_of
from srl_agents.models.sources import random_model
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.loop.run import LeagueTraining
from srl_agents.training.start.adapters import check_init_adapters
from srl_envs.errors import CheckpointError, ConfigError, UnknownPolicyError

RECIPE = """
name: begun
model: {model}
env: kuhn_poker-v0
env_options: {{hands: 1}}
updates: 1
lora: {{rank: 4, alpha: 8}}
init_adapter: {adapter}
rollout: {{start_states: 1, group_size: 2, max_new_tokens: 4}}
evaluation: {{every: 0, final_pairs: 1, bots: []}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_model.build(tmp_path_factory.mktemp("model"), context=1024)


@pytest.fixture(scope="module")
def made(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter that changes something."""
    base = BaseModel.load(model, lora_rank=4, lora_alpha=8, device="cpu")
    base.add_adapter("teacher", seed=5)
    generator = torch.Generator().manual_seed(0)
    weights = base.adapter_tensors("teacher")
    noise = {key: torch.randn(t.shape, generator=generator) / 50 for key, t in weights.items()}
    base.set_adapter_tensors("teacher", noise)
    folder = tmp_path_factory.mktemp("adapters") / "teacher"
    base.save_adapter("teacher", folder)
    return folder


@pytest.fixture
def adapter(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "adapter"))


def recipe(tmp_path: Path, model: Path, adapter: Path, *overrides: str) -> LeagueRecipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE.format(model=model, adapter=adapter))
    return load(LeagueRecipe, path, overrides)


def begun(recipe: LeagueRecipe, run: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Every learner's weights as the run begins; its version is named after them."""
    training = LeagueTraining(recipe, run, ConsoleView("run", 1, Console(quiet=True)))
    try:
        weights = {
            name: training.parts.bases[0].model.adapter_tensors(name) for name in recipe.learners
        }
        for name, own in weights.items():
            assert training.parts.league.live(name) == str(version_of(name, 0, own))
        return weights
    finally:
        training.close()


def test_learners_begin_with_exactly_its_weights_and_need_it_once(
    tmp_path: Path, model: Path, adapter: Path
) -> None:
    wanted = load_file(adapter / "adapter_model.safetensors")
    given = recipe(tmp_path, model, adapter)
    first = begun(given, tmp_path / "run")
    shutil.rmtree(adapter)
    again = begun(given, tmp_path / "run")
    for weights in (*first.values(), *again.values()):
        assert weights.keys() == wanted.keys()
        assert all(weights[key].equal(wanted[key]) for key in wanted)
    copy = tmp_path / "run/init_adapter/bob/adapter_model.safetensors"
    copy.write_bytes(copy.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointError, match="init_adapter/bob"):
        begun(given, tmp_path / "run")


def test_one_learner_begins_as_an_adapter_and_the_other_as_the_base(
    tmp_path: Path, model: Path, adapter: Path
) -> None:
    given = recipe(tmp_path, model, adapter, f"init_adapter={{bob: {adapter}}}")
    weights = begun(given, tmp_path / "run")
    up = [key for key in weights["bob"] if ".lora_B." in key]
    assert all(weights["bob"][key].any() and not weights["alice"][key].any() for key in up)


@pytest.mark.slow
def test_a_warm_start_goes_on_from_the_adapter(tmp_path: Path, model: Path, adapter: Path) -> None:
    warm = "{bots: [middle], episodes: 4, updates: 1, training: {learning_rate: 1.0e-6}}"
    overrides = (f"warm_start={warm}", "learners=[alice]", "rollout.max_new_tokens=24")
    weights = begun(recipe(tmp_path, model, adapter, *overrides), tmp_path / "run")["alice"]
    wanted = load_file(adapter / "adapter_model.safetensors")
    furthest = max((weights[key] - wanted[key]).abs().max().item() for key in wanted)
    assert 0 < furthest < 1e-5


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lora.rank=2", r"Set lora\.rank=4 and lora\.alpha=8"),
        ("lora.alpha=16", r"Set lora\.rank=4 and lora\.alpha=8"),
        ("lora.target_modules=[q_proj]", r"Set lora\.target_modules=\[down_proj, gate_proj"),
        ("lora.exclude_modules=[mlp]", r"without \['mlp'\]"),
        ("model=smollm2-135m", "of another model|rank 4"),
        ("init_adapter=nowhere", "nowhere is not an adapter folder"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_by_its_files(
    tmp_path: Path, model: Path, adapter: Path, override: str, message: str
) -> None:
    check_init_adapters(recipe(tmp_path, model, adapter), tmp_path / "run")
    with pytest.raises((ConfigError, UnknownPolicyError), match=message):
        check_init_adapters(recipe(tmp_path, model, adapter, override), tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"use_rslora": True}, "made with use_rslora"),
        ({"rank_pattern": {"q_proj": 2}}, "made with rank_pattern"),
        ({"peft_type": "IA3"}, "peft_type IA3"),
        ({"base_model_name_or_path": "Qwen/Qwen2.5-1.5B"}, r"Set model=Qwen/Qwen2\.5-1\.5B"),
    ],
)
def test_adapters_of_another_kind_or_base_are_refused(
    tmp_path: Path, model: Path, adapter: Path, change: dict[str, object], message: str
) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    given = recipe(tmp_path, model, adapter, "model=Qwen/Qwen2.5-7B", "lora={rank: 4, alpha: 8}")
    with pytest.raises(ConfigError, match=message):
        check_init_adapters(given, tmp_path / "run")


def test_an_adapter_without_some_layers_is_not_filled_with_zeros(
    tmp_path: Path, model: Path, adapter: Path
) -> None:
    path = adapter / "adapter_model.safetensors"
    left = {key: t for key, t in load_file(path).items() if "layers.0.mlp" not in key}
    save_file(left, path)
    config = json.loads((adapter / "adapter_config.json").read_text())
    layers = {key.removeprefix("base_model.model.").rpartition(".lora_")[0] for key in left}
    config["target_modules"] = sorted(layers)
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="other layers than"):
        begun(recipe(tmp_path, model, adapter), tmp_path / "run")
    assert not (tmp_path / "run/init_adapter").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("parameters=full", "lora={}"), "give the folder of such weights as model"),
        (("init_adapter={carol: somewhere}",), r"\['carol'\] are not learners"),
        (
            ("coordination.kind=federated", "init_adapter={alice: a, bob: b}"),
            "begin alike; give one",
        ),
        (("coordination.kind=federated", "init_adapter={alice: a}"), "begin alike; give one"),
    ],
)
def test_settings_that_contradict_it_are_refused(
    tmp_path: Path, model: Path, adapter: Path, overrides: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, model, adapter, *overrides)


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_the_command_refuses_before_a_model_loads(
    tmp_path: Path,
    model: Path,
    adapter: Path,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe(tmp_path, model, adapter)
    command = ["train", str(tmp_path / "recipe.yaml"), "--set", "lora.rank=2", *options]
    assert main([*command, "--out", str(tmp_path / "run")]) == 2
    assert "Set lora.rank=4" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
