"""What a run leaves behind for others: PEFT folders that need nothing of SRL, with a card each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from rich.console import Console
from transformers import AutoModelForCausalLM

from srl_agents import checkpoints
from srl_agents.agents.prompt_file import PROMPT, read_prompt
from srl_agents.metrics import ConsoleView
from srl_agents.models.sources.catalog import resolve
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.folder.adapter_export import AdapterExport
from srl_agents.training.folder.model_cards import base_of
from srl_agents.training.loop.run import LeagueTraining
from tests.training_runs import snapshot, train_run

RECIPE = """
name: leaving
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice]
prompt: {examples: [{observation: a board, reply: "<action>1</action>"}]}
lora: {rank: 2, alpha: 4}
rollout: {start_states: 2, group_size: 4, max_new_tokens: 6}
opponents: {mirror: 1}
training: {learning_rate: 0.05}
evaluation: {every: 1, pairs: 1, final_pairs: 2, bots: [random]}
snapshot_every: 2
checkpoint_every: 1
keep_checkpoints: 1
"""


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
@pytest.mark.slow
def test_a_run_leaves_adapters_that_load_without_us(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    recipe = load(LeagueRecipe, tmp_path / "recipe.yaml")
    run = tmp_path / "run"
    training = LeagueTraining(recipe, run, ConsoleView("run", 2, Console(quiet=True)))
    try:
        training.run()
        adapter = run / "adapters/alice"
        card = (adapter / "README.md").read_text()
        assert "| `bot:random` |" in card
        assert "connect_four-v0" in card
        assert (adapter / "recipe.yaml").read_text() == (run / "recipe.yaml").read_text()
        assert read_prompt(adapter) == read_prompt(snapshot(run, "alice@2")) == recipe.prompt
        assert f"in `{PROMPT}`" in card
        # the base lies inside the package: a path of this machine would be useless elsewhere
        assert str(resolve("tiny")) not in card + (adapter / "adapter_config.json").read_text()
        assert 'from_pretrained(resolve("tiny"))' in card

        ids = torch.tensor([[3, 1, 4, 1, 5]])
        training.parts.bases[0].model.activate("alice")
        with torch.no_grad():
            ours = training.parts.bases[0].model.model(ids).logits
        plain = AutoModelForCausalLM.from_pretrained(resolve("tiny"))
        bare = plain(ids).logits
        with torch.no_grad():
            theirs = PeftModel.from_pretrained(plain, str(adapter)).eval()(ids).logits
        torch.testing.assert_close(theirs, ours)
        assert (theirs - bare).abs().max() > 1e-3

        # an earlier look that was better is left behind, too
        first = checkpoints.load(next((run / "checkpoints").glob("step-*")))
        weights = {"alice.adapter": {k: v * 0 for k, v in first.tensors["alice.adapter"].items()}}
        checkpoints.save(run / "checkpoints", 1, weights, {}, score=2.0, keep_best=1)
        last = training.parts.bases[0].model.adapter_tensors("alice")
        live = {"alice": training.parts.league.live("alice")}
        export = AdapterExport(recipe, run, training.parts.bases[0], training.parts.store, shown={})
        paths = export.write(live)
        assert [path.name for path in paths] == ["alice", "alice-best"]
        assert "after update 1" in (run / "adapters/alice-best/README.md").read_text()
        now = training.parts.bases[0].model.adapter_tensors("alice")
        assert all(torch.equal(now[key], last[key]) for key in last)
        best = PeftModel.from_pretrained(
            AutoModelForCausalLM.from_pretrained(resolve("tiny")), str(paths[1])
        )
        with torch.no_grad():
            torch.testing.assert_close(best.eval()(ids).logits, bare)

        shown = {"alice": (("a board", "<action>1</action>"),)}
        export = AdapterExport(
            recipe, run, training.parts.bases[0], training.parts.store, shown=shown
        )
        (path,) = export.write(live)  # the best had other examples, which were not kept
        assert read_prompt(path).pairs == (*recipe.prompt.pairs, *shown["alice"])
    finally:
        training.close()
    assert json.loads((adapter / "adapter_config.json").read_text())["r"] == 2


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # PEFT's
@pytest.mark.slow
def test_an_exported_adapter_finds_its_base(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(resolve("tiny"), model)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    recipe = load(LeagueRecipe, tmp_path / "recipe.yaml", [f"model={model}", "updates=1"])
    train_run(recipe, tmp_path / "run")
    adapter = tmp_path / "run/adapters/alice"
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    base = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        expected = PeftModel.from_pretrained(base, str(adapter)).eval()(ids).logits
        found = AutoPeftModelForCausalLM.from_pretrained(str(adapter)).eval()(ids).logits
    assert torch.equal(found, expected)
    card = (adapter / "README.md").read_text()
    assert 'AutoPeftModelForCausalLM.from_pretrained("alice")' in card
    assert "base_model:" not in card  # a hub's word for one of its own


def test_bases_are_named_so_that_others_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert base_of("smollm2-135m") == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert base_of("owner/model") == "owner/model"
    assert base_of("~/mine") == str(tmp_path / "mine")
    assert base_of("tiny") is None
