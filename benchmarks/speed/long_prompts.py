"""How long replies wait for their next token while long prompts are read, whole and in pieces.

    python -m benchmarks.speed.long_prompts [--model smollm2-135m] [--step-tokens 4096 512 128] [--json FILE]

A few short requests are always being written; long prompts that share nothing arrive one after the other.
Each setting of ``engine.step_tokens`` gets the same requests under the same keys, in turn, and must write the
same tokens. On a machine that has other work, ``--clock cpu`` counts this process's CPU seconds instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.meter import EngineSpeed
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.interrupts import EventLoop
from srl_agents.models.base_model import BaseModel

WORDS = ("red", "stone", "river", "seven", "left", "moves", "card", "plays", "north", "ten")
CLOCKS = {"wall": time.monotonic, "cpu": time.process_time}
LIKELY = 20
"""Tokens that are drawn from, as in `benchmarks.caching.group_rollouts`."""


def request(number: int, words: int, tokens: int) -> GenerationRequest:
    """A prompt of so many words that no other has, and a reply of so many tokens."""
    rng = np.random.default_rng(number)
    return GenerationRequest(
        observation=" ".join(rng.choice(WORDS, size=words)),
        version=None,
        key=(number, 0, 0),
        sampling=SamplingSettings(max_new_tokens=tokens, top_k=LIKELY, stop=()),
    )


async def written(engine: TransformersEngine, options: argparse.Namespace) -> list[Generation]:
    """Short replies without a break, beside long prompts one by one."""

    async def short(number: int) -> list[Generation]:
        replies = []
        for turn in range(options.turns):
            asked = request(1000 * (number + 1) + turn, 12, options.tokens)
            replies.append(await engine.generate(asked))
        return replies

    async def long() -> list[Generation]:
        return [await engine.generate(request(n, options.words, 2)) for n in range(options.long)]

    many, few = await asyncio.gather(
        asyncio.gather(*(short(number) for number in range(options.short))), long()
    )
    return [*few, *(reply for replies in many for reply in replies)]


def measured(speed: EngineSpeed) -> dict[str, Any]:
    """Quantiles of one setting."""
    return {
        "between_tokens": speed.between_tokens.count,
        "between_tokens_p50_s": speed.between_tokens.quantile(0.5),
        "between_tokens_p99_s": speed.between_tokens.quantile(0.99),
        "first_token_p99_s": speed.first_token.quantile(0.99),
        "steps": speed.steps,
    }


def main() -> int:
    """Measure what the command line asks for; exit code 1 where tokens differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--step-tokens", type=int, nargs="+", default=[4096, 512, 128])
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--rounds", type=int, default=2, help="of all settings, in turn")
    parser.add_argument("--short", type=int, default=4, help="short replies at once")
    parser.add_argument("--turns", type=int, default=3, help="short requests behind one another")
    parser.add_argument("--tokens", type=int, default=40, help="per short reply")
    parser.add_argument("--long", type=int, default=3, help="long prompts")
    parser.add_argument("--words", type=int, default=900, help="of a long prompt")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    base = BaseModel.load(options.model, device="cpu", dtype="float32")
    speeds = {size: EngineSpeed() for size in options.step_tokens}
    replies: dict[int, list[tuple[int, ...]]] = {}
    logprobs: dict[int, list[float]] = {}
    for _ in range(options.rounds):
        for size in options.step_tokens:
            with EventLoop() as runner:
                engine = TransformersEngine(
                    base,
                    SamplingSettings(),
                    max_batch_rows=16,
                    live_bytes=2**31,
                    cache_bytes=0,
                    decoding=DecodingRules(step_tokens=size),
                    clock=CLOCKS[options.clock],
                )
                found = runner.run(written(engine, options))
                speeds[size].merge(runner.run(engine.take_speed()))
                runner.run(engine.close())
            replies[size] = [reply.token_ids for reply in found]
            logprobs[size] = [value for reply in found for value in reply.logprobs]
    first = options.step_tokens[0]
    rows = {}
    for size in options.step_tokens:
        differ = sum(a != b for a, b in zip(replies[size], replies[first], strict=True))
        moved = (
            None if differ else float(np.abs(np.subtract(logprobs[size], logprobs[first])).max())
        )
        rows[size] = measured(speeds[size]) | {
            "replies_that_differ": differ,
            "logprob_moved_max": moved,
        }
        print(size, json.dumps(rows[size]), flush=True)
    if options.json:
        command = (
            f"python -m benchmarks.speed.long_prompts --clock {options.clock} --rounds {options.rounds} "
            f"--long {options.long}"
        )
        options.json.write_text(
            json.dumps({"command": command, "step_tokens": rows}, indent=1) + "\n"
        )
    return int(any(row["replies_that_differ"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
