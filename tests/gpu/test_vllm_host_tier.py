"""vLLM's tier in host memory: its build for CPUs refuses it, so this needs a card."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.vllm.cache import HostEviction, VLLMCache
from srl_agents.engines.vllm.engine import VLLMEngine
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.options import PYTHON, VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.sources import catalog

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.vllm,
    pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter"),
]
MODEL = "smollm2-135m"


@pytest.mark.parametrize("eviction", ["lru", "learned"])
def test_a_prompt_that_the_card_dropped_comes_back_from_host_memory(
    tmp_path: Path, eviction: HostEviction
) -> None:
    """The card has room for two of these prompts; the first is asked for again after four others."""
    settings = VLLMServerSettings(
        model=str(catalog.resolve(MODEL)), lora_rank=0, max_running=1, max_length=1024, compiled=False,
        cache=VLLMCache(host_gib=1, host_eviction=eviction), memory_share=0.3, kv_events=True,
        arguments=("--num-gpu-blocks-override", "100"),
    )  # fmt: skip
    server = VLLMServer(settings, tmp_path / "log")
    server.start()
    chat = ChatTokenizer.load(catalog.resolve(MODEL))

    async def play() -> list[Generation]:
        engine = VLLMEngine(
            HTTPLink(server),
            chat,
            SamplingSettings(max_new_tokens=2, temperature=0.0),
            context_length=1024,
        )
        replies = []
        for number in (0, 1, 2, 3, 4, 0):
            text = f"match {number}: " + "rock paper scissors " * 200
            replies.append(
                await engine.generate(
                    GenerationRequest(observation=text, version=None, key=(number,))
                )
            )
        await engine.close()
        return replies

    try:
        replies = asyncio.run(play())
    finally:
        server.close()
    assert server.events is not None
    assert server.events.counts.removed > 0
    assert replies[-1].cached_tokens > 300
    assert replies[-1].token_ids == replies[0].token_ids
