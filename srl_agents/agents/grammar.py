"""Names of agents on command lines and in recipes, parsed without loading anything.

====================================  =================================================================
``bot:strong``, ``strong``            a bot of the environment; a bare name is one if the game has it
``tiny``, ``org/model``, ``FOLDER``   a language model: of the catalog, of the hub, or in a folder
``MODEL+ADAPTER``                     that model with the LoRA adapter in a folder
``openai:MODEL@URL``                  a model behind an OpenAI-compatible endpoint
``PROVIDER:MODEL``                    the same, at a known provider or one of the providers file
``openai:MODEL@PROVIDER``             the same
``human``                             a person at the terminal
``...?prompt=FILE``                   what a model or endpoint is shown before every observation
====================================  =================================================================

The first single ``+`` separates: a model whose own name holds one has it twice. A folder that would read
as something else is written with ``./`` before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from srl_envs.errors import ConfigError

FORMS = "bot:NAME  MODEL[+ADAPTER]  PROVIDER:MODEL  openai:MODEL@URL  human"
"""The grammar in one line, for ``--help`` and errors."""
BOT, ENDPOINT, HUMAN = "bot:", "openai:", "human"
_PROMPT = "?prompt="
_ADDRESS = re.compile(r"@(?=https?://)")
_PROVIDER = re.compile(r"[a-z][a-z0-9_-]*(?=:)")
_PLUS = re.compile(r"\+\+|\+")


@dataclass(frozen=True, slots=True)
class BotName:
    """A scripted policy of the environment that is played."""

    bot: str

    def __post_init__(self) -> None:
        _require_readable(self, self.bot)

    def __str__(self) -> str:
        """The name in the form that `parse` reads."""
        return BOT + self.bot


@dataclass(frozen=True, slots=True)
class ModelName:
    """A language model that is loaded here, with an adapter or without."""

    model: str
    """A name of the catalog, a hub id, or a folder."""
    adapter: str = ""
    """Folder of a LoRA adapter; empty for the model without an adapter."""
    prompt: str = ""
    """File or folder with a prompt; empty for the one that lies beside the adapter, if any."""

    def __post_init__(self) -> None:
        _require_readable(self, self.model, self.adapter, self.prompt)

    def __str__(self) -> str:
        """The name in the form that `parse` reads."""
        adapter = f"+{self.adapter}" if self.adapter else ""
        return self.model.replace("+", "++") + adapter + _suffix(self.prompt)


@dataclass(frozen=True, slots=True)
class EndpointName:
    """A model behind an HTTP endpoint."""

    model: str
    """Name of the model on the server."""
    url: str
    """Base address of its API, or the name of a provider."""
    prompt: str = ""
    """File or folder with a prompt; empty for none."""

    def __post_init__(self) -> None:
        _require_readable(self, self.model, self.url, self.prompt)

    @property
    def desk(self) -> str | None:
        """Address of the page at which a person answers (``srl serve human``); None where a model does."""
        return self.url.rstrip("/").removesuffix("/v1") if self.model == HUMAN else None

    def __str__(self) -> str:
        """The name in the form that `parse` reads."""
        return f"{ENDPOINT}{self.model}@{self.url}{_suffix(self.prompt)}"


@dataclass(frozen=True, slots=True)
class HumanName:
    """A person at the terminal."""

    prompt: ClassVar[str] = ""

    def __str__(self) -> str:
        """The name in the form that `parse` reads."""
        return HUMAN


AgentName = BotName | ModelName | EndpointName | HumanName


def parse(text: str, bots: Collection[str] = ()) -> AgentName:
    """Read a name; whether there is such a bot, folder or server is not looked at.

    Args:
        text: see the module.
        bots: of the environment, which may be named without ``bot:``.

    Raises:
        ConfigError: the text has none of the forms.
    """
    kind, *parts = _split(BOT + text if text in bots else text)
    name: AgentName = kind(*parts)
    return name


def _split(text: str) -> tuple[Any, ...]:
    """The kind of name, and its parts.

    Raises:
        ConfigError: the text has none of the forms.
    """
    if text == HUMAN:
        return (HumanName,)
    if text.startswith(BOT):
        return BotName, text.removeprefix(BOT)
    body, mark, prompt = text.rpartition(_PROMPT)
    if not mark:
        body, prompt = text, ""
    elif not prompt:
        raise ConfigError(f"agent {text!r}: name a file behind {_PROMPT!r}.")
    if provider := _PROVIDER.match(body):
        model = body[provider.end() + 1 :]
        if provider[0] + ":" == ENDPOINT and ("@" in model or not model):
            return EndpointName, *_model_and_url(text, model), prompt
        if not model:
            raise ConfigError(f"agent {text!r}: name the provider's model behind the ':'.")
        return EndpointName, model, provider[0], prompt
    for found in _PLUS.finditer(body):
        if found[0] == "+":
            model, adapter = body[: found.start()], body[found.end() :]
            if not adapter:
                raise ConfigError(
                    f"agent {text!r}: name the adapter's folder behind the '+', or write '++' where the "
                    "model's own name holds one."
                )
            return ModelName, model.replace("++", "+"), adapter, prompt
    return ModelName, body.replace("++", "+"), "", prompt


def _model_and_url(text: str, body: str) -> tuple[str, str]:
    """Both parts of MODEL@URL; a model's name may hold an ``@`` itself."""
    marks = list(_ADDRESS.finditer(body))
    at = marks[-1].start() if marks else body.rfind("@")
    model, url = body[: max(at, 0)], body[at + 1 :]
    if not model or not url:
        raise ConfigError(
            f"agent {text!r}: write {ENDPOINT}MODEL@URL, for example "
            f"{ENDPOINT}org/model@http://localhost:8000/v1."
        )
    return model, url


def _suffix(prompt: str) -> str:
    return _PROMPT + prompt if prompt else ""


def _require_readable(name: AgentName, *parts: str) -> None:
    """Refuse a name whose text is empty or reads back as another agent's name.

    Raises:
        ConfigError: the message names the form to write.
    """
    if not parts[0]:
        raise ConfigError(f"agent {str(name)!r}: a name must not be empty. Use {FORMS}.")
    if _split(str(name)) != (type(name), *parts):
        raise ConfigError(
            f"agent {str(name)!r} would be read as another one: write a folder with ./ before it. "
            f"Use {FORMS}."
        )
