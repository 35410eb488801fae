"""Choice of the instance that answers a request, and the order in which an instance begins its requests.

`placement` has the rule, which the simulator runs, too.
"""

from __future__ import annotations

import bisect
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

from srl_agents.caching.objectives import Admission, Candidate, Objectives, StepTimes
from srl_agents.caching.placement import CAPACITY, PATIENCE, Blocks, Chosen, Placement
from srl_envs.errors import ConfigError


@dataclass(eq=False, slots=True)
class Placed:
    """A request at an instance."""

    chosen: Chosen
    blocks: Blocks
    priority: float
    """Lower ones are taken first."""
    reply_blocks: int = 1
    """That its reply may need."""
    taken: bool = False
    since_s: float = 0.0
    """When it was placed; once it is taken, when it began."""
    before: tuple[float, float] = (0.0, 0.0)
    """Of its instance when it began: `_Instance.busy_s` and `_Instance.read`."""

    @property
    def instance(self) -> int:
        """Index of the instance that the request went to."""
        return self.chosen.instance

    @property
    def cost(self) -> float:
        """Blocks that the instance has to read for it, and one for its reply."""
        return self.chosen.cost


@dataclass(slots=True)
class Conducted:
    """Counts of a conductor's decisions since the last call."""

    requests: Counter[int] = field(default_factory=Counter)
    """Placed, by instance."""
    blocks: int = 0
    """Blocks of their prompts."""
    known: int = 0
    """Blocks among them that the chosen instance must have had."""
    moved: int = 0
    """Requests that were placed once more, because an instance failed them."""

    def merge(self, other: Conducted) -> None:
        """Add another conductor's, or later ones."""
        self.requests.update(other.requests)
        self.blocks += other.blocks
        self.known += other.known
        self.moved += other.moved


@dataclass(eq=False, slots=True)
class _Instance:
    capacity: int
    held: Counter[Hashable] = field(default_factory=Counter)
    """How many of those that it works on have a block in their prompts."""
    reply_blocks: int = 0
    """Reply blocks of the requests that it works on."""
    waiting: list[tuple[float, int, Placed]] = field(default_factory=list)
    running: int = 0
    times: StepTimes = field(default_factory=StepTimes)
    """Times of its steps, where a block stands for a prompt's token."""
    busy_s: float = 0.0
    """Seconds of all requests that it worked on."""
    busy_until_s: float = 0.0
    """The last moment that is counted there."""
    read: float = 0.0
    """Blocks that the requests which began here had to read."""


