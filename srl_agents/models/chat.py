"""Texts to tokens and back: a tokenizer, its chat template, and the prompt before every observation."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta

from srl_agents.models import pretrained
from srl_agents.models.prompt import EarlierTurn, Example, Prompt
from srl_agents.models.quiet import quiet_libraries
from srl_envs.errors import ConfigError, ModelError, nearest

_PROMPT_CACHE = 8192
"""Encoded prompts kept; games repeat their opening positions."""
_ANY_REPLY = "SRL-EARLIER-REPLY"
"""Stands for a reply where a template is asked what comes behind one."""
_BLANK = "\n\n"
"""Ends the rules with which every observation of a game begins."""
_OURS = {"messages", "add_generation_prompt", "raise_exception", "strftime_now"}
"""Variables of templates that are not arguments of a prompt."""


class ChatTokenizer:
    """A model's tokenizer behind one prompt.

    Args:
        tokenizer: of transformers, with a chat template, an end token and a pad token.
        prompt: what stands before every observation; nothing if absent.

    Raises:
        ConfigError: the chat template would ignore an argument of the prompt, or closes thoughts that the
            prompt asks for, or does not show earlier replies.
    """

    def __init__(self, tokenizer: Any, prompt: Prompt | None = None) -> None:
        self.tokenizer, self.prompt = tokenizer, prompt or Prompt()
        specials = [re.escape(text) for text in _special_tokens(tokenizer)]
        self._specials = re.compile("|".join(specials)) if specials else None
        self._first = lru_cache(maxsize=_PROMPT_CACHE)(self._first_turn)
        self._next = lru_cache(maxsize=_PROMPT_CACHE)(self._next_turn)
        self._check_arguments()
        self._opening_text = self._find_opening()
        self.opening = self._tokens(self._opening_text)
        """Tokens that begin thoughts, behind the prompt; empty without thoughts."""
        thoughts = self.prompt.thoughts
        self.thoughts_end = () if thoughts is None else self._tokens(f"\n{thoughts.close}\n\n")
        """What the engine writes where the budget of thoughts is used up; nothing without them."""
        if self.prompt.memory is not None:
            self._next("")

    @classmethod
    def load(cls, folder: Path, prompt: Prompt | None = None) -> ChatTokenizer:
        """The tokenizer in a model's folder.

        Raises:
            ModelError: there is none, or it has no chat template.
        """
        try:
            with quiet_libraries():
                tokenizer = pretrained.tokenizer(folder, padding_side="left")
        except (OSError, ValueError, KeyError) as error:
            raise ModelError(f"{folder} does not hold a loadable tokenizer: {error}") from error
        if not tokenizer.chat_template:
            raise ModelError(f"{folder} has no chat template; use an instruct model.")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return cls(tokenizer, prompt)

    def encode_prompt(
        self,
        observation: str,
        examples: tuple[Example, ...] = (),
        earlier: tuple[EarlierTurn, ...] = (),
        longest: int | None = None,
    ) -> tuple[int, ...]:
        """Token ids of prompt and observation under the chat template, ready for the reply.

        The observation may quote other players, so text in it that spells a template token
        (``<|im_end|>``) is broken up: no player can end another's message.

        Args:
            observation: what the reply answers.
            examples: shown after those of the prompt; what others wrote, broken up too.
            earlier: the seat's turns until now, oldest first; shown by the rules of the prompt's memory.
            longest: earlier turns are dropped where there would be more tokens than this.
        """
        kept = self._remembered(earlier)
        while True:
            ids = self._chat(observation, examples, kept)
            if not kept or longest is None or len(ids) <= longest:
                return ids
            kept = kept[1:]

    def reply_tokens(self, max_new_tokens: int) -> int:
        """The most that a model may write: thoughts, the marker that ends them, and the reply."""
        thoughts = self.prompt.thoughts
        spent = 0 if thoughts is None else thoughts.budget + len(self.thoughts_end)
        return spent + max_new_tokens

    def reply_opening(self) -> tuple[int, ...]:
        """The tokens with which every prompt ends: the template's words before a reply, thoughts' beginning.

        Raises:
            ConfigError: the chat template has no such words, or its tokens run over them.
        """
        chat = _messages(self.prompt, "?")
        whole = self._text(chat).removesuffix(self._opening_of_template)
        before: str = self.tokenizer.apply_chat_template(
            chat, add_generation_prompt=False, tokenize=False, **self.prompt.template_arguments
        )
        words = self._tokens(whole.removeprefix(before))
        if not whole.startswith(before) or self._tokens(before) + words != self._tokens(whole):
            words = ()
        if not words:
            raise ConfigError(
                "lora.activation='reply': the model's chat template has no words of its own before a reply, "
                "from which an adapter could act. Use 'start'."
            )
        return words + self.opening

    def encode_reply(self, reply: str) -> tuple[int, ...]:
        """Token ids of a reply that another author wrote, as this model would write it.

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

    # Earlier turns

    def _remembered(self, earlier: tuple[EarlierTurn, ...]) -> tuple[EarlierTurn, ...]:
        """The newest turns that are within the memory's limit together."""
        memory = self.prompt.memory
        if memory is None:
            return ()
        start = len(earlier)
        while start and self._size(earlier[start - 1 :]) <= memory.tokens:
            start -= 1
        return earlier[start:]

    def _size(self, turns: tuple[EarlierTurn, ...]) -> int:
        """Tokens of these turns where they are all that is shown."""
        shown = self._shown([turn.observation for turn in turns])
        return sum(map(len, map(self._next, shown))) + sum(len(self._said(turn)) for turn in turns)

    def _shown(self, observations: list[str]) -> list[str]:
        """The observations of a chat; rules that the first begins with are not repeated."""
        rules, blank, _ = observations[0].partition(_BLANK)
        if not blank:
            return observations
        cut = (text.removeprefix(rules + _BLANK) or text for text in observations[1:])
        return [observations[0], *cut]

    def _said(self, turn: EarlierTurn) -> tuple[int, ...]:
        """Token ids of an earlier turn's reply that the prompt shows."""
        memory = self.prompt.memory
        if memory is not None and memory.thoughts:
            return self.opening + turn.token_ids
        return turn.token_ids[turn.thought_tokens :]

    def _chat(
        self, observation: str, examples: tuple[Example, ...], kept: tuple[EarlierTurn, ...]
    ) -> tuple[int, ...]:
        shown = self._shown([*(turn.observation for turn in kept), observation])
        ids = self._first(shown[0], examples)
        for turn, following in zip(kept, shown[1:], strict=True):
            said, between = self._said(turn), self._next(following)
            ended = bool(said) and said[-1:] == between[:1]  # the model ended its message itself
            ids += said + between[ended:]
        return ids + self.opening

    def _first_turn(self, observation: str, examples: tuple[Example, ...]) -> tuple[int, ...]:
        """All up to the first reply."""
        shown = tuple((self._broken_up(seen), self._broken_up(said)) for seen, said in examples)
        chat = _messages(self.prompt, self._broken_up(observation), shown)
        return self._tokens(self._text(chat).removesuffix(self._opening_of_template))

    def _next_turn(self, observation: str) -> tuple[int, ...]:
        """All between a reply and the next one."""
        chat = [
            *_messages(Prompt(system=self.prompt.system), "?"),
            {"role": "assistant", "content": _ANY_REPLY},
            {"role": "user", "content": self._broken_up(observation)},
        ]
        before, found, after = self._text(chat).partition(_ANY_REPLY)
        if not found or _ANY_REPLY in after or not before:
            raise ConfigError(
                "prompt.memory: the model's chat template does not show earlier replies as they are; "
                "leave memory out."
            )
        return self._tokens(after.removesuffix(self._opening_of_template))

    # The template

    def _text(self, chat: list[dict[str, str]]) -> str:
        text: str = self.tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=False, **self.prompt.template_arguments
        )
        return text

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()

    def _check_arguments(self) -> None:
        """Refuse what the template would not read."""
        if not self.prompt.template_arguments:
            return
        known = _template_variables(self.tokenizer.get_chat_template()) - _OURS
        unknown = [name for name in self.prompt.template_arguments if name not in known]
        if unknown:
            raise ConfigError(
                f"prompt.template_arguments: the model's chat template does not read {unknown}."
                f"{nearest(unknown[0], sorted(known))} It reads: {', '.join(sorted(known)) or 'none'}."
            )

    def _find_opening(self) -> str:
        """What begins thoughts: the template's own last words, or the marker."""
        self._opening_of_template = ""
        thoughts = self.prompt.thoughts
        if thoughts is None:
            return ""
        text = self._text(_messages(self.prompt, "?"))
        if text.rstrip().endswith(thoughts.close):
            raise ConfigError(
                f"prompt.thoughts: the model's chat template ends thoughts at once, with "
                f"{thoughts.close!r}. Leave thoughts out, or set template_arguments, such as "
                "enable_thinking: true."
            )
        if text.rstrip().endswith(thoughts.open):
            self._opening_of_template = text[text.rindex(thoughts.open) :]
        return self._opening_of_template or thoughts.open

    def _broken_up(self, text: str) -> str:
        if self._specials is None:
            return text
        return self._specials.sub(lambda m: m[0][0] + " " + m[0][1:], text)


def _template_variables(template: str) -> set[str]:
    """Names that a chat template takes from its renderer.

    Source: the extensions are those with which transformers compiles templates.
    """
    environment = jinja2.Environment(autoescape=False, extensions=["jinja2.ext.loopcontrols"])
    plain = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", template)  # a tag of transformers' own
    return jinja2.meta.find_undeclared_variables(environment.parse(plain))


def _special_tokens(tokenizer: Any) -> list[str]:
    """Texts that the tokenizer reads as one template token, longest first."""
    added = [t.content for t in tokenizer.added_tokens_decoder.values() if t.special]
    return sorted((t for t in added if len(t) > 1), key=len, reverse=True)


def _messages(
    prompt: Prompt, observation: str, examples: tuple[Example, ...] = ()
) -> list[dict[str, str]]:
    """The chat that ends with the observation; more examples follow the prompt's own."""
    chat = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    for shown, reply in (*prompt.examples, *examples):
        chat += [{"role": "user", "content": shown}, {"role": "assistant", "content": reply}]
    return [*chat, {"role": "user", "content": observation}]
