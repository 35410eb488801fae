"""Admission of waiting requests, so that times to first tokens and between tokens are held.

One rule for the embedded engine's loop, the conductor above several engines, and the simulator. It changes
when a reply is written and never what is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from srl_envs.errors import ConfigError

_LONGEST = 8.0
"""Waiting time, in times to a first token, after which no other request may overtake."""
_EVIDENCE = 8
"""Measurements before an estimate is used."""
_FORGET = 0.99
"""Weight of a measurement beside that of the next one."""
_SWEEPS = 16
_SHARE, _RATE = 0.97, 0.05
"""Share of steps that shall take no longer than estimated, and how fast the margin follows it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Objectives:
    """Times to hold, in seconds; those that are absent decide nothing."""

    first_token_s: float | None = None
    """From the request to its first token. Waiting requests that can still hold it come before those
    that cannot."""
    between_tokens_s: float | None = None
    """Between two tokens of a reply. A request waits while its reading and its reply would make those
    that are being written slower than that."""
    longest_wait_s: float | None = None
    """After this wait no request overtakes another. Absent: 8 times ``first_token_s``."""

    def __post_init__(self) -> None:
        for name in ("first_token_s", "between_tokens_s", "longest_wait_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name}={value}: use seconds above 0, or leave it out.")
        if self.longest_wait_s is not None and self.first_token_s is None:
            raise ConfigError(
                f"longest_wait_s={self.longest_wait_s}: requests overtake only with first_token_s; "
                "name it, or leave longest_wait_s out."
            )

    @property
    def any(self) -> bool:
        """Whether there is one to hold."""
        return self.first_token_s is not None or self.between_tokens_s is not None

    @property
    def overtaken_s(self) -> float:
        """Seconds of waiting after which no other request overtakes this one."""
        if self.first_token_s is None:
            return 0.0
        return self.longest_wait_s or _LONGEST * self.first_token_s


NO_OBJECTIVES = Objectives()
"""Nothing to hold."""


class Candidate(NamedTuple):
    """Facts about a request that waits."""

    waited_s: float
    first_s: float
    """From its start to its first token, if it began now."""
    gap_s: float
    """Between two tokens of all that run, if it began now."""


class Admission:
    """Chooses which of several waiting requests begins next, if any may.

    First come those that waited too long; then those that can still hold their time to a first token; then
    the others. Within each group the caller's order stands. No request overtakes one that waited too
    long, and one always begins where nothing runs: so what runs ends, and each request begins at last.
    """

    def __init__(self, objectives: Objectives) -> None:
        self.objectives = objectives

    def order(self, waiting: Sequence[Candidate]) -> list[int]:
        """Places in ``waiting``, the next first."""
        return sorted(range(len(waiting)), key=lambda place: self._rank(waiting[place]))

    def next(
        self, waiting: Sequence[Candidate], running: int, fits: Callable[[int], bool]
    ) -> int | None:
        """Place of the request that begins now; None where all have to wait.

        Args:
            waiting: in the order in which they would begin without objectives.
            running: requests that run; 0 lets the first begin that fits.
            fits: whether there is memory for the one at this place.
        """
        for place in self.order(waiting):
            if (not running or self.keeps(waiting[place].gap_s)) and fits(place):
                return place
            if waiting[place].waited_s >= self.objectives.overtaken_s:
                return None
        return None

    def keeps(self, gap_s: float) -> bool:
        """Whether such a time between tokens is held."""
        limit_s = self.objectives.between_tokens_s
        return limit_s is None or gap_s <= limit_s

    def _rank(self, one: Candidate) -> int:
        limit_s = self.objectives.first_token_s
        if limit_s is None or one.waited_s >= self.objectives.overtaken_s:
            return 0
        return 1 if one.waited_s + one.first_s <= limit_s else 2


class StepTimes:
    """Estimates how long a step takes: a part of its own, one per reply, and one per prompt token.

    The three numbers are learned while it runs: least squares of relative errors, none below 0, where older
    measurements count less. What the last ones say nothing of stays as it was. A margin makes 97 in 100
    steps no longer than estimated.
    """

    def __init__(self) -> None:
        self._seconds = [0.0, 0.0, 0.0]
        self._squares = [[0.0] * 3 for _ in range(3)]
        self._products = [0.0] * 3
        self._count = 0
        self._margin = 1.0

    @property
    def known(self) -> bool:
        """Whether enough was measured to use estimates."""
        return self._count >= _EVIDENCE

    def measured(
        self, seconds: float, *, rows: float, prompt_tokens: float, steps: float = 1.0
    ) -> None:
        """Learn from one or more steps.

        Args:
            seconds: that they took; nothing is learned from 0.
            rows: replies that got a token, summed over the steps.
            prompt_tokens: that were read, likewise.
            steps: how many they were.
        """
        if not seconds > 0:
            return
        if self.known:
            within = seconds <= self._estimate(steps, rows, prompt_tokens) * self._margin
            self._margin = max(1.0, self._margin * math.exp(_RATE * (_SHARE - within)))
        had = [steps / seconds, rows / seconds, prompt_tokens / seconds]
        for i in range(3):
            self._products[i] = _FORGET * self._products[i] + had[i]
            for j in range(3):
                self._squares[i][j] = _FORGET * self._squares[i][j] + had[i] * had[j]
        self._count += 1
        self._solve()

    def seconds(self, *, rows: float, prompt_tokens: float) -> float:
        """That a step takes which gives so many replies a token and reads so much of prompts."""
        return self._estimate(1.0, rows, prompt_tokens) * self._margin

    def prompt_tokens(self, limit_s: float, rows: float) -> float:
        """That such a step may read at most if it shall take so long."""
        left_s = limit_s / self._margin - self._estimate(1.0, rows, 0.0)
        if left_s <= 0:
            return 0.0
        return left_s / self._seconds[2] if self._seconds[2] > 0 else math.inf

    def _estimate(self, steps: float, rows: float, prompt_tokens: float) -> float:
        own, row, token = self._seconds
        return own * steps + row * rows + token * prompt_tokens

    def _solve(self) -> None:
        """Coordinate descent from the last numbers, so that each stays where nothing speaks of it."""
        for _ in range(_SWEEPS):
            for i in range(3):
                square = self._squares[i][i]
                if square <= 0:
                    continue
                others = sum(self._squares[i][j] * self._seconds[j] for j in range(3) if j != i)
                self._seconds[i] = max(0.0, (self._products[i] - others) / square)
