"""A model behind an OpenAI-compatible chat endpoint: vLLM, SGLang, llama.cpp, Ollama or a provider.

Replies are text, with what the server reports of them: why a reply ended, how many tokens it took, and
which model wrote it. An endpoint shows neither its weights nor the random numbers that it drew, so its
answers can be recorded and replayed, but their origin cannot be verified.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counts
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace

from srl_agents.engines.endpoint.completions import Completion, likely_tokens
from srl_agents.engines.endpoint.line import Counter, Line, Secret, leave_line, take_line
from srl_agents.engines.endpoint.models import listed_models, not_served, require_listed
from srl_agents.engines.endpoint.reply_journal import JournaledReply, ReplyJournal
from srl_agents.engines.endpoint.settings import EndpointSettings
from srl_agents.engines.endpoint.tries import RefusalError, Tries
from srl_agents.engines.protocol import (
    Capabilities,
    Generation,
    GenerationRequest,
    SamplingSettings,
)
from srl_agents.engines.waiting import EVERY_S, Say, SilenceWatch, to_stderr
from srl_agents.records import Served, WeightUpdate, WeightVersion, digest
from srl_envs.errors import (
    ConfigError,
    DeadlineError,
    LostReplyError,
    ModelError,
    UnknownVersionError,
)

Message = dict[str, str]
"""One of a chat: ``role`` and ``content``."""
MOST_IN_FLIGHT = 64
"""Default limit of concurrent requests, over all endpoints of a process."""
_LENGTH_NAMES = ("max_tokens", "max_completion_tokens")
"""Names of the limit on a reply's tokens. Local servers accept the first, some providers only the second."""
RETRIES = 6
"""Further tries of one reply where the server is busy, fails or is silent."""
_TOO_LONG = ("context_length_exceeded", "maximum context length", "exceeds the available context")
"""Words in the code or message of a refused request whose prompt leaves no room for a reply."""
_CUT_SHORT = ("max_tokens or model output limit was reached",)
"""Words in the message of a provider that refuses where thoughts used up the limit."""
_MOST_LOST = 5
"""Replies lost in a row, with none in between, after which the endpoint is given up."""
_MOST_TEXTLESS = 32
"""First replies without any text after which the endpoint is given up."""
_DRAIN_S = 10.0
"""Seconds that replies under way get when an engine with a journal is closed: they are paid for."""


@dataclass(eq=False, slots=True)
class _Asked:
    """A request from its start to its end."""

    request: str
    """Digest of all that it consists of."""
    chat: list[Message]
    sampling: SamplingSettings
    retries: int
    future: Future[JournaledReply] | None = None
    tell: Callable[[str], object] | None = None
    """Called with the request's digest before it is sent for the first time."""
    first: bool = False
    """Whether the list of models is looked at before."""
    sent: bool = False
    """Whether a server may be working on it."""

    def cancel(self) -> None:
        """Cancel the request."""
        if self.future is not None:
            self.future.cancel()


