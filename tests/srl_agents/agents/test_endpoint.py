"""Endpoints: what is asked, what comes back, and what is said where nothing does."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from srl_agents.agents import EndpointPolicy, ScriptedPolicy
from srl_agents.agents.endpoint import API_KEY, Endpoint, EndpointSettings
from srl_agents.agents.prompt_file import PromptSettings
from srl_agents.records import MatchSpec, Served
from srl_agents.rollouts import Rollouts
from srl_envs.errors import ConfigError, ModelError
from tests.chat_server import DATED, MODEL, chat_server

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)


def endpoint(url: str, **settings: Any) -> Endpoint:
    return Endpoint(EndpointSettings(**{"url": url, "model": MODEL, **settings}))


def test_replies_come_in_the_order_of_the_chats_and_several_at_once() -> None:
    with chat_server(reply=lambda r: r["messages"][-1]["content"], delay_s=0.05) as server:
        chats = [[{"role": "user", "content": str(k)}] for k in range(9)]
        replies = endpoint(server.url, concurrency=3).answer(chats)
        assert [reply.text for reply in replies] == [str(k) for k in range(9)]
        assert {reply.finish for reply in replies} == {"served"}
        assert 2 <= server.at_once <= 3


def test_a_request_samples_as_the_settings_say() -> None:
    with chat_server() as server:
        endpoint(server.url, temperature=0.5, max_new_tokens=7).answer([HELLO])
        assert server.requests == [
            {"model": MODEL, "messages": HELLO, "temperature": 0.5, "max_tokens": 7}
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
def test_a_reply_ends_with_the_first_stop_text(text: str | None, reply: str) -> None:
    with chat_server(reply=lambda _: text) as server:
        settings = {"stop": ("</action>", "END")}
        assert endpoint(server.url, **settings).answer([HELLO])[0].text == reply


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(status: int) -> None:
    with chat_server(refusals=[(status, "busy")] * 3) as server:
        assert endpoint(server.url, retries=3).answer([HELLO])[0].text == "<action>bet</action>"
        assert len(server.requests) == 4


def test_a_server_that_stays_busy_is_named_with_its_words() -> None:
    with chat_server(refusals=[(503, "come back tomorrow")] * 2) as server:
        with pytest.raises(ModelError, match=r"answered 503.*come back tomorrow"):
            endpoint(server.url, retries=1).answer([HELLO])
        assert len(server.requests) == 2


@pytest.mark.parametrize("words", ["This model's maximum context length is 8 tokens."])
def test_a_prompt_without_room_gets_an_empty_reply(words: str) -> None:
    with chat_server(refusals=[(400, words)]) as server:
        told = endpoint(server.url, concurrency=1).answer([HELLO, HELLO])
        assert [reply.text for reply in told] == ["", "<action>bet</action>"]
        assert told[0].served == Served(finish="length")


def test_another_refusal_ends_the_run_and_is_asked_once() -> None:
    with chat_server(refusals=[(400, "temperature is not supported")]) as server:
        with pytest.raises(ModelError, match=r"answered 400.*temperature"):
            endpoint(server.url).answer([HELLO])
        assert len(server.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b'{"choices": []}', b"[]", b'"text"', b"{}"])
def test_what_is_no_completion_is_named(body: bytes) -> None:
    with (
        chat_server(body=body) as server,
        pytest.raises(ModelError, match="something else than a chat completion"),
    ):
        endpoint(server.url).answer([HELLO])


@pytest.mark.parametrize("content", [5, [{"type": "text", "text": "<action>bet</action>"}]])
def test_a_reply_that_is_no_text_is_named(content: Any) -> None:
    with (
        chat_server(reply=lambda _: content) as server,
        pytest.raises(ModelError, match="something else than a chat completion"),
    ):
        endpoint(server.url).answer([HELLO])


def test_a_silent_server_is_given_up() -> None:
    with (
        chat_server(delay_s=0.5) as server,
        pytest.raises(ModelError, match=r"no reply within 0\.05 s, in 1 tries"),
    ):
        endpoint(server.url, timeout_s=0.05, retries=0).answer([HELLO])


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
def test_a_reply_says_why_it_ended(reply: Any, finish: Any, kept: str) -> None:
    """An empty reply of a limit, of a refusal and of a model that has nothing to say differ."""
    with chat_server(reply=lambda _: reply, finish=finish) as server:
        (told,) = endpoint(server.url).answer([HELLO])
        assert told.served is not None
        assert told.served.finish == kept


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
def test_tokens_are_counted_where_the_server_counts_them(usage: Any, counts: Any) -> None:
    with chat_server(usage=usage) as server:
        (told,) = endpoint(server.url).answer([HELLO])
        assert told.served is not None
        assert (told.served.prompt_tokens, told.served.completion_tokens) == counts


@pytest.mark.parametrize("model", [DATED, "", None])
def test_the_model_that_answers_is_known_from_the_first_reply(model: str | None) -> None:
    with chat_server(model=model) as server:
        found = endpoint(server.url)
        assert found.reported is None
        found.check()
        assert found.reported == (model or "")
        found.answer([HELLO] * 3)


@pytest.mark.parametrize("later", ["org/parrot-2026-06-01", "", None])
def test_another_model_behind_the_same_name_ends_the_run(later: str | None) -> None:
    with chat_server() as server:
        found = endpoint(server.url)
        found.check()
        server.model = later
        with pytest.raises(
            ModelError, match=rf"answered as '{DATED}' before and as '{later or ''}'"
        ):
            found.answer([HELLO])


@pytest.mark.parametrize("model", [5, ["a"], "a\nb", "a" * 201, "\ud800"])
def test_a_name_that_cannot_be_written_down_is_refused(model: Any) -> None:
    with chat_server(model=model) as server, pytest.raises(ModelError, match="something else"):
        endpoint(server.url).check()


# --- the check before anything slow ----------------------------------------------------------


def test_the_check_asks_for_one_token() -> None:
    with chat_server() as server:
        endpoint(server.url).check()
        assert [request["max_tokens"] for request in server.requests] == [1]


def test_a_server_with_the_newer_name_of_the_limit_is_asked_by_it() -> None:
    with chat_server(length_name="max_completion_tokens") as server:
        found = endpoint(server.url, max_new_tokens=9)
        found.check()
        found.answer([HELLO])
        names = [
            set(request) & {"max_tokens", "max_completion_tokens"} for request in server.requests
        ]
        assert names == [{"max_tokens"}, {"max_completion_tokens"}, {"max_completion_tokens"}]


def test_a_model_that_is_not_served_is_named_with_those_that_are() -> None:
    with (
        chat_server() as server,
        pytest.raises(ModelError, match=f"no model 'org/parot'. Did you mean '{MODEL}'"),
    ):
        endpoint(server.url, model="org/parot").check()


def test_an_address_without_the_api_is_named() -> None:
    with chat_server() as server, pytest.raises(ModelError, match="most end in /v1"):
        endpoint(server.url.removesuffix("/v1")).check()


def test_nobody_at_the_address_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(ModelError, match="does not answer"):
            endpoint(url, retries=0).check()


@pytest.mark.parametrize(
    ("key", "words"), [(None, "refuses no key"), ("sk-wrong", "refuses this key")]
)
def test_a_refused_key_is_said_without_the_key(
    key: str | None, words: str, monkeypatch: pytest.MonkeyPatch
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
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY, key)
    with pytest.raises(ConfigError, match=API_KEY) as caught:
        endpoint("http://localhost:1/v1")
    assert "sk-" not in str(caught.value)


def test_white_space_around_the_key_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY, " sk-right\r\n")
    with chat_server(key="sk-right") as server:
        endpoint(server.url).check()


def test_the_key_comes_from_our_variable_and_no_providers_goes_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "sk-provider")
    monkeypatch.setenv(API_KEY, "sk-right")
    with chat_server(key="sk-right") as server:
        endpoint(server.url).check()
        assert "sk-provider" not in str(server.headers)


def test_a_server_that_repeats_the_key_does_not_make_us_print_it(
    monkeypatch: pytest.MonkeyPatch,
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
    ("settings", "words"),
    [
        ({"url": "localhost:8000"}, "give an address"),
        ({"url": "ftp://host/v1"}, "give an address"),
        ({"url": "http://"}, "give an address"),
        ({"url": "http://[h/v1"}, "give an address"),
        ({"url": "http://h:port/v1"}, "give an address"),
        ({"url": "http://h:99999/v1"}, "give an address"),
        ({"url": "http://h/v1\n<b>"}, "give an address"),
        ({"url": "http://h v/v1"}, "give an address"),
        ({"url": "http://me:secret@host/v1"}, API_KEY),
        ({"url": "http://host/v1?key=secret"}, API_KEY),
        ({"model": ""}, "name a model"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"concurrency": 0}, "concurrency"),
        ({"retries": -1}, "retries"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        EndpointSettings(**{"url": "http://host/v1", "model": "m", **settings})
    assert "secret" not in str(caught.value)


# --- in a match ------------------------------------------------------------------------------


def test_a_served_model_plays_behind_its_prompt() -> None:
    prompt = PromptSettings(system="Be brief.").followed_by((("a card", "bet"),))
    with chat_server() as server:
        policies = {
            "me": EndpointPolicy(endpoint(server.url), prompt),
            "bot": ScriptedPolicy("middle"),
        }
        spec = MatchSpec(env_id="kuhn_poker-v0", seed=3, split="eval", seats=("me", "bot"))
        (episode,) = Rollouts(policies, root_seed=0).play([spec])
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
