"""An agent behind a loopback address: which requests get replies, which replies, and the errors."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from srl_agents.agents.players import ModelPolicy
from srl_agents.engines.protocol import GenerationRequest
from srl_agents.engines.scripted import Deaths, Latency, ScriptedEngine
from srl_agents.exports.reply_server import ReplyServer


def reply_with_key(request: GenerationRequest) -> str:
    return f"{request.observation} {request.key}"


def asked(server: ReplyServer, body: Any, *, secret: str | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{server.address}/reply",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {server.secret if secret is None else secret}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def test_a_text_gets_the_same_reply_whatever_else_is_asked() -> None:
    def replies(order: list[str]) -> dict[str, str]:
        with ReplyServer(ModelPolicy(ScriptedEngine(reply_with_key)), seed=3) as server:
            return {text: asked(server, {"text": text})["text"] for text in order}

    first, second = replies(["a", "b"]), replies(["b", "c", "a"])
    assert first == {name: second[name] for name in first}


def test_asked_again_it_draws_again() -> None:
    with ReplyServer(ModelPolicy(ScriptedEngine(reply_with_key))) as server:
        first, second = (asked(server, {"text": "a"})["text"] for _ in range(2))
    assert first != second


def test_requests_that_wait_together_reach_the_engine_together() -> None:
    engine = ScriptedEngine(reply_with_key, latency=Latency(median_s=0.2), capacity=8)
    with ReplyServer(ModelPolicy(engine)) as server, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: asked(server, {"text": str(n)}), range(8)))
        assert server.answered == 8
    assert engine.load.most_in_flight > 1


@pytest.mark.parametrize(
    ("body", "secret", "status"),
    [({"text": "a"}, "guess", 401), ({"words": "a"}, None, 400), ({"text": 3}, None, 404)],
)
def test_strangers_and_broken_requests_are_refused(
    body: Any, secret: str | None, status: int
) -> None:
    with (
        ReplyServer(ModelPolicy(ScriptedEngine(reply_with_key))) as server,
        pytest.raises(urllib.error.HTTPError) as refused,
    ):
        asked(server, body, secret=secret)
    with refused.value as answer:
        assert answer.code == status


def test_an_engine_that_dies_says_so() -> None:
    engine = ScriptedEngine(reply_with_key, deaths=Deaths(at_reply=1))
    with ReplyServer(ModelPolicy(engine)) as server:
        asked(server, {"text": "a"})
        with pytest.raises(urllib.error.HTTPError) as failed:
            asked(server, {"text": "b"})
    with failed.value as answer:
        assert answer.code == 500
        assert "ModelError" in answer.read().decode()
