"""Rows with equal beginnings as one sequence, in which the common beginning is read once.

Sorted rows are leaves of a prefix tree of their prompts, and a sequence is that tree written down row
by row: of each row only what the one before does not begin with. A token sees its own row's tokens
before it, under the positions of the separate row, so hidden states are those of separate rows, up
to rounding. The attempts of a group share their whole first prompt this way, all rows of a game its
rules and its shown examples. A prompt's last token is repeated by every row, as are replies: each of
these places predicts one token.

Where rows share little, several short sequences are cheaper than one long one; and rows that share
nothing may stand in one sequence to fill it.
Source: the layout is tree attention, arXiv:2305.09781 section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

_WORTH = 0.9
"""Most places of a layout per place of padded rows for which its dense mask is made."""
_LENGTHS_TRIED = 24
"""Lengths of sequences that are compared, from that of the longest row to that of all rows in one."""


@dataclass(frozen=True, slots=True)
class SharedPrefixes:
    """``G`` sequences of ``L`` places that hold ``R`` rows of ``T`` completion tokens."""

    input_ids_GL: torch.Tensor
    position_ids_GL: torch.Tensor
    visible_GLL: torch.Tensor
    """Whether a place (second axis) may see another (third)."""
    labels_GL: torch.Tensor
    """The token that a place predicts; -100 where none."""
    acted_GL: torch.Tensor
    """Whether an adapter that waits for the reply acts at a place."""
    place_RT: torch.Tensor
    """Where a completion token is predicted, counted through all sequences; 0 where masked."""
    mask_RT: torch.Tensor
    """Which completion tokens there are."""

    def attention_mask(self, dtype: torch.dtype, window: int | None) -> torch.Tensor:
        """(G, 1, L, L) what to add to attention scores of that type.

        Args:
            dtype: of the scores.
            window: tokens of its row that a place sees at most, itself included; None sees all.
        """
        visible = self.visible_GLL
        if window is not None:
            positions = self.position_ids_GL
            visible = visible & (positions[:, :, None] - positions[:, None, :] < window)
        hidden = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        return hidden.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]

    def rows(self, values_GL: torch.Tensor) -> torch.Tensor:
        """(G, L, ...) values at places to (R, T, ...) values of completion tokens; 0 where masked."""
        picked_RT = values_GL.flatten(0, 1)[self.place_RT]
        mask_RT = self.mask_RT.reshape(*self.mask_RT.shape, *(1,) * (picked_RT.dim() - 2))
        return picked_RT.masked_fill(~mask_RT, 0)


def share_prefixes(
    prompts: Sequence[Tokens],
    replies: Sequence[Tokens],
    *,
    width: int,
    device: torch.device,
    activated_tokens: int = 0,
) -> SharedPrefixes:
    """Lay out rows, each a prompt and its reply.

    Args:
        prompts: of one token or more.
        replies: as many, of one token or more.
        width: of the model's hidden states, from which the cost of a long sequence follows.
        device: that the layout is put on.
        activated_tokens: last ones of each prompt on which adapters act that act on nothing before; these
            are never shared. 0: adapters act on all tokens.
    """
    own = max(1, activated_tokens)
    cut = _cut_rows(prompts, replies, width, own)
    order, shared, sequences, length = cut.order, cut.shared, cut.sequences, cut.length

    shape = (len(sequences), length)
    input_ids, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    labels = np.full(shape, -100, dtype=np.int64)
    # a place that sees nothing has no attention weights: padding sees itself
    visible = np.broadcast_to(np.eye(length, dtype=bool), (*shape, length)).copy()
    acted = np.full(shape, activated_tokens == 0)
    place_RT = np.zeros((len(replies), max(map(len, replies))), dtype=np.int64)
    mask_RT = np.zeros(place_RT.shape, dtype=bool)
    for g, sequence in enumerate(sequences):
        start = 0
        path = np.zeros(0, dtype=np.int64)  # places of the row's prompt without its last token
        for number in sequence:
            prompt, reply = prompts[order[number]], replies[order[number]]
            kept = shared[number] if start else 0
            stop = start + len(prompt) - 1 - kept + len(reply)
            written = stop - len(reply)
            input_ids[g, start:stop] = np.concatenate([prompt[kept:], reply[:-1]])
            positions[g, start:stop] = np.arange(kept, kept + stop - start)
            visible[g, start:stop, path[:kept]] = True
            visible[g, start:stop, start:stop] = np.tri(stop - start, dtype=bool)
            labels[g, written:stop] = reply
            acted[g, written + 1 - own : stop] = True
            place_RT[order[number], : len(reply)] = g * length + np.arange(written, stop)
            mask_RT[order[number], : len(reply)] = True
            path = np.concatenate([path[:kept], np.arange(start, written)])
            start = stop
    arrays = (input_ids, positions, visible, labels, acted, place_RT, mask_RT)
    return SharedPrefixes(*(torch.from_numpy(array).to(device) for array in arrays))


def worth_sharing(
    prompts: Sequence[Tokens], replies: Sequence[Tokens], *, width: int, activated_tokens: int = 0
) -> bool:
    """Whether a layout of rows has clearly fewer places than the rows have, padded to the longest.

    Args:
        prompts: as for `share_prefixes`.
        replies: as many.
        width: of the model's hidden states.
        activated_tokens: as for `share_prefixes`.
    """
    cut = _cut_rows(prompts, replies, width, max(1, activated_tokens))
    return len(cut.sequences) * cut.length <= _WORTH * len(prompts) * max(cut.sizes)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rows in the order of their prompts, cut into sequences."""

    order: list[int]
    sizes: list[int]
    """Places that each row takes by itself."""
    shared: list[int]
    """Tokens of each prompt that the row before begins with, too."""
    sequences: list[range]
    length: int
    """Places of the longest sequence."""


