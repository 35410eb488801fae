"""The buffer between generation and learning: orders of matches, and the matches played, in a folder.

An order is the matches of one update. One process writes orders and learns, another plays them and adds
each match that ends. Either may be killed at any moment: an order is there whole or not at all, a match
likewise, a match that was written twice counts once, and a process that restarts reads what is left.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from srl_agents.caching.simulation.traces import Request
from srl_agents.records import Episode, MatchSpec, WeightUpdate
from srl_agents.rollouts.record_frames import (
    AddedFrames,
    Framed,
    add_frame,
    frame_of,
    read_frames,
    read_record,
)
from srl_envs.errors import ModelError, StoreError, file_fault

_ORDER, _PLAYED = ".order.json", ".played.frames"
_NUMBER = re.compile("[0-9]{6,}")
Group = tuple[MatchSpec, ...]
"""The attempts of one start state: they leave the buffer together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchOrder:
    """Matches to be played for one update."""

    number: int
    """Number of the update, from 1."""
    specs: tuple[MatchSpec, ...]
    """Matches to play, in whole groups."""
    spares: tuple[MatchSpec, ...] = ()
    """Whole groups, of which some are played where others turned out flat."""
    players: dict[str, str] = field(default_factory=dict)
    """Agent id -> learner, of the versions that learn from it."""
    updates: tuple[WeightUpdate, ...] = ()
    """Where the weights of its seats are."""

    @property
    def match_ids(self) -> tuple[str, ...]:
        """Ids of all matches, spares last."""
        return tuple(spec.match_id for spec in (*self.specs, *self.spares))

    @property
    def versions(self) -> frozenset[str]:
        """Ids whose weights it needs."""
        return frozenset(str(update.version) for update in self.updates)


@dataclass(slots=True)
class Played:
    """Matches of one order that were played so far, for one reader."""

    frames: AddedFrames | None = None
    """File that they are added to; None for a reader of what it receives."""
    episodes: dict[str, Episode] = field(default_factory=dict)
    """Match id -> its episode."""
    requests: dict[str, list[Request]] = field(default_factory=dict)
    """By match id; of matches whose requests are traced."""
    rounds: list[list[float]] = field(default_factory=list)
    """[began, ended] of the times at which it was played, `time.monotonic` seconds of the machine."""
    resting: bool = True
    """Whether the last round was ended and not cut off."""

    def refresh(self) -> int:
        """Read what was added; returns the number of matches that are new."""
        return 0 if self.frames is None else self._take(self.frames.more())

    def take(self, frames: bytes) -> int:
        """Read matches that are not in the reader's file; returns the number of those that are new.

        Args:
            frames: from `frames_of`, or a buffer's file.

        Raises:
            ModelError: it is not made of whole frames.
        """
        values, read = read_frames(frames)
        if read != len(frames):
            raise ModelError(
                "matches arrived damaged, or in frames of another installation. Give all machines one "
                "version of SRL and pyarrow."
            )
        return self._take(values)

    def _take(self, values: Iterable[Framed]) -> int:
        before = len(self.episodes)
        for framed in values:
            plain = framed.plain
            if "began" in plain:
                self.rounds.append([plain["began"], plain["began"]])
                self.resting = False
                continue
            if self.rounds and "ended" in plain:
                self.rounds[-1][1] = max(self.rounds[-1][1], plain["ended"])
            self.resting = not ("episode" in plain or plain.get("goes_on"))
            if "episode" in plain:
                episode = framed.record(Episode, plain["episode"])
                name = episode.spec.match_id
                if name not in self.episodes:
                    self.episodes[name] = episode
                    self.requests[name] = [
                        framed.record(Request, request) for request in plain["requests"]
                    ]
        return len(self.episodes) - before


