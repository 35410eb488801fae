"""What a vLLM server leaves among temporary files goes with the server, also after a failed start."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from srl_agents.engines.vllm.options import VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_envs.errors import ModelError

_FAILS = """#!/bin/sh
touch "$TMPDIR/a-socket"
exit 1
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def server_of(folder: Path) -> VLLMServer:
    python = folder / "python"
    python.write_text(_FAILS)
    python.chmod(0o755)
    return VLLMServer(VLLMServerSettings(model="m", python=str(python)), folder / "log")


def test_a_failed_start_leaves_nothing(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srl_agents.engines.vllm.server._LONGEST_ADDRESS", 1000)
    monkeypatch.setattr("srl_agents.engines.vllm.server._is_cpu_build", lambda _: False)
    server = server_of(tmp_path)
    with pytest.raises(ModelError, match="the vLLM server ended"):
        server.start()
    assert [path.name for path in temporary.glob("*/*")] == ["a-socket"]
    server.close()
    assert list(temporary.iterdir()) == []


def test_a_folder_whose_sockets_would_have_too_long_names_is_not_used(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srl_agents.engines.vllm.server._LONGEST_ADDRESS", 60)
    server = server_of(tmp_path)
    assert server._environment()["TMPDIR"] == str(temporary)
    server.close()
