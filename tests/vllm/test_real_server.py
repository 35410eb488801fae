"""A real vLLM server with SmolLM2-135M; `make vllm` makes its environment and runs this."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import torch

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.vllm.engine import ServedAdapters, VLLMEngine
from srl_agents.engines.vllm.http import HTTPLink
from srl_agents.engines.vllm.options import PYTHON, VLLMServerSettings
from srl_agents.engines.vllm.server import VLLMServer
from srl_agents.metrics.sinks import read_lines
from srl_agents.models.base_model import BaseModel
from srl_agents.models.chat import ChatTokenizer
from srl_agents.models.digests import version_of
from srl_agents.models.sources import catalog
from srl_agents.recipes.loading import load
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, WeightUpdate, WeightVersion
from srl_agents.rollouts import Rollouts
from srl_agents.testing import check_engine
from srl_agents.transports.files import FilesTransport
from tests.training_runs import train_run

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(not os.environ.get(PYTHON), reason=f"{PYTHON} names no interpreter"),
]
MODEL = "smollm2-135m"
CONTEXT = 1024


@pytest.fixture(scope="module")
def base() -> BaseModel:
    base = BaseModel.load(MODEL)
    base.add_adapter("alice", 0)
    return base


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLMServer]:
    settings = VLLMServerSettings(
        model=str(catalog.resolve(MODEL)),
        max_versions=16,
        max_running=16,
        max_length=CONTEXT,
        dtype="float32",
        cache_gib=1,
        compiled=False,
    )
    server = VLLMServer(settings, tmp_path_factory.mktemp("vllm") / "server.log")
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> FilesTransport:
    return FilesTransport(tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def updates(base: BaseModel, transport: FilesTransport) -> list[WeightUpdate]:
    """Two versions of alice that say something else than the base."""
    drawn = torch.Generator().manual_seed(1)
    published = []
    for number in (1, 2):
        tensors = {
            key: tensor + 0.05 * torch.randn(tensor.shape, generator=drawn)
            for key, tensor in base.adapter_tensors("alice").items()
        }
        version = version_of("alice", number, tensors)
        base.freeze(str(version), tensors)
        published.append(transport.publish(version, tensors))
    return published


def config_of(base: BaseModel) -> dict[str, Any]:
    """What PEFT writes beside an adapter."""
    with tempfile.TemporaryDirectory() as folder:
        base.save_adapter("alice", Path(folder))
        config: dict[str, Any] = json.loads((Path(folder) / "adapter_config.json").read_text())
    return config


def engine(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> VLLMEngine:
    return VLLMEngine(
        HTTPLink(server),
        ChatTokenizer.load(catalog.resolve(MODEL)),
        SamplingSettings(max_new_tokens=12),
        context_length=CONTEXT,
        adapters=ServedAdapters(config=config_of(base), tensors=updates[0].tensors),
        open_update=transport.open,
        max_versions=4,
    )


def ask(number: int, version: WeightVersion | None, **settings: Any) -> GenerationRequest:
    text = f"Name a number above {number}."
    return GenerationRequest(observation=text, version=version, key=(3, number), **settings)


def test_it_keeps_what_every_engine_promises(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    part = dict(list(base.adapter_tensors("alice").items())[:-1])
    broken = transport.publish(version_of("alice", 3, part), part)
    check_engine(
        lambda: engine(server, base, transport, updates),
        updates=updates,
        broken=[broken],
        patience_s=300,
    )


def forced_logprobs(base: BaseModel, reply: Generation) -> torch.Tensor:
    """(T,) log-probabilities of the reply's tokens by one forward pass of the trainer's model."""
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    name = None if reply.version is None else str(reply.version)
    with torch.no_grad(), base.through(name):
        logits = base.model(input_ids=ids).logits[0, len(reply.prompt_ids) - 1 : -1].float()
    tokens = ids[0, len(reply.prompt_ids) :, None]
    return torch.log_softmax(logits, dim=-1).gather(1, tokens)[:, 0]


def test_log_probabilities_are_those_of_a_forward_pass(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    async def play() -> list[Generation]:
        served = engine(server, base, transport, updates)
        for update in updates:
            await served.install(update)
        versions = [None, *(update.version for update in updates)]
        asked = [ask(i, versions[i % 3], priority=-float(i)) for i in range(12)]
        await served.take_speed()
        replies = await asyncio.gather(*map(served.generate, asked))
        speed = await served.take_speed()
        assert speed.first_token.count == len(replies)
        assert speed.rows == sum(len(reply.token_ids) for reply in replies)
        assert 0 < speed.steps <= speed.rows
        assert 0 < speed.between_tokens.quantile(0.5) <= speed.between_tokens.quantile(0.99)
        for update in updates:
            await served.retire(update.version)
        await served.close()
        return replies

    for reply in asyncio.run(play()):
        reported = torch.tensor(reply.logprobs)
        torch.testing.assert_close(reported, forced_logprobs(base, reply), atol=1e-4, rtol=0)


def test_replies_in_flight_keep_their_version_while_another_comes_in(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    old, new = updates

    async def play() -> None:
        served = engine(server, base, transport, updates)
        await served.install(old)
        long = SamplingSettings(max_new_tokens=48, stop=())
        asked = [
            asyncio.create_task(served.generate(ask(i, old.version, sampling=long)))
            for i in range(8)
        ]
        await asyncio.sleep(0.2)
        await served.install(new)
        later = await served.generate(ask(99, new.version))
        replies = await asyncio.gather(*asked)
        assert {reply.version for reply in replies} == {old.version}
        assert later.version == new.version
        for reply in replies:
            reported = torch.tensor(reply.logprobs)
            torch.testing.assert_close(reported, forced_logprobs(base, reply), atol=1e-4, rtol=0)
        for update in updates:
            await served.retire(update.version)
        await served.close()

    asyncio.run(play())


def test_a_killed_server_comes_back_and_every_request_is_answered_under_its_seed(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    async def play() -> None:
        served = engine(server, base, transport, updates)
        await served.install(updates[0])
        asked = [ask(i, updates[0].version) for i in range(24)]
        before = await asyncio.gather(*map(served.generate, asked))
        starts = server.starts
        again = [asyncio.create_task(served.generate(request)) for request in asked]
        await asyncio.sleep(0.3)
        assert server.pid is not None
        os.killpg(server.pid, signal.SIGKILL)
        after = await asyncio.gather(*again)
        assert server.starts == starts + 1
        assert [r.token_ids for r in after] == [r.token_ids for r in before]
        await served.retire(updates[0].version)
        await served.close()

    asyncio.run(play())


def test_200_matches_end_once_under_their_seeds_though_the_server_is_killed_in_the_middle(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    version = updates[0].version
    specs = [
        MatchSpec(
            env_id="math_duel-v0", options={"problems": 1, "difficulty": 1, "max_retries": 0},
            seed=number, split="train", seats=(str(version), "bot:random"), learner_seats=(0,),
            schedule="train/alice", number=number,
        )
        for number in range(200)
    ]  # fmt: skip
    ended: Counter[str] = Counter()

    async def play() -> tuple[list[Episode], list[Episode]]:
        served = engine(server, base, transport, updates)
        await served.install(updates[0])
        policies: dict[str, Policy] = {
            str(version): ModelPolicy(served, version), "bot:random": ScriptedPolicy("random"),
        }  # fmt: skip
        rollouts = Rollouts(policies, root_seed=1, order="free", concurrency=32)

        def count(episode: Episode, _: object) -> None:
            ended[episode.spec.match_id] += 1
            if ended.total() == 80 and server.pid is not None:
                os.killpg(server.pid, signal.SIGKILL)

        before = await rollouts.play_async(specs[100:116])
        episodes = await rollouts.play_async(specs, finished=count)
        rollouts.close()
        await served.retire(version)
        await served.close()
        return before, episodes

    starts = server.starts
    before, episodes = asyncio.run(play())
    assert server.starts == starts + 1
    assert set(ended.values()) == {1}
    assert [episode.spec for episode in episodes] == specs
    turns = [turn for episode in episodes for turn in episode.trajectories[0].turns]
    assert len(turns) == 200
    for turn in turns:
        assert turn.version == str(version)
        assert len(turn.logprobs) == len(turn.completion_ids) > 0
        assert turn.finish == "stop" or len(turn.completion_ids) == 12
    assert episodes[100:116] == before


def test_versions_change_while_requests_are_in_flight_and_stale_ones_are_gone(
    server: VLLMServer, base: BaseModel, transport: FilesTransport, updates: list[WeightUpdate]
) -> None:
    """Six changes under constant load: nothing is lost or cut, each reply names who was asked."""

    async def play() -> list[tuple[WeightVersion, Generation]]:
        served = engine(server, base, transport, updates)
        replies: list[tuple[WeightVersion, Generation]] = []
        await served.install(updates[0])
        newest, over = updates[0].version, False

        async def keep_asking(client: int) -> None:
            number = 0
            while not over:
                asked_of, number = newest, number + 1
                reply = await served.generate(ask(100 * client + number, asked_of))
                replies.append((asked_of, reply))

        clients = [asyncio.create_task(keep_asking(client)) for client in range(6)]
        for change in range(1, 7):
            stale, update = newest, updates[change % 2]
            await asyncio.sleep(1.0)
            await served.install(update)
            newest = update.version
            await served.retire(stale)
        over = True
        await asyncio.gather(*clients)
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as client:
            models = (await client.get("/v1/models")).json()["data"]
        names = [model["id"] for model in models]
        assert [name for name in names if name.startswith("alice")] == [
            name for name in names if name.startswith(str(newest))
        ]
        assert sum(name.startswith(str(newest)) for name in names) == 1
        await served.retire(newest)
        await served.close()
        return replies

    replies = asyncio.run(play())
    assert len({version for version, _ in replies}) == 2
    for asked_of, reply in replies:
        assert reply.version == asked_of
        assert reply.finish == "stop" or len(reply.token_ids) == 12
    for _, reply in replies[:: max(1, len(replies) // 12)]:
        reported = torch.tensor(reply.logprobs)
        torch.testing.assert_close(reported, forced_logprobs(base, reply), atol=1e-4, rtol=0)


RECIPE = """
name: served
model: smollm2-135m
env: math_duel-v0
env_options: {difficulty: 1, problems: 1, max_retries: 0}
learners: [alice, bob]
updates: 2
prompt:
  examples:
    - {observation: "Problem: 2 + 3 = ?", reply: "<action>5; 1</action>"}
    - {observation: "Problem: 30 - 12 = ?", reply: "<action>18; 3</action>"}
