"""The process that has a run's matches played by a Ray cluster; it runs beside the trainer, on its node.

    python -m srl_agents.whole_import srl_agents.training.cluster.dispatch RUN_FOLDER ADDRESS

It reads orders from the run's buffer, leases their parts to workers, and writes what they played into the
buffer. It has no state of its own: where it is killed, the cluster ends its workers, and the next one goes
on from the buffer. It ends with the process that started it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import ray
import torch
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from srl_agents.recipes.loading import load
from srl_agents.recipes.sections.ray import DEATHS
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import WeightUpdate
from srl_agents.rollouts.buffer import MatchBuffer, Played
from srl_agents.rollouts.leases import Leases
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.ahead.player import end_with_parent
from srl_agents.training.bases import below
from srl_agents.training.cluster.match_worker import MatchWorker, to_arrays
from srl_agents.training.cluster.roles import (
    ANSWER_S,
    end_process,
    first_line,
    joined,
    reserved,
    threads,
)
from srl_agents.training.faults.supervised import be_child
from srl_agents.training.folder.layout import BUFFER, RECIPE, VERSIONS, WORKERS
from srl_agents.training.parts.forking import make_forking, parents_of
from srl_envs.errors import ConfigError, ModelError, SRLError
from srl_envs.reading.settings import dump

_LOOK_S = 0.05
"""Seconds between two looks for orders, answers and leases that are over."""
_STATE_S = 0.05
"""Seconds between two writings of the workers' states."""
Doing = Literal["starting", "idle", "receiving", "playing"]


@dataclass(slots=True)
class _Worker:
    """A place for a worker, and the actor that has it now."""

    actor: Any
    answer: Any
    """Reference to what it is asked for; None while it is idle."""
    node: Any
    """Reference to the id of its node."""
    since_s: float
    doing: Doing = "starting"
    reported: dict[str, Any] = field(default_factory=dict)
    """Process id, host and threads of the worker, once it has started."""
    versions: set[str] = field(default_factory=set)
    played: int = 0
    """Parts of orders that it played."""
    starts: int = 1


