"""A real vLLM server under bursts, with a conductor before it that holds a time between tokens, and without.

    python -m benchmarks.caching.vllm_objectives [--burst 12] [--rounds 3] [--times 3] [--json FILE]

SRL_VLLM_PYTHON names vLLM's interpreter. A reply's time per token is its time at the server over its tokens,
as the conductor measures it; ``--times`` that of a single reply is the objective. Waiting at the conductor
counts in the time to the whole reply.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.caching.blocks import block_hashes
from srl_agents.caching.objectives import Objectives
from srl_agents.engines.conducted import ConductedEngine
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.sources import catalog

BLOCK, CONTEXT, REPLY = 32, 1024, 24
MODEL = "smollm2-135m"


class Timed(VLLMEngine):
    """Remembers how long each reply took at the server."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.per_token_s: list[float] = []

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `VLLMEngine`."""
        began_s = time.perf_counter()
        reply = await super().generate(request)
        self.per_token_s.append((time.perf_counter() - began_s) / len(reply.token_ids))
        return reply


@dataclass(frozen=True, slots=True)
class Round:
    """What a setting gave."""

    per_token_s: list[float]
    whole_s: list[float]
    tokens: list[tuple[int, ...]]
    seconds: float


def summary(rounds: list[Round], limit_s: float) -> dict[str, Any]:
    """Of all rounds of a setting."""
    per_token_s = np.concatenate([each.per_token_s for each in rounds])
    whole_s = np.concatenate([each.whole_s for each in rounds])
    written = sum(len(tokens) for each in rounds for tokens in each.tokens)
    return {
        "replies": len(whole_s),
        "held": float(np.mean(per_token_s <= limit_s)),
        "per_token_s": {f"p{q}": float(np.quantile(per_token_s, q / 100)) for q in (50, 99)},
        "whole_reply_s": {f"p{q}": float(np.quantile(whole_s, q / 100)) for q in (50, 99)},
        "tokens_per_s": written / sum(each.seconds for each in rounds),
    }


def question(number: int) -> GenerationRequest:
    """Prompts of 100 to 500 tokens that share nothing but the template."""
    text = " ".join(
        f"Round {n}: you hold {(7 * n + number) % 13} coins." for n in range(5 + number % 30)
    )
    return GenerationRequest(
        observation=f"Match {number}. {text}", version=None, key=(number, 0, 0)
    )


async def bursts(
    server: VLLMServer, chat: ChatTokenizer, objectives: Objectives, count: int, size: int
) -> Round:
    """Ask, after a burst from which the estimate learns."""
    engine = Timed(
        HTTPLink(server), chat, SamplingSettings(max_new_tokens=REPLY), context_length=CONTEXT
    )
    conducted = ConductedEngine(
        [engine],
        lambda request: block_hashes(chat.encode_prompt(request.observation, (), ()), BLOCK),
        places=256,
        objectives=objectives,
    )
    whole_s: list[float] = []

    async def ask(number: int) -> Generation:
        began_s = time.perf_counter()
        reply = await conducted.generate(question(number))
        whole_s.append(time.perf_counter() - began_s)
        return reply

    await asyncio.gather(*(ask(10_000 + number) for number in range(size)))
    whole_s.clear()
    engine.per_token_s.clear()
    replies: list[Generation] = []
    began_s = time.perf_counter()
    for burst in range(count):
        replies += await asyncio.gather(*(ask(burst * size + number) for number in range(size)))
    seconds = time.perf_counter() - began_s
    await conducted.close()
    return Round(engine.per_token_s, whole_s, [r.token_ids for r in replies], seconds)


async def single_reply(server: VLLMServer, chat: ChatTokenizer) -> float:
    """Seconds per token of a reply when the server has no other request."""
    engine = Timed(
        HTTPLink(server), chat, SamplingSettings(max_new_tokens=REPLY), context_length=CONTEXT
    )
    for number in range(20_000, 20_004):
        await engine.generate(question(number))
    await engine.close()
    return float(np.median(engine.per_token_s[1:]))


def main() -> None:
    """Print and save the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--burst", type=int, default=12, help="requests at once")
    parser.add_argument("--bursts", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="off and on in turn")
    parser.add_argument(
        "--times",
        type=float,
        default=3.0,
        help="objective, as a multiple of a single reply's time per token",
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chat = ChatTokenizer.load(catalog.resolve(MODEL))
    settings = VLLMServerSettings(
        model=str(catalog.resolve(MODEL)), lora_rank=0, max_running=64, max_length=CONTEXT,
        dtype="float32", block_tokens=BLOCK, cache_gib=2, compiled=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        server = VLLMServer(settings, Path(folder) / "server.log")
        server.start()
        try:
            single_s = asyncio.run(single_reply(server, chat))
            limit = options.times * single_s
            settings_of = {"off": Objectives(), "on": Objectives(between_tokens_s=limit)}
            rounds: dict[str, list[Round]] = {name: [] for name in settings_of}
            for _ in range(options.rounds):
                for name, objectives in settings_of.items():
                    rounds[name].append(
                        asyncio.run(bursts(server, chat, objectives, options.bursts, options.burst))
                    )
        finally:
            server.close()
    pairs = [
        pair
        for off, on in zip(rounds["off"], rounds["on"], strict=True)
        for pair in zip(off.tokens, on.tokens, strict=True)
    ]
    found = {
        "command": f"python -m benchmarks.caching.vllm_objectives --burst {options.burst} "
        f"--bursts {options.bursts} --rounds {options.rounds} --times {options.times:g}",
        "model": MODEL,
        "alone_s": single_s,
        "limit_s": limit,
        **{name: summary(each, limit) for name, each in rounds.items()},
        "same_replies": float(np.mean([off == on for off, on in pairs])),
    }
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
