"""The prompt of a policy, and the file beside an adapter's weights that holds it.

``prompt.json`` holds what the ``prompt`` section of a recipe holds. A LoRA adapter that was trained behind
a prompt plays differently without it, so every writer of an adapter's folder writes this file, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from srl_agents.models.prompt import MemorySettings, Prompt, ThoughtSettings
from srl_agents.yaml_files import read_yaml
from srl_envs.api.making import tool_schemas
from srl_envs.errors import ConfigError
from srl_envs.reading.settings import Removed, build, dump

PROMPT = "prompt.json"
_RECIPE = "recipe.yaml"
"""Of a run, whose ``prompt`` section is what its learners were shown."""
Examples = tuple[tuple[str, str], ...]
"""(observation, reply) pairs that a policy is shown before every observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleTurn:
    """One observation and the reply to it."""

    observation: str
    reply: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlayedExamplesSettings:
    """Examples that a bot of the game plays, each in another episode of the training split."""

    bot: str
    """Name of a bot of every game of the recipe; it plays all seats."""
    turns: int = 3
    """Examples per game, 1 to 16; the first is an opening, later ones lie deeper in a match."""

    removed: ClassVar[Removed] = {"seed": (0, "write examples of your own into prompt.examples")}

    def __post_init__(self) -> None:
        if not 1 <= self.turns <= 16:
            raise ConfigError(f"prompt.examples_from.turns={self.turns}: use 1 to 16.")
        if self.bot == "held_out":
            raise ConfigError(
                "prompt.examples_from.bot: 'held_out' is for rating only; name another bot."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptSettings:
    """Prompt of a policy: the text that it reads before each observation."""

    system: str | None = None
    """System message; the chat template's own if absent."""
    examples: tuple[ExampleTurn, ...] = ()
    """Shown as earlier turns of the chat; small models learn the form of a reply here."""
    examples_from: PlayedExamplesSettings | None = None
    """Further examples, before those above, that a bot plays when a recipe is read: the game's own text and a
    legal reply, for example {bot: strong, turns: 3}. In recipes only; a run's folder holds the result."""
    template_arguments: dict[str, Any] = field(default_factory=dict)
    """Variables of the model's chat template, such as {enable_thinking: true}. What the template does not
    read is refused. {tools: research_room-v0} lists the calls of a game whose moves are calls as tools."""
    thoughts: ThoughtSettings | None = None
    """Thoughts before every reply, under a limit of their own and no part of the reply; absent: a reply is
    all that is written."""
    memory: MemorySettings | None = None
    """A seat's own earlier turns of the match, shown before the observation; absent: every turn is shown
    without earlier turns."""

    @property
    def pairs(self) -> Examples:
        """The examples as engines take them."""
        return tuple((turn.observation, turn.reply) for turn in self.examples)

    def followed_by(self, more: Examples) -> PromptSettings:
        """These settings, with further examples behind their own."""
        turns = tuple(ExampleTurn(observation=seen, reply=said) for seen, said in more)
        return replace(self, examples=self.examples + turns)

    def head(self) -> Prompt:
        """All but the examples, as one engine has it for every policy."""
        arguments = dict(self.template_arguments)
        if isinstance(game := arguments.get("tools"), str):
            arguments["tools"] = tool_schemas(game)
        return Prompt(
            system=self.system,
            template_arguments=arguments,
            thoughts=self.thoughts,
            memory=self.memory,
        )

    def whole(self) -> Prompt:
        """The prompt as an engine takes it."""
        return replace(self.head(), examples=self.pairs)


NO_PROMPT = PromptSettings()


def shown(prompt: PromptSettings) -> dict[str, Any]:
    """Plain values of a prompt; of its later sections only those that say something."""
    bare = dump(NO_PROMPT)
    return {
        name: value
        for name, value in dump(prompt).items()
        if name in ("system", "examples") or value != bare[name]
    }


def write_prompt(folder: Path, prompt: PromptSettings) -> None:
    """Put a policy's prompt beside its adapter; no file where there is nothing to show."""
    if prompt != NO_PROMPT:
        text = json.dumps(shown(prompt), indent=1, ensure_ascii=False)
        (folder / PROMPT).write_text(text + "\n", encoding="utf-8")


def read_prompt(folder: Path) -> PromptSettings:
    """The prompt of the policy in an adapter's folder; empty when the folder has no prompt file.

    Raises:
        ConfigError: the file is there and holds something else.
    """
    path = folder / PROMPT
    return _built(_read(path), path) if path.is_file() else NO_PROMPT


def find_prompt(path: Path) -> PromptSettings:
    """The prompt in a ``prompt.json``, a recipe, or a folder (adapter or run) that holds one of them.

    Raises:
        ConfigError: there is none, or it shows nothing.
    """
    if path.is_dir():
        path = path / PROMPT if (path / PROMPT).is_file() else path / _RECIPE
    data = _read(path) if path.suffix == ".json" else read_yaml(path).get("prompt", {})
    prompt = _built(data, path)
    if prompt == NO_PROMPT:
        raise ConfigError(f"prompt {path}: it shows nothing and asks for nothing.")
    return prompt


def _built(data: Any, path: Path) -> PromptSettings:
    """A prompt whose examples are texts.

    Raises:
        ConfigError: a value is wrong, or a bot has still to play the examples.
    """
    prompt = build(PromptSettings, data, f"prompt {path}")
    if prompt.examples_from is not None:
        raise ConfigError(
            f"prompt {path}: examples_from works in recipes of `srl train` only. Name the folder of a run "
            "of that recipe, which holds the examples."
        )
    return prompt


def _read(path: Path) -> Any:
    """What a file of JSON holds.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"prompt {path} cannot be read: {error}") from None
