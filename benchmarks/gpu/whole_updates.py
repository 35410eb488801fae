"""Whole updates of a shipped recipe on a device: the model's own shape, random weights, random rewards.

The model is written by the device and loaded as any other: files, adapters, engine, learners, optimizer. Its
tokenizer is that of `tiny`, so replies are noise and each ends at the recipe's limit. The plan is made of the
lengths and the number of rows that were really learned from, so memory and times can be compared.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from srl_agents.memory import architecture
from srl_agents.memory.description import Traffic
from srl_agents.memory.devices import DEVICES, Target, target_of
from srl_agents.memory.phase_manager import TRACE
from srl_agents.memory.planner import Plan, plan
from srl_agents.metrics import ConsoleView, Record
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources import catalog
from srl_agents.recipes.loading import find_recipe, load
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.training.dry_run import Lots
from srl_agents.training.loop.run import LeagueTraining

UPDATES = 2
"""The second one is measured: the first one has kernels to load and optimizer states to make."""
SMALL = {"num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 2048}  # fmt: skip
"""On a CPU, where only the steps are tried."""
PHASES = {"rollout": "play", "train": "gradients", "step": "steps"}
"""Phase of the plan -> phase of the run."""
WITHIN = 0.10
"""Planned memory may lie so far above the measured one, and never under it."""


def write_model(name: str, folder: Path, device: str) -> None:
    """A folder with the shape of a shipped model and random weights, in bfloat16.

    Args:
        name: of the shape, as `srl_agents.memory.architecture` calls it.
        folder: to make.
        device: draws the weights; on a CPU the shape is `SMALL`.
    """
    config = dict(architecture.shipped()[name]["config"])
    tiny = json.loads((catalog.TINY / "config.json").read_text(encoding="utf-8"))
    config |= {key: tiny[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if device == "cpu":
        config |= SMALL
    with torch.device(device), quiet_libraries():
        torch.manual_seed(0)
        kind = config.pop("model_type")
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(kind, **config), dtype=torch.bfloat16
        )
    with quiet_libraries():
        model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / file).write_bytes((catalog.TINY / file).read_bytes())


class _Lengths:
    """Hands batches through, and keeps the lengths of their rows; broken, it loses the rows instead."""

    def __init__(self, inner: Any, *, broken: bool) -> None:
        self._inner = inner
        self._broken = broken
        self.prompts: list[int] = []
        self.replies: list[int] = []

    def batch(self, learner: str, episodes: Any, policy: str) -> Any:
        """See `srl_agents.trainers.experience.Experience`."""
        batch, metrics = self._inner.batch(learner, episodes, policy)
        if self._broken:
            return None, metrics
        if batch is not None:
            self.prompts = batch.prompt_mask_RP.sum(1).tolist()
            self.replies = batch.completion_mask_RT.sum(1).tolist()
        return batch, metrics


class _LastRecord(ConsoleView):
    """A view that keeps the metrics of the last update."""

    last: dict[str, float]

    def write(self, record: Record) -> None:
        """See `Sink`."""
        self.last = record.run
        super().write(record)


def recipe_for(name: str, folder: Path, device: str, overrides: dict[str, Any]) -> LeagueRecipe:
    """A shipped recipe on the written model, with random rewards and `UPDATES` updates."""
    given = {
        "model": str(folder),
        "device": device,
        "updates": UPDATES,
        "rewards.terms": {"lots": {"kind": f"{Lots.__module__}:{Lots.__qualname__}"}},
        "evaluation": {"every": 0, "final_pairs": 1},
        "checkpoint_every": UPDATES,
    }
    return load(LeagueRecipe, find_recipe(name), given | overrides)


def measure(
    name: str, shape: str, device: str, overrides: dict[str, Any], *, broken: bool = False
) -> dict[str, Any]:
    """Updates of a recipe; memory by phase and times of the last, beside the plan.

    Args:
        name: of the recipe.
        shape: of the model.
        device: where it runs.
        overrides: of the recipe.
        broken: lose the rows on their way to the learners, so that none steps.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_model(shape, folder / "model", device)
        recipe = recipe_for(name, folder / "model", device, overrides)
        with _LastRecord(recipe.name, UPDATES) as view:
            training = LeagueTraining(recipe, folder / "run", view)
            experience: Any = training.parts.experience
            lengths = {
                learner: _Lengths(experience[learner], broken=broken) for learner in recipe.learners
            }
            experience.update(lengths)
            try:
                for _ in range(UPDATES):
                    training.take_update()
                stepped = [learner.version for learner in training.parts.learners.values()]
                held = _held(device)
            finally:
                training.close()
        trace = [json.loads(line) for line in (folder / "run" / TRACE).read_text().splitlines()]
        # Replies are noise, so a seat that moves second may never be asked; the first one always is.
        if not any(own.prompts for own in lengths.values()):
            return {"passed": False, "result": "no learner had a row to learn from"}
        made = _plan_of(recipe, view.last, lengths, device)
    peaks = _peaks(trace, held, made)
    written, seconds = view.last["generate_s"] * view.last["tokens_per_s"], view.last["generate_s"]
    row: dict[str, Any] = {
        "passed": max(stepped) > 0 and (device == "cpu" or within(peaks)),
        "recipe": name,
        "weights": made.description.model.parameters,
        "rows": [len(own.prompts) for own in lengths.values()],
        "mean prompt tokens": float(np.mean([n for own in lengths.values() for n in own.prompts])),
        "mean reply tokens": float(np.mean([n for own in lengths.values() for n in own.replies])),
        "peaks": peaks,
        "reply tokens/s": written / seconds,
        "planned reply tokens/s": made.pace.written_per_s,
        "generation s": seconds,
        "planned generation s": made.pace.seconds["rollout"],
        "learning s": view.last["train_s"],
        "planned learning s": made.pace.seconds["train"],
        "batch rows": view.last.get("batch_rows", 0.0),
        "next token s": view.last.get("between_tokens_s/p50", 0.0),
    }  # fmt: skip
    if device != "cpu":
        found = ratios(peaks)
        row["result"] = f"planned memory is {min(found):.3f} to {max(found):.3f} of the measured"
    useful = made.pace.mfu * made.pace.total_s
    row["model FLOP utilisation"] = useful / (seconds + view.last["train_s"])
    row["planned model FLOP utilisation"] = made.pace.mfu
    return row


