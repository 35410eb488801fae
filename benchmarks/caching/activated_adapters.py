"""A game of four seats with four adapters: plain LoRA against adapters that act from the reply on.

    python -m benchmarks.caching.activated_adapters [--model smollm2-135m] [--rounds 2] [--json FILE]

Each seat plays an adapter of its own, drawn at random and small. Both forms play the same number of matches
from the same start states, in turn; replies are of a fixed length, so both write equally many tokens.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from srl_agents.agents.players import ModelPolicy
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.interrupts import EventLoop
from srl_agents.models.base_model import Activation, BaseModel
from srl_agents.records import MatchSpec
from srl_agents.rollouts import Rollouts

GAME, SEATS = "public_goods-v0", ("ann", "bob", "cid", "dan")
FORMS: tuple[Activation, ...] = ("start", "reply")


def loaded(model: str, form: Activation) -> BaseModel:
    """A base with four adapters."""
    base = BaseModel.load(model, device="cpu", dtype="float32", lora_activation=form)
    for seed, name in enumerate(SEATS):
        base.add_adapter(name, seed)
        drawn = torch.Generator().manual_seed(seed)
        tensors = base.adapter_tensors(name)
        for tensor in tensors.values():
            tensor.add_(torch.randn(tensor.shape, generator=drawn), alpha=0.01)
        base.set_adapter_tensors(name, tensors)
    return base


def measured(base: BaseModel, options: argparse.Namespace) -> dict[str, float]:
    """One group of matches on a new engine."""
    sampling = SamplingSettings(max_new_tokens=options.tokens, stop=())
    specs = [
        MatchSpec(env_id=GAME, seed=0, split="train", seats=SEATS, cluster="0", number=n, attempt=n)
        for n in range(options.attempts)
    ]
    with EventLoop() as runner:
        engine = TransformersEngine(
            base, sampling, max_batch_rows=options.rows, live_bytes=2**30, cache_bytes=2**30
        )
        policies = {name: ModelPolicy(engine, base.freeze_adapter(name)) for name in SEATS}
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        with Rollouts(policies, root_seed=0, order="free", loop=runner) as rollouts:
            episodes = rollouts.play(specs)
            prompts = rollouts.take_prompt_tokens()
        wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
        runner.run(engine.close())
    for name in base.frozen:
        base.forget(name)
    turns = [turn for e in episodes for t in e.trajectories for turn in t.turns]
    replies = sum(len(turn.completion_ids) for turn in turns)
    return {
        "requests": len(turns),
        "prompt_tokens": prompts.all,
        "computed": prompts.all - prompts.cached,
        "reply_tokens": replies,
        "reply_tokens_per_s": replies / wall_s,
        "reply_tokens_per_cpu_s": replies / cpu_s,
    }


def main() -> None:
    """Print and save both rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=8, help="per reply")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bases = {form: loaded(options.model, form) for form in FORMS}
    rows: dict[str, list[dict[str, float]]] = {form: [] for form in FORMS}
    for number in range(options.rounds):
        for form in FORMS if number % 2 == 0 else FORMS[::-1]:
            rows[form].append(measured(bases[form], options))
            print(form, json.dumps(rows[form][-1]), flush=True)
    found: dict[str, Any] = {
        form: {key: statistics.median(row[key] for row in own) for key in own[0]}
        for form, own in rows.items()
    }
    found["speed"] = (
        found["reply"]["reply_tokens_per_cpu_s"] / found["start"]["reply_tokens_per_cpu_s"]
    )
    found["command"] = f"python -m benchmarks.caching.activated_adapters --rounds {options.rounds}"
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
