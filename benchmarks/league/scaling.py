"""One league on 1, 8, 64 and 512 workers, simulated from measured rates: what limits it, and what lifts that.

    python -m benchmarks.league.scaling [--workers 1 8 64 512] [--updates 6] [--plot FILE] [--json FILE]

A discrete-event model. One league leases matches, workers play them, one store takes the results, one
trainer learns and publishes a version that every worker's host fetches. Work grows with the workers: so many
matches per worker and update. Learning takes one worker's time for all of them where a design has trainers
enough, else it grows with them. League and store are one process, as they write to one file, and serve one
request at a time, as does the buffer between generation and learning; the trainer's link carries so many
bytes a second; matches have a heavy tail. A worker's time is playing or one of the waits. Where a design is
below nine tenths of its own rate with one worker times the workers, the wait that grew most limits it.

Rates are read from benchmarks/results: seconds of a match and of an update's learning from
``processes.json`` (one process), seconds of a store's transaction by its size from
``league_store_rate.json``, CPU seconds of a short match in the buffer from ``match_buffer.json`` (in
parts), bytes a second between two processes from ``transports.json`` (collective). The
seconds of leasing a match are measured at the start. The tail of matches (lognormal, ``--sigma``), the
round trip between machines and a second machine's link, as fast as the first's, are assumptions.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league.store_rate import LEASE_BATCH, LEASED, matches, measure_leases

RESULTS = Path("benchmarks/results")
UPDATE_MATCHES = 96
"""Of the quickstart's update, which ``processes.json`` is about; per worker here."""
WAITS = ("league", "store", "weights", "stragglers", "buffer", "learning")
"""What a worker may wait for; ``stragglers`` is the wait for the last match of an update."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What was measured, and what is assumed."""

    match_s: float
    """Mean seconds in which one worker plays a match."""
    learn_s: float
    """Seconds of an update's gradients and steps."""
    lease_s: float
    """Seconds of the league and its store per match that is asked for."""
    transaction_s: float
    """Seconds of a store's transaction beside its rows."""
    row_s: float
    """Seconds per match in it."""
    buffer_s: float
    """CPU seconds in which a match is written to the buffer and read."""
    link_bytes_per_s: float
    """Bytes per second of the trainer's network link."""
    version_bytes: float
    """Bytes of one version of a learner's adapter."""
    matches: int
    """Per worker and update."""
    sigma: float
    """Of the logarithm of a match's seconds: 0 for matches that are alike."""
    round_trip_s: float
    """Between a worker and the league."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """What a league does about its size."""

    name: str
    lease: int = 1
    """Matches that a worker asks for at once."""
    grouped: bool = False
    """The store writes all results that wait in one transaction, and workers do not wait for it."""
    hosts_of: int = 1
    """Workers of a machine that share one copy of a version."""
    relayed: bool = False
    """Hosts that have a version pass it on, so that their number doubles each time."""
    ahead: int = 0
    """Updates whose matches are played before their turn; 0 waits for the last match and for learning."""
    trainers: int | None = None
    """Processes that share an update's rows; None: as many as take one worker's time for all."""


DESIGNS = (
    Design(name="one by one"),
    Design(name="leases of 8", lease=8),
    Design(name="+ grouped reports", lease=8, grouped=True),
    Design(name="+ a copy per host, relayed", lease=8, grouped=True, hosts_of=8, relayed=True),
    Design(
        name="+ one update ahead", lease=8, grouped=True, hosts_of=8, relayed=True, ahead=1
    ),
    Design(
        name="but one trainer", lease=8, grouped=True, hosts_of=8, relayed=True, ahead=1, trainers=1
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Of one design at one size."""

    design: str
    workers: int
    matches_per_s: float
    of_linear: float
    """Matches per second over those of one worker, per worker."""
    playing: float
    """Share of the workers' time in which they play."""
    bottleneck: str
    """The wait that grew most per second of play, where the rate is below nine tenths of linear."""
    waits: dict[str, float]
    """Share of the workers' time by what they wait for."""
    busy: dict[str, float]
    """Share of the time in which league, store and link work."""


