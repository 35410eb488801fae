"""Conformance kit for engines; packages outside this one run it in their tests.

    from srl_agents.testing import check_engine

    def test_my_engine() -> None:
        check_engine(lambda: MyEngine(...), updates=[first, second])

Each check makes an engine of its own, in an event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from srl_agents.engines.protocol import Engine
from srl_agents.records import WeightUpdate
from srl_agents.testing.advice import Promise, hold
from srl_agents.testing.engine_checks import (
    check_back_pressure,
    check_batches,
    check_cancellation,
    check_capabilities,
    check_close,
    check_close_frees,
    check_deadlines,
    check_equal_requests,
    check_install_under_load,
    check_interrupted_install,
    check_no_room,
    check_retire,
    check_sleep,
    check_versions,
)
from srl_agents.testing.engine_trial import Trial
from srl_envs.errors import ConfigError


def _alone(
    check: Callable[[Trial], Awaitable[None]], *, versions: bool = False
) -> Callable[[Trial], None]:
    """A check with an engine and an event loop of its own.

    Args:
        check: of one promise.
        versions: only for engines that take versions.
    """

    async def opened(trial: Trial) -> None:
        async with trial.opened():
            await check(trial)

    def run(trial: Trial) -> None:
        if trial.takes_versions() or not versions:
            asyncio.run(opened(trial))

    return run


def _opens_its_own(check: Callable[[Trial], Awaitable[None]]) -> Callable[[Trial], None]:
    """A check that opens engines itself, in an event loop of its own."""

    async def run(trial: Trial) -> None:
        await check(trial)

    return lambda trial: asyncio.run(run(trial))


CHECKS: dict[str, Promise[[Trial]]] = {
    "capabilities": Promise(
        _alone(check_capabilities),
        "say in `capabilities` what `generate` gives: tokens and log-probabilities of every reply, or "
        "of none; and let it be the same at every look.",
    ),
    "no_room": Promise(
        _alone(check_no_room),
        "answer a prompt that leaves no room in the context with an empty text and the finish "
        "'length': one long game must not end a run.",
    ),
    "equal_requests": Promise(
        _alone(check_equal_requests),
        "draw from a generator that is seeded only by the request's key, never from one that "
        "requests share; or set seeded=False.",
    ),
    "batches": Promise(
        _alone(check_batches),
        "let `generate_together` make its batches only from the sequence of requests, and reply in "
        "their order; an engine that cannot has no such method.",
    ),
    "versions": Promise(
        _alone(check_versions, versions=True),
        "play the version that a request names, no other; refuse one that is not installed with "
        "UnknownVersionError; let installing again do nothing.",
    ),
    "install_under_load": Promise(
        _alone(check_install_under_load, versions=True),
        "let requests in flight keep the weights that they began with while another version comes in.",
    ),
    "interrupted_install": Promise(
        _alone(check_interrupted_install, versions=True),
        "read and check all tensors aside, and make the version playable in one step at the end, so "
        "that an install that is cut off or refused leaves nothing behind.",
    ),
    "cancellation": Promise(
        _alone(check_cancellation),
        "when the task of a request is cancelled, take it out of the line or the batch; the others "
        "keep their places.",
    ),
    "back_pressure": Promise(
        _alone(check_back_pressure),
        "let what finds no place wait in line: nothing is refused, forgotten or answered with "
        "another's reply.",
    ),
    "deadlines": Promise(
        _alone(check_deadlines),
        "raise DeadlineError when a request's `deadline_s` is over, whether it has a place or waits.",
    ),
    "retire": Promise(
        _alone(check_retire, versions=True),
        "keep a retired version until the requests that name it are answered, and refuse later ones "
        "with UnknownVersionError; retiring what is not there does nothing; a version that is installed "
        "again meanwhile stays.",
    ),
    "sleep": Promise(
        _alone(check_sleep),
        "keep requests that come while the engine sleeps, and answer them after `wake`.",
    ),
    "close": Promise(
        _alone(check_close),
        "on `close`, end what waits with ModelError, and refuse everything later with it; closing "
        "again does nothing.",
    ),
    "close_frees": Promise(
        _opens_its_own(check_close_frees),
        "on `close`, end threads and child processes, close files and sockets, and drop references to "
        "weights and caches: the engine may be referred to for long after.",
    ),
}
"""Name -> check."""


def check_engine(
    make_engine: Callable[[], Engine],
    *,
    updates: Sequence[WeightUpdate] = (),
    broken: Sequence[WeightUpdate] = (),
    requests: int = 24,
    patience_s: float = 60.0,
) -> None:
    """Run every check on an engine.

    Args:
        make_engine: makes one; called in a running event loop, once per check.
        updates: two versions whose replies differ, which an engine that takes versions can install.
        broken: updates that it must refuse, for example with a tensor missing.
        requests: at once, where a check needs many; more than the engine answers at once.
        patience_s: longest wait for anything.

    Raises:
        ConformanceError: the first promise that is broken, and what to do about it.
        ConfigError: an engine that takes versions was given fewer than two.
    """
    trial = Trial(make_engine, tuple(updates), tuple(broken), requests, patience_s)
    if trial.takes_versions() and len(updates) < 2:
        raise ConfigError(
            f"updates={list(updates)!r}: this engine reports that it takes versions; give two that "
            "reply differently."
        )
    hold(trial.engine_name, CHECKS, trial)
