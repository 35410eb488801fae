"""Attention of one pass over live rows: keys and values are read where they are, never copied together.

A row sees nodes of the prefix tree, which it may share with others, and a tail of its own: what only its
prompt has, and what it has written. Each is attended apart and the results are joined by their
log-sum-exps, which is exact. Sources: arXiv:2402.05099, arXiv:2501.01005.

Array axes: ``N`` tokens of a pass, ``n`` rows, ``H`` query heads, ``K`` key-value heads, ``G`` query heads
per key-value head, ``S`` tokens of a node, ``L`` places of a tail, ``D`` head width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch.nn.functional import scaled_dot_product_attention

from srl_agents.engines.embedded.prefix_tree import Node
from srl_agents.models.playing_model import LayerInputs, PlayingModel

_GRAIN = 32
"""Tails grow by so many places at once."""
_QUERIES = 512
"""Tokens of a stretch that are attended at once: masks and scores grow with its length, and not with the
square of it."""


class Tails:
    """Keys and values that belong to one row each: one slot per row.

    Args:
        model: gives shapes, type and device.
    """

    def __init__(self, model: PlayingModel) -> None:
        self._model = model
        self._slots = self._length = 0
        self.made = 0
        """How often the memory was laid anew, which changes its addresses."""
        self.kv: list[torch.Tensor] = []
        """Keys and values of each layer: (2, slots, K, L, D)."""
        self.clear()

    def require(self, slots: int, length: int, most: int) -> None:
        """Make room for so many rows of so many tokens.

        Args:
            slots: rows, in the first slots.
            length: tokens of the longest.
            most: places in all, if that many are enough; slots and places that no row needs are given
                back then.
        """
        wide = _rounded(length)
        spare_slots, spare_wide = max(slots, self._slots), max(wide, self._length)
        if spare_slots * spare_wide <= most:
            slots, wide = spare_slots, spare_wide
        if (slots, wide) == (self._slots, self._length):
            return
        kept_slots, kept_wide = min(slots, self._slots), min(wide, self._length)
        for layer, old in enumerate(self.kv):  # so that one layer at a time is there twice
            new = self._zeros(slots, wide)
            new[:, :kept_slots, :, :kept_wide] = old[:, :kept_slots, :, :kept_wide]
            self.kv[layer] = new
        self._slots, self._length = slots, wide
        self.made += 1

    def move(self, source: int, target: int, length: int) -> None:
        """Copy a row into another slot."""
        for kv in self.kv:
            kv[:, target, :, :length] = kv[:, source, :, :length]

    def put(self, slot: int, place: int, kv: torch.Tensor) -> None:
        """Copy (layers, 2, K, S, D) keys and values to a row's places from ``place`` on."""
        for own, layer in zip(self.kv, kv, strict=True):
            own[:, slot, :, place : place + layer.shape[2]] = layer

    def clear(self) -> None:
        """Give the memory back."""
        self.kv = [self._zeros(0, 0) for _ in range(self._model.layers)]
        self._slots = self._length = 0
        self.made += 1

    def _zeros(self, slots: int, length: int) -> torch.Tensor:
        # zeros, because a masked place times 0 must be 0
        m = self._model
        shape = (2, slots, m.kv_heads, length, m.head_width)
        return torch.zeros(shape, dtype=m.dtype, device=m.device)


def tail_places(slots: int, length: int) -> int:
    """Places that `Tails` has for so many rows, the longest of so many tokens."""
    return slots * _rounded(length)


