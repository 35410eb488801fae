"""Prefixes read once per micro-batch against once per row, on turns of suite episodes.

    python -m benchmarks.speed.packing [--model tiny] [--group 8] [--rows 64] [--json FILE]

Bots play groups of attempts from one start; their turns become rows of the model's chat template, as
in training. Both ways compute the gradient of the GRPO loss (with a KL term) over the same rows and
micro-batches; every way runs in a process of its own, in turn, on one torch thread. CPU seconds of
the median repetition; memory is the peak of the process above what it held before the first gradient.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import srl_envs
from srl_agents.credit.batches import training_batch
from srl_agents.models.base_model import BaseModel
from srl_agents.records import TrainingBatch, Turn
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings
from srl_agents.trainers.passes.shared_prefixes import share_prefixes
from srl_agents.trainers.policy_gradient import micro_batches
from srl_envs.api.making import make_bot

ENVIRONMENTS = ("connect_four-v0", "kuhn_poker-v0", "iterated_dilemma-v0", "code_duel-v0")
WAYS = ("padded", "shared")


def rows_of(base: BaseModel, env_id: str, group: int, limit: int) -> list[tuple[Turn, float]]:
    """Turns of the first seat in groups of attempts, whole groups first, cut at ``limit``."""
    env = srl_envs.make(env_id)
    seats = len(env.possible_agents)
    rng = np.random.default_rng(0)
    turns: list[tuple[Turn, float]] = []
    seed = 0
    while len(turns) < limit:
        for attempt in range(group):
            seen: list[tuple[str, str]] = []
            policies = {
                seat: make_bot(env_id, "random", seed=100 * attempt + seat) for seat in range(seats)
            }
            first = policies[0]

            def watched(text: str, first: Any = first, seen: Any = seen) -> str:
                reply: str = first(text)
                seen.append((text, reply))
                return reply

            srl_envs.play(env, {**policies, 0: watched}, seed=seed)
            advantage = float(rng.normal())
            for text, reply in seen:
                prompt, completion = base.encode_prompt(text), base.encode_reply(reply)
                if len(prompt) + len(completion) <= base.context_length:
                    turn = Turn(
                        turn_index=0, observation="", reply="", invalid=None, reward=0.0,
                        components={}, version="learner@0-0123456789abcdef",
                        prompt_ids=prompt, completion_ids=completion,
                        logprobs=(-1.0,) * len(completion),
                    )  # fmt: skip
                    turns.append((turn, advantage))
        seed += 1
    return turns[:limit]


def places(batch: TrainingBatch, micro_batch_rows: int, way: str, width: int) -> int:
    """Places that a forward goes over, padding included."""
    total = 0
    for _, part in micro_batches(
        batch, micro_batch_rows, torch.device("cpu"), share=way == "shared"
    ):
        if way == "shared":
            masks = part["prompt_mask"].bool(), part["completion_mask"].bool()
            prompts, replies = (
                [
                    ids[mask].numpy()
                    for ids, mask in zip(part[f"{kind}_ids"], kind_mask, strict=True)
                ]
                for kind, kind_mask in zip(("prompt", "completion"), masks, strict=True)
            )
            layout = share_prefixes(prompts, replies, width=width, device=torch.device("cpu"))
            total += layout.input_ids_GL.numel()
        else:
            total += part["prompt_ids"].numel() + part["completion_ids"].numel()
    return total


def measure(options: argparse.Namespace) -> dict[str, float]:
    """One way, one environment, in this process."""
    base = BaseModel.load(options.model, device="cpu")
    settings = GRPOSettings(
        kl_coef=0.02, micro_batch_rows=options.micro, share_prefixes=options.way == "shared"
    )
    learner = GRPOLearner("learner", base, settings, temperature=1.0, seed=0)
    rows = rows_of(base, options.env, options.group, options.rows)
    batch = training_batch("learner", rows, base.tokenizer.pad_token_id)
    held = _peak_mib()
    learner.compute_gradients(batch)  # warm
    times = []
    for _ in range(options.repetitions):
        clock = time.process_time()
        learner.compute_gradients(batch)
        times.append(time.process_time() - clock)
    width = base.model.config.get_text_config().hidden_size
    tokens = float(batch.prompt_mask_RP.sum() + batch.completion_mask_RT.sum())
    return {
        "seconds": statistics.median(times),
        "peak_mib": _peak_mib() - held,
        "places": float(places(batch, options.micro, options.way, width)),
        "tokens": tokens,
        "prompts": float(len({turn.prompt_ids for turn, _ in rows})),
        "prompt_tokens_mean": float(batch.prompt_mask_RP.sum(1).mean()),
        "reply_tokens_mean": float(batch.completion_mask_RT.sum(1).mean()),
        "rows": float(batch.rows),
    }


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()  # getrusage would tell the parent's peak, too
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--group", type=int, default=8, help="attempts per start")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--micro", type=int, default=16, help="rows per micro-batch")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--env", help="one environment instead of all")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options)))
        return
    result: dict[str, Any] = {"options": {k: v for k, v in vars(options).items() if v}}
    print(f"{'':24}{'rows':>6}{'prompts':>9}{'prompt':>8}{'reply':>7}{'padded':>9}{'shared':>9}"
          f"{'speed':>8}{'MiB':>7}{'MiB':>7}")  # fmt: skip
    for env_id in [options.env] if options.env else ENVIRONMENTS:
        found = {way: _child(options, env_id, way) for way in WAYS}
        result[env_id] = found
        a, b = found["padded"], found["shared"]
        speed = a["seconds"] / b["seconds"]
        print(
            f"{env_id:24}{a['rows']:6.0f}{a['prompts']:9.0f}{a['prompt_tokens_mean']:8.0f}"
            f"{a['reply_tokens_mean']:7.1f}{a['tokens'] / a['seconds']:9.0f}"
            f"{b['tokens'] / b['seconds']:9.0f}{speed:8.2f}{a['peak_mib']:7.0f}{b['peak_mib']:7.0f}",
            flush=True,
        )
    print("padded, shared: tokens of rows per CPU second; MiB: padded, then shared")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2))


def _child(options: argparse.Namespace, env_id: str, way: str) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.packing", "--env", env_id]
    for name in ("model", "group", "rows", "micro", "repetitions"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run([*command, "--way", way], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
