"""32 adapters of one base against one: time and memory of whole steps on the same rows.

    python -m benchmarks.memory.many_adapters [--model smollm2-135m] [--adapters 32] [--json FILE]

The same random rows, once all of one learner (``one``), once one row for each of ``--adapters`` learners: all
gradients, which exist before any learner steps, then all steps, one per learner. ``mixed``
is one batch through all adapters, ``apart`` a pass per learner. Each way is a process of its own on one torch
thread; they take turns, one repetition each, so that other work on the machine hits all alike. Seconds are
CPU seconds, ratios are medians over repetitions, memory is the peak of the process in those. The first
repetition, in which optimizers make their states, is not counted.

Gradients of ``--compared`` learners are compared, in float32 and float64: ``exact`` is the largest norm, over
learners, of mixed gradients minus those of separate passes in float64, as a share of the norm of the latter.
``mixed_rounding`` and ``separate_rounding`` are the same for either's float32 gradients minus the float64
ones. ``largest_entry`` is the largest difference of an entry between both in float32, as a share of the
learner's largest entry.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.memory.child_peaks import forget_peak, status_mib
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch, WeightVersion
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.mixed_gradients import mixed_gradients

WAYS = ("one", "mixed", "apart")
Gradients = dict[str, dict[str, torch.Tensor]]
"""By learner."""


def use_float64(model: torch.nn.Module) -> None:
    """Compute in float64 throughout; transformers' norms go through float32 whatever the model's type is."""
    model.double()
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = functools.partial(_normalised, module)


def _normalised(norm: Any, hidden: torch.Tensor) -> torch.Tensor:
    shape, eps = norm.weight.shape, norm.variance_epsilon
    return torch.nn.functional.rms_norm(hidden, shape, norm.weight, eps)


def rows_of(
    base: BaseModel, name: str, rows: int, first: int, shape: tuple[int, int]
) -> TrainingBatch:
    """Random rows with numbers from ``first`` on, for any learner."""
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


class Contestant:
    """One way, with its learners and their rows.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.way, count = options.way, options.adapters
        self.tokens = count * (options.prompt + options.reply)
        base = BaseModel.load(options.model, lora_rank=options.rank, lora_alpha=16, device="cpu")
        names = ["learner0"] if self.way == "one" else [f"learner{i}" for i in range(count)]
        settings = GRPOSettings(
            optimizer=options.optimizer,
            micro_batch_rows=count,
            loss_type="bnpo",
            learning_rate=1e-5,
            share_prefixes=False,
        )
        self.base = base
        self.learners = {
            n: GRPOLearner(n, base, settings, 1.0, seed) for seed, n in enumerate(names)
        }
        each, shape = count // len(names), (options.prompt, options.reply)
        self.batches = {
            name: rows_of(base, name, each, each * number, shape)
            for number, name in enumerate(names)
        }
        for name, learner in self.learners.items():
            draw = torch.Generator().manual_seed(learner.seed)
            with torch.no_grad():
                for key, parameter in base.trainable_parameters(name).items():
                    if "lora_B" in key:
                        parameter.normal_(std=0.01, generator=draw)
            now = learner.token_logprobs(self.batches[name], name)
            self.batches[name].logprobs_RT[:] = now

    def step(self) -> dict[str, float]:
        """CPU seconds of all gradients and of all steps; the process's peak so far, in MiB."""
        start = time.process_time()
        if self.way == "mixed":
            mixed_gradients(self.learners, self.batches)
        else:
            for name, learner in self.learners.items():
                learner.compute_gradients(self.batches[name])
        between = time.process_time()
        for learner in self.learners.values():
            learner.apply_gradients()
        end = time.process_time()
        return {
            "gradients": between - start,
            "steps": end - between,
            "ms_per_token": 1000 * (end - start) / self.tokens,
            "peak_mib": status_mib("VmHWM"),
        }

    def difference(self, compared: int) -> dict[str, float]:
        """How far mixed gradients are from those of separate passes; the model is float64 afterwards."""
        names = [*self.learners][:compared]
        mixed, apart = self._mixed(names), self._apart(names)
        use_float64(self.base.model)
        exact, mixed_exact = self._apart(names), self._mixed(names)
        entries = [
            max(float((mixed[n][k] - g).abs().max()) for k, g in apart[n].items())
            / max(float(g.abs().max()) for g in apart[n].values())
            for n in names
        ]
        return {
            "exact": _apartness(mixed_exact, exact),
            "mixed_rounding": _apartness(mixed, exact),
            "separate_rounding": _apartness(apart, exact),
            "largest_entry": max(entries),
        }

    def _mixed(self, names: list[str]) -> Gradients:
        mixed_gradients(
            {name: self.learners[name] for name in names},
            {name: self.batches[name] for name in names},
        )
        return {name: self._taken(name) for name in names}

    def _apart(self, names: list[str]) -> Gradients:
        found = {}
        for name in names:
            self.learners[name].compute_gradients(self.batches[name])
            found[name] = self._taken(name)
        return found

    def _taken(self, name: str) -> dict[str, torch.Tensor]:
        taken = {key: gradient.clone() for key, gradient in self.learners[name].gradients.items()}
        self.learners[name].drop_gradients()
        return taken


