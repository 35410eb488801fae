"""Request traces: when a prompt arrived, how long it is, and the hashes of its blocks.

One JSON object per line, as Mooncake publishes them and our rollouts record them: ``timestamp``
(milliseconds), ``input_length`` and ``output_length`` (tokens), ``hash_ids`` (one id per block of the
prompt; equal ids mean equal tokens from the start on), and, where known, ``session`` and ``ends``.
Source: arXiv:2407.00079 section 4.2 and its published traces.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from srl_agents.metrics.sinks import add_lines
from srl_envs.errors import ConfigError, file_fault

TOKENS_PER_BLOCK = 512
"""Tokens of a block in Mooncake's traces, and of a trace whose prompts have one block each."""

_REQUIRED = ("timestamp", "input_length", "output_length", "hash_ids")
_OPTIONAL = ("session", "ends")
_MOST_TOKENS = 10**12
"""Most tokens of a prompt or a reply; a line with more is refused."""


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt."""

    arrival_s: float
    """Seconds since the trace began."""
    prompt_tokens: int
    reply_tokens: int
    blocks: tuple[int, ...]
    """Ids of the prompt's blocks, from its start; the last one may be part of a block."""
    session: str | None = None
    """Episode and seat, or conversation, where the recorder has them."""
    ends: bool = False
    """The session asks for nothing after this."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival."""

    requests: tuple[Request, ...]
    tokens_per_block: int = TOKENS_PER_BLOCK

    @property
    def blocks(self) -> int:
        """Blocks asked for, repetitions included."""
        return sum(len(request.blocks) for request in self.requests)

    @property
    def seconds(self) -> float:
        """From the first arrival to the last."""
        return self.requests[-1].arrival_s - self.requests[0].arrival_s if self.requests else 0.0

    def part(self, start: int, stop: int) -> Trace:
        """Requests ``start`` to ``stop`` as a trace of their own."""
        return replace(self, requests=self.requests[start:stop])


def read_trace(path: Path, tokens_per_block: int | None = None) -> Trace:
    """Read ``.jsonl`` or ``.jsonl.gz``.

    Args:
        path: of the trace.
        tokens_per_block: of its hashes, for a reader that requires this size; None: as the trace shows it.

    Raises:
        ConfigError: the file cannot be read, or a line breaks the format; the text names the file, the
            line and the field.
    """
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise ConfigError(f"{path}: expected a trace that ends in .jsonl or .jsonl.gz.")
    if tokens_per_block is not None and tokens_per_block < 1:
        raise ConfigError(f"tokens_per_block={tokens_per_block}: expected 1 or more.")
    sizes = _Sizes() if tokens_per_block is None else _Sizes(tokens_per_block, tokens_per_block)
    try:
        requests = tuple(_requests(path, sizes))
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read ({error}).") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text ({error.reason}).") from error
    if not requests:
        raise ConfigError(f"{path}: has no requests.")
    return Trace(requests, sizes.likely)


