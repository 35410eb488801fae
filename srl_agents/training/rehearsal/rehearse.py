"""One recipe's learning step and generation at full size, with peaks by phase beside the plan's.

What runs is what a run calls: the base with its adapters, the learners with TRL's loss, the optimizers and
the embedded engine's loop. Made up are rows (as many and as long as the plan's traffic), the first
optimizer step, whose states are there from the second update on, and the gradients of the learners that are
not rehearsed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.engines.embedded.decoding import Decoder
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.settings import TransformersSettings
from srl_agents.memory import architecture
from srl_agents.memory.devices import Target
from srl_agents.memory.phase_peaks import CACHE_SHARE, LIVE_SHARE
from srl_agents.memory.planner import Plan
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.float32_islands import keep_in_float32
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import catalog
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import TrainingBatch, WeightVersion
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients
from srl_agents.trainers.prefix_sharing import worth_mixing
from srl_agents.training.rehearsal.data_sites import assumed
from srl_agents.training.rehearsal.device import CARD, register
from srl_agents.training.rehearsal.ledger import Ledger
from srl_agents.training.rehearsal.seams import ATTENTION, standing_in
from srl_envs.errors import ConfigError

_PASSES = 2
"""Of one learner: in the second one the gradients of the first are there."""
_STEPS = 2
"""Of generation after all prompts are read: in the second one every tail is as long as it will be."""
_VERSION = WeightVersion(learner="rehearsed", number=0, digest="0123456789abcdef")
_NOT_HERE = ("process", "allocator", "prefixes kept")
"""Parts of the plan that are not rehearsed: no tensors, and what games leave in the engine's cache."""


def check(recipe: LeagueRecipe) -> None:
    """Refuse what is not rehearsed.

    Raises:
        ConfigError: it is refused, and why.
    """
    base, others = recipe.bases[0], recipe.bases[1:]
    if others:
        raise ConfigError(
            "--rehearse: a recipe with several bases is not rehearsed; give one with one."
        )
    if not isinstance(base.training, GRPOSettings):
        raise ConfigError(
            f"--rehearse: algorithm {base.training.algorithm!r} is not rehearsed; 'grpo' is."
        )
    if not isinstance(base.engine, TransformersSettings):
        raise ConfigError(
            "--rehearse: only the embedded engine is rehearsed; set engine.kind to transformers."
        )
    if base.quantization != "none":
        raise ConfigError(
            f"--rehearse: quantization={base.quantization!r} is not rehearsed, as its weights are not plain "
            "tensors. Add --set quantization=none."
        )
    if recipe.generation is not None or base.copied:
        raise ConfigError(
            "--rehearse: an engine with a copy of the base is not rehearsed. Leave out asynchronous, and set "
            "placement=hybrid."
        )
    if recipe.reward_model is not None:
        raise ConfigError("--rehearse: a reward_model is not rehearsed; leave it out.")
    if base.parameters != "lora" or recipe.memory.sharded:
        raise ConfigError("--rehearse: only parameters 'lora' on a whole base are rehearsed.")


def rehearse(recipe: LeagueRecipe, made: Plan) -> dict[str, Any]:
    """Peaks and operations by phase, and what was assumed; once in a process.

    Args:
        recipe: with one base.
        made: its plan, which has the rows, their lengths and the card.
    """
    check(recipe)
    began_s = time.monotonic()
    base, plan = recipe.bases[0], made.description
    ledger, traffic = Ledger(), plan.traffic
    assumed.prompts = _prompts(recipe, made)
    assumed.labelled = plan.micro_rows * traffic.reply_tokens
    model = _on_meta(plan.model.name, "float32" if plan.base_type == "float32" else "bfloat16")
    with register(), ledger, standing_in(), quiet_libraries():
        with ledger.phase("held"):
            loaded = _loaded(model, recipe, base)
            del model
            learners = _learners(loaded, recipe, made)
            for number in range(plan.frozen_versions):
                tensors = loaded.trainable_parameters(base.learners[0])
                loaded.freeze(
                    f"frozen-{number}", {k: torch.empty_like(t) for k, t in tensors.items()}
                )
            for learner in learners.values():  # the states of an optimizer
                _ones(learner)
                learner.apply_gradients()
        with ledger.phase("rollout"):
            _generate(loaded, recipe, made, ledger)
        batch = _batch(recipe, made)
        batches = {name: replace(batch, learner=name) for name in learners}
        with ledger.phase("train"):
            if mixed := worth_mixing(learners, batches):
                mixed_gradients({name: learners[name] for name in mixed}, mixed)
            else:
                *others, last = learners
                for name in others:
                    _ones(learners[name])
                learners[last].compute_gradients(batches[last])
        with ledger.phase("step"):
            for learner in learners.values():
                learner.apply_gradients()
    planned = {
        phase.name: sum(size for part, size in phase.parts.items() if part not in _NOT_HERE)
        for phase in made.phases
    }
    return {
        "recipe": recipe.name,
        "attention": ATTENTION,
        "rows": batch.rows * (len(learners) if mixed else 1),
        "seconds": time.monotonic() - began_s,
        "phases": {
            name: {
                "rehearsed": peak,
                "planned": planned[name],
                "flops": ledger.flops[name],
            }
            for name, peak in ledger.peaks.items()
            if name in planned
        },
    }


