"""Declaration of a reply's format: frozen, and checked when it is made."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from srl_envs.errors import ConfigError, nearest

Think = Literal["optional", "required", "forbidden"]
THINK_CHOICES: tuple[Think, ...] = ("optional", "required", "forbidden")
WHOLE_REPLY = "reply"

_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")
_LANGUAGE = re.compile(r"[^\s`~]{1,40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatSpec:
    """What a reply must look like. Everything but the thoughts is about the text after them.

    A *place* is ``"reply"`` (all text after the thoughts), ``"<tag>"`` for a tag of ``blocks``,
    ``"box"`` or ``"fence"``.

    Raises:
        ConfigError: a field has an impossible value, two of them contradict each other, or a rule is about a
            place that the format does not have.
    """

    blocks: tuple[str, ...] = ()
    """Tags; each must come exactly once as ``<tag>...</tag>``, not empty and not nested."""
    ordered: bool = True
    """The blocks must come in the order of ``blocks``."""
    only_blocks: bool = False
    """Nothing but white space may stand before, between and after the blocks."""
    max_block_chars: int | None = None
    """Longest body of a block, white space around it not counted."""
    think: Think = "optional"
    """``required``: the reply opens with one ``<think>...</think>``; ``optional``: it may, and the
    thoughts may be empty. Thoughts are never searched for parts, and a reply cut off inside them has
    none."""
    think_prefilled: bool = False
    """The prompt ends in ``<think>``, as some chat templates write it: the reply begins inside the
    thoughts and must close them, once."""
    boxed: bool = False
    r"""Exactly one ``\\boxed{...}``."""
    fence: str | tuple[str, ...] | None = None
    """A code fence of this language, or of one of these; fences of others may stand beside it."""
    many_fences: bool = False
    """Several fences of the language may stand; the last complete one counts. Else exactly one."""
    json: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Place to JSON Schema (Draft 2020-12): one JSON value stands there and fits; ``{}`` fits all."""
    max_json_chars: int = 100_000
    """Longest JSON text."""
    max_json_depth: int = 32
    """Deepest nesting of arrays and objects."""
    patterns: dict[str, str] = field(default_factory=dict)
    """Place to regular expression in RE2's syntax: it describes the whole text there, white space
    around it aside."""
    max_chars: int | None = None
    """Longest reply, thoughts included."""
    min_words: int = 0
    """Fewest words after the thoughts; words are what white space separates."""
    max_words: int | None = None
    """Most words after the thoughts."""
    forbidden: tuple[str, ...] = ()
    """Texts that must not occur after the thoughts, whatever their case."""
    example: str | None = None
    """A reply in this format, to show to the model; made up where it is None and that is possible."""

    def __post_init__(self) -> None:
        for name in ("ordered", "only_blocks", "think_prefilled", "boxed", "many_fences"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name}={getattr(self, name)!r}: use true or false.")
        for name in ("max_block_chars", "max_chars", "max_words"):
            _check_count(name, getattr(self, name), least=1, none=True)
        for name, least in (("max_json_chars", 1), ("max_json_depth", 0), ("min_words", 0)):
            _check_count(name, getattr(self, name), least=least)
        if self.max_json_depth > 100:
            raise ConfigError(f"max_json_depth={self.max_json_depth}: use 100 or less.")
        if self.max_words is not None and self.max_words < self.min_words:
            raise ConfigError(f"max_words={self.max_words} is below min_words={self.min_words}.")
        if self.example is not None and not isinstance(self.example, str):
            raise ConfigError(f"example={self.example!r}: give a whole reply, as text.")
        _check_texts("forbidden", self.forbidden)
        self._check_blocks()
        self._check_thoughts()
        self._check_fence()
        for name, kind in (("json", dict), ("patterns", str)):
            self._check_places(name, kind)
            object.__setattr__(self, name, copy.deepcopy(getattr(self, name)))

    def _check_blocks(self) -> None:
        _check_texts("blocks", self.blocks)
        for tag in self.blocks:
            if not _TAG.fullmatch(tag) or tag == "think":
                raise ConfigError(f"blocks: {tag!r} is not a tag; use letters, digits, - and _.")
        if len(set(self.blocks)) != len(self.blocks):
            raise ConfigError(f"blocks={self.blocks!r}: give distinct tags, such as ('answer',).")
        if self.only_blocks and not self.blocks:
            raise ConfigError("only_blocks=True needs at least one tag in blocks.")
        if self.max_block_chars is not None and not self.blocks:
            raise ConfigError("max_block_chars needs at least one tag in blocks.")

    def _check_thoughts(self) -> None:
        if self.think not in THINK_CHOICES:
            hint = nearest(str(self.think), THINK_CHOICES)
            raise ConfigError(
                f"think={self.think!r}: use one of {', '.join(THINK_CHOICES)}.{hint} Where the prompt "
                "ends in <think>, set think_prefilled."
            )
        if self.think == "forbidden" and self.think_prefilled:
            raise ConfigError("think='forbidden' and think_prefilled=True contradict each other.")

    def _check_fence(self) -> None:
        if self.fence is not None and not isinstance(self.fence, str):
            _check_texts("fence", self.fence)
        for language in self.languages:
            if not _LANGUAGE.fullmatch(language):
                raise ConfigError(f"fence: {language!r} is not a language; write it as after ```.")
        if self.fence is not None and not self.languages:
            raise ConfigError("fence=(): name a language, or use None.")
        if self.many_fences and self.fence is None:
            raise ConfigError("many_fences=True needs a language in fence.")

    def _check_places(self, name: str, kind: type) -> None:
        rules = getattr(self, name)
        if not isinstance(rules, Mapping):
            raise ConfigError(f"{name}={rules!r}: give `place: rule` pairs.")
        for place, rule in rules.items():
            if place not in self.places:
                raise ConfigError(
                    f"{name}: unknown place {place!r}.{nearest(str(place), self.places)} "
                    f"Places of this format: {', '.join(self.places)}."
                )
            if not isinstance(rule, kind):
                wanted = "a JSON Schema as a mapping" if kind is dict else "a pattern as text"
                raise ConfigError(f"{name}[{place!r}]={rule!r}: give {wanted}.")

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of ``fence``."""
        if self.fence is None:
            return ()
        return (self.fence,) if isinstance(self.fence, str) else self.fence

    @property
    def judges_thoughts(self) -> bool:
        """Whether the thoughts are a part that can be right or wrong."""
        return self.think == "required" or self.think_prefilled

    @property
    def places(self) -> tuple[str, ...]:
        """Parts to which a rule of ``json`` or ``patterns`` may apply."""
        box = ("box",) if self.boxed else ()
        fence = ("fence",) if self.fence is not None else ()
        return (WHOLE_REPLY, *(f"<{tag}>" for tag in self.blocks), *box, *fence)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that are judged, in the order in which faults are reported."""
        think = ("think",) if self.judges_thoughts else ()
        rules = (
            *(f"json:{place}" for place in self.json),
            *(f"pattern:{p}" for p in self.patterns),
        )
        return (*think, *self.places[1:], *rules)


def _check_count(name: str, value: Any, *, least: int, none: bool = False) -> None:
    if none and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r}: use a whole number from {least} on.")


def _check_texts(name: str, value: Iterable[Any]) -> None:
    if not isinstance(value, tuple) or not all(isinstance(text, str) and text for text in value):
        raise ConfigError(
            f"{name}={value!r}: give a list (in Python a tuple) of texts that are not empty."
        )
