"""The page for Prometheus beside a vLLM server."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx2
import pytest

from srl_agents.engines.server_metrics import page_of
from srl_agents.engines.vllm_server import VLLMServer, VLLMServerSettings
from srl_agents.metrics.prometheus import metrics_page
from srl_envs.errors import ConfigError
from tests.vllm_stub import vllm_stub


def test_the_page_has_vllms_lines_and_ours_and_tells_that_vllm_is_down(tmp_path: Path) -> None:
    settings = VLLMServerSettings(model="m", python=sys.executable, restarts=2)
    server = VLLMServer(settings, tmp_path / "log")
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
        assert answer.text.endswith(stub.counters)
        assert httpx2.get(url.replace("metrics", "other"), trust_env=False).status_code == 404
        taken = int(url.split(":")[2].split("/")[0])
        with (
            pytest.raises(ConfigError, match="--metrics-port"),
            metrics_page("127.0.0.1", taken, str),
        ):
            pass
