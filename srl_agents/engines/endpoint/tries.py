"""One request to a chat endpoint, as often as it takes: every way in which a try fails has a name.

Pauses are drawn evenly between 0 and a bound that doubles (full jitter; Source: "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015), behind what the server asks for in ``Retry-After``. One deadline
holds for all tries of a request, and another one for each.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from collections import Counter as Counts
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import numpy as np

from srl_agents.engines.endpoint.completions import Completion, NoCompletionError, read_completion
from srl_agents.engines.endpoint.line import Counter, Secret
from srl_agents.engines.endpoint.settings import PERSON, EndpointSettings
from srl_agents.records import FailedTry, Served
from srl_envs.errors import LostReplyError

CHAT = "/chat/completions"
LEFT, PAUSED = "srl-seconds-left", "srl-paused"
"""Headers between our clients and a person: how long the reply is waited for, and that its clock stands."""
FIRST_BOUND_S, LAST_BOUND_S = 0.5, 30.0
"""Bounds of the pause before the second try, and of every later one."""
_FEW: dict[FailedTry, int] = {"malformed": 2, "empty": 2}
"""Further tries after failures that a server tends to repeat."""
_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 under which the same request may be answered later."""
_NO_MORE_MONEY = ("insufficient_quota", "billing", "credit balance")
"""Words in a refusal with status 429 that no waiting changes."""
_LEAST_PAUSE_S = 0.1
_LONGEST_WAIT_S = 86_400.0
"""Longest time that a server may ask for; a larger number is ignored."""
_MOST_BYTES = 8 << 20
"""Longest answer that is read."""
_SECOND_DIGITS = 3
QUOTED = 300
"""Characters of a server's own words in our messages."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that gave no reply, where another one may."""

    name: FailedTry
    words: str
    """A sentence behind the address."""
    after_s: float = 0.0
    """Seconds that the server asks to wait for."""
    completion: Completion | None = None
    """The empty completion, where the reply had no text."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The person who would reply pauses."""

    after_s: float
    """Seconds until it is of use to ask again."""


class RefusalError(Exception):
    """The server refuses this request, now and later."""

    def __init__(self, status: int, said: str, code: str) -> None:
        self.status, self.said, self.code = status, said, code
        super().__init__(f"{status} {code} {said}")


