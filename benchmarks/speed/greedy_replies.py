"""Greedy replies of the embedded engine with each of its parts on and off, and beside a plain forward pass.

    python -m benchmarks.speed.greedy_replies [--model smollm2-135m] [--json FILE]

The prompts are first observations of three games, several seats and seeds each. What is asked: the same
tokens in every setting in float32, and log-probabilities within 1e-4 of one teacher-forced pass through
the trainer's modules. Exit code 1 where one of the two is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import torch

from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_envs import make
from srl_envs.testing import opening

GAMES = ("connect_four-v0", "hanabi_mini-v0", "code_duel-v0")
CLOSE = 1e-4
"""Nats."""
SETTINGS: dict[str, dict[str, Any]] = {
    "all on": {},
    "all off": {"refill": False, "share_prefixes": False, "read_in_place": 10**9},
    "no refill": {"refill": False},
    "no sharing": {"share_prefixes": False},
    "copied prefixes": {"read_in_place": 10**9},
    "all read in place": {"read_in_place": 1},
    "in pieces": {"step_tokens": 64},
}
"""What `DecodingRules` differ in; ``all off`` also has one row at a time."""


def prompts(seeds: int) -> list[str]:
    """What seats see first, without repetitions."""
    texts: list[str] = []
    for game in GAMES:
        env: Any = make(game)
        for seed in range(seeds):
            seen = opening(env, seed=seed)
            texts += [str(text) for text in seen.values() if text is not None]
        env.close()
    return list(dict.fromkeys(texts))


def replies(
    base: BaseModel, texts: list[str], name: str, options: argparse.Namespace
) -> list[Generation]:
    """Greedy replies to all prompts at once."""
    engine = TransformersEngine(
        base,
        SamplingSettings(temperature=0.0, max_new_tokens=options.tokens, stop=()),
        max_batch_rows=1 if name == "all off" else options.rows,
        cache_bytes=0 if name == "all off" else None,
        decoding=DecodingRules(**SETTINGS[name]),
    )

    async def ask() -> list[Generation]:
        asked = [
            GenerationRequest(observation=text, version=None, key=(place,))
            for place, text in enumerate(texts)
        ]
        given = await asyncio.gather(*map(engine.generate, asked))
        await engine.close()
        return list(given)

    return asyncio.run(ask())


@torch.no_grad()
def farthest(base: BaseModel, given: list[Generation]) -> float:
    """Largest difference to the log-probabilities of one pass over prompt and reply, in nats."""
    model, worst = base.model.get_base_model(), 0.0
    for reply in given:
        ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
        count = len(reply.token_ids)
        logits = model(input_ids=ids, logits_to_keep=count + 1).logits[0, :-1].float()
        logprobs = torch.log_softmax(logits, dim=1).gather(
            1, torch.tensor(reply.token_ids)[:, None]
        )
        worst = max(worst, float((logprobs[:, 0] - torch.tensor(reply.logprobs)).abs().max()))
    return worst


def main() -> int:
    """Compare what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--seeds", type=int, default=3, help="start states per game")
    parser.add_argument("--tokens", type=int, default=16, help="per reply")
    parser.add_argument("--rows", type=int, default=6, help="most replies in one batch")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    base = BaseModel.load(options.model, device="cpu", dtype="float32")
    texts = prompts(options.seeds)
    given = {name: replies(base, texts, name, options) for name in SETTINGS}
    tokens = {name: [reply.token_ids for reply in own] for name, own in given.items()}
    measured = {
        name: {
            "replies_that_differ": sum(
                a != b for a, b in zip(tokens[name], tokens["all off"], strict=True)
            ),
            "logprob_difference": farthest(base, own),
        }
        for name, own in given.items()
    }
    record = {
        "model": options.model,
        "replies": len(texts),
        "tokens": sum(map(len, tokens["all off"])),
        "settings": measured,
    }
    print(json.dumps(record, indent=1))
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    sound = all(
        own["replies_that_differ"] == 0 and own["logprob_difference"] < CLOSE
        for own in measured.values()
    )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
