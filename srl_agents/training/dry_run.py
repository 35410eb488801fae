"""One whole update of a recipe on its own architecture, cut to two layers of random weights.

Types, adapters, optimizer, games and, where memory allows, widths are the recipe's; layers and the amount of
play are cut. Where the model's tokenizer is not on this machine, that of `tiny` stands in, and the vocabulary
is cut, too. It finds what would fail after hours of download and waiting: a layer without such a name, an
optimizer that is not installed, an environment that cannot be made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.memory import architecture
from srl_agents.memory.architecture import Architecture
from srl_agents.memory.description import BaseType
from srl_agents.memory.devices import available_bytes
from srl_agents.metrics import ConsoleView
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import catalog
from srl_agents.own_folders import scratch
from srl_agents.recipes.plan_description import architecture_of, base_type_of
from srl_agents.recipes.sections.base_models import ModelSettings
from srl_agents.recipes.sections.games import Game
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rewards.settings import RewardSettings
from srl_agents.rewards.terms import Judge, Played, RewardTerm
from srl_agents.trainers.passes.token_head import LARGE_VOCABULARY
from srl_agents.training.loop.run import LeagueTraining
from srl_agents.training.start.adapters import check_init_adapters
from srl_envs.errors import ConfigError

LAYERS = 2
VOCABULARY = LARGE_VOCABULARY
"""Most rows of a vocabulary under a tokenizer that stands in: from so many on tokens are scored as in the
whole one (`srl_agents.trainers.passes.token_head`)."""
_REPLY_TOKENS = 8
_COPIES = 3.0
"""Copies of the weights that exist at a time, at most: made, written to a file and read from it."""
_TRAINED_COPIES = 6.0
"""Besides, per learner of whole weights: its own, gradients, states and what a step writes."""
_TURNS = 2
"""Turns of a seat in a match, where seats take turns; with retries it is fewer."""
_LOTS = "dry_run_lots"
_UNPACKED = 1.5e8
"""Most linear weights in 4 bits on a CPU, where every pass unpacks all: a second and more for a token."""
_NARROWEST = 16
"""Largest divisor of widths."""
_WIDTHS = (
    "hidden_size", "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size",
    "num_attention_heads", "num_key_value_heads",
)  # fmt: skip
_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)


@dataclass(frozen=True, kw_only=True)
class Lots(RewardTerm):
    """Pays attempts, seats and turns differently whatever was replied, so that every loss has rows."""

    def judge(self, max_new_tokens: int) -> Judge:
        """See `RewardTerm`."""

        def drawn(played: Sequence[Played]) -> list[list[float]]:
            return [
                np.random.default_rng((seat.episode.spec.attempt, seat.seat))
                .random(len(seat.trajectory.turns))
                .tolist()
                for seat in played
            ]

        return drawn


@dataclass(frozen=True, kw_only=True, slots=True)
class CutModel:
    """A model of random weights in a folder, and what was cut of the one that it stands for."""

    folder: Path
    whole: Architecture
    made: Architecture
    own_tokenizer: bool
    """Whether the tokenizer is the model's."""
    wanted: str
    """Resource that was too small for the recipe's widths."""

    @property
    def cuts(self) -> list[str]:
        """Sizes that were reduced beside the number of layers, one line each."""
        lines = []
        if not self.own_tokenizer:
            rows = f"{self.made.vocabulary:,} of {self.whole.vocabulary:,} rows of the vocabulary"
            lines.append(
                f"Its tokenizer is not on this machine: that of tiny stands in, with {rows}."
            )
        if self.made.hidden != self.whole.hidden:
            lines.append(
                f"Its widths are divided by {self.whole.hidden // self.made.hidden} "
                f"({self.whole.hidden} -> {self.made.hidden}), for want of {self.wanted}."
            )
        return lines


