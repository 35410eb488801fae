"""Endpoints: the request that is sent, the reply that returns, and the error where none does."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from srl_agents.agents import ModelPolicy, ScriptedPolicy
from srl_agents.agents.players import Policy
from srl_agents.engines.endpoint.client import EndpointEngine
from srl_agents.engines.endpoint.settings import API_KEY, Account, EndpointSettings
from srl_agents.engines.protocol import Engine, Generation, GenerationRequest, SamplingSettings
from srl_agents.records import MatchSpec, Served, WeightUpdate, WeightVersion
from srl_agents.rollouts import Rollouts
from srl_agents.testing import check_engine
from srl_envs.errors import ConfigError, DeadlineError, ModelError, UnknownVersionError
from tests.chat_server import DATED, MODEL, chat_server

# anyio leaves a coroutine behind where a request is cancelled before it has a connection
pytestmark = pytest.mark.filterwarnings("ignore:coroutine 'connect_tcp:RuntimeWarning")
HELLO = [{"role": "user", "content": "Hello"}]

Maker = Callable[..., EndpointEngine]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)


@pytest.fixture
def endpoint() -> Iterator[Callable[..., EndpointEngine]]:
    """Makes engines, which are closed at the end."""
    made: list[EndpointEngine] = []

    def make(
        url: str,
        system: str | None = None,
        *,
        retries: int = EndpointEngine.retries,
        **settings: Any,
    ) -> EndpointEngine:
        found = EndpointSettings(**{"account": Account(url=url), "model": MODEL, **settings})
        made.append(EndpointEngine(found, system))
        made[-1].retries = retries
        return made[-1]

    yield make
    for engine in made:
        asyncio.run(engine.close())


def request(text: str = "Hello", **settings: Any) -> GenerationRequest:
    return GenerationRequest(observation=text, key=(0,), **{"version": None, **settings})


def ask(engine: EndpointEngine, *requests: GenerationRequest) -> list[Generation]:
    """All together; one greeting if nothing is given."""

    async def together() -> list[Generation]:
        return await asyncio.gather(*map(engine.generate, requests or [request()]))

    return asyncio.run(together())


def test_replies_come_in_the_order_of_the_chats_and_several_at_once(endpoint: Maker) -> None:
    with chat_server(reply=lambda r: r["messages"][-1]["content"], gathers=3) as server:
        requests = [request(str(k)) for k in range(9)]
        replies = ask(endpoint(server.url, concurrency=3), *requests)
        assert [reply.text for reply in replies] == [str(k) for k in range(9)]
        assert {reply.finish for reply in replies} == {"served"}
        assert server.at_once == 3


def test_a_request_samples_as_the_settings_say(endpoint: Maker) -> None:
    with chat_server() as server:
        ask(endpoint(server.url, temperature=0.5, max_new_tokens=7))
        assert server.requests == [
            {
                "model": MODEL,
                "messages": HELLO,
                "temperature": 0.5,
                "max_tokens": 7,
                "stream": False,
            }
        ]


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("x <action>bet</action> and more</action>", "x <action>bet</action>"),
        ("<action>bet", "<action>bet"),
        ("", ""),
        (None, ""),
        ("a END b</action>", "a END"),
    ],
)
def test_a_reply_ends_with_the_first_stop_text(
    text: str | None, reply: str, endpoint: Maker
) -> None:
    with chat_server(reply=lambda _: text) as server:
        settings = {"stop": ("</action>", "END")}
        assert ask(endpoint(server.url, **settings))[0].text == reply


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(status: int, endpoint: Maker) -> None:
    with chat_server(refusals=[(status, "busy")] * 3) as server:
        assert ask(endpoint(server.url, retries=3))[0].text == "<action>bet</action>"
        assert len(server.requests) == 4


def test_a_server_that_stays_busy_is_named_with_its_words(endpoint: Maker) -> None:
    with chat_server(refusals=[(503, "come back tomorrow")] * 2) as server:
        with pytest.raises(ModelError, match=r"answered 503.*come back tomorrow"):
            ask(endpoint(server.url, retries=1))
        assert len(server.requests) == 2


@pytest.mark.parametrize("words", ["This model's maximum context length is 8 tokens."])
def test_a_prompt_without_room_gets_an_empty_reply(words: str, endpoint: Maker) -> None:
    with chat_server(refusals=[(400, words)]) as server:
        replies = ask(endpoint(server.url, concurrency=1), request(), request())
        assert [reply.text for reply in replies] == ["", "<action>bet</action>"]
        assert replies[0].served == Served(finish="length", model="")


def test_another_refusal_ends_the_run_and_is_asked_once(endpoint: Maker) -> None:
    with chat_server(refusals=[(400, "temperature is not supported")]) as server:
        with pytest.raises(ModelError, match=r"answered 400.*temperature"):
            ask(endpoint(server.url))
        assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b'{"choices": []}', b"[]", b'"text"', b"{}"])
def test_an_answer_that_is_not_a_completion_is_named(body: bytes, endpoint: Maker) -> None:
    with (
        chat_server(body=body) as server,
        pytest.raises(ModelError, match="something else than a chat completion"),
    ):
        ask(endpoint(server.url, retries=0))


@pytest.mark.parametrize("content", [5, [{"type": "text", "text": "<action>bet</action>"}]])
def test_a_reply_that_is_not_text_is_named(content: Any, endpoint: Maker) -> None:
    with (
        chat_server(reply=lambda _: content) as server,
        pytest.raises(ModelError, match="something else than a chat completion"),
    ):
        ask(endpoint(server.url, retries=0))


def test_a_silent_server_is_given_up(endpoint: Maker) -> None:
    with (
        chat_server(delay_s=0.5) as server,
        pytest.raises(ModelError, match=r"no reply within 0\.05 s, in 1 tries"),
    ):
        ask(endpoint(server.url, timeout_s=0.05, retries=0))


# --- what the server reports -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "finish", "kept"),
    [
        ("<action>bet</action>", "stop", "stop"),
        ("<action>be", "length", "length"),
        ("", "max_tokens", "length"),
        (None, "length", "length"),
        ("<action>bet</action> and on", "length", "stop"),  # whole before the limit cut it
        (None, "content_filter", "refused"),
        ({"role": "assistant", "content": None, "refusal": "I cannot."}, "stop", "refused"),
        ({"role": "assistant", "content": "bet", "refusal": None}, "stop", "stop"),
        ("", None, "other"),
        ("", "tool_calls", "other"),
        ("", ["stop"], "other"),
    ],
)
def test_a_reply_has_the_reason_of_its_end(
    reply: Any, finish: Any, kept: str, endpoint: Maker
) -> None:
    """An empty reply of a limit, of a refusal and of a model that has nothing to say differ."""
    with chat_server(reply=lambda _: reply, finish=finish) as server:
        (answer,) = ask(endpoint(server.url))
        assert answer.served is not None
        assert answer.served.finish == kept


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}, (12, 3)),
        ({"prompt_tokens": 12}, (12, None)),
        (None, (None, None)),
        ([], (None, None)),
        ({"prompt_tokens": -1, "completion_tokens": "3"}, (None, None)),
        ({"prompt_tokens": True, "completion_tokens": 10**30}, (None, None)),
    ],
)
def test_tokens_are_counted_where_the_server_counts_them(
    usage: Any, counts: Any, endpoint: Maker
) -> None:
    with chat_server(usage=usage) as server:
        (answer,) = ask(endpoint(server.url))
        assert answer.served is not None
        assert (answer.served.prompt_tokens, answer.served.completion_tokens) == counts


@pytest.mark.parametrize("model", [DATED, "", None])
def test_the_model_that_answers_is_known_from_the_first_reply(
    model: str | None, endpoint: Maker
) -> None:
    with chat_server(model=model) as server:
        found = endpoint(server.url)
        assert found.reported is None
        found.check()
        assert found.reported == (model or "")
        ask(found, *[request()] * 3)


@pytest.mark.parametrize("later", ["org/parrot-2026-06-01", "", None])
def test_another_model_behind_the_same_name_ends_the_run(
    later: str | None, endpoint: Maker
) -> None:
    with chat_server() as server:
        found = endpoint(server.url)
        found.check()
        server.model = later
        with pytest.raises(
            ModelError, match=rf"answered as '{DATED}' before and as '{later or ''}'"
        ):
            ask(found)


@pytest.mark.parametrize("model", [5, ["a"], "a\nb", "a" * 201, "\ud800"])
def test_a_name_that_cannot_be_written_down_is_refused(model: Any, endpoint: Maker) -> None:
    with chat_server(model=model) as server, pytest.raises(ModelError, match="something else"):
        endpoint(server.url).check()


# --- the check before anything slow ----------------------------------------------------------


def test_the_check_asks_for_one_token(endpoint: Maker) -> None:
    with chat_server() as server:
        endpoint(server.url).check()
        assert [request["max_tokens"] for request in server.requests] == [1]


def test_a_server_with_the_newer_name_of_the_limit_is_asked_by_it(endpoint: Maker) -> None:
    with chat_server(length_name="max_completion_tokens") as server:
        found = endpoint(server.url, max_new_tokens=9)
        found.check()
        ask(found)
        names = [
            set(request) & {"max_tokens", "max_completion_tokens"} for request in server.requests
        ]
        assert names == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


def test_a_model_that_is_not_served_is_named_with_those_that_are(endpoint: Maker) -> None:
    with (
        chat_server() as server,
        pytest.raises(ModelError, match=f"no model 'org/parot'. Did you mean '{MODEL}'"),
    ):
        endpoint(server.url, model="org/parot").check()


def test_an_address_without_the_api_is_named(endpoint: Maker) -> None:
    with chat_server() as server, pytest.raises(ModelError, match="Most addresses end in /v1"):
        endpoint(server.url.removesuffix("/v1")).check()


def test_an_address_where_no_server_listens_is_reported_at_once(endpoint: Maker) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="does not answer"):
            endpoint(url, retries=0).check()


@pytest.mark.parametrize(
    ("key", "words"), [(None, "refuses no key"), ("sk-wrong", "refuses this key")]
)
def test_a_refused_key_is_said_without_the_key(
    key: str | None, words: str, monkeypatch: pytest.MonkeyPatch, endpoint: Maker
) -> None:
    if key is not None:
        monkeypatch.setenv(API_KEY, key)
    with chat_server(key="sk-right") as server:
        with pytest.raises(ModelError, match=words) as caught:
            endpoint(server.url).check()
        assert "sk-" not in str(caught.value)
        assert API_KEY in str(caught.value)


@pytest.mark.parametrize("key", ["sk-\nright", "sk-\x7fright", "sk-r\u00eft"])
def test_a_key_that_no_header_can_hold_is_refused_unshown(
    key: str, monkeypatch: pytest.MonkeyPatch, endpoint: Maker
) -> None:
    monkeypatch.setenv(API_KEY, key)
    with pytest.raises(ConfigError, match=API_KEY) as caught:
        endpoint("http://localhost:1/v1")
    assert "sk-" not in str(caught.value)


def test_white_space_around_the_key_is_dropped(
    monkeypatch: pytest.MonkeyPatch, endpoint: Maker
) -> None:
    monkeypatch.setenv(API_KEY, " sk-right\r\n")
    with chat_server(key="sk-right") as server:
        endpoint(server.url).check()


def test_the_key_comes_from_our_variable_and_no_providers_goes_along(
    monkeypatch: pytest.MonkeyPatch, endpoint: Maker
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "sk-provider")
    monkeypatch.setenv(API_KEY, "sk-right")
    with chat_server(key="sk-right") as server:
        endpoint(server.url).check()
        assert "sk-provider" not in str(server.headers)


def test_a_server_that_repeats_the_key_does_not_make_us_print_it(
    monkeypatch: pytest.MonkeyPatch, endpoint: Maker
) -> None:
    monkeypatch.setenv(API_KEY, "sk-right")
    with (
        chat_server(refusals=[(400, "odd key sk-right")]) as server,
        pytest.raises(ModelError, match=r"odd key \*\*\*"),
    ):
        endpoint(server.url).check()
    with chat_server(body=b'"sk-right"') as server:
        with pytest.raises(ModelError, match="something else") as caught:
            endpoint(server.url).check()
        assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("localhost:8000", "give an address"),
        ("ftp://host/v1", "give an address"),
        ("http://", "give an address"),
        ("http://[h/v1", "give an address"),
        ("http://h:port/v1", "give an address"),
        ("http://h:99999/v1", "give an address"),
        ("http://h/v1\n<b>", "give an address"),
        ("http://h v/v1", "give an address"),
        ("http://me:secret@host/v1", API_KEY),
        ("http://host/v1?key=secret", API_KEY),
        ("http://host/v1#secret", API_KEY),
        ("http://me:secret@host:port/v1", "give an address"),
        ("ftp://me:secret@host/v1", "give an address"),
    ],
)
def test_an_address_that_cannot_work_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Account(url=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": ""}, "name a model"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"deadline_s": 0.0}, "deadline_s"),
        ({"concurrency": 0}, "concurrency"),
        ({"max_thought_tokens": -1}, "max_thought_tokens"),
        ({"extra": {"stream": True}}, "extra.stream is set by SRL"),
        ({"extra": {"a": {"api_Key": "sk"}}}, "extra.api_Key looks like a key"),
        ({"extra": {"a": "x" * 2000}}, "characters as JSON"),
        ({"extra": {"a": {1}}}, "cannot be written as JSON"),
        ({"extra": {"a": float("nan")}}, "cannot be written as JSON"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EndpointSettings(**{"account": Account(url="http://host/v1"), "model": "m", **settings})


# --- as an engine ----------------------------------------------------------------------------


@pytest.mark.slow
def test_it_keeps_the_promises_of_an_engine() -> None:
    with chat_server(reply=lambda r: r["messages"][-1]["content"]) as server:
        settings = EndpointSettings(account=Account(url=server.url), model=MODEL, concurrency=2)
        check_engine(lambda: EndpointEngine(settings), requests=4)
    gc.collect()  # see pytestmark: here, and not in another file


def test_it_is_an_engine_that_takes_no_versions(endpoint: Maker) -> None:
    with chat_server() as server:
        engine = endpoint(server.url)
        assert isinstance(engine, Engine)
        version = WeightVersion("alice", 3, "0" * 16)
        with pytest.raises(UnknownVersionError, match="without versions: alice@3"):
            ask(engine, request(version=version))
        with pytest.raises(ModelError, match="takes no weights"):
            asyncio.run(engine.install(WeightUpdate(version=version, tensors=(), handle="")))
        assert not server.requests


def test_a_request_may_bring_its_own_sampling(endpoint: Maker) -> None:
    with chat_server(reply=lambda _: "a END b") as server:
        own = SamplingSettings(temperature=0.25, max_new_tokens=3, stop=("END",))
        assert ask(endpoint(server.url), request(sampling=own))[0].text == "a END"
        (asked,) = server.requests
        assert (asked["temperature"], asked["max_tokens"]) == (0.25, 3)
        with pytest.raises(ConfigError, match="leave out top_k"):
            ask(endpoint(server.url), request(sampling=SamplingSettings(top_k=5)))


def test_a_request_is_given_up_at_its_deadline(endpoint: Maker) -> None:
    with chat_server(delay_s=0.5) as server, pytest.raises(DeadlineError, match=r"0\.05 s"):
        ask(endpoint(server.url), request(deadline_s=0.05))


def test_a_cancelled_request_gives_its_place_to_the_next(endpoint: Maker) -> None:
    """With one place, and a server that delays only the first request."""

    def reply(asked: dict[str, Any]) -> str:
        time.sleep(1.0 * (asked["messages"][0]["content"] == "slow"))
        return "bet"

    with chat_server(reply=reply) as s:
        engine = endpoint(s.url, concurrency=1)

        async def asked() -> list[dict[str, Any]]:
            slow = asyncio.create_task(engine.generate(request("slow")))
            while not s.requests:
                await asyncio.sleep(0.01)
            slow.cancel()
            quick = asyncio.create_task(engine.generate(request("quick")))
            while engine._places.locked() and len(s.requests) < 2:
                await asyncio.sleep(0.01)
            await quick
            return s.requests

        assert len(asyncio.run(asked())) == 2


def test_one_engine_answers_from_one_event_loop_after_the_other(endpoint: Maker) -> None:
    with chat_server() as server:
        engine = endpoint(server.url)
        assert [ask(engine)[0].text for _ in range(3)] == ["<action>bet</action>"] * 3


def test_a_closed_endpoint_refuses(endpoint: Maker) -> None:
    with chat_server() as server:
        engine = endpoint(server.url)
        ask(engine)
        asyncio.run(engine.close())
        asyncio.run(engine.close())
        with pytest.raises(ModelError, match="was closed"):
            ask(engine)


def test_what_waits_when_an_endpoint_is_closed_is_refused(endpoint: Maker) -> None:
    with chat_server(delay_s=0.3) as server:
        engine = endpoint(server.url)

        async def closed() -> None:
            waiting = asyncio.create_task(engine.generate(request()))
            while not server.requests:
                await asyncio.sleep(0.01)
            await engine.close()
            await waiting

        with pytest.raises(ModelError, match="was closed"):
            asyncio.run(closed())


# --- in a match ------------------------------------------------------------------------------


def test_a_served_model_plays_behind_its_prompt(endpoint: Maker) -> None:
    with chat_server() as server:
        policies: dict[str, Policy] = {
            "me": ModelPolicy(endpoint(server.url, "Be brief."), None, (("a card", "bet"),)),
            "bot": ScriptedPolicy("middle"),
        }
        spec = MatchSpec(env_id="kuhn_poker-v0", seed=3, split="eval", seats=("me", "bot"))
        with Rollouts(policies, root_seed=0) as rollouts:
            (episode,) = rollouts.play([spec])
        turns = episode.trajectories[0].turns
        assert {turn.reply for turn in turns} == {"<action>bet</action>"}
        assert {(turn.finish, turn.completion_ids) for turn in turns} == {("served", ())}
        assert server.requests[0]["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a card"},
            {"role": "assistant", "content": "bet"},
            {"role": "user", "content": turns[0].observation},
        ]
        assert [r["messages"][-1]["content"] for r in server.requests] == [
            turn.observation for turn in turns
        ]