class RayGeneration:
    """Has the orders of a buffer played by actors.

    Args:
        recipe: of the run.
        buffer: has the orders and gets the matches.
        open_update: gives the weights of versions that orders name.
        group: placement group with one bundle per worker.
        state: file that lists what each worker does.
    """

    def __init__(
        self,
        recipe: LeagueRecipe,
        buffer: MatchBuffer,
        open_update: Callable[[WeightUpdate], Mapping[str, torch.Tensor]],
        group: PlacementGroup,
        state: Path,
    ) -> None:
        if recipe.generation is None:
            raise ConfigError("this recipe has no process that plays ahead of training.")
        self._settings, self._part = recipe.ray, recipe.generation.part_matches
        self._buffer, self._open_update, self._group = buffer, open_update, group
        self._state, self._said_s, self._changed = state, 0.0, True
        self._recipe = ray.put(dump(recipe))
        self._leases = Leases(self._settings.patience_s, DEATHS)
        self._forking = make_forking(recipe)
        self._orders: dict[int, tuple[Demand, Played]] = {}
        self._begun: set[int] = set()
        """Orders that are being played."""
        self._weights: dict[str, Any] = {}
        """Version id -> reference to its bytes in the object store."""
        self._failed_starts = 0
        """Starts in a row that failed."""
        self._workers = {place: self._start(place) for place in range(self._settings.workers)}

    def run(self) -> None:
        """Play what is ordered and what will be.

        Raises:
            ModelError: weights cannot be opened, one part ended too many workers, none starts, or one
                raised, as it would anywhere.
            ConfigError: a worker raised one.
        """
        while True:
            self._read_orders()
            for place in self._workers:
                self._hand_out(place)
            self._hear()
            self._replace_late()
            self._tell()

    # --- orders ------------------------------------------------------------------------------

    def _read_orders(self) -> None:
        """Take up new orders, and forget those that the trainer is done with."""
        numbers = self._buffer.numbers()
        gone = [number for number in self._orders if number not in numbers]
        for number in gone:
            del self._orders[number]
            self._begun.discard(number)
        if gone:
            self._leases.drop(gone)
            self._forget_weights()
        for number in numbers:
            order = self._buffer.find(number) if number not in self._orders else None
            if order is not None:
                played = self._buffer.played(number)
                played.refresh()
                demand = Demand(order, self._forking, self._part)
                self._orders[number] = (demand, played)
                self._leases.want(demand.newly_due(played.episodes))

    def _forget_weights(self) -> None:
        named = self._named()
        for name in [name for name in self._weights if name not in named]:
            del self._weights[name]

    def _named(self) -> set[str]:
        return {name for demand, _ in self._orders.values() for name in demand.order.versions}

    def _bytes_of(self, update: WeightUpdate) -> Any:
        """Reference to a version in the object store, which sends it once to each node."""
        name = str(update.version)
        if name not in self._weights:
            self._weights[name] = ray.put(to_arrays(self._open_update(update)))
        return self._weights[name]

    # --- workers -----------------------------------------------------------------------------

    def _start(self, place: int) -> _Worker:
        own = self._settings
        actor = (
            ray.remote(MatchWorker)
            .options(
                num_cpus=own.cpus,
                num_gpus=own.gpus,
                max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(
                    self._group, placement_group_bundle_index=place
                ),
                runtime_env={"env_vars": threads(max(1, int(own.cpus)))},
            )
            .remote(self._recipe)
        )
        self._changed = True
        node = actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
        answer = actor.open.remote()
        return _Worker(actor=actor, answer=answer, node=node, since_s=time.monotonic())

    def _replace(self, place: int, how: str) -> None:
        """End a worker, give its part back, and start another one in its place."""
        worker = self._workers[place]
        _say(f"worker {place} {_where(worker)} is gone while {worker.doing}: {how}")
        part = self._leases.lost(place, how)
        if part is not None and part.key[0] in self._orders:
            _say(f"part {part.key[1]} of update {part.key[0]} waits again")
        elif part is not None:
            self._leases.drop([part.key[0]])
        with contextlib.suppress(RayError):
            ray.kill(worker.actor, no_restart=True)
            if worker.reported:
                end_process(ray.get(worker.node, timeout=ANSWER_S), worker.reported["pid"])
        self._workers[place] = self._start(place)
        self._workers[place].starts += worker.starts
        self._workers[place].played = worker.played

    def _hand_out(self, place: int) -> None:
        """Give an idle worker the oldest part, and first the weights that it needs."""
        worker = self._workers[place]
        if worker.doing != "idle":
            return
        part = self._leases.take(place, time.monotonic())
        if part is None:
            return
        demand, _ = self._orders[part.key[0]]
        updates = demand.order.updates
        missing = [update for update in updates if str(update.version) not in worker.versions]
        if not missing:
            self._let_play(place)
            return
        named = self._named()
        references = [self._bytes_of(update) for update in missing]
        self._ask(worker, "receiving", worker.actor.install.remote(missing, named, *references))
        worker.versions &= named
        worker.versions |= {str(update.version) for update in missing}

    def _let_play(self, place: int) -> None:
        worker, part = self._workers[place], self._leases.held(place)
        if part is None or part.key[0] not in self._orders:
            self._leases.done(place)
            self._ask(worker, "idle", None)
            return
        number = part.key[0]
        if number not in self._begun:
            self._begun.add(number)
            self._buffer.begin(number, time.monotonic())
        parents = parents_of(part.specs, self._orders[number][1].episodes)
        self._ask(worker, "playing", worker.actor.play.remote(part.specs, parents))

    def _ask(self, worker: _Worker, doing: Doing, answer: Any) -> None:
        worker.doing, worker.answer, worker.since_s = doing, answer, time.monotonic()
        self._changed = True

    # --- answers -----------------------------------------------------------------------------

    def _hear(self) -> None:
        """Handle the answers that workers have ready."""
        asked = {w.answer: place for place, w in self._workers.items() if w.answer is not None}
        if not asked:
            time.sleep(_LOOK_S)
            return
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_LOOK_S)
        for answer in ready:
            place = asked[answer]
            try:
                value = ray.get(answer, timeout=ANSWER_S)
            except RayTaskError as error:
                raise _raised(place, error) from None
            except (RayError, GetTimeoutError) as error:
                self._count_start(place, error)
                self._replace(place, first_line(error))
                continue
            self._take(place, value)

    def _count_start(self, place: int, error: Exception) -> None:
        """Count a failed start of a worker; raise after too many."""
        if self._workers[place].doing != "starting":
            return
        self._failed_starts += 1
        if self._failed_starts > DEATHS * self._settings.workers:
            raise ModelError(f"no worker of the cluster starts; the last one failed with: {error}")

    def _take(self, place: int, value: Any) -> None:
        worker = self._workers[place]
        if worker.doing == "starting":
            worker.reported, self._failed_starts = value, 0
            _say(f"worker {place} {_where(worker)} plays, {value['threads']} threads")
            self._ask(worker, "idle", None)
        elif worker.doing == "receiving":
            self._let_play(place)
        else:
            worker.played += 1
            self._ask(worker, "idle", None)
            self._keep(place, value)

    def _keep(self, place: int, frames: bytes) -> None:
        """Add a part to the buffer, as it arrived, unless the trainer has dropped its order."""
        part = self._leases.done(place)
        if part is None or part.key[0] not in self._orders:
            return
        number = part.key[0]
        demand, played = self._orders[number]
        now_s = time.monotonic()
        played.take(frames)  # no other process adds matches: the file need not be read again
        self._buffer.add_frames(number, frames, now_s)
        whole = all(spec.match_id in played.episodes for spec in part.specs)
        again = () if whole else (part,)
        self._leases.want((*demand.newly_due(played.episodes), *again))
        if not self._leases.busy_with(number):
            self._begun.discard(number)
            self._buffer.rest(number, now_s)

    def _replace_late(self) -> None:
        """Replace workers whose lease is over, and those that do not start."""
        now_s, own = time.monotonic(), self._settings
        for place in self._leases.expired(now_s):
            self._replace(place, f"its lease of {own.patience_s:g} s is over")
        for place, worker in list(self._workers.items()):
            if worker.doing == "starting" and now_s - worker.since_s > own.patience_s:
                self._replace(place, f"it did not start within {own.patience_s:g} s")

    # --- what is said ------------------------------------------------------------------------

    def _tell(self) -> None:
        """Write the state of every worker, for `srl watch`."""
        now_s = time.monotonic()
        if not self._changed or now_s - self._said_s < _STATE_S:
            return
        self._said_s, self._changed = now_s, False
        rows = [
            {
                "worker": place,
                "doing": worker.doing,
                "update": part.key[0] if (part := self._leases.held(place)) else None,
                "played": worker.played,
                "starts": worker.starts,
                **worker.reported,
            }
            for place, worker in self._workers.items()
        ]
        state = {
            "workers": rows,
            "waiting": self._leases.waiting,
            "reissued": self._leases.reissued,
            "at": time.time(),
        }
        temporary = self._state.with_suffix(".tmp")
        temporary.write_text(json.dumps(state))
        temporary.replace(self._state)