def _cut_rows(prompts: Sequence[Tokens], replies: Sequence[Tokens], width: int, own: int) -> _Cut:
    order = sorted(range(len(prompts)), key=lambda row: prompts[row].tolist())
    shared = [0] + [_common(prompts[before], prompts[row], own) for before, row in pairwise(order)]
    sizes = [len(prompts[row]) - 1 + len(replies[row]) for row in order]
    sequences = _sequences(sizes, shared, width)
    length = max(_length(sizes, shared, sequence) for sequence in sequences)
    return _Cut(order, sizes, shared, sequences, length)


def _common(first: Tokens, second: Tokens, own: int) -> int:
    """Tokens that two prompts begin with alike, their ``own`` last ones not counted."""
    most = min(len(first), len(second)) - own
    different = np.flatnonzero(first[:most] != second[:most])
    return int(different[0]) if len(different) else most


def _sequences(sizes: Sequence[int], shared: Sequence[int], width: int) -> list[range]:
    """The cheapest cut of sorted rows into sequences.

    A place costs what its matrix products do and what it sees. With 12 width**2 weights a layer, that
    is 24 width**2 operations and 4 width for each place of its sequence, and attention under a dense
    mask was measured to take three times as long per operation: as 2 width to 1.
    """
    best, least = [], float("inf")
    whole = _length(sizes, shared, range(len(sizes)))
    for length in np.geomspace(max(sizes), whole, _LENGTHS_TRIED):
        cut = _cut(sizes, shared, round(length))
        longest = max(_length(sizes, shared, sequence) for sequence in cut)
        cost = len(cut) * longest * (2 * width + longest)
        if cost < least:
            best, least = cut, cost
    return best


def _cut(sizes: Sequence[int], shared: Sequence[int], longest: int) -> list[range]:
    """The fewest sequences, none longer than ``longest``, which no row is."""
    cut, first, length = [], 0, 0
    for row, size in enumerate(sizes):
        length += size - (shared[row] if row > first else 0)
        if length > longest:
            cut.append(range(first, row))
            first, length = row, size
    return [*cut, range(first, len(sizes))]


def _length(sizes: Sequence[int], shared: Sequence[int], sequence: range) -> int:
    return sum(sizes[row] for row in sequence) - sum(shared[row] for row in sequence[1:])