@dataclass(slots=True)
class _Sizes:
    """Tokens per block that fit all prompts of a trace so far."""

    least: int = 1
    most: int = _MOST_TOKENS

    def narrow(self, prompt_tokens: int, blocks: int, place: str) -> None:
        """Leave only sizes by which a prompt of so many tokens has so many blocks."""
        least = -(-prompt_tokens // blocks) if blocks else _MOST_TOKENS + 1
        most = (prompt_tokens - 1) // (blocks - 1) if blocks > 1 else _MOST_TOKENS
        if max(least, self.least) > min(most, self.most):
            other = "" if self.least == self.most else f" to {self.most}"
            raise ConfigError(
                f"{place}: hash_ids has {blocks} blocks, which does not fit input_length={prompt_tokens}: "
                f"by the lines above, or as it is required, a block has {self.least}{other} tokens."
            )
        self.least, self.most = max(least, self.least), min(most, self.most)

    @property
    def likely(self) -> int:
        """The size of Mooncake's traces, else a power of two, else the least that fits.

        Prompts of two blocks or more fit at most one power of two.
        """
        power = 1 << (self.least - 1).bit_length()
        fitting = [size for size in (TOKENS_PER_BLOCK, power) if self.least <= size <= self.most]
        return fitting[0] if fitting else self.least


def write_trace(path: Path, requests: Iterable[Request]) -> None:
    """Write requests in the format that `read_trace` reads, compressed if the name ends in ``.gz``."""
    if path.name.endswith(".gz"):
        # no name and no time in the header: equal requests give equal bytes
        with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
            packed.writelines(f"{_line(request)}\n".encode() for request in requests)
    else:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{_line(request)}\n" for request in requests)


def append_requests(path: Path, requests: Iterable[Request]) -> None:
    """Add requests to the end of an uncompressed trace.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = "".join(f"{_line(request)}\n" for request in requests)
    try:
        add_lines(path, text)
    except OSError as error:
        raise ConfigError(f"{file_fault(error, path)}.") from error


def _line(request: Request) -> str:
    known: dict[str, Any] = {} if request.session is None else {"session": request.session}
    if request.ends:
        known["ends"] = True
    return json.dumps(
        {
            "timestamp": round(request.arrival_s * 1000, 3),
            "input_length": request.prompt_tokens,
            "output_length": request.reply_tokens,
            "hash_ids": list(request.blocks),
            **known,
        }
    )


def _requests(path: Path, sizes: _Sizes) -> Iterator[Request]:
    before = float("-inf")
    parents: dict[int, int | None] = {}
    opener: Any = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                place = f"{path}: line {number}"
                request = _request(line, place)
                sizes.narrow(request.prompt_tokens, len(request.blocks), place)
                if request.arrival_s < before:
                    raise ConfigError(
                        f"{place}: timestamp={request.arrival_s * 1000:g} is before the "
                        f"line above ({before * 1000:g}). Sort the trace by timestamp."
                    )
                before = request.arrival_s
                _check_parents(request.blocks, parents, place)
                yield request


def _check_parents(blocks: Sequence[int], parents: dict[int, int | None], place: str) -> None:
    """Remember which block each one follows; refuse ids that name a block's tokens without its prefix."""
    parent = None
    for block in blocks:
        if parents.setdefault(block, parent) != parent:
            raise ConfigError(
                f"{place}: hash_ids: {block} follows another block than in a line above. "
                "An id stands for the whole prefix up to its block: chain the hashes."
            )
        parent = block


def _request(line: str, place: str) -> Request:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{place}: is not JSON ({error.msg}).") from error
    except (ValueError, RecursionError) as error:  # thousands of digits or of brackets
        raise ConfigError(f"{place}: cannot be read ({error}).") from error
    if not isinstance(row, dict):
        raise ConfigError(f"{place}: expected an object, got {type(row).__name__}.")
    missing = [name for name in _REQUIRED if name not in row]
    unknown = sorted(set(row) - {*_REQUIRED, *_OPTIONAL})
    if missing or unknown:
        raise ConfigError(
            f"{place}: {'misses' if missing else 'has unknown'} {', '.join(missing or unknown)}; "
            f"a request has {', '.join(_REQUIRED)} and may have {', '.join(_OPTIONAL)}."
        )
    prompt = _number(row, "input_length", place, least=1)
    blocks = _blocks(row["hash_ids"], place)
    session, ends = row.get("session"), row.get("ends", False)
    if not isinstance(session, str | None):
        raise ConfigError(f"{place}: session={session!r}: expected text.")
    if not isinstance(ends, bool):
        raise ConfigError(f"{place}: ends={ends!r}: expected true or false.")
    return Request(
        arrival_s=_arrival(row["timestamp"], place),
        prompt_tokens=prompt,
        reply_tokens=_number(row, "output_length", place, least=0),
        blocks=blocks,
        session=session,
        ends=ends,
    )


def _arrival(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise ConfigError(
            f"{place}: timestamp={value!r:.40}: expected milliseconds from 0 to 10^15."
        )
    return value / 1000


def _number(row: dict[str, Any], name: str, place: str, least: int) -> int:
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST_TOKENS:
        raise ConfigError(
            f"{place}: {name}={value!r:.40}: expected a whole number from {least} to {_MOST_TOKENS}."
        )
    return value


def _blocks(value: object, place: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(block) is int for block in value):
        raise ConfigError(f"{place}: hash_ids: expected a list of whole numbers.")
    if len(set(value)) != len(value):
        raise ConfigError(
            f"{place}: hash_ids repeats an id; a hash stands for a whole prefix, so it cannot."
        )
    return tuple(value)


def unlimited_hits(requests: Sequence[Request]) -> int:
    """Blocks that were asked for before, counted directly: what a cache without limit would hit."""
    seen: set[int] = set()
    hits = 0
    for request in requests:
        hits += sum(block in seen for block in request.blocks)
        seen.update(request.blocks)
    return hits


def with_sessions(trace: Trace) -> Trace:
    """Name every request's session and its end, as an environment would give them.

    A request continues the session that used its deepest known block last, if its known prefix covers at
    least half of that session's request before; otherwise it begins a session (a shared system prompt
    by itself joins nothing). Sessions depend only on the past; ``ends`` is read from the whole trace.
    """
    owner: dict[int, int] = {}
    length: dict[int, int] = {}
    sessions: list[int] = []
    for number, request in enumerate(trace.requests):
        known = 0
        while known < len(request.blocks) and request.blocks[known] in owner:
            known += 1
        before = owner[request.blocks[known - 1]] if known else number
        session = before if 2 * known >= length.get(before, 1) else number
        owner.update(dict.fromkeys(request.blocks, session))
        length[session] = len(request.blocks)
        sessions.append(session)
    named = (
        replace(request, session=f"s{session}")
        for request, session in zip(trace.requests, sessions, strict=True)
    )
    return replace(trace, requests=marked_ends(tuple(named)))


def marked_ends(requests: Sequence[Request]) -> tuple[Request, ...]:
    """The requests, with the last one of every session marked as its end."""
    last = {request.session: number for number, request in enumerate(requests)}
    return tuple(
        replace(request, ends=request.session is not None and last[request.session] == number)
        for number, request in enumerate(requests)
    )


def renumbered(trace: Trace) -> Trace:
    """The same trace with small numbers for hashes and sessions, in order of first use: it packs well."""
    blocks: dict[int, int] = {}
    sessions: dict[str, str] = {}
    small = []
    for request in trace.requests:
        ids = tuple(blocks.setdefault(block, len(blocks)) for block in request.blocks)
        name = request.session
        if name is not None:
            name = sessions.setdefault(name, f"s{len(sessions)}")
        small.append(replace(request, blocks=ids, session=name))
    return replace(trace, requests=tuple(small))
