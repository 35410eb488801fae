"""The embedded engine's loop over live rows: one token for each of them per step, refilled at once.

A step passes the new tokens of all rows through the model at once. Rows that begin bring the part of their
prompt that no prompt had computed before, up to a limit; the others bring the last token that they drew.
The loop uses no threads. Without slower tiers, its result is a function of the rows and of their order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch

from srl_agents.caching.objectives import NO_OBJECTIVES
from srl_agents.caching.policies.contract import Knowledge
from srl_agents.engines.embedded.captured_passes import Capture, CapturedPasses
from srl_agents.engines.embedded.decoding_settings import DecodingRules
from srl_agents.engines.embedded.places.kv_packing import EightBits
from srl_agents.engines.embedded.places.kv_tiers import KVTiers
from srl_agents.engines.embedded.prefix_tree import Node, PrefixTree
from srl_agents.engines.embedded.row import Row
from srl_agents.engines.embedded.row_attention import (
    PassAttention,
    Stretch,
    Tails,
    computed,
    shared_parts,
    tail_places,
)
from srl_agents.engines.embedded.row_pace import Pace
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.engines.token_choice import draw
from srl_agents.models.playing_model import LoRAPlaying, PlayingModel
from srl_envs.errors import ReplyRoomError

_NEVER = 10**9
"""Of `read_in_place`: every row copies."""
_LOOKAHEAD = 64
"""Rows in the line that are looked at for one that fits."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Tokens of a node that the next pass computes for a row that begins."""

    row: Row
    node: Node
    first: int
    """Place of the first such token within the node."""
    size: int


