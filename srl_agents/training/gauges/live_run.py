"""The present state of a run: its processes, queues, ages and seconds by phase.

All of it is read from what runs write anyway: the lock of the league's store, the metrics, the orders and
matches between generation and training, leases, published versions, and the system's table of processes;
and from the desk of a person who is asked for moves.
Nothing is written, and a run does not notice that it is watched. Needs no model library.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_agents.agents.grammar import EndpointName, parse
from srl_agents.league.store.history import LeagueStore
from srl_agents.metrics.sinks import METRICS, read_lines
from srl_agents.recipes.population_settings import PopulationRecipe
from srl_agents.recipes.recipe_kinds import read_recipe
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.rollouts.buffer import MatchBuffer, Played
from srl_agents.training.ahead.demand import Demand
from srl_agents.training.folder.layout import BUFFER, RECIPE, STORE, VERSIONS, WORKERS
from srl_agents.training.parts.forking import make_forking
from srl_envs.errors import ConfigError, StoreError

_WRITER = re.compile(r"process (\d+) \(")
"""Finds the process in a store's lock that writes to it, or wrote last."""
_ROLES = (
    ("srl_agents.training.ahead.player", "generation"),
    ("srl_agents.training.cluster.dispatch", "dispatcher of workers"),
    ("vllm", "vLLM server"),
    ("multiprocessing.resource_tracker", ""),
    ("multiprocessing", "worker"),
)
"""Part of a child's command line -> its role; the first that fits."""
_SPREAD = ("torch.distributed.run", "torchrun")
_DESK_S = 0.5
"""Longest wait for a desk's answer."""
_CLOCK_HZ = 100
"""Ticks a second in Linux's table of processes."""
Numbers = dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process of a run."""

    role: str
    pid: int
    cores: float | None
    """CPU seconds per second since the look before; None at the first."""
    memory_mib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """A kind of work that waits in a run's folder, such as orders or matches."""

    name: str
    done: int
    whole: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """State of a run at one moment, read from its folder."""

    run: str
    kind: str
    """``league`` or ``population``: the kind of the run."""
    processes: list[Process]
    """Empty where no process of this machine works on the run."""
    done: int
    """Updates that were reported, or matches of a population that were stored."""
    whole: int
    silent_s: float | None
    """Seconds since something was last written."""
    queues: list[Queue] = field(default_factory=list)
    staleness: Numbers = field(default_factory=dict)
    """Learner -> mean steps between the version that wrote a row and the one that learned from it."""
    phases: Numbers = field(default_factory=dict)
    """Phase -> share of the last update's time."""
    rates: Numbers = field(default_factory=dict)
    """Tokens per second, of play and of learning."""
    seconds: Numbers = field(default_factory=dict)
    """Seconds of the last update: play, learning, the transfer of new versions, and waits between them."""
    spent: Numbers = field(default_factory=dict)
    """All that the run spent so far, by name of the limit (`srl_agents.league.settings.LIMITS`)."""
    conductor: Numbers = field(default_factory=dict)
    """The conductor's numbers in the last update, by its metrics' names."""
    cache: Numbers = field(default_factory=dict)
    """The numbers of the engine's prefix cache in the last update, by its metrics' names."""
    versions: int = 0
    """Versions that lie where engines open them."""
    faults: list[str] = field(default_factory=list)
    """Faults of the last update."""
    people: list[str] = field(default_factory=list)
    """Desks where a person is asked for moves, the number of moves that are waited for, and since when."""
    workers: Numbers = field(default_factory=dict)
    """Workers of a cluster by state; ``lost`` counts those that had to be replaced."""


_SECONDS = {
    "generate_s": "play",
    "train_s": "learning",
    "publish_s": "transfer of new versions",
    "wait_s": "training waited for matches",
    "overlap_s": "both worked",
    "generation_idle_s": "generation had nothing to play",
}
_RATES = {"tokens_per_s": "play", "train_tokens_per_s": "learning"}


