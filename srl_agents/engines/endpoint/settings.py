"""Where a served model is, and how it is asked: frozen data, without a client."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from srl_agents.engines.endpoint.prices import Price
from srl_agents.engines.protocol import ConcurrencySettings, ReplySettings, StopTextSettings
from srl_agents.records import canonical_json
from srl_envs.errors import ConfigError

API_KEY = "SRL_ENDPOINT_API_KEY"
"""Environment variable with the key of endpoints that no providers file describes. Not OPENAI_API_KEY:
that one is for one provider, and every endpoint that is named on a command line would be sent it."""
PERSON = "human"
"""Name of the model behind which a person replies."""
MOST_EXTRA_CHARACTERS = 2000
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
"""Capital letters: most keys have others, so that a key in this place is not taken for a name and shown."""
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@|[?#].*", re.DOTALL)
_OURS = frozenset(
    {"model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature"}
)
"""Fields of a request that `extra` may not have."""
_SECRET = re.compile(
    "key|secret|password|authorization|credential|(access|api|auth|bearer|refresh|session)_?-?token",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """The server that is asked, and its limits, which all models of one account share."""

    url: str
    """Base address of the API, which ends in ``/v1`` as a rule."""
    key_env: str = API_KEY
    """Environment variable with the key."""
    requests_per_minute: float | None = None
    """Requests of all models together; absent: no limit."""
    tokens_per_minute: float | None = None
    """Tokens of prompts and replies of all models together; absent: no limit."""
    concurrency: int | None = None
    """Requests of all models at once; absent: only each model's own limit."""

    def __post_init__(self) -> None:
        if not is_address(self.url):
            raise ConfigError(
                f"endpoint {without_credentials(self.url)!r}: give an address such as "
                "http://host:8000/v1, or the name of a provider of your providers file "
                "(`srl docs endpoints`)."
            )
        if without_credentials(self.url) != self.url:
            raise ConfigError(
                f"endpoint at {urlsplit(self.url).hostname}: an address is written down with the "
                "results, so it may hold no user, query or fragment. A key belongs into the environment "
                f"variable {API_KEY}, or into the one that key_env of the providers file names."
            )
        if not _VARIABLE.fullmatch(self.key_env):
            raise ConfigError(
                "key_env: give the name of an environment variable in capital letters, such as "
                "EXAMPLE_API_KEY, and put the key into that variable."
            )
        for name in ("requests_per_minute", "tokens_per_minute", "concurrency"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigError(f"endpoint: {name}={value}: use more than 0.")


@dataclass(frozen=True, kw_only=True)
class ServedModelSettings:
    """What one model of a provider is asked with."""

    max_thought_tokens: int = 0
    """Tokens for thoughts before a reply. Servers have one limit for both, and are sent the sum."""
    opens_thoughts: bool = False
    """Whether its chat template ends the prompt with ``<think>``: text without ``</think>`` is then thoughts
    that the limit cut. Servers that tell thoughts apart need nothing here."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further fields of every request, for example ``{reasoning_effort: low}``."""

    def __post_init__(self) -> None:
        if self.max_thought_tokens < 0:
            raise ConfigError(f"max_thought_tokens={self.max_thought_tokens}: use 0 or more.")
        check_extra(self.extra)


@dataclass(frozen=True, kw_only=True)
class RequestSettings(ConcurrencySettings):
    """How many requests are sent at once, and how long each may take."""

    timeout_s: float = 120.0
    """Seconds for one try of one reply: until all of it is there."""
    deadline_s: float = 600.0
    """Seconds for all tries of one reply, pauses included."""


@dataclass(frozen=True, kw_only=True)
class EndpointSettings(ServedModelSettings, RequestSettings, ReplySettings, StopTextSettings):
    """One served model, and how it writes."""

    account: Account
    """The server that is asked, and its limits."""
    model: str
    """Name of the model at the server."""
    price: Price | None = None
    """What tokens cost; None: unknown."""
    listed: bool = True
    """Whether the model has to be in the server's list of models, where the server gives one."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError(f"endpoint {self.account.url}: name a model that it serves.")
        for name in ("timeout_s", "deadline_s", "concurrency", "max_new_tokens"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(f"endpoint: {name}={getattr(self, name)}: use more than 0.")
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(f"endpoint: temperature={self.temperature}: use 0 or more.")
        if self.max_thought_tokens < 0:
            raise ConfigError(
                f"endpoint: max_thought_tokens={self.max_thought_tokens}: use 0 or more."
            )
        check_extra(self.extra)

    @property
    def url(self) -> str:
        """Address of the account."""
        return self.account.url

    @property
    def thinks(self) -> bool:
        """Whether something beside prompt and sampling is asked for."""
        return bool(self.max_thought_tokens or self.extra)


def is_address(url: str) -> bool:
    """Whether this is an address of HTTP."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets without an end, or a port that is not a number
        return False
    return bool(usable) and url.isprintable() and " " not in url


def without_credentials(url: str) -> str:
    """An address without the places in which people put keys: user, query and fragment."""
    return _CREDENTIALS.sub("", url)


def check_extra(extra: dict[str, Any]) -> None:
    """Refuse fields that are not the user's to set, and those that look like a key.

    Raises:
        ConfigError: names the field.
    """
    for name in extra:
        if name in _OURS:
            raise ConfigError(
                f"endpoint: extra.{name} is set by SRL itself. Leave it out; to give thoughts room, set "
                "max_thought_tokens."
            )
    try:
        text = canonical_json(extra)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"endpoint: extra cannot be written as JSON: {error}.") from None
    if len(text) > MOST_EXTRA_CHARACTERS:
        raise ConfigError(
            f"endpoint: extra has {len(text)} characters as JSON; use {MOST_EXTRA_CHARACTERS} at most."
        )
    if secret := next((name for name in _names(extra) if _SECRET.search(name)), None):
        raise ConfigError(
            f"endpoint: extra.{secret} looks like a key, and extra is written down with the results. A "
            "key belongs into the variable that key_env names."
        )


def _names(value: Any) -> list[str]:
    """All keys of nested mappings."""
    if isinstance(value, dict):
        return [*map(str, value), *(name for item in value.values() for name in _names(item))]
    if isinstance(value, list):
        return [name for item in value for name in _names(item)]
    return []