def measured(sigma: float, results: Path = RESULTS) -> Rates:
    """Rates from the files of results."""
    processes = json.loads((results / "processes.json").read_text())["processes"]["1"]
    store = json.loads((results / "league_store_rate.json").read_text())
    transports = json.loads((results / "transports.json").read_text())
    sizes = sorted((int(size), 1 / row["per_s"]) for size, row in store.items() if size.isdigit())
    row_s = sizes[-1][1]
    kept = json.loads((results / "match_buffer.json").read_text())["rows"]
    short = next(row for row in kept if row["match"] == "short" and row["part"] > 1)
    carried = next(row for row in transports["rows"] if row["kind"] == "collective")
    return Rates(
        match_s=processes["play_s"] / UPDATE_MATCHES,
        learn_s=processes["train_s"],
        lease_s=1 / measure_leases(matches(LEASED), LEASE_BATCH)["per_cpu_s"],
        transaction_s=sizes[0][1] - row_s,
        row_s=row_s,
        buffer_s=short["cpu_ms"] / 1e3,
        link_bytes_per_s=1e6 * carried["mb_per_s"],
        version_bytes=carried["mib"] * 2**20,
        matches=UPDATE_MATCHES,
        sigma=sigma,
        round_trip_s=5e-4,
    )


# --- events --------------------------------------------------------------------------------------

Process = Generator[tuple[str, Any], Any, None]
"""Yields ("sleep", seconds), ("wait", signal) or ("fire", signal)."""


class Signal:
    """An event that happens once; then all processes that wait for it go on."""

    def __init__(self) -> None:
        self.fired = False
        self.waiting: list[Process] = []


class Clock:
    """Runs processes in the order of simulated time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Process]] = []
        self._made = 0

    def start(self, process: Process, after_s: float = 0.0) -> None:
        """Let a process go on."""
        self._made += 1
        heapq.heappush(self._events, (self.now + after_s, self._made, process))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            self.now, _, process = heapq.heappop(self._events)
            self._step(process)

    def _step(self, process: Process) -> None:
        for what, given in process:
            if what == "sleep":
                self.start(process, given)
                return
            if what == "fire":
                given.fired = True
                for waiting in given.waiting:
                    self.start(waiting)
                given.waiting.clear()
            elif not given.fired:
                given.waiting.append(process)
                return


class Server:
    """Serves one request at a time, in order."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._free_at = clock, 0.0
        self.busy_s = 0.0

    def until_done(self, seconds: float) -> float:
        """Seconds from now until a request of that length is served."""
        begins = max(self._clock.now, self._free_at)
        self._free_at = begins + seconds
        self.busy_s += seconds
        return self._free_at - self._clock.now


