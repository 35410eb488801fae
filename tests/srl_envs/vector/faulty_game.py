"""A counting game that fails on demand, registered by `test_vector.py`; workers import it too."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from srl_envs.core import Game, Streams
from srl_envs.errors import IllegalMoveError, SandboxError

ID = "faulty/count-v0"


class State(NamedTuple):
    start: int
    said: tuple[str, ...] = ()


class Count(Game[State, str]):
    """Seat 0 sends words; ``crash``, ``sandbox`` and ``kill`` cause these faults, ``end`` ends."""

    mode = "mixed"
    max_turns = 5

    def __init__(self, *, broken_starts: int = 0) -> None:
        self.broken_starts = broken_starts
        self.closed = False

    def new(self, streams: Streams) -> State:
        start = int(streams.instance.integers(1000))
        if start % 10 < self.broken_starts:
            raise ZeroDivisionError(f"start {start}")
        return State(start)

    def to_move(self, state: State) -> tuple[int, ...]:
        return () if "end" in state.said else (0,)

    def observe(self, state: State, seat: int) -> str:
        return f"Say a word.\n\n{state.start}: {' '.join(state.said)}"

    def parse(self, state: State, seat: int, body: str) -> str:
        if not body:
            raise IllegalMoveError("say something")
        return body

    def apply(self, state: State, actions: Mapping[int, str]) -> State:
        word = actions[0]
        if word == "crash":
            raise KeyError("the game forgot a key")
        if word == "sandbox":
            raise SandboxError("no sandbox today")
        if word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "exit":
            os._exit(3)
        return State(state.start, (*state.said, word))

    def returns(self, state: State) -> tuple[float, ...] | None:
        return (1.0, 0.5) if "end" in state.said else None

    def fallback(self, state: State, seat: int) -> str:
        return "end"

    def sample(self, state: State, seat: int, rng: np.random.Generator) -> str:
        return "end"

    def encode(self, state: State) -> Any:
        return [state.start, list(state.said)]

    def decode(self, data: Any) -> State:
        return State(data[0], tuple(data[1]))


def short(env: Any) -> Any:
    """A wrapper that workers can import."""
    env.max_cycles = 2
    return env


def no_env(env: Any) -> Any:
    return "no environment"
