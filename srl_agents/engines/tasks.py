"""Groups of asyncio tasks that end together, and waits that end in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from srl_envs.errors import DeadlineError

T = TypeVar("T")


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """`asyncio.TaskGroup` that raises the first failure itself, not a group of them."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in the order of ``work``; the first failure cancels the rest and is raised."""
    coroutines = list(work)
    if len(coroutines) == 1:
        return [await coroutines[0]]
    async with task_group() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in tasks]


async def within(work: Awaitable[T], deadline_s: float, what: str) -> T:
    """The result of ``work``, which is cancelled when its time is over.

    Args:
        work: to wait for.
        deadline_s: seconds.
        what: it is, for the error.

    Raises:
        DeadlineError: it took longer.
    """
    try:
        async with asyncio.timeout(deadline_s) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():  # of its own
            raise
        raise DeadlineError(
            f"{what}: not done within {deadline_s:g} s, so it hangs, or the machine is too busy. Look at "
            "what it waits for, and try again."
        ) from None
