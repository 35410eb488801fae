"""The page for Prometheus beside a vLLM server."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx2
import pytest

from srl_agents.engines.vllm.events.prefix_cache import KVCounts
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.metrics import cache_tokens, read_counters, speed_between
from srl_agents.engines.vllm.metrics_page import page_of
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.metrics.prometheus import metrics_page
from srl_envs.errors import ConfigError
from tests.vllm_stub import vllm_stub


async def metrics_text(server: VLLMServer) -> str:
    link = HTTPLink(server)
    try:
        return await link.metrics()
    finally:
        await link.close()


def test_the_page_has_vllms_lines_and_ours_and_shows_that_vllm_is_down(tmp_path: Path) -> None:
    settings = VLLMServerSettings(model="m", python=sys.executable, restarts=2, kv_events=True)
    server = VLLMServer(settings, tmp_path / "log")
    assert server.events is not None
    server.events._counts = KVCounts(stored=7, removed=2)
    with (
        vllm_stub() as stub,
        metrics_page("127.0.0.1", 0, lambda: page_of(server)) as url,
    ):
        down = httpx2.get(url, trust_env=False).text
        assert "srl_server_up 0\n" in down
        assert "srl_server_restarts_left 3" in down
        server.url, server.starts = stub.url, 2
        answer = httpx2.get(url, trust_env=False)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "srl_server_up 1\n" in answer.text
        assert "srl_server_starts_total 2\n" in answer.text
        assert "srl_server_restarts_left 1\n" in answer.text
        assert "srl_server_prefix_hit_share 0.25\n" in answer.text
        assert "# TYPE srl_server_kv_stored_total counter\n" in answer.text
        assert "srl_server_kv_stored_total 7\n" in answer.text
        text = asyncio.run(metrics_text(server))
        speed = speed_between({}, read_counters(text))
        assert (speed.blocks_stored, speed.blocks_removed, speed.steps) == (7, 2, 4)
        assert answer.text.endswith(stub.counters)
        assert httpx2.get(url.replace("metrics", "other"), trust_env=False).status_code == 404
        taken = int(url.split(":")[2].split("/")[0])
        with (
            pytest.raises(ConfigError, match="--metrics-port"),
            metrics_page("127.0.0.1", taken, str),
        ):
            pass
    server.close()


def test_a_page_has_the_tokens_that_the_cache_holds() -> None:
    page = 'vllm:x 1\nvllm:cache_config_info{block_size="32",engine="0",num_gpu_blocks="600"} 1.0\n'
    assert cache_tokens(page) == 19200
    assert cache_tokens(page.replace('"600"', '"None"')) is None
    assert cache_tokens("vllm:x 1\n") is None
