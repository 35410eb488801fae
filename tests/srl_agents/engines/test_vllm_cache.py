"""Cache settings of a recipe reach vLLM under vLLM's own names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from srl_agents.engines.settings import ENGINE
from srl_agents.engines.vllm.cache import VLLMCache, command_line
from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_envs.errors import ConfigError


def test_settings_become_vllms_arguments() -> None:
    cache = VLLMCache(cache_type="fp8", prefix_cache=False)
    assert command_line(cache.arguments(cpu_build=True)) == [
        "--no-enable-prefix-caching", "--kv-cache-dtype", "fp8",
    ]  # fmt: skip
    tier = command_line(VLLMCache(host_gib=2, host_eviction="learned").arguments(cpu_build=False))
    assert tier[:2] == ["--enable-prefix-caching", "--kv-transfer-config"]
    transfer = json.loads(tier[2])
    assert transfer["kv_connector_extra_config"] == {
        "spec_name": "TieringOffloadingSpec",
        "cpu_bytes_to_use": 2 * 2**30,
        "eviction_policy": "LearnedEviction",
        "cache_policy_module_path": "srl_agents.caching.vllm_policy",
    }


def test_a_server_is_started_with_them_and_publishes_where_we_read(tmp_path: Path) -> None:
    engine: Any = ENGINE.convert(
        {"kind": "vllm", "cache": {"cache_type": "fp8"}, "kv_events": True}, "engine"
    )
    settings = VLLMServerSettings(
        model="m", python=sys.executable, cache=engine.cache, kv_events=engine.kv_events
    )
    server = VLLMServer(settings, tmp_path / "log")
    command = server._command()
    assert command[command.index("--kv-cache-dtype") + 1] == "fp8"
    events = json.loads(command[command.index("--kv-events-config") + 1])
    assert server.events is not None
    assert events["endpoint"] == f"ipc://{server.events.path}"
    folder = server.events.path.parent
    assert folder.is_dir()
    server.close()
    assert not folder.exists()


def test_a_tier_in_host_memory_is_refused_where_the_cache_is_there_already() -> None:
    with pytest.raises(ConfigError, match=r"host_gib=1: vLLM's build for CPUs"):
        VLLMCache(host_gib=1).arguments(cpu_build=True)


@pytest.mark.parametrize(
    "wrong",
    [{"host_gib": -1}, {"host_eviction": "mru"}, {"host_gib": 1, "prefix_cache": False}],
)
@pytest.mark.parametrize("kind", ["vllm", "vllm_process"])
def test_mistakes_are_named(kind: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="host_"):
        ENGINE.convert({"kind": kind, "cache": wrong}, "engine")