class MatchBuffer:
    """One run's buffer.

    Args:
        folder: only for this buffer; made if absent.
        most_waiting: orders that may be there and not yet be learned from.

    Raises:
        StoreError: there cannot be such a folder.
    """

    def __init__(self, folder: Path, most_waiting: int) -> None:
        self.folder, self._most_waiting = folder, most_waiting
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{file_fault(error, folder)}.") from None

    # --- orders ------------------------------------------------------------------------------

    def order(self, order: MatchOrder, *, learned: int) -> None:
        """Ask for the matches of an update.

        Where the same matches were ordered before, what was played of them stays.

        Args:
            order: what to play.
            learned: last update that was learned from.

        Raises:
            StoreError: the buffer is full, or the update was learned from already.
        """
        if not learned < order.number <= learned + self._most_waiting:
            raise StoreError(
                f"update {order.number} cannot be ordered after update {learned}: the buffer holds "
                f"{self._most_waiting} that wait."
            )
        known = self.find(order.number)
        if known is not None and known.match_ids != order.match_ids:
            self.forget(order.number)
        path = self._path(order.number, _ORDER)
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(asdict(order), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def numbers(self) -> list[int]:
        """Of the orders that are there; other files in the folder are left out."""
        names = (path.name.removesuffix(_ORDER) for path in self.folder.glob(f"*{_ORDER}"))
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def find(self, number: int) -> MatchOrder | None:
        """An order, if it is there.

        Raises:
            StoreError: something else is there.
        """
        path = self._path(number, _ORDER)
        try:
            return read_record(MatchOrder, json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{file_fault(error, path)}.") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StoreError(
                f"{path} is not an order of matches ({type(error).__name__}: {error}). "
                "Delete it: its matches are ordered again."
            ) from None

    def versions(self) -> set[str]:
        """Ids of the versions that the orders name."""
        orders = [self.find(number) for number in self.numbers()]
        return {name for order in orders if order is not None for name in order.versions}

    def forget(self, number: int) -> None:
        """Drop what was played of an order, then the order: no lines stay without one."""
        for kind in (_PLAYED, _ORDER):
            self._path(number, kind).unlink(missing_ok=True)

    def acknowledge(self, done: int) -> None:
        """Drop everything up to an update: a checkpoint holds what was learned from it."""
        for number in self.numbers():
            if number <= done:
                self.forget(number)

    # --- matches -----------------------------------------------------------------------------

    def played(self, number: int) -> Played:
        """A reader of what was played of an order."""
        return Played(AddedFrames(self._path(number, _PLAYED)))

    def begin(self, number: int, now_s: float) -> None:
        """Note that an order's matches are being played from now on."""
        add_frame(self._path(number, _PLAYED), [{"began": now_s}])

    def add(
        self,
        number: int,
        episodes: Sequence[Episode],
        now_s: float,
        requests: Sequence[Request] = (),
    ) -> None:
        """Keep matches that ended, all by one write.

        Args:
            number: of their order.
            episodes: to keep; none is fine.
            now_s: `time.monotonic` seconds.
            requests: of the match, where they are traced and there is only one.
        """
        rows = [{"ended": now_s, "episode": each, "requests": requests} for each in episodes]
        if rows:
            add_frame(self._path(number, _PLAYED), rows)

    def add_frames(self, number: int, frames: bytes, now_s: float) -> None:
        """Keep matches that ended elsewhere, as they arrived.

        Args:
            number: of their order.
            frames: from `frames_of`.
            now_s: `time.monotonic` seconds of this machine.
        """
        add_frame(self._path(number, _PLAYED), [{"ended": now_s, "goes_on": True}], before=frames)

    def frames(self, number: int) -> bytes:
        """All that was played of an order until now, for another process to `Played.take`."""
        try:
            return self._path(number, _PLAYED).read_bytes()
        except FileNotFoundError:
            return b""

    def rest(self, number: int, now_s: float) -> None:
        """Note that nothing of an order is being played any more."""
        add_frame(self._path(number, _PLAYED), [{"ended": now_s}])

    def _path(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:06d}{kind}"


def frames_of(episodes: Sequence[Episode]) -> bytes:
    """Matches as the frames in which a buffer keeps them; without times, as each machine has its own."""
    return frame_of([{"episode": each, "requests": ()} for each in episodes]) if episodes else b""


def groups_of(specs: Sequence[MatchSpec]) -> list[Group]:
    """Attempts of one start state together."""
    groups: dict[tuple[str, int], list[MatchSpec]] = defaultdict(list)
    for spec in specs:
        groups[spec.schedule, spec.number].append(spec)
    return [tuple(group) for group in groups.values()]


def is_flat(group: Iterable[Episode]) -> bool:
    """Whether no learning seat was paid differently in two attempts: nothing can be learned from it."""
    paid: dict[int, set[float]] = defaultdict(set)
    for episode in group:
        if episode.valid:
            for seat in episode.spec.learner_seats:
                paid[seat].add(episode.trajectories[seat].total_reward)
    return all(len(rewards) < 2 for rewards in paid.values())
