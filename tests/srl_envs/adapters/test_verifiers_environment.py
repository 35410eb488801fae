"""Our environments in verifiers: its own runner, with a local server in place of a model."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "verifiers.v1",
    reason="verifiers 0.4 is not installed: pip install verifiers, in an environment of its own",
)

import verifiers.v1 as vf
from verifiers.v1.serve import EnvClient, env_config_data, serve_env
from verifiers.v1.utils.loaders import resolve_env_config

import srl_envs
from srl_agents.cli.scaffold.packages import files
from srl_envs.adapters.verifiers import SRLEnvConfig, SRLTasksetConfig
from srl_envs.errors import ConfigError
from tests.srl_envs.adapters import neighbours_guide

pytestmark = pytest.mark.filterwarnings("ignore")  # of verifiers and its dependencies

PLUGIN, IN_PYTHON = neighbours_guide.examples("verifiers")
HARNESS = '''
"""A chat loop inside this process; the shipped one installs packages first."""
import httpx
import verifiers.v1 as vf

__all__ = ["Chat", "ChatConfig"]

class ChatConfig(vf.HarnessConfig):
    pass

class Chat(vf.Harness[ChatConfig]):
    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        messages = [{"role": m.role, "content": m.content} for m in data.prompt]
        async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
            reply = await client.post(
                f"{endpoint}/chat/completions",
                headers={"Authorization": f"Bearer {secret}"},
                json={"model": ctx.model, "messages": messages},
            )
        failed = reply.status_code != 200
        return vf.ProgramResult(exit_code=int(failed), stdout="", stderr=reply.text if failed else "")
'''


class Stub:
    """An OpenAI-compatible server; one policy per conversation."""

    def __init__(self) -> None:
        self.policy: Callable[[], Callable[[str], str]] = lambda: lambda text: "nothing"
        self.seen: dict[str, list[str]] = {}
        self.models: set[str] = set()
        self.status = 200
        self._policies: dict[str, Callable[[str], str]] = {}
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = body["messages"][-1]["content"]
                session = self.headers.get("X-Session-ID", "")
                if session not in stub._policies:
                    stub._policies[session] = stub.policy()
                stub.seen.setdefault(session, []).append(text)
                stub.models.add(body["model"])
                content = stub._policies[session](text)
                stream = bool(body.get("stream"))
                data = _streamed(content) if stream else _whole(content)
                self.send_response(stub.status)
                kind = "text/event-stream" if stream else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def _whole(content: str) -> bytes:
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "stub"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def _streamed(content: str) -> bytes:
    """What the chat program that ships with verifiers asks for."""
    head = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "stub"}
    deltas = [({"role": "assistant", "content": content}, None), ({}, "stop")]
    chunks = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in deltas
    ]
    lines = [f"data: {json.dumps(chunk)}" for chunk in chunks]
    return ("\n\n".join([*lines, "data: [DONE]"]) + "\n\n").encode()


@pytest.fixture
def stub() -> Iterator[Stub]:
    server = Stub()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture(autouse=True)
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "srl_games.py").write_text(PLUGIN)
    (tmp_path / "chat_in_process.py").write_text(HARNESS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("srl_games", "chat_in_process"):
        sys.modules.pop(name, None)


def config(game: str, options: dict[str, Any] | None = None, **fields: Any) -> SRLEnvConfig:
    agent = {"harness": {"id": "chat_in_process"}, "runtime": {"type": "subprocess"}}
    seats = {f"player_{seat}": dict(agent) for seat in range(6)}
    for role, more in fields.pop("limits", {}).items():
        seats[role].update(more)
    taskset = {"id": "srl_games", "game": game, "options": options or {}}
    return SRLEnvConfig.model_validate({"taskset": taskset, **seats, **fields})


def run(stub: Stub, made: SRLEnvConfig, number: int = 0) -> Any:
    async def episode() -> Any:
        env = vf.load_environment(made)
        task = next(task for task in env.taskset if task.data.idx == number)
        client = vf.EvalClientConfig(base_url=stub.url, api_key_var="NO_SUCH_VARIABLE")
        async with env.serving():
            return await env.run_episode(task, vf.ModelContext(model="stub", client=client))

    return asyncio.run(episode())


def rewards(trace: Any) -> dict[str, float]:
    return {name: reward.score for name, reward in trace.rewards.items()}


def test_one_agent_against_a_bot_earns_what_the_native_game_pays(stub: Stub) -> None:
    stub.policy = lambda: srl_envs.make_bot("connect_four-v0", "strong", seed=0)
    episode = run(stub, config("connect_four-v0", bots={"player_1": "random"}), number=3)
    assert episode.ok, episode.errors
    (trace,) = episode.traces
    assert trace.agent.name == "player_0"
    assert rewards(trace) == {"outcome": 1.0, "format": 0.0}
    assert trace.reward == 1.0
    assert trace.metrics["invalid_replies"] == 0.0
    assert trace.task.data.seed == 3
    native = srl_envs.make("connect_four-v0")
    first = native.reset(seed=3)[0]["player_0"]
    (texts,) = stub.seen.values()
    assert first["can_act"] == (texts[0] == first["text"])


def test_self_play_gives_every_seat_its_own_trace(stub: Stub) -> None:
    stub.policy = lambda: srl_envs.make_bot("connect_four-v0", "middle", seed=1)
    episode = run(stub, config("connect_four-v0"))
    assert episode.ok, episode.errors
    paid = {trace.agent.name: rewards(trace)["outcome"] for trace in episode.traces}
    assert set(paid) == {"player_0", "player_1"}
    assert sum(paid.values()) == 0.0
    bots = {seat: srl_envs.make_bot("connect_four-v0", "middle", seed=1) for seat in (0, 1)}
    native = srl_envs.play(srl_envs.make("connect_four-v0"), bots, seed=0)
    assert tuple(paid[f"player_{seat}"] for seat in (0, 1)) == native.outcomes


def test_three_seats_and_simultaneous_moves(stub: Stub) -> None:
    stub.policy = lambda: srl_envs.make_bot("public_goods-v0", "middle", seed=0)
    given = config("public_goods-v0", bots={"player_3": "random"}, max_concurrent_agents=4)
    episode = run(stub, given)
    assert episode.ok, episode.errors
    assert {trace.agent.name for trace in episode.traces} == {"player_0", "player_1", "player_2"}
    assert len({trace.num_turns for trace in episode.traces}) == 1


def test_a_seat_with_a_model_of_its_own_plays_and_is_not_learned_from(stub: Stub) -> None:
    stub.policy = lambda: srl_envs.make_bot("connect_four-v0", "strong", seed=0)
    episode = run(stub, config("connect_four-v0", limits={"player_1": {"model": "rival"}}))
    assert episode.ok, episode.errors
    learned = {trace.agent.name: trace.agent.trainable for trace in episode.traces}
    assert learned == {"player_0": True, "player_1": False}
    assert stub.models == {"stub", "rival"}


def test_the_server_that_prime_rl_asks_plays_the_tasks_that_it_is_sent(stub: Stub) -> None:
    """Both ends of ``prime_rl/orchestrator/envs.py``; prime-rl itself is on no package index."""
    stub.policy = lambda: srl_envs.make_bot("connect_four-v0", "strong", seed=0)
    made = config("connect_four-v0", bots={"player_1": "random"})
    processes = multiprocessing.get_context("spawn")
    addresses = processes.Queue()
    served = {"config_data": env_config_data(made), "address": "tcp://127.0.0.1:0"}
    server = processes.Process(
        target=serve_env, kwargs={"max_workers": 1, "address_queue": addresses, **served}
    )
    server.start()
    try:
        address = addresses.get(timeout=120)

        async def episodes() -> list[Any]:
            tasks = vf.load_environment(made).taskset.take(3)
            client = EnvClient(address=address)
            named = vf.EvalClientConfig(base_url=stub.url, api_key_var="NO_SUCH_VARIABLE")
            sampling = vf.SamplingConfig()
            return await asyncio.gather(
                *(client.run(named, "policy", sampling, task.data.model_dump()) for task in tasks)
            )

        played = asyncio.run(episodes())
    finally:
        server.terminate()
        server.join()
    assert [episode.ok for episode in played] == [True] * 3
    traces = [trace for episode in played for trace in episode.traces]
    assert [trace.agent.trainable for trace in traces] == [True] * 3
    assert [rewards(trace)["outcome"] for trace in traces] == [1.0] * 3
    assert [trace.task.data.model_extra["seed"] for trace in traces] == [0, 1, 2]


def test_the_configuration_of_the_guide_for_prime_rl_is_understood() -> None:
    page = neighbours_guide.GUIDE.with_name("other_trainers.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)
    (bot, rival) = (
        resolve_env_config(tomllib.loads(block)["orchestrator"]["train"]["source"][0]["env"])
        for block in blocks
    )
    assert isinstance(bot, SRLEnvConfig)
    assert bot.bots == {"player_1": "middle"}
    assert isinstance(rival, SRLEnvConfig)
    assert rival.player_1.model == "rival-7b"
    assert rival.player_1.client.base_url == "http://rival:8000/v1"
    for made in (bot, rival):
        assert vf.load_environment(made).taskset.config.game == "connect_four-v0"


def test_nonsense_is_charged_and_forfeits_for_that_seat_alone(stub: Stub) -> None:
    stub.policy = lambda: lambda text: "I would rather not."
    made = config("connect_four-v0", {"invalid": "forfeit"}, bots={"player_1": "random"})
    (trace,) = run(stub, made).traces
    assert rewards(trace) == {"outcome": -1.0, "format": -0.05}
    assert trace.metrics["forfeited"] == 1.0
    assert trace.metrics["invalid_replies"] == 1.0


def test_an_agent_at_its_limit_is_silent_and_forfeits(stub: Stub) -> None:
    stub.policy = lambda: srl_envs.make_bot("connect_four-v0", "strong", seed=0)
    made = config(
        "connect_four-v0", bots={"player_1": "middle"}, limits={"player_0": {"max_turns": 2}}
    )
    (trace,) = run(stub, made).traces
    assert trace.num_turns == 2
    assert rewards(trace)["outcome"] == -1.0
    assert trace.metrics["forfeited"] == 1.0


def test_an_agent_that_fails_voids_the_episode(stub: Stub) -> None:
    stub.status = 400
    episode = run(stub, config("connect_four-v0"))
    assert not episode.ok
    assert "player_" in episode.errors[0].message
    assert not any(rewards(trace) for trace in episode.traces)


def test_the_example_of_the_guide_runs() -> None:
    names = neighbours_guide.run(IN_PYTHON)
    assert [task.data.seed for task in names["tasks"]] == list(range(20))
    assert {task.data.split for task in names["tasks"]} == {"eval"}


def test_tasks_are_seeds_and_a_wrong_game_fails_at_once() -> None:
    env = vf.load_environment(config("connect_four-v0"))
    seeds = [task.data.seed for task in env.taskset.take(3)]
    assert seeds == [0, 1, 2]
    for broken, reason in (
        (lambda: config("connect_fou-v0"), "no environment"),
        (lambda: config("connect_four-v0", bots={"player_2": "random"}), "player_2"),
        (lambda: config("connect_four-v0", bots={"player_1": "randm"}), "no bot"),
        (
            lambda: config(
                "connect_four-v0", bots=dict.fromkeys(["player_0", "player_1"], "random")
            ),
            "leave one",
        ),
    ):
        with pytest.raises((ConfigError, LookupError), match=reason):
            vf.load_environment(broken())
    assert SRLTasksetConfig().split == "train"


def test_a_new_package_of_tasks_passes_its_own_test(tmp_path: Path) -> None:
    for path, text in files("taskset", "my_games").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    root = Path(srl_envs.__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{root}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
