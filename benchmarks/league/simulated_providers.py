"""Eight simulated providers of models: prices, rate limits, faults and strengths, on local servers.

Each speaks the chat completions API with the habits of a kind of provider: how it words errors, where
thoughts stand, which words end a reply. Its model reads nothing but the prompt: a share of the replies are
those of the game's strong bot, others of weaker ones, some are illegal. A reply follows from model and
prompt, so a run that was stopped gets the same ones. Faults follow from the number of the request. Every
reply that was written is billed, also one that the client never got, as providers do it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import cache
from typing import Any, Literal

import srl_envs
from srl_agents.engines.endpoint.rate_limits import BURST_S
from srl_envs.turns.bots import bot_of

Dialect = Literal["plain", "strict", "dated", "listed", "inside", "thinker", "tagged", "silent"]
GREETING = "Hello"
_DAY_S = 86_400.0
_TITLE = 16
"""Characters by which rules are recognised."""


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A provider and its one model."""

    name: str
    dialect: Dialect
    shares: Mapping[str, float]
    """Bot -> share of the replies; the rest is illegal."""
    input: float
    """Price of a million tokens of prompts, in dollars."""
    output: float
    per_day: int
    """Requests that are answered in a day, evenly; others get status 429."""
    listed_per_day: int | None = None
    """The limit in the client's providers file, where that is out of date."""
    latency_s: float = 2.0
    characters_per_token: float = 4.0
    thoughts: int = 0
    """Tokens of thoughts before each reply."""
    faults: Mapping[str, float] = field(default_factory=dict)
    """Kind of fault -> share of the requests."""

    @property
    def model(self) -> str:
        """Name of the model at the provider."""
        return f"{self.name}-1"


PROVIDERS = (
    Simulated(
        name="alder", dialect="plain", shares={"strong": 0.95}, input=2.5, output=15, per_day=200,
        faults={"server_error": 0.01},
    ),
    Simulated(
        name="birch", dialect="strict", shares={"strong": 0.7, "middle": 0.3}, input=3, output=15,
        per_day=120, faults={"refused": 0.01}, characters_per_token=3.6,
    ),
    Simulated(
        name="cedar", dialect="thinker", shares={"strong": 0.5, "middle": 0.5}, input=0.5, output=2.5,
        per_day=140, thoughts=40, latency_s=4.0, faults={"truncated": 0.02},
    ),
    Simulated(
        name="dogwood", dialect="listed", shares={"middle": 0.95}, input=0.3, output=2.5, per_day=120,
        listed_per_day=200, characters_per_token=4.3,
    ),
    Simulated(
        name="elm", dialect="inside", shares={"middle": 0.6, "random": 0.35}, input=0.15, output=0.6,
        per_day=200, faults={"server_error": 0.03},
    ),
    Simulated(
        name="fir", dialect="dated", shares={"random": 0.95}, input=0.1, output=0.4, per_day=140,
        listed_per_day=160, faults={"cut": 0.02},
    ),
    Simulated(
        name="gorse", dialect="tagged", shares={"middle": 0.5, "random": 0.2}, input=0.05, output=0.2,
        per_day=180, thoughts=10, faults={"slow": 0.002},
    ),
    Simulated(
        name="hazel", dialect="silent", shares={"strong": 0.4, "random": 0.2}, input=0.2, output=0.2,
        per_day=180, faults={"cut": 0.01, "empty": 0.01},
    ),
)  # fmt: skip


