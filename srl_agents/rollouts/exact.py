"""The order ``exact``: all live matches wait for each other, and runs are equal bit for bit.

Each tick asks every engine once, with a batch that is a function of the specs and of what was replied
so far. An engine without `generate_together` is asked for each reply at once instead: what it batches
is its own affair, and such a run need not repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from srl_agents.engines.tasks import all_of
from srl_agents.rollouts.asking import Asking
from srl_agents.rollouts.match import Ask, Match
from srl_agents.rollouts.match_queue import MatchQueue, Progress
from srl_agents.rollouts.steps import StepPool

_Due = tuple[Match, Callable[[], list[Ask]]]
"""A match, and what it does next."""


async def play_exact(
    queue: MatchQueue, concurrency: int, steps: StepPool, asking: Asking, progress: Progress
) -> None:
    """Play all matches of the queue, at most ``concurrency`` of them live.

    Matches that end are reported in the order of their specs, tick by tick.
    """
    waiting: list[tuple[Match, list[Ask]]] = []
    due: list[_Due] = []
    try:
        while True:
            places = concurrency - len(waiting) - len(due)
            due += [(match, match.begin) for match in queue.take(places)]
            if due:
                ended = await _step_all(queue, steps, due, waiting)
                if ended:
                    progress(ended)
                    continue  # others take their places before policies are asked
            if not waiting:
                return
            due += await _ask_all(asking, waiting)
    finally:
        for match, _ in (*waiting, *due):
            queue.give_up(match)


async def _step_all(
    queue: MatchQueue,
    steps: StepPool,
    due: list[_Due],
    waiting: list[tuple[Match, list[Ask]]],
) -> int:
    """Step what is due, side by side, and move it to ``waiting``; returns how many ended."""
    asked = await all_of(steps.step(match, work) for match, work in due)
    stepped = list(zip(due, asked, strict=True))
    waiting += [(match, asks) for (match, _), asks in stepped if asks]
    due[:] = [step for step, asks in stepped if not asks]
    ended = len(due)
    while due:  # a report may raise; the others' environments are given back all the same
        match, _ = due.pop(0)
        queue.done(match)
    return ended


async def _ask_all(asking: Asking, waiting: list[tuple[Match, list[Ask]]]) -> list[_Due]:
    """Ask for everything at once; returns what is due then, and empties ``waiting``."""
    waiting.sort(key=lambda pair: pair[0].index)
    replies = iter(await asking.together([ask for _, asks in waiting for ask in asks]))
    due: list[_Due] = []
    for match, asks in waiting:
        written = {ask.seat: next(replies) for ask in asks}
        due.append((match, partial(match.advance, written)))
    waiting.clear()
    return due