def pause_bound_s(failed: int) -> float:
    """Longest pause after so many failed tries in a row."""
    return min(LAST_BOUND_S, FIRST_BOUND_S * 2.0 ** min(failed - 1, 30))


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float:
    """Time that a server asks to wait for: seconds, milliseconds or a date, a day at most; 0 if absent
    or unreadable.

    Args:
        headers: of its answer, by names in lower case.
        now_s: seconds since 1970.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        header = headers.get(name, "")
        try:
            seconds = float(header) / unit
        except ValueError:
            try:
                seconds = email.utils.parsedate_to_datetime(header).timestamp() - now_s
            except (ValueError, TypeError, OverflowError):
                continue
        if 0 <= seconds <= _LONGEST_WAIT_S:
            return seconds
    return 0.0


class Tries:
    """Asks for completions of one model.

    Args:
        settings: how it is asked.
        secret: its key.
        counter: connections and limits of its account.
        gate: places that all endpoints share.
        awake: nothing is sent while it is not set; this time counts against no deadline of a reply.
        closing: whether to begin no further try.
        say: shows a line where a person pauses.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        secret: Secret,
        counter: Counter,
        gate: asyncio.Semaphore,
        *,
        awake: asyncio.Event,
        closing: Callable[[], bool] = lambda: False,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings, self._secret, self._counter, self._gate = settings, secret, counter, gate
        self._awake = awake
        self._closing, self._say = closing, say
        self._paused = False
        """Whether it was said that the person pauses."""
        self._draw = np.random.default_rng().random
        """Jitter, from 0 to 1."""

    async def complete(
        self,
        body: dict[str, Any],
        tokens: int,
        *,
        retries: int,
        begun: Callable[[], object] = lambda: None,
    ) -> Completion:
        """The completion, with the tries that failed before it.

        Args:
            body: of the request.
            tokens: that it may take, for limits per minute.
            retries: further tries, at most.
            begun: called when something is about to be sent.

        Raises:
            LostReplyError: it did not come.
            RefusalError: it will not come.
        """
        failed: list[Failure] = []
        until_s = first_s = None
        while True:
            slept_s = await self._sleep_over()
            until_s = None if until_s is None else until_s + slept_s
            await self._counter.limit.admit(tokens)
            until_s = time.monotonic() + self._settings.deadline_s if until_s is None else until_s
            first_s = time.monotonic() if first_s is None else first_s + slept_s
            outcome = await self._once(body, tokens, until_s, begun)
            if outcome is None:
                continue
            if isinstance(outcome, Pause):
                until_s += await self._stand(outcome)
                continue
            if isinstance(outcome, Completion):
                return _after(outcome, failed, time.monotonic() - first_s)
            failed.append(outcome)
            most = min(retries, _FEW.get(outcome.name, retries))
            left_s = until_s - time.monotonic()
            if outcome.after_s and outcome.name != "empty":
                self._counter.limit.hold(min(outcome.after_s, max(left_s, 0.0)))
            pause_s = outcome.after_s + pause_bound_s(len(failed)) * self._draw()
            if outcome.after_s and outcome.after_s < FIRST_BOUND_S:
                pause_s = outcome.after_s * (1 + self._draw())
            alike = sum(failure.name == outcome.name for failure in failed)
            if len(failed) > retries or alike > most or pause_s >= left_s or self._closing():
                if outcome.completion is not None:
                    return _after(outcome.completion, failed, time.monotonic() - first_s)
                raise LostReplyError(self._lost(failed))
            await asyncio.sleep(pause_s)

    async def _sleep_over(self) -> float:
        """Seconds until the engine was awake."""
        begun_s = time.monotonic()
        await self._awake.wait()
        return time.monotonic() - begun_s

    async def _stand(self, pause: Pause) -> float:
        """Seconds that passed until a person may have gone on; they count against no limit."""
        begun_s = time.monotonic()
        if not self._paused:
            self._say(f"{self._settings.url}: the person pauses; the clock of this reply stands")
        self._paused = True
        if self._closing():
            raise LostReplyError(f"{self._settings.url}: the person pauses.")
        await asyncio.sleep(pause.after_s)
        return time.monotonic() - begun_s

    async def _once(
        self, body: dict[str, Any], tokens: int, until_s: float, begun: Callable[[], object]
    ) -> Completion | Failure | Pause | None:
        """What one try came to; None where the engine was put to sleep before it was sent."""
        used, limit_s = 0, self._settings.timeout_s
        try:
            async with self._counter.places, self._gate:
                left_s = until_s - time.monotonic()
                if left_s <= 0:
                    return Failure(
                        "slow",
                        f"was not asked: others were before, and the {self._settings.deadline_s:g} s for "
                        "a reply were over",
                    )
                limit_s = min(self._settings.timeout_s, left_s)
                if not self._awake.is_set():
                    return None
                begun()
                used = tokens  # a caller that stops waiting does not read the count
                async with asyncio.timeout(limit_s):
                    status, headers, raw = await self._post(body, left_s)
            used = 0
            outcome = self._read(status, headers, raw)
            read = outcome if isinstance(outcome, Completion) else _empty_one(outcome)
            used = 0 if read is None else _used(read.served, tokens)
        except TimeoutError:
            return Failure("slow", f"gave no reply within {limit_s:.3g} s")
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            used = 0
            return Failure(
                "unreachable",
                f"does not answer ({type(error).__name__}: {error}); see that the server runs and that the "
                "address is right",
            )
        except (httpx2.DecodingError, _TooLargeError) as error:
            return self._malformed(self._secret.hide(f"{type(error).__name__}: {error}"))
        except httpx2.TransportError as error:
            quoted = self._secret.hide(str(error))[:QUOTED]  # it may hold a line of the answer
            return Failure("cut", f"cut the connection ({type(error).__name__}: {quoted})")
        finally:
            self._counter.limit.settle(tokens, used)
        return outcome

    async def _post(self, body: dict[str, Any], left_s: float) -> tuple[int, dict[str, str], str]:
        """(status, headers, body) of the whole answer, without the key: nothing behind this sees it."""
        raw = bytearray()
        left = {LEFT: f"{left_s:.0f}"} if self._settings.model == PERSON else {}
        async with self._counter.client.stream(
            "POST",
            self._settings.url.rstrip("/") + CHAT,
            json=body,
            headers={**self._secret.headers, **left},
        ) as answer:
            async for part in answer.aiter_bytes():
                raw += part
                if len(raw) > _MOST_BYTES:
                    raise _TooLargeError(f"more than {_MOST_BYTES >> 20} MiB")
        hide = self._secret.hide
        headers = {name.lower(): hide(value) for name, value in answer.headers.items()}
        return answer.status_code, headers, self._secret.hide_in_body(bytes(raw))

    def _read(
        self, status: int, headers: Mapping[str, str], text: str
    ) -> Completion | Failure | Pause:
        """What an answer means.

        Raises:
            RefusalError: asking again is of no use.
        """
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = None
        if status == httpx2.codes.OK and isinstance(body, dict) and "choices" not in body:
            status = _status_inside(body)  # some providers report errors in answers that are fine
        if self._settings.model == PERSON and PAUSED in headers:
            return Pause(max(retry_after_s(headers, time.time()), _LEAST_PAUSE_S))
        self._paused = False
        if status != httpx2.codes.OK:
            return self._failed(status, headers, body, text)
        if body is None:
            return self._malformed(text)
        limit = self._settings.max_new_tokens if self._settings.max_thought_tokens else None
        try:
            found = read_completion(body, limit, opened=self._settings.opens_thoughts)
        except NoCompletionError as error:
            return self._malformed(str(error))
        if not found.text and found.served.finish == "stop" and not found.served.completion_tokens:
            found = replace(found, served=replace(found.served, finish="empty"))
            return Failure("empty", "gave a reply without any text", completion=found)
        return found

    def _failed(self, status: int, headers: Mapping[str, str], body: Any, text: str) -> Failure:
        said, code = (words[:QUOTED] for words in _words(body, text))
        pause_s = retry_after_s(headers, time.time())
        spent = (
            status == httpx2.codes.TOO_MANY_REQUESTS
            and pause_s < 1  # a server that names a time has money left
            and any(words in f"{code} {said}".lower() for words in _NO_MORE_MONEY)
        )
        if spent or (status < httpx2.codes.INTERNAL_SERVER_ERROR and status not in _PASSING):
            raise RefusalError(status, said, code)
        limited = status == httpx2.codes.TOO_MANY_REQUESTS
        return Failure(
            "rate_limited" if limited else "server_error",
            f"answered {status}: {said}",
            pause_s,
        )

    def _malformed(self, found: str) -> Failure:
        return Failure(
            "malformed", f"answered with something else than a chat completion: {found[:QUOTED]!r}"
        )

    def _lost(self, failed: list[Failure]) -> str:
        counts = Counts(failure.name for failure in failed)
        counted = ", ".join(f"{count} {name}" for name, count in counts.items())
        words = failed[-1].words.removesuffix(".")
        asks_s = failed[-1].after_s
        wait = f" It asks to wait {asks_s:.3g} s." if asks_s else ""
        return f"{self._settings.url} {words}, in {len(failed)} tries ({counted}).{wait}"


