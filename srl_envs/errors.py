"""Every exception a user may catch. Each derives from `SRLError` and the matching built-in."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike, fsdecode
from typing import Any


class SRLError(Exception):
    """Base of all errors that SRL raises on purpose; its text names what was given and what to do."""

    @property
    def faults(self) -> tuple[str, ...]:
        """Texts of the separate mistakes that the error reports, one line each."""
        return (str(self),)


class ConfigError(SRLError, ValueError):
    """Settings have an unknown name, a wrong type or an impossible value; one argument per mistake."""

    def __str__(self) -> str:
        """One line per mistake."""
        return "\n".join(map(str, self.args))

    @property
    def faults(self) -> tuple[str, ...]:
        """See `SRLError`."""
        return tuple(map(str, self.args))


class ForeignCodeError(ConfigError):
    """A file names code from outside SRL, and the process refuses such code."""


def add_advice(error: SRLError, advice: str) -> None:
    """Add sentences to the end of an error's text; a `ConfigError` has advice already, and stays."""
    if not isinstance(error, ConfigError):
        error.args = (f"{error} {advice}",)


def within(place: str, error: SRLError) -> ConfigError:
    """The mistakes of a part, each with its place in front."""
    return ConfigError(*(f"{place}: {fault}" for fault in error.faults))


def gather(*checks: Callable[[], object]) -> None:
    """Run every check and raise their mistakes together.

    Args:
        checks: functions that raise `SRLError` where something is wrong.

    Raises:
        SRLError: the only check that failed raised it.
        ConfigError: several failed; each mistake stands in it once.
    """
    errors: list[SRLError] = []
    for check in checks:
        try:
            check()
        except SRLError as error:
            errors.append(error)
    raise_all(errors)


def raise_all(errors: Sequence[SRLError]) -> None:
    """Raise a single error as it is, and several as one `ConfigError` with every distinct mistake."""
    faults = dict.fromkeys(fault for error in errors for fault in error.faults)
    if len(faults) == 1 or len(errors) == 1:
        raise errors[0]
    if faults:
        raise ConfigError(*faults)


class UnknownEnvironmentError(SRLError, LookupError):
    """No environment is registered under this id."""


class UnknownPolicyError(SRLError, LookupError):
    """No bot, model or file answers to this policy name."""


class IllegalMoveError(SRLError, ValueError):
    """A game's `parse` refuses an action; the text is shown to the seat that made it."""


class InvalidActionError(SRLError, TypeError):
    """The caller of `step` passed an invalid reply: not text, or none for a seat on move."""


class PolicyError(SRLError, RuntimeError):
    """A policy raised instead of replying: its episode is void, and no seat is charged."""


class EpisodeOverError(SRLError, RuntimeError):
    """`step` was called before `reset` or after the episode ended."""


class TranscriptError(SRLError, ValueError):
    """A recorded episode cannot be read, or does not replay to what it claims."""


class SandboxError(SRLError, RuntimeError):
    """The code executor cannot do its work; the program it should have run is not at fault."""


class VectorError(SRLError, RuntimeError):
    """A vector of environments cannot go on: a worker is gone, or an environment starts no more."""


class NeighbourError(SandboxError):
    """Code of another package failed inside an episode, which is void; no seat is at fault."""


class ShapeError(SRLError, ValueError):
    """Arrays that belong together differ in shape."""


class StoreError(SRLError, RuntimeError):
    """A store on disk refuses a write or cannot be opened."""


class CheckpointError(SRLError, RuntimeError):
    """A checkpoint is incomplete, damaged or belongs to another run."""


class ModelError(SRLError, RuntimeError):
    """A language model cannot be found, fetched or loaded, or its weights are broken."""


class CallbackError(SRLError, RuntimeError):
    """A callback or a sink that the caller of a run gave raised; its exception is the cause."""


class FaultError(ModelError):
    """Training has gone wrong in a way that has a name.

    Args:
        message: what happened, and what to do.
        fault: its name in the table of faults, ``docs/reference/faults.md``.
        learner: whose; empty where it is the run's.
        since: the first update that it spoiled; None where it is the present one.
    """

    def __init__(
        self, message: str, *, fault: str, learner: str = "", since: int | None = None
    ) -> None:
        super().__init__(message)
        self.fault, self.learner, self.since = fault, learner, since

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors of other processes arrive as bytes."""
        made = partial(FaultError, fault=self.fault, learner=self.learner, since=self.since)
        return made, (str(self),)


class MemoryLimitError(SRLError, MemoryError):
    """A model's work does not fit into memory; the text names the work and what to lower."""


class ReplyRoomError(MemoryLimitError):
    """A single reply needs more memory than is available; a smaller batch would not help."""


class LostReplyError(ModelError):
    """One reply of an endpoint did not come, however often it was asked for; the next one may."""


class UnknownVersionError(ModelError, LookupError):
    """An engine was asked for a version that is not installed on it, or was retired."""


class DeadlineError(SRLError, TimeoutError):
    """An operation exceeded its time limit; the text names the operation and the limit."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint of the form `` Did you mean 'x'?``, empty when nothing is close.

    Args:
        name: what the user wrote.
        known: every valid name.
    """
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def file_fault(error: OSError, near: str | PathLike[str]) -> str:
    """``PATH: cause``, without the number of the error.

    Args:
        error: from working on a file.
        near: what was worked on; said where the error names no file, as a full disk does not.
    """
    named = error.filename
    path = str(near) if named is None or isinstance(named, int) else fsdecode(named)
    if error.filename2 is not None:
        path = f"{path} to {fsdecode(error.filename2)}"
    return f"{path}: {error.strerror or error or type(error).__name__}"
