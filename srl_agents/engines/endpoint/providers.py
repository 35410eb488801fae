"""The providers file: addresses, keys' variables, limits and prices of endpoints, by name.

    prices: prices.yaml
    providers:
      example:
        url: https://api.example.com/v1
        key_env: EXAMPLE_API_KEY
        requests_per_minute: 500
        tokens_per_minute: 200000
        models:
          thinker-1: {max_thought_tokens: 4096, extra: {reasoning_effort: low}}

``openai:thinker-1@example`` is then an agent. The file is named by the variable ``SRL_PROVIDERS``, or lies in
``~/.config/srl/providers.yaml``. It holds no key, so it may lie beside a recipe.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from srl_agents.engines.endpoint.prices import Price, read_prices
from srl_agents.engines.endpoint.settings import API_KEY, Account, ServedModelSettings
from srl_agents.yaml_files import read_yaml
from srl_envs.errors import ConfigError, nearest
from srl_envs.reading.settings import build
from srl_envs.redaction import RUN

PROVIDERS = "SRL_PROVIDERS"
"""Environment variable with the path of the providers file."""
_KEY_NAME = "_API_KEY"
_DEFAULT = "~/.config/srl/providers.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """One entry of the file."""

    url: str
    """Base address of the API, which ends in ``/v1`` as a rule."""
    key_env: str = API_KEY
    """Environment variable with the key."""
    requests_per_minute: float | None = None
    """Requests of all models together."""
    tokens_per_minute: float | None = None
    """Tokens of prompts and replies of all models together."""
    concurrency: int | None = None
    """Requests of all models at once."""
    timeout_s: float | None = None
    """Limit of one try; absent: the command's option."""
    deadline_s: float | None = None
    """Limit of all tries of one reply; absent: the command's option."""
    models: dict[str, ServedModelSettings] = field(default_factory=dict)
    """Settings of models, by name; other models are asked without them."""

    def __post_init__(self) -> None:
        for name in ("timeout_s", "deadline_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"{name}={value}: use more than 0.")
        _ = self.account

    @property
    def account(self) -> Account:
        """What its models share."""
        return Account(
            url=self.url,
            key_env=self.key_env,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            concurrency=self.concurrency,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ProvidersFile:
    """The content of a providers file."""

    providers: dict[str, Provider]
    prices: str = ""
    """A price file, beside this one; empty for none: costs are unknown."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model's entry in the file, with its provider."""

    provider: Provider
    model: ServedModelSettings
    price: Price | None


def find_model(place: str, model: str) -> FoundModel:
    """What is known of a served model.

    Args:
        place: an address, or the name of a provider.
        model: as the server calls it.

    Raises:
        ConfigError: the file cannot be read, or has no such provider; or the address is of no use.
    """
    if "://" in place:
        return FoundModel(Provider(url=place), ServedModelSettings(), None)
    path = providers_path()
    if path is None:
        raise ConfigError(
            f"endpoint {place!r}: give an address such as http://host:8000/v1. To use the name of a "
            f"provider, write a providers file and let {PROVIDERS} name it (docs/guides/endpoints.md)."
        )
    found = build(ProvidersFile, read_yaml(path), str(path))
    if place not in found.providers:
        raise ConfigError(
            f"endpoint {place!r}: {path} has no such provider.{nearest(place, found.providers)} It has: "
            f"{', '.join(found.providers)}. Or give an address such as http://host:8000/v1."
        )
    provider = found.providers[place]
    price = read_prices(path.parent / found.prices).price(place, model) if found.prices else None
    return FoundModel(provider, provider.models.get(model, ServedModelSettings()), price)


def without_keys() -> dict[str, str]:
    """Environment variables for a child that asks no endpoint: all of this process but those with keys.

    Left out are ``SRL_ENDPOINT_API_KEY``, the variables that the providers file names, all whose name ends
    with ``_API_KEY``, and those with the value of one of these.
    """
    names = {name for name in os.environ if name.endswith(_KEY_NAME)} | {API_KEY}
    with contextlib.suppress(ConfigError):  # nothing is asked by a file that cannot be read
        if path := providers_path():
            providers = build(ProvidersFile, read_yaml(path), str(path)).providers
            names |= {provider.key_env for provider in providers.values()}
    keys = {os.environ[name] for name in names if os.environ.get(name)}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in names and (value not in keys or len(value) < RUN)
    }


def providers_path() -> Path | None:
    """Where the providers file is; None where there is none.

    Raises:
        ConfigError: the variable names a file that is not there.
    """
    named = os.environ.get(PROVIDERS, "")
    path = Path(named or _DEFAULT).expanduser()
    if path.is_file():
        return path
    if named:
        raise ConfigError(f"{PROVIDERS}={named}: this file does not exist.")
    return None