class League:
    """The model.

    Args:
        rates: measured.
        design: of the league.
        workers: how many play.
        updates: how many are played.
        seed: of the matches' lengths.
    """

    def __init__(
        self, rates: Rates, design: Design, workers: int, updates: int, seed: int = 0
    ) -> None:
        self._rates, self._design, self._workers, self._updates = rates, design, workers, updates
        self._rng = np.random.default_rng([seed, workers])
        self._clock = Clock()
        self._process, self._link = Server(self._clock), Server(self._clock)
        self._buffer = Server(self._clock)
        self._busy_s, self._writing = {"league": 0.0, "store": 0.0}, False
        self._reports: list[tuple[int, int, Signal]] = []
        self._left = [rates.matches * workers for _ in range(updates)]
        self._unplayed = list(self._left)
        self._unread = list(self._left)
        self._played = [Signal() for _ in range(updates)]
        self._read = [Signal() for _ in range(updates)]
        self._learned = [Signal() for _ in range(updates)]
        self._waits: dict[str, float] = defaultdict(float)
        self._playing_s = 0.0
        self._arrival_s = [0.0] * updates
        self._last_s = 0.0

    def run(self) -> Outcome:
        """Play all updates."""
        self._clock.start(self._trainer())
        for _ in range(self._workers):
            self._clock.start(self._worker())
        self._clock.run()
        whole = self._last_s * self._workers
        waits = {name: self._waits[name] / whole for name in WAITS}
        return Outcome(
            design=self._design.name,
            workers=self._workers,
            matches_per_s=self._rates.matches * self._workers * self._updates / self._last_s,
            of_linear=1.0,
            playing=self._playing_s / whole,
            bottleneck="",
            waits=waits,
            busy={
                **{name: busy_s / self._last_s for name, busy_s in self._busy_s.items()},
                "buffer": self._buffer.busy_s / self._last_s,
                "link": self._link.busy_s / self._last_s,
            },
        )

    def _worker(self) -> Process:
        rates, design = self._rates, self._design
        for update in range(self._updates):
            if (needs := update - 1 - design.ahead) >= 0:
                began = self._clock.now
                yield "wait", self._played[needs]
                self._wait("stragglers", began)
                began = self._clock.now
                yield "wait", self._read[needs]
                self._wait("buffer", began)
                began = self._clock.now
                yield "wait", self._learned[needs]
                self._wait("learning", began)
                if (seconds := self._arrival_s[needs] - self._clock.now) > 0:
                    self._waits["weights"] += seconds
                    yield "sleep", seconds
            while self._left[update]:
                count = min(design.lease, self._left[update])
                self._left[update] -= count
                self._busy_s["league"] += count * rates.lease_s
                seconds = self._process.until_done(count * rates.lease_s) + rates.round_trip_s
                self._waits["league"] += seconds
                yield "sleep", seconds
                seconds = self._match_s(count)
                self._playing_s += seconds
                yield "sleep", seconds
                began = self._clock.now
                stored = Signal()
                self._report(update, count, stored)
                if not design.grouped:
                    yield "wait", stored
                    self._wait("store", began)

    def _match_s(self, count: int) -> float:
        rates = self._rates
        tail = self._rng.lognormal(-(rates.sigma**2) / 2, rates.sigma, count).sum()
        return float(rates.match_s * tail)

    # --- the store ---------------------------------------------------------------------------

    def _report(self, update: int, count: int, stored: Signal) -> None:
        self._reports.append((update, count, stored))
        if not self._writing:
            self._writing = True
            self._clock.start(self._writer())

    def _writer(self) -> Process:
        while self._reports:
            taken = len(self._reports) if self._design.grouped else 1
            batch, self._reports = self._reports[:taken], self._reports[taken:]
            rows = sum(count for _, count, _ in batch)
            seconds = self._rates.transaction_s + rows * self._rates.row_s
            self._busy_s["store"] += seconds
            yield "sleep", self._process.until_done(seconds)
            for update, count, stored in batch:
                yield "fire", stored
                self._unplayed[update] -= count
                self._clock.start(self._pass_on(update, count))
                if not self._unplayed[update]:
                    yield "fire", self._played[update]
        self._writing = False

    def _pass_on(self, update: int, count: int) -> Process:
        """Let matches through the buffer."""
        yield "sleep", self._buffer.until_done(count * self._rates.buffer_s)
        self._unread[update] -= count
        if not self._unread[update]:
            yield "fire", self._read[update]

    # --- the trainer -------------------------------------------------------------------------

    def _trainer(self) -> Process:
        rates, design = self._rates, self._design
        hosts = math.ceil(self._workers / design.hosts_of)
        transfers = math.ceil(math.log2(hosts + 1)) if design.relayed else hosts
        share = 1 if design.trainers is None else self._workers / design.trainers
        for update in range(self._updates):
            yield "wait", self._read[update]
            self._last_s = self._clock.now
            yield "sleep", rates.learn_s * share
            seconds = transfers * rates.version_bytes / rates.link_bytes_per_s
            self._arrival_s[update] = self._clock.now + self._link.until_done(seconds)
            yield "fire", self._learned[update]

    def _wait(self, what: str, began: float) -> None:
        self._waits[what] += self._clock.now - began


