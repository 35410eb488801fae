"""Recipes as the planner sees them: every shipped one is planned, and states its needs correctly."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from srl_agents.cli.eval import EvalOptions, planned
from srl_agents.cli.plan.recipes import NEEDS, summary
from srl_agents.cli.plan.run import plan_of
from srl_agents.cli.train import main as train
from srl_agents.league.settings import StopSettings
from srl_agents.memory.architecture import from_config, shipped
from srl_agents.memory.devices import target_of, this_machine
from srl_agents.metrics import ConsoleView
from srl_agents.recipes.loading import SHIPPED, find_recipe, load
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.start import plan as plan_module
from srl_agents.training.start import plan_target
from srl_envs import registry
from srl_envs.errors import ConfigError
from tests.commit_cases import nightly_but

STATED_HOURS = re.compile(r"and about ([\d.]+) hours \(\d+ updates of \d+ s\)")
TRAINED = sorted(
    path.stem for path in SHIPPED.glob("*.yaml") if "learners:" in path.read_text("utf-8")
)
FAMILIES = (
    "quickstart-tiny",
    "two-bases-tiny",
    "several-games-tiny",
    "qwen2.5-0.5b-laptop",
    "qwen2.5-14b-80gb",
    "qwen2.5-7b-24gb",
)
"""One of each kind of shipped recipe: for a laptop, for one card, in 4 bits; several bases, several games."""


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_recipe_is_planned_and_needs_what_it_states(name: str) -> None:
    stated = NEEDS.search((SHIPPED / f"{name}.yaml").read_text("utf-8"))
    if stated is None:
        assert plan_of(name, target_of("16GB")).fits
        return
    verb, gibibytes, named, device = stated.groups()
    assert named == name
    target = this_machine(16e9) if device == "cpu" else target_of(device or "a100-80gb")
    made = plan_of(name, target)
    assert made.fits == (verb == "Needs")
    assert made.peak.bytes / 2**30 == pytest.approx(float(gibibytes), rel=0.03)
    hours = STATED_HOURS.search((SHIPPED / f"{name}.yaml").read_text("utf-8"))
    assert (hours is None) == (device == "cpu")
    if hours is not None:
        planned_h = summary(name).hours
        assert planned_h == pytest.approx(float(hours[1]), rel=0.03)
        assert planned_h is not None
        assert planned_h <= 12


def test_the_tiny_recipe_fits_little_and_not_nothing() -> None:
    assert plan_of("quickstart-tiny", target_of("4GB")).fits
    assert not plan_of("quickstart-tiny", target_of("1MB")).fits


def test_a_limit_on_the_tokens_of_branches_bounds_their_rows() -> None:
    def rows(*choices: str) -> int:
        recipe = load(LeagueRecipe, find_recipe("forks-tiny"), choices)
        return describe(recipe, accelerator=False).traffic.rows

    alone = rows("forks=null", "credit.estimator=group")
    few = rows("forks.tokens=800")  # replies of 8 tokens at most
    assert alone < few == alone + 100 < rows("forks.tokens=8000") <= rows()


def test_a_recipes_choices_reach_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nmodel: Qwen/Qwen2.5-7B-Instruct\nenv: connect_four-v0\nlearners: [a, b, c]\n"
        "quantization: nf4\nlora: {rank: 32}\ntraining: {algorithm: ppo, critic: base, kl_coef: 0.1}\n"
        "engine: {cache_type: int8, step_tokens: 512}\nrollout: {order: free}\n"
    )
    described = describe(load(LeagueRecipe, path), accelerator=True)
    assert described.model.name == "qwen2.5-7b"
    assert (described.base_type, described.learners, described.rank) == ("nf4", 3, 32)
    assert (described.eight_bits, described.step_tokens) == (True, 512)
    assert (described.critic, described.reference, described.head) == ("base", "base", "trl")
    assert describe(load(LeagueRecipe, path), accelerator=False).head == "chunked"


def test_a_model_that_nobody_knows_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nmodel: Qwen/Qwen2.5-7B-Instrukt\nenv: connect_four-v0\n")
    with pytest.raises(ConfigError, match=r"Qwen/Qwen2\.5-7B-Instruct"):
        describe(load(LeagueRecipe, path), accelerator=True)


def test_prompts_that_the_models_context_has_no_room_for_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"4096 tokens has room for 4088 and a reply of 8"):
        plan_of("quickstart-tiny", target_of("4GB"), prompt_tokens=4089)


def test_a_run_that_cannot_fit_is_refused_before_it_loads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    huge = ["quickstart-tiny", "--set", "training.micro_batch_rows=100000000"]
    huge += ["--set", "rollout.group_size=1000000", "--set", "device=cpu", "--out", str(folder)]
    with pytest.raises(ConfigError, match=r"does NOT fit cpu.*--force"):
        train(huge)
    assert "plan: quickstart-tiny" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize(
    ("updates", "said"),
    [(100, r"per update\. It fits with"), (10**7, r"days in all\. Give a smaller")],
)
def test_no_setting_is_advised_with_which_a_run_would_take_days(
    updates: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "target_for", lambda _: target_of("4GB"))
    recipe = replace(load(LeagueRecipe, find_recipe("quickstart-smollm2-135m")), updates=updates)
    with pytest.raises(ConfigError, match=said):
        plan_module.plan_first(recipe, lambda _: None, force=False)


@pytest.mark.parametrize(
    ("device", "stop", "refused"),
    [("cpu", None, True), ("4GB", None, False), ("cpu", StopSettings(tokens=99), False)],
)
def test_a_run_that_fits_and_would_take_a_processor_days_begins_when_forced(
    device: str, stop: StopSettings | None, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = target_of("4GB") if device != "cpu" else plan_target.target_for("cpu")
    monkeypatch.setattr(plan_module, "target_for", lambda _: room)
    tiny = load(LeagueRecipe, find_recipe("quickstart-tiny"))
    recipe = replace(tiny, updates=10**6, stop=stop)
    with pytest.raises(ConfigError, match="days in all") if refused else nullcontext():
        plan_module.plan_first(recipe, lambda _: None, force=False)
    plan_module.plan_first(recipe, lambda _: None, force=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", nightly_but({"quickstart-tiny"}, FAMILIES))
def test_a_dry_run_takes_an_update_within_the_memory_that_there_is(name: str) -> None:
    from srl_agents.training.dry_run import dry_run

    recipe = load(LeagueRecipe, find_recipe(name))
    with ConsoleView("dry", 1, Console(quiet=True)) as view:
        printed = dry_run(recipe, view, room_bytes=5e7)
    on_disk = recipe.bases[0].model.startswith("tiny")
    assert f"one update of {', '.join(recipe.bases[0].learners)} on" in printed[0]
    assert "cut to 2 of" in printed[0]
    assert any("tiny stands in, with 32,768 of 15" in line for line in printed) != on_disk
    assert any("widths are divided by" in line for line in printed) != on_disk
    assert "no loss was tried" not in printed[-1]


@pytest.mark.slow
def test_a_model_that_cannot_be_planned_is_tried_all_the_same(tmp_path: Path) -> None:
    from srl_agents.models.sources.random_model import build
    from srl_agents.training.dry_run import dry_run

    folder = build(
        tmp_path / "moe",
        kind="qwen3_moe",
        layers=4,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
    )
    recipe = load(LeagueRecipe, find_recipe("quickstart-tiny"), [f"model={folder}"])
    with ConsoleView("dry", 1, Console(quiet=True)) as view:
        assert "cut to 2 of 4 layers" in dry_run(recipe, view)[0]


def test_widths_are_the_models_where_memory_allows_and_heads_stay_whole() -> None:
    from srl_agents.training.dry_run import narrowed

    config = {**shipped()["qwen2.5-14b"]["config"], "num_hidden_layers": 2}
    whole = from_config("whole", config)
    assert narrowed("wide", config, whole.parameters)[1].hidden == 5120
    for most in (5e8, 1e8, 1e7, 1.0):
        _, narrow = narrowed("narrow", config, most)
        assert narrow.heads % narrow.kv_heads == 0
        assert narrow.head_size == whole.head_size
        assert narrow.parameters < whole.parameters


OUTSIDE = """
from srl_envs.families.board.nim import Nim

class Piles(Nim):
    '''Nim that is not registered.'''
"""


def test_a_game_that_is_only_a_class_is_planned_and_measured_without_bots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "piles_of_this_test.py").write_text(OUTSIDE)
    path = tmp_path / "mine.yaml"
    recipe = "name: mine\nmodel: tiny\nlearners: [a, b]\nevaluation: {bots: []}\nenv: "
    path.write_text(f"{recipe}piles_of_this_test:Piles")
    described = describe(load(LeagueRecipe, path), accelerator=False)
    assert "random legal play" in described.traffic.source
    assert described.traffic.prompt_tokens > 10
    (found,) = planned(EvalOptions(agents=("tiny",), tasks="piles_of_this_test:Piles"))
    assert found["env_id"] == "piles_of_this_test:Piles"
    path.write_text(f"{recipe}piles_of_this_test:Pile")
    with pytest.raises(ConfigError, match="Did you mean 'Piles'"):
        _ = load(LeagueRecipe, path).games