def dry_run(
    recipe: LeagueRecipe, view: ConsoleView, *, room_bytes: float | None = None
) -> list[str]:
    """Take one update in a folder that is gone afterwards.

    Args:
        recipe: what is to run later.
        view: shows progress.
        room_bytes: memory for weights; what is available if absent.

    Returns:
        What was done, in lines.

    Raises:
        ConfigError: the model's numbers are not known, or an ``init_adapter`` does not fit.
        ModelError: the recipe does not work with such a model.
    """
    room = available_bytes() if room_bytes is None else room_bytes
    models = {base.name: _whole(base.model) for base in recipe.bases}
    with scratch("dry-run") as own_folder:
        check_init_adapters(recipe, own_folder / "run")  # they do not fit the cut model
        cut: dict[str, CutModel] = {}
        own: dict[str, ModelSettings] = {}
        for number, base in enumerate(recipe.bases):
            whole, folder = models[base.name], own_folder / f"model-{number}"
            kind = base_type_of(base, whole)
            copies = _COPIES
            if base.parameters == "full":
                copies += _TRAINED_COPIES * len(base.learners)
            part = room / len(recipe.bases) / copies
            cut[base.name] = _write_model(base.model, whole, folder, kind=kind, most_bytes=part)
            own[base.name] = ModelSettings(
                model=str(folder), dtype="float32" if kind == "float32" else "bfloat16"
            )
        little = _cut(recipe, own)
        judge = recipe.reward_model
        if judge is not None and judge.model is not None:
            folder, whole = own_folder / "reward_model", _whole(judge.model)
            _write_model(judge.model, whole, folder, kind="float32", most_bytes=room / _COPIES)
            little = replace(little, reward_model=replace(judge, model=str(folder)))
        training = LeagueTraining(little, own_folder / "run", view)
        try:
            training.take_update()
            stepped = {name: learner.version for name, learner in training.parts.learners.items()}
            forced = [name for name, version in stepped.items() if not version]
            for name in forced:
                _step(training, name)
        finally:
            training.close()
    lines = []
    for base in recipe.bases:
        made = cut[base.name]
        lines += [
            f"{recipe.name}: one update of {', '.join(base.learners)} on {made.whole.name} cut to "
            f"{made.made.layers} of {made.whole.layers} layers with random weights, "
            f"{base_type_of(base, made.whole)}.",
            *made.cuts,
        ]
    lines.append("Replies got random rewards: the recipe's own rewards were not tried.")
    if len(forced) == len(recipe.learners):
        lines.append(
            "No learner had a turn to learn from: all stepped with gradients of ones, and no loss was tried."
        )
    elif forced:
        lines.append(
            f"{', '.join(forced)} had no turn to learn from, and took a step with gradients of ones: "
            "only the others tried the loss."
        )
    return lines


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
    ahead = recipe.asynchronous
    return replace(
        recipe,
        **where,
        updates=1,
        rewards=_with_lots(recipe.rewards),
        wrappers=() if recipe.environments else _short(recipe.games[0]),
        environments=tuple(
            replace(entry, rewards=_with_lots(entry.rewards), wrappers=_short(game))
            for entry, game in zip(recipe.environments, recipe.games, strict=False)
        ),
        asynchronous=None if ahead is None else replace(ahead, refill_limit=0),
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
        stop=None,
        snapshot_every=1,
        checkpoint_every=1,
        report_to=(),
    )


def _short(game: Game) -> tuple[dict[str, Any], ...]:
    """A game's wrappers, and one that ends its matches early."""
    return (*game.wrappers, {"kind": "TurnLimit", "steps": _TURNS * game.seats})


def _with_lots(rewards: RewardSettings | None) -> RewardSettings:
    given = rewards or RewardSettings()
    lots = Lots(kind=f"{Lots.__module__}:{Lots.__qualname__}")
    return replace(given, terms={**given.terms, _LOTS: lots})


