"""Description of a cluster: a model's geometry, devices, tiers and links, as plain numbers.

Rates are rooflines: a step takes as long as its arithmetic at ``mfu`` of the peak or its bytes at the
memory's bandwidth, whichever is longer. Sizes are decimal (GB = 10^9 bytes), as vendors print them.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

from srl_envs.errors import ConfigError, nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """A dense decoder with grouped-query attention."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool = False
    """Input and output embeddings are one matrix."""
    bytes_per_value: float = 2.0
    """Bytes per value of weights, keys and values: 2 for bfloat16."""

    def __post_init__(self) -> None:
        for name in (
            "layers", "hidden", "heads", "kv_heads", "head_size", "intermediate", "vocabulary",
        ):  # fmt: skip
            if not 0 < getattr(self, name) <= 10**9:
                raise ConfigError(
                    f"model={self.name!r}: {name}={getattr(self, name)}: expected 1 to 10^9."
                )

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.bytes_per_value

    @property
    def multiplied_parameters(self) -> int:
        """Parameters that every token is multiplied with: all but the input embedding."""
        attention = self.hidden * self.head_size * 2 * (self.heads + self.kv_heads)
        feed_forward = 3 * self.hidden * self.intermediate
        return self.layers * (attention + feed_forward) + self.hidden * self.vocabulary

    @property
    def weight_bytes(self) -> float:
        """All weights on a device."""
        embedding = 0 if self.tied else self.hidden * self.vocabulary
        return (self.multiplied_parameters + embedding) * self.bytes_per_value

    def prefill_flops(self, start: int, stop: int) -> float:
        """Operations to read tokens ``start`` to ``stop`` of a prompt whose earlier part is cached."""
        tokens = stop - start
        pairs = tokens * (start + stop) / 2  # causal attention: token t looks at t others
        return (
            2.0 * self.multiplied_parameters * tokens
            + 4.0 * self.layers * self.heads * self.head_size * pairs
        )


SHAPES = {
    "7b": ModelShape(
        name="7b", layers=28, hidden=3584, heads=28, kv_heads=4, head_size=128,
        intermediate=18944, vocabulary=152064,
    ),
    "14b": ModelShape(
        name="14b", layers=48, hidden=5120, heads=40, kv_heads=8, head_size=128,
        intermediate=13824, vocabulary=152064,
    ),
}  # fmt: skip
"""Geometries of Qwen2.5-7B and Qwen2.5-14B, from their published config.json."""


