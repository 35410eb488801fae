"""A model is in its endpoint's list, where there is one, and a silent endpoint is reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from srl_agents.engines.endpoint.client import EndpointEngine
from srl_agents.engines.endpoint.settings import API_KEY, Account, EndpointSettings
from srl_envs.errors import ModelError
from tests.chat_server import MODEL, chat_server


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY, raising=False)


def check(url: str, model: str = MODEL, *, listed: bool = True, **options: Any) -> None:
    settings = EndpointSettings(account=Account(url=url), model=model, listed=listed)
    engine = EndpointEngine(settings, **options)
    try:
        engine.check()
    finally:
        asyncio.run(engine.close())


@pytest.mark.parametrize("name", [MODEL, "parrot", "llama:latest", "llama", "./folder", "/folder"])
def test_a_model_that_the_server_lists_in_another_form_is_asked(name: str) -> None:
    with chat_server(listed=(MODEL, "llama:latest"), models=(name,)) as server:
        check(server.url, name)


def test_a_server_that_answers_every_name_is_held_to_its_list() -> None:
    with chat_server(listed=("other",), models=(MODEL,)) as server:
        with pytest.raises(ModelError, match=r"no model 'org/parrot'\. It serves: other\."):
            check(server.url)
        assert not server.requests
        check(server.url, listed=False)
    with chat_server(listed=(), models=(MODEL,)) as server:
        check(server.url)


def test_a_silent_endpoint_is_named_with_time_and_limit() -> None:
    with chat_server(delay_s=0.5) as server:
        said: list[str] = []
        check(server.url, say=said.append, say_every_s=0.2)
    assert said[0].startswith(f"waiting for {server.url}: 1 requests, no reply for 0 s (since ")
    assert said[0].endswith("one may take 600 s")
