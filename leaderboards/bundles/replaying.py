"""Play recorded matches again in processes of their own, from only seed and replies."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import queue
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from leaderboards.contents.record import MatchRecord
from leaderboards.protocol import BOT
from srl_agents.coordination.wire import from_bytes, to_bytes
from srl_agents.interrupts import terminal_ignored_by_children
from srl_agents.records import canonical_json
from srl_agents.rollouts.match import bot_seed
from srl_envs import make, make_bot
from srl_envs.api.episode import Transcript, play
from srl_envs.child_imports import safe_children
from srl_envs.errors import SandboxError, SRLError, TranscriptError
from srl_envs.registry import Policy

_AHEAD = 32
"""Matches that wait per process."""
_END_S = 10.0
"""Seconds for a process to end once its pipe is closed."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Outcome of replaying one match."""

    fault: str
    """Why the record does not replay; empty where it does."""
    impostor: str
    """The first reply of a bot that the bot does not give; empty where it gives all of them."""
    observations: dict[int, tuple[str, ...]]
    """Seat of a model -> what it was shown at each of its turns."""


def replay_all(
    records: Iterable[MatchRecord], *, workers: int = 1
) -> Iterator[tuple[MatchRecord, Replay]]:
    """Replay in fresh processes, in order; at most a few records per process are in memory.

    Bots act again, and their replies are compared: a record cannot let one blunder.

    Args:
        records: any number.
        workers: number of processes; 0 replays in this one.

    Raises:
        SandboxError: a process died, or an environment cannot run here.
    """
    if workers == 0:
        yield from ((record, replay_match(record)) for record in records)
        return
    children = _Children(workers)
    pool = ThreadPoolExecutor(workers)
    try:
        source = iter(records)
        waiting: list[tuple[MatchRecord, Future[Replay]]] = []
        while True:
            free = _AHEAD * workers - len(waiting)
            waiting += [(r, pool.submit(children.replay, r)) for r in islice(source, free)]
            if not waiting:
                return
            record, future = waiting.pop(0)
            yield record, future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        children.close()
        pool.shutdown()


class _Children:
    """Processes that replay, each one match at a time; what they answer is read as JSON.

    Args:
        count: number of processes, and most calls of `replay` at once.
    """

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._free: queue.SimpleQueue[tuple[Any, Connection]] = queue.SimpleQueue()
        self._all: list[tuple[Any, Connection]] = []
        with safe_children(), terminal_ignored_by_children():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs,), daemon=True)
                process.start()
                theirs.close()
                self._all.append((process, ours))
                self._free.put((process, ours))

    def replay(self, record: MatchRecord) -> Replay:
        """Replay in a free process; waits for one.

        Raises:
            SandboxError: the process died, or the environment cannot run here.
        """
        process, pipe = self._free.get()
        try:
            # a replay reads which seats have tokens, and not the tokens
            lean = replace(record, tokens=dict.fromkeys(record.tokens, ()), served={})
            pipe.send_bytes(to_bytes(lean))
            answer = from_bytes(pipe.recv_bytes())
        except (EOFError, OSError):
            process.join(_END_S)
            raise SandboxError(
                f"a process that replays matches ended with exit code {process.exitcode}. Run again with "
                "workers=0 to see why."
            ) from None
        finally:
            self._free.put((process, pipe))
        if isinstance(answer, Replay):
            return answer
        raise SandboxError(str(answer))

    def close(self) -> None:
        """End all processes; one that is still replaying is killed."""
        with contextlib.suppress(queue.Empty):
            while True:
                _, pipe = self._free.get_nowait()
                pipe.close()
        for process, pipe in self._all:
            if not pipe.closed:
                process.kill()
            process.join(_END_S)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(pipe: Connection) -> None:
    """Answer each record with its `Replay`, or with the words of a `SandboxError`, until the pipe closes."""
    while True:
        try:
            record = from_bytes(pipe.recv_bytes())
        except EOFError:
            return
        answer: Replay | str
        try:
            answer = replay_match(record)
        except SandboxError as error:
            answer = str(error)
        pipe.send_bytes(to_bytes(answer))


def replay_match(record: MatchRecord) -> Replay:
    """Replay in this process.

    Raises:
        SandboxError: the environment's own machinery failed.
    """
    spec, claimed = record.spec, record.transcript  # the result follows from it: L0
    seen: dict[int, list[str]] = {seat: [] for seat in record.tokens}
    players: dict[int, Policy] = {}
    compared: list[_Compared] = []
    for seat, agent in enumerate(spec.seats):
        player: Policy = _Recorded(claimed, seat, seen.get(seat))
        if agent.startswith(BOT):
            bot = make_bot(spec.env_id, agent.removeprefix(BOT), bot_seed(spec, seat))
            player = _Compared(player, bot, f"seat {seat} ({agent})")
            compared.append(player)
        players[seat] = player
    env = _env(spec.env_id, canonical_json(spec.options))
    try:
        again = play(env, players, spec.seed, split=spec.split)
    except SandboxError:
        raise
    except SRLError as error:
        return Replay(str(error), "", {})
    fault = transcript_difference(claimed, again)
    impostor = next((c.difference for c in compared if c.difference), "")
    return Replay(fault, impostor, {seat: tuple(texts) for seat, texts in seen.items()})


def transcript_difference(claimed: Transcript, true: Transcript) -> str:
    """First difference between two play-throughs; empty where they are equal."""
    for number, (one, other) in enumerate(zip(claimed.steps, true.steps, strict=False)):
        for item in fields(one):
            if getattr(one, item.name) != getattr(other, item.name):
                return (
                    f"step {number}: {item.name} are claimed as {getattr(one, item.name)} and are "
                    f"{getattr(other, item.name)}"
                )
    if len(claimed.steps) != len(true.steps):
        return f"the game ends after {len(true.steps)} steps, the record has {len(claimed.steps)}"
    for item in fields(claimed):
        one, other = getattr(claimed, item.name), getattr(true, item.name)
        if item.name == "digest" and one != other:
            return "what the seats were shown differs (digest)"
        if item.name != "steps" and one != other:
            return f"{item.name} is claimed as {one} and is {other}"
    return ""


class _Recorded:
    """Gives the replies of one seat, in order."""

    def __init__(self, transcript: Transcript, seat: int, seen: list[str] | None) -> None:
        self._replies = iter(
            [step.replies[seat] for step in transcript.steps if seat in step.replies]
        )
        self._seat, self._seen = seat, seen

    def __call__(self, text: str) -> str:
        if self._seen is not None:
            self._seen.append(text)
        reply = next(self._replies, None)
        if reply is None:
            raise TranscriptError(
                f"the record ends before the game does: seat {self._seat} is on move"
            )
        return reply


class _Compared:
    """Gives the recorded reply, and keeps the first that the bot would not have given."""

    def __init__(self, recorded: Policy, bot: Policy, name: str) -> None:
        self._recorded, self._bot, self._name = recorded, bot, name
        self._turn = 0
        self.difference = ""

    def __call__(self, text: str) -> str:
        recorded = self._recorded(text)
        said = recorded if self.difference else self._bot(text)
        if recorded != said:
            self.difference = (
                f"{self._name}, turn {self._turn}: the bot replies {said[:60]!r}, the record has "
                f"{recorded[:60]!r}"
            )
        self._turn += 1
        return recorded


@lru_cache(maxsize=4)
def _env(env_id: str, options_json: str) -> Any:
    return make(env_id, **json.loads(options_json))
