"""Rubrics: several scorers with weights become one reward and its named components."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from srl_envs.errors import ConfigError, nearest
from srl_envs.foreign_code import load_entry_point, require_known
from srl_envs.reading.settings import build
from srl_envs.rewards.rubric.scorers import SCORERS, Scorer
from srl_envs.rewards.score import Score

MOOT = Score(0.0, "moot")
"""What a part scores whose required parts scored 0; its scorer does not run."""
_CACHED = 4096
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class Part:
    """One scorer in a rubric."""

    scorer: Scorer
    weight: float = 1.0
    """Reward units for a score of 1; below 0 for a penalty."""
    requires: tuple[str, ...] = ()
    """Earlier parts that must score above 0; otherwise this one is moot."""


@dataclass(frozen=True, slots=True)
class RubricScore:
    """The verdict of a rubric on one reply."""

    reward: float | None
    """Weighted sum of the components; None where one could not be judged by our own fault."""
    components: dict[str, Score | None]
    """Part -> verdict; None where the fault is ours."""


@dataclass(frozen=True, kw_only=True)
class _PartConfig:
    kind: str
    weight: float = 1.0
    requires: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class _RubricConfig:
    parts: dict[str, _PartConfig]


class Rubric:
    """Scores replies by several rules.

    ``Rubric.from_config({"parts": {"answer": {"kind": "answer"}}})("\\\\boxed{4}", answer="4")`` is
    ``1.0``. Threads may share one rubric.

    Args:
        parts: name -> part; a part may require parts before it.
        cache_size: verdicts that are kept, by content; 0 for none.

    Raises:
        ConfigError: a part requires one that does not come before it, or a weight is not finite.
    """

    def __init__(self, parts: Mapping[str, Part], *, cache_size: int = _CACHED) -> None:
        if not parts:
            raise ConfigError("a rubric needs at least one part.")
        seen: list[str] = []
        for name, part in parts.items():
            for required in part.requires:
                if required not in seen:
                    raise ConfigError(
                        f"part {name!r} requires {required!r}, which is not an earlier part."
                        f"{nearest(required, seen)} Before it: {', '.join(seen) or 'none'}."
                    )
            if not math.isfinite(part.weight):
                raise ConfigError(f"part {name!r}: weight={part.weight}; give a finite number.")
            seen.append(name)
        self.parts = dict(parts)
        self._cache = _Cache(cache_size)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, place: str = "rubric") -> Rubric:
        """From plain values: ``{"parts": {name: {"kind", "weight", "requires", "settings"}}}``.

        Args:
            config: ``kind`` is a name in `SCORERS`, or ``package.module:Class``.
            place: starts every message, such as a file's name.

        Raises:
            ConfigError: a key, a kind or a value is wrong; names the place and the nearest valid one.
        """
        read = build(_RubricConfig, dict(config), place)
        parts = {}
        for name, part in read.parts.items():
            where = f"{place}: parts.{name}"
            try:
                scorer = _kind(part.kind).from_config(part.settings)
            except ConfigError as error:
                raise ConfigError(f"{where}: {error}") from None
            parts[name] = Part(scorer=scorer, weight=part.weight, requires=part.requires)
        return cls(parts)

    def to_config(self) -> dict[str, Any]:
        """Plain values that `from_config` reads back."""
        return {
            "parts": {
                name: {
                    "kind": _kind_name(type(part.scorer)),
                    "weight": part.weight,
                    "requires": list(part.requires),
                    "settings": part.scorer.to_config(),
                }
                for name, part in self.parts.items()
            }
        }

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that every row must have."""
        return tuple(
            dict.fromkeys(name for part in self.parts.values() for name in part.scorer.fields)
        )

    def __call__(self, reply: str, **row: Any) -> float | None:
        """The reward of one reply in reward units; the fields of its row are keyword arguments.

        None where a part could not be judged by our own fault.

        Raises:
            ConfigError: the row lacks a field, or a field has a form that the scorer does not read.
        """
        return self.score(reply, row).reward

    def score(self, reply: str, row: Mapping[str, Any] | None = None) -> RubricScore:
        """The verdict on one reply.

        Raises:
            ConfigError: the row lacks a field, or a field has a form that the scorer does not read.
        """
        row = row or {}
        self._check(row)
        components: dict[str, Score | None] = {}
        for name in self.parts:
            decided = self._without_scorer(name, components)
            components[name] = self._judge(name, reply, row) if decided is _MISSING else decided
        return self._total(components)

    async def score_async(self, reply: str, row: Mapping[str, Any] | None = None) -> RubricScore:
        """`score`, with slow scorers side by side and off the event loop.

        Raises:
            ConfigError: the row lacks a field, or a field has a form that the scorer does not read.
        """
        row = row or {}
        self._check(row)
        ended: dict[str, asyncio.Task[Score | None]] = {}
        for name in self.parts:
            ended[name] = asyncio.create_task(self._part_async(name, reply, row, ended))
        scores = await asyncio.gather(*ended.values())
        return self._total(dict(zip(ended, scores, strict=True)))

    async def _part_async(
        self,
        name: str,
        reply: str,
        row: Mapping[str, Any],
        ended: Mapping[str, asyncio.Task[Score | None]],
    ) -> Score | None:
        part = self.parts[name]
        before = {required: await ended[required] for required in part.requires}
        decided = self._without_scorer(name, before)
        if decided is not _MISSING:
            return decided  # type: ignore[no-any-return]
        if part.scorer.slow:
            return await asyncio.to_thread(self._judge, name, reply, row)
        return self._judge(name, reply, row)

    def score_many(
        self,
        replies: Sequence[str],
        rows: Sequence[Mapping[str, Any]] | None = None,
        *,
        report: Callable[[int], None] = lambda _: None,
    ) -> list[RubricScore]:
        """The verdicts on many replies; slow scorers judge side by side.

        Args:
            replies: texts.
            rows: the fields of each; None where no part needs any.
            report: called with the number of replies that are done, from time to time.

        Raises:
            ConfigError: there is not one row for each reply, a row lacks a field, or a field has a form that
                the scorer does not read.
        """
        rows = [{}] * len(replies) if rows is None else rows
        if len(rows) != len(replies):
            raise ConfigError(f"{len(rows)} rows for {len(replies)} replies; give one row each.")
        for row in rows:
            self._check(row)
        if not any(part.scorer.slow for part in self.parts.values()):
            done = []
            for number, (reply, row) in enumerate(zip(replies, rows, strict=True), 1):
                done.append(self.score(reply, row))
                report(number)
            return done
        with ThreadPoolExecutor(min(32, 2 * (os.cpu_count() or 1))) as pool:
            results = []
            for number, result in enumerate(pool.map(self.score, replies, rows), 1):
                results.append(result)
                report(number)
            return results

    def _without_scorer(self, name: str, components: Mapping[str, Score | None]) -> Any:
        """The verdict that the required parts already decide, if they do."""
        required = [components[other] for other in self.parts[name].requires]
        if any(score is not None and score.value <= 0.0 for score in required):
            return MOOT
        return None if None in required else _MISSING

    def _judge(self, name: str, reply: str, row: Mapping[str, Any]) -> Score | None:
        scorer = self.parts[name].scorer
        read = {key: row[key] for key in scorer.fields}
        return self._cache.get(name, reply, read, lambda: scorer.score(reply, row))

    def _total(self, components: dict[str, Score | None]) -> RubricScore:
        if None in components.values():
            return RubricScore(None, components)
        return RubricScore(
            math.fsum(
                self.parts[name].weight * score.value
                for name, score in components.items()
                if score is not None
            ),
            components,
        )

    def _check(self, row: Mapping[str, Any]) -> None:
        for name in self.fields:
            if name not in row:
                raise ConfigError(
                    f"the row has no field {name!r}, which this rubric reads."
                    f"{nearest(name, map(str, row))} Fields: {', '.join(map(str, row)) or 'none'}."
                )