def under(prefix: str, numbers: Numbers) -> Numbers:
    """Numbers whose names begin with a prefix, by the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in numbers.items() if k.startswith(prefix)}


def _known(numbers: dict[str, float | None]) -> Numbers:
    """Numbers without those that were not finite."""
    return {name: number for name, number in numbers.items() if number is not None}


class RunWatch:
    """Looks at one run, again and again.

    Args:
        folder: of the run.

    Raises:
        ConfigError: it holds no run.
    """

    def __init__(self, folder: Path) -> None:
        _require_run(folder)
        self.folder = folder
        self._recipe = read_recipe(folder / RECIPE)
        self._readers: dict[int, Played] = {}
        self._demands: dict[int, Demand] = {}
        self._cpu: dict[int, tuple[float, float]] = {}

    def look(self) -> RunState:
        """The run as it is now.

        Raises:
            ConfigError: its folder is gone.
        """
        _require_run(self.folder)
        processes = list(self._processes())
        if isinstance(self._recipe, PopulationRecipe):
            return self._population(self._recipe, processes)
        records = read_lines(self.folder / METRICS)
        last: dict[str, Any] = {"update": 0, "run": {}, "learners": {}}
        last |= records[-1] if records else {}
        run = _known(last["run"])
        learners = {name: _known(values) for name, values in last["learners"].items()}
        return RunState(
            run=self._recipe.name,
            kind="league",
            processes=processes,
            done=last["update"],
            whole=self._recipe.updates,
            silent_s=self._silent_s(METRICS, "transcripts.jsonl"),
            queues=list(self._orders(last["update"])),
            staleness={
                name: values["version_lag"]
                for name, values in learners.items()
                if "version_lag" in values
            },
            phases=under("phase/", run),
            spent=under("spent/", run),
            conductor=under("conductor/", run),
            cache={
                key: value
                for key, value in run.items()
                if key.startswith(("prompt_tokens", "cache_share", "cache_blocks"))
            },
            rates={label: run[key] for key, label in _RATES.items() if key in run},
            seconds={label: run[key] for key, label in _SECONDS.items() if key in run},
            versions=self._versions(),
            people=list(self._people(self._recipe.guests)) if processes else [],
            workers=self._workers(),
            faults=sorted(
                key.removeprefix("fault/")
                for values in (run, *learners.values())
                for key, met in values.items()
                if key.startswith("fault/") and met
            ),
        )

    def _population(self, recipe: PopulationRecipe, processes: list[Process]) -> RunState:
        stored, leased = 0, 0
        try:
            with LeagueStore(self.folder / STORE, mode="read") as store:
                stored, now_ms = store.count(), time.time() * 1000
                leased = sum(lease.until_ms > now_ms for lease in store.leases())
        except StoreError:
            pass  # not there yet
        return RunState(
            run=recipe.name,
            kind="population",
            processes=processes,
            done=stored,
            whole=recipe.matches,
            silent_s=self._silent_s(f"{STORE}-wal", STORE),
            queues=[Queue(name="matches that are leased", done=0, whole=leased)],
        )

    # --- what waits --------------------------------------------------------------------------

    def _orders(self, learned: int) -> Iterator[Queue]:
        """Matches between generation and training, by update; those that a checkpoint holds are done."""
        if not (self.folder / BUFFER).is_dir():
            return
        recipe, buffer = self._recipe, MatchBuffer(self.folder / BUFFER, 0)
        forking = make_forking(recipe) if isinstance(recipe, LeagueRecipe) else None
        for number in buffer.numbers():
            order = buffer.find(number)
            if number <= learned or order is None:
                continue
            played = self._readers.setdefault(number, buffer.played(number))
            played.refresh()
            demand = self._demands.get(number)
            if demand is None or demand.order != order:
                demand = self._demands[number] = Demand(order, forking)
            whole, left = demand.counts(played.episodes)
            yield Queue(name=f"matches of update {number}", done=whole - left, whole=whole)

    def _people(self, guests: Iterable[str]) -> Iterator[str]:
        """What the desks say at which people are asked (`srl serve human`)."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for name in map(parse, guests):
            desk = name.desk if isinstance(name, EndpointName) else None
            if desk is None:
                continue
            try:
                with direct.open(f"{desk}/waiting", timeout=_DESK_S) as answer:
                    found = json.load(answer)
                    asked, more = found["questions"], int(found["more"])
                waits = [float(one["waits_s"]) for one in asked if one["waited_for"]]
            except (OSError, ValueError, KeyError, TypeError):
                yield f"no desk answers at {desk} (srl serve human)"
                continue
            if waits:
                yield f"{len(waits) + more} asked at {desk}, waited for {max(waits):,.0f} s: answer there"

    def _workers(self) -> Numbers:
        """Workers by state, as the process that asks them wrote last."""
        try:
            rows = json.loads((self.folder / WORKERS).read_text())["workers"]
            counted: Counter[str] = Counter(str(row["doing"]) for row in rows)
            lost = sum(float(row["starts"]) - 1 for row in rows)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return {}
        return {name: float(count) for name, count in sorted(counted.items())} | {"lost": lost}

    def _versions(self) -> int:
        return sum(path.is_dir() for path in (self.folder / VERSIONS).glob("*@*"))

    def _silent_s(self, *names: str) -> float | None:
        times = []
        for name in names:
            with suppress(OSError):  # not there yet, or just now no longer
                times.append((self.folder / name).stat().st_mtime)
        return max(0.0, time.time() - max(times)) if times else None

    # --- who is alive ------------------------------------------------------------------------

    def _processes(self) -> Iterator[Process]:
        """The one that holds the store, those beside it under torchrun, and their children."""
        table = dict(_table())
        owner = self._owner(table)
        if owner is None:
            return
        learner = "league" if isinstance(self._recipe, PopulationRecipe) else "learner"
        parent = table.get(table[owner].parent)
        heads = [owner]
        if parent is not None and any(word in parent.command for word in _SPREAD):
            heads = sorted(pid for pid, row in table.items() if row.parent == table[owner].parent)
        for rank, head in enumerate(heads):
            role = learner if len(heads) == 1 else f"{learner} {rank}"
            yield self._process(role, head, table[head])
            for pid, row in _below(head, table):
                role = next((role for word, role in _ROLES if word in row.command), "sandbox")
                if role:
                    yield self._process(role, pid, row)

    def _owner(self, table: dict[int, _Row]) -> int | None:
        """The process that writes to the store now; one with its number that began later is another."""
        path = self.folder / f"{STORE}.lock"
        try:
            found = _WRITER.search(path.read_text(errors="replace"))
            written = path.stat().st_mtime
        except OSError:
            return None
        pid = int(found[1]) if found else 0
        row = table.get(pid)
        return pid if row is not None and row.began <= written + 1 else None

    def _process(self, role: str, pid: int, row: _Row) -> Process:
        now = time.monotonic()
        before, self._cpu[pid] = self._cpu.get(pid), (now, row.cpu_s)
        cores = None
        if before is not None and now > before[0]:
            cores = max(0.0, row.cpu_s - before[1]) / (now - before[0])
        return Process(role=role, pid=pid, cores=cores, memory_mib=row.memory_mib)