def _on_meta(name: str, dtype: str) -> Any:
    """The model on torch's meta device, which holds no bytes."""
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415 - seconds

    config = dict(architecture.shipped()[name]["config"])
    kind = config.pop("model_type")
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(
            AutoConfig.for_model(kind, **config), dtype=getattr(torch, dtype)
        )


def _loaded(model: Any, recipe: LeagueRecipe, base: Base) -> BaseModel:
    model = model.to_empty(device=CARD).eval()
    model.tie_weights()
    keep_in_float32(model, recipe.memory.float32_islands)
    return BaseModel(
        base.model,
        model,
        ChatTokenizer.load(catalog.TINY, None),
        lora_rank=base.lora.rank,
        lora_alpha=base.lora.alpha,
        lora_targets=base.lora.target_modules,
        lora_excluded=base.lora.exclude_modules,
    )


def _learners(loaded: BaseModel, recipe: LeagueRecipe, made: Plan) -> dict[str, Any]:
    base = recipe.bases[0]
    settings = replace(base.training, gradient_checkpointing=made.description.checkpointing)
    temperature = recipe.rollout.temperature
    return {
        name: settings.make_learner(name, loaded, temperature=temperature, seed=0)
        for name in base.learners
    }


def _ones(learner: Any) -> None:
    """Gradients as another pass would leave them."""
    own = learner.base.trainable_parameters(learner.name)
    learner.set_gradients({key: torch.ones_like(tensor) for key, tensor in own.items()})


def _prompts(recipe: LeagueRecipe, made: Plan) -> tuple[NDArray[np.int64], ...]:
    """Of all rows of a learner, sorted: a group's begin alike, and each ends as no other does."""
    traffic, group = made.description.traffic, recipe.rollout.group_size
    own = min(traffic.own_prompt_tokens, traffic.prompt_tokens - 1)
    rows = min(traffic.rows, _PASSES * made.description.micro_rows)
    prompts = np.ones((rows, traffic.prompt_tokens), dtype=np.int64)
    prompts[:, 0] += np.arange(rows) // group
    if own:
        prompts[:, -own:] += 1 + np.arange(rows)[:, None] % group
    return tuple(prompts)


def _batch(recipe: LeagueRecipe, made: Plan) -> TrainingBatch:
    prompts, replies = np.stack(assumed.prompts), made.description.traffic.reply_tokens
    tokens = np.ones((len(prompts), replies), dtype=np.int64)
    return TrainingBatch(
        learner=recipe.learners[0],
        versions=(_VERSION,) * len(prompts),
        prompt_ids_RP=prompts,
        prompt_mask_RP=prompts > 0,
        completion_ids_RT=tokens,
        completion_mask_RT=tokens > 0,
        learned_RT=tokens > 0,
        logprobs_RT=np.zeros(tokens.shape, dtype=np.float32),
        advantages_RT=np.ones(tokens.shape, dtype=np.float32),
    )


def _generate(loaded: BaseModel, recipe: LeagueRecipe, made: Plan, ledger: Ledger) -> None:
    """All prompts of a batch of replies, and two tokens of each reply; tails have their full length."""
    plan, traffic, target = made.description, made.description.traffic, made.target
    model = loaded.playing()
    live, kept = _room(made, target, ledger.live)
    engine: Any = recipe.bases[0].engine
    decoder = Decoder(
        model,
        replace(engine.decoding(), max_rows=plan.batch_rows),
        live_tokens=live // model.bytes_per_token,
        cache_bytes=kept,
        capture=lambda run: run,
    )
    names, group = recipe.bases[0].learners, recipe.rollout.group_size
    count = int(min(plan.batch_rows, max(1.0, plan.own_replies)))
    own = min(traffic.own_prompt_tokens, traffic.prompt_tokens - 1)
    sampling = SamplingSettings(
        max_new_tokens=traffic.reply_tokens, temperature=recipe.rollout.temperature
    )
    for number in range(count):
        alike = (1 + number // group,) * (traffic.prompt_tokens - own)
        decoder.add(
            Row(
                prompt=(*alike, *(2 + number,) * own),
                version=names[number // group % len(names)],
                sampling=sampling,
                uniforms=np.zeros(traffic.reply_tokens, dtype=np.float32),
                ended=lambda _reply: False,
            )
        )
    while decoder.waiting or decoder.reading:
        decoder.step()
    for _ in range(_STEPS):
        decoder.step()
    decoder.clear()


def _room(made: Plan, target: Target, held: int) -> tuple[int, int]:
    """Bytes for live rows and for kept prefixes, as the engine takes them."""
    free, plan = target.memory_bytes - held, made.description
    live = plan.live_bytes or LIVE_SHARE * free
    return int(live), int(plan.cache_bytes or CACHE_SHARE * free)
