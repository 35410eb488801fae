"""Providers that need no file: addresses and keys' variables by name, and what a user's file changes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from srl_agents.agents.grammar import EndpointName, parse
from srl_agents.engines.endpoint.line import Secret
from srl_agents.engines.endpoint.providers import (
    PROVIDERS,
    find_model,
    known_providers,
    without_keys,
)
from srl_agents.engines.endpoint.settings import API_KEY
from srl_envs.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(PROVIDERS, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for row in known_providers().values():
        monkeypatch.delenv(row.key_env, raising=False)


def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    path = tmp_path / "providers.yaml"
    path.write_text(text)
    monkeypatch.setenv(PROVIDERS, str(path))
    return path


@pytest.mark.parametrize("name", known_providers())
def test_every_row_has_an_address_a_variable_of_its_own_a_source_and_a_day(name: str) -> None:
    row = known_providers()[name]
    assert row.url.startswith("https://")
    assert not row.url.endswith("/")
    assert row.key_env.endswith("_API_KEY")
    assert row.key_env != API_KEY
    assert row.source.startswith("https://")
    assert date(2026, 1, 1) < date.fromisoformat(row.date)
    assert [other.key_env for other in known_providers().values()].count(row.key_env) == 1
    assert find_model(name, "any").provider.account.url == row.url


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("google:gemini-x", EndpointName("gemini-x", "google")),
        ("openai:gpt-x", EndpointName("gpt-x", "openai")),
        ("openai:gpt-x@google", EndpointName("gpt-x", "google")),
        ("openai:org/m@http://h:8000/v1", EndpointName("org/m", "http://h:8000/v1")),
        ("openrouter:org/m:free", EndpointName("org/m:free", "openrouter")),
        ("together:org/m@1", EndpointName("org/m@1", "together")),
        ("anthropic:m?prompt=p.json", EndpointName("m", "anthropic", "p.json")),
    ],
)
def test_names_of_providers_are_read(text: str, name: EndpointName) -> None:
    assert parse(text) == name
    assert parse(str(name)) == name


@pytest.mark.parametrize("text", ["google:", "openai:", "openai:m@"])
def test_a_provider_without_a_model_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"name the provider's model|write openai:MODEL@URL"):
        parse(text)


def test_a_known_provider_without_its_key_names_the_variable() -> None:
    found = find_model("google", "gemini-x")
    with pytest.raises(ConfigError, match="GEMINI_API_KEY is not set"):
        Secret(found.provider.account.key_env)


def test_an_unknown_provider_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no such provider among the known ones") as raised:
        find_model("antropic", "m")
    assert "Did you mean 'anthropic'?" in str(raised.value)
    assert "takes a seat only in srl_envs.play" in str(raised.value)
    for name in known_providers():
        assert name in str(raised.value)


def test_a_file_adds_providers_and_changes_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_file(
        tmp_path, monkeypatch,
        "providers:\n"
        "  mine: {url: http://localhost:9/v1}\n"
        "  google: {requests_per_minute: 5, models: {m: {max_thought_tokens: 7}}}\n"
        "  openai: {url: http://localhost:8/v1}\n",
    )  # fmt: skip
    assert find_model("mine", "m").provider.url == "http://localhost:9/v1"
    google = find_model("google", "m")
    assert google.provider.url == known_providers()["google"].url
    assert google.provider.key_env == "GEMINI_API_KEY"
    assert google.provider.requests_per_minute == 5
    assert google.model.max_thought_tokens == 7
    assert find_model("xai", "m").provider.url == known_providers()["xai"].url
    with pytest.raises(ConfigError, match=r"in .*providers.yaml or among the known.*mine"):
        find_model("nobody", "m")


def test_the_key_of_a_known_provider_goes_to_no_other_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry with an address of its own brings its own variable, too."""
    own_file(tmp_path, monkeypatch, "providers:\n  openai: {url: http://localhost:8/v1}\n")
    assert find_model("openai", "m").provider.key_env == API_KEY


@pytest.mark.parametrize(
    "text", ["providers: 3\n", "providers:\n  google: 3\n", "providers:\n  mine: {}\n"]
)
def test_a_file_of_another_form_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    own_file(tmp_path, monkeypatch, text)
    with pytest.raises(ConfigError, match=r"providers\.yaml"):
        find_model("google", "m")


def test_children_that_ask_nobody_get_no_key_of_a_known_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for row in known_providers().values():
        monkeypatch.setenv(row.key_env, f"secret-of-{row.key_env.lower()}")
    left = without_keys()
    assert not {row.key_env for row in known_providers().values()} & {*left}
    assert not [value for value in left.values() if value.startswith("secret-of-")]