class Decoder:
    """Live rows, those that wait for a place, and the keys and values of all.

    Args:
        model: only this loop may run it meanwhile.
        settings: of the steps.
        live_tokens: keys and values of so many tokens may be in memory for live rows; a single row may
            have more, unless `require_room` is asked.
        cache_bytes: of prefixes that are kept when no row reads them.
        tiers: where prefixes go that are more; unused where prefixes are not shared.
        clock: seconds, of waiting and of steps.
        capture: of passes that are one token per row; None launches them kernel by kernel. With it, rows
            copy all that they read, and tails are as long from the start as they will be.
    """

    def __init__(
        self,
        model: PlayingModel,
        settings: DecodingRules,
        *,
        live_tokens: int,
        cache_bytes: int,
        tiers: KVTiers | None = None,
        clock: Callable[[], float] = time.monotonic,
        capture: Capture | None = None,
    ) -> None:
        self._model = model
        self._tiers = tiers if settings.share_prefixes else None
        self._live_tokens, self._cache_bytes = live_tokens, cache_bytes
        self._eight_bits = EightBits.of(model) if settings.eight_bits else None
        self.waiting: deque[Row] = deque()
        self._overtaken = 0
        """How often the first waiting row was overtaken because memory is short."""
        self.reading: list[Row] = []
        """Those whose prompts are being computed, in the order in which they got their places."""
        self.rows: list[Row] = []
        """Rows whose replies are being written, by slot."""
        self._tails = Tails(model)
        self._captured: CapturedPasses | None = None
        if capture is not None and isinstance(model, LoRAPlaying):
            self._captured = CapturedPasses(model, self._tails, capture)
        self._settings = self._of(settings)
        self._tree = self._new_tree()
        self._clock = clock
        held = settings.objectives != NO_OBJECTIVES
        self._pace = Pace(settings.objectives, clock) if held else None

    def _of(self, settings: DecodingRules) -> DecodingRules:
        """Settings as they are followed: a captured pass reads nothing but tails."""
        return settings if self._captured is None else replace(settings, read_in_place=_NEVER)

    def require_room(self, row: Row) -> None:
        """Refuse a row that needs more memory than there is for all live rows.

        Raises:
            ReplyRoomError: it does.
        """
        needed = tail_places(1, self._longest_tail(row)) + self._tree.places(len(row.prompt))
        if needed > self._live_tokens:
            raise ReplyRoomError(
                f"a prompt of {len(row.prompt)} tokens and a reply of up to "
                f"{len(row.uniforms)} need keys and values of {needed} tokens; there is memory "
                f"for {self._live_tokens}. Raise engine.live_gib, or lower rollout.max_new_tokens."
            )

    @property
    def busy(self) -> bool:
        """Whether a row is live or waits."""
        return bool(self.rows or self.reading or self.waiting)

    def clear(self) -> list[Row]:
        """Give all memory back; live and waiting rows, which have to start again."""
        rows = [*self._live, *self.waiting]
        for row in rows:
            row.restart()
        self.rows.clear()
        self.reading.clear()
        self.waiting.clear()
        self._give_tails_back()
        self._tree.close()
        self._tree = self._new_tree()
        self._model.choose(())
        return rows

    def lower(self, settings: DecodingRules) -> None:
        """Go on with other limits and half of the kept prefixes; live rows start again."""
        self._settings, self._cache_bytes = self._of(settings), self._cache_bytes // 2
        self.waiting.extend(self.clear())

    def add(self, row: Row) -> None:
        """A row waits for a place; what files have of its prompt is read meanwhile."""
        row.asked_s = self._clock()
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
        self._release([row for row in self._live if row in dropped])

    def step(self) -> list[Row]:
        """One token for each row that is being written, after free places were given to waiting ones.

        Returns:
            Rows that have finished.
        """
        began_s, most = self._clock(), self._step_tokens
        self._admit(most)
        pieces = self._pieces(most)
        begun = self._begun({piece.node: piece.first + piece.size for piece in pieces})
        self._choose({row.version for row in self._live if row.version is not None})
        longest = max(map(self._reserved, self.rows), default=0)
        self._tails.require(len(self.rows), longest, self._live_tokens - self._tree.held_places)
        for slots, part in self._passes(pieces):
            pass_s = time.monotonic()
            tokens = self._step_of(slots, part, begun)
            if self._tiers is not None:
                self._tiers.computed(tokens, time.monotonic() - pass_s)
        self._tree.shrink()
        if self._pace is not None:
            read = sum(piece.size for piece in pieces)
            self._pace.stepped(self._clock() - began_s, rows=len(self.rows), prompt_tokens=read)
        finished = [row for row in self.rows if row.finish]
        self._release(finished)
        return finished

    # Places

    @property
    def _live(self) -> list[Row]:
        return [*self.rows, *self.reading]

    @property
    def _step_tokens(self) -> int:
        """Prompt tokens that the next step computes at most."""
        most = self._settings.step_tokens
        return most if self._pace is None else self._pace.prompt_tokens(most, len(self.rows))

    def _line_up(self, pace: Pace, left: int, most: int) -> None:
        """Put those that wait in order; so many prompt tokens are to be read before theirs."""

        def unread(row: Row) -> int:
            if not self._settings.share_prefixes:
                return len(row.prompt)
            known = self._tree.known(
                row.version, row.prompt[:-1], base=None, base_tokens=row.base_tokens
            )
            return len(row.prompt) - known

        self.waiting = pace.line_up(
            self.waiting, rows=len(self.rows), left=left, most=most, unread=unread
        )

    def _admit(self, most: int) -> None:
        """Give places to waiting rows while a step has prompt tokens to spare, ``most`` in all; the tree
        has theirs then."""
        if self._live and not self._settings.refill:
            return
        left = sum(self._unread({node for row in self.reading for node in row.path}))
        pace = self._pace if self._pace is not None and self._pace.decides else None
        if self.waiting and pace is not None:
            self._line_up(pace, left, most)
        while len(self._live) < self._settings.max_rows and left < most:
            if pace is not None and not pace.takes_one_more(len(self._live)):
                return
            row = self._next_row()
            if row is None:
                return
            unshared = None if self._settings.share_prefixes else row
            row.end, row.cached = self._tree.enter(
                unshared or row.version,
                row.prompt[:-1],
                base=unshared,
                base_tokens=row.base_tokens,
                knowledge=Knowledge(session=row.session, turns_ahead=row.turns_ahead),
            )
            for node in row.path:
                self._tree.hold(node, row)
            left += len(row.prompt) - row.cached
            self.reading.append(row)

    def _pieces(self, most: int) -> list[_Piece]:
        """What the next pass computes of prompts: first come, first read, ``most`` tokens in all."""
        pieces: list[_Piece] = []
        left, seen = most, set[Node]()
        for row in self.reading:
            for node in row.path:
                if node.ready or node in seen:
                    continue
                size = min(left, len(node.tokens) - node.computed)
                if not size:
                    return pieces
                pieces.append(_Piece(row, node, node.computed, size))
                left -= size
                if node.computed + size < len(node.tokens):
                    return pieces
                seen.add(node)
        return pieces

    def _begun(self, reached: dict[Node, int]) -> set[Row]:
        """Give slots to the rows whose prompts are read with the next pass, and say which these are."""

        def read(node: Node) -> bool:
            return node.ready or reached.get(node, 0) == len(node.tokens)

        begun = [row for row in self.reading if all(map(read, row.path))]
        self.reading = [row for row in self.reading if row not in begun]
        self.rows += begun
        for row in begun:
            self._take_prompt(row)
        return set(begun)

    @staticmethod
    def _unread(nodes: Iterable[Node]) -> Iterable[int]:
        return (len(node.tokens) - node.computed for node in nodes)

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
        live = [*self._live, row]
        if len(live) == 1:
            return True
        if not self._model.fit_together({other.version for other in live}):
            return False
        longest = max(map(self._longest_tail, live))
        read = self._tree.held_places + self._tree.places(len(row.prompt))
        return tail_places(len(live), longest) + read <= self._live_tokens

    def _longest_tail(self, row: Row) -> int:
        if row.tail:
            return row.tail + len(row.uniforms) - len(row.reply)
        copied = len(row.prompt)
        if not self._model.windowed:
            copied = min(copied, self._settings.read_in_place)
        return copied + len(row.uniforms)

    def _reserved(self, row: Row) -> int:
        """Places of a row's tail: in use with the next token, or, so that addresses stay, ever."""
        return row.tail + 1 if self._captured is None else self._longest_tail(row)

    def _give_tails_back(self) -> None:
        self._tails.clear()
        if self._captured is not None:
            self._captured.forget()

    def _take_prompt(self, row: Row) -> None:
        """Decide for each node of its prompt whether the row reads it in place or copies it.

        A row copies so many tokens at most as `_longest_tail` counts.
        """
        for node in row.path:
            most = self._settings.read_in_place
            size = len(node.tokens)
            in_place = node.rows * size >= most or row.tail + size > most
            if self._model.windowed or not in_place:
                self._tree.let_go(node, row)  # nothing is dropped before the pass that copies it
                row.copies.append((row.tail, node))
                row.tail += size

    def _release(self, rows: list[Row]) -> None:
        """Give places away; the last rows move into the gaps, so that slots stay in line."""
        for row in rows:
            if row in self.reading:
                self.reading.remove(row)
            else:
                slot = self.rows.index(row)
                last = self.rows.pop()
                if last is not row:
                    self.rows[slot] = last
                    self._tails.move(len(self.rows), slot, last.tail)
            if row.end is not None:
                written = len(row.reply) if row.finish in ("stop", "length") else None
                self._tree.leave(row.end, row, written)
            if not self._settings.share_prefixes:
                self._tree.forget(row)
        self._tree.shrink()
        if not self.busy:  # a learner may need the memory
            self._give_tails_back()

    def _new_tree(self) -> PrefixTree:
        kept = self._eight_bits or self._model
        return PrefixTree(
            kept.bytes_per_token,
            self._cache_bytes,
            self._settings.eviction,
            tiers=self._tiers,
            device=self._model.device,
            eight_bits=self._eight_bits,
        )

    # Passes

    def _passes(self, pieces: list[_Piece]) -> list[tuple[list[int], list[_Piece]]]:
        """Slots of the rows of each pass, and what it reads of prompts."""
        slots = list(range(len(self.rows)))
        if self._model.mixes:
            return [(slots, pieces)]
        versions = dict.fromkeys(
            [*(row.version for row in self.rows), *(piece.row.version for piece in pieces)]
        )
        return [
            (
                [slot for slot in slots if self.rows[slot].version == version],
                [piece for piece in pieces if piece.row.version == version],
            )
            for version in versions
        ]

    def _choose(self, needed: set[str]) -> None:
        """Have the live versions ready, and not many others."""
        chosen = self._model.chosen
        if not needed <= chosen or len(chosen) > 2 * len(needed) + 2:
            self._model.choose(sorted(needed))

    def _step_of(self, slots: list[int], pieces: list[_Piece], begun: set[Row]) -> int:
        """`_pass`; where passes are captured, prompts are read apart from the rows."""
        if self._captured is None:
            return self._pass(slots, pieces, begun)
        read = self._pass([], pieces, begun) if pieces else 0
        if not self.rows:
            return read
        for slot, row in enumerate(self.rows):
            for place, node in row.copies if row in begun else ():
                self._tails.put(slot, place, computed(node))
        logits_nV = self._captured.logits(self.rows)
        self._wrote(self.rows, logits_nV)
        return read + len(self.rows)

    def _pass(self, slots: list[int], pieces: list[_Piece], begun: set[Row]) -> int:
        """One pass, with what it takes in and what it draws; returns how many tokens went through."""
        rows = [self.rows[slot] for slot in slots]
        fresh = [(slot, row) for slot, row in zip(slots, rows, strict=True) if row in begun]
        stretches, owners = self._stretches(pieces)
        device = self._model.device
        ids: list[int] = []
        positions: list[int] = []
        for piece in pieces:
            ids += piece.node.tokens[piece.first : piece.first + piece.size]
            start = piece.node.start + piece.first
            positions += range(start, start + piece.size)
        keep = range(len(ids), len(ids) + len(rows)) if rows else [0]
        attention = PassAttention(
            tails=self._tails,
            stretches=stretches,
            slots_n=torch.tensor(slots, device=device),
            all_slots=slots == list(range(len(slots))),
            places_n=torch.tensor([row.tail for row in rows], device=device),
            lengths=[row.tail + 1 for row in rows],
            shared=shared_parts([tuple(row.reads) for row in rows], device),
            copies=[(slot, place, node) for slot, row in fresh for place, node in row.copies],
        )
        logits_nV = self._model.logits(
            torch.tensor([*ids, *(row.last for row in rows)], device=device),
            torch.tensor([*positions, *(row.position for row in rows)], device=device),
            [*owners, *((row.version, 1) for row in rows)],
            torch.tensor(keep, device=device),
            attention,
        )
        for piece in pieces:
            piece.node.computed += piece.size
        if rows:
            self._wrote(rows, logits_nV)
        return len(ids) + len(rows)

    @staticmethod
    def _wrote(rows: list[Row], logits_nV: torch.Tensor) -> None:
        for row in rows:
            row.copies.clear()
            row.tail += 1
        _draw(rows, logits_nV)

    def _stretches(
        self, pieces: list[_Piece]
    ) -> tuple[list[Stretch], list[tuple[str | None, int]]]:
        """Pieces where they stand in the line, with memory for what comes out, and whose tokens these are."""
        stretches: list[Stretch] = []
        owners: list[tuple[str | None, int]] = []
        begin, m = 0, self._model
        for piece in pieces:
            node = piece.node
            if node.kv is None:
                shape = (m.layers, 2, m.kv_heads, len(node.tokens), m.head_width)
                node.kv = torch.empty(shape, dtype=m.dtype, device=m.device)
            stretches.append(Stretch(node, begin, node.path()[:-1], piece.first, piece.size))
            version = piece.row.version if node.start >= piece.row.base_tokens else None
            owners.append((version, piece.size))
            begin += piece.size
        return stretches, owners


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