class _TooLargeError(Exception):
    """An answer is longer than any reply."""


def _after(found: Completion, failed: list[Failure], seconds: float) -> Completion:
    """The completion, with its seconds and the tries before it; an accepted empty one is none of them."""
    before = [failure for failure in failed if failure.completion is not found]
    names = tuple(failure.name for failure in before)
    served = replace(found.served, failed_tries=names, seconds=round(seconds, _SECOND_DIGITS))
    return replace(found, served=served)


def _empty_one(outcome: Failure | Pause) -> Completion | None:
    """The completion of a try without a text, if it had one."""
    return outcome.completion if isinstance(outcome, Failure) else None


def _used(served: Served, otherwise: int) -> int:
    """Tokens that a reply took; as many as were allowed for where the server does not tell."""
    if served.prompt_tokens is None or served.completion_tokens is None:
        return otherwise
    return served.prompt_tokens + served.completion_tokens


def _status_inside(body: Mapping[str, Any]) -> int:
    """The status that an answer without choices reports; 200 where it reports none."""
    error = body.get("error")
    if error is None:
        return int(httpx2.codes.OK)
    code = error.get("code") if isinstance(error, dict) else None
    if type(code) is int and 400 <= code <= 599:
        return code
    return int(httpx2.codes.INTERNAL_SERVER_ERROR)


def _words(body: Any, text: str) -> tuple[str, str]:
    """(message, code) of a refusal; servers put them in different places."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        message = next((error[k] for k in ("message", "detail") if error.get(k)), error)
        return str(message), str(error.get("code") or error.get("type") or "")
    return (error if isinstance(error, str) else text), ""
