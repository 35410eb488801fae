"""Wording of a format's rules for prompts, and an example reply that follows them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from srl_envs.rewards.blocks import THINK_CLOSE, THINK_OPEN
from srl_envs.rewards.format.spec import WHOLE_REPLY, FormatSpec

EXAMPLE_HEADING = "A reply in this format:\n"
_FILLER = ("some", "words", "of", "your", "own")


def instructions(spec: FormatSpec, example: str) -> str:
    """The text that asks a model for the format, ending in ``example``."""
    lines = [*_thoughts(spec), *_parts(spec), *_rules(spec), *_limits(spec)]
    return "\n".join([*lines, EXAMPLE_HEADING + example])


def _thoughts(spec: FormatSpec) -> list[str]:
    if spec.think_prefilled:
        return [
            f"Your reply begins inside {THINK_OPEN}: think first, then write {THINK_CLOSE} once. "
            f"Do not write {THINK_OPEN} again."
        ]
    if spec.think == "required":
        return [f"Begin with your thoughts, once, inside {THINK_OPEN}...{THINK_CLOSE}."]
    if spec.think == "forbidden":
        return [f"Do not write {THINK_OPEN} or {THINK_CLOSE}."]
    return [f"You may begin with thoughts, once, inside {THINK_OPEN}...{THINK_CLOSE}."]


def _parts(spec: FormatSpec) -> list[str]:
    lines = []
    if spec.blocks:
        shown = " ".join(f"<{tag}>...</{tag}>" for tag in spec.blocks)
        order = "in this order, " if spec.ordered and len(spec.blocks) > 1 else ""
        once = "once" if len(spec.blocks) == 1 else "each once"
        lines.append(f"Write {shown}, {order}{once}. Put no tag inside another.")
    if spec.only_blocks:
        thoughts = " save for your thoughts" if spec.think != "forbidden" else ""
        lines.append(f"Write nothing before, between or after the tags{thoughts}.")
    if spec.max_block_chars is not None:
        lines.append(f"Write at most {spec.max_block_chars} characters between two tags.")
    if spec.boxed:
        lines.append("Put your final answer in \\boxed{...}, once.")
    if spec.fence is not None:
        shown = " or ".join(f"```{language}" for language in spec.languages)
        count = (
            "If there are several, the last one counts." if spec.many_fences else "Write only one."
        )
        lines.append(f"Write a code block that starts with {shown} and ends with ```. {count}")
    return lines


def _rules(spec: FormatSpec) -> list[str]:
    lines = []
    for place, schema in spec.json.items():
        fits = f" that fits this JSON Schema: {_compact(schema)}" if schema else ""
        lines.append(
            f"{_subject(place)} must be one JSON value{fits}. Use no key twice, at most "
            f"{spec.max_json_chars} characters, and at most {spec.max_json_depth} levels of nesting."
        )
    for place, pattern in spec.patterns.items():
        lines.append(f"{_subject(place)} must match this regular expression as a whole: {pattern}")
    return lines


def _limits(spec: FormatSpec) -> list[str]:
    after = " after your thoughts" if spec.think != "forbidden" else ""
    lines = []
    if spec.min_words:
        lines.append(f"Use at least {spec.min_words} words{after}.")
    if spec.max_words is not None:
        lines.append(f"Use at most {spec.max_words} words{after}.")
    if spec.max_chars is not None:
        lines.append(f"The whole reply may have at most {spec.max_chars} characters.")
    if spec.forbidden:
        lines.append(f"Do not write any of these: {', '.join(map(json.dumps, spec.forbidden))}.")
    return lines


def _subject(place: str) -> str:
    names = {
        WHOLE_REPLY: "Your reply after the thoughts",
        "box": "The text in \\boxed{...}",
        "fence": "The code block",
    }
    return names.get(place, f"The text in {place}")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def make_example(spec: FormatSpec, values: Mapping[str, Any], *, terse: bool) -> str:
    """A reply with all parts of the format. It may still break a limit: the caller checks.

    Args:
        spec: the format.
        values: place to JSON value, for the places of ``spec.json``.
        terse: one letter where text is free, instead of some words.
    """
    thoughts = ""
    if spec.judges_thoughts:
        opening = "" if spec.think_prefilled else THINK_OPEN + "\n"
        thoughts = f"{opening}{'x' if terse else 'your thoughts'}\n{THINK_CLOSE}\n"
    fill = {place: _compact(value) for place, value in values.items()}
    if WHOLE_REPLY in fill:
        return thoughts + fill[WHOLE_REPLY]
    loose = _loose_parts(spec, fill, terse=terse)
    bodies = {tag: fill.get(f"<{tag}>", _free(f"your {tag}", terse)) for tag in spec.blocks}
    if spec.only_blocks and loose:
        bodies[spec.blocks[-1]] = "\n" + "\n".join(loose) + "\n"
        loose = []
    written = [f"<{tag}>{body}</{tag}>" for tag, body in bodies.items()]
    lack = spec.min_words - sum(len(text.split()) for text in (*written, *loose))
    if lack > 0:
        words = " ".join(itertools.islice(itertools.cycle(_FILLER), lack))
        if spec.only_blocks:
            tag = spec.blocks[0]
            written[0] = f"<{tag}>{bodies[tag]} {words}</{tag}>"
        else:
            loose.insert(0, words)
    return thoughts + ("\n".join((*loose, *written)) or _free("your reply", terse))


def _loose_parts(spec: FormatSpec, fill: Mapping[str, str], *, terse: bool) -> list[str]:
    """The fence and the box."""
    parts = []
    if spec.fence is not None:
        code = fill.get("fence", _free("your code", terse))
        parts.append(f"```{spec.languages[0]}\n{code}\n```")
    if spec.boxed:
        parts.append(f"\\boxed{{{fill.get('box', _free('your answer', terse))}}}")
    return parts


def _free(words: str, terse: bool) -> str:
    return "x" if terse else words
