"""One recipe's learning step and generation at full size, with peaks by phase beside the plan's.

What runs is what a run calls: the base with its adapters, the learners with TRL's loss, the optimizers and
the embedded engine's loop. Made up are rows (as many and as long as the plan's traffic), the first
optimizer step, whose states are there from the second update on, and the gradients of the learners that are
not rehearsed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.coordination.gradients import mean_gradient
from srl_agents.credit.preferences import Preference, PreferenceBatch
from srl_agents.engines.embedded.decoding import Decoder
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.settings import TransformersSettings
from srl_agents.memory import architecture
from srl_agents.memory.phase_peaks import LIVE_SHARE
from srl_agents.memory.planner import Plan
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.float32_islands import keep_in_float32
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import catalog
from srl_agents.recipes.sections.base_models import Base
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import CriticBatch, TrainingBatch, WeightVersion
from srl_agents.trainers.dpo import DPOLearner
from srl_agents.trainers.dpo_settings import DPOSettings
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients
from srl_agents.trainers.policy_gradient import micro_batches
from srl_agents.trainers.ppo import PPOLearner
from srl_agents.trainers.ppo_settings import PPOSettings
from srl_agents.trainers.prefix_sharing import worth_mixing
from srl_agents.training.rehearsal import four_bits
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
    if not isinstance(base.training, GRPOSettings | PPOSettings | DPOSettings):
        raise ConfigError(
            f"--rehearse: algorithm {base.training.algorithm!r} is not rehearsed; grpo, ppo and dpo are."
        )
    if not isinstance(base.engine, TransformersSettings):
        raise ConfigError(
            "--rehearse: only the embedded engine is rehearsed; set engine.kind to transformers."
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
    kept_in = "float32" if plan.base_type == "float32" else "bfloat16"
    models = [_on_meta(plan.model.name, kept_in) for _ in range(1 + plan.engine_base)]
    if base.quantization == "nf4":
        for model in models:
            four_bits.pack(model)
    with register(), ledger, standing_in(), quiet_libraries():
        with ledger.phase("held"):
            bases = [_loaded(models.pop(), recipe, base) for _ in range(len(models))]
            loaded, playing = bases[0], bases[-1]
            learners = _learners(loaded, recipe, made)
            tensors = loaded.trainable_parameters(base.learners[0])
            names = tuple(f"frozen-{number}" for number in range(plan.frozen_versions))
            for frozen in names:
                playing.freeze(frozen, {k: torch.empty_like(t) for k, t in tensors.items()})
            for learner in learners.values():  # the states of an optimizer
                _ones(learner)
                learner.apply_gradients()
        rest = ledger.live
        with ledger.phase("rollout"):
            own = () if plan.engine_base else base.learners
            _generate(playing, (*own, *names)[: plan.versions_at_once], recipe, made, ledger)
        batch = _batch(recipe, made)
        batches = {name: _batch_of(name, own, batch) for name, own in learners.items()}
        if plan.critic:
            with ledger.phase("judge"), torch.no_grad():
                _over(learners[base.learners[-1]], batch, "values")
        if plan.reference:
            with ledger.phase("reference"), torch.no_grad():
                _reference(learners[base.learners[-1]], batch)
        with ledger.phase("train"):
            if mixed := worth_mixing(learners, batches):
                mixed_gradients({name: learners[name] for name in mixed}, mixed)
            else:
                *others, last = learners
                for name in others:
                    _ones(learners[name])
                learners[last].compute_gradients(batches[last])
            gradients = sum(
                own.nbytes for one in learners.values() for own in one.gradients.values()
            )
        with ledger.phase("step"):
            if plan.synchronized:
                _average(learners)
            for learner in learners.values():
                learner.apply_gradients()
    beside = ledger.peaks["rollout"] - rest if plan.plays_ahead else 0  # two processes at one time
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
                "rehearsed": peak + (beside if name != "rollout" else 0),
                "planned": planned[name],
                "flops": ledger.flops[name],
                "wide_flops": ledger.wide_flops[name],
                "left": ledger.left[name] - (gradients if name == "train" else 0),
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
    if base.quantization == "nf4":
        four_bits.give_scales(model)
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


def _over(learner: Any, batch: TrainingBatch, score: str) -> None:
    """One micro-batch after the other through a pass without gradients."""
    share = learner.sharing.shares
    for _, rows in micro_batches(batch, learner.micro_batch_rows, learner.base.device, share=share):
        getattr(learner._trainer, score)(rows)


def _reference(learner: Any, batch: TrainingBatch) -> None:
    """Log-probabilities under what a divergence is measured from."""
    if isinstance(learner, DPOLearner):
        pairs = _batch_of(learner.name, learner, batch).pairs
        learner._inputs(pairs[: max(1, learner.micro_batch_rows // 2)])
    else:
        _over(learner, batch, "row_logprobs")


def _average(learners: Mapping[str, Any]) -> None:
    """What `coordination: synchronized` does between gradients and steps."""
    mean = mean_gradient([own.gradients for own in learners.values()])
    changes = {name: {key: tensor.clone() for key, tensor in mean.items()} for name in learners}
    for name, own in learners.items():
        own.set_gradients(changes[name])


def _batch_of(name: str, learner: Any, batch: TrainingBatch) -> Any:
    """The rows as the learner's algorithm takes them."""
    if isinstance(learner, PPOLearner):
        values = np.zeros(batch.completion_mask_RT.shape, dtype=np.float32)
        own = {field.name: getattr(batch, field.name) for field in fields(batch)}
        critic = CriticBatch(**own | {"learner": name}, values_RT=values, returns_RT=values)
        return learner.steps(critic)[0]
    if isinstance(learner, DPOLearner):
        replies = tuple(batch.completion_ids_RT[0].tolist())
        pairs = tuple(
            Preference(
                start=f"{number}", prompt_ids=tuple(prompt.tolist()), chosen_ids=replies,
                rejected_ids=replies, chosen_by=(), rejected_by=(), margin=1.0, source="rank",
            )
            for number, prompt in enumerate(batch.prompt_ids_RP[::2])
        )  # fmt: skip
        return PreferenceBatch(learner=name, pairs=pairs)
    return replace(batch, learner=name)


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


def _generate(
    loaded: BaseModel, names: Sequence[str], recipe: LeagueRecipe, made: Plan, ledger: Ledger
) -> None:
    """All prompts of a batch of replies, and two tokens of each reply; tails have their full length."""
    plan, traffic = made.description, made.description.traffic
    model = loaded.playing()
    live = plan.live_bytes or LIVE_SHARE * (made.target.memory_bytes - ledger.live)
    engine: Any = recipe.bases[0].engine
    decoder = Decoder(
        model,
        replace(engine.decoding(), max_rows=plan.batch_rows),
        live_tokens=int(live) // model.bytes_per_token,
        cache_bytes=0,
        capture=lambda run: run,
    )
    group = recipe.rollout.group_size
    count = int(plan.replies_at_once)
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