def model_shape(name: str) -> ModelShape:
    """A geometry by name, or read from a model's ``config.json`` (the file or its folder).

    Raises:
        ConfigError: no such name or file, or the file lacks a number.
    """
    if name in SHAPES:
        return SHAPES[name]
    path = Path(name) / "config.json" if Path(name).is_dir() else Path(name)
    if not path.is_file():
        raise ConfigError(
            f"model={name!r}: neither {' nor '.join(SHAPES)}, nor a config.json.{nearest(name, SHAPES)}"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        return ModelShape(
            name=name,
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_size=int(config.get("head_dim") or hidden // heads),
            intermediate=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            tied=bool(config.get("tie_word_embeddings", False)),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError, OSError) as error:
        raise ConfigError(f"{path}: not a decoder's config.json ({error!r}).") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One accelerator, or several that work as one."""

    name: str
    peak_flops: float
    """Dense bfloat16 operations per second."""
    memory_bytes: float
    memory_bytes_per_s: float
    mfu: float = 0.5
    """Share of the peak that large matrix products reach; 1 is the roofline itself."""
    usable: float = 0.9
    """Share of the memory for weights, keys and values."""

    def __post_init__(self) -> None:
        for name in ("mfu", "usable"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)}: expected above 0 and at most 1.")

    def step_seconds(
        self, shape: ModelShape, *, prefill_flops: float, batch: float = 0, context: float = 0
    ) -> float:
        """Time of one forward pass that reads a chunk of a prompt and writes a token per reply.

        Args:
            shape: the model.
            prefill_flops: operations of the chunk.
            batch: replies that each get a token.
            context: tokens of keys and values that they look at, in all.
        """
        flops = prefill_flops + 2.0 * shape.multiplied_parameters * batch
        moved = shape.weight_bytes + context * shape.kv_bytes_per_token
        return max(flops / (self.peak_flops * self.mfu), moved / self.memory_bytes_per_s)


DEVICES = {
    "a100": ("a100", 312e12, 80e9, 2.039e12),
    "h100": ("h100", 989e12, 80e9, 3.35e12),
    "h200": ("h200", 989e12, 141e9, 4.8e12),
}
"""(name, bf16 peak, memory, bandwidth) of the SXM versions, from the vendor's data sheets."""


def device(name: str, mfu: float = 0.5) -> Device:
    """A device by name.

    Raises:
        ConfigError: no device has this name, or ``mfu`` is out of range.
    """
    if name not in DEVICES:
        raise ConfigError(
            f"device={name!r}: no such device.{nearest(name, DEVICES)} There are {', '.join(DEVICES)}."
        )
    label, peak, memory, bandwidth = DEVICES[name]
    return Device(
        name=label, peak_flops=peak, memory_bytes=memory, memory_bytes_per_s=bandwidth, mfu=mfu
    )


@dataclass(frozen=True, slots=True)
class Tier:
    """A place for cached blocks on every node."""

    name: str
    size_bytes: float
    """``inf``: without limit."""
    bytes_per_s: float
    """From this tier into the device; ``inf`` for the device itself."""


TIER_RATES = {"device": math.inf, "host": 50e9, "disk": 6e9}
"""Default bytes per second: PCIe 5 x16 as measured by copies, and one NVMe drive's reads."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link between nodes."""

    name: str
    bytes_per_s: float
    latency_s: float


LINKS = {"rdma": Link("rdma", 45e9, 10e-6), "tcp": Link("tcp", 2.8e9, 200e-6)}
"""One 400 Gbit/s port and one 25 Gbit/s port, each at nine tenths of the line."""

_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?B)", re.IGNORECASE)
_TIER = re.compile(r"(?P<name>\w+)=(?P<size>[^@]+)(?:@(?P<rate>.+?)/s)?")
_LINK = re.compile(r"(?P<rate>.+?)/s(?:@(?P<latency>\d+(?:\.\d+)?)us)?")


def parse_bytes(text: str) -> float:
    """``80GB`` -> 80e9.

    Raises:
        ConfigError: not a size.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ConfigError(f"{text!r}: expected a size above 0 such as 40GB or 2.5TB.")
    return float(found[1]) * _UNITS[found[2].upper()]


def parse_tiers(texts: tuple[str, ...]) -> tuple[Tier, ...]:
    """``device=40GB``, ``host=512GB``, ``disk=4TB@6GB/s`` -> tiers, fastest first.

    Raises:
        ConfigError: an unknown tier, a tier named twice, or a missing size.
    """
    tiers: dict[str, Tier] = {}
    for text in (part for item in texts for part in item.split(",")):
        found = _TIER.fullmatch(text.strip())
        if found is None or found["name"] not in TIER_RATES or not _SIZE.fullmatch(found["size"]):
            raise ConfigError(
                f"tiers={text!r}: expected NAME=SIZE or NAME=SIZE@RATE/s with a NAME of "
                f"{', '.join(TIER_RATES)}, such as host=512GB or disk=4TB@6GB/s."
            )
        name = found["name"]
        if name in tiers:
            raise ConfigError(f"tiers: {name} is named twice.")
        if name == "device" and found["rate"]:
            raise ConfigError("tiers: device is read in place; give it no rate.")
        rate = parse_bytes(found["rate"]) if found["rate"] else TIER_RATES[name]
        tiers[name] = Tier(name, parse_bytes(found["size"]), rate)
    return tuple(tiers[name] for name in TIER_RATES if name in tiers)


def parse_link(text: str) -> Link | None:
    """``rdma``, ``tcp``, ``none``, or ``RATE/s`` with ``@LATENCYus``.

    Raises:
        ConfigError: none of these.
    """
    if text == "none":
        return None
    if text in LINKS:
        return LINKS[text]
    found = _LINK.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"link={text!r}: expected {', '.join(LINKS)}, none, or a rate such as 12GB/s or 12GB/s@20us."
        )
    return Link(text, parse_bytes(found["rate"]), float(found["latency"] or 10) * 1e-6)


@dataclass(frozen=True, slots=True)
class TierWorth:
    """Whether fetching a prefix beats reading it anew."""

    fetch_s: float
    recompute_s: float
    break_even_chance: float
    """Chance of return from which writing and fetching costs the link less time than recomputing costs
    the device; above 1: never."""

    @property
    def pays(self) -> bool:
        """Fetching is faster."""
        return self.fetch_s < self.recompute_s


def tier_worth(
    shape: ModelShape, on: Device, bytes_per_s: float, tokens: int, latency_s: float = 0.0
) -> TierWorth:
    """Compare for a prefix of ``tokens``: it is written once and, if it returns, fetched once.

    With chance p, tier time is write + p fetch and saves p recompute; write and fetch take equally long.
    """
    fetch = latency_s + tokens * shape.kv_bytes_per_token / bytes_per_s
    recompute = shape.prefill_flops(0, tokens) / (on.peak_flops * on.mfu)
    saved = recompute - fetch
    return TierWorth(fetch, recompute, fetch / saved if saved > 0 else math.inf)
