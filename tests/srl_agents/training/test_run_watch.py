"""A look at a run lists its processes, its queues and its last record; it writes nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from srl_agents.cli.main import main
from srl_agents.league.store.history import LeagueStore
from srl_agents.records import Episode, MatchSpec, Trajectory
from srl_agents.rollouts.buffer import MatchBuffer, MatchOrder
from srl_agents.training.folder.layout import BUFFER, RECIPE, STORE
from srl_agents.training.gauges import live_run
from srl_agents.training.gauges.live_run import RunWatch
from srl_agents.training.parts.guests import desks
from srl_envs.errors import ConfigError

RECORD = {
    "update": 3,
    "run": {
        "generate_s": 1.5, "train_s": 0.5, "publish_s": 0.01, "wait_s": 0.2, "tokens_per_s": 400.0,
        "train_tokens_per_s": None, "phase/play": 0.75, "phase/update": 0.25, "fault/loss_spike": 1.0,
        "spent/tokens": 5000.0,
    },
    "learners": {"alice": {"version_lag": 1.25}, "bob": {"version_lag": None}},
}  # fmt: skip
HOLDER = """
import sys, time
from srl_agents.league.store.history import LeagueStore
with LeagueStore(sys.argv[1]):
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    recipe = {"name": "seen", "model": "tiny", "env": "nim-v0", "updates": 5}
    (folder / RECIPE).write_text(yaml.safe_dump(recipe))
    (folder / "metrics.jsonl").write_text(json.dumps(RECORD) + "\n")
    return folder


def spec(number: int) -> MatchSpec:
    return MatchSpec(
        env_id="nim-v0", seed=number, split="train", seats=("a", "b"), learner_seats=(0,),
        schedule="train/alice", number=number,
    )  # fmt: skip


def played(of: MatchSpec, reward: float) -> Episode:
    seats = tuple(
        Trajectory(seat=k, policy="a", turns=(), outcome=0.0, total_reward=reward, components={})
        for k in (0, 1)
    )
    return Episode(spec=of, trajectories=seats, termination="ok")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_look_has_queues_staleness_phases_and_rates_and_writes_nothing(run: Path) -> None:
    buffer = MatchBuffer(run / BUFFER, 3)
    specs = (spec(0), replace(spec(0), attempt=1), spec(1), replace(spec(1), attempt=1))
    for number in (3, 4):
        buffer.order(MatchOrder(number=number, specs=specs), learned=2)
    buffer.add(4, [played(specs[0], 1.0)], 0.0)
    watch, before = RunWatch(run), files_of(run)
    state = watch.look()
    assert [(q.name, q.done, q.whole) for q in state.queues] == [("matches of update 4", 1, 4)]
    buffer.add(4, [played(specs[1], 0.0)], 0.0)
    assert watch.look().queues[0].done == 2
    before |= {str(p): p.read_bytes() for p in (run / BUFFER).iterdir()}
    assert files_of(run) == before
    assert (state.done, state.whole, state.processes) == (3, 5, [])
    assert state.staleness == {"alice": 1.25}
    assert state.phases == {"play": 0.75, "update": 0.25}
    assert state.rates == {"play": 400.0}
    assert state.spent == {"tokens": 5000.0}
    assert state.seconds["transfer of new versions"] == 0.01
    assert state.faults == ["loss_spike"]


def test_the_writer_is_alive_until_it_is_killed_and_its_number_may_go_to_others(run: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(run / STORE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "holds\n"
            watch = RunWatch(run)
            assert [(p.role, p.pid) for p in watch.look().processes] == [("learner", holder.pid)]
            (again,) = watch.look().processes
            assert again.memory_mib > 5
            assert again.cores is not None
        finally:
            holder.send_signal(signal.SIGKILL)
    assert watch.look().processes == []
    lock = run / f"{STORE}.lock"
    lock.write_text(f"process {os.getpid()} (pytest)")
    os.utime(lock, (0, time.time() - 10**6))  # this process began later
    assert watch.look().processes == []


def test_leases_of_a_population_are_its_queue(tmp_path: Path) -> None:
    agents = [{"agent": "strong"}, {"agent": "random", "role": "anchor"}]
    recipe = {"name": "people", "env": "nim-v0", "agents": agents, "matches": 100}
    (tmp_path / RECIPE).write_text(yaml.safe_dump(recipe))
    with LeagueStore(tmp_path / STORE) as store:
        store.lease([spec(0), spec(1)], "worker-1", 60.0)
        state = RunWatch(tmp_path).look()
    assert state.kind == "population"
    assert [(q.name, q.whole) for q in state.queues] == [("matches that are leased", 2)]


def test_the_command_distinguishes_a_run_from_an_episode(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "seen: 3 of 5 updates" in shown
    assert "alice 1.25 steps" in shown
    assert main(["watch", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["phases"] == {"play": 0.75, "update": 0.25}
    assert main(["watch", str(run), "--html", "x.html"]) == 2
    assert main(["watch", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    with pytest.raises(ConfigError):
        RunWatch(tmp_path)


def test_a_look_counts_what_workers_of_a_cluster_do(run: Path) -> None:
    rows = [{"doing": "playing", "starts": 1}] * 2 + [{"doing": "starting", "starts": 3}]
    (run / "workers.json").write_text(json.dumps({"workers": rows, "waiting": 4}))
    assert RunWatch(run).look().workers == {"playing": 2.0, "starting": 1.0, "lost": 2.0}


@pytest.mark.parametrize(
    "written",
    [
        "{",
        "[]",
        '{"workers": 3}',
        '{"workers": [{}]}',
        '{"workers": [{"doing": "x", "starts": "y"}]}',
    ],
)
def test_a_file_that_is_not_a_list_of_workers_counts_none(written: str, run: Path) -> None:
    (run / "workers.json").write_text(written)
    assert RunWatch(run).look().workers == {}


def test_a_run_that_is_deleted_while_it_is_watched_is_said_to_be_gone(run: Path) -> None:
    watch = RunWatch(run)
    assert watch.look().done == 3
    shutil.rmtree(run)
    with pytest.raises(ConfigError, match="holds no run"):
        watch.look()


def test_a_run_shows_where_people_answer_and_nothing_of_models() -> None:
    at = "http://127.0.0.1:8080"
    people = [f"openai:human@{at}/v1", f"openai:human@{at}/v1/"]
    assert desks([*people, f"openai:tiny@{at}/v1", "tiny"]) == [at]


def test_roles_of_processes_name_modules_that_exist() -> None:
    own = [part for part, _ in live_run._ROLES if part.startswith("srl_agents.")]
    assert len(own) == 2
    assert all(importlib.util.find_spec(part) is not None for part in own)
