"""A real Ray cluster plays: nodes, workers and the dispatcher are lost, and results stay equal."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.disturbed_run import MATCHES, Run, is_there, kill, parent_of, stop

# Ray leaves files and sockets to the collector
pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::FutureWarning",
        "ignore::DeprecationWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same recipe without Ray: one process beside the trainer plays."""
    run = Run(tmp_path_factory.mktemp("undisturbed"))
    assert run.end() == 0, run.log.read_text()
    return run.results()


def assert_nothing_lost(run: Run, undisturbed: dict[str, Any]) -> None:
    results = run.results()
    assert results["matches"] == undisturbed["matches"]
    assert results["weights"] == undisturbed["weights"]
    assert results["metrics"] == undisturbed["metrics"]
    assert len({match for match, _ in results["matches"]}) >= 4 * MATCHES


def test_one_node_dies_in_a_transfer_and_one_in_play_and_results_are_equal(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    from ray.cluster_utils import Cluster

    own = {"num_cpus": 2, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args=own | {"include_dashboard": False})
    idle: dict[str, Any] = {"pid": 0}
    try:
        others = [cluster.add_node(**own) for _ in range(2)]
        nodes = {node.all_processes["raylet"][0].process.pid: node for node in others}
        run = Run(tmp_path, "--ray", cluster.address)

        idle = run.wait_for(
            lambda row: row["doing"] == "idle" and parent_of(row["pid"]) in nodes, update=1
        )
        stop(idle["pid"])  # it can read no weights from now on
        run.wait_for(lambda row: row["pid"] == idle["pid"] and row["doing"] == "receiving")
        cluster.remove_node(nodes.pop(parent_of(idle["pid"])), allow_graceful=False)

        playing = run.wait_for(
            lambda row: row["doing"] == "playing" and parent_of(row["pid"]) in nodes, update=2
        )
        cluster.remove_node(nodes.pop(parent_of(playing["pid"])), allow_graceful=False)

        assert run.end() == 0, run.log.read_text() + run.generation()
        assert "is gone while receiving" in run.generation()
        assert "is gone while playing" in run.generation()
        assert run.generation().count("waits again") >= 2
        assert_nothing_lost(run, undisturbed)
    finally:
        cluster.shutdown()
        if idle["pid"] and is_there(idle["pid"]):  # its node is gone, and it stands still
            kill(idle["pid"])


def test_workers_and_the_dispatcher_are_killed_and_hang_and_results_are_equal(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    run = Run(tmp_path, "--ray", "local", "--set", "ray.workers=2", "--set", "ray.lease_s=12")
    first = run.wait_for(lambda row: row["doing"] == "playing")
    kill(first["pid"])
    hung = run.wait_for(lambda row: row["doing"] == "playing", update=1)
    stop(hung["pid"])
    run.wait_for(lambda row: row["worker"] == hung["worker"] and row["starts"] > hung["starts"])
    assert not is_there(hung["pid"])
    last = run.wait_for(lambda row: row["doing"] == "playing", update=2)
    dispatcher = run.folder / "generation.log"
    children = [int(pid) for pid in subprocess.run(
        ["pgrep", "-P", str(run.process.pid), "-f", "ray_generation"],
        capture_output=True, text=True, check=True,
    ).stdout.split()]  # fmt: skip
    kill(children[0])
    assert run.end() == 0, run.log.read_text() + dispatcher.read_text()
    assert "its lease of 12 s is over" in dispatcher.read_text()
    assert_nothing_lost(run, undisturbed)
    until = time.monotonic() + 60
    while is_there(last["pid"]) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_there(last["pid"]), "a worker outlives its run"


def test_each_worker_is_a_process_with_one_thread_of_arithmetic(tmp_path: Path) -> None:
    run = Run(tmp_path, "--ray", "local", "--set", "ray.workers=2", "--set", "updates=1")
    rows: dict[int, dict[str, Any]] = {}
    while run.process.poll() is None:
        rows |= {place: row for place, row in run.workers().items() if "pid" in row}
        time.sleep(0.05)
    assert run.end() == 0, run.log.read_text()
    assert len({row["pid"] for row in rows.values()}) == 2
    assert {row["omp_num_threads"] for row in rows.values()} == {"1"}
    assert {row["threads"] for row in rows.values()} == {1}
