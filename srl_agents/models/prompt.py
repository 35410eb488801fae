"""The prompt before every observation, and the settings of thoughts, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from srl_envs.errors import ConfigError

Example = tuple[str, str]
"""An observation and a reply to it, shown as an earlier turn of the chat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThoughtSettings:
    """Thoughts before every reply: under a limit of their own, and no part of the reply."""

    budget: int
    """Most tokens of thoughts; then the engine writes the end marker itself, and the reply follows under
    ``max_new_tokens``. A token that the engine wrote is never learned from."""
    open: str = "<think>"
    """Marker that begins thoughts; it is put behind the prompt where the chat template does not."""
    close: str = "</think>"
    """Marker that ends them."""

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ConfigError(f"thoughts.budget={self.budget}: use 1 or more tokens.")
        for name in ("open", "close"):
            if not getattr(self, name).strip():
                raise ConfigError(f"thoughts.{name}: give the marker of the model's chat template.")
        if self.open == self.close:
            raise ConfigError(f"thoughts.close={self.close!r}: it must differ from thoughts.open.")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySettings:
    """A seat's own earlier turns in its prompt: observations, and replies token by token.

    The newest turns are shown whose tokens together are within the limit; the others are dropped, oldest
    first, each whole. Only the oldest that is shown has the rules: the first paragraph of an observation,
    where the others begin with the same one. Where prompt and reply would not fit the model's context, more
    of them are dropped.
    """

    tokens: int
    """Most tokens of earlier turns in a prompt, observations and template tokens included."""
    thoughts: bool = False
    """Whether the thoughts before earlier replies are shown, too."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"memory.tokens={self.tokens}: use 1 or more, or leave memory out.")


@dataclass(frozen=True, slots=True)
class EarlierTurn:
    """An observation of a seat, and the reply to it."""

    observation: str
    token_ids: tuple[int, ...]
    """Tokens of the reply as they were sampled, thoughts first."""
    thought_tokens: int = 0
    """Number of its tokens that are thoughts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What a model reads before the observation; the same for every turn, so prefixes are shared."""

    system: str | None = None
    """System message; None leaves it to the chat template."""
    examples: tuple[Example, ...] = ()
    """(observation, reply) pairs shown as earlier turns; small models learn the reply's form here."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Variables of the chat template, such as ``enable_thinking``."""
    thoughts: ThoughtSettings | None = None
    """None: a reply is all that the model writes."""
    memory: MemorySettings | None = None
    """None: every turn is shown without earlier turns."""

    def __post_init__(self) -> None:
        if any(len(example) != 2 for example in self.examples):
            raise ConfigError("prompt.examples: each is a pair of an observation and a reply.")