def _require_run(folder: Path) -> None:
    if not (folder / RECIPE).is_file():
        raise ConfigError(f"{folder} holds no run: {RECIPE} is missing.")


@dataclass(frozen=True, slots=True)
class _Row:
    """One process of the machine."""

    parent: int
    command: str
    cpu_s: float
    began: float
    """Start of the process, in seconds since 1970."""
    memory_mib: float


def _table() -> Iterator[tuple[int, _Row]]:
    """All processes that may be seen and have not ended; none on a system without /proc."""
    boot = 0.0
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(float(line.split()[1]) for line in lines if line.startswith("btime"))
    except (OSError, StopIteration):
        return
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # ended meanwhile
        if fields[0] in "ZX":
            continue
        yield (
            int(folder.name),
            _Row(
                parent=int(fields[1]),
                command=command,
                cpu_s=(int(fields[11]) + int(fields[12])) / _CLOCK_HZ,
                began=boot + int(fields[19]) / _CLOCK_HZ,
                memory_mib=int(fields[21]) * 4096 / 2**20,
            ),
        )


def _below(head: int, table: dict[int, _Row]) -> Iterator[tuple[int, _Row]]:
    """Children of a process, theirs, and so on; only the first of each family of one command."""
    for pid, row in sorted(table.items()):
        if row.parent == head:
            yield pid, row
            yield from _below(pid, table)
