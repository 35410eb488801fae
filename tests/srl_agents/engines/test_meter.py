"""Speed that engines report: the loop's own meter, and vLLM's counters."""

from __future__ import annotations

import asyncio

import pytest

from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.meter import StepMeter
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.engines.vllm.metrics import read_counters, speed_between
from srl_agents.models.base_model import BaseModel

PAGE = """# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1",model_name="base"}} {fast}.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="1.0",model_name="base"}} {all}.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="base"}} {all}.0
vllm:inter_token_latency_seconds_bucket{{engine="0",le="0.01"}} 0.0
vllm:iteration_tokens_total_count{{engine="0",model_name="base"}} {steps}.0
vllm:generation_tokens_total{{engine="0",model_name="base"}} 40.0
vllm:odd{{engine="0"}} words
"""


def test_a_reply_is_timed_from_its_request_to_its_first_token_and_on() -> None:
    now_s = 0.0
    meter = StepMeter(places=4, clock=lambda: now_s)
    meter.asked("a")
    now_s = 2.0
    meter.asked("b")
    meter.stepped(["a"], [])
    now_s = 2.5
    meter.stepped(["b"], ["a"])
    meter.gone("a")
    speed = meter.take()
    assert speed.first_token.quantile(1.0) == pytest.approx(2.0, rel=0.06)
    assert speed.first_token.quantile(0.5) == pytest.approx(0.5, rel=0.06)
    assert speed.between_tokens.quantile(0.5) == pytest.approx(0.5, rel=0.06)
    assert (speed.steps, speed.rows, speed.places) == (2, 3, 8)
    assert meter.take().steps == 0


def test_the_embedded_engine_times_every_token_of_every_reply(base: BaseModel) -> None:
    requests = [
        GenerationRequest(observation=f"Say {n}.", version=None, key=(n,)) for n in range(3)
    ]

    async def play() -> None:
        engine = TransformersEngine(base, SamplingSettings(max_new_tokens=5), max_batch_rows=2)
        separate = await asyncio.gather(*map(engine.generate, requests))
        first = await engine.take_speed()
        together = await engine.generate_together(requests)
        second = await engine.take_speed()
        await engine.close()
        for replies, speed in ((separate, first), (together, second)):
            tokens = sum(len(reply.token_ids) for reply in replies)
            assert speed.first_token.count == 3
            assert speed.between_tokens.count == tokens - 3
            assert speed.rows == tokens
            assert speed.places == 2 * speed.steps

    asyncio.run(play())


def test_counters_of_vllm_are_read_as_what_passed_between_two_pages() -> None:
    before = read_counters(PAGE.format(fast=3, all=4, steps=10))
    after = read_counters(PAGE.format(fast=5, all=10, steps=30))
    speed = speed_between(before, after)
    assert speed.first_token.count == 6
    assert speed.first_token.quantile(1.0) == pytest.approx(1.0)
    assert speed.first_token.quantile(0.2) <= 0.1
    assert speed.between_tokens.count == 0
    assert (speed.steps, speed.rows, speed.places) == (20, 0, 0)
    assert speed_between(after, before).first_token.count == 4  # it was started again