def _write_model(
    name: str, whole: Architecture, folder: Path, *, kind: BaseType, most_bytes: float
) -> CutModel:
    """A loadable folder with random weights.

    Args:
        name: of the model, as recipes call it.
        whole: its numbers.
        folder: to make.
        kind: what its weights will be; they are written in bfloat16 for 4 bits.
        most_bytes: of the weights.
    """
    import torch  # noqa: PLC0415 - seconds
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    found = catalog.local_folder(name) or catalog.cached_folder(name)
    own = found is not None and (found / _FILES[0]).is_file()
    config = _numbers(whole, found) | {"num_hidden_layers": min(LAYERS, whole.layers)}
    if not own:
        config |= {"vocab_size": min(VOCABULARY, whole.vocabulary)} | _ends_of(catalog.TINY)
    slow = kind == "nf4" and not torch.cuda.is_available()
    weights = most_bytes / (4 if kind == "float32" else 2)
    _, roomy = narrowed(whole.name, config, weights)
    config, made = narrowed(whole.name, config, weights, _UNPACKED if slow else math.inf)
    config.pop("layer_types", None)
    model_type = config.pop("model_type")
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(model_type, **config),
            dtype=torch.float32 if kind == "float32" else torch.bfloat16,
        )
        model.save_pretrained(folder)
    source = found if own and found is not None else catalog.TINY
    for file in _FILES:
        if (source / file).is_file():
            (folder / file).write_bytes((source / file).read_bytes())
    wanted = "memory" if made == roomy else "time: a CPU unpacks 4 bits in every pass"
    return CutModel(folder=folder, whole=whole, made=made, own_tokenizer=own, wanted=wanted)


def stand_in(name: str, folder: Path) -> CutModel:
    """A model's architecture cut to two layers of random weights, in float32, that fit the free memory.

    Args:
        name: of the model.
        folder: to make.

    Raises:
        ConfigError: the model's numbers are not known here.
    """
    return _write_model(
        name, _whole(name), folder, kind="float32", most_bytes=available_bytes() / _COPIES
    )


def narrowed(
    name: str, config: dict[str, Any], most_weights: float, most_linear: float = math.inf
) -> tuple[dict[str, Any], Architecture]:
    """The widest model with at most so many weights, whose widths are the model's over a power of two.

    Args:
        name: of the model.
        config: its configuration; heads keep their size.
        most_weights: in all; the narrowest model there is may have more.
        most_linear: of them in the layers' linear parts.

    Returns:
        The configuration and its numbers.
    """
    factor = 1
    while True:
        widths = {key: max(1, config[key] // factor) for key in _WIDTHS if key in config}
        narrow = config | widths
        made = _sizes(name, narrow)
        further = made.heads % 2 == 0 and factor < _NARROWEST
        fits = made.parameters <= most_weights and made.linear_parameters <= most_linear
        if fits or not further:
            return narrow, made
        factor *= 2


def _whole(name: str) -> Architecture:
    """The numbers of a model, planned or not.

    Raises:
        ConfigError: the model is unknown here.
    """
    try:
        return architecture_of(name)
    except ConfigError:
        found = catalog.local_folder(name) or catalog.cached_folder(name)
        if found is None or not (found / "config.json").is_file():
            raise
        return _sizes(name, json.loads((found / "config.json").read_text(encoding="utf-8")))


def _sizes(name: str, config: dict[str, Any]) -> Architecture:
    """Sizes in a configuration; of a kind that cannot be planned only its dense part."""
    if config.get("model_type") not in architecture.KINDS:
        config = config | {"model_type": architecture.KINDS[0]}
    return architecture.from_config(name, config)


def _numbers(model: Architecture, found: Path | None) -> dict[str, Any]:
    if found is not None:
        numbers: dict[str, Any] = json.loads((found / "config.json").read_text(encoding="utf-8"))
        return numbers
    return dict(architecture.shipped()[model.name]["config"])


def _ends_of(folder: Path) -> dict[str, Any]:
    """Special tokens in a model's configuration."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
