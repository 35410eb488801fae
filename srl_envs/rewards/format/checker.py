"""Format checker: does a reply have the parts it was asked for, in order, once, and nothing else?

A format is declared once; the check and the instruction that asks a model for it come from the same
declaration, and the instruction's example must pass the check before a checker exists, so they
cannot drift apart. The check is linear in the reply: nothing in it backtracks.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from srl_envs.errors import ConfigError, nearest
from srl_envs.rewards.blocks import (
    THINK_CLOSE,
    THINK_OPEN,
    Scan,
    around,
    scan_boxes,
    scan_fences,
    scan_tags,
)
from srl_envs.rewards.format.json_schema import JsonSchema
from srl_envs.rewards.format.linear_regex import LinearRegex
from srl_envs.rewards.format.reasons import FORMAT_REASONS
from srl_envs.rewards.format.spec import WHOLE_REPLY, FormatSpec
from srl_envs.rewards.format.wording import instructions, make_example
from srl_envs.rewards.score import Score
from srl_envs.rewards.strict_json import JsonFaultError, parse_json

__all__ = ["FORMAT_REASONS", "FormatChecker", "FormatReport", "FormatSpec", "Part"]

WHOLE = "whole"
"""The weight of a reply without any fault, beside its parts."""
MAX_WEIGHT, MIN_WHOLE_WEIGHT = 1000.0, 0.01


class Part(NamedTuple):
    """The verdict on one part of a reply."""

    reason: str
    """``ok`` or what is wrong."""
    credit: float
    """Score in [0, 1]: 1 where the part is right, and in between for JSON that is partly right."""
    body: str | None = None
    """The text of a part that is right: what stands between the tags, or in the box or the fence."""


@dataclass(frozen=True, slots=True)
class FormatReport:
    """A score with the verdicts behind it."""

    score: Score
    parts: dict[str, Part]
    """Verdicts by the names of `FormatSpec.parts`."""


@dataclass(frozen=True, slots=True)
class FormatChecker:
    """Scores only the form of a reply, not its content.

    ``FormatChecker(FormatSpec(blocks=("answer",))).check("<answer>7</answer>")`` is
    ``Score(1.0, "ok")``.

    Raises:
        ConfigError: from the constructor: a setting is wrong, a package that the format needs is
            missing, or no reply is known that has the format.
    """

    spec: FormatSpec
    partial: bool = field(default=False, kw_only=True)
    """Pay for parts: a faulty reply earns the weights of its right parts over all weights, so that
    it never earns what a right one does and a further right part never earns less."""
    weights: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    """Part to weight, for ``partial``; 1 for parts that are not named. ``whole`` is what only a
    reply without fault earns."""
    _schemas: dict[str, JsonSchema] = field(init=False, repr=False, compare=False)
    _patterns: dict[str, LinearRegex] = field(init=False, repr=False, compare=False)
    _example: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spec = self.spec
        if not isinstance(self.partial, bool):
            raise ConfigError(f"partial={self.partial!r}: use true or false.")
        self._check_weights()
        derived = {
            "weights": dict(self.weights),
            "_schemas": {
                place: JsonSchema(schema, place=f"json[{place!r}]")
                for place, schema in spec.json.items()
            },
            "_patterns": {
                place: LinearRegex(pattern, place=f"patterns[{place!r}]")
                for place, pattern in spec.patterns.items()
            },
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_example", self._proven_example())

    def __reduce__(self) -> tuple[Any, ...]:
        return FormatChecker.from_config, (self.to_config(),)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> FormatChecker:
        """Build a checker from plain values: the fields of `FormatSpec`, ``partial``, ``weights``.

        Raises:
            ConfigError: a key is unknown (the nearest valid one is named) or a value is wrong.
        """
        if not isinstance(config, Mapping):
            raise ConfigError(f"a format is a mapping of settings, not {config!r}.")
        for key in config:
            if key not in _KEYS:
                raise ConfigError(
                    f"format: unknown key {key!r}.{nearest(str(key), _KEYS)} "
                    f"Keys: {', '.join(_KEYS)}."
                )
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in config.items()
        }
        own = {key: values.pop(key) for key in _OWN_KEYS if key in values}
        return cls(FormatSpec(**values), **own)

    def to_config(self) -> dict[str, Any]:
        """Plain values that `from_config` reads back; settings at their default are left out."""
        default = FormatSpec()
        config = {
            key: copy.deepcopy(getattr(self.spec, key))
            for key in _SPEC_KEYS
            if getattr(self.spec, key) != getattr(default, key)
        }
        if self.partial:
            config["partial"] = True
        if self.weights:
            config["weights"] = dict(self.weights)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in config.items()}

    def check(self, reply: str) -> Score:
        """1 for the exact format, else 0 or the partial credit; the reason is the first fault."""
        return self.explain(reply).score

    def explain(self, reply: str) -> FormatReport:
        """Like `check`, with the verdict on each part and the text that was found for it."""
        tail = _after_thoughts(reply, prefilled=self.spec.think_prefilled)
        scan = scan_tags(tail, self.spec.blocks)
        parts = dict(self._judge(reply, tail, scan))
        faults = [self._fault_of_free_thoughts(reply), *(part.reason for part in parts.values())]
        faults = [reason for reason in faults if reason != "ok"]
        faults = faults or self._faults_of_the_whole(reply, tail, scan)
        if not faults:
            return FormatReport(Score(1.0, "ok"), parts)
        return FormatReport(Score(self._credit(parts) if self.partial else 0.0, faults[0]), parts)

    def instructions(self) -> str:
        """The text that asks a model for this format; ends in `example`."""
        return instructions(self.spec, self._example)

    def example(self) -> str:
        """A reply that has this format: the one of the settings, or one made up."""
        return self._example

    def _credit(self, parts: Mapping[str, Part]) -> float:
        weights = {name: self.weights.get(name, 1.0) for name in (*parts, WHOLE)}
        earned = sum(weights[name] * part.credit for name, part in parts.items())
        return earned / sum(weights.values())

    def _judge(self, reply: str, tail: str, scan: Scan) -> Iterator[tuple[str, Part]]:
        """The verdicts in the order of `FormatSpec.parts`."""
        spec = self.spec
        texts: dict[str, str | None] = {WHOLE_REPLY: tail}
        judged = {}
        if spec.judges_thoughts:
            yield "think", _judge_thoughts(reply, prefilled=spec.think_prefilled)
        for tag in spec.blocks:
            judged[f"<{tag}>"] = self._judge_block(scan, tag)
        if spec.boxed:
            judged["box"] = _judge_box(tail)
        if spec.fence is not None:
            judged["fence"] = _judge_fences(tail, spec.languages, many=spec.many_fences)
        for name, part in judged.items():
            texts[name] = part.body
            yield name, part
        for place in spec.json:
            yield f"json:{place}", self._judge_json(place, texts[place])
        for place in spec.patterns:
            yield f"pattern:{place}", self._judge_pattern(place, texts[place])

    def _fault_of_free_thoughts(self, reply: str) -> str:
        """Fault of thoughts outside the declared parts: hidden text would escape every other rule."""
        if self.spec.judges_thoughts or not (THINK_OPEN in reply or THINK_CLOSE in reply):
            return "ok"
        if self.spec.think == "forbidden":
            return "think_forbidden"
        reason = _judge_thoughts(reply, prefilled=False).reason
        return "ok" if reason == "think_empty" else reason

    def _judge_block(self, scan: Scan, tag: str) -> Part:
        if tag in scan.faults:
            return Part(scan.faults[tag], 0.0)
        part = _single(
            [block.body for block in scan.blocks if block.tag == tag],
            ("missing", "duplicate", "empty"),
        )
        limit = self.spec.max_block_chars
        if part.body is not None and limit is not None and len(part.body.strip()) > limit:
            return Part("block_too_long", 0.0)
        return part

    def _judge_json(self, place: str, text: str | None) -> Part:
        spec, schema = self.spec, self._schemas[place]
        try:
            value = parse_json(
                text or "", max_chars=spec.max_json_chars, max_depth=spec.max_json_depth
            )
        except JsonFaultError as fault:
            return Part(fault.reason, 0.0)
        credit = schema.credit(value)
        return Part("ok" if credit == 1.0 else "json_schema", credit, text)

    def _judge_pattern(self, place: str, text: str | None) -> Part:
        if text is None or not self._patterns[place].matches(text.strip()):
            return Part("pattern_mismatch", 0.0)
        return Part("ok", 1.0, text)

    def _faults_of_the_whole(self, reply: str, tail: str, scan: Scan) -> list[str]:
        """Faults of a reply whose parts are all right."""
        spec = self.spec
        gaps = around(tail, scan.blocks) if spec.only_blocks else ("",)
        words = len(tail.split())
        lowered = tail.casefold() if spec.forbidden else ""
        faults = {
            "order": spec.ordered and tuple(block.tag for block in scan.blocks) != spec.blocks,
            "leading_text": not _blank(gaps[0]),
            "text_between": not all(map(_blank, gaps[1:-1])),
            "trailing_text": not _blank(gaps[-1]),
            "too_long": spec.max_chars is not None and len(reply) > spec.max_chars,
            "too_few_words": words < spec.min_words,
            "too_many_words": spec.max_words is not None and words > spec.max_words,
            "forbidden_text": any(text.casefold() in lowered for text in spec.forbidden),
        }
        return [reason for reason, found in faults.items() if found]

    def _proven_example(self) -> str:
        """A reply that passes the check."""
        reasons = []
        for reply in self._candidate_examples():
            score = self.check(reply)
            if score.value == 1.0:
                return reply
            reasons.append(score.reason)
        if self.spec.example is not None:
            raise ConfigError(
                f"example={self.spec.example!r:.200} does not have the format: {reasons[-1]} "
                f"({FORMAT_REASONS[reasons[-1]]}). Correct the example or the format."
            )
        raise ConfigError(
            f"no reply could be made up that has this format (last fault: {reasons[-1]}, "
            f"{FORMAT_REASONS[reasons[-1]]}). Give one as example, or loosen the format."
        )

    def _candidate_examples(self) -> Iterator[str]:
        if self.spec.example is not None:
            yield self.spec.example
            return
        values = {place: schema.example() for place, schema in self._schemas.items()}
        for terse in (False, True):
            yield make_example(self.spec, values, terse=terse)

    def _check_weights(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise ConfigError(f"weights={self.weights!r}: give `part: weight` pairs.")
        names = (*self.spec.parts, WHOLE)
        for name, weight in self.weights.items():
            if name not in names:
                raise ConfigError(
                    f"weights: this format has no part {name!r}.{nearest(str(name), names)} "
                    f"Parts: {', '.join(names)}."
                )
            least = MIN_WHOLE_WEIGHT if name == WHOLE else 0.0
            if isinstance(weight, bool) or not isinstance(weight, (int, float)):
                raise ConfigError(f"weights[{name!r}]={weight!r}: give a number.")
            if not least <= weight <= MAX_WEIGHT:
                raise ConfigError(
                    f"weights[{name!r}]={weight}: use a number from {least} to {MAX_WEIGHT:g}."
                )


_SPEC_KEYS = tuple(f.name for f in dataclasses.fields(FormatSpec))
_OWN_KEYS = ("partial", "weights")
_KEYS = (*_SPEC_KEYS, *_OWN_KEYS)


def _after_thoughts(reply: str, *, prefilled: bool) -> str:
    """The text after the last thought; a thought that is never closed goes on to the end."""
    closed = reply.rfind(THINK_CLOSE)
    if prefilled and closed < 0:
        return ""
    start = closed + len(THINK_CLOSE) if closed >= 0 else 0
    opened = reply.find(THINK_OPEN, start)
    return reply[start : opened if opened >= 0 else len(reply)]


def _judge_thoughts(reply: str, *, prefilled: bool) -> Part:
    if prefilled and reply.lstrip().startswith(THINK_OPEN):
        return Part("think_prefilled", 0.0)
    text = THINK_OPEN + reply if prefilled else reply
    scan = scan_tags(text, ("think",))
    if scan.faults:
        return Part(f"think_{scan.faults['think']}", 0.0)
    part = _single(
        [block.body for block in scan.blocks], ("think_missing", "think_duplicate", "think_empty")
    )
    if part.body is not None and not _blank(text[: scan.blocks[0].start]):
        return Part("think_not_first", 0.0)
    return part


def _judge_box(text: str) -> Part:
    spans, unclosed = scan_boxes(text)
    if unclosed:
        return Part("box_unclosed", 0.0)
    if len(spans) > 1:
        return Part("box_duplicate", 0.0)
    return _single([text[a:b] for a, b in spans], ("box_missing", "box_duplicate", "box_empty"))


def _judge_fences(text: str, languages: tuple[str, ...], *, many: bool) -> Part:
    """With ``many``, the last complete fence counts, whatever is left open after it."""
    fences, unclosed = scan_fences(text)
    allowed = {language.lower() for language in languages}
    wanted = [fence.body for fence in fences if fence.language in allowed]
    wanted = wanted[-1:] if many else wanted
    if unclosed and not (many and wanted):
        return Part("fence_unclosed", 0.0)
    if fences and not wanted:
        return Part("fence_language", 0.0)
    return _single(wanted, ("fence_missing", "fence_duplicate", "fence_empty"))


def _single(bodies: list[str], reasons: tuple[str, str, str]) -> Part:
    """Right for exactly one body that is not empty, else the missing, duplicate or empty reason."""
    if len(bodies) == 1 and not _blank(bodies[0]):
        return Part("ok", 1.0, bodies[0])
    return Part(reasons[0] if not bodies else reasons[1] if len(bodies) > 1 else reasons[2], 0.0)


def _blank(text: str) -> bool:
    return not text or text.isspace()
