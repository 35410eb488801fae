"""Some environments in one process, stepped together; what a worker runs, and the synchronous vector."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.errors import ConfigError, VectorError
from srl_envs.parallel import GameEnv

RUNNING, TERMINATED, TRUNCATED, VOID = range(4)
MAX_FAILED_STARTS = 3
"""Episodes in a row that may fail to start before an environment counts as broken."""

Infos = dict[str, dict[str, Any]]


class Report(NamedTuple):
    """Results of one step of a batch; environments in order."""

    on_move: list[tuple[int, int]]
    """(environment, seat) of every reply that the next step needs."""
    texts: list[str]
    """What those seats see, in the same order."""
    rewards: bytes
    """Float64, environments x seats; NaN for a void episode."""
    endings: bytes
    """One byte per environment: `RUNNING`, `TERMINATED`, `TRUNCATED` or `VOID`."""
    infos: list[Infos]


def episode_seed(root: int, env: int, episode: int) -> int:
    """Seed of one episode: it depends only on its address, never on which worker plays it when.

    Args:
        root: the seed given to `VectorEnv.reset`.
        env: index of the environment in the vector.
        episode: how many the environment started before, from 0.

    Returns:
        A whole number below 2**53, so that every JSON reader keeps it exactly.
    """
    sequence = np.random.SeedSequence([root, env, episode])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(11))


class EnvBatch:
    """Environments with the numbers ``indices``, each made by ``make``.

    Raises:
        ConfigError: ``make`` returns something else than a `GameEnv`.
    """

    def __init__(self, make: Callable[[], Any], indices: Iterable[int]) -> None:
        self._slots = [_Slot(make, index) for index in indices]

    def env(self, position: int) -> GameEnv:
        """The environment at a position, counted from 0."""
        return self._slots[position].env

    def reset(self, root: int, episode: int) -> Report:
        """Start episode number ``episode`` of every environment."""
        sheet = _Sheet()
        for slot in self._slots:
            slot.begin(root, episode)
            sheet.add(slot, [0.0] * len(slot.seats), RUNNING)
        return sheet.report()

    def step(self, replies: Sequence[str]) -> Report:
        """Give a reply for each of the last report's ``on_move``; ended episodes start anew.

        Raises:
            VectorError: an environment fails to start several episodes in a row.
        """
        sheet, given = _Sheet(), iter(replies)
        for slot in self._slots:
            rewards, ending = slot.step({agent: next(given) for agent in slot.on_move})
            sheet.add(slot, rewards, ending)
        return sheet.report()

    def close(self) -> None:
        """Close every environment."""
        for slot in self._slots:
            slot.discard()


class _Sheet:
    """A report that is being written."""

    def __init__(self) -> None:
        self._on_move: list[tuple[int, int]] = []
        self._texts: list[str] = []
        self._rewards = array("d")
        self._endings = bytearray()
        self._infos: list[Infos] = []

    def add(self, slot: _Slot, rewards: list[float], ending: int) -> None:
        self._on_move.extend([(slot.index, slot.seats[agent]) for agent in slot.on_move])
        self._texts.extend(slot.texts)
        self._rewards.extend(rewards)
        self._endings.append(ending)
        self._infos.append(slot.infos)

    def report(self) -> Report:
        return Report(
            self._on_move, self._texts, self._rewards.tobytes(), bytes(self._endings), self._infos
        )


class _Slot:
    """One environment of a batch, and its present episode."""

    def __init__(self, make: Callable[[], Any], index: int) -> None:
        self._make, self.index = make, index
        self.env = self._made()
        self.seats = {agent: seat for seat, agent in enumerate(self.env.possible_agents)}
        self.on_move: tuple[str, ...] = ()
        self.texts: list[str] = []
        """Observations of the agents on move."""
        self.infos: Infos = {}
        self._root = self._episode = self._seed = 0

    def _made(self) -> GameEnv:
        env = self._make()
        if not isinstance(env, GameEnv):
            raise ConfigError(
                f"a vector holds environments of srl_envs.core.Game; this is {type(env).__name__}."
            )
        return env

    def begin(self, root: int, episode: int) -> None:
        """Start an episode; one that cannot start is void, and the next one is tried."""
        self._root, self._episode = root, episode
        errors: list[str] = []
        while len(errors) < MAX_FAILED_STARTS:
            self._seed = episode_seed(root, self.index, self._episode)
            try:
                self.env.start(seed=self._seed)
                self._describe()
            except Exception as error:  # noqa: BLE001 - a game is foreign code here
                errors.append(_label(error))
                self._renew()
                self._episode += 1
            else:
                self._tell({"failed_starts": errors} if errors else {})
                return
        raise VectorError(
            f"environment {self.index} failed to start {MAX_FAILED_STARTS} episodes in a row; the last "
            f"one, seed {self._seed}, with {errors[-1]}."
        )

    def step(self, actions: dict[str, str]) -> tuple[list[float], int]:
        """Rewards per seat, and how the episode stands; an ended one is followed by the next."""
        try:
            self.env.advance(actions)
            self._describe()
            final = {} if self.env.agents else {a: self.env.observation(a) for a in self.seats}
        except Exception as error:  # noqa: BLE001 - a game is foreign code here
            failed = {"env_error": _label(error), "final_seed": self._seed}
            self._renew()
            self.begin(self._root, self._episode + 1)
            self._tell(failed)
            return [float("nan")] * len(self.seats), VOID
        rewards = list(self.env.rewards().values())
        if self.env.agents:
            return rewards, RUNNING
        ending = TRUNCATED if self.env.truncated else TERMINATED
        infos, seed = self.infos, self._seed
        self.begin(self._root, self._episode + 1)
        for agent, info in self.infos.items():
            info["final_observation"] = final[agent]
            info["final_info"] = infos[agent]
            info["final_seed"] = seed
        return rewards, ending

    def discard(self) -> None:
        """Close the environment, whatever state it is in."""
        with contextlib.suppress(Exception):
            self.env.close()

    def _renew(self) -> None:
        """Nothing is known of an environment that raised: take a fresh one."""
        self.discard()
        self.env = self._made()

    def _describe(self) -> None:
        """Ask for what the report needs: texts of the agents on move, infos of all."""
        env = self.env
        self.on_move = env.on_move
        self.texts = [env.observation(agent)["text"] for agent in self.on_move]
        self.infos = {agent: env.info(agent) for agent in self.seats}

    def _tell(self, more: dict[str, Any]) -> None:
        for info in self.infos.values():
            info.update(more)


def _label(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
