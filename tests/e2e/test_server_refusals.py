"""Errors of `srl train` about servers that cannot be trained with, and after how long they appear.

    pytest -s -m nightly tests/e2e/test_server_refusals.py

prints the table of docs/guides/serve.md.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


def train(url: str, folder: Path, *settings: str) -> tuple[list[tuple[float, str]], int]:
    """(seconds since the start, line) of all that the command prints, and its exit status."""
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
        status = process.wait()
    return said, status


@dataclass(frozen=True)
class Case:
    """One faulty server, and what has to be said of it."""

    faults: tuple[str, ...]
    words: str
    loads: bool = True
    """Whether the refusal needs the trained base, so that it comes after its loading."""
    settings: tuple[str, ...] = ()
    trains: bool = False
    """Whether the run goes on to its end."""


CASES = {
    "an HTML page": Case(("--page",), "an HTML page: a list of models was expected", loads=False),
    "a model of another name": Case(("--name", "other"), "serves other, and", loads=False),
    "no token endpoints": Case(("--no-tokens",), "so it takes no tokens", loads=False),
    "other weights (15 % noise)": Case(("--noise", "0.15"), "serves another model"),
    "answers after 60 s": Case(
        ("--lists-after-s", "60"),
        "its answer: 30 s since",
        settings=("start_timeout_s: 200",),
        trains=True,
    ),
    "ends in a version change": Case(
        ("--dies-at", "3"), "did not come back within 40 s", settings=("start_timeout_s: 40",)
    ),
}


def report(name: str, url: str, said: list[tuple[float, str]]) -> list[str]:
    """Print what was said of a server, with its times."""
    print(f"\n{name}:")
    for at, line in said:
        if url in line:
            print(f"  {at:5.1f} s  {line}")
    assert not any(line.startswith("Traceback") for _, line in said)
    return [line for _, line in said if url in line]


@pytest.mark.parametrize("name", CASES)
def test_a_run_says_what_is_wrong_with_its_server(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with fake_server(*case.faults) as url:
        said, status = train(url, tmp_path, *case.settings)
    lines = report(name, url, said)
    assert any(case.words in line for line in lines)
    assert any("loading tiny" in line for _, line in said) == case.loads
    assert (status == 0) == case.trains


def test_an_address_without_a_server_is_refused_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    said, status = train(url, tmp_path)
    assert any("no server answers" in line for line in report("no server", url, said))
    assert not any("loading tiny" in line for _, line in said)
    assert status == 2
