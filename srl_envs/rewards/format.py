"""Format checker: does a reply have the parts it was asked for, in order, once, and nothing else?

A format is declared once; the check and the instruction that asks a model for it come from the same
declaration, so they cannot drift apart. The check is linear in the reply and uses no regular
expression that can backtrack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from srl_envs.errors import ConfigError
from srl_envs.rewards.blocks import THINK_CLOSE, THINK_OPEN, Scan, outside, scan_fences, scan_tags
from srl_envs.rewards.extraction import boxes
from srl_envs.rewards.score import Score

Think = Literal["optional", "required", "prefilled", "forbidden"]
THINK_CHOICES: tuple[Think, ...] = ("optional", "required", "prefilled", "forbidden")

FORMAT_REASONS = (
    "ok", "missing", "unclosed", "unopened", "nested", "duplicate", "empty", "block_too_long",
    "think_missing", "think_unclosed", "think_duplicate", "think_empty", "think_not_first",
    "think_forbidden", "box_missing", "box_duplicate", "box_empty", "fence_missing",
    "fence_unclosed", "fence_duplicate", "fence_language", "fence_empty", "order", "outside_text",
    "too_long", "too_few_words", "too_many_words", "forbidden_text",
)  # fmt: skip
"""Every label that a score of the format checker can carry."""

_TAG = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatSpec:
    """What a reply must look like. Everything but ``think`` is about the text after it."""

    blocks: tuple[str, ...] = ()
    """Tags; each must come exactly once as ``<tag>...</tag>``, not empty and not nested."""
    ordered: bool = True
    """The blocks must come in the order of ``blocks``."""
    only_blocks: bool = False
    """Nothing but white space may stand outside the blocks."""
    max_block_chars: int | None = None
    """Longest body of a block, white space around it not counted."""
    think: Think = "optional"
    """``required``: the reply opens with one ``<think>...</think>``. ``prefilled``: the prompt
    already opened it, so the reply only closes it. Thoughts are never searched for parts."""
    boxed: bool = False
    r"""Exactly one ``\\boxed{...}``."""
    fence: str | None = None
    """Exactly one code fence, of this language."""
    max_chars: int | None = None
    """Longest reply, thoughts included."""
    min_words: int = 0
    """Fewest words after the thoughts."""
    max_words: int | None = None
    """Most words after the thoughts."""
    forbidden: tuple[str, ...] = ()
    """Texts that must not occur after the thoughts, whatever their case."""

    def __post_init__(self) -> None:
        for tag in self.blocks:
            if not _TAG.fullmatch(tag) or tag == "think":
                raise ConfigError(f"blocks: {tag!r} is no tag; use letters, digits, - and _.")
        if isinstance(self.blocks, str) or len(set(self.blocks)) != len(self.blocks):
            raise ConfigError(f"blocks={self.blocks!r}: give distinct tags, such as ('answer',).")
        if self.think not in THINK_CHOICES:
            raise ConfigError(f"think={self.think!r}: use one of {', '.join(THINK_CHOICES)}.")
        if self.only_blocks and not self.blocks:
            raise ConfigError("only_blocks=True needs at least one tag in blocks.")
        if any(not text for text in self.forbidden) or isinstance(self.forbidden, str):
            raise ConfigError(f"forbidden={self.forbidden!r}: give a tuple of non-empty texts.")
        if self.max_words is not None and self.max_words < self.min_words:
            raise ConfigError(f"max_words={self.max_words} is below min_words={self.min_words}.")


class FormatChecker:
    """Scores the form of a reply; says nothing about its content.

    ``FormatChecker(FormatSpec(blocks=("answer",))).check("<answer>7</answer>")`` is
    ``Score(1.0, "ok")``.

    Args:
        spec: the format.
        partial: pay for parts: a faulty reply earns ``right parts / (all parts + 1)``, so that it
            never earns what a right one does and a better reply never earns less. Parts are the
            thoughts (where required), each block, the box and the fence.
    """

    def __init__(self, spec: FormatSpec, *, partial: bool = False) -> None:
        self.spec = spec
        self.partial = partial

    def check(self, reply: str) -> Score:
        """1 for the exact format, else 0 or the partial credit; the reason is the first fault."""
        parts = self.parts(reply)
        faults = [reason for reason in parts.values() if reason != "ok"]
        faults = faults or self._faults_of_the_whole(reply)
        if not faults:
            return Score(1.0, "ok")
        right = sum(reason == "ok" for reason in parts.values())
        return Score(right / (len(parts) + 1) if self.partial else 0.0, faults[0])

    def parts(self, reply: str) -> dict[str, str]:
        """The verdict on each part by name: ``ok`` or what is wrong with it."""
        spec, tail = self.spec, _after_thoughts(reply)
        verdicts = {}
        if spec.think in ("required", "prefilled"):
            verdicts["think"] = _judge_thoughts(reply, prefilled=spec.think == "prefilled")
        scan = scan_tags(tail, spec.blocks)
        for tag in spec.blocks:
            verdicts[f"<{tag}>"] = self._judge_block(scan, tag)
        if spec.boxed:
            verdicts["box"] = _judge_single(
                [body.strip() for body in boxes(tail)],
                ("box_missing", "box_duplicate", "box_empty"),
            )
        if spec.fence is not None:
            verdicts["fence"] = _judge_fences(tail, spec.fence)
        return verdicts

    def _judge_block(self, scan: Scan, tag: str) -> str:
        if tag in scan.faults:
            return scan.faults[tag]
        bodies = [block.body.strip() for block in scan.blocks if block.tag == tag]
        verdict = _judge_single(bodies, ("missing", "duplicate", "empty"))
        limit = self.spec.max_block_chars
        if verdict == "ok" and limit is not None and len(bodies[0]) > limit:
            return "block_too_long"
        return verdict

    def _faults_of_the_whole(self, reply: str) -> list[str]:
        """Faults of a reply whose parts are all right."""
        spec, tail = self.spec, _after_thoughts(reply)
        blocks = scan_tags(tail, spec.blocks).blocks
        words = len(tail.split())
        lowered = tail.casefold()
        faults = {
            "think_forbidden": spec.think == "forbidden"
            and (THINK_OPEN in reply or THINK_CLOSE in reply),
            "order": spec.ordered and tuple(block.tag for block in blocks) != spec.blocks,
            "outside_text": spec.only_blocks and bool(outside(tail, blocks).strip()),
            "too_long": spec.max_chars is not None and len(reply) > spec.max_chars,
            "too_few_words": words < spec.min_words,
            "too_many_words": spec.max_words is not None and words > spec.max_words,
            "forbidden_text": any(text.casefold() in lowered for text in spec.forbidden),
        }
        return [reason for reason, found in faults.items() if found]

    def instructions(self) -> str:
        """The text that asks a model for this format."""
        spec = self.spec
        lines = [_THINK_INSTRUCTIONS[spec.think]] if spec.think in _THINK_INSTRUCTIONS else []
        if spec.blocks:
            shown = " ".join(f"<{tag}>...</{tag}>" for tag in spec.blocks)
            how = "in this order" if spec.ordered and len(spec.blocks) > 1 else "once"
            lines.append(f"Write {shown} {how}{', and nothing else' if spec.only_blocks else ''}.")
        if spec.max_block_chars is not None:
            lines.append(f"Write at most {spec.max_block_chars} characters between two tags.")
        if spec.boxed:
            lines.append("Put your final answer in \\boxed{...}, once.")
        if spec.fence is not None:
            lines.append(
                f"Write one code block that starts with ```{spec.fence} and ends with ```."
            )
        if spec.min_words:
            lines.append(f"Use at least {spec.min_words} words.")
        if spec.max_words is not None:
            lines.append(f"Use at most {spec.max_words} words.")
        if spec.max_chars is not None:
            lines.append(f"The whole reply may have {spec.max_chars} characters.")
        if spec.forbidden:
            lines.append(f"Do not write: {', '.join(spec.forbidden)}.")
        return "\n".join(lines)


_THINK_INSTRUCTIONS = {
    "required": "Think first, inside <think>...</think>.",
    "prefilled": "Think first, then write </think>.",
    "forbidden": "Do not use <think> tags.",
}


def _after_thoughts(reply: str) -> str:
    """The text after the last thought; a thought that is never closed goes on to the end."""
    return reply.rpartition(THINK_CLOSE)[2].partition(THINK_OPEN)[0]


def _judge_thoughts(reply: str, *, prefilled: bool) -> str:
    opened, closed = reply.count(THINK_OPEN), reply.count(THINK_CLOSE)
    if not opened and not closed:
        return "think_missing"
    if not closed:
        return "think_unclosed"
    if closed > 1 or opened > (0 if prefilled else 1):
        return "think_duplicate"
    text = reply.lstrip()
    if not prefilled and not text.startswith(THINK_OPEN):
        return "think_not_first"
    body = text[0 if prefilled else len(THINK_OPEN) : text.index(THINK_CLOSE)]
    return "ok" if body.strip() else "think_empty"


def _judge_single(bodies: Sequence[str], reasons: tuple[str, str, str]) -> str:
    """``ok`` for exactly one body that is not empty, else the missing, duplicate or empty reason."""
    if len(bodies) == 1 and bodies[0]:
        return "ok"
    return reasons[0] if not bodies else reasons[1] if len(bodies) > 1 else reasons[2]


def _judge_fences(text: str, language: str) -> str:
    fences, unclosed = scan_fences(text)
    if unclosed:
        return "fence_unclosed"
    wanted = [fence.body.strip() for fence in fences if fence.language == language.lower()]
    if fences and not wanted:
        return "fence_language"
    return _judge_single(wanted, ("fence_missing", "fence_duplicate", "fence_empty"))
