"""Separates thoughts from the reply, token by token; equal for every engine that has tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from srl_agents.engines.protocol import Generation, GenerationRequest, SamplingSettings
from srl_agents.engines.token_choice import StopTexts
from srl_agents.models.chat import ChatTokenizer
from srl_envs.errors import ConfigError


class Thinking:
    """Where thoughts end, and what both parts say.

    Args:
        chat: a tokenizer whose prompt has thoughts.

    Raises:
        ConfigError: it has none.
    """

    def __init__(self, chat: ChatTokenizer) -> None:
        settings = chat.prompt.thoughts
        if settings is None:
            raise ConfigError("prompt.thoughts is not set, so there are no thoughts to separate.")
        self.budget, self.close = settings.budget, settings.close
        self.end = chat.thoughts_end
        """Tokens that the engine writes where the budget is used up."""
        self._chat = chat
        self._marker = StopTexts(chat.tokenizer, (settings.close,))

    def closed(self, tokens: list[int]) -> bool:
        """Whether the last token completes the marker that ends thoughts."""
        return self._marker.ended(tokens)

    def texts(
        self, tokens: tuple[int, ...] | list[int], thought_tokens: int, forced_tokens: int = 0
    ) -> tuple[str, str]:
        """(thoughts, reply), without markers.

        A token that was drawn and completes the marker may hold what follows it; that belongs to the reply.
        """
        raw = self._chat.tokenizer.decode(
            list(tokens[:thought_tokens]),
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
        )
        _, _, rest = raw.partition(self.close)
        thoughts = self._chat.decode(tokens[:thought_tokens]).partition(self.close)[0]
        reply = self._chat.decode(tokens[thought_tokens:])
        return thoughts.strip(), reply if forced_tokens else rest + reply


def thinking_of(chat: ChatTokenizer) -> Thinking | None:
    """Budget and markers of a prompt's thoughts; None where it has none."""
    return None if chat.prompt.thoughts is None else Thinking(chat)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Tokens that were sampled in one go."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Literal["stop", "length"]
    cached_tokens: int = 0


SamplePiece = Callable[[tuple[int, ...], int, tuple[str, ...], int], Awaitable[Piece]]
"""(prompt, most tokens, texts that end it, its number in the reply) -> what was sampled."""


async def written_in_pieces(
    chat: ChatTokenizer,
    thinking: Thinking | None,
    prompt: tuple[int, ...],
    request: GenerationRequest,
    *,
    sampling: SamplingSettings,
    sample: SamplePiece,
) -> Generation:
    """A reply of an engine that samples up to a text or a limit: its thoughts first, where it has any.

    Args:
        chat: the model's tokenizer and prompt.
        thinking: of that prompt; None has no thoughts.
        prompt: of the request.
        request: what is answered.
        sampling: of the reply.
        sample: asks the engine.
    """
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    cached = forced = 0
    finish: Literal["stop", "length"] | None = None
    if thinking is not None:
        piece = await sample(prompt, thinking.budget, (thinking.close,), 1)
        ids, logprobs, cached = piece.token_ids, piece.logprobs, piece.cached_tokens
        if thinking.closed(list(ids)):
            pass
        elif piece.finish == "stop":  # the model ended its message in its thoughts
            finish = "stop"
        else:
            forced = len(thinking.end)
            ids, logprobs = ids + thinking.end, logprobs + (0.0,) * forced
    thought_tokens = len(ids)
    if finish is None:
        piece = await sample(prompt + ids, sampling.max_new_tokens, sampling.stop, 0)
        ids, logprobs, finish = ids + piece.token_ids, logprobs + piece.logprobs, piece.finish
        cached = cached if thinking else piece.cached_tokens
    thoughts, text = (
        ("", chat.decode(ids)) if thinking is None else thinking.texts(ids, thought_tokens, forced)
    )
    return Generation(
        text=text,
        version=request.version,
        prompt_ids=prompt,
        token_ids=ids,
        logprobs=logprobs,
        finish=finish,
        thoughts=thoughts,
        thought_tokens=thought_tokens,
        forced_tokens=forced,
        cached_tokens=cached,
    )
