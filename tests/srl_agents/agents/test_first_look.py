"""Missing agents are refused before anything heavy is imported."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srl_agents.agents.first_look import connection_fault, first_look
from srl_envs.errors import ConfigError, SRLError

GAME = "connect_four-v0"


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_every_agent_that_cannot_be_there_is_named_once(listening: str) -> None:
    dead = f"http://127.0.0.1:{closed_port()}/v1"
    agents = ["tiny+/nowhere", f"openai:m@{dead}", "modle", f"openai:m@{listening}", "bot:middle"]
    with pytest.raises(ConfigError) as caught:
        first_look([(agent, GAME) for agent in (*agents, *agents)], [dead, listening])
    faults = caught.value.faults
    assert len(faults) == 3
    for part in ("/nowhere is not an adapter folder", dead, "'modle'"):
        assert sum(part in fault for fault in faults) == 1


def test_agents_that_may_be_there_pass(listening: str) -> None:
    first_look([("tiny", GAME), ("bot:middle", GAME), (f"openai:m@{listening}", GAME)], [listening])


@pytest.mark.parametrize("address", ["http://[::1", "nonsense", "http://host:port/v1", ""])
def test_what_is_no_address_is_left_to_others(address: str) -> None:
    assert connection_fault(address) == ""


def test_behind_a_proxy_no_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{closed_port()}/v1"
    assert connection_fault(address)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    assert connection_fault(address) == ""


@pytest.mark.slow
def test_srl_train_refuses_faults_of_all_kinds_together_without_torch(tmp_path: Path) -> None:
    """Structure, adapter, endpoint and opponent's adapter, before torch could be imported."""
    dead = f"openai:m@http://127.0.0.1:{closed_port()}/v1"
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"name: r\nenv: {GAME}\nmodel: tiny\nupdatse: 3\nlora: {{rank: 0}}\ninit_adapter: /none\n"
        f"opponents: {{agents: {{'tiny+/gone': 1, '{dead}': 1}}, budgets: {{'{dead}': "
        "{requests: 100000}}}\n"
    )
    script = (
        "import sys\nfrom srl_agents.cli.main import main\n"
        f"code = main(['train', {str(recipe)!r}, '--out', {str(tmp_path / 'run')!r}])\n"
        "assert 'torch' not in sys.modules and 'trl' not in sys.modules\nsys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()
    for part in (
        "'updatse'",
        "rank=0",
        "/none is not an adapter",
        "/gone is not an adapter",
        dead[9:],
    ):
        assert sum(part in line for line in lines) == 1, (part, lines)
    assert len(lines) == 5, lines


def test_an_adapter_of_another_base_is_refused_before_the_base_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    monkeypatch.setenv("SRL_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "empty"))
    fits, wide = {"q_proj": (576, 576), "down_proj": (576, 1536)}, {"q_proj": (576, 64)}
    shapes = {
        "fits": fits,
        "wide": wide,
        "outputs": fits | {"k_proj": (576, 576)},
        "inner": fits | {"down_proj": (576, 1024)},
    }
    for name, layers in shapes.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "adapter_config.json").write_text('{"r": 4, "lora_alpha": 8}')
        head = "base_model.model.model.layers.0.x."
        tensors = {
            key: value
            for layer, (outputs, inputs) in layers.items()
            for key, value in (
                (f"{head}{layer}.lora_A.weight", np.zeros((4, inputs), np.float32)),
                (f"{head}{layer}.lora_B.weight", np.zeros((outputs, 4), np.float32)),
            )
        }
        save_file(tensors, folder / "adapter_model.safetensors")
    first_look([(f"smollm2-135m+{tmp_path / 'fits'}", GAME)])
    for name in ("wide", "outputs", "inner"):
        for model in ("smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"):
            with pytest.raises(SRLError, match="adapter of another model"):
                first_look([(f"{model}+{tmp_path / name}", GAME)])
