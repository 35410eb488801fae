"""Every way in which a reply fails to come has a name, and thoughts stay out of replies."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.engines.endpoint.client import EndpointEngine
from srl_agents.engines.endpoint.completions import read_completion
from srl_agents.engines.endpoint.prices import Price, TokenPrices
from srl_agents.engines.endpoint.reply_journal import ReplyJournal
from srl_agents.engines.endpoint.settings import Account, EndpointSettings
from srl_agents.engines.endpoint.tries import pause_bound_s, retry_after_s
from srl_agents.engines.protocol import Generation, GenerationRequest
from srl_agents.records import Served
from srl_envs.errors import LostReplyError, ModelError
from tests.chat_server import DATED, MODEL, ChatServer, chat_server

pytestmark = pytest.mark.filterwarnings("ignore:coroutine 'connect_tcp:RuntimeWarning")
KEY = "sk-never-to-be-seen"


@contextmanager
def an_engine(
    server: ChatServer,
    journal: ReplyJournal | None = None,
    account: Any = None,
    retries: int = EndpointEngine.retries,
    **settings: Any,
) -> Iterator[EndpointEngine]:
    fields = {"account": Account(url=server.url, **(account or {})), "model": MODEL, **settings}
    engine = EndpointEngine(EndpointSettings(**fields), journal=journal)
    engine.retries = retries
    try:
        yield engine
    finally:
        asyncio.run(engine.close())


def ask(engine: EndpointEngine, *keys: int) -> list[Generation]:
    async def together() -> list[Generation]:
        asked = [
            GenerationRequest(observation="Hello", version=None, key=(k,)) for k in keys or (0,)
        ]
        return await asyncio.gather(*map(engine.generate, asked))

    return asyncio.run(together())


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"refusals": [(429, "slow down")]}, "rate_limited"),
        ({"refusals": [(500, "oops")]}, "server_error"),
        ({"refusals": [(503, "full")]}, "server_error"),
        ({"breaks": ["cut"]}, "cut"),
        ({"breaks": ["trickle"]}, "slow"),
    ],
)
def test_a_try_that_failed_is_named_in_the_record_of_the_reply(
    change: dict[str, Any], name: str
) -> None:
    with chat_server(**change) as server, an_engine(server, timeout_s=0.3) as engine:
        (reply,) = ask(engine)
        assert reply.text == "<action>bet</action>"
        assert reply.served is not None
        assert reply.served.failed_tries == (name,)


@pytest.mark.parametrize("body", [b'{"choices": [{"mess', b"<html>", b'{"error": {"code": 502}}'])
def test_an_answer_that_is_none_is_asked_for_again(body: bytes) -> None:
    with chat_server(body=body) as server, an_engine(server) as engine:

        def once(_: object) -> str:
            server.body = body if len(server.requests) == 1 else None
            return "<action>bet</action>"

        server.reply = once
        (reply,) = ask(engine)
        assert reply.served is not None
        assert reply.served.failed_tries == (
            ("server_error",) if b"502" in body else ("malformed",)
        )


def test_empty_first_replies_are_asked_for_again_and_a_third_one_counts() -> None:
    texts = iter(["", None, "<action>bet</action>", "", "", ""])
    with chat_server(reply=lambda _: next(texts)) as server, an_engine(server) as engine:
        first, second = ask(engine)[0], ask(engine, 1)[0]
        assert first.served is not None
        assert second.served is not None
        assert (first.text, first.served.failed_tries) == ("<action>bet</action>", ("empty",) * 2)
        assert (second.text, second.served.finish, len(server.requests)) == ("", "empty", 6)
        assert second.served.failed_tries == ("empty",) * 2


def test_a_reply_without_text_by_length_is_taken_as_it_is() -> None:
    with chat_server(reply=lambda _: None, finish="length") as server, an_engine(server) as engine:
        (reply,) = ask(engine)
        assert reply.served is not None
        assert (reply.text, reply.served.finish, len(server.requests)) == ("", "length", 1)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((401, "no"), "refuses no key"),
        ((404, "gone"), "not the address of a chat API, or serves no model"),
        ((429, "insufficient_quota: pay"), "answered 429: insufficient_quota"),
    ],
)
def test_what_no_waiting_changes_stops_at_once(refusal: tuple[int, str], words: str) -> None:
    with (
        chat_server(refusals=[refusal] * 9) as server,
        an_engine(server) as engine,
        pytest.raises(ModelError, match=words) as caught,
    ):
        ask(engine)
    assert not isinstance(caught.value, LostReplyError)
    assert len(server.requests) == 1


def test_a_limit_with_a_time_to_wait_is_not_an_empty_account() -> None:
    refusals = [(429, "You exceeded your quota, please check your plan and billing details")]
    with chat_server(refusals=refusals, answer_headers={"Retry-After": "1"}) as server:
        with an_engine(server) as engine:
            (reply,) = ask(engine)
        assert reply.served is not None
        assert reply.served.failed_tries == ("rate_limited",)


def test_replies_that_are_lost_in_a_row_end_the_run() -> None:
    with (
        chat_server(refusals=[(500, "down")] * 99) as server,
        an_engine(server, retries=1) as engine,
    ):
        for number in range(4):
            with pytest.raises(
                LostReplyError, match=r"answered 500: down, in 2 tries \(2 server_error"
            ):
                ask(engine, number)
        with pytest.raises(ModelError, match="5 replies in a row were lost: stopped") as caught:
            ask(engine, 9)
    assert not isinstance(caught.value, LostReplyError)


def test_first_replies_without_any_text_end_the_run() -> None:
    with (
        chat_server(reply=lambda _: None, finish="length") as server,
        an_engine(server, concurrency=8) as engine,
        pytest.raises(ModelError, match=r"none of the first 32 replies .*32 length"),
    ):
        ask(engine, *range(32))


def test_one_deadline_holds_for_all_tries() -> None:
    """The server asks for an hour: waiting is of no use, and the engine does not wait."""
    with (
        chat_server(
            refusals=[(429, "later")] * 9, answer_headers={"Retry-After": "3600"}
        ) as server,
        an_engine(server, deadline_s=5.0) as engine,
        pytest.raises(LostReplyError, match=r"in 1 tries \(1 rate_limited\)"),
    ):
        ask(engine)


@given(failed=st.integers(1, 10_000))
def test_pauses_grow_to_a_bound(failed: int) -> None:
    assert 0 < pause_bound_s(failed) <= pause_bound_s(failed + 1) <= 30


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 90.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:01 GMT"}, 0.0),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, 0.0),
        ({"retry-after": "inf"}, 0.0),
    ],
)
def test_the_wait_that_a_server_asks_for_is_read(headers: dict[str, str], seconds: float) -> None:
    assert retry_after_s(headers, now_s=10.0) == pytest.approx(seconds)


# --- thoughts --------------------------------------------------------------------------------


def a_body(message: dict[str, Any], **usage: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "choices": [{"message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


@pytest.mark.parametrize(
    ("message", "text", "thoughts"),
    [
        ({"content": "bet", "reasoning_content": "hm"}, "bet", "hm"),
        ({"content": "bet", "reasoning": "hm"}, "bet", "hm"),
        ({"content": None, "reasoning": "hm"}, "", "hm"),
        ({"content": "<think>hm</think>\n\nbet"}, "bet", "hm"),
        ({"content": "\n<think>\nhm\n</think>bet"}, "bet", "hm"),
        ({"content": "hm</think>bet"}, "bet", "hm"),
        ({"content": "<think>hm, <action>fold</action>"}, "", "hm, <action>fold</action>"),
        ({"content": "I <think> so"}, "I <think> so", ""),
        (
            {"content": "<think>a</think><think><action>1</action></think>bet"},
            "bet",
            "a\n<action>1</action>",
        ),
        ({"content": "<think>a</think>bet?<think>b</think> fold"}, "fold", "a\nbet?\nb"),
        ({"content": "<think>a</think> <think><action>1</action>"}, "", "a\n<action>1</action>"),
        ({"content": "bet", "reasoning": ["hm"]}, "bet", ""),
    ],
)
def test_thoughts_are_kept_apart_from_the_reply(
    message: dict[str, Any], text: str, thoughts: str
) -> None:
    found = read_completion(a_body(message))
    assert (found.text, found.thoughts) == (text, thoughts)


@given(st.text(alphabet="<think>/ ab", max_size=40))
def test_no_tag_that_opens_a_reply_stays_in_it(content: str) -> None:
    found = read_completion(a_body({"content": content}))
    assert not found.text.lstrip().startswith("<think>") or found.thoughts


@pytest.mark.parametrize(
    ("content", "reasoning", "reply", "thoughts"),
    [
        ("maybe <action>4</action>", "", "", "maybe <action>4</action>"),
        ("maybe 4</think> <action>5</action>", "", "<action>5</action>", "maybe 4"),
        ("<action>5</action>", "apart", "<action>5</action>", "apart"),
    ],
)
def test_where_the_prompt_opens_thoughts_a_text_that_does_not_end_them_is_not_a_reply(
    content: str, reasoning: str, reply: str, thoughts: str
) -> None:
    body = a_body({"content": content, "reasoning": reasoning})
    found = read_completion(body, opened=True)
    assert (found.text, found.thoughts) == (reply, thoughts)


def test_thoughts_that_are_counted_beside_the_reply_are_counted_once() -> None:
    beside = a_body(
        {"content": "bet"}, prompt_tokens=10, completion_tokens=3, total_tokens=33,
        completion_tokens_details={"reasoning_tokens": 20}, prompt_tokens_details={"cached_tokens": 8},
    )  # fmt: skip
    among = a_body(
        {"content": "bet"}, prompt_tokens=10, completion_tokens=23, total_tokens=33,
        completion_tokens_details={"reasoning_tokens": 20}, prompt_tokens_details={"cached_tokens": 8},
    )  # fmt: skip
    assert read_completion(beside).served == read_completion(among).served
    served = read_completion(among).served
    assert (served.completion_tokens, served.reasoning_tokens, served.cached_tokens) == (23, 20, 8)
    cost = Price(
        tokens=TokenPrices(input=1.0, cached_input=0.5, output=10.0),
        currency="USD", date="2026-11-22", source="a page",
    ).cost(served)  # fmt: skip
    assert cost == pytest.approx((2 * 1.0 + 8 * 0.5 + 23 * 10.0) / 1e6)


def test_a_reply_that_used_the_room_of_thoughts_is_cut() -> None:
    body = a_body(
        {"content": "x" * 100}, completion_tokens=60,
        completion_tokens_details={"reasoning_tokens": 20},
    )  # fmt: skip
    found = read_completion(body, reply_limit=10)
    assert (found.text, found.served.finish) == ("x" * 25, "length")


def test_a_thinking_model_is_asked_with_room_and_with_its_own_fields() -> None:
    message = {"role": "assistant", "content": "bet", "reasoning_content": "hm"}
    with (
        chat_server(reply=lambda _: message, length_name="max_completion_tokens") as server,
        an_engine(
            server, max_thought_tokens=500, max_new_tokens=20, extra={"reasoning_effort": "low"}
        ) as engine,
    ):
        (reply,) = ask(engine)
        assert (reply.text, reply.thoughts) == ("bet", "hm")
        (asked,) = server.requests
        assert (asked["max_completion_tokens"], asked["reasoning_effort"]) == (520, "low")
        assert "max_tokens" not in asked


# --- the journal, the limits, the key --------------------------------------------------------


def test_an_answered_request_is_not_asked_again_by_a_later_engine(tmp_path: Path) -> None:
    with chat_server(fingerprint="fp_1") as server:
        for _ in range(2):
            journal = ReplyJournal(tmp_path / "replies.jsonl")
            with an_engine(server, journal) as engine:
                engine.check()
                first, second = ask(engine, 1, 2)
                assert (first.text, second.text) == ("<action>bet</action>",) * 2
                assert first.served == Served(finish="stop", model=DATED, fingerprint="fp_1")
            journal.close()
        assert len(server.requests) == 3


def test_an_abandoned_reply_is_kept(tmp_path: Path) -> None:
    """As after Ctrl-C: it is paid for."""
    journal = ReplyJournal(tmp_path / "replies.jsonl")
    with chat_server(delay_s=0.2) as server:

        async def given_up(engine: EndpointEngine) -> None:
            asked = GenerationRequest(observation="Hello", version=None, key=(1,))
            task = asyncio.create_task(engine.generate(asked))
            while not server.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        with an_engine(server, journal) as engine:
            asyncio.run(given_up(engine))
        assert len(journal) == 1
        with an_engine(server, journal) as engine:
            assert ask(engine, 1)[0].text == "<action>bet</action>"
        assert len(server.requests) == 1
    journal.close()


def test_two_models_of_one_account_share_its_places() -> None:
    with chat_server(gathers=3, models=(MODEL, "org/other")) as server:
        account = {"concurrency": 3}
        with (
            an_engine(server, account=account) as one,
            an_engine(server, account=account, model="org/other") as other,
        ):

            async def all_of_them() -> None:
                asked = [
                    GenerationRequest(observation="?", version=None, key=(k,)) for k in range(8)
                ]
                await asyncio.gather(*(e.generate(r) for e in (one, other) for r in asked))

            asyncio.run(all_of_them())
        assert server.at_once == 3


def test_a_reply_whose_time_is_over_before_its_turn_is_not_asked_for() -> None:
    with chat_server(delay_s=0.5) as server:
        account = {"concurrency": 1}
        with (
            an_engine(server, account=account) as patient,
            an_engine(server, account=account, deadline_s=0.1, retries=0) as hasty,
        ):

            async def both() -> None:
                asked = GenerationRequest(observation="?", version=None, key=(1,))
                first = asyncio.create_task(patient.generate(asked))
                while not server.requests:
                    await asyncio.sleep(0.01)
                with pytest.raises(
                    LostReplyError, match=r"was not asked.* the 0\.1 s .* were over"
                ):
                    await hasty.generate(asked)
                await first

            asyncio.run(both())
        assert len(server.requests) == 1


def test_a_retry_waits_while_the_engine_sleeps_and_its_deadline_waits_too() -> None:
    with (
        chat_server(refusals=[(500, "oops")], answer_headers={"Retry-After": "0.2"}) as server,
        an_engine(server, deadline_s=0.7) as engine,
    ):

        async def nap() -> Generation:
            asked = asyncio.create_task(
                engine.generate(GenerationRequest(observation="Hello", version=None, key=(0,)))
            )
            while not server.requests:
                await asyncio.sleep(0.005)
            await engine.sleep()
            await asyncio.sleep(0.9)
            assert len(server.requests) == 1
            await engine.wake()
            return await asked

        assert asyncio.run(nap()).text == "<action>bet</action>"


def test_tokens_of_an_abandoned_reply_count_against_the_limit() -> None:
    """The provider may have counted them: at one a second, 150 are a long wait."""
    account = {"tokens_per_minute": 60.0}
    with (
        chat_server(delay_s=0.3) as server,
        an_engine(server, account=account, timeout_s=0.05, retries=0, max_new_tokens=150) as engine,
    ):
        with pytest.raises(LostReplyError, match="1 slow"):
            ask(engine)
        counter = engine._line.counters[engine.settings.account]  # type: ignore[union-attr]
        assert counter.limit._wait_s(150) > 60


@pytest.mark.parametrize("status", [200, 400, 429])
def test_a_key_that_comes_back_is_seen_nowhere(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTHER_KEY", KEY)
    caplog.set_level("DEBUG")
    journal = ReplyJournal(tmp_path / "replies.jsonl")
    message = {"content": f"it is {KEY}", "reasoning": KEY, "role": "assistant"}
    refusals = [] if status == 200 else [(status, f"odd key {KEY}")] * 9
    with (
        chat_server(reply=lambda _: message, refusals=refusals, key=KEY) as server,
        an_engine(server, journal, account={"key_env": "OTHER_KEY"}, retries=1) as engine,
    ):
        seen = repr(engine.settings) + repr(vars(engine))
        if status == 200:
            seen += repr(ask(engine))
            assert "it is ***" in seen
        else:
            with pytest.raises(ModelError, match=r"odd key \*\*\*") as caught:
                ask(engine)
            seen += str(caught.value) + repr(caught.value.__cause__)
    journal.close()
    seen += (tmp_path / "replies.jsonl").read_text() + caplog.text
    assert KEY not in seen


def test_a_variable_that_a_provider_names_has_to_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTHER_KEY", raising=False)
    account = Account(url="http://localhost:1/v1", key_env="OTHER_KEY")
    with pytest.raises(ValueError, match="OTHER_KEY is not set"):
        EndpointEngine(EndpointSettings(account=account, model="m"))


def test_the_date_of_a_price_is_a_text() -> None:
    tokens = TokenPrices(input=1.0, output=1.0)
    today = datetime.date.today().isoformat()
    assert (
        Price(tokens=tokens, currency="USD", date=today, source="s").cost(Served(finish="stop"))
        is None
    )
    with pytest.raises(ValueError, match="use a day"):
        Price(tokens=tokens, currency="USD", date="yesterday", source="s")


def test_an_endpoint_that_does_not_answer_gives_the_thread_back() -> None:
    with (
        chat_server(refusals=[(500, "down")] * 9) as server,
        an_engine(server, retries=1) as engine,
    ):
        with pytest.raises(LostReplyError):
            engine.check()
        assert engine._line is None
        server.refusals.clear()
        engine.check()
        assert engine._line is not None
