"""Texts to tokens and back: a tokenizer, its chat template, and what stands before every observation."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from srl_agents.models.prompt import Example, Prompt
from srl_agents.models.quiet import quiet_libraries
from srl_envs.errors import ModelError

_PROMPT_CACHE = 8192
"""Encoded prompts kept; games repeat their opening positions."""


class ChatTokenizer:
    """A model's tokenizer behind one prompt.

    Args:
        tokenizer: of transformers, with a chat template, an end token and a pad token.
        prompt: what stands before every observation; nothing if absent.
    """

    def __init__(self, tokenizer: Any, prompt: Prompt | None = None) -> None:
        self.tokenizer, self.prompt = tokenizer, prompt or Prompt()
        specials = [re.escape(text) for text in _special_tokens(tokenizer)]
        self._specials = re.compile("|".join(specials)) if specials else None
        self._encode = lru_cache(maxsize=_PROMPT_CACHE)(self._encode_uncached)

    @classmethod
    def load(cls, folder: Path, prompt: Prompt | None = None) -> ChatTokenizer:
        """The tokenizer in a model's folder.

        Raises:
            ModelError: there is none, or it has no chat template.
        """
        try:
            with quiet_libraries():
                tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{folder} does not hold a loadable tokenizer: {error}") from error
        if not tokenizer.chat_template:
            raise ModelError(f"{folder} has no chat template; use an instruct model.")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return cls(tokenizer, prompt)

    def encode_prompt(
        self, observation: str, examples: tuple[Example, ...] = ()
    ) -> tuple[int, ...]:
        """Token ids of prompt and observation under the chat template, ready for the reply.

        The observation may quote other players, so text in it that spells a template token
        (``<|im_end|>``) is broken up: no player can end another's message.

        Args:
            observation: what the reply answers.
            examples: shown after those of the prompt; what others wrote, broken up too.
        """
        return self._encode(observation, examples)

    def encode_reply(self, reply: str) -> tuple[int, ...]:
        """Token ids of a reply that somebody else wrote, as this model would write it.

        They end with the token that ends a reply; text that spells a template token is broken up.
        """
        ids = self.tokenizer(self._broken_up(reply), add_special_tokens=False)["input_ids"]
        return (*ids, self.tokenizer.eos_token_id)

    def decode(self, ids: tuple[int, ...] | list[int]) -> str:
        """Text of a reply, without template tokens."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def _encode_uncached(self, observation: str, examples: tuple[Example, ...]) -> tuple[int, ...]:
        shown = tuple((self._broken_up(seen), self._broken_up(said)) for seen, said in examples)
        ids = self.tokenizer.apply_chat_template(
            self.prompt.messages(self._broken_up(observation), shown),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        return tuple(ids)

    def _broken_up(self, text: str) -> str:
        if self._specials is None:
            return text
        return self._specials.sub(lambda m: m[0][0] + " " + m[0][1:], text)


def _special_tokens(tokenizer: Any) -> list[str]:
    """Texts that the tokenizer reads as one template token, longest first."""
    added = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
    return sorted((t for t in added if len(t) > 1), key=len, reverse=True)
