"""Learned eviction policy: keeps the blocks with the highest expected use per unit of space and time.

It learns reuse times per class of block (`srl_agents.caching.policies.reuse_times`) and ranks every leaf by
class and age. Time runs faster while more of what is asked for has been used before. What it assumes:
blocks of one
class are used again independently of each other, with hazards that change slower than ages pass. Everything
else is learned from the requests that it sees.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Generic

from srl_agents.caching.policies.block_tree import Block, BlockTree
from srl_agents.caching.policies.contract import Key, Knowledge, Value
from srl_agents.caching.policies.reuse_times import AGE_STARTS, AGES, EPOCHS, ReuseTimes, age_bucket

_SHORTEST_HORIZON, _CAPACITIES = 2**17, 16
"""Reuse times are learned up to so many accesses, or so many capacities if that is more."""
_EPOCHS_PER_LESSON = 2

_REPLY_TOKENS, _PROMPT_BLOCKS, _COUNTS = (8, 32, 128), (2, 16, 64), 4
"""Bounds of lengths, and kinds of counts, that classes differ in."""
_REPLIES, _PROMPTS = len(_REPLY_TOKENS) + 2, len(_PROMPT_BLOCKS) + 1
_UNKNOWN = 0
"""Bucket of a reply whose length is unknown, or not known yet."""
# classes: session over; first use (in a prompt whose start is known | the prompt's last block, by the reply's
# length | by the lengths of reply and prompt); later uses by count and by the reply's length
_OVER, _CONTINUES, _LAST = 0, 1, 2
_FIRST = _LAST + _REPLIES
_COUNT = _FIRST + _REPLIES * _PROMPTS
_KINDS, _TURNS = _COUNT + _COUNTS * _REPLIES, 3
_GROUPS = (
    *(_OVER, _CONTINUES),
    *(_LAST for _ in range(_REPLIES)),
    *(_LAST + 1 + k // _PROMPTS for k in range(_REPLIES * _PROMPTS)),
    *(_LAST + 1 + _REPLIES + k // _REPLIES for k in range(_COUNTS * _REPLIES)),
)
"""Group of each class: last blocks are one, other first uses go by reply length, later uses by count."""
_SLOWEST = 0.25
"""Time per access while nothing comes back; the share of accesses that do is added."""
_SHARE_ACCESSES, _FIRST_SHARE = 16_384, 0.4
"""Accesses over which the share is taken, and what it is before any."""
_KNOWN_SHARE, _KNOWN_BLOCKS = 0.25, 2
"""A prompt continues another if at least this share of it, and so many blocks, were used before."""
_SHARED = object()
"""Stands for the session of a block that several sessions used."""


class _Past(Generic[Key]):
    """History of a block, cached or not."""

    __slots__ = ("count", "epoch", "kind", "session")

    def __init__(self, session: Hashable | None) -> None:
        self.count = -1
        self.epoch = 0
        self.kind = 0
        self.session = session


class LearnedReuse(BlockTree[Key, Value]):
    """Lowest worth first; O(log n) per access, deterministic."""

    heeds_ends = True

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        horizon = max(_SHORTEST_HORIZON, _CAPACITIES * capacity)
        self._accesses_per_epoch = -(-horizon // EPOCHS)
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._times = ReuseTimes(
            [group for group in _GROUPS for _ in range(_TURNS)],
            self._accesses_per_epoch,
            _mixtures(),
        )
        self._time, self._share = 0.0, _FIRST_SHARE
        self._entered: dict[Key, int] = {}
        """Epoch of insertion of blocks whose request has not been recorded yet."""
        self._pasts: dict[Key, _Past[Key]] = {}
        self._used_in: list[list[Key]] = [[] for _ in range(EPOCHS)]
        self._cells: list[dict[Key, Block[Key, Value]]] = [
            {} for _ in range(_KINDS * _TURNS * AGES)
        ]
        self._moves: dict[int, list[Block[Key, Value]]] = {}
        """Epoch -> leaves whose age then enters the next bucket."""
        self._learn()

    def begin(self, keys: Sequence[Key], knowledge: Knowledge) -> None:
        """Keep what the whole request has in common."""
        self._last = len(keys) - 1
        self._knowledge = knowledge
        reply, ahead = knowledge.reply_tokens, knowledge.turns_ahead
        self._reply = _UNKNOWN if reply is None else _reply_class(reply)
        length = bisect_left(_PROMPT_BLOCKS, len(keys))
        self._first_kind = _FIRST + self._reply * _PROMPTS + length
        known = sum(1 for _ in itertools.takewhile(self._pasts.__contains__, keys))
        if known >= max(_KNOWN_BLOCKS, _KNOWN_SHARE * len(keys)):
            self._first_kind = _CONTINUES
        self._turn = 0 if ahead is None else 1 if ahead <= 1 else 2

    def replied(self, keys: Sequence[Key], tokens: int) -> None:
        """Put blocks that no request has used since into the class of the reply's length.

        Of several replies to one prompt the last that ends counts.
        """
        reply = _reply_class(tokens)
        for key in keys:
            past = self._pasts.get(key)
            if past is None:
                continue
            kind, turn = divmod(past.kind, _TURNS)
            other = _with_reply(kind, reply) * _TURNS + turn
            if other != past.kind:
                self._change_kind(past, other)
                block = self._blocks.get(key)
                if block is not None and block.place >= 0:
                    self.offer(block)

    def enter(self, block: Block[Key, Value]) -> None:
        """Until its request is recorded, a block counts as used when it was inserted."""
        block.place = -1
        self._entered[block.key] = self._times.epoch

    def use(self, key: Key, block: Block[Key, Value] | None, depth: int) -> None:
        """Learn from the block's return, and classify it anew."""
        past = self._pasts.get(key)
        self._pass_time(came_back=past is not None)
        if block is not None:
            self.withdraw(block)
            self._entered.pop(key, None)
        session = self._knowledge.session
        if past is None:
            past = self._pasts[key] = _Past(session)
        else:
            self._times.came_back(past.kind, past.epoch)
            if past.session != session:
                past.session = _SHARED
        past.count += 1
        past.kind = self._kind(past, depth) * _TURNS + self._turn
        past.epoch = self._times.epoch
        self._times.used(past.kind, past.epoch)
        self._used_in[past.epoch % EPOCHS].append(key)

    def _kind(self, past: _Past[Key], depth: int) -> int:
        if self._knowledge.ends and past.session is not _SHARED:
            return _OVER
        if past.count == 0:
            return _LAST + self._reply if depth == self._last else self._first_kind
        count = min(_COUNTS, past.count.bit_length()) - 1
        return _COUNT + count * _REPLIES + self._reply

    def offer(self, block: Block[Key, Value]) -> None:
        """Put the leaf into the cell of its class and age."""
        self.withdraw(block)
        past = self._pasts.get(block.key)
        kind = _FIRST * _TURNS if past is None else past.kind
        since = self._entered.get(block.key, 0)
        if past is not None:
            since = max(since, past.epoch)
        bucket = age_bucket(min(self._times.epoch - since, EPOCHS - 1))
        cell = kind * AGES + bucket
        if bucket + 1 < AGES:
            due = since + int(AGE_STARTS[bucket + 1])
            self._moves.setdefault(due, []).append(block)
        block.place = cell
        self._cells[cell][block.key] = block
        if not self._listed[cell]:
            self._listed[cell] = True
            heapq.heappush(self._order, (self._worth[cell], cell))

    def withdraw(self, block: Block[Key, Value]) -> None:
        """Take it out of its cell."""
        if block.place >= 0:
            del self._cells[block.place][block.key]
            block.place = -1

    def inherit(self, block: Block[Key, Value], lower: Block[Key, Value]) -> None:
        """Both halves have one past."""
        block.place = -1
        if lower.key in self._entered:
            self._entered[block.key] = self._entered[lower.key]
        past = self._pasts.get(lower.key)
        if past is None or block.key in self._pasts:
            return
        copied = self._pasts[block.key] = _Past(past.session)
        copied.count, copied.epoch, copied.kind = past.count, past.epoch, past.kind
        if self._times.epoch - past.epoch < EPOCHS:
            self._times.used(past.kind, past.epoch)
            self._used_in[past.epoch % EPOCHS].append(block.key)

    def retire(self, block: Block[Key, Value]) -> None:
        """Give blocks that only this session used the value of blocks of ended sessions."""
        past, over = self._pasts.get(block.key), _OVER * _TURNS
        if past is None or past.session is _SHARED or past.kind == over:
            return
        self._change_kind(past, over)
        if block.place >= 0:
            self.offer(block)

    def _change_kind(self, past: _Past[Key], kind: int) -> None:
        if self._times.epoch - past.epoch < EPOCHS:
            self._times.reclassified(past.kind, kind, past.epoch)
        past.kind = kind

    def leave(self, block: Block[Key, Value]) -> None:
        """Forget when it was inserted."""
        self._entered.pop(block.key, None)

    def remove(self, key: Key) -> None:
        """Drop a block."""
        super().remove(key)
        self._entered.pop(key, None)

    def next_leaf(self) -> Block[Key, Value]:
        """The longest in the cell of the lowest worth."""
        while not self._cells[self._order[0][1]]:
            self._listed[heapq.heappop(self._order)[1]] = False
        return next(iter(self._cells[self._order[0][1]].values()))

    def _pass_time(self, *, came_back: bool) -> None:
        """One access is over: the more of them come back, the sooner do those that wait."""
        self._share += (came_back - self._share) / _SHARE_ACCESSES
        self._time += _SLOWEST + self._share
        while self._time >= self._accesses_per_epoch:
            self._time -= self._accesses_per_epoch
            self._end_epoch()

    def _end_epoch(self) -> None:
        self._times.advance()
        epoch = self._times.epoch
        oldest = self._used_in[epoch % EPOCHS]
        self._used_in[epoch % EPOCHS] = []
        for key in oldest:
            past = self._pasts.get(key)
            if past is not None and epoch - past.epoch >= EPOCHS and key not in self._blocks:
                del self._pasts[key]
        for block in self._moves.pop(epoch, ()):
            if block.place >= 0:
                self.offer(block)
        if epoch % _EPOCHS_PER_LESSON == 0:
            self._learn()

    def _learn(self) -> None:
        """Rank the cells by what has been learned."""
        self._worth: list[float] = self._times.worth().ravel().tolist()
        self._listed = [bool(cell) for cell in self._cells]
        self._order = [(self._worth[cell], cell) for cell, on in enumerate(self._listed) if on]
        heapq.heapify(self._order)


def _reply_class(tokens: int) -> int:
    """Class of a reply whose length is known."""
    return 1 + bisect_left(_REPLY_TOKENS, tokens)


def _with_reply(kind: int, reply: int) -> int:
    """The class, without its turn, that differs from ``kind`` in the reply's length at most."""
    if kind >= _COUNT:
        return kind - (kind - _COUNT) % _REPLIES + reply
    if kind >= _FIRST:
        return _FIRST + reply * _PROMPTS + (kind - _FIRST) % _PROMPTS
    if kind >= _LAST:
        return _LAST + reply
    return kind


def _mixtures() -> dict[int, list[int]]:
    """Of every class whose reply's length is unknown, all classes that it may turn out to be."""
    found = {}
    for kind in range(_LAST, _KINDS):
        if _with_reply(kind, _UNKNOWN) == kind:
            for turn in range(_TURNS):
                found[kind * _TURNS + turn] = [
                    _with_reply(kind, reply) * _TURNS + turn for reply in range(_REPLIES)
                ]
    return found