def _raised(place: int, error: RayTaskError) -> SRLError:
    """What a worker raised, as an error of ours."""
    cause = getattr(error, "cause", error)
    kind = ConfigError if isinstance(cause, ConfigError) else ModelError
    return kind(f"worker {place} raised {type(cause).__name__}: {cause}")


def _where(worker: _Worker) -> str:
    return (
        f"(process {worker.reported['pid']} on {worker.reported['host']})"
        if worker.reported
        else ""
    )


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this process's output is its log


def generate(folder: Path, address: str) -> None:
    """Have the matches of the run in a folder played, until this process is ended."""
    recipe = load(LeagueRecipe, folder / RECIPE)
    if recipe.generation is None:
        raise ConfigError(
            f"the recipe of {folder} has no generation process, as its trainer plays itself."
        )
    opens = {
        learner: recipe.carrier.make_transport(
            below(folder / VERSIONS, base), whole_weights=False
        ).open
        for base in recipe.bases
        for learner in base.learners
    }
    buffer = MatchBuffer(folder / BUFFER, recipe.generation.ahead + 1)
    own = recipe.ray
    each = {"CPU": own.cpus, "GPU": own.gpus}
    with (
        joined(address),
        reserved("workers", [each] * own.workers, own.patience_s, _say) as group,
    ):

        def open_update(update: WeightUpdate) -> Mapping[str, torch.Tensor]:
            return opens[update.version.learner](update)

        RayGeneration(recipe, buffer, open_update, group, folder / WORKERS).run()


def main(arguments: Sequence[str]) -> None:
    """Let the cluster at an address play for the run in a folder."""
    threading.Thread(target=end_with_parent, daemon=True).start()
    be_child(partial(generate, Path(arguments[0]), arguments[1]))
