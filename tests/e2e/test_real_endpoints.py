"""Matches on real OpenAI-compatible servers: vLLM, and `transformers serve`."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from srl_agents.agents import ModelPolicy, ScriptedPolicy
from srl_agents.agents.players import Policy
from srl_agents.agents.resolver import Asking, Playing, close_engines, find, seat
from srl_agents.engines.endpoint.reply_journal import ReplyJournal
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.vllm.answers import BASE
from srl_agents.engines.vllm.options import PYTHON, VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.models.sources import catalog
from srl_agents.records import Episode, MatchSpec
from srl_agents.rollouts import Rollouts

NIM = "nim-v0"
SERVE_PYTHON = "SRL_SERVE_PYTHON"
"""Interpreter that can run `transformers serve`; this one where the variable is absent."""
STARTS_S = 240.0


def play(model: str, url: str, journal: ReplyJournal) -> list[Episode]:
    """Two matches of Nim, one in each seat."""
    sampling = SamplingSettings(max_new_tokens=12)
    asking = Asking(journal=journal, timeout_s=240.0)
    candidate = find(f"openai:{model}@{url}", NIM)
    (seated,) = seat(
        {"me": candidate}, Playing(env_id=NIM, sampling=sampling, asking=asking)
    ).values()
    assert isinstance(seated.policy, ModelPolicy)
    policies: dict[str, Policy] = {"me": seated.policy, "bot": ScriptedPolicy("random")}
    specs = [
        MatchSpec(env_id=NIM, seed=seed, split="eval", seats=seats)
        for seed, seats in enumerate([("me", "bot"), ("bot", "me")])
    ]
    with Rollouts(policies, root_seed=0, order="free") as rollouts:
        episodes = rollouts.play(specs)
        rollouts._loop.run(close_engines([seated.policy]))
    return episodes


def check(model: str, url: str, folder: Path) -> None:
    """They are played, reported, and not asked for again."""
    journal = ReplyJournal(folder / "replies.jsonl")
    first = play(model, url, journal)
    asked = len(journal)
    again = play(model, url, journal)
    journal.close()
    assert len(journal) == asked > 2
    assert [e.transcript_sha256 for e in again] == [e.transcript_sha256 for e in first]
    for episode in first:
        assert episode.valid
        for turn in (turn for t in episode.trajectories if t.policy == "me" for turn in t.turns):
            assert turn.served is not None
            assert turn.served.finish in ("stop", "length")
            assert turn.served.prompt_tokens
            assert 0 < (turn.served.completion_tokens or 0) <= 12
            assert turn.served.model
            assert turn.served.cost is None
            assert turn.served.failed_tries == ()


@pytest.fixture
def transformers_serve(tmp_path: Path) -> Iterator[str]:
    python = os.environ.get(SERVE_PYTHON, sys.executable)
    if SERVE_PYTHON not in os.environ and importlib.util.find_spec("fastapi") is None:
        pytest.skip(
            f"transformers' `serving` extra is not installed, and {SERVE_PYTHON} is not set"
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
    command = [python, "-c", code, "serve", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "serve.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until = time.monotonic() + STARTS_S
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "serve.log").read_text()
                assert time.monotonic() < until, "transformers serve did not start"
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait()


@pytest.mark.slow
def test_matches_are_played_on_transformers_serve(transformers_serve: str, tmp_path: Path) -> None:
    folder = catalog.local_folder("smollm2-135m")
    if folder is None:
        pytest.skip("smollm2-135m is not on this machine")
    check(str(folder), transformers_serve, tmp_path)


@pytest.mark.vllm
@pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter")
def test_matches_are_played_on_vllm(tmp_path: Path) -> None:
    settings = VLLMServerSettings(
        model=str(catalog.resolve("smollm2-135m")),
        max_length=1024,
        dtype="float32",
        cache_gib=1,
        compiled=False,
    )
    server = VLLMServer(settings, tmp_path / "server.log")
    server.start()
    try:
        check(BASE, f"{server.url}/v1", tmp_path)
    finally:
        server.close()