@dataclass
class Bill:
    """What one provider saw and charges for."""

    requests: int = 0
    """All but greetings, refused and failed ones among them."""
    written: int = 0
    """Replies that were written, and are charged."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    greetings: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def cost(self, provider: Simulated) -> float:
        """Dollars, without greetings."""
        return (self.prompt_tokens * provider.input + self.reply_tokens * provider.output) / 1e6


class Server:
    """One provider on a port of this machine.

    Args:
        provider: what it is.
        speed: how many of its seconds pass in one of ours.
    """

    def __init__(self, provider: Simulated, speed: float) -> None:
        self.provider, self.speed = provider, speed
        self.bill, self.url = Bill(), ""
        self._connections: set[asyncio.Task[Any]] = set()
        self._level, self._at_s = 0.0, -math.inf  # full

    async def start(self) -> None:
        """Begin to listen."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        """Close what is open."""
        self._listener.close()
        connections = [*self._connections]
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if head.startswith("get"):
                    answer = _http(200, {"data": [{"id": self.provider.model}]})
                else:
                    length = int(head.split("content-length:")[1].split("\r\n")[0])
                    answer = await self._answer(json.loads(await reader.readexactly(length)))
                writer.write(answer)
                await writer.drain()
                if not answer:  # cut
                    break
        self._connections.discard(task)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, request: dict[str, Any]) -> bytes:
        provider, bill = self.provider, self.bill
        prompt = request["messages"][-1]["content"]
        if prompt == GREETING:
            bill.greetings += 1
            return self._completion(request, "Hi", "stop")
        if provider.dialect == "strict" and "max_tokens" in request:
            return self._refusal(400, "Unsupported parameter: 'max_tokens'.", {})
        bill.requests += 1
        if wait_s := self._wait_s():
            bill.faults["rate_limited"] += 1
            return self._refusal(429, "Too many requests.", self._retry_after(wait_s))
        fault = self._fault(bill.requests)
        bill.faults[fault] += bool(fault)
        await asyncio.sleep(provider.latency_s * (30 if fault == "slow" else 1) / self.speed)
        if fault == "server_error":
            if provider.dialect == "inside":
                return _http(200, {"error": {"code": 502, "message": "No upstream answered."}})
            return self._refusal(529, "Overloaded.", {})
        if fault == "empty":
            return self._completion(request, "", "stop")
        text = reply(provider, prompt)
        finish = "stop"
        if fault == "refused":
            text, finish = "", "content_filter"
        elif fault == "truncated":
            text, finish = text[: len(text) // 2].replace("</action>", ""), "length"
        answer = self._completion(request, text, finish)
        return b"" if fault == "cut" else answer

    def _wait_s(self) -> float:
        """Seconds until a request would be answered; 0 for this one."""
        now_s, rate = time.monotonic(), self.provider.per_day * self.speed / _DAY_S
        filled = self._level + rate * (now_s - self._at_s)
        self._level, self._at_s = min(max(1.0, rate * BURST_S), filled), now_s
        if self._level < 1:
            return (1 - self._level) / rate
        self._level -= 1
        return 0.0

    def _retry_after(self, wait_s: float) -> dict[str, str]:
        if self.provider.dialect == "dated":  # whole seconds, rounded up
            return {"Retry-After": formatdate(time.time() + wait_s + 1, usegmt=True)}
        return {"Retry-After-Ms": str(int(1000 * wait_s) + 1)}

    def _fault(self, number: int) -> str:
        drawn = _share(f"{self.provider.name} {number}")
        for kind, share in self.provider.faults.items():
            if drawn < share:
                return kind
            drawn -= share
        return ""

    def _completion(self, request: dict[str, Any], text: str, finish: str) -> bytes:
        provider, bill = self.provider, self.bill
        prompt = sum(len(message["content"]) for message in request["messages"])
        used = round(prompt / provider.characters_per_token)
        own = -(-len(text) // 4)
        if request["messages"][-1]["content"] != GREETING and text:
            bill.written += 1
            bill.prompt_tokens += used
            bill.reply_tokens += own + provider.thoughts
        message: dict[str, Any] = {"role": "assistant", "content": text}
        usage: dict[str, Any] = {
            "prompt_tokens": used,
            "completion_tokens": own + provider.thoughts if text else 0,
        }
        if provider.dialect == "thinker":
            message["reasoning_content"] = "I think about the move."
            usage["completion_tokens_details"] = {"reasoning_tokens": provider.thoughts}
        elif provider.dialect == "tagged" and text:
            message["content"] = f"<think>The rules first.</think>{text}"
        if provider.dialect == "strict":
            finish = {"stop": "end_turn", "length": "max_tokens"}.get(finish, "refusal")
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return _http(200, {"model": provider.model, "choices": [choice], "usage": usage})

    def _refusal(self, status: int, words: str, headers: dict[str, str]) -> bytes:
        body: Any = {"error": {"message": words, "type": "error"}}
        if self.provider.dialect == "listed":
            body = [body]
        elif self.provider.dialect == "silent":
            return _http(status, None, headers)
        return _http(status, body, headers)


@contextmanager
def serving(providers: Sequence[Simulated], speed: float) -> Iterator[list[Server]]:
    """The servers, in a thread of this process."""
    servers = [Server(provider, speed) for provider in providers]
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def serve() -> None:
        for server in servers:
            await server.start()
        ready.set()
        await over.wait()
        for server in servers:
            await server.stop()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield servers
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def reply(provider: Simulated, prompt: str) -> str:
    """The model's reply to a prompt, always the same one."""
    drawn = _share(f"{provider.name} {prompt}")
    for bot, share in provider.shares.items():
        if drawn < share:
            return _bot_reply(bot, prompt)
        drawn -= share
    return "<action>I would rather not say</action>"


@cache
def titles() -> dict[str, str]:
    """Beginning of the rules -> the game, of those with several seats."""
    found: dict[str, str] = {}
    for name in srl_envs.list_envs():
        if srl_envs.spec(name).seats == 1:
            continue
        with closing(srl_envs.make(name)) as env:
            seen = next(iter(env.reset(seed=0)[0].values()))["text"]
            title = seen.removeprefix(env.header)[:_TITLE]
        if found.setdefault(title, name) != name:
            raise ValueError(f"{name} and {found[title]} begin alike")
    return found


@cache
def _bot_reply(bot: str, prompt: str) -> str:
    game = next((env for title, env in titles().items() if title in prompt), None)
    if game is None:
        return "Which game is this?"
    return bot_of(srl_envs.spec(game), bot, int(_share(prompt) * 2**31))(prompt)


def _share(text: str) -> float:
    """A number from 0 to 1 that follows from a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def _http(status: int, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} As simulated", f"Content-Length: {len(data)}"]
    lines += ["Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data
