"""Bodies of the chat completions API, as pure functions: the request's body, and how an answer is read.

Servers differ in where they put a model's thoughts: in ``reasoning_content``, in ``reasoning``, or in the
text between ``<think>`` and ``</think>``. Some count thoughts beside the reply's tokens, most among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from srl_agents.records import Served, ServedFinish

MOST_MODEL_CHARACTERS = 200
"""Characters that are kept of the name that a server reports for its model."""
MOST_FINGERPRINT_CHARACTERS = 200
MOST_TOKENS = 100_000_000
"""Largest count that is accepted for one prompt or reply; a larger one is ignored."""
_FINISHES: dict[str, ServedFinish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refused",
    "refusal": "refused",
}
"""Servers' words for the end of a reply; every other word is ``other``."""
_OPENED = re.compile(r"\s*<think>")
_CLOSE = "</think>"
_MARK = re.compile(r"</?think>")
_THOUGHT_FIELDS = ("reasoning_content", "reasoning")


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """An answer, before the price and the tries are known."""

    text: str
    thoughts: str
    served: Served


class NoCompletionError(ValueError):
    """A body is not a chat completion; the text quotes the place."""


def read_completion(
    body: Any, reply_limit: int | None = None, *, opened: bool = False
) -> Completion:
    """Read an answer: its reply, its thoughts and the server's counts.

    Args:
        body: the parsed JSON.
        opened: whether the prompt ended within thoughts, so that text in which they do not end is thoughts.
        reply_limit: tokens that the reply may have beside thoughts, where these have a budget of their
            own. One limit goes to the server for both, so a reply may come out longer. Of one that does,
            by the server's own count, the same share of its characters is kept.

    Raises:
        NoCompletionError: it is something else.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise NoCompletionError(str(body)) from None
    if content is not None and not isinstance(content, str):
        raise NoCompletionError(str(content))
    text, thoughts = _apart(_whole(content or ""), message, opened)
    served = _served(choice, message, bool(text), body)
    own = _own_tokens(served)
    if reply_limit is not None and own is not None and own > reply_limit:
        text = text[: len(text) * reply_limit // own]
        served = replace(served, finish="length")
    return Completion(text=text, thoughts=thoughts, served=served)


def is_model_name(name: object) -> TypeGuard[str]:
    """Whether a server may report this as the name of its model; empty stands for none."""
    return isinstance(name, str) and name.isprintable() and len(name) <= MOST_MODEL_CHARACTERS


def likely_tokens(messages: list[dict[str, str]]) -> int:
    """About how many tokens a chat has: a third of its bytes, and a few per message."""
    return sum(len(m["content"].encode(errors="replace")) // 3 + 8 for m in messages)


def _apart(content: str, message: Mapping[str, Any], opened: bool) -> tuple[str, str]:
    """(reply, thoughts): never a word of one in the other."""
    fields = [message.get(name) for name in _THOUGHT_FIELDS]
    thoughts = next((_whole(value) for value in fields if isinstance(value, str) and value), "")
    # a template may have opened the thoughts in the prompt, and some models think again behind them
    before, closed, reply = content.rpartition(_CLOSE)
    if _OPENED.match(reply) or (opened and not closed and not thoughts):
        before, closed, reply = content, _CLOSE, ""  # thoughts that the limit cut are never closed
    if not closed:
        return content, thoughts
    inside = [part.strip() for part in _MARK.split(before)]
    return reply.lstrip(), "\n".join(part for part in (thoughts, *inside) if part)


def _served(choice: Any, message: Mapping[str, Any], has_text: bool, body: Any) -> Served:
    reason = choice.get("finish_reason")
    finish = _FINISHES.get(reason, "other") if isinstance(reason, str) else "other"
    if message.get("refusal") and not has_text:
        finish = "refused"
    model, fingerprint = body.get("model"), body.get("system_fingerprint")
    model = "" if model is None else model
    if not is_model_name(model):
        raise NoCompletionError(f"model {model!r}")
    if not isinstance(fingerprint, str) or not fingerprint.isprintable():
        fingerprint = ""
    usage = _mapping(body.get("usage"))
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    reasoning = _count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    total = _count(usage.get("total_tokens"))
    if completion is not None and reasoning and total == (prompt or 0) + completion + reasoning:
        completion += reasoning  # this server counts thoughts beside the completion
    return Served(
        finish=finish,
        prompt_tokens=prompt,
        completion_tokens=completion,
        reasoning_tokens=reasoning,
        cached_tokens=_count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        model=model,
        fingerprint=fingerprint[:MOST_FINGERPRINT_CHARACTERS],
    )


def _own_tokens(served: Served) -> int | None:
    """Tokens of the reply without thoughts, where the server reports both counts."""
    if served.completion_tokens is None or served.reasoning_tokens is None:
        return None
    return served.completion_tokens - served.reasoning_tokens


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    """A number of tokens; None for anything else."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _whole(text: str) -> str:
    """JSON can hold half of a surrogate pair, which cannot be encoded: replace it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
