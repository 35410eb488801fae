"""How far the log-probabilities of one model differ between honest servers, and between models that differ.

    python -m benchmarks.speed.handshake [--model smollm2-135m] [--server URL] [--json FILE]

The fixed text of `srl_agents.models.probe` is scored by the model in float32, and then by the same model in
other number types, with other attention, and with normal noise on all weights (standard deviation: a share of
each tensor's own). With ``--server``, a vLLM server of the same model is asked, too. One line per case: mean
absolute difference in nats per token, against float32 here, and whether the handshake accepts it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import torch

from srl_agents.engines.vllm.answers import BASE
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.models.base_model import BaseModel
from srl_agents.models.probe import BOUND, ROUGH_BOUND, distance, logprobs_under, probe_tokens

_PATIENCE_S = 600.0


def cases(model: str, server: str, noise_seeds: int) -> dict[str, float]:
    """Case -> nats per token, against the model in float32."""
    base = BaseModel.load(model, dtype="float32", attention="eager", device="cpu")
    tokens = probe_tokens(base.chat)
    expected = logprobs_under(base, None, tokens)
    found: dict[str, float] = {}

    def add(case: str, other: BaseModel) -> None:
        found[case] = distance(logprobs_under(other, None, tokens), expected)

    forms: dict[str, dict[str, Any]] = {
        "float32, sdpa": {"dtype": "float32", "attention": "sdpa"},
        "bfloat16, sdpa": {"dtype": "bfloat16", "attention": "sdpa"},
        "bfloat16, eager": {"dtype": "bfloat16", "attention": "eager"},
        "nf4": {"dtype": "float32", "quantization": "nf4"},
    }
    for case, form in forms.items():
        add(case, BaseModel.load(model, device="cpu", **form))
    for share in (0.005, 0.01, 0.02, 0.05, 0.15) if noise_seeds else ():
        least = [_noisy(model, share, seed) for seed in range(noise_seeds)]
        found[f"noise of {share:.1%} (least of {noise_seeds})"] = min(
            distance(logprobs_under(noisy, None, tokens), expected) for noisy in least
        )
    if server:
        found[f"server {server}"] = distance(asyncio.run(_asked(server, tokens)), expected)
    return found


def _noisy(model: str, share: float, seed: int) -> BaseModel:
    base = BaseModel.load(model, dtype="float32", device="cpu")
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in base.frozen_parameters:
            noise = torch.randn(weight.shape, generator=draw)
            weight.add_(share * float(weight.std()) * noise)
    return base


async def _asked(url: str, tokens: tuple[int, ...]) -> tuple[float, ...]:
    link = HTTPLink(url)
    try:
        return await link.score(BASE, tokens, _PATIENCE_S)
    finally:
        await link.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--server", default="")
    parser.add_argument("--noise-seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = cases(options.model, options.server, options.noise_seeds)
    for case, nats in found.items():
        accepted = (
            "float32 bound" if nats <= BOUND else "16-bit bound" if nats <= ROUGH_BOUND else "no"
        )
        print(f"{case:32} {nats:.6f}  accepted: {accepted}")
    if options.json:
        options.json.write_text(json.dumps({"model": options.model, "nats": found}, indent=1))


if __name__ == "__main__":
    main()
