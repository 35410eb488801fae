"""The calls of a game as tools of a real chat template: Qwen3's, as TRL ships it."""

from __future__ import annotations

from importlib.resources import files

import pytest

import srl_envs
from srl_agents.agents.prompt_file import PromptSettings
from srl_agents.models.chat import ChatTokenizer
from srl_envs.errors import ConfigError
from srl_envs.families.workflow.library.research_room import TOOLS
from srl_envs.turns.tool_calls import written_call
from tests.thinking_model import thinking_tokenizer

ENV = "research_room-v0"
TEMPLATE = (files("trl") / "chat_templates/qwen3.jinja").read_text(encoding="utf-8")


def chat(prompt: PromptSettings) -> ChatTokenizer:
    tokenizer = thinking_tokenizer()
    tokenizer.chat_template = TEMPLATE
    return ChatTokenizer(tokenizer, prompt.whole())


def test_a_policy_option_lists_the_calls_of_a_game_as_tools() -> None:
    own = chat(PromptSettings(template_arguments={"tools": ENV}, system="Be brief."))
    text = own.decode(own.encode_prompt("What now?"))
    assert '{"type": "function", "function": {"name": "search"' in text
    assert text.index("Be brief.") < text.index("<tools>") < text.index("What now?")
    bare = chat(PromptSettings(system="Be brief."))
    assert "<tools>" not in bare.decode(bare.encode_prompt("What now?"))


def test_the_call_that_the_template_writes_is_a_move_of_the_game() -> None:
    """The template's own form of an earlier call, read back by the environment."""
    own = chat(PromptSettings(template_arguments={"tools": ENV}))
    call = {"type": "function", "function": {"name": "read", "arguments": {"path": "notes/02.txt"}}}
    messages = [
        {"role": "user", "content": "What now?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    shown = own.tokenizer.apply_chat_template(messages, tokenize=False)
    written = shown[shown.index("<tool_call>") :]
    env = srl_envs.make(ENV, players=1)
    env.reset(seed=0)
    *_, infos = env.step({"player_0": written})
    assert infos["player_0"]["played"] == "read: notes/02.txt"
    reply = own.encode_reply(written_call(TOOLS[1], {"path": "notes/03.txt"}))
    env.reset(seed=0)
    *_, infos = env.step({"player_0": own.decode(reply)})
    assert infos["player_0"]["played"] == "read: notes/03.txt"


def test_a_template_without_tools_and_a_game_without_calls_are_refused() -> None:
    with pytest.raises(ConfigError, match="does not read \\['tools'\\]"):
        ChatTokenizer(
            thinking_tokenizer(), PromptSettings(template_arguments={"tools": ENV}).whole()
        )
    with pytest.raises(ConfigError, match="nim-v0"):
        PromptSettings(template_arguments={"tools": "nim-v0"}).whole()
