"""A real Ray cluster plays: nodes, workers and the dispatcher are lost, and results stay equal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.disturbed_run import MATCHES, Run, kill, parent_of, stop, wait_until_gone
from tests.faults.struck_engine import NAME

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


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    """Nodes and commands find this package's engine; they import nothing from where they are started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same recipe without Ray: one process beside the trainer plays."""
    run = Run(tmp_path_factory.mktemp("undisturbed"))
    assert run.end() == 0, run.log.read_text()
    return run.results()


def three_nodes(head: dict[str, int], others: dict[str, int]) -> tuple[Any, dict[int, Any]]:
    """A cluster of processes, and the nodes that may be lost, by the parent of what they run."""
    from ray.cluster_utils import Cluster

    own: dict[str, Any] = {"object_store_memory": 100 * 2**20}
    cluster = Cluster(
        initialize_head=True, head_node_args=own | head | {"include_dashboard": False}
    )
    added = [cluster.add_node(**own, **others) for _ in range(2)]
    return cluster, {node.all_processes["raylet"][0].process.pid: node for node in added}


def busy(row: dict[str, Any], doing: str, *, update: int) -> bool:
    """Whether a worker is held at an update."""
    return bool(row["doing"] == doing and row["update"] == update)


def lose(cluster: Any, node: Any, pid: int) -> None:
    """A node dies with what runs on it; its processes notice one after the other that it did."""
    cluster.remove_node(node, allow_graceful=False)
    wait_until_gone(pid, "a process outlives its node")


def assert_nothing_lost(run: Run, undisturbed: dict[str, Any]) -> None:
    results = run.results()
    assert results["matches"] == undisturbed["matches"]
    assert results["weights"] == undisturbed["weights"]
    assert results["metrics"] == undisturbed["metrics"]
    assert len({match for match, _ in results["matches"]}) >= 4 * MATCHES


