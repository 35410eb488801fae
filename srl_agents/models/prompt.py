"""What stands before every observation, in plain data."""

from __future__ import annotations

from dataclasses import dataclass

from srl_envs.errors import ConfigError

Example = tuple[str, str]
"""An observation and a reply to it, shown as an earlier turn of the chat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What a model reads before the observation; the same for every turn, so prefixes are shared."""

    system: str | None = None
    """System message; None leaves it to the chat template."""
    examples: tuple[Example, ...] = ()
    """(observation, reply) pairs shown as earlier turns; small models learn the reply's form here."""

    def __post_init__(self) -> None:
        if any(len(example) != 2 for example in self.examples):
            raise ConfigError("prompt.examples: each is a pair of an observation and a reply.")

    def messages(
        self, observation: str, examples: tuple[Example, ...] = ()
    ) -> list[dict[str, str]]:
        """The chat that ends with the observation; more examples follow the prompt's own."""
        chat = [] if self.system is None else [{"role": "system", "content": self.system}]
        for shown, reply in (*self.examples, *examples):
            chat += [{"role": "user", "content": shown}, {"role": "assistant", "content": reply}]
        return [*chat, {"role": "user", "content": observation}]
