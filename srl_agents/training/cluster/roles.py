"""Calls of a Ray cluster for all roles of a run: join it, wait for room, count threads, end a process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.job_config import JobConfig
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from srl_agents.own_folders import new_folder
from srl_envs import foreign_code
from srl_envs.errors import ConfigError

ANSWER_S = 60.0
"""Limit for an answer that is ready, and for a look at a node's files."""
_ROOM_S = 5.0
"""Waiting for room is reported after so long."""
_NODE = "ray.io/node-id"
"""Label that Ray gives each node."""


@contextmanager
def joined(address: str, *, local_cpus: int = 0) -> Iterator[None]:
    """Be in a cluster, or in one of only this machine.

    Args:
        address: ``auto``, ``local``, or HOST:PORT of the cluster's head.
        local_cpus: CPUs of a cluster that is started here; more than the machine has are shared.

    Raises:
        ConfigError: no cluster answers.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a job of a client is one to whose workers Ray does not give the current folder to import from
    job = JobConfig(_client_job=True)
    options: dict[str, Any] = {"job_config": job, "log_to_driver": True, "logging_level": "WARNING"}
    if address == "local":
        options |= {"include_dashboard": False, "num_cpus": local_cpus}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RayError, ValueError) as error:
        raise ConfigError(
            f"--ray {address}: no cluster answers ({first_line(error)}). Start one with `ray start --head`, "
            "or give --ray local."
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def reserved(
    role: str,
    bundles: Sequence[dict[str, float]],
    patience_s: float,
    say: Callable[[str], None],
    *,
    nodes: Sequence[str] = (),
) -> Iterator[PlacementGroup]:
    """Room for one role: a placement group of its own, spread over the cluster.

    Args:
        role: in words.
        bundles: what each process of it takes.
        patience_s: for room.
        say: shows that the run waits.
        nodes: ids of those that will do; all, if there are none.

    Raises:
        ConfigError: there was no room in time.
    """
    needed = [{name: some for name, some in bundle.items() if some} for bundle in bundles]
    labels = [{_NODE: f"in({','.join(nodes)})"}] * len(needed) if nodes else None
    group = placement_group(needed, strategy="SPREAD", bundle_label_selector=labels)
    words = f"{needed[0]} each, {len(needed)} times" if len(needed) > 1 else f"{needed[0]}"
    if nodes:
        words += f", on one of {len(nodes)} nodes"
    try:
        try:
            if not group.wait(min(_ROOM_S, patience_s)):
                say(f"waiting for room for the {role}: {words}; free are {_free()}")
                ray.get(group.ready(), timeout=max(0.0, patience_s - _ROOM_S))
        except GetTimeoutError:
            raise ConfigError(
                f"ray: the cluster has no room for the {role}, {words}; free are {_free()}. Ask for less, or "
                "add nodes."
            ) from None
        yield group
    finally:
        with contextlib.suppress(RayError):
            remove_placement_group(group)


def _free() -> dict[str, float]:
    return {name: some for name, some in ray.available_resources().items() if ":" not in name}


def nodes_that_see(folder: Path) -> list[str]:
    """Ids of the nodes that have a folder of this machine under the same path, with what is written to it.

    Raises:
        OSError: nothing can be written there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = str(new_folder("shared", folder))

    def sees() -> bool:
        return os.path.isdir(mark)

    def ask(node: str) -> Any:
        place = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        return (
            ray.remote(sees).options(num_cpus=0, max_retries=0, scheduling_strategy=place).remote()
        )

    try:
        asked = {node["NodeID"]: ask(node["NodeID"]) for node in ray.nodes() if node["Alive"]}
        ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_S)
        return [node for node, answer in asked.items() if answer in ready and _is_true(answer)]
    finally:
        shutil.rmtree(mark, ignore_errors=True)


def _is_true(answer: Any) -> bool:
    """Whether a node said so; one that is gone meanwhile did not."""
    try:
        return bool(ray.get(answer, timeout=ANSWER_S))
    except (RayError, GetTimeoutError):
        return False


def end_process(node: str, pid: int) -> None:
    """Kill a process on its node: one that hangs does not notice the end of its actor."""
    place = NodeAffinitySchedulingStrategy(node_id=node, soft=False)

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    ray.remote(kill).options(num_cpus=0, scheduling_strategy=place).remote()


def threads(number: int) -> dict[str, str]:
    """Variables of a process on the cluster: its arithmetic keeps to its own processors, where Ray leaves it
    the machine's, and it refuses foreign code where this process does."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "SRL_TORCH_THREADS")
    own = {"TOKENIZERS_PARALLELISM": "false", **foreign_code.inherited()}
    return dict.fromkeys(names, str(number)) | own


def first_line(error: Exception) -> str:
    """The kind of an error and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"
