"""What every engine must keep; packages outside this one run it in their tests.

    from srl_agents.testing import check_engine

    def test_my_engine() -> None:
        check_engine(lambda: MyEngine(...), updates=[first, second])

Each check makes an engine of its own, in an event loop of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from srl_agents.engines.protocol import Engine
from srl_agents.records import WeightUpdate
from srl_agents.testing.engine_checks import (
    check_back_pressure,
    check_batches,
    check_cancellation,
    check_capabilities,
    check_close,
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
from srl_envs.testing import ConformanceError


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """One promise of the protocol, and how to keep it."""

    run: Callable[[Trial], Awaitable[None]]
    advice: str
    """For the author of an engine that breaks the promise."""
    versions: bool = False
    """Only for engines that take versions."""

    def __call__(self, trial: Trial) -> None:
        """Hold an engine to the promise.

        Raises:
            ConformanceError: what is wrong, and what to do.
        """
        if self.versions and not trial.takes_versions():
            return
        try:
            asyncio.run(self._run(trial))
        except ConformanceError as error:
            raise ConformanceError(
                f"{trial.engine_name}: {error}\nWhat to do: {self.advice}"
            ) from error
        except Exception as error:  # foreign code: what it raises is a fault of the engine
            raise ConformanceError(
                f"{trial.engine_name} raises {type(error).__name__}: {error}\nWhat to do: mend what "
                f"the traceback above shows. The promise in question: {self.advice}"
            ) from error

    async def _run(self, trial: Trial) -> None:
        async with trial.opened():
            await self.run(trial)


CHECKS: dict[str, EngineCheck] = {
    "capabilities": EngineCheck(
        check_capabilities,
        "say in `capabilities` what `generate` gives: tokens and log-probabilities of every reply, or "
        "of none; and let it be the same at every look.",
    ),
    "no_room": EngineCheck(
        check_no_room,
        "answer a prompt that leaves no room in the context with an empty text and the finish "
        "'length': one long game is no reason to end a run.",
    ),
    "equal_requests": EngineCheck(
        check_equal_requests,
        "draw from a generator that is seeded by the request's key alone, never from one that "
        "requests share; or say seeded=False.",
    ),
    "batches": EngineCheck(
        check_batches,
        "let `generate_together` make its batches from the sequence of requests alone, and reply in "
        "their order; an engine that cannot has no such method.",
    ),
    "versions": EngineCheck(
        check_versions,
        "play the version that a request names, no other; refuse one that is not installed with "
        "UnknownVersionError; let installing again do nothing.",
        versions=True,
    ),
    "install_under_load": EngineCheck(
        check_install_under_load,
        "let requests in flight keep the weights that they began with while another version comes in.",
        versions=True,
    ),
    "interrupted_install": EngineCheck(
        check_interrupted_install,
        "read and check all tensors aside, and make the version playable in one step at the end, so "
        "that an install that is cut off or refused leaves nothing behind.",
        versions=True,
    ),
    "cancellation": EngineCheck(
        check_cancellation,
        "when the task of a request is cancelled, take it out of the line or the batch; the others "
        "keep their places.",
    ),
    "back_pressure": EngineCheck(
        check_back_pressure,
        "let what finds no place wait in line: nothing is refused, forgotten or answered with "
        "another's reply.",
    ),
    "deadlines": EngineCheck(
        check_deadlines,
        "raise DeadlineError when a request's `deadline_s` is over, whether it has a place or waits.",
    ),
    "retire": EngineCheck(
        check_retire,
        "keep a retired version until the requests that name it are answered, and refuse later ones "
        "with UnknownVersionError; retiring what is not there does nothing.",
        versions=True,
    ),
    "sleep": EngineCheck(
        check_sleep,
        "keep requests that come while the engine sleeps, and answer them after `wake`.",
    ),
    "close": EngineCheck(
        check_close,
        "on `close`, end what waits with ModelError, and refuse everything later with it; closing "
        "again does nothing.",
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
        requests: at once, where a check wants many; more than the engine answers at once.
        patience_s: longest wait for anything.

    Raises:
        ConformanceError: the first promise that is broken, and what to do about it.
        ConfigError: an engine that takes versions was given fewer than two.
    """
    trial = Trial(make_engine, tuple(updates), tuple(broken), requests, patience_s)
    if trial.takes_versions() and len(updates) < 2:
        raise ConfigError(
            f"updates={list(updates)!r}: this engine says that it takes versions; give two that "
            "reply differently."
        )
    for check in CHECKS.values():
        check(trial)
