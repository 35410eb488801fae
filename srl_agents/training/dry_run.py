"""One whole update of a recipe on its own architecture, cut to two layers of random weights.

Widths, vocabulary, types, adapters, optimizer and games are the recipe's; layers and the amount of play are
cut. It finds what would fail after hours of download and waiting: a layer without such a name, an optimizer
that is not installed, an environment that cannot be made.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from srl_agents.memory import architecture
from srl_agents.memory.architecture import Architecture
from srl_agents.metrics import ConsoleView
from srl_agents.models import catalog
from srl_agents.models.quiet import quiet_libraries
from srl_agents.recipes.base_settings import ModelSettings
from srl_agents.recipes.plan_description import architecture_of, base_type_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.init_adapters import check_init_adapters
from srl_agents.training.run import LeagueTraining

LAYERS = 2
_REPLY_TOKENS = 8
_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


def dry_run(recipe: LeagueRecipe, view: ConsoleView) -> list[str]:
    """Take one update in a folder that is gone afterwards.

    Args:
        recipe: what is to run later.
        view: shows progress.

    Returns:
        What was done, in lines.

    Raises:
        ConfigError: the model's numbers are not known, or an ``init_adapter`` does not fit.
        ModelError: the recipe does not work with such a model.
    """
    models = {base.name: architecture_of(base.model) for base in recipe.bases}
    with tempfile.TemporaryDirectory(prefix="srl-dry-run-") as scratch:
        check_init_adapters(recipe, Path(scratch) / "run")  # they do not fit the cut model
        cut: dict[str, ModelSettings] = {}
        own: dict[str, bool] = {}
        for number, base in enumerate(recipe.bases):
            folder, model = Path(scratch) / f"model-{number}", models[base.name]
            base_type = base_type_of(base, model)
            own[base.name] = _write_model(base.model, model, folder, half=base_type != "float32")
            cut[base.name] = ModelSettings(
                model=str(folder), dtype="float32" if base_type == "float32" else "bfloat16"
            )
        little = _cut(recipe, cut)
        judge = recipe.reward_model
        if judge is not None and judge.model is not None:
            judged = Path(scratch) / "reward_model"
            _write_model(judge.model, architecture_of(judge.model), judged, half=False)
            little = replace(little, reward_model=replace(judge, model=str(judged)))
        training = LeagueTraining(little, Path(scratch) / "run", view)
        try:
            training.take_update()
            stepped = {name: learner.version for name, learner in training.parts.learners.items()}
            forced = [name for name, version in stepped.items() if not version]
            for name in forced:
                _step(training, name)
        finally:
            training.close()
    told = []
    for base in recipe.bases:
        model = models[base.name]
        told += [
            f"{recipe.name}: one update of {', '.join(base.learners)} on {model.name} cut to {LAYERS} of "
            f"{model.layers} layers with random weights, {base_type_of(base, model)}.",
            "Its tokenizer is the model's own."
            if own[base.name]
            else f"Its tokenizer is a stand-in with {model.vocabulary:,} tokens, as the model's is not here.",
        ]
    if forced:
        told.append(
            f"Random replies earned {', '.join(forced)} no gradient, so the step was along ones: memory and "
            "optimizer were tried, the loss was not."
        )
    return told


def _step(training: LeagueTraining, name: str) -> None:
    """One optimizer step along a gradient of ones."""
    import torch  # noqa: PLC0415 - loaded by now

    learner = training.parts.learners[name]
    own = learner.base.trainable_parameters(name)
    learner.set_gradients({key: torch.ones_like(tensor) for key, tensor in own.items()})
    learner.apply_gradients()


def _cut(recipe: LeagueRecipe, cut: Mapping[str, ModelSettings]) -> LeagueRecipe:
    """The recipe with little play, on cut models."""
    rollout = recipe.rollout
    warm = recipe.warm_start
    where: dict[str, Any] = {
        "models": {
            name: replace(own, model=cut[name].model, dtype=cut[name].dtype)
            for name, own in recipe.models.items()
        }
    }
    if not recipe.models:
        (only,) = cut.values()
        where = {"model": only.model, "dtype": only.dtype}
    return replace(
        recipe,
        **where,
        updates=1,
        rollout=replace(
            rollout,
            start_states=1,
            group_size=min(2, rollout.group_size),
            max_new_tokens=min(_REPLY_TOKENS, rollout.max_new_tokens),
        ),
        evaluation=replace(recipe.evaluation, every=0, final_pairs=1, agents=()),
        opponents=replace(recipe.opponents, agents={}, budgets={}, payoff_pairs=0)
        if recipe.opponents.agents
        else recipe.opponents,
        init_adapter=None,
        warm_start=None if warm is None else replace(warm, episodes=2, updates=1),
        promotion=None,
        snapshot_every=1,
        checkpoint_every=1,
        report_to=(),
    )


def _write_model(name: str, model: Architecture, folder: Path, *, half: bool) -> bool:
    """A loadable folder with random weights; whether the tokenizer is the model's own."""
    import torch  # noqa: PLC0415 - seconds
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    found = catalog.local_folder(name)
    config = _numbers(model, found) | {"num_hidden_layers": LAYERS}
    config.pop("layer_types", None)
    kind = config.pop("model_type")
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        torch.manual_seed(0)
        made = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(kind, **config), dtype=torch.bfloat16 if half else torch.float32
        )
        made.save_pretrained(folder)
    if found is not None and (found / _FILES[0]).is_file():
        for file in _FILES:
            if (found / file).is_file():
                (folder / file).write_bytes((found / file).read_bytes())
        return True
    from srl_agents.models.random_model import wide_tokenizer  # noqa: PLC0415

    wide_tokenizer(model.vocabulary).save_pretrained(folder)
    return False


def _numbers(model: Architecture, found: Path | None) -> dict[str, Any]:
    if found is not None:
        numbers: dict[str, Any] = json.loads((found / "config.json").read_text(encoding="utf-8"))
        return numbers
    shipped = architecture.shipped()
    return dict(shipped[model.name]["config"]) | {"eos_token_id": 2, "pad_token_id": 0}