def _held(device: str) -> dict[str, float]:
    """Bytes of the card: what CUDA holds beside the allocator, and the most that the allocator reserved."""
    if device == "cpu":
        return {}
    free, total = torch.cuda.mem_get_info()
    return {
        "context": float(total - free - torch.cuda.memory_reserved()),
        "reserved": float(torch.cuda.max_memory_reserved()),
    }


def _plan_of(
    recipe: LeagueRecipe, last: dict[str, float], lengths: dict[str, _Lengths], device: str
) -> Plan:
    """The recipe's plan for the rows that were learned from and the tokens that were written."""
    prompts = [n for own in lengths.values() for n in own.prompts]
    replies = [n for own in lengths.values() for n in own.replies]
    traffic = Traffic(
        rows=max(len(own.prompts) for own in lengths.values()),
        prompt_tokens=max(prompts),
        reply_tokens=max(replies),
        mean_prompt_tokens=float(np.mean(prompts)),
        mean_reply_tokens=float(np.mean(replies)),
        own_prompt_tokens=max(prompts) - min(prompts),
        mean_new_tokens=last["prompt_tokens/computed"] / last["prompt_tokens"] * float(np.mean(prompts)),
        source="the rows of this run",
    )  # fmt: skip
    described = describe(recipe, accelerator=device != "cpu", traffic=traffic)
    written = last["generate_s"] * last["tokens_per_s"] / traffic.mean_reply_tokens
    return plan(replace(described, written_replies=written), _target(device))


def _target(device: str) -> Target:
    """The device of the plan: the shipped one of that name, with the memory that this one has."""
    if device == "cpu":
        return target_of("cpu")
    name, total = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory
    found = next((known for known in DEVICES if known.partition("-")[0] in name.lower()), None)
    return replace(target_of(found or "h100-80gb"), memory_bytes=float(total))


def _peaks(trace: list[dict[str, Any]], held: dict[str, float], made: Plan) -> dict[str, Any]:
    """Planned and measured bytes: of tensors, by phase of the last update, and of the whole card."""
    found: dict[str, Any] = {}
    for planned in made.phases:
        names = PHASES.get(planned.name)
        own = [
            line["peak"] for line in trace if line["update"] == UPDATES and line["phase"] == names
        ]
        if own:
            tensors = planned.bytes - planned.parts["process"] - planned.parts["allocator"]
            found[planned.name] = {"planned": tensors, "measured": max(own), "parts": planned.parts}
    found["card"] = {"planned": made.peak.bytes, "measured": sum(held.values()), "parts": held}
    return found


def ratios(peaks: dict[str, Any]) -> list[float]:
    """Planned over measured peaks."""
    return [peak["planned"] / peak["measured"] for peak in peaks.values()]


def within(peaks: dict[str, Any]) -> bool:
    """Whether each planned peak lies between the measured one and `WITHIN` above it."""
    return all(1.0 <= ratio <= 1 + WITHIN for ratio in ratios(peaks))
