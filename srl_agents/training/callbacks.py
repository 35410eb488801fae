"""What a caller of `srl_agents.train` adds to a run: callbacks, which may stop it, and sinks of its records.

Both are called between updates, when the last one is finished and kept. A callback or sink that raises
therefore ends the run without losing an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from srl_agents.metrics import Record, Sink
from srl_envs.errors import CallbackError, ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStart:
    """Report to callbacks that a run begins or continues."""

    folder: Path
    """Folder of the run."""
    done: int
    """Updates that earlier calls finished."""
    updates: int
    """Updates of the whole run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateReport:
    """One finished update. After a roll-back the same update is reported again."""

    folder: Path
    """Folder of the run."""
    update: int
    """Updates done so far."""
    updates: int
    """Updates of the whole run."""
    run: Mapping[str, float]
    """Metrics of the run as a whole, by the names in `srl_agents.metrics.MEANINGS`."""
    learners: Mapping[str, Mapping[str, float]]
    """Learner -> its metrics, by the same names."""
    stop: Callable[[str], None]
    """Ends the run after this update, with a checkpoint to go on from; takes the reason in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEnd:
    """Report to callbacks that a run ended in this process."""

    folder: Path
    """Folder of the run."""
    done: int
    """Updates done so far."""
    updates: int
    """Updates of the whole run."""
    stopped: str
    """Reason that a callback gave for ending it; empty where none did."""
    error: str
    """Type and message of the exception that ended it; empty where there was none."""


class RunCallback:
    """Base of callbacks with more than one moment; a plain function is called after each update.

    In a run of several processes only the first one calls callbacks.
    """

    def begin(self, start: RunStart) -> None:
        """Called once, before the first update."""

    def update(self, report: UpdateReport) -> None:
        """Called after each update."""

    def end(self, end: RunEnd) -> None:
        """Called once after `begin`, also where an exception ended the run."""


Callback = RunCallback | Callable[[UpdateReport], object]


@dataclass
class Listeners:
    """Calls callbacks and sinks of one call of `srl_agents.train`.

    Args:
        callbacks: called in this order.
        sinks: take each update's record before the callbacks see it; closed at the end.
        calls: False in processes that only follow the first one.

    Raises:
        ConfigError: one of them cannot be called.
    """

    callbacks: Sequence[Callback] = ()
    sinks: Sequence[Sink] = ()
    calls: bool = True
    stopped: str = ""
    """Reason for ending the run after the present update; empty to go on."""
    _begun: RunStart | None = field(default=None, init=False)
    _record: Record | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for given in self.callbacks:
            if isinstance(given, type) or not (isinstance(given, RunCallback) or callable(given)):
                raise ConfigError(
                    f"callbacks: {given!r}: give a function of an UpdateReport, or an object of a class that "
                    "derives from srl_agents.RunCallback."
                )
        for sink in self.sinks:
            if isinstance(sink, type) or not (hasattr(sink, "write") and hasattr(sink, "close")):
                raise ConfigError(
                    f"sinks: {sink!r}: give an object with write(record) and close(); "
                    "srl_agents.metrics.Sink describes them."
                )

    def __bool__(self) -> bool:
        return bool(self.callbacks or self.sinks)

    # --- a sink of the run ---------------------------------------------------------------------

    def write(self, record: Record) -> None:
        """Keep the record until the update is finished."""
        self._record = record

    def close(self) -> None:
        """Close nothing: an attempt that ends may be followed by another one."""

    # --- moments -------------------------------------------------------------------------------

    def begin(self, folder: Path, done: int, updates: int) -> None:
        """An attempt at the run begins; callbacks hear of the first one.

        Raises:
            CallbackError: a callback raised.
        """
        if self._begun is not None:
            return
        self._begun = RunStart(folder=folder, done=done, updates=updates)
        for callback in self._objects():
            _call(callback, callback.begin, self._begun)

    def finished(self, folder: Path) -> None:
        """An update is finished: give its record to sinks and callbacks.

        Raises:
            CallbackError: one of them raised.
        """
        record, self._record = self._record, None
        if record is None or not self.calls:
            return
        for sink in self.sinks:
            _call(sink, sink.write, record)
        report = UpdateReport(
            folder=folder,
            update=record.update,
            updates=record.updates,
            run=record.run,
            learners=record.learners,
            stop=self._stop,
        )
        self._begun = RunStart(folder=folder, done=record.update, updates=record.updates)
        for callback in self.callbacks:
            _call(
                callback,
                callback.update if isinstance(callback, RunCallback) else callback,
                report,
            )

    @contextmanager
    def ending(self) -> Iterator[None]:
        """At the end of the inside, close sinks and end callbacks.

        Raises:
            CallbackError: one of them raised, and nothing had ended the run before.
        """
        try:
            yield
        except BaseException as error:
            try:
                self._end(f"{type(error).__name__}: {error}")
            except CallbackError as also:
                error.add_note(str(also))
            raise
        self._end("")

    def _end(self, error: str) -> None:
        last = self._begun
        if last is None or not self.calls:
            return
        end = RunEnd(
            folder=last.folder,
            done=last.done,
            updates=last.updates,
            stopped=self.stopped,
            error=error,
        )
        calls: list[tuple[object, Callable[[], None]]] = [(s, s.close) for s in self.sinks]
        calls += [(callback, partial(callback.end, end)) for callback in self._objects()]
        faults: list[CallbackError] = []
        for owner, work in calls:
            try:
                _call(owner, work)
            except CallbackError as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def _stop(self, reason: str) -> None:
        self.stopped = reason or "a callback stopped it"

    def _objects(self) -> list[RunCallback]:
        return [c for c in self.callbacks if isinstance(c, RunCallback)] if self.calls else []


def _call(owner: object, work: Callable[..., object], *arguments: object) -> None:
    """Call foreign code; what it raises names its owner."""
    try:
        work(*arguments)
    except Exception as error:
        raise CallbackError(f"{_name(owner)} raised {type(error).__name__}: {error}") from error


def _name(owner: object) -> str:
    """What an error calls a callback or a sink."""
    named = owner if hasattr(owner, "__qualname__") else type(owner)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"
