"""`srl verify-trainer`: a table or JSON, exit codes, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srl_agents.cli.verification.trainer import main
from srl_agents.models.sources import random_model
from srl_agents.trainers.policy_gradient import RowTrainer
from srl_envs.errors import ConfigError


@pytest.mark.slow
def test_a_sound_trainer_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tiny", "--only", "grpo gspo", "--only", "dpo hinge"]) == 0
    table = capsys.readouterr().out
    assert "mixed adapters" in table
    assert "Every loss and gradient is that of the independent computation." in table


def test_a_broken_trainer_is_named_with_loss_and_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RowTrainer._over_packed_rows
    monkeypatch.setattr(
        RowTrainer,
        "_over_packed_rows",
        lambda self, *given: tuple(-scores for scores in whole(self, *given)),
    )
    folder = random_model.build(tmp_path, layers=1)
    assert main([str(folder), "--only", "grpo dapo", "--json"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    (model,) = found["models"]
    assert not found["passed"]
    assert [(one["case"], one["layout"]) for one in model["differing"]] == [
        ("grpo dapo", "packed rows")
    ]
    assert model["layouts"]["packed rows"]["largest_difference"] > 0.1
    assert model["layouts"]["padded"]["largest_difference"] < model["bound"]
    assert model["least_clipped"] >= 0.1


@pytest.mark.slow
def test_a_recipe_is_verified_with_its_own_loss(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["quickstart-tiny", "--set", "training.variant=cispo", "--json"]
    more = ("lora.rank=2", "training.autocast=true", "training.reference=saved/adapter")
    assert main([*given, *(word for setting in more for word in ("--set", setting))]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert list(model["clipped"]) == ["grpo cispo"]
    assert not model["cut_to_two_layers"]


@pytest.mark.nightly
def test_a_recipe_of_a_large_model_is_verified_on_two_layers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["qwen2.5-0.5b-laptop", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["cut_to_two_layers"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tiny", "--only", "grpo foo"], "only='grpo foo' is unknown.*Known: grpo grpo"),
        (["quickstart-tiny", "--only", "ppo"], "only: a recipe has one loss"),
        (["tiny", "--set", "training.kl_coef=1"], "set: tiny is a model"),
        (["no_such_model"], "no_such_model"),
        (["psro-tiny", "--set", "parameters=full"], "only LoRA learners are verified|parameters"),
        (["population-connect-four"], "no learners"),
    ],
)
def test_a_mistake_takes_one_line(arguments: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        main(arguments)
    assert "\n" not in str(caught.value)
