"""Memory that `srl plan` predicts beside what a process takes: whole updates of random models on this CPU.

    python -m benchmarks.memory.planned_peaks --out benchmarks/results/planned_peaks.json

Each configuration is a recipe. A child process loads a model with random weights and takes two updates
of all its
learners on rows of the stated lengths, through the learners that `srl train` uses: values of a critic,
probabilities of the reference, gradients of all learners, optimizer steps. Its peak is the kernel's
VmHWM. The plan
is made of the same recipe before the child starts, from only the recipe and the lengths.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.memory.child_peaks import in_child, status_mib
from srl_agents.memory.description import Traffic
from srl_agents.memory.devices import RUN_BYTES, this_machine
from srl_agents.memory.planner import plan
from srl_agents.recipes.plan_description import describe
from srl_agents.recipes.settings import LeagueRecipe
from srl_envs.reading.settings import build

SHAPE = {"hidden": 768, "layers": 10, "vocab": 16_000, "num_attention_heads": 12,
         "num_key_value_heads": 4, "head_dim": 64, "context": 2048, "kind": "qwen3"}  # fmt: skip
LARGE_VOCABULARY = SHAPE | {"hidden": 640, "layers": 4, "vocab": 151_936, "tied": True,
                            "num_attention_heads": 10, "num_key_value_heads": 2, "kind": "qwen2"}  # fmt: skip
SMALL = {"hidden": 64, "layers": 2, "vocab": 512, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "context": 2048, "kind": "qwen3"}  # fmt: skip
ROWS, PROMPT, REPLY = 4, 192, 96
"""Of the second update; the first has short rows, so that optimizer states are there in the second."""
PPO = {"algorithm": "ppo", "iterations": 1, "minibatches": 1}
CASES: dict[str, dict[str, Any]] = {
    "GRPO, LoRA": {},
    "GRPO, LoRA, checkpointing": {"training": {"gradient_checkpointing": True}},
    "GRPO, LoRA, bfloat16 base": {"dtype": "bfloat16"},
    "GRPO, LoRA, divergence from the base": {"training": {"kl_coef": 0.02}},
    "GRPO, whole weights": {"parameters": "full"},
    "GRPO, whole weights, checkpointing": {
        "parameters": "full",
        "training": {"gradient_checkpointing": True},
    },
    "GRPO, whole weights, 8-bit AdamW": {
        "parameters": "full",
        "training": {"optimizer": "adamw_8bit"},
    },
    "PPO, detached critic": {"training": PPO},
    "PPO, shared critic": {"training": PPO | {"critic": "shared"}},
    "PPO, critic on the base": {"training": PPO | {"critic": "base"}},
    "PPO, critic with an adapter": {"training": PPO | {"critic": "adapter"}},
    "DPO, LoRA": {"training": {"algorithm": "dpo"}},
    "GRPO, 2 adapters of rank 64": {
        "learners": ["a", "b"],
        "lora": {"rank": 64},
        "training": {"mix_learners": False},
    },
    "GRPO, 8 adapters of rank 64": {
        "learners": [*"abcdefgh"],
        "lora": {"rank": 64},
        "training": {"mix_learners": False},
    },
    "GRPO, 8 adapters of rank 64, 8-bit AdamW": {
        "learners": [*"abcdefgh"],
        "lora": {"rank": 64},
        "training": {"optimizer": "adamw_8bit", "mix_learners": False},
    },
    "GRPO, vocabulary of 151,936, tiles": {"shape": LARGE_VOCABULARY},
    "GRPO, vocabulary of 151,936, TRL's head": {
        "shape": LARGE_VOCABULARY,
        "training": {"log_probabilities": "trl"},
    },
    "GRPO, LoRA, two layers of width 64": {"shape": SMALL},
}


def recipe_of(case: dict[str, Any], folder: Path) -> LeagueRecipe:
    """The recipe of one configuration."""
    data = {
        "name": "planned",
        "model": str(folder),
        "env": "connect_four-v0",
        "device": "cpu",
        "dtype": "float32",
        "learners": ["alice"],
        "rollout": {"group_size": ROWS, "max_new_tokens": REPLY},
    }
    return build(LeagueRecipe, data | {k: v for k, v in case.items() if k != "shape"}, "case")


def planned(name: str, folder: Path) -> dict[str, Any]:
    """Planned peak of one configuration: the largest of the phases that the child goes through."""
    case = CASES[name]
    traffic = Traffic(
        rows=ROWS,
        prompt_tokens=PROMPT,
        reply_tokens=REPLY,
        mean_prompt_tokens=PROMPT,
        mean_reply_tokens=REPLY,
        source="the benchmark's rows",
    )
    described = describe(recipe_of(case, folder), accelerator=False, traffic=traffic)
    made = plan(described, this_machine(24e9))
    gone_through = [phase for phase in made.phases if phase.name not in ("rollout", "checkpoint")]
    peak = max(gone_through, key=lambda phase: phase.bytes)
    held = {
        k: v for k, v in peak.parts.items() if k != "frozen versions"
    }  # the child plays no matches
    held["process"] -= RUN_BYTES
    return {"phase": peak.name, "bytes": sum(held.values()), "parts": held}


def child(name: str, folder: Path, *, plain_allocator: bool = False) -> dict[str, Any]:
    """Two updates of one configuration; its peak."""
    import bitsandbytes  # noqa: F401 - a run that resumes has it; counted with the process

    from srl_agents.models.memory.host_allocator import return_large_blocks
    from srl_agents.training.loop import run  # noqa: F401 - what `srl train` imports
    from srl_agents.training.parts.single import load_bases, seeds_of

    if not plain_allocator:
        return_large_blocks()  # as `srl train` does
    imported = status_mib("VmHWM")
    recipe = recipe_of(CASES[name], folder)
    base = load_bases(recipe)[0].model
    learners = {
        learner: recipe.training.make_learner(learner, base, temperature=1.0, seed=seed)
        for learner, seed in seeds_of(recipe).items()
    }
    loaded = status_mib("VmRSS")
    stepped = []
    for rows, prompt, reply in ((2, 8, 4), (ROWS, PROMPT, REPLY)):
        for learner_name, learner in learners.items():
            batch = _batch(learner_name, learner, rows, prompt, reply)
            learner.compute_gradients(batch)
        for learner in learners.values():
            learner.apply_gradients()
        stepped.append(status_mib("VmRSS"))
    return {
        "imported_mib": imported,
        "loaded_mib": loaded,
        "peak_mib": status_mib("VmHWM"),
        "after_first_step_mib": stepped[0],
    }


def _batch(name: str, learner: Any, rows: int, prompt: int, reply: int) -> Any:
    """Random rows of nearly the same length; a critic judges them first."""
    import numpy as np

    from srl_agents.credit.preferences import Preference, PreferenceBatch
    from srl_agents.records import CriticBatch, TrainingBatch, WeightVersion
    from srl_agents.trainers.dpo import DPOLearner
    from srl_agents.trainers.ppo import PPOLearner

    rng = np.random.default_rng(0)
    ids_RP, ids_RT = (rng.integers(3, 300, (rows, width)) for width in (prompt, reply))
    if isinstance(learner, DPOLearner):
        pairs = tuple(
            Preference(start="", prompt_ids=tuple(ids_RP[r].tolist()), chosen_ids=tuple(ids_RT[r].tolist()),
                       rejected_ids=tuple(ids_RT[r + 1, :-1].tolist()), chosen_by=(), rejected_by=(),
                       margin=1.0, source="rank")
            for r in range(0, rows, 2)
        )  # fmt: skip
        return PreferenceBatch(learner=name, pairs=pairs)
    prompt_RP, reply_RT = np.ones(ids_RP.shape, bool), np.ones(ids_RT.shape, bool)
    prompt_RP[0, :2], reply_RT[1, -1] = False, False
    arrays: dict[str, Any] = {
        "learner": name,
        "versions": (WeightVersion(name, 0, "0" * 16),) * rows,
        "prompt_ids_RP": ids_RP,
        "prompt_mask_RP": prompt_RP,
        "completion_ids_RT": ids_RT,
        "completion_mask_RT": reply_RT,
        "learned_RT": reply_RT,
        "logprobs_RT": np.where(reply_RT, -9.0, 0.0).astype(np.float32),
        "advantages_RT": np.where(reply_RT, 1.0, 0.0).astype(np.float32),
    }
    batch = TrainingBatch(**arrays)
    if not isinstance(learner, PPOLearner):
        return batch
    values = learner.values(batch)
    return CriticBatch(
        **arrays, values_RT=values, returns_RT=np.where(reply_RT, values + 1, values)
    )


def measure(name: str, *, plain_allocator: bool = False) -> dict[str, Any]:
    """One row of the table."""
    from srl_agents.models.sources.random_model import build as build_model

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        shape: dict[str, Any] = dict(CASES[name].get("shape", SHAPE))
        build_model(folder, **shape)
        said = planned(name, folder)
        arguments = ["--child", name, "--model", str(folder)]
        if plain_allocator:
            arguments.append("--plain-allocator")
        found = in_child("benchmarks.memory.planned_peaks", *arguments)
    measured = found["peak_mib"] * 2**20
    return {
        "case": name,
        "planned_gb": said["bytes"] / 1e9,
        "measured_gb": measured / 1e9,
        "planned_to_measured": said["bytes"] / measured,
        "phase": said["phase"],
        "parts_gb": {k: round(v / 1e9, 4) for k, v in said["parts"].items()},
        **found,
    }


def planned_again(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The present planner beside what was measured before; a plan reads a configuration and no weights."""
    from transformers import AutoConfig

    fresh = []
    for row in rows:
        shape: dict[str, Any] = dict(CASES[row["case"]].get("shape", SHAPE))
        with tempfile.TemporaryDirectory() as scratch:
            config = AutoConfig.for_model(
                shape.pop("kind"),
                hidden_size=shape["hidden"],
                intermediate_size=3 * shape.pop("hidden"),
                num_hidden_layers=shape.pop("layers"),
                vocab_size=shape.pop("vocab"),
                max_position_embeddings=shape.pop("context"),
                tie_word_embeddings=shape.pop("tied", False),
                dtype="float32",
                **shape,
            )
            config.save_pretrained(scratch)
            said = planned(row["case"], Path(scratch))
        parts = {k: round(v / 1e9, 4) for k, v in said["parts"].items()}
        ratio = said["bytes"] / 1e9 / row["measured_gb"]
        fresh.append(
            row
            | {"planned_gb": said["bytes"] / 1e9, "planned_to_measured": ratio}
            | {"phase": said["phase"], "parts_gb": parts}
        )
    return fresh


def main() -> None:
    """Measure all configurations, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="all if absent")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=Path, help="plan anew beside the measurements of this file")
    parser.add_argument("--jobs", type=int, default=1, help="children at once")
    parser.add_argument("--plain-allocator", action="store_true", help="glibc as it comes")
    parser.add_argument("--child")
    parser.add_argument("--model", type=Path)
    options = parser.parse_args()
    if options.child:
        found = child(options.child, options.model, plain_allocator=options.plain_allocator)
        print(json.dumps(found))
        return

    def row_of(name: str) -> dict[str, Any]:
        row = measure(name, plain_allocator=options.plain_allocator)
        print(
            f"{name:45} planned {row['planned_gb']:.3f} measured {row['measured_gb']:.3f} GB "
            f"ratio {row['planned_to_measured']:.3f}",
            file=sys.stderr,
        )
        return row

    if options.again:
        rows = planned_again(json.loads(options.again.read_text())["rows"])
    else:
        with ThreadPoolExecutor(options.jobs) as pool:
            rows = list(pool.map(row_of, options.cases or CASES))
    if options.out:
        command = "python -m benchmarks.memory.planned_peaks"
        options.out.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
