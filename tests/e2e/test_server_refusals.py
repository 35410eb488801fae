"""What `srl train` says of servers that cannot be trained with, and after how long.

    pytest -s -m nightly tests/e2e/test_server_refusals.py

prints the table of docs/guides/serve.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
RECIPE = """
name: on-a-server
model: tiny
env: connect_four-v0
env_options: {rows: 4, cols: 4, k: 3}
updates: 2
learners: [alice, bob]
lora: {rank: 4}
rollout: {start_states: 1, group_size: 2, max_new_tokens: 4, order: free}
transport: {kind: files}
evaluation: {every: 0, final_pairs: 1, bots: []}
"""


@contextmanager
def fake_server(*faults: str) -> Iterator[str]:
    """Address of a server process."""
    command = [sys.executable, "-m", "tests.vllm_fake", *faults]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def train(url: str, folder: Path, *settings: str) -> list[tuple[float, str]]:
    """(seconds since the start, line) of all that the command prints."""
    path = folder / "recipe.yaml"
    path.write_text(RECIPE)
    command = [
        sys.executable,
        "-m",
        "srl_agents.cli.main",
        "train",
        str(path),
        "--out",
        str(folder / "run"),
    ]
    said: list[tuple[float, str]] = []
    begun = time.monotonic()
    engine = f"engine={{kind: vllm, url: '{url}'{''.join(f', {s}' for s in settings)}}}"
    with subprocess.Popen(
        [*command, "--set", engine], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            said.append((time.monotonic() - begun, line.rstrip()))
    return said


@pytest.mark.parametrize(
    ("name", "faults", "settings", "words"),
    [
        ("other weights (15 % noise)", ["--noise", "0.15"], [], "serves another model"),
        ("no token endpoints", ["--no-tokens"], [], "takes no tokens"),
        ("an HTML page", ["--page"], [], "an HTML page"),
        ("60 s before each answer", ["--delay", "60"], ["start_timeout_s: 100"], "waiting for"),
        (
            "ends in a version change",
            ["--dies-at", "3"],
            ["start_timeout_s: 70"],
            "did not come back",
        ),
    ],
)
def test_a_run_says_what_is_wrong_with_its_server(
    name: str, faults: list[str], settings: list[str], words: str, tmp_path: Path
) -> None:
    with fake_server(*faults) as url:
        said = train(url, tmp_path, *settings)
    about = [(at, line) for at, line in said if url in line]
    print(f"\n{name}:")
    for at, line in about:
        print(f"  {at:5.0f} s  {line}")
    assert any(words in line for _, line in about)
    assert not any(re.match("Traceback", line) for _, line in said)
