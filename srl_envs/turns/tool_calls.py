"""Moves as tool calls of a chat template: the schemas that a template lists, and the calls that models write.

A game with moves that are calls declares them once, as `Tool`. Its moves are then also read from
``<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>``, the form of Hermes and Qwen
templates. The last block of a reply counts, whichever of the two forms it has.

Source of the form: the chat template of Qwen/Qwen2.5-7B-Instruct; of the schemas: JSON Schema as in the
``tools`` argument of ``apply_chat_template`` of transformers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from srl_envs.core import Tool
from srl_envs.turns.grammar import CLOSE, MAX_REPLY_CHARS, without_thought

OPEN_CALL, CLOSE_CALL = "<tool_call>", "</tool_call>"
_MOST_DEPTH = 8
"""Levels of brackets in the JSON of a call."""
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """What ``apply_chat_template(tools=...)`` takes."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.does,
                "parameters": {
                    "type": "object",
                    "properties": {
                        name: {"type": "string", "description": meaning}
                        for name, meaning in tool.parameters
                    },
                    "required": [name for name, _ in tool.parameters],
                },
            },
        }
        for tool in tools
    ]


def written_call(tool: Tool, arguments: Mapping[str, str]) -> str:
    """The call as a model of these templates writes it."""
    call = {"name": tool.name, "arguments": dict(arguments)}
    return f"{OPEN_CALL}\n{json.dumps(call, ensure_ascii=False)}\n{CLOSE_CALL}"


def called_body(
    reply: str, tools: Sequence[Tool], max_action_chars: int
) -> tuple[str, None] | tuple[None, str] | None:
    """The body of the move that a reply calls.

    Args:
        reply: any text, however long.
        tools: of the game.
        max_action_chars: longest body that counts.

    Returns:
        As `srl_envs.turns.grammar.parse_reply` does; None where the last block of the reply does not call.
    """
    if OPEN_CALL not in reply or len(reply) > MAX_REPLY_CHARS:
        return None
    said, _ = without_thought(reply)
    start = said.rfind(OPEN_CALL)
    if start < 0 or said.lower().rfind(CLOSE) > start:
        return None
    inside, closed, _ = said[start + len(OPEN_CALL) :].partition(CLOSE_CALL)
    if not closed:
        return None, f"its last {OPEN_CALL} is never closed"
    body, reason = _body(inside.strip(), tools)
    if body is None:
        return None, str(reason)
    if len(body) > max_action_chars:
        return None, f"its call has {len(body)} characters; at most {max_action_chars} are allowed"
    return body, None


def _body(text: str, tools: Sequence[Tool]) -> tuple[str, None] | tuple[None, str]:
    if _depth(text) > _MOST_DEPTH:
        return None, "its call is nested too deeply"
    try:
        call = json.loads(text)
    except ValueError:
        return None, 'its call is not JSON, such as {"name": "NAME", "arguments": {}}'
    if not isinstance(call, dict):
        return None, "its call is not a JSON object"
    by_name = {tool.name: tool for tool in tools}
    tool = by_name.get(name) if isinstance(name := call.get("name"), str) else None
    if tool is None:
        return None, f"its call names none of {', '.join(by_name)}"
    arguments = call.get("arguments", {})
    wanted = [name for name, _ in tool.parameters]
    if not isinstance(arguments, dict) or set(arguments) != set(wanted):
        return None, f"the call {tool.name} takes {' and '.join(wanted) or 'no argument'}"
    values = [arguments[name] for name in wanted]
    if not all(isinstance(value, (str, int, float)) for value in values):
        return None, f"the arguments of {tool.name} are texts"
    try:
        return f"{tool.name}: {chr(10).join(map(str, values))}".strip(), None
    except ValueError:  # an integer past Python's limit of digits
        return None, f"the arguments of {tool.name} are texts"


def _depth(text: str) -> int:
    """Levels of brackets outside strings; `json` would recurse into each."""
    deepest = depth = 0
    for char in _STRINGS.sub("", text):
        depth += (char in "[{") - (char in "]}")
        deepest = max(deepest, depth)
    return deepest
