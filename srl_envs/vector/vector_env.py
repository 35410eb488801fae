"""The vector: one list of texts out, one list of replies in, in this process or in workers."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from srl_envs.errors import (
    ConfigError,
    EpisodeOverError,
    InvalidActionError,
    SRLError,
    VectorError,
)
from srl_envs.registry import adopt, spec
from srl_envs.vector.batch import TERMINATED, TRUNCATED, VOID, EnvBatch, Infos, Report
from srl_envs.vector.worker import factory
from srl_envs.vector.worker_process import WorkerProcess


class VectorStep:
    """What `VectorEnv.reset` and `VectorEnv.step` return.

    Array names end in their axes: E environments, N seats.
    """

    __slots__ = ("_infos", "_late_infos", "endings_E", "on_move", "rewards_EN", "texts")

    def __init__(
        self,
        reports: Sequence[tuple[Any, ...]],
        seats: int,
        infos: list[Infos],
        late_infos: Callable[[], list[bytes]] | None,
    ) -> None:
        self.on_move: list[tuple[int, int]] = [key for report in reports for key in report[0]]
        """(environment, seat) of every seat that must reply now."""
        self.texts: list[str] = [text for report in reports for text in report[1]]
        """What those seats see, in the same order."""
        rewards = b"".join(report[2] for report in reports)
        self.rewards_EN: NDArray[np.float64] = np.frombuffer(rewards).reshape(-1, seats)
        """(E, N) rewards of this step; NaN in the rows of void episodes."""
        self.endings_E: NDArray[np.uint8] = np.frombuffer(
            b"".join(report[3] for report in reports), dtype=np.uint8
        )
        """(E,) 0 running, 1 terminated, 2 truncated, 3 void."""
        self._infos = infos
        self._late_infos = late_infos

    @property
    def terminations_E(self) -> NDArray[np.bool_]:
        """(E,) True where an episode ended by its rules in this step, and the next one has begun."""
        return np.asarray(self.endings_E == TERMINATED, dtype=np.bool_)

    @property
    def truncations_E(self) -> NDArray[np.bool_]:
        """(E,) True where an episode was cut off in this step, and the next one has begun."""
        return np.asarray(self.endings_E == TRUNCATED, dtype=np.bool_)

    @property
    def voids_E(self) -> NDArray[np.bool_]:
        """(E,) True where the environment raised: leave the episode out instead of counting a 0."""
        return np.asarray(self.endings_E == VOID, dtype=np.bool_)

    @property
    def infos(self) -> list[Infos]:
        """Per environment and agent, as in the parallel view; unpacked when first looked at.

        Where an episode ended, the infos are those of the next one, and hold besides
        ``final_observation``, ``final_info`` and ``final_seed``; where it is void, ``env_error``
        (type and message) and ``final_seed``. ``failed_starts`` lists the errors of episodes that
        could not start.
        """
        if self._late_infos is not None:
            packed = self._late_infos()
            self._infos = [infos for part in packed for infos in pickle.loads(part)]
            self._late_infos = None
        return self._infos


class _LateInfos:
    """The infos of one step, which workers send after the rest."""

    def __init__(self, workers: Sequence[WorkerProcess]) -> None:
        self._workers = workers
        self._packed: list[bytes] | None = None

    def __call__(self) -> list[bytes]:
        """One pickle per worker; takes them from the connections the first time.

        Raises:
            VectorError: a worker is gone, or the first time was interrupted.
        """
        if self._packed is None:
            workers, self._workers = self._workers, ()
            if not workers:
                raise VectorError("the infos of this step were lost in an interruption.")
            self._packed = [worker.receive() for worker in workers]
        return self._packed


class VectorEnv:
    """``n`` environments in step; see `srl_envs.make_vec`, which makes it and names its arguments.

    >>> vec = srl_envs.make_vec("connect_four-v0", 8)       # doctest: +SKIP
    >>> now = vec.reset(seed=7)                             # doctest: +SKIP
    >>> now = vec.step([policy(text) for text in now.texts])  # doctest: +SKIP

    Raises:
        ConfigError: the number of environments or of workers is impossible, or an option is.
        UnknownEnvironmentError: no such id.
    """

    def __init__(
        self,
        env_id: str,
        n: int,
        *,
        workers: int = 0,
        pin_workers: bool = False,
        wrap: Callable[[Any], Any] | None = None,
        options: Mapping[str, Any],
    ) -> None:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigError(f"make_vec: n={n!r}; give the number of environments, 1 or more.")
        if isinstance(workers, bool) or not isinstance(workers, int) or not 0 <= workers <= n:
            raise ConfigError(
                f"make_vec: workers={workers!r}; give 0 (this process plays) to n={n}."
            )
        processors = _processors(workers) if pin_workers else []
        self.spec = spec(adopt(env_id))
        self.n = n
        self.workers: list[WorkerProcess] = []
        self._batch: EnvBatch | None = None
        self._finalizer = weakref.finalize(self, _close_all, self.workers)
        build = factory(self.spec.id, options, wrap)
        first = EnvBatch(build, range(n if not workers else 1))  # wrong options fail here
        env = first.env(0)
        self.possible_agents: list[str] = list(env.possible_agents)
        """Names of the seats, as in every view."""
        if workers:
            first.close()
            self._start(workers, options, wrap)
            for worker, processor in zip(self.workers, processors, strict=False):
                os.sched_setaffinity(worker.process.pid, {processor})
        else:
            self._batch = first
        self._root: int | None = None
        self._episode = self._steps = 0
        self._on_move: list[list[tuple[int, int]]] = []
        self._late_infos: _LateInfos | None = None
        self._closed = False

    def _start(
        self, workers: int, options: Mapping[str, Any], wrap: Callable[[Any], Any] | None
    ) -> None:
        try:
            for number in range(workers):
                share = range(number * self.n // workers, (number + 1) * self.n // workers)
                settings = (self.spec, dict(options), wrap, share)
                self.workers.append(WorkerProcess(number, settings))
            for worker in self.workers:
                worker.receive()
        except BaseException:
            self._finalizer()
            raise

    def reset(self, seed: int | None = None) -> VectorStep:
        """Start an episode in every environment.

        Args:
            seed: root of all episodes' seeds (`episode_seed`), so of everything that happens, however
                many workers there are; None goes on with the next episodes of the last root.

        Raises:
            ConfigError: the seed is not a whole number of 0 or more.
            VectorError: a worker is gone, or an environment cannot start.
        """
        if seed is not None and (not isinstance(seed, (int, np.integer)) or seed < 0):
            raise ConfigError(f"seed={seed!r}: give a whole number >= 0.")
        if seed is not None or self._root is None:
            self._root = int(np.random.SeedSequence().entropy % 2**63 if seed is None else seed)  # type: ignore[operator] # fresh entropy is one number
            self._episode = 0
        else:
            self._episode += self._steps + 1  # beyond every episode that a step may have started
        self._steps = 0
        share = ("reset", (self._root, self._episode))
        return self._exchange([share] * max(1, len(self.workers)))

    def step(self, replies: Sequence[str]) -> VectorStep:
        """Give one reply for each of the last ``on_move``, in its order.

        Raises:
            EpisodeOverError: called before `reset`.
            InvalidActionError: a reply is not text, or there are too few or too many; nothing changed.
            VectorError: a worker is gone, or an environment cannot start its next episode.
        """
        if not self._on_move:
            raise EpisodeOverError("no episode was started: call reset().")
        wanted = sum(map(len, self._on_move))
        if len(replies) != wanted:
            raise InvalidActionError(
                f"{len(replies)} replies for {wanted} seats on move; give one per text."
            )
        for reply in replies:
            if not isinstance(reply, str):
                raise InvalidActionError(f"a reply is {type(reply).__name__}; give text.")
        shares, at = [], 0
        for keys in self._on_move:
            shares.append(("step", (list(replies[at : at + len(keys)]),)))
            at += len(keys)
        self._steps += 1
        return self._exchange(shares)

    def close(self) -> None:
        """Close every environment and end every worker."""
        self._closed = True
        if self._late_infos is not None:
            with contextlib.suppress(SRLError):  # of a step whose infos the caller may still read
                self._late_infos()
        if self._batch is not None:
            self._batch.close()
        self._finalizer()

    def __reduce__(self) -> NoReturn:
        raise VectorError(
            "a vector of environments cannot be copied or pickled: its episodes may run in other "
            "processes. Make another one with srl_envs.make_vec and reset it with the same seed, or "
            "copy a single environment from srl_envs.make."
        )

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exchange(self, shares: Sequence[tuple[str, tuple[Any, ...]]]) -> VectorStep:
        if self._closed:
            raise VectorError("the vector is closed; make a new one with srl_envs.make_vec.")
        reports: list[tuple[Any, ...]]
        infos: list[Infos] = []
        try:
            if self._batch is not None:
                name, arguments = shares[0]
                report: Report = getattr(self._batch, name)(*arguments)
                reports, infos = [report[:-1]], report.infos
            else:
                if self._late_infos is not None:
                    self._late_infos()  # still in the connections, before the answers to come
                for worker, share in zip(self.workers, shares, strict=True):
                    worker.send(share)
                reports = [worker.receive() for worker in self.workers]
                self._late_infos = _LateInfos(tuple(self.workers))
        except BaseException:  # half of the answers are lost: nothing can follow
            self.close()
            raise
        self._on_move = [report[0] for report in reports]
        return VectorStep(reports, len(self.possible_agents), infos, self._late_infos)


def _processors(workers: int) -> list[int]:
    """One for each worker, of those that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        raise ConfigError(f"make_vec: pin_workers=True is not possible on {sys.platform}.")
    allowed = sorted(os.sched_getaffinity(0))
    if workers > len(allowed):
        raise ConfigError(
            f"make_vec: pin_workers=True with {workers} workers on {len(allowed)} processors; use "
            f"at most as many workers, or pin_workers=False."
        )
    return allowed[:workers]


def _close_all(workers: list[WorkerProcess]) -> None:
    while workers:
        workers.pop().close()