lora: {rank: 8, alpha: 16}
rollout: {start_states: 1, group_size: 4, max_new_tokens: 12, order: free, batch_rows: 16}
opponents: {mirror: 0, live: 1, past: 0}
training: {learning_rate: 0.0001}
engine: {kind: vllm, max_versions: 8, max_length: 1024, cache_gib: 1, compiled: false}
transport: {kind: files}
evaluation: {every: 0, final_pairs: 1, bots: []}
snapshot_every: 2
checkpoint_every: 2
"""


class _Killer(threading.Thread):
    """Kills the next server that this process starts, once, after it has answered that many requests."""

    def __init__(self, answers: int) -> None:
        super().__init__(daemon=True)
        self.answers, self.killed = answers, 0
        self.others = set(psutil.Process().children())
        self.over = threading.Event()

    def run(self) -> None:
        while not self.killed and not self.over.wait(0.05):
            for child in set(psutil.Process().children()) - self.others:
                with contextlib.suppress(psutil.Error, httpx2.HTTPError, ValueError):
                    command = child.cmdline()
                    port = command[command.index("--port") + 1]
                    if _answers(f"http://127.0.0.1:{port}") >= self.answers:
                        os.killpg(child.pid, signal.SIGKILL)
                        self.killed += 1


def _answers(url: str) -> float:
    """How many requests a server has answered, by its own count."""
    text = httpx2.get(f"{url}/metrics", timeout=5, trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith("vllm:request_success_total")]
    return sum(float(line.split()[-1]) for line in lines)


def test_a_league_of_two_adapters_trains_end_to_end_though_its_server_is_killed(
    tmp_path: Path,
) -> None:
    """Some 200 matches in two updates and a round robin; the first update loses its server."""
    path = tmp_path / "served.yaml"
    path.write_text(RECIPE)
    recipe = load(LeagueRecipe, path, ["rollout.start_states=12", "training.micro_batch_rows=4"])
    killer = _Killer(answers=30)
    killer.start()
    training = train_run(recipe, tmp_path / "run")
    killer.over.set()
    assert killer.killed == 1
    records = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [record["update"] for record in records] == [1, 2]
    for name in ("alice", "bob"):
        assert sum("loss" in record["learners"][name] for record in records) >= 1
        assert training.parts.league.versions[name].number >= 1
        assert (tmp_path / "run" / "adapters" / name).is_dir()
    for record in records:
        assert record["run"]["void"] == 0
        assert all(v["sampler_kl"] < 0.05 for v in record["learners"].values() if "sampler_kl" in v)
    with closing(sqlite3.connect(tmp_path / "run" / "league.db")) as store:
        rows = store.execute(
            "SELECT schedule, number, seed, attempt FROM match "
            "WHERE split = 'train' AND termination <> 'void' ORDER BY 1, 2, 3, 4"
        ).fetchall()
    groups = [(schedule, number) for schedule, number, _, _ in rows[::4]]
    starts = range(2 * 12)
    assert groups == [(f"train/{name}", number) for name in ("alice", "bob") for number in starts]
    for first in range(0, len(rows), 4):
        attempts = rows[first : first + 4]
        assert attempts == [(*attempts[0][:3], attempt) for attempt in range(4)]


def test_matches_of_later_updates_are_played_on_the_server_while_training_goes_on(
    server: VLLMServer, tmp_path: Path
) -> None:
    path = tmp_path / "ahead.yaml"
    path.write_text(RECIPE)
    ahead = "asynchronous={ahead: 1, max_staleness: 1, in_flight: switch}"
    recipe = load(LeagueRecipe, path, [f"engine.url={server.url}", ahead, "updates=3"])
    train_run(recipe, tmp_path / "run")
    records = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert [record["update"] for record in records] == [1, 2, 3]
    assert sum(record["run"]["overlap_s"] for record in records) > 0
    learners = [values for record in records for values in record["learners"].values()]
    assert sum(values.get("rows_lag:1", 0) for values in learners) > 0
    for values in learners:
        assert values.get("version_lag/max", 0) <= 1
        assert values.get("rows_too_old", 0) == 0
        assert values.get("sampler_kl", 0) < 0.05


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from srl_agents.engines.vllm.options import VLLMServerSettings\n"
        "from srl_agents.engines.vllm.server import VLLMServer\n"
        f"server = VLLMServer(VLLMServerSettings(model='x'), Path({str(tmp_path / 'log')!r}))\n"
        "server._launch()\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = json.loads(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
