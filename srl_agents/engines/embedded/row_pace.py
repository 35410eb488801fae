"""When rows of the embedded engine's loop begin, and how much of prompts a step reads, by objectives."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable

from srl_agents.caching.objectives import Admission, Candidate, Objectives, StepTimes
from srl_agents.engines.embedded.row import Row

_LEAST = 32
"""Prompt tokens that a step reads at least, where a prompt is there to read."""


class Pace:
    """Learns how long steps take; without objectives nothing changes.

    Args:
        objectives: to hold.
        clock: seconds.
    """

    def __init__(self, objectives: Objectives, clock: Callable[[], float] = time.monotonic) -> None:
        self._admission, self.clock = Admission(objectives), clock
        self._times = StepTimes()
        self._unsaid = [0.0, 0.0, 0.0]
        """Seconds, steps and prompt tokens since a step last gave a reply a token."""

    @property
    def decides(self) -> bool:
        """Whether there are objectives, and estimates to hold them with."""
        return self._admission.objectives.any and self._times.known

    def stepped(self, seconds: float, *, rows: int, prompt_tokens: int) -> None:
        """A step took so long. A device may compute one that draws nothing later than it returns, so such
        steps are learned together with the next one that draws."""
        for place, more in enumerate((seconds, 1.0, float(prompt_tokens))):
            self._unsaid[place] += more
        if rows:
            took_s, steps, tokens = self._unsaid
            self._unsaid = [0.0, 0.0, 0.0]
            self._times.measured(took_s, rows=rows, prompt_tokens=tokens, steps=steps)

    def prompt_tokens(self, most: int, rows: int) -> int:
        """Prompt tokens that the next step reads, with so many replies that wait for their next token."""
        limit_s = self._admission.objectives.between_tokens_s
        if not self.decides or not rows or limit_s is None:
            return most
        return int(min(most, max(_LEAST, self._times.prompt_tokens(limit_s, rows))))

    def takes_one_more(self, live: int) -> bool:
        """Whether so many and one more keep their time between tokens."""
        if not self.decides or not live:
            return True
        gap_s = self._times.seconds(rows=live + 1, prompt_tokens=_LEAST)
        return self._admission.keeps(gap_s)

    def line_up(
        self,
        waiting: Iterable[Row],
        *,
        rows: int,
        left: int,
        most: int,
        unread: Callable[[Row], int],
    ) -> deque[Row]:
        """Those that wait, the next first; only where it decides.

        Args:
            waiting: rows, each with the time at which it was asked for.
            rows: replies that are being written.
            left: prompt tokens that are to be read before theirs.
            most: prompt tokens that a step reads.
            unread: how many of a row's own are to be read.
        """
        line = sorted(waiting, key=lambda row: row.asked_s)
        now_s, limit_s = self.clock(), self._admission.objectives.first_token_s
        candidates = []
        for row in line:
            waited_s, first_s = now_s - row.asked_s, 0.0
            if limit_s is not None and waited_s < limit_s:
                tokens = left + unread(row)
                steps = max(1, -(-tokens // most))
                first_s = steps * self._times.seconds(rows=rows, prompt_tokens=tokens / steps)
            candidates.append(Candidate(waited_s, first_s, 0.0))
        return deque(line[place] for place in self._admission.order(candidates))
