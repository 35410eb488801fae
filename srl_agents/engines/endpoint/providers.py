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

``example:thinker-1`` is then an agent, and so is ``openai:thinker-1@example``. The file is named by the
variable ``SRL_PROVIDERS``, or lies in ``~/.config/srl/providers.yaml``. It holds no key, so it may lie beside
a recipe. Well-known providers need no entry: `known_providers.yaml` has their addresses and the variables of
their keys, and an entry of the user's file with the same name replaces what it names.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from functools import cache
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
_SHIPPED = Path(__file__).with_name("known_providers.yaml")


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
        """Settings that all models of the account share."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProvider:
    """One row of `known_providers.yaml`."""

    url: str
    """Base address of the API."""
    key_env: str
    """Environment variable with the key, as the provider's own libraries name it."""
    source: str
    """Page of the provider that documents both."""
    date: str
    """Day on which the row was last reviewed."""


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
    found = _read(path)
    if place not in found.providers:
        where = "" if path is None else f" in {path} or"
        names = ", ".join(sorted(found.providers))
        raise ConfigError(
            f"endpoint {place!r}: no such provider{where} among the known ones."
            f"{nearest(place, found.providers)} There are: {names}. For another, "
            f"give an address such as http://host:8000/v1, or write a providers file that {PROVIDERS} names "
            "(`srl docs endpoints`). A Python function of yours takes a seat only in srl_envs.play."
        )
    provider = found.providers[place]
    price = None
    if path is not None and found.prices:
        price = read_prices(path.parent / found.prices).price(place, model)
    return FoundModel(provider, provider.models.get(model, ServedModelSettings()), price)


@cache
def known_providers() -> dict[str, KnownProvider]:
    """The providers that need no entry in a file, by name."""
    return {
        name: build(KnownProvider, {**row, "date": str(row["date"])}, f"{_SHIPPED.name}: {name}")
        for name, row in read_yaml(_SHIPPED).items()
    }


def _read(path: Path | None) -> ProvidersFile:
    """The user's file, if any, over the known providers.

    Raises:
        ConfigError: the file cannot be read.
    """
    data = {} if path is None else read_yaml(path)
    own = data.get("providers", {})
    known = {
        name: {"url": row.url, "key_env": row.key_env} for name, row in known_providers().items()
    }
    if isinstance(own, dict):
        # an entry with an address of its own is asked with its own key, never with the known provider's
        own = {
            name: {**known.get(name, {}), **entry}
            if isinstance(entry, dict) and "url" not in entry
            else entry
            for name, entry in own.items()
        }
        data = {**data, "providers": {**known, **own}}
    return build(ProvidersFile, data, str(path or _SHIPPED))


def without_keys() -> dict[str, str]:
    """Environment variables for a child that asks no endpoint: all of this process but those with keys.

    Left out are ``SRL_ENDPOINT_API_KEY``, the variables that the providers file names, all whose name ends
    with ``_API_KEY``, and those with the value of one of these.
    """
    names = {name for name in os.environ if name.endswith(_KEY_NAME)} | {API_KEY}
    with contextlib.suppress(ConfigError):  # nothing is asked by a file that cannot be read
        names |= {provider.key_env for provider in _read(providers_path()).providers.values()}
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