def test_one_node_dies_in_a_transfer_and_one_in_play_and_results_are_equal(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    # the trainer is where the GPU is said to be; the other nodes are lost
    cluster, nodes = three_nodes(head={"num_cpus": 3, "num_gpus": 1}, others={"num_cpus": 2})
    try:
        options = ("--ray", cluster.address, "--set", "ray.trainer_gpus=1")
        run = Run(tmp_path, *options, held=True)

        run.let(taken=1, played=1)
        receiving = run.wait_for(
            lambda row: busy(row, "receiving", update=2) and parent_of(row["pid"]) in nodes
        )
        lose(cluster, nodes.pop(parent_of(receiving["pid"])), receiving["pid"])

        run.let(taken=2, played=1)
        playing = run.wait_for(
            lambda row: busy(row, "playing", update=2) and parent_of(row["pid"]) in nodes
        )
        lose(cluster, nodes.pop(parent_of(playing["pid"])), playing["pid"])

        run.let()
        assert run.end() == 0, run.log.read_text() + run.generation()
        assert "is gone while receiving" in run.generation()
        assert "is gone while playing" in run.generation()
        assert run.generation().count("waits again") >= 2
        assert_nothing_lost(run, undisturbed)
    finally:
        cluster.shutdown()


def test_workers_and_the_dispatcher_are_killed_and_hang_and_results_are_equal(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    options = ("--ray", "local", "--set", "ray.workers=2", "--set", "ray.patience_s=60")
    run = Run(tmp_path, *options, held=True)
    run.let(taken=1, played=0)
    first = run.wait_for(lambda row: busy(row, "playing", update=1))
    kill(first["pid"])

    run.let(taken=2, played=1)
    hung = run.wait_for(lambda row: busy(row, "playing", update=2))
    stop(hung["pid"])
    run.let(taken=3, played=2)
    replaced = run.wait_for(
        lambda row: row["worker"] == hung["worker"] and row["starts"] > hung["starts"]
    )
    assert replaced.get("pid") != hung["pid"]
    wait_until_gone(hung["pid"], "a worker that hung keeps its place")

    last = run.wait_for(lambda row: busy(row, "playing", update=3))
    kill(run.dispatcher())
    run.let()
    assert run.end() == 0, run.log.read_text() + run.generation()
    assert "is gone while playing" in run.generation()
    assert "its lease of 60 s is over" in run.generation()
    assert_nothing_lost(run, undisturbed)
    wait_until_gone(last["pid"], "a worker outlives the process that asked it")


def test_the_trainer_loses_its_node_and_another_one_hangs_and_results_are_equal(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    cluster, nodes = three_nodes(head={"num_cpus": 0}, others={"num_cpus": 3})
    try:
        few = ("--set", "ray.workers=2", "--set", "ray.patience_s=30")
        run = Run(tmp_path, "--ray", cluster.address, *few, held=True)
        run.let(taken=2, played=1)
        run.wait_for(lambda row: busy(row, "playing", update=2))
        lose(cluster, nodes.pop(parent_of(run.trainer())), run.trainer())

        second = run.trainer(2)
        assert parent_of(second) in nodes
        run.let(taken=3, played=2)
        run.wait_for(lambda row: busy(row, "playing", update=3))
        stop(second)
        third = run.trainer(3)
        wait_until_gone(second, "a trainer that hung keeps its place")

        run.let()
        assert run.end() == 0, run.log.read_text() + run.generation()
        log = run.log.read_text()
        assert "the trainer is gone: " in log
        assert "the trainer did not answer for 30 s; starting it again (1 of 3)" in log
        assert_nothing_lost(run, undisturbed)
        wait_until_gone(third, "a trainer outlives its run")
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_command_ends_all_of_it_and_the_same_command_goes_on(
    number: int, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    options = ("--ray", "local", "--set", "ray.workers=2", "--set", "checkpoint_every=99")
    run = Run(tmp_path, *options, held=True)
    run.let(taken=2, played=1)
    worker = run.wait_for(lambda row: busy(row, "playing", update=2))
    pids = worker["pid"], run.trainer(), run.dispatcher()
    run.process.send_signal(number)
    assert run.end() == 128 + number, run.log.read_text()
    (kept,) = (run.folder / "checkpoints").iterdir()
    assert run.log.read_text().splitlines()[-1] == (
        f"srl train: interrupted in update 2 of 4. Emergency checkpoint of update 1: {kept}. "
        f"To go on: srl train {run.folder} --ray local"
    )
    assert "Traceback" not in run.log.read_text()
    for pid in pids:
        wait_until_gone(pid, "a process outlives the command")

    again = Run(tmp_path, *options, held=True)
    again.let()
    assert again.end() == 0, again.log.read_text()
    assert_nothing_lost(again, undisturbed)


def test_a_cluster_without_room_for_the_trainer_is_said_in_one_line(tmp_path: Path) -> None:
    run = Run(
        tmp_path, "--ray", "local", "--set", "ray.trainer_gpus=64", "--set", "ray.patience_s=6"
    )
    assert run.end() == 2
    log = run.log.read_text()
    assert "srl train: ray: the cluster has no room for the trainer, {'CPU': 1.0, 'GPU': 64" in log
    assert "Traceback" not in log


def begun(worker: int, row: dict[str, Any]) -> bool:
    return row["worker"] == worker and "pid" in row


def test_each_worker_is_a_process_with_one_thread_of_arithmetic(tmp_path: Path) -> None:
    run = Run(tmp_path, "--ray", "local", "--set", "ray.workers=2", "--set", "updates=1", held=True)
    rows = [run.wait_for(partial(begun, n)) for n in (0, 1)]
    run.let()
    assert run.end() == 0, run.log.read_text()
    assert len({row["pid"] for row in rows}) == 2
    assert {row["omp_num_threads"] for row in rows} == {"1"}
    assert {row["threads"] for row in rows} == {1}


def test_a_worker_that_dies_among_branches_changes_nothing(tmp_path: Path) -> None:
    options = (
        *("--set", "updates=2", "--set", "asynchronous.refill_limit=0"),
        *("--set", "forks={alternatives: 3, share: 0.4}"),
        *("--set", "credit={estimator: c3, level: turn}"),
    )
    here = Run(tmp_path / "here", *options)
    assert here.end() == 0, here.log.read_text()
    folder = tmp_path / "spread"
    engine = f"engine={{kind: '{NAME}', run: {folder / 'run'}, own_in: 2}}"
    spread = Run(folder, *options, "--ray", "local", "--set", "ray.workers=2", "--set", engine)
    assert spread.end() == 0, spread.log.read_text() + spread.generation()
    assert (folder / "struck_own").exists()
    assert "is gone while playing" in spread.generation()
    results = spread.results()
    assert results == here.results()
    assert all(record["run"]["forks/branches"] > 0 for record in results["metrics"])