class _Cache:
    """Verdicts by content; equal content that arrives at the same time is judged once."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Score] = OrderedDict()
        self._judging: dict[bytes, threading.Event] = {}

    def get(
        self, part: str, reply: str, read: Mapping[str, Any], judge: Callable[[], Score | None]
    ) -> Score | None:
        key = _digest(part, reply, read) if self._size else None
        if key is None:
            return judge()
        while True:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                other = self._judging.get(key)
                if other is None:
                    mine = self._judging[key] = threading.Event()
                    break
            other.wait()  # then look again: that one may have failed
        try:
            score = judge()
            with self._lock:
                if score is not None:
                    self._kept[key] = score
                    if len(self._kept) > self._size:
                        self._kept.popitem(last=False)
            return score
        finally:
            with self._lock:
                del self._judging[key]
            mine.set()


def _digest(part: str, reply: str, read: Mapping[str, Any]) -> bytes | None:
    """None where a field has no form that stands for its content."""
    try:
        content = json.dumps([part, reply, read], sort_keys=True)
    except (TypeError, ValueError):
        return None
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _kind(kind: str) -> Any:
    if kind in SCORERS:
        return SCORERS[kind]
    if ":" not in kind:
        raise ConfigError(
            f"no scorer {kind!r}.{nearest(kind, SCORERS)} Known: {', '.join(SCORERS)}, "
            "or package.module:Class."
        )
    require_known(f"scorer {kind!r}", kind, ())
    try:
        return load_entry_point(kind)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"scorer {kind!r} cannot be loaded: {error}.") from None


def _kind_name(kind: type) -> str:
    for name, known in SCORERS.items():
        if known is kind:
            return name
    return f"{kind.__module__}:{kind.__qualname__}"


def summary(scores: Sequence[RubricScore]) -> dict[str, Any]:
    """Counts and means of many verdicts, as plain values.

    Returns:
        ``rows``, ``judged``, ``reward`` (mean over the judged; None without any), and ``parts``:
        per part its mean ``value`` and how often each ``reason`` was given.
    """
    rewards = [score.reward for score in scores if score.reward is not None]
    parts: dict[str, Any] = {}
    for name in scores[0].components if scores else ():
        found = [score.components[name] for score in scores]
        judged = [score for score in found if score is not None]
        reasons = Counter("not judged" if score is None else score.reason for score in found)
        parts[name] = {
            "value": math.fsum(s.value for s in judged) / len(judged) if judged else None,
            "reasons": dict(reasons.most_common()),
        }
    return {
        "rows": len(scores),
        "judged": len(rewards),
        "reward": math.fsum(rewards) / len(rewards) if rewards else None,
        "parts": parts,
    }