class EndpointEngine:
    """Asks one served model, several requests at once.

    The first reply, as a rule that of `check`, fixes the name that the server reports for its model.
    Providers put a date into it, so a later reply under another name comes from another model.
    Requests are sent from the process's thread for endpoints, so any event loop may ask.

    Args:
        settings: where it is and how it writes. The key comes from the environment.
        system: message before every chat; None for none.
        journal: of the run; a request that it has is answered from there. Its requests differ in their
            keys, so equal prompts of two matches are two requests.
        sent: called before each request is sent, but not for that of `check` nor for further tries.
        in_flight: most requests at once, of all engines of the process that name this number.
        say: shows a line while no reply comes; called in the process's thread for endpoints.
        say_every_s: of silence before such a line, and between two.

    Raises:
        ConfigError: the key cannot be sent, or is missing.
    """

    capabilities = Capabilities(
        token_ids=False, logprobs=False, seeded=False, versions=False, context_length=None
    )
    reported: str | None
    """The model as the server names it in its replies; empty if it names none, None before the first."""
    retries = RETRIES
    """Further tries of one reply, at most; the attribute of an engine may be set before it is asked."""

    def __init__(
        self,
        settings: EndpointSettings,
        system: str | None = None,
        *,
        journal: ReplyJournal | None = None,
        sent: Callable[[str], object] | None = None,
        in_flight: int = MOST_IN_FLIGHT,
        say: Say = to_stderr,
        say_every_s: float = EVERY_S,
    ) -> None:
        if in_flight < 1:
            raise ConfigError(f"in_flight={in_flight}: use 1 or more.")
        self.settings, self.system = settings, system
        self._journal, self._sent, self._in_flight = journal, sent, in_flight
        self._say, self._silence = say, SilenceWatch(settings.url, say, say_every_s)
        """Reports silence of the server; used in the line's thread."""
        self._secret = Secret(settings.account.key_env)
        self._line: Line | None = None
        self._joined: Future[Counter] | None = None
        self._closed = False
        self._awake = asyncio.Event()
        """Set and cleared in the line's thread, where requests wait for it."""
        self._awake.set()
        self._places = asyncio.Semaphore(settings.concurrency)
        self._length_name = _LENGTH_NAMES[bool(settings.max_thought_tokens)]
        self._under_way: set[_Asked] = set()
        self._lost, self._texts, self._textless = 0, 0, Counts[str]()
        self.reported = None

    def check(self) -> None:
        """Compare the list of models, where there is one, and ask for one token, with one retry, so that what
        cannot work fails before anything slow.

        Raises:
            ModelError: the server does not answer, it refuses the key, or it does not serve the model.
        """
        chat = [{"role": "user", "content": "Hello"}]
        sampling = SamplingSettings(temperature=self.settings.temperature, max_new_tokens=1)
        found = self._journaled(request := self._digest(chat, sampling, ()))
        if found is None:
            asked = _Asked(request, chat, sampling, min(1, self.retries), first=True)
            try:
                _future(self._start(asked)).result()
            except BaseException:
                self.release()  # the engine is not returned, so its caller cannot close it
                raise
        else:
            self._check_model(found.served.model)

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine`.

        A prompt that leaves no room in the model's context gets an empty reply, which the environment
        treats as malformed: the run goes on.

        Raises:
            ConfigError: the request sets a filter of tokens that this API does not have.
            DeadlineError: no reply within the request's deadline.
            LostReplyError: this reply does not come, however often it is asked for.
            ModelError: no reply comes any more, or none has any text; the key or the model is refused;
                or another model wrote it than the ones before.
            UnknownVersionError: the request names a version.
        """
        if request.version is not None:
            raise UnknownVersionError(
                f"{self.settings.url} serves one model, without versions: {request.version} cannot be asked."
            )
        sampling = self._sampling(request)
        chat = self._chat(request)
        asked = _Asked(
            self._digest(chat, sampling, request.key),
            chat,
            sampling,
            self.retries,
            tell=self._sent,
        )
        try:
            async with asyncio.timeout(request.deadline_s):
                found = self._journaled(asked.request)
                if found is None:
                    found = await self._wait(self._start(asked))
        except TimeoutError:
            raise DeadlineError(
                f"{self.settings.url} gave no reply within the {request.deadline_s:g} s that the "
                "request had."
            ) from None
        except asyncio.CancelledError:
            if self._closed and not self._asked_to_end():
                raise self._gone() from None
            raise
        self._require_texts(found)
        text, served = found.text, found.served
        ends = [text.find(stop) + len(stop) for stop in sampling.stop if stop in text]
        if ends:  # text after the stop text does not belong to the reply
            text, served = text[: min(ends)], replace(served, finish="stop")
        return Generation(
            text=text, version=None, finish="served", served=served, thoughts=found.thoughts
        )

    async def install(self, update: WeightUpdate) -> None:
        """Refused: a server plays what it serves.

        Raises:
            ModelError: always.
        """
        raise ModelError(f"{self.settings.url} takes no weights: {update.version} cannot be sent.")

    async def retire(self, version: WeightVersion) -> None:
        """Nothing is installed, so nothing is forgotten."""

    async def sleep(self) -> None:
        """Send no request until `wake`; it holds no device memory."""
        self._awake.clear()

    async def wake(self) -> None:
        """The inverse of `sleep`."""
        if self._line is None:
            self._awake.set()
        else:
            await asyncio.wrap_future(self._line.send(self._rouse()))

    async def close(self) -> None:
        """See `Engine`. With a journal, what is under way is waited for, as it is paid for already."""
        self._closed = True
        await asyncio.to_thread(self.release)

    def release(self) -> None:
        """Give the process's thread for endpoints back; the next request takes it again."""
        line, self._line = self._line, None
        if line is not None:
            line.send(self._end(line)).result()
            self._joined = None
            leave_line(line)

    async def _end(self, line: Line) -> None:
        """End open requests; runs in the line's thread."""
        await self._rouse()
        drained = self._journal is not None
        for asked in [*self._under_way]:
            if not (asked.sent and drained):
                asked.cancel()
        waiting = [asyncio.wrap_future(_future(asked)) for asked in [*self._under_way]]
        if waiting:
            await asyncio.wait(waiting, timeout=_DRAIN_S)
        for future in waiting:
            future.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._joined is not None:
            await line.part(self.settings.account)

    async def _rouse(self) -> None:
        """Let waiting requests go on; runs in the line's thread."""
        self._awake.set()

    # --- in the caller's thread -------------------------------------------------------------

    def _start(self, asked: _Asked) -> _Asked:
        """Begin to ask; the first time takes the line.

        Raises:
            ModelError: it was closed.
        """
        if self._closed:
            raise self._gone()
        if self._line is None:
            self._line = take_line()
            self._joined = self._line.send(self._line.join(self.settings.account))
        self._under_way.add(asked)
        asked.future = self._line.send(self._answer(self._line, asked))
        asked.future.add_done_callback(lambda _: self._under_way.discard(asked))
        return asked

    async def _wait(self, asked: _Asked) -> JournaledReply:
        """The reply; a caller that stops waiting cancels the request, unless its answer will be kept."""
        waited = asyncio.wrap_future(_future(asked))
        try:
            return await asyncio.shield(waited)
        except asyncio.CancelledError:
            if self._journal is None or not asked.sent:
                asked.cancel()
            else:
                waited.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    def _journaled(self, request: str) -> JournaledReply | None:
        return None if self._journal is None else self._journal.find(request)

    def _digest(self, chat: list[Message], sampling: SamplingSettings, key: tuple[int, ...]) -> str:
        """Digest of all that a request consists of, and of its match, seat and turn."""
        settings = self.settings
        return digest(
            [
                settings.url,
                settings.model,
                chat,
                sampling.temperature,
                sampling.max_new_tokens,
                settings.max_thought_tokens,
                settings.extra,
                list(key),
            ]
        )

    def _sampling(self, request: GenerationRequest) -> SamplingSettings:
        sampling = request.sampling or SamplingSettings(
            temperature=self.settings.temperature,
            max_new_tokens=self.settings.max_new_tokens,
            stop=self.settings.stop,
        )
        if sampling.top_k or sampling.min_p or sampling.top_p < 1:
            raise ConfigError(
                f"{self.settings.url}: requests to an endpoint set only a temperature; leave out top_k, "
                "top_p and min_p."
            )
        return sampling

    def _gone(self) -> ModelError:
        return ModelError(f"the endpoint {self.settings.url} was closed.")

    @staticmethod
    def _asked_to_end() -> bool:
        """Whether the calling task was cancelled."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    def _chat(self, request: GenerationRequest) -> list[Message]:
        chat = [] if self.system is None else [{"role": "system", "content": self.system}]
        for seen, said in request.examples:
            chat += [{"role": "user", "content": seen}, {"role": "assistant", "content": said}]
        return [*chat, {"role": "user", "content": request.observation}]

    # --- in the line's thread ---------------------------------------------------------------

    async def _answer(self, line: Line, asked: _Asked) -> JournaledReply:
        if self._joined is None:
            raise self._gone()
        counter = await asyncio.wrap_future(self._joined)
        tries = Tries(
            self.settings,
            self._secret,
            counter,
            line.gate(self._in_flight),
            awake=self._awake,
            closing=lambda: self._closed,
            say=self._say,
        )
        async with self._silence.request(self.settings.deadline_s), self._places:
            if asked.first:
                listed = await listed_models(counter.client, self.settings, self._secret)
                require_listed(self.settings, listed)
            found = await self._complete(tries, counter, asked)
        served, price = found.served, self.settings.price
        if price is not None:
            served = replace(served, cost=price.cost(served))
        reply = JournaledReply(text=found.text, thoughts=found.thoughts, served=served)
        if self._journal is not None:
            self._journal.add(asked.request, reply)
        return reply

    async def _complete(self, tries: Tries, counter: Counter, asked: _Asked) -> Completion:
        """The completion, in the dialect that the server accepts.

        Raises:
            LostReplyError: it did not come.
            ModelError: nothing comes any more.
        """
        most = asked.sampling.max_new_tokens + self.settings.max_thought_tokens
        tokens = likely_tokens(asked.chat) + most
        names = [self._length_name, *(n for n in _LENGTH_NAMES if n != self._length_name)]

        def begun() -> None:
            if asked.tell is not None and not asked.sent:
                asked.tell(asked.request)
            asked.sent = True

        for name in names:
            body = {
                "model": self.settings.model,
                "messages": asked.chat,
                "temperature": asked.sampling.temperature,
                name: most,
                "stream": False,  # some servers stream by default
                **self.settings.extra,
            }
            try:
                found = await tries.complete(body, tokens, retries=asked.retries, begun=begun)
            except LostReplyError as error:
                raise self._counted(error) from None
            except RefusalError as error:
                said = f"{error.code} {error.said}"
                if any(words in said for words in (*_TOO_LONG, *_CUT_SHORT)):
                    served = Served(finish="length", model=self.reported or "")
                    return Completion(text="", thoughts="", served=served)
                if name in said and name != names[-1]:
                    continue
                raise (await self._named(error, counter)) from None
            self._length_name, self._lost = name, 0
            self._check_model(found.served.model)
            return found
        raise RuntimeError("no field name for the limit on tokens is left to try.")

    def _counted(self, error: LostReplyError) -> ModelError:
        """The error, or a graver one where it was not the first in a row."""
        self._lost += 1
        if self._lost < _MOST_LOST:
            return error
        return ModelError(f"{error} {self._lost} replies in a row were lost: stopped.")

    def _require_texts(self, found: JournaledReply) -> None:
        """Give up where not one of the first replies has any text: the run would be paid for nothing.

        Raises:
            ModelError: how the replies ended.
        """
        if found.text:
            self._texts += 1
        if self._texts:
            return
        self._textless[found.served.finish] += 1
        if self._textless.total() >= _MOST_TEXTLESS:
            ends = ", ".join(f"{count} {finish}" for finish, count in self._textless.items())
            raise ModelError(
                f"{self.settings.url}: none of the first {self._textless.total()} replies of "
                f"{self.settings.model} has any text (they ended by: {ends}): stopped. Where thoughts "
                "used up the limit, give them max_thought_tokens in the providers file."
            )

    def _check_model(self, named: str) -> None:
        """Keep the first name that the server reports for its model; refuse every other one."""
        if self.reported is None:
            self.reported = named
        if named != self.reported:
            raise ModelError(
                f"{self.settings.url} answered as {self.reported!r} before and as {named!r} now: these "
                "are two models. One run is one version of an agent: choose another --out, and ask for "
                "the model by its dated name."
            )

    async def _named(self, error: RefusalError, counter: Counter) -> ModelError:
        """The server's refusal as an error that names the setting to correct."""
        url, status, secret = self.settings.url, error.status, self._secret
        if status in (401, 403):
            given = "this key" if secret else "no key"
            return ModelError(
                f"{url} refuses {given} ({status}): put the right one into {secret.variable}."
            )
        if status == 404:
            served = await listed_models(counter.client, self.settings, secret)
            if self.settings.model in served or not served:
                return ModelError(
                    f"{url} is not the address of a chat API, or serves no model {self.settings.model!r} "
                    f"(404: {error.said}). Most addresses end in /v1, for example http://host:8000/v1."
                )
            return not_served(self.settings, served)
        return ModelError(f"{url} answered {status}: {error.said}")


def _future(asked: _Asked) -> Future[JournaledReply]:
    """Of a request that was started.

    Raises:
        RuntimeError: it was not.
    """
    if asked.future is None:
        raise RuntimeError("the request was not started.")
    return asked.future