# --- the table -----------------------------------------------------------------------------------


def simulate(rates: Rates, workers: Sequence[int], updates: int) -> list[Outcome]:
    """All designs at all sizes."""
    outcomes = []
    for design in DESIGNS:
        one = League(rates, design, 1, updates).run()
        for size in workers:
            outcome = League(rates, design, size, updates).run()
            linear = outcome.matches_per_s / size / one.matches_per_s
            grown = {
                name: wait / outcome.playing - one.waits[name] / one.playing
                for name, wait in outcome.waits.items()
            }
            worst = max(grown, key=lambda name: grown[name])
            outcomes.append(
                replace(outcome, of_linear=linear, bottleneck=worst if linear < 0.9 else "none")
            )
    return outcomes


def plot(outcomes: list[Outcome], rates: Rates, path: Path) -> None:
    """Matches per second by workers, one line a design, beside the workers' own limit."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    sizes = sorted({outcome.workers for outcome in outcomes})
    axes.plot(sizes, [size / rates.match_s for size in sizes], "k:", label="limit of the workers")
    for design in DESIGNS:
        own = [o for o in outcomes if o.design == design.name]
        axes.plot(
            [o.workers for o in own], [o.matches_per_s for o in own], marker="o", label=design.name
        )
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="matches per second (simulated)")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: give a number of 0 or more")
    return value


def _above_0(text: str) -> float:
    if not _not_negative(text):
        raise argparse.ArgumentTypeError(f"{text}: give a number above 0")
    return float(text)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--sigma", type=_not_negative, default=0.6, help="tail of a match's length")
    parser.add_argument(
        "--learn-s", type=_not_negative, help="seconds of learning; measured by default"
    )
    parser.add_argument("--match-s", type=_above_0, help="seconds of a match; measured by default")
    parser.add_argument("--plot", type=Path, help="also write a figure to this file")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    if min(options.workers) < 1 or options.updates < 1:
        parser.error("give at least 1 worker and 1 update")
    for path in (options.plot, options.json):
        if path is not None and not path.absolute().parent.is_dir():
            parser.error(f"{path}: no such folder")
    rates = measured(options.sigma)
    for name in ("learn_s", "match_s"):
        if (given := getattr(options, name)) is not None:
            rates = replace(rates, **{name: given})
    outcomes = simulate(rates, options.workers, options.updates)
    print(
        f"{'design':>27} {'workers':>7} {'matches/s':>9} {'of linear':>9} {'playing':>7} "
        + " ".join(f"{name:>10}" for name in WAITS)
        + f" {'bottleneck':>10} {'busy: league':>12} {'store':>6} {'buffer':>6} {'link':>6}"
    )
    for outcome in outcomes:
        print(
            f"{outcome.design:>27} {outcome.workers:7} {outcome.matches_per_s:9,.0f} "
            f"{outcome.of_linear:9.0%} {outcome.playing:7.1%} "
            + " ".join(f"{outcome.waits[name]:10.1%}" for name in WAITS)
            + f" {outcome.bottleneck:>10} {outcome.busy['league']:12.1%} "
            f"{outcome.busy['store']:6.1%} {outcome.busy['buffer']:6.1%} {outcome.busy['link']:6.1%}"
        )
    if options.plot:
        plot(outcomes, rates, options.plot)
    if options.json:
        record = {
            "rates": asdict(rates),
            "updates": options.updates,
            "outcomes": [asdict(outcome) for outcome in outcomes],
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
