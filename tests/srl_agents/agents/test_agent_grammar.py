"""Names of agents: what is written is read back, whatever folders are called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.agents.grammar import (
    AgentName,
    BotName,
    EndpointName,
    HumanName,
    ModelName,
    parse,
)
from srl_envs.errors import ConfigError

TEXTS = st.text(alphabet="a+@:#?/.% =é\\", min_size=1, max_size=12)
URLS = st.sampled_from(["http://h", "https://h:8/v1", "http://[::1]:8000/v1", "http://h/a@b"])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("human", HumanName()),
        ("strong", BotName("strong")),
        ("bot:strong", BotName("strong")),
        ("bot:unknown", BotName("unknown")),
        ("tiny", ModelName("tiny")),
        ("org/model-1.5", ModelName("org/model-1.5")),
        ("tiny+runs/a+b/alice@3", ModelName("tiny", "runs/a+b/alice@3")),
        ("my++model+x", ModelName("my+model", "x")),
        ("tiny+x?prompt=p.json", ModelName("tiny", "x", "p.json")),
        ("./human", ModelName("./human")),
        ("./bot:x#1", ModelName("./bot:x#1")),
        ("openai:o/m@http://h:8/v1", EndpointName("o/m", "http://h:8/v1")),
        ("openai:a@b+c@https://h", EndpointName("a@b+c", "https://h")),
        ("openai:m@http://u:p@h/v1", EndpointName("m", "http://u:p@h/v1")),
        ("openai:m", EndpointName("m", "openai")),
        ("google:a@b", EndpointName("a@b", "google")),
        ("runs/x:y", ModelName("runs/x:y")),
        ("openai:m@http://h?prompt=x", EndpointName("m", "http://h", "x")),
    ],
)
def test_every_form_is_read(text: str, name: AgentName) -> None:
    assert parse(text, bots=("strong", "middle")) == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must not be empty"),
        ("bot:", "must not be empty"),
        ("+x", "must not be empty"),
        ("tiny+", "name the adapter's folder"),
        ("tiny?prompt=", "name a file behind"),
        ("openai:", "write openai:MODEL@URL"),
        ("google:", "name the provider's model"),
        ("openai:@http://h", "write openai:MODEL@URL"),
        ("openai:m@", "write openai:MODEL@URL"),
    ],
)
def test_what_has_none_of_the_forms_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(text)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ModelName("human"),
        lambda: ModelName("bot:x"),
        lambda: ModelName("openai:m@http://h"),
        lambda: ModelName("google:m"),
        lambda: ModelName("tiny", "+x"),
        lambda: ModelName("a?prompt=b"),
        lambda: EndpointName("m", "h@http://h"),
    ],
)
def test_a_name_that_reads_as_another_one_cannot_be_made(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match="write a folder with"):
        wrong()


@given(model=TEXTS, adapter=st.just("") | TEXTS, prompt=st.just("") | TEXTS)
def test_a_model_is_read_back_wherever_it_lies(model: str, adapter: str, prompt: str) -> None:
    name = ModelName(f"./{model}", adapter and f"./{adapter}", prompt)
    assert parse(str(name)) == name


@given(model=TEXTS, url=URLS, prompt=st.just("") | TEXTS)
def test_an_endpoint_is_read_back(model: str, url: str, prompt: str) -> None:
    name = EndpointName(model, url, prompt)
    assert parse(str(name)) == name


@given(st.text(alphabet="human+bot:openai@htps/#?=rm", max_size=30))
def test_a_text_stands_for_one_name_and_the_name_for_this_text(text: str) -> None:
    try:
        name = parse(text)
    except ConfigError:
        return
    if (
        isinstance(name, EndpointName)
        and text.partition("?prompt=")[0] != str(name).partition("?prompt=")[0]
    ):
        assert text.startswith(f"{name.url}:{name.model}")  # the short form of a provider
    else:
        assert str(name) == text
    assert parse(str(name)) == name
