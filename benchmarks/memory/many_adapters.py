"""32 adapters of one base against one: time and memory of whole steps on the same rows.

    python -m benchmarks.memory.many_adapters [--model smollm2-135m] [--adapters 32] [--json FILE]

The same random rows, once all of one learner, once one row for each of ``--adapters`` learners: gradients
of all, which exist before anybody steps, then all steps. ``mixed`` is one batch through all, ``apart`` a
pass per learner. Ways run in processes of their own, in turn, on one torch thread; seconds are CPU seconds of
the fastest repetition, memory is the peak of the process in steps after the first. ``difference`` is the
largest relative norm, over learners, of mixed gradients minus separate ones.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.memory.child_peaks import forget_peak, in_child, status_mib
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch, WeightVersion
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients

WAYS = ("one", "mixed", "apart")


def rows_of(
    base: BaseModel, name: str, rows: int, first: int, shape: tuple[int, int]
) -> TrainingBatch:
    """Random rows with numbers from ``first`` on, whoever's they are."""
    prompts, replies = shape
    draws = [np.random.default_rng(first + row) for row in range(rows)]
    vocabulary = base.model.config.get_text_config().vocab_size
    prompt_ids = np.stack([rng.integers(5, vocabulary, size=prompts) for rng in draws])
    reply_ids = np.stack([rng.integers(5, vocabulary, size=replies) for rng in draws])
    whole = np.ones((rows, replies), dtype=bool)
    advantages = np.stack([np.full(replies, rng.normal()) for rng in draws])
    return TrainingBatch(
        learner=name,
        versions=(WeightVersion(name, 0, "0123456789abcdef"),) * rows,
        prompt_ids_RP=prompt_ids,
        prompt_mask_RP=np.ones((rows, prompts), dtype=bool),
        completion_ids_RT=reply_ids,
        completion_mask_RT=whole,
        learned_RT=whole,
        logprobs_RT=np.full((rows, replies), -10.0, dtype=np.float32),
        advantages_RT=advantages.astype(np.float32),
    )


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One way, in this process."""
    base = BaseModel.load(options.model, lora_rank=options.rank, lora_alpha=16, device="cpu")
    count, shape = options.adapters, (options.prompt, options.reply)
    names = ["learner0"] if options.way == "one" else [f"learner{i}" for i in range(count)]
    settings = GRPOSettings(
        optimizer=options.optimizer, micro_batch_rows=count, loss_type="bnpo", learning_rate=1e-5
    )
    learners = {n: GRPOLearner(n, base, settings, 1.0, seed) for seed, n in enumerate(names)}
    each = count // len(names)
    batches: dict[str, Any] = {
        name: rows_of(base, name, each, each * number, shape) for number, name in enumerate(names)
    }
    for name, learner in learners.items():
        with torch.no_grad():
            for key, parameter in base.trainable_parameters(name).items():
                if "lora_B" in key:
                    parameter.normal_(std=0.01)
        now = learner.token_logprobs(batches[name], name)
        batches[name].logprobs_RT[:] = now
    seconds = []
    for number in range(options.repetitions + 1):
        if number == 1:
            forget_peak()
        clock = time.process_time()
        if options.way == "mixed":
            mixed_gradients(learners, batches)
        else:
            for name, learner in learners.items():
                learner.compute_gradients(batches[name])
        for learner in learners.values():
            learner.apply_gradients()
        seconds.append(time.process_time() - clock)
    tokens = count * (options.prompt + options.reply)
    found = {
        "seconds": min(seconds[1:]),
        "ms_per_token": 1000 * min(seconds[1:]) / tokens,
        "peak_mib": status_mib("VmHWM"),
    }
    return found | (
        {"difference": _difference(learners, batches)} if options.way == "mixed" else {}
    )


def _difference(learners: dict[str, GRPOLearner], batches: dict[str, TrainingBatch]) -> float:
    mixed_gradients(learners, batches)
    mixed = {n: {k: g.clone() for k, g in own.gradients.items()} for n, own in learners.items()}
    worst = 0.0
    for name, learner in learners.items():
        learner.compute_gradients(batches[name])
        own = learner.gradients
        wrong = sum(float((mixed[name][key] - g).double().square().sum()) for key, g in own.items())
        size = sum(float(g.double().square().sum()) for g in own.values())
        worst = max(worst, (wrong / size) ** 0.5)
        learner.drop_gradients()
    return worst


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--adapters", type=int, default=32)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=48, help="tokens of a row's prompt")
    parser.add_argument("--reply", type=int, default=16, help="tokens of a row's reply")
    parser.add_argument("--optimizer", default="adamw_8bit")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options)))
        return
    told = {k: str(v) for k, v in vars(options).items() if k not in ("json", "way")}
    given = [part for key, value in told.items() for part in (f"--{key}", value)]
    found: dict[str, Any] = {}
    for way in WAYS:
        found[way] = in_child("benchmarks.memory.many_adapters", *given, "--way", way)
        row, one = found[way], found["one"]
        more = f" {row['difference']:.1e}" if "difference" in row else ""
        print(
            f"{way:6} {row['seconds']:6.1f} s {row['ms_per_token']:6.2f} ms/token "
            f"({row['ms_per_token'] / one['ms_per_token']:.2f}) {row['peak_mib']:6.0f} MiB "
            f"({row['peak_mib'] / one['peak_mib']:.2f}){more}",
            flush=True,
        )
    if options.json:
        Path(options.json).write_text(json.dumps({"options": told, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
