"""The checks of `engine_kit`, one promise of the protocol each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from srl_agents.engines.protocol import Generation, GenerationRequest, RepeatableEngine
from srl_agents.records import WeightUpdate
from srl_agents.testing.advice import require
from srl_agents.testing.engine_trial import Trial
from srl_agents.testing.resources import held, require_freed
from srl_envs.errors import DeadlineError, ModelError, UnknownVersionError
from srl_envs.testing import ConformanceError

_FINISHES = ("stop", "length", "served")
_INTERRUPTIONS = 6
_SHORT_S = 0.05
_LATE_S = 5.0
"""Seconds that a deadline may be missed by, on a machine that is busy."""


async def check_capabilities(trial: Trial) -> None:
    """Tokens and log-probabilities are there exactly where they were promised."""
    able = trial.engine.capabilities
    require(trial.engine.capabilities == able, "`capabilities` changes from one look to the next")
    require(able.token_ids or not able.logprobs, "it reports log-probabilities but no tokens")
    for given in await trial.replies(trial.asks()):
        require(given.finish in _FINISHES, f"finish={given.finish!r}: one of {_FINISHES}")
        reports_tokens = bool(given.token_ids or given.prompt_ids)
        require(reports_tokens <= able.token_ids, "token_ids=False, but it reports tokens")
        if able.token_ids:
            require(
                bool(given.prompt_ids), "token_ids=True, but it reports no tokens of the prompt"
            )
            require(bool(given.token_ids) or not given.text, "it reports no tokens of a reply")
        if able.logprobs:
            require(
                len(given.logprobs) == len(given.token_ids),
                f"{len(given.logprobs)} log-probabilities for {len(given.token_ids)} tokens",
            )
            worst = max(given.logprobs, default=0.0)
            require(worst <= 1e-6, f"a log-probability of {worst}, above 0")
        else:
            require(not given.logprobs, "logprobs=False, but it reports log-probabilities")
        length = len(given.prompt_ids) + len(given.token_ids)
        if able.context_length is not None:
            require(length <= able.context_length, f"{length} tokens in {able.context_length}")


async def check_no_room(trial: Trial) -> None:
    """A prompt that fills the context gets an empty reply, and no error."""
    context = trial.engine.capabilities.context_length
    if context is None:
        return
    await trial.reply(trial.ask(0))
    long = trial.ask(1, observation="a b " * context)
    try:
        given = await trial.reply(long, "a prompt that leaves no room")
    except ModelError as error:
        raise ConformanceError(f"a prompt that leaves no room raises {error}") from error
    require(
        given.text == "" and given.finish in ("length", "served"),
        f"a prompt that leaves no room gets {given.text!r}, finish {given.finish!r}",
    )
    await trial.reply(trial.ask(2), "a request after one that left no room")


async def check_equal_requests(trial: Trial) -> None:
    """Equal requests get equal replies, by themselves and among others, as often as they are made."""
    asked = trial.asks()
    single = [await trial.reply(request) for request in asked[:4]]
    again = [await trial.reply(request) for request in asked[:4]]
    trial.require_same(again, single, "the same request twice")
    beside = await trial.replies(asked)
    trial.require_same(beside[:4], single, "the same request among others")
    moved = await trial.replies(asked[3::-1])
    trial.require_same(moved[::-1], single, "the same request in another order")


async def check_batches(trial: Trial) -> None:
    """`generate_together`, where there is one, is a function of the requests, in their order."""
    engine = trial.engine
    if not isinstance(engine, RepeatableEngine):
        return
    asked = trial.asks()
    runs: list[list[Generation]] = []
    for _ in range(2):
        runs.append(await trial.within(engine.generate_together(asked), "a batch"))
        await trial.replies(asked[:3])  # company in between
    require(runs[0] == runs[1], "equal batches get replies that differ in a bit")
    trial.require_same(runs[0], await trial.replies(asked), "a batch, and its requests one by one")
    require(await trial.within(engine.generate_together([]), "no requests") == [], "not empty")


async def check_versions(trial: Trial) -> None:
    """A request is answered by the version that it names, and by no other."""
    first, second = trial.updates[:2]
    plain = await trial.replies(trial.asks())
    require(not await trial.playable(first.version), f"{first.version} plays before its install")
    await trial.install(first)
    ones = await trial.replies(trial.asks(first.version))
    await trial.install(second)
    twos = await trial.replies(trial.asks(second.version))
    if trial.engine.capabilities.seeded:
        differ = [one.text != two.text for one, two in zip(ones, twos, strict=True)]
        require(any(differ), "two versions give the same replies")
    mixed = [
        request
        for number in range(trial.requests)
        for request in (trial.ask(number, second.version), trial.ask(number, first.version))
    ]
    both = await trial.replies(mixed, "requests for two versions at once")
    trial.require_same(both[1::2], ones, "a version beside another one")
    trial.require_same(both[::2], twos, "a version beside an older one")
    await trial.install(first)
    again = await trial.replies(trial.asks(first.version))
    trial.require_same(again, ones, "a version that was installed twice")
    trial.require_same(await trial.replies(trial.asks()), plain, "the model itself, after installs")


async def check_install_under_load(trial: Trial) -> None:
    """What is in flight while a version comes in is answered by the version that it names."""
    first, second = trial.updates[:2]
    await trial.install(first)
    asked = trial.asks(first.version)
    expected = await trial.replies(asked)
    running = trial.start(asked)
    await asyncio.sleep(0)
    await trial.install(second)
    given = await trial.within(asyncio.gather(*running), "requests during an install")
    trial.require_same(given, expected, "requests during an install")
    require(all(g.version == first.version for g in given), "one changed its version in flight")
    require(await trial.playable(second.version), "a version installed under load does not play")


async def check_interrupted_install(trial: Trial) -> None:
    """An install that is cut off or refused leaves the whole version or nothing."""
    first, second = trial.updates[:2]
    began = time.monotonic()
    await trial.install(second)
    lasts_s = time.monotonic() - began
    whole = await trial.replies(trial.asks(second.version))
    await trial.install(first)
    before = await trial.replies(trial.asks(first.version))
    for number in range(_INTERRUPTIONS):
        await trial.engine.retire(second.version)
        install = asyncio.ensure_future(trial.engine.install(second))
        await asyncio.wait({install}, timeout=lasts_s * number / (_INTERRUPTIONS - 1))
        install.cancel()
        await trial.within(asyncio.wait({install}), "an install that was cancelled")
        if await trial.playable(second.version):
            given = await trial.replies(trial.asks(second.version))
            trial.require_same(given, whole, "a version whose install was cut off")
        await trial.install(second)
        given = await trial.replies(trial.asks(second.version))
        trial.require_same(given, whole, "a version whose install was cut off once, then whole")
    for update in trial.broken:
        await _require_refused(trial, update)
    after = await trial.replies(trial.asks(first.version))
    trial.require_same(after, before, "another version after interrupted installs")


async def _require_refused(trial: Trial, update: WeightUpdate) -> None:
    await trial.engine.retire(update.version)
    try:
        await trial.install(update)
    except ModelError:
        pass
    else:
        raise ConformanceError(f"an update that is broken was installed: {update.version}")
    require(not await trial.playable(update.version), f"{update.version} plays, though refused")


async def check_cancellation(trial: Trial) -> None:
    """Requests that are cancelled give their places to others, and cost them nothing."""
    asked = trial.asks()
    expected = await trial.replies(asked)
    running = trial.start(asked)
    await asyncio.sleep(0)
    for task in running[::2]:
        task.cancel()
    left = await trial.within(asyncio.gather(*running[1::2]), "requests beside cancelled ones")
    trial.require_same(left, expected[1::2], "requests beside cancelled ones")
    ended = await trial.within(asyncio.wait(running[::2]), "requests that were cancelled")
    require(not ended[1], "a request that was cancelled did not end")
    running = trial.start(asked)
    await trial.within(
        asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED), "the first reply"
    )
    pairs = list(zip(running, expected, strict=True))
    gone = next((task for task in running if not task.done()), running[0])
    gone.cancel()  # only one, of a batch that is at work
    beside = [(task, reply) for task, reply in pairs if task is not gone]
    left = await trial.within(
        asyncio.gather(*(task for task, _ in beside)), "requests beside one that was cancelled"
    )
    trial.require_same(left, [r for _, r in beside], "requests beside one that was cancelled")
    for _ in range(2):  # places that are not given back are missing sooner or later
        running = trial.start(asked)
        await asyncio.sleep(0.01)
        for task in running:
            task.cancel()
        await trial.within(asyncio.wait(running), "requests that were cancelled")
    after = await trial.replies(asked, "requests after cancelled ones")
    trial.require_same(after, expected, "requests after cancelled ones")


async def check_back_pressure(trial: Trial) -> None:
    """However many requests come at once, each gets its own reply."""
    asked = trial.asks()
    single = [await trial.reply(request) for request in asked]
    many = [request for request in asked for _ in range(4)]
    given = await trial.replies(many, f"one of {len(many)} requests at once")
    expected = [reply for reply in single for _ in range(4)]
    trial.require_same(given, expected, f"{len(many)} requests at once")


async def check_deadlines(trial: Trial) -> None:
    """A request ends soon after its deadline, with a reply or a DeadlineError."""
    expected = await trial.replies(trial.asks())
    many = [trial.ask(number, deadline_s=_SHORT_S) for number in range(trial.requests)] * 4
    await asyncio.gather(*(_require_in_time(trial, request) for request in many))
    await trial.within(trial.engine.sleep(), "sleep")
    await _require_in_time(trial, trial.ask(0, deadline_s=_SHORT_S))
    await trial.within(trial.engine.wake(), "wake")
    after = await trial.replies(trial.asks(), "requests after deadlines")
    trial.require_same(after, expected, "requests after deadlines")


async def _require_in_time(trial: Trial, request: GenerationRequest) -> None:
    late_s = min(_LATE_S, trial.patience_s)
    try:
        async with asyncio.timeout(_SHORT_S + late_s) as limit:
            await trial.engine.generate(request)
    except DeadlineError:
        return
    except TimeoutError:
        if not limit.expired():
            raise
        raise ConformanceError(
            f"a request with deadline_s={_SHORT_S} neither replied nor raised for {late_s:g} s more"
        ) from None


async def check_retire(trial: Trial) -> None:
    """A retired version answers what is in flight, and nothing later."""
    first, second = trial.updates[:2]
    for update in (first, second):
        await trial.install(update)
    expected = await trial.replies(trial.asks(first.version))
    beside = await trial.replies(trial.asks(second.version))
    running = trial.start(trial.asks(first.version))
    await asyncio.sleep(0)
    await trial.within(trial.engine.retire(first.version), "retire")
    given = await trial.within(
        asyncio.gather(*running, return_exceptions=True), "requests for a version that is retired"
    )
    for outcome in given:
        if isinstance(outcome, UnknownVersionError):
            raise ConformanceError(f"a request in flight was refused at `retire`: {outcome}")
        if isinstance(outcome, BaseException):
            raise outcome
    whole = [reply for reply in given if not isinstance(reply, BaseException)]
    trial.require_same(whole, expected, "requests for a version that is retired")
    require(not await trial.playable(first.version), "a retired version plays")
    await trial.within(trial.engine.retire(first.version), "retiring again")
    after = await trial.replies(trial.asks(second.version))
    trial.require_same(after, beside, "a version after another one was retired")
    await trial.install(first)
    again = await trial.replies(trial.asks(first.version))
    trial.require_same(again, expected, "a version that was retired and installed again")
    await _reinstall_while_retiring(trial, first, expected)


async def _reinstall_while_retiring(
    trial: Trial, update: WeightUpdate, expected: list[Generation]
) -> None:
    """A version that comes back while its last requests are answered stays."""
    running = trial.start(trial.asks(update.version))
    await asyncio.sleep(0)
    await trial.within(trial.engine.retire(update.version), "retire")
    await trial.install(update)
    what = "a version that was installed again while it was retiring"
    given = await trial.within(asyncio.gather(*running), f"requests for {what}")
    trial.require_same(given, expected, f"requests for {what}")
    try:
        after = await trial.replies(trial.asks(update.version), f"a request for {what}")
    except UnknownVersionError as error:
        raise ConformanceError(f"{what} is gone when its last request is answered") from error
    trial.require_same(after, expected, what)


async def check_sleep(trial: Trial) -> None:
    """Requests that come while it sleeps are answered after it wakes."""
    asked = trial.asks()
    expected = await trial.replies(asked)
    running = trial.start(asked)
    await asyncio.sleep(0)
    await trial.within(trial.engine.sleep(), "sleep")
    running += trial.start(asked)
    await asyncio.sleep(0.01)
    await trial.within(trial.engine.wake(), "wake")
    given = await trial.within(asyncio.gather(*running), "requests around a sleep")
    trial.require_same(given, expected * 2, "requests around a sleep")


async def check_close(trial: Trial) -> None:
    """Closing ends everything that waits, and refuses everything later."""
    running = trial.start(trial.asks())
    await asyncio.sleep(0)
    await trial.within(trial.engine.close(), "close")
    ended = await trial.within(
        asyncio.gather(*running, return_exceptions=True), "requests at `close`"
    )
    for outcome in ended:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ModelError):
            raise outcome
    await trial.within(trial.engine.close(), "closing again")
    await _require_closed(trial, trial.engine.generate(trial.ask(0)))
    for update in trial.updates[:1]:
        await _require_closed(trial, trial.engine.install(update))


async def check_close_frees(trial: Trial) -> None:
    """A third engine that played and was closed holds nothing, though it is still referred to."""
    closed = []
    before = None
    for _ in range(3):
        async with trial.opened() as engine:
            if engine.capabilities.versions:
                for update in trial.updates[:2]:
                    await trial.install(update)
            version = trial.updates[0].version if engine.capabilities.versions else None
            await trial.replies(trial.asks(version))
            closed.append(engine)
        if len(closed) == 2:  # the first may have filled caches of libraries
            before = await asyncio.to_thread(held)
    if before is not None:
        await asyncio.to_thread(require_freed, before, "after `close`")


async def _require_closed(trial: Trial, work: Awaitable[object]) -> None:
    try:
        await trial.within(work, "what is asked of a closed engine")
    except ModelError:
        return
    raise ConformanceError("a closed engine takes requests or versions")