def _apartness(some: Gradients, right: Gradients) -> float:
    """Largest relative norm of a difference, over learners."""

    def norm(tensors: list[torch.Tensor]) -> float:
        return float(torch.nn.utils.get_total_norm([tensor.double() for tensor in tensors]))

    return max(
        norm([some[name][key] - g for key, g in own.items()]) / norm([*own.values()])
        for name, own in right.items()
    )


def serve(options: argparse.Namespace) -> None:
    """Be a contestant that reads commands, ``step`` or ``difference``, and answers in JSON."""
    contestant = Contestant(options)
    contestant.step()
    forget_peak()
    print("{}", flush=True)
    for command in sys.stdin:
        result = (
            contestant.step() if command == "step\n" else contestant.difference(options.compared)
        )
        print(json.dumps(result), flush=True)


class Child:
    """A contestant in a process of its own; ends with its input.

    Args:
        arguments: of the command line.
    """

    def __init__(self, *arguments: str) -> None:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "benchmarks.memory.many_adapters",
            *arguments,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def ask(self, command: str) -> dict[str, float]:
        """Send a command and return the child's answer."""
        if self._process.stdin is None:
            raise RuntimeError("the child has no input.")
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Close its input and wait until it ends."""
        self._process.communicate()

    def _answer(self) -> dict[str, float]:
        if self._process.stdout is None:
            raise RuntimeError("the child has no output.")
        for line in self._process.stdout:
            if line.startswith("{"):
                result: dict[str, float] = json.loads(line)
                return result
        raise RuntimeError(f"the child ended with {self._process.wait()}.")


def compare(options: argparse.Namespace, given: list[str]) -> dict[str, Any]:
    """All ways in turn; by way, medians of their results, and ratios to the first."""
    children = {way: Child(*given, "--way", way) for way in options.ways}
    results: dict[str, list[dict[str, float]]] = {way: [] for way in options.ways}
    for _ in range(options.repetitions):
        for way, child in children.items():
            results[way].append(child.ask("step"))
    first = results[options.ways[0]]
    found: dict[str, Any] = {}
    for way, rows in results.items():
        found[way] = {key: median(row[key] for row in rows) for key in rows[0]} | {
            f"{key}_ratio": median(
                row[key] / one[key] for row, one in zip(rows, first, strict=True)
            )
            for key in ("ms_per_token", "peak_mib")
        }
    for way, child in children.items():
        if way != "mixed":
            child.end()
    if "mixed" in children:
        found["difference"] = children["mixed"].ask("difference")
        children["mixed"].end()
    return found


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
    parser.add_argument("--optimizer", default="adamw_torch_fused")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--compared", type=int, default=8, help="learners whose gradients are compared"
    )
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        serve(options)
        return
    left_out = ("json", "way", "ways", "repetitions")
    shared = {k: str(v) for k, v in vars(options).items() if k not in left_out}
    found = compare(options, [part for k, v in shared.items() for part in (f"--{k}", v)])
    for way in options.ways:
        row = found[way]
        print(
            f"{way:6} gradients {row['gradients']:6.2f} s, steps {row['steps']:5.2f} s, "
            f"{row['ms_per_token']:6.2f} ms/token ({row['ms_per_token_ratio']:.2f}), "
            f"{row['peak_mib']:6.0f} MiB ({row['peak_mib_ratio']:.2f})"
        )
    for key, value in found.get("difference", {}).items():
        print(f"{key:18} {value:.1e}")
    if options.json:
        result = {"options": shared, "repetitions": options.repetitions, **found}
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
