"""The embedded engine's loop over live rows: one token for each of them per step, refilled at once.

A step passes the new tokens of all rows through the model in one line: of rows that begin, what no other
prompt had computed before; of the others, the token that they drew last. It knows no threads. What it does
without slower tiers is a function of the rows and of their order.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.caching.cache_policy import Knowledge
from srl_agents.engines.decoding_settings import DecodingSettings
from srl_agents.engines.kv_tiers import KVTiers
from srl_agents.engines.prefix_tree import Node, PrefixTree
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.row_attention import (
    PassAttention,
    Stretch,
    Tails,
    shared_parts,
    tail_places,
)
from srl_agents.engines.thinking import Thinking
from srl_agents.engines.token_choice import draw
from srl_agents.models.playing_model import PlayingModel
from srl_envs.errors import ReplyRoomError

_LOOKAHEAD = 64
"""Rows in the line that are looked at for one that fits."""


@dataclass(eq=False, kw_only=True, slots=True)
class Row:
    """One reply in the making."""

    prompt: tuple[int, ...]
    version: str | None
    """Name of the weights; None is the base."""
    sampling: SamplingSettings
    uniforms: NDArray[np.float32]
    """In [0, 1), one for each token that it may have, thoughts included."""
    ended: Callable[[list[int]], bool]
    """Whether a reply without its thoughts ends with its last token."""
    message_ends: Collection[int] = ()
    """Tokens that end it in its thoughts, too."""
    base_tokens: int = 0
    """First tokens of its prompt that the base reads for every version; 0: its version reads all."""
    session: tuple[int, ...] | None = None
    """The match and the seat that it is for; None: nobody knows."""
    turns_ahead: int | None = None
    """How many others move before this seat asks again, about."""
    thinking: Thinking | None = None
    """None: it has no thoughts."""
    reply: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Literal["", "stop", "length", "broken"] = ""
    """Empty while it is live. ``broken``: the weights gave probabilities that are not numbers."""
    thought_tokens: int = 0
    """Of the reply, once its thoughts have ended."""
    forced_tokens: int = 0
    """Of these, the last ones that nobody drew: the budget was used up."""
    still_forced: deque[int] = field(default_factory=deque)
    """Tokens that come next whatever is drawn."""
    cached: int = 0
    """Tokens of the prompt whose keys and values were there already."""
    tail: int = 0
    """Places of its slot in use."""
    end: Node | None = None
    """Where its prompt ends in the tree, without the last token."""
    reads: dict[Node, None] = field(default_factory=dict)
    """Nodes that it reads in place."""
    copies: list[tuple[int, Node]] = field(default_factory=list)
    """(first place, node) of those that its first pass copies into its slot."""

    @property
    def last(self) -> int:
        """The token that goes through the model next."""
        return self.reply[-1] if self.reply else self.prompt[-1]

    @property
    def position(self) -> int:
        """Of that token."""
        return len(self.prompt) - 1 + len(self.reply)

    def take(self, token: int, logprob: float) -> None:
        """Add a token that was drawn, or the one that is forced in its place; it may be the last."""
        if math.isnan(logprob):
            self.finish = "broken"
            return
        if self.still_forced:
            token, logprob = self.still_forced.popleft(), 0.0
        self.reply.append(token)
        self.logprobs.append(logprob)
        if self.thinking is not None and not self.thought_tokens:
            self._think(self.thinking)
            return
        written = len(self.reply) - self.thought_tokens
        if self.ended(self.reply[self.thought_tokens :] if self.thought_tokens else self.reply):
            self.finish = "stop"
        elif written == self.sampling.max_new_tokens:
            self.finish = "length"

    def _think(self, thinking: Thinking) -> None:
        """Look whether its thoughts end with the token that was just added, or have to."""
        if self.forced_tokens:
            if not self.still_forced:
                self.thought_tokens = len(self.reply)
        elif thinking.closed(self.reply):
            self.thought_tokens = len(self.reply)
        elif self.reply[-1] in self.message_ends:
            self.thought_tokens, self.finish = len(self.reply), "stop"
        elif len(self.reply) == thinking.budget:
            self.still_forced.extend(thinking.end)
            self.forced_tokens = len(thinking.end)

    def restart(self) -> None:
        """Forget what was written."""
        self.reply.clear()
        self.logprobs.clear()
        self.reads.clear()
        self.copies.clear()
        self.still_forced.clear()
        self.thought_tokens = self.forced_tokens = 0
        self.finish, self.tail, self.cached, self.end = "", 0, 0, None


class Decoder:
    """Live rows, those that wait for a place, and the keys and values of all.

    Args:
        model: nobody else runs it meanwhile.
        settings: of the steps.
        live_tokens: keys and values of so many tokens may be in memory for live rows; a single row may
            have more, unless `require_room` is asked.
        cache_bytes: of prefixes that are kept when no row reads them.
        tiers: where prefixes go that are more; unused where prefixes are not shared.
    """

    def __init__(
        self,
        model: PlayingModel,
        settings: DecodingSettings,
        *,
        live_tokens: int,
        cache_bytes: int,
        tiers: KVTiers | None = None,
    ) -> None:
        self._model, self._settings = model, settings
        self._tiers = tiers if settings.share_prefixes else None
        self._live_tokens, self._cache_bytes = live_tokens, cache_bytes
        self.waiting: deque[Row] = deque()
        self._overtaken = 0
        """How often the first that waits was overtaken because memory is short."""
        self.rows: list[Row] = []
        """Live ones, by slot."""
        self._tails = Tails(model)
        self._tree = self._new_tree()

    def require_room(self, row: Row) -> None:
        """Refuse a row that needs more memory than there is for all live rows.

        Raises:
            ReplyRoomError: it does.
        """
        needed = tail_places(1, self._longest_tail(row)) + len(row.prompt)
        if needed > self._live_tokens:
            raise ReplyRoomError(
                f"a prompt of {len(row.prompt)} tokens and a reply of up to "
                f"{len(row.uniforms)} need keys and values of {needed} tokens; there is memory "
                f"for {self._live_tokens}. Raise engine.live_gib, or lower rollout.max_new_tokens."
            )

    @property
    def busy(self) -> bool:
        """Whether a row is live or waits."""
        return bool(self.rows or self.waiting)

    def clear(self) -> list[Row]:
        """Give all memory back; live and waiting rows, which have to start again."""
        rows = [*self.rows, *self.waiting]
        for row in rows:
            row.restart()
        self.rows.clear()
        self.waiting.clear()
        self._tails.clear()
        self._tree = self._new_tree()
        self._model.choose(())
        return rows

    def lower(self, settings: DecodingSettings) -> None:
        """Go on with other limits and half of the kept prefixes; live rows start again."""
        self._settings, self._cache_bytes = settings, self._cache_bytes // 2
        self.waiting.extend(self.clear())

    def add(self, row: Row) -> None:
        """A row waits for a place; what files have of its prompt is read meanwhile."""
        self.waiting.append(row)
        self._tree.expect(row.version, row.prompt[:-1], base_tokens=row.base_tokens)

    def over(self, match: tuple[int, ...]) -> None:
        """No row of a match will come any more."""
        self._tree.over(match)

    def forget(self, version: str) -> None:
        """Drop what belongs to a version that no row has."""
        self._tree.forget(version)
        self._model.choose(sorted(self._model.chosen - {version}))

    def drop(self, gone: Iterable[Row]) -> None:
        """Take rows away, live or waiting."""
        dropped = set(gone)
        self.waiting = deque(row for row in self.waiting if row not in dropped)
        self._release([row for row in self.rows if row in dropped])

    def step(self) -> list[Row]:
        """One token for each live row, after free places were given to waiting ones.

        Returns:
            Rows that have finished.
        """
        fresh = set(self._admit())
        self._choose({row.version for row in self.rows if row.version is not None})
        longest = max((row.tail + 1 for row in self.rows), default=0)
        self._tails.require(len(self.rows), longest, self._live_tokens - self._tree.read_tokens)
        for slots in self._passes():
            began_s = time.monotonic()
            tokens = self._pass(slots, fresh)
            if self._tiers is not None:
                self._tiers.computed(tokens, time.monotonic() - began_s)
        self._tree.shrink()
        finished = [row for row in self.rows if row.finish]
        self._release(finished)
        return finished

    # Places

    def _admit(self) -> list[Row]:
        """Rows that begin; the tree has their prompts then."""
        fresh: list[Row] = []
        if self.rows and not self._settings.refill:
            return fresh
        new_tokens = 0
        while len(self.rows) < self._settings.max_rows and new_tokens < self._settings.step_tokens:
            row = self._next_row()
            if row is None:
                break
            alone = None if self._settings.share_prefixes else row
            row.end, row.cached = self._tree.enter(
                alone or row.version,
                row.prompt[:-1],
                base=alone,
                base_tokens=row.base_tokens,
                knowledge=Knowledge(session=row.session, turns_ahead=row.turns_ahead),
            )
            new_tokens += len(row.prompt) - row.cached
            self.rows.append(row)
            fresh.append(row)
        for row in fresh:
            self._take_prompt(row)
        return fresh

    def _next_row(self) -> Row | None:
        """The first that waits, or one behind it where memory is short, a batch's worth of times at most."""
        for place, row in enumerate(islice(self.waiting, _LOOKAHEAD)):
            if place and self._overtaken >= self._settings.max_rows:
                break
            if self._fits(row):
                self._overtaken = self._overtaken + 1 if place else 0
                self.waiting.remove(row)
                return row
        return None

    def _fits(self, row: Row) -> bool:
        """Whether there is memory for one more; for the first there always is."""
        if not self.rows:
            return True
        live = [*self.rows, row]
        if not self._model.fit_together({other.version for other in live}):
            return False
        longest = max(map(self._longest_tail, live))
        read = self._tree.read_tokens + sum(len(r.prompt) for r in live if not r.tail)
        return tail_places(len(live), longest) + read <= self._live_tokens

    def _longest_tail(self, row: Row) -> int:
        if row.tail:
            return row.tail + len(row.uniforms) - len(row.reply)
        copied = len(row.prompt)
        if not self._model.windowed:
            copied = min(copied, self._settings.read_in_place)
        return copied + len(row.uniforms)

    def _take_prompt(self, row: Row) -> None:
        """Decide for each node of its prompt whether the row reads it in place or copies it.

        A row copies so many tokens at most as `_longest_tail` counts.
        """
        for node in _path(row):
            most = self._settings.read_in_place
            size = len(node.tokens)
            in_place = node.rows * size >= most or row.tail + size > most
            if in_place and not self._model.windowed:
                self._tree.read_in_place(node, row)
            else:
                row.copies.append((row.tail, node))
                row.tail += size

    def _release(self, rows: list[Row]) -> None:
        """Give places away; the last rows move into the gaps, so that slots stay in line."""
        for row in rows:
            slot = self.rows.index(row)
            last = self.rows.pop()
            if last is not row:
                self.rows[slot] = last
                self._tails.move(len(self.rows), slot, last.tail)
            if row.end is not None:
                self._tree.leave(row.end, row)
            if not self._settings.share_prefixes:
                self._tree.forget(row)
        self._tree.shrink()
        if not self.rows and not self.waiting:
            self._tails.clear()

    def _new_tree(self) -> PrefixTree:
        return PrefixTree(
            self._model.bytes_per_token,
            self._cache_bytes,
            self._settings.eviction,
            tiers=self._tiers,
            device=self._model.device,
        )

    # Passes

    def _passes(self) -> list[list[int]]:
        """Slots of the rows of each pass."""
        slots = list(range(len(self.rows)))
        if self._model.mixes:
            return [slots]
        by_version: dict[str | None, list[int]] = {}
        for slot in slots:
            by_version.setdefault(self.rows[slot].version, []).append(slot)
        return list(by_version.values())

    def _choose(self, needed: set[str]) -> None:
        """Have the live versions ready, and not many others."""
        chosen = self._model.chosen
        if not needed <= chosen or len(chosen) > 2 * len(needed) + 2:
            self._model.choose(sorted(needed))

    def _pass(self, slots: list[int], fresh: set[Row]) -> int:
        """One pass, with what it takes in and what it draws; returns how many tokens went through."""
        rows = [self.rows[slot] for slot in slots]
        begun = [(slot, row) for slot, row in zip(slots, rows, strict=True) if row in fresh]
        stretches, owners = self._stretches([row for _, row in begun])
        device = self._model.device
        ids = [token for stretch in stretches for token in stretch.node.tokens]
        positions = [
            place
            for stretch in stretches
            for place in range(stretch.node.start, stretch.node.start + len(stretch.node.tokens))
        ]
        keep = range(len(ids), len(ids) + len(rows))
        attention = PassAttention(
            tails=self._tails,
            stretches=stretches,
            slots_n=torch.tensor(slots, device=device),
            all_slots=slots == list(range(len(slots))),
            places_n=torch.tensor([row.tail for row in rows], device=device),
            lengths=[row.tail + 1 for row in rows],
            shared=shared_parts([tuple(row.reads) for row in rows], device),
            copies=[(slot, place, node) for slot, row in begun for place, node in row.copies],
        )
        logits_nV = self._model.logits(
            torch.tensor([*ids, *(row.last for row in rows)], device=device),
            torch.tensor([*positions, *(row.position for row in rows)], device=device),
            [*owners, *((row.version, 1) for row in rows)],
            torch.tensor(keep, device=device),
            attention,
        )
        for row in rows:
            row.copies.clear()
            row.tail += 1
        _draw(rows, logits_nV)
        return len(ids) + len(rows)

    def _stretches(self, fresh: list[Row]) -> tuple[list[Stretch], list[tuple[str | None, int]]]:
        """What has to be computed of the prompts of rows that begin, and whose tokens these are."""
        stretches: list[Stretch] = []
        owners: list[tuple[str | None, int]] = []
        begin = 0
        m = self._model
        for row in fresh:
            path = _path(row)
            for depth, node in enumerate(path):
                if node.kv is None:
                    size = len(node.tokens)
                    shape = (m.layers, 2, m.kv_heads, size, m.head_width)
                    node.kv = torch.empty(shape, dtype=m.dtype, device=m.device)
                    stretches.append(Stretch(node, begin, path[:depth]))
                    owners.append((row.version if node.start >= row.base_tokens else None, size))
                    begin += size
        return stretches, owners


def _path(row: Row) -> list[Node]:
    return [] if row.end is None else row.end.path()


def _draw(rows: list[Row], logits_nV: torch.Tensor) -> None:
    """Give each row its next token."""
    by_sampling: dict[SamplingSettings, list[int]] = {}
    for place, row in enumerate(rows):
        by_sampling.setdefault(row.sampling, []).append(place)
    for sampling, places in by_sampling.items():
        part = logits_nV if len(places) == len(rows) else logits_nV[places]
        uniforms = [rows[place].uniforms[len(rows[place].reply)] for place in places]
        token_n, logprob_n = draw(
            part, torch.tensor(np.array(uniforms), device=part.device), sampling
        )
        drawn = zip(places, token_n.tolist(), logprob_n.tolist(), strict=True)
        for place, token, logprob in drawn:
            rows[place].take(token, logprob)
