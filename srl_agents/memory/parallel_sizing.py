"""Tensor, pipeline and data parallelism for models that no single card holds, by placement.

Policy and value model learn; reference and reward model are read. Every model has the policy's size, as
in the
exercise that asks for 70 billion weights on 64 cards. Sources: training state arXiv:1910.02054 section 3.1;
pipelines arXiv:2104.04473; sequence parallelism and activations arXiv:2205.05198; placements
arXiv:2409.19256.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from srl_agents.memory.architecture import Architecture
from srl_agents.memory.devices import DEVICES, Target

Learns = Literal["full", "lora"]
Placement = Literal["colocated", "disaggregated", "hybrid"]
PLACEMENTS: tuple[Placement, ...] = ("colocated", "disaggregated", "hybrid")
CARDS_PER_NODE = 8
_SEQUENCE, _MICRO_ROWS = 4096, 1
"""Tokens of a row, and rows of a micro-batch per pipeline."""
_REPLIES_PER_COPY = 64
"""Live at once on one copy of the model that writes them, half of the sequence filled on average."""
_STATE = 12.0
"""Bytes per weight of AdamW: weights, mean and variance in float32."""
_NODE_ROOM = 450e9
"""Bytes of weights that one node of eight cards writes replies with, beside keys and values."""
_RANK = 16
"""Rank of an adapter on all linear layers."""
_NODE_BYTES_PER_S = 50e9
"""One 400 Gbit/s port per card between nodes."""
_LINK_BYTES_PER_S = 450e9
"""NVLink of an H100 in one direction (NVIDIA H100 data sheet: 900 GB/s both ways)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Degrees of tensor, pipeline and data parallelism."""

    tensor: int
    pipeline: int
    data: int

    @property
    def cards(self) -> int:
        """Number of all cards."""
        return self.tensor * self.pipeline * self.data

    @property
    def shards(self) -> int:
        """Cards that hold one copy of the weights."""
        return self.tensor * self.pipeline

    def __str__(self) -> str:
        return f"TP {self.tensor} x PP {self.pipeline} x DP {self.data}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizing:
    """One placement of one model."""

    model: str
    placement: Placement
    training: Layout | None
    """Layout for training; None where no layout fits."""
    writing: Layout | None
    training_bytes: dict[str, float]
    """Bytes per card, by role, in the training phase."""
    writing_bytes: dict[str, float]
    """Bytes per card while replies are written."""
    cards_needed: int | None
    """Least multiple of the cards that fits, up to 32 times as many; None where none of them does."""
    transfer_s: float
    """Until new weights are where replies are written."""
    note: str

    @property
    def fits(self) -> bool:
        """Whether training and generation both fit."""
        return self.training is not None and self.writing is not None


def size_up(
    model: Architecture,
    placement: Placement,
    cards: int = 64,
    target: Target | None = None,
    learns: Learns = "full",
) -> Sizing:
    """As `_sized`, and how many cards would do where these do not."""
    found = _sized(model, placement, cards, target, learns)
    needed = cards if found.fits else None
    for factor in range(2, 33):
        if needed is None and _sized(model, placement, cards * factor, target, learns).fits:
            needed = cards * factor
    return replace(found, cards_needed=needed)


def _sized(
    model: Architecture, placement: Placement, cards: int, target: Target | None, learns: Learns
) -> Sizing:
    """The layout with the least communication that fits.

    Args:
        model: of all four roles.
        placement: ``colocated``: all roles in memory on the same cards all the time. ``disaggregated``:
        half of the cards
            train, a quarter writes replies, and reference and reward model have an eighth each.
            ``hybrid``: all cards
            train or write in turn; what a phase does not need is in the hosts' memory.
        cards: in all.
        target: each of them; an H100 with 80 GB if absent.
        learns: all weights of policy and value model, or a LoRA adapter of each, on one frozen base.
    """
    device = target or DEVICES["h100-80gb"]
    room = (device.memory_bytes - device.overhead_bytes) / (1 + device.slack)
    learn = cards // 2 if placement == "disaggregated" else cards
    write = cards // 4 if placement == "disaggregated" else cards
    weights = 2.0 * model.parameters
    others = 2 * weights / cards if placement == "colocated" else 0.0
    """Reference and reward model, sharded over all cards where they stay."""
    training, held = None, {}
    for layout in _layouts(model, learn):
        parts = _training(model, layout, learns) | ({"reference, reward": others} if others else {})
        if (
            placement == "colocated" and learns == "full"
        ):  # the engine's own copy over whole nodes stays, too
            nodes = math.ceil(weights / _NODE_ROOM)
            parts |= {"engine": weights / (nodes * CARDS_PER_NODE)}
        if sum(parts.values()) <= room:
            training, held = layout, parts
            break
    writing, cache = None, {}
    for layout in _layouts(model, write):
        if layout.pipeline > 1 and layout.tensor < CARDS_PER_NODE:
            continue
        parts = _writing(model, layout)
        if placement == "colocated" and training is not None:
            state = {k: v for k, v in held.items() if k not in ("activations", "engine")}
            parts |= {"training state": sum(state.values())}
        if sum(parts.values()) <= room:
            writing, cache = layout, parts
            break
    return Sizing(
        model=model.name,
        placement=placement,
        training=training,
        writing=writing,
        training_bytes=held,
        writing_bytes=cache,
        cards_needed=None,
        transfer_s=_transfer(weights, placement, writing, learn),
        note=_NOTES[placement],
    )


_NOTES: dict[Placement, str] = {
    "colocated": "no transfer between cards, and nothing is done twice at once",
    "disaggregated": "replies are written while others are learned from; weights cross the network",
    "hybrid": "the same cards change their layout; states go to the hosts' memory and come back",
}


def _layouts(model: Architecture, cards: int) -> Iterator[Layout]:
    """Those that divide the cards, heads and layers; the fewest cards per copy first, tensors before
    pipelines."""
    found = [
        Layout(tensor=t, pipeline=p, data=cards // (t * p))
        for t in (1, 2, 4, 8)
        for p in range(1, cards + 1)
        if t * p <= cards and cards % (t * p) == 0 and model.heads % t == 0 and model.layers >= p
    ]
    return iter(sorted(found, key=lambda layout: (layout.shards, layout.pipeline)))


def _training(model: Architecture, layout: Layout, learns: Learns) -> dict[str, float]:
    """Per card: policy and value model with gradients, states sharded over data parallelism (ZeRO stage
    1)."""
    share = model.parameters / layout.shards
    tokens = _SEQUENCE * _MICRO_ROWS
    layers = -(-model.layers // layout.pipeline)
    # checkpoints of every layer, for each micro-batch in the pipeline; one layer is recomputed (34 bytes per
    # value without attention's squares: arXiv:2205.05198 equation 4 with recomputed attention)
    kept = 2.0 * model.hidden * tokens * layers * layout.pipeline
    live = 34.0 * model.hidden * tokens
    logits = 8.0 * tokens * model.vocabulary / layout.tensor  # float32, with their gradient
    if learns == "lora":
        factors = 2.0 * model.lora_parameters(_RANK, "all-linear") / layout.shards
        return {
            "weights": 2.0 * share,
            "gradients": 4.0 * factors,
            "optimizer": _STATE * factors / layout.data,
            "activations": (kept + live) / layout.tensor + logits,
        }
    return {
        "weights": 2 * 2.0 * share,
        "gradients": 2 * 2.0 * share,
        "optimizer": 2 * _STATE * share / layout.data,
        "activations": (kept + live) / layout.tensor + logits,
    }


def _writing(model: Architecture, layout: Layout) -> dict[str, float]:
    """Per card: weights, and keys and values of the replies of one copy."""
    each = 2.0 * 2.0 * model.layers * model.keys
    split = min(layout.tensor, model.kv_heads) * layout.pipeline
    return {
        "weights": 2.0 * model.parameters / layout.shards,
        "keys and values": _REPLIES_PER_COPY * _SEQUENCE / 2 * each / split,
    }


def _transfer(weights: float, placement: Placement, writing: Layout | None, learn: int) -> float:
    """Seconds until each writing card has its share; every training card sends its part at once."""
    if writing is None:
        return float("inf")
    if (
        placement == "disaggregated"
    ):  # each copy arrives over the ports of the cards that send or receive it
        ports = min(learn, writing.cards)
        return weights * writing.data / (ports * _NODE_BYTES_PER_S)
    return weights / writing.shards / _LINK_BYTES_PER_S