class Conductor:
    """Places requests by `Placement`, and lets them begin.

    A request waits while an instance has no memory for what it works on together, where blocks that prompts
    share count once; otherwise the instance would drop replies that it has begun. With objectives it also
    waits by the rules of `Admission`, with times that are learned from whole replies.

    Args:
        instances: how many there are.
        places: requests that one instance works on at once.
        capacity: blocks that an instance has memory for, or one number for each.
        patience: see `Placement`.
        objectives: times to hold; without any, nothing waits for them.
        clock: seconds.

    Raises:
        ConfigError: a number is too small.
    """

    def __init__(
        self,
        instances: int,
        *,
        places: int,
        capacity: int | Sequence[int] = CAPACITY,
        patience: float = PATIENCE,
        objectives: Objectives | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if instances < 1 or places < 1:
            raise ConfigError(f"instances={instances}, places={places}: use 1 or more of each.")
        each = [capacity] * instances if isinstance(capacity, int) else list(capacity)
        if len(each) != instances:
            raise ConfigError(f"capacity={capacity}: use 1 or more blocks for each instance.")
        self._placement = Placement(each, patience=patience)
        self._instances = [_Instance(blocks) for blocks in each]
        self._places = places
        self._admission, self._clock = Admission(objectives or Objectives()), clock
        self._number = 0
        self._done = Conducted()

    def take_done(self) -> Conducted:
        """Since the last call."""
        done, self._done = self._done, Conducted()
        return done

    @property
    def alive(self) -> list[int]:
        """Instances that requests may go to."""
        return self._placement.alive

    def place(
        self,
        blocks: Blocks,
        priority: float = 0.0,
        without: Collection[int] = (),
        reply_blocks: int = 1,
    ) -> Placed:
        """Choose an instance, which then has the request's blocks; `take` returns those that may begin.

        Args:
            blocks: names of the prompt's blocks, each covering all before it.
            priority: lower ones overtake higher ones at their instance.
            without: instances that it must not go to.
            reply_blocks: that its reply may need.

        Raises:
            ConfigError: no instance is alive.
        """
        chosen = self._placement.place(blocks, without)
        placed = Placed(chosen, blocks, priority, reply_blocks, since_s=self._clock())
        self._number += 1
        self._done.requests[chosen.instance] += 1
        self._done.blocks += len(blocks)
        self._done.known += chosen.depth
        self._done.moved += bool(without)
        bisect.insort(self._instances[chosen.instance].waiting, (priority, self._number, placed))
        return placed

    def take(self, instance: int) -> list[Placed]:
        """Those that begin now at an instance, lowest priority first: as many as it has places and memory,
        and as objectives allow.

        A request that needs more memory than an instance has begins when nothing else runs there.
        """
        one, begun = self._instances[instance], []
        while one.waiting and one.running < self._places:
            place = self._next(one)
            if place is None:
                break
            placed = one.waiting.pop(place)[2]
            placed.taken = True
            placed.since_s = self._count_time(one)
            one.read += placed.cost - 1
            placed.before = (one.busy_s, one.read - (placed.cost - 1))
            one.running += 1
            one.reply_blocks += placed.reply_blocks
            one.held.update(placed.blocks)
            begun.append(placed)
        return begun

    def _next(self, one: _Instance) -> int | None:
        """Place in the line of the one that begins; None where all wait."""

        def fits(place: int) -> bool:
            placed = one.waiting[place][2]
            own = sum(not one.held[key] for key in placed.blocks) + placed.reply_blocks
            return not one.running or len(one.held) + one.reply_blocks + own <= one.capacity

        if not (self._admission.objectives.any and one.times.known):
            return 0 if fits(0) else None
        now_s, line = self._clock(), []
        for _, _, placed in one.waiting:
            step_s = one.times.seconds(rows=one.running + 1, prompt_tokens=placed.cost - 1)
            line.append(Candidate(now_s - placed.since_s, step_s, step_s))
        return self._admission.next(line, one.running, fits)

    def _count_time(self, one: _Instance) -> float:
        """Bring `_Instance.busy_s` up to date; returns the time."""
        now_s = self._clock()
        one.busy_s += one.running * (now_s - one.busy_until_s)
        one.busy_until_s = now_s
        return now_s

    def _learn(self, one: _Instance, placed: Placed, tokens: int) -> None:
        """A reply with so many tokens is there: each was a step that all shared which ran meanwhile."""
        seconds = self._count_time(one) - placed.since_s
        busy_s, read = one.busy_s - placed.before[0], one.read - placed.before[1]
        if tokens and seconds > 0:
            rows = tokens * busy_s / seconds
            one.times.measured(seconds, steps=tokens, rows=rows, prompt_tokens=read)

    def end(self, placed: Placed, tokens: int = 0) -> None:
        """Record that a request was answered with so many tokens, or that its caller gave up waiting."""
        one = self._instances[placed.instance]
        self._placement.end(placed.chosen)
        if placed.taken:
            self._learn(one, placed, tokens)
            one.running -= 1
            one.reply_blocks -= placed.reply_blocks
            for key in placed.blocks:
                one.held[key] -= 1
                if not one.held[key]:
                    del one.held[key]
        else:
            one.waiting = [entry for entry in one.waiting if entry[2] is not placed]

    def lose(self, instance: int) -> None:
        """An instance has died: nothing more goes there, and what it had is gone."""
        self._placement.lose(instance)