def _rounded(length: int) -> int:
    return -(-length // _GRAIN) * _GRAIN


@dataclass(slots=True)
class Stretch:
    """Tokens of one node that a pass computes; those before them in the node are there."""

    node: Node
    begin: int
    """First token's place in the line."""
    above: list[Node]
    """Parents of the node."""
    first: int
    """The first token's place in the node."""
    size: int
    """Number of tokens."""


@dataclass(slots=True)
class Shared:
    """Rows that read one node in place."""

    node: Node
    level: int
    """Index, among a row's results, of the one for this node."""
    rows: torch.Tensor
    """(n,) places among the rows of the pass."""


@dataclass(slots=True)
class PassAttention:
    """What the tokens of one pass see: first those of new nodes, then one per row.

    It implements `models.playing_model.RowAttention`, and stores the new keys and values.
    """

    tails: Tails
    stretches: list[Stretch]
    slots_n: torch.Tensor
    """(n,) slots of the rows whose tokens stand behind the stretches, in their order."""
    all_slots: bool
    """Whether these are the first n slots in order, so that nothing has to be gathered."""
    places_n: torch.Tensor
    """(n,) where in its tail each row's token goes."""
    lengths: list[int]
    """Places in use in each row's tail, with this token."""
    shared: list[Shared] = field(default_factory=list)
    copies: list[tuple[int, int, Node]] = field(default_factory=list)
    """(slot, first place, node): nodes that rows take into their tails once they are computed."""
    _masks: dict[tuple[int, int | None], torch.Tensor] = field(default_factory=dict)
    """By (number of the stretch, -1 for the tails; window), for the next layer; of a long stretch, its
    last queries'."""

    def attend(self, inputs: LayerInputs) -> torch.Tensor:
        """See `models.playing_model.RowAttention`."""
        heads, tokens, width = inputs.query.shape
        out = inputs.query.new_empty((tokens, heads, width))
        for number, stretch in enumerate(self.stretches):
            begin, end = stretch.begin, stretch.begin + stretch.size
            out[begin:end] = self._of_stretch(number, stretch, inputs.part(begin, end))
        if self.lengths:
            begin = tokens - len(self.lengths)
            out[begin:] = self._of_rows(inputs.part(begin, tokens))
        return out

    def _of_stretch(self, number: int, stretch: Stretch, inputs: LayerInputs) -> torch.Tensor:
        """(S, H, D) of a stretch's tokens, which see what is before them and themselves."""
        upto = stretch.first + stretch.size
        kv = computed(stretch.node)[inputs.layer][:, :, :upto]
        kv[0, :, stretch.first :], kv[1, :, stretch.first :] = inputs.key, inputs.value
        parts = [*(computed(above)[inputs.layer] for above in stretch.above), kv]
        keys, values = torch.cat(parts, dim=2) if len(parts) > 1 else kv
        length = inputs.query.shape[1]
        outs = [
            self._of_queries(number, stretch, inputs, (keys, values), begin)
            for begin in range(0, length, _QUERIES)
        ]
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def _of_queries(
        self,
        number: int,
        stretch: Stretch,
        inputs: LayerInputs,
        kv: tuple[torch.Tensor, torch.Tensor],
        begin: int,
    ) -> torch.Tensor:
        """(S, H, D) of the stretch's tokens from ``begin`` on, `_QUERIES` of them at most."""
        own = inputs.part(begin, min(begin + _QUERIES, inputs.query.shape[1]))
        heads, length, width = own.query.shape
        start = stretch.node.start + stretch.first + begin
        first = 0 if own.window is None else max(0, start - own.window + 1)
        keys, values = (tensor[:, first : start + length] for tensor in kv)
        group = heads // keys.shape[0]
        key = (number, own.window)
        mask = self._masks.get(key)
        if mask is None or inputs.query.shape[1] > _QUERIES:
            mask = self._masks[key] = _causal(start, length, first, own).repeat(group, 1)[
                None, None
            ]
        folded = own.query.reshape(keys.shape[0], group * length, width)
        out, _ = attend(folded[None], keys[None], values[None], mask, own.scale, with_lse=False)
        return out.reshape(heads, length, width).transpose(0, 1)

    def _of_rows(self, inputs: LayerInputs) -> torch.Tensor:
        """(n, H, D) of one token per row."""
        tail = self.tails.kv[inputs.layer]
        for slot, place, node in self.copies:
            tail[:, slot, :, place : place + len(node.tokens)] = computed(node)[inputs.layer]
        rows, (kv_heads, _, width) = len(self.lengths), inputs.key.shape
        stored(tail, self.slots_n, self.places_n, inputs)
        used = max(self.lengths)
        keys, values = (tail[:, :rows] if self.all_slots else tail[:, self.slots_n])[..., :used, :]
        queries = inputs.query.transpose(0, 1).reshape(rows, kv_heads, -1, width)
        out, lse = attend(queries, keys, values, self._tail_mask(used, inputs), inputs.scale)
        if self.shared:
            out = self._joined(inputs, queries, out, lse)
        return out.reshape(rows, -1, width)

    def _joined(
        self, inputs: LayerInputs, queries: torch.Tensor, out: torch.Tensor, lse: torch.Tensor
    ) -> torch.Tensor:
        """(n, K, G, D) over tails and the nodes that are read in place."""
        levels = 2 + max(part.level for part in self.shared)
        outs = out.new_zeros((levels, *out.shape))
        lses = lse.new_full((levels, *lse.shape), float("-inf"))
        outs[0], lses[0] = out, lse
        kv_heads, group, width = queries.shape[1:]
        for part in self.shared:
            keys, values = computed(part.node)[inputs.layer]
            folded = queries[part.rows].transpose(0, 1).reshape(1, kv_heads, -1, width)
            got, seen = attend(folded, keys[None], values[None], None, inputs.scale)
            outs[part.level + 1, part.rows] = got.view(kv_heads, -1, group, width).transpose(0, 1)
            lses[part.level + 1, part.rows] = seen.view(kv_heads, -1, group).transpose(0, 1)
        weights = torch.softmax(lses, dim=0).to(out.dtype)
        return (outs * weights[..., None]).sum(dim=0)

    def _tail_mask(self, used: int, inputs: LayerInputs) -> torch.Tensor:
        """(n, 1, 1, used) added to the scores."""
        mask = self._masks.get((-1, inputs.window))
        if mask is None:
            lengths_n = torch.tensor(self.lengths, device=inputs.query.device)
            mask = tail_mask(lengths_n, used, inputs)
            self._masks[-1, inputs.window] = mask
        return mask


def stored(
    tail: torch.Tensor, slots_n: torch.Tensor, places_n: torch.Tensor, inputs: LayerInputs
) -> None:
    """Put keys and values of one token per row where they belong."""
    new = torch.stack((inputs.key, inputs.value))
    tail[:, slots_n, :, places_n] = new.permute(2, 0, 1, 3)


def tail_mask(lengths_n: torch.Tensor, used: int, inputs: LayerInputs) -> torch.Tensor:
    """(n, 1, 1, used) added to the scores of one token per row over so many places of its tail."""
    places, ends = torch.arange(used, device=lengths_n.device)[None], lengths_n[:, None]
    hidden = places >= ends
    if inputs.window is not None:
        # all of a row's tokens are in its tail then, so places are positions
        hidden |= places < ends - inputs.window
    return _additive(hidden, inputs.query)[:, None, None]


_NO_LSE = torch.empty(0)


def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    *,
    with_lse: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, K, Q, D) attention and (B, K, Q) log-sum-exps of the scores.

    Args:
        query: (B, K, Q, D).
        key: (B, K, S, D).
        value: (B, K, S, D).
        mask: added to the scores; its axes are those of (B, K, Q, S) or 1.
        scale: of the scores.
        with_lse: whether the log-sum-exps are asked; without them a card has one kernel for all of it.
    """
    if query.device.type == "cpu":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, False, attn_mask=mask, scale=scale
        )
        return out, lse
    if not with_lse and query.dtype != torch.float32:
        seen = None if mask is None else mask.expand(*query.shape[:3], key.shape[2])
        return scaled_dot_product_attention(query, key, value, seen, scale=scale), _NO_LSE
    scores = (query.float() @ key.float().transpose(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask
    lse = scores.logsumexp(dim=-1)
    return (scores - lse[..., None]).exp().to(value.dtype) @ value, lse


def _causal(start: int, length: int, first: int, inputs: LayerInputs) -> torch.Tensor:
    """(S, keys) added to the scores of tokens at ``start`` and behind, whose keys begin at ``first``."""
    own = torch.arange(start, start + length, device=inputs.query.device)[:, None]
    seen = torch.arange(first, start + length, device=inputs.query.device)[None]
    hidden = seen > own
    if inputs.window is not None:
        hidden |= seen <= own - inputs.window
    return _additive(hidden, inputs.query)


def _additive(hidden: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    mask = torch.zeros(hidden.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(hidden, float("-inf"))


def computed(node: Node) -> torch.Tensor:
    """(layers, 2, K, S, D) keys and values of a node."""
    if node.kv is None:
        raise AssertionError("a node is read before it was computed")
    return node.kv


def shared_parts(rows: Sequence[Sequence[Node]], device: torch.device) -> list[Shared]:
    """Which rows read which nodes together.

    Args:
        rows: the nodes that each row of a pass reads in place.
        device: of the indices.
    """
    readers: dict[Node, list[int]] = {}
    for row, nodes in enumerate(rows):
        for node in nodes:
            readers.setdefault(node, []).append(row)
    free = [0] * len(rows)
    parts = []
    for node, places in readers.items():
        level = max(free[row] for row in places)
        for row in places:
            free[row] = level + 1
        parts.append(Shared(node, level, torch.tensor(places, device=device)))
    return parts
