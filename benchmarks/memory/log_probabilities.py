"""A gradient through the log-probabilities of tokens at a large vocabulary: tiles against TRL and all logits.

    python -m benchmarks.memory.log_probabilities [--tokens 2048] [--json FILE]

``head`` is only the output head: hidden states of ``--tokens`` tokens, their log-probabilities and the
gradient back to the states; the head is frozen, as beside LoRA. ``learner`` is a whole GRPO gradient of
``--rows`` rows of 192 prompt and 64 reply tokens on a model of two layers, which TRL's head reads at every
position on a CPU. Every way runs in a process of its own, in turn, on one torch thread. Seconds are CPU
seconds of the median repetition; memory is the peak of the process above what it held before.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from trl.kernels import ChunkedLogProbFunction

from benchmarks.memory.child_peaks import forget_peak, in_child, status_mib
from srl_agents.memory.phase_manager import give_back_free_memory
from srl_agents.models.base_model import BaseModel, limit_threads
from srl_agents.models.memory.host_allocator import return_large_blocks
from srl_agents.models.sources import random_model
from srl_agents.records import TrainingBatch, WeightVersion
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes.log_probabilities import LogitForm, token_log_probabilities

VOCABULARY, WIDTH = 151_936, 896
"""Of Qwen2.5-0.5B."""
WAYS = {"head": ("chunked", "trl", "full"), "learner": ("chunked", "trl")}
_TRL_CHUNK = 32_768
"""TRL's own."""


def head_way(way: str, tokens: int) -> Callable[[], torch.Tensor]:
    """A function that computes one gradient and returns log-probabilities."""
    draw = torch.Generator().manual_seed(0)
    states = torch.randn(tokens, WIDTH, generator=draw)
    weight = torch.randn(VOCABULARY, WIDTH, generator=draw).mul_(0.02)
    targets = torch.randint(0, VOCABULARY, (tokens,), generator=draw)

    def gradient() -> torch.Tensor:
        hidden = states.clone().requires_grad_()
        if way == "chunked":
            logps, _ = token_log_probabilities(hidden, weight, targets, LogitForm())
        elif way == "trl":
            wanted = ("log_probs", "entropy")
            logps = ChunkedLogProbFunction.apply(
                hidden, weight, None, targets, 1.0, _TRL_CHUNK, None, 1.0, wanted
            )[0]
        else:
            logits = hidden @ weight.T
            logps = logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]
        logps.sum().backward()  # type: ignore[no-untyped-call]
        return logps.detach()

    return gradient


def learner_way(way: str, folder: Path, rows: int) -> Callable[[], torch.Tensor]:
    """A function that computes one gradient of a learner and returns its norm."""
    base = BaseModel.load(folder, device="cpu")
    settings = GRPOSettings(log_probabilities=way, micro_batch_rows=rows)  # type: ignore[arg-type]
    learner = GRPOLearner("learner", base, settings, temperature=1.0, seed=0)
    rng = np.random.default_rng(0)
    prompts, replies = np.ones((rows, 192), dtype=bool), np.ones((rows, 64), dtype=bool)
    batch = TrainingBatch(
        learner="learner",
        versions=(WeightVersion("learner", 0, "0123456789abcdef"),) * rows,
        prompt_ids_RP=rng.integers(3, 300, size=prompts.shape),
        prompt_mask_RP=prompts,
        completion_ids_RT=rng.integers(3, 300, size=replies.shape),
        completion_mask_RT=replies,
        learned_RT=replies,
        logprobs_RT=np.full(replies.shape, -12.0, dtype=np.float32),
        advantages_RT=np.repeat(rng.normal(size=(rows, 1)), 64, axis=1).astype(np.float32),
    )
    # on policy, so that no ratio is clipped
    batch.logprobs_RT[:] = learner.token_logprobs(batch, "learner")
    return lambda: torch.tensor(learner.compute_gradients(batch)["grad_norm"])


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One way, in this process."""
    limit_threads()
    return_large_blocks()  # as `srl train` does
    if options.part == "head":
        work = head_way(options.way, options.tokens)
    else:
        work = learner_way(options.way, Path(options.folder), options.rows)
    if options.part == "learner":
        work()  # the probe and TRL's first pass
    give_back_free_memory()
    held = status_mib("VmRSS")
    forget_peak()
    seconds = []
    for _ in range(options.repetitions):
        clock = time.process_time()
        mean_of = work()
        seconds.append(time.process_time() - clock)
    return {
        "seconds": statistics.median(seconds),
        "peak_mib": status_mib("VmHWM") - held,
        "told": float(mean_of.double().mean()),
    }


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--part", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(measure(options)))
        return
    found: dict[str, dict[str, dict[str, float]]] = {part: {} for part in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        random_model.build(
            Path(folder), kind="qwen2", hidden=WIDTH, vocab=VOCABULARY, tied=True, context=512
        )
        shared = [
            part
            for key in ("tokens", "rows", "repetitions")
            for part in (f"--{key}", str(getattr(options, key)))
        ]
        for part, ways in WAYS.items():
            for way in ways:
                case = ["--part", part, "--way", way, "--folder", folder]
                row = in_child("benchmarks.memory.log_probabilities", *shared, *case)
                found[part][way] = row
                print(
                    f"{part:8} {way:8} {row['seconds']:7.1f} s {row['peak_mib']:7.0f} MiB "
                    f"{row['told']:.6f}",
                    flush=True,
                )
    if options.json:
        shape = {"vocabulary": VOCABULARY, "width": WIDTH}
        result = shape | {"tokens": options.tokens, "rows": options.rows, **found}
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
