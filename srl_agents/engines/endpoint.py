"""A model behind an OpenAI-compatible chat endpoint: vLLM, SGLang, llama.cpp, Ollama or a provider.

Replies are text, with what the server reports of them: why a reply ended, how many tokens it took, and
which model wrote it. An endpoint shows neither its weights nor the random numbers that it drew, so what
it says can be recorded and replayed, and nobody can check who said it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar
from urllib.parse import urlsplit

from srl_agents.engines.protocol import (
    Capabilities,
    Generation,
    GenerationRequest,
    SamplingSettings,
)
from srl_agents.records import Served, ServedFinish, WeightUpdate, WeightVersion
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError, nearest

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

T = TypeVar("T")
Message = dict[str, str]
"""One of a chat: ``role`` and ``content``."""
API_KEY = "SRL_ENDPOINT_API_KEY"
"""Environment variable with the key. Not OPENAI_API_KEY: that one is for one provider, and every
endpoint that is named on a command line would be sent it."""
_NO_KEY = "none"
"""What servers that want no key are sent; the client insists on one."""
_CONNECT_S = 5.0
_LENGTH_NAMES = ("max_tokens", "max_completion_tokens")
"""How requests call the longest reply. Local servers know the first, some providers the second only."""
_TOO_LONG = ("context_length_exceeded", "maximum context length", "exceeds the available context")
"""In the code or message of a refused request whose prompt leaves no room for a reply."""

_QUOTED = 300
"""Characters of a server's own words in our messages."""
MOST_MODEL_CHARACTERS = 200
"""Of the name that a server reports for its model."""
MOST_TOKENS = 100_000_000
"""Of one prompt or reply; a larger count is taken for none."""
_FINISHES: dict[str, ServedFinish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
    "refusal": "refused",
}
"""How servers call the end of a reply; every other word is ``other``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointSettings:
    """Where a served model is and how it writes."""

    url: str
    """Base address of the API, which ends in ``/v1`` as a rule."""
    model: str
    """As the server calls it."""
    temperature: float = 1.0
    """Of sampling; 0 is greedy."""
    max_new_tokens: int = 128
    """Per reply."""
    stop: tuple[str, ...] = ("</action>",)
    """Texts that end a reply; they stay in it. They are cut here: servers drop them from the reply."""
    timeout_s: float = 120.0
    """For one reply."""
    retries: int = 6
    """Further tries where the server is busy, fails or is silent; each waits longer, 8 s at most."""
    concurrency: int = 8
    """Requests at once."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # brackets without an end, or a port that is no number
            usable = False
        if not usable or not self.url.isprintable() or " " in self.url:
            raise ConfigError(
                f"endpoint {self.url!r}: give an address such as http://host:8000/v1."
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ConfigError(
                f"endpoint at {parts.hostname}: an address is written down with the results, so it may "
                f"hold no user, query or fragment. A key belongs into {API_KEY}."
            )
        if not self.model:
            raise ConfigError(f"endpoint {self.url}: name a model that it serves.")
        for name in ("timeout_s", "concurrency", "max_new_tokens"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"endpoint: {name}={getattr(self, name)}: use more than 0.")
        if self.retries < 0:
            raise ConfigError(f"endpoint: retries={self.retries}: use 0 or more.")


class EndpointEngine:
    """Asks one served model, several requests at once.

    The first reply, as a rule that of `check`, fixes the name that the server reports for its model.
    Providers put a date into it, so a later reply under another name comes from another model.
    Requests are sent from a thread of its own, so any event loop may ask.

    Args:
        settings: where it is and how it writes. The key comes from the environment.
        system: message before every chat; None for none.

    Raises:
        ConfigError: the key cannot be sent.
    """

    capabilities = Capabilities(
        token_ids=False, logprobs=False, seeded=False, versions=False, context_length=None
    )
    reported: str | None
    """The model as the server names it in its replies; empty if it names none, None before the first."""

    def __init__(self, settings: EndpointSettings, system: str | None = None) -> None:
        self.settings, self.system = settings, system
        self._key = os.environ.get(API_KEY, "").strip() or _NO_KEY
        if not (self._key.isascii() and self._key.isprintable()):
            # the client would refuse the header, and its error shows the header
            raise ConfigError(
                f"{API_KEY} holds a character that no key has, such as a line break or an accent: copy "
                "the key again."
            )
        self._line: _Line | None = None
        self._client: AsyncOpenAI | None = None
        self._closed = False
        self._awake = asyncio.Event()
        self._awake.set()
        self._places = asyncio.Semaphore(settings.concurrency)
        self._length_name = _LENGTH_NAMES[0]
        self.reported = None

    def _connect(self, retries: int) -> AsyncOpenAI:
        """A client; never a copy of one, which would read the variables of one provider again."""
        from openai import AsyncOpenAI, Timeout  # noqa: PLC0415 - an extra, and slow to import

        client = AsyncOpenAI(
            api_key=self._key,
            base_url=self.settings.url,
            timeout=Timeout(self.settings.timeout_s, connect=_CONNECT_S),
            max_retries=retries,
        )
        client.organization = client.project = None  # of that provider, too
        return client

    def check(self) -> None:
        """Ask for one token, with one retry, so that what cannot work fails before anything slow.

        Raises:
            ModelError: nobody answers there, the key is refused, or the model is not served.
        """
        asyncio.run(self._check())

    async def _check(self) -> None:
        from openai import BadRequestError  # noqa: PLC0415

        greeting = [{"role": "user", "content": "Hello"}]
        async with self._connect(min(1, self.settings.retries)) as quick:
            ask = partial(self._ask, quick, greeting, self.settings.temperature, 1)
            try:
                await ask()
            except BadRequestError as error:
                if _LENGTH_NAMES[0] not in _words(error):
                    raise (await self._named(error)) from None
                self._length_name = _LENGTH_NAMES[1]
                await ask()

    async def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine`.

        A prompt that leaves no room in the model's context gets an empty reply, which the environment
        treats as malformed: the run goes on.

        Raises:
            ConfigError: the request wants a filter of tokens that this API does not have.
            DeadlineError: no reply within the request's deadline.
            ModelError: a reply does not come, however often it is asked for; or another model wrote it
                than the ones before.
            UnknownVersionError: the request names a version.
        """
        if request.version is not None:
            raise UnknownVersionError(
                f"{self.settings.url} serves one model and knows no version {request.version}."
            )
        sampling = request.sampling or SamplingSettings(
            temperature=self.settings.temperature,
            max_new_tokens=self.settings.max_new_tokens,
            stop=self.settings.stop,
        )
        if sampling.top_k or sampling.min_p or sampling.top_p < 1:
            raise ConfigError(
                f"{self.settings.url}: an endpoint is asked with a temperature alone; leave out top_k, "
                "top_p and min_p."
            )
        try:
            async with asyncio.timeout(request.deadline_s):
                await self._awake.wait()
                work = self._reply(self._chat(request), sampling)
                text, served = await asyncio.wrap_future(self._send(work))
        except TimeoutError:
            raise DeadlineError(
                f"{self.settings.url} gave no reply within the {request.deadline_s:g} s that the "
                "request had."
            ) from None
        except asyncio.CancelledError:
            if self._closed and not self._asked_to_end():
                raise self._gone() from None
            raise
        return Generation(text=text, version=None, finish="served", served=served)

    async def install(self, update: WeightUpdate) -> None:
        """Refused: a server plays what it serves.

        Raises:
            ModelError: always.
        """
        raise ModelError(f"{self.settings.url} takes no weights: {update.version} cannot be sent.")

    async def retire(self, version: WeightVersion) -> None:
        """Nothing is installed, so nothing is forgotten."""

    async def sleep(self) -> None:
        """Send nothing until `wake`; there is no memory to give back."""
        self._awake.clear()

    async def wake(self) -> None:
        """The inverse of `sleep`."""
        self._awake.set()

    async def close(self) -> None:
        """See `Engine`."""
        self._closed = True
        self._awake.set()
        line, client = self._line, self._client
        self._line = self._client = None
        if line is not None and client is not None:
            await asyncio.to_thread(line.close, client.close())

    def _send(self, work: Coroutine[Any, Any, tuple[str, Served]]) -> Future[tuple[str, Served]]:
        """Begin to ask; the first time opens the line.

        Raises:
            ModelError: it was closed.
        """
        if self._closed:
            work.close()
            raise self._gone()
        if self._line is None:
            self._line, self._client = _Line(), self._connect(self.settings.retries)
        return self._line.send(work)

    @property
    def _opened(self) -> AsyncOpenAI:
        """The client of the line.

        Raises:
            ModelError: it was closed meanwhile.
        """
        if self._client is None:
            raise self._gone()
        return self._client

    def _gone(self) -> ModelError:
        return ModelError(f"the endpoint {self.settings.url} was closed.")

    @staticmethod
    def _asked_to_end() -> bool:
        """Whether somebody cancelled the task that asks."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    def _chat(self, request: GenerationRequest) -> list[Message]:
        chat = [] if self.system is None else [{"role": "system", "content": self.system}]
        for seen, said in request.examples:
            chat += [{"role": "user", "content": seen}, {"role": "assistant", "content": said}]
        return [*chat, {"role": "user", "content": request.observation}]

    async def _reply(self, chat: list[Message], sampling: SamplingSettings) -> tuple[str, Served]:
        from openai import BadRequestError  # noqa: PLC0415

        async with self._places:
            try:
                text, served = await self._ask(
                    self._opened, chat, sampling.temperature, sampling.max_new_tokens
                )
            except BadRequestError as error:
                if any(words in _words(error) for words in _TOO_LONG):
                    return "", Served(finish="length")
                raise (await self._named(error)) from None
        ends = [text.find(stop) + len(stop) for stop in sampling.stop if stop in text]
        if ends:  # what the limit cut after the stop text is no part of the reply
            text, served = text[: min(ends)], replace(served, finish="stop")
        return text, served

    async def _ask(
        self, client: AsyncOpenAI, chat: list[Message], temperature: float, most: int
    ) -> tuple[str, Served]:
        """One request, with the retries of ``client``.

        Raises:
            BadRequestError: the server refuses it; the caller may know why.
            ModelError: anything else.
        """
        import openai  # noqa: PLC0415

        request: Any = {
            "model": self.settings.model,
            "messages": chat,
            "temperature": temperature,
            self._length_name: most,
        }
        try:
            found: Any = await client.chat.completions.create(**request)
        except openai.BadRequestError:
            raise
        except openai.APIStatusError as error:
            raise (await self._named(error)) from None
        except openai.APITimeoutError:
            raise ModelError(
                f"{self.settings.url} gave no reply within {self.settings.timeout_s:g} s, in "
                f"{client.max_retries + 1} tries."
            ) from None
        except openai.APIConnectionError as error:
            reason = f"{type(error.__cause__).__name__}: {error.__cause__}"
            raise ModelError(
                f"{self.settings.url} does not answer ({reason}). Is the server running, and is the "
                "address right?"
            ) from None
        except (openai.OpenAIError, ValueError) as error:
            raise self._strange(f"{type(error).__name__}: {error}") from None
        return self._read(found)

    def _read(self, found: Any) -> tuple[str, Served]:
        """Text and report of a completion that the client has not checked.

        Raises:
            ModelError: it is none, or another model's.
        """
        try:
            choice = found.choices[0]
            text = choice.message.content
        except (AttributeError, IndexError, TypeError):
            raise self._strange(str(found)) from None
        if text is not None and not isinstance(text, str):  # the client does not look
            raise self._strange(str(text))
        self._check_model(getattr(found, "model", None))
        # JSON can say half of a surrogate pair, which is no text and cannot be written down
        whole = (text or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return whole, _served(choice, getattr(found, "usage", None))

    def _check_model(self, name: object) -> None:
        """Keep the first name that the server reports for its model; refuse every other one."""
        told = "" if name is None else name
        if not is_model_name(told):
            raise self._strange(f"model {told!r}")
        if self.reported is None:
            self.reported = told
        if told != self.reported:
            raise ModelError(
                f"{self.settings.url} answered as {self.reported!r} before and as {told!r} now: these "
                "are two models. One run is one version of an agent: choose another --out, and ask for "
                "the model by its dated name."
            )

    async def _named(self, error: APIStatusError) -> ModelError:
        """What the server's refusal means for whoever named it."""
        url, status = self.settings.url, error.status_code
        if status in (401, 403):
            given = "no key" if self._key == _NO_KEY else "this key"
            return ModelError(
                f"{url} refuses {given} ({status}): put the right one into {API_KEY}."
            )
        if status == 404:
            served = await self._served()
            if self.settings.model in served or not served:
                return ModelError(
                    f"{url} is no address of a chat API (404): most end in /v1, for example "
                    "http://host:8000/v1."
                )
            return ModelError(
                f"{url} serves no model {self.settings.model!r}."
                f"{nearest(self.settings.model, served)} It serves: {', '.join(served)}."
            )
        said = error.message.replace(self._key, "***")[:_QUOTED]
        return ModelError(f"{url} answered {status}: {said}")

    async def _served(self) -> list[str]:
        """Models that the server lists; none if it lists nothing."""
        import openai  # noqa: PLC0415

        try:
            async with self._connect(0) as client:
                listed = await client.models.list()
            return sorted(model.id for model in listed.data)
        except (openai.OpenAIError, ValueError, AttributeError, TypeError):
            return []

    def _strange(self, found: str) -> ModelError:
        return ModelError(
            f"{self.settings.url} answered with something else than a chat completion: "
            f"{found.replace(self._key, '***')[:_QUOTED]!r}"
        )


class _Line:
    """A thread with an event loop, which keeps connections open between one caller's loop and the next."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)
        self._thread.start()

    def send(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do the work there; cancelling the result cancels the work."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Cancel what is under way, do the last work, and end the thread."""
        self.send(self._cancel_all()).result()
        self.send(last).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def is_model_name(name: object) -> TypeGuard[str]:
    """Whether a server may report this as the name of its model; empty stands for none."""
    return isinstance(name, str) and name.isprintable() and len(name) <= MOST_MODEL_CHARACTERS


def _served(choice: Any, usage: Any) -> Served:
    """Why a reply ended and what it took, of a completion that the client has not checked."""
    reason = getattr(choice, "finish_reason", None)
    finish = _FINISHES.get(reason, "other") if isinstance(reason, str) else "other"
    if getattr(choice.message, "refusal", None) and not choice.message.content:
        finish = "refused"
    return Served(
        finish=finish,
        prompt_tokens=_count(getattr(usage, "prompt_tokens", None)),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
    )


def _count(value: Any) -> int | None:
    """A number of tokens; None for anything else."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _words(error: APIStatusError) -> str:
    """Code and message of a refusal."""
    return f"{error.code} {error.message}"
