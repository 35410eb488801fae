"""The tensors of a decoder, computed from its ``config.json``: shapes and totals, no weights."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from srl_envs.errors import ConfigError, nearest

FOLDER = Path(__file__).parent / "architectures"
"""One file per published model: its ids, its numbers and where they stand."""
KINDS = ("llama", "mistral", "qwen2", "qwen3")
"""``model_type`` of the dense decoders whose tensors are known here."""
Targets = Literal["all-linear"] | tuple[str, ...]
Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """A dense decoder with grouped-query attention and a gated feed-forward part."""

    name: str
    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    context: int
    tied: bool
    input_bias: bool
    """Whether the query, key and value layers have biases."""
    output_bias: bool
    """Whether attention's output layer has a bias."""
    head_norms: bool
    """Queries and keys are normalised per head."""
    stored: str = ""
    """Type of the weights in its files; empty: not said."""

    @property
    def query(self) -> int:
        """Width of all queries of a token."""
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        """Width of all keys of a token, and of all values."""
        return self.kv_heads * self.head_size

    def linear(self) -> dict[str, tuple[int, int]]:
        """(outputs, inputs) of the linear layers of one block, by name."""
        h, i = self.hidden, self.intermediate
        return {
            "q_proj": (self.query, h),
            "k_proj": (self.keys, h),
            "v_proj": (self.keys, h),
            "o_proj": (h, self.query),
            "gate_proj": (i, h),
            "up_proj": (i, h),
            "down_proj": (h, i),
        }

    def tensors(self) -> Iterator[tuple[str, Shape, int]]:
        """(name, shape, how many) of every weight."""
        yield "embed_tokens", (self.vocabulary, self.hidden), 1
        if not self.tied:
            yield "lm_head", (self.vocabulary, self.hidden), 1
        yield "norm", (self.hidden,), 2 * self.layers + 1
        for name, shape in self.linear().items():
            yield name, shape, self.layers
        for name, width, there in (
            ("q_proj.bias", self.query, self.input_bias),
            ("k_proj.bias", self.keys, self.input_bias),
            ("v_proj.bias", self.keys, self.input_bias),
            ("o_proj.bias", self.hidden, self.output_bias),
            ("q_norm", self.head_size, self.head_norms),
            ("k_norm", self.head_size, self.head_norms),
        ):
            if there:
                yield name, (width,), self.layers

    @property
    def parameters(self) -> int:
        """All weights; tied ones once."""
        return sum(math.prod(shape) * count for _, shape, count in self.tensors())

    @property
    def linear_parameters(self) -> int:
        """Those of the blocks' linear layers, which 4-bit quantisation packs."""
        return self.layers * sum(math.prod(shape) for shape in self.linear().values())

    @property
    def layer_parameters(self) -> int:
        """All weights of one block."""
        outside = self.hidden * (self.vocabulary * (1 if self.tied else 2) + 1)
        return (self.parameters - outside) // self.layers

    @property
    def multiplied_parameters(self) -> int:
        """Those that every token is multiplied with where it is scored: blocks and output head."""
        return self.linear_parameters + self.vocabulary * self.hidden

    def lora_tensors(self, rank: int, targets: Targets) -> Iterator[tuple[str, Shape, int]]:
        """(name, shape, how many) of an adapter's factors.

        Raises:
            ConfigError: a target is not a linear layer of a block.
        """
        linear = self.linear()
        chosen = tuple(linear) if targets == "all-linear" else targets
        for target in chosen:
            if target not in linear:
                raise ConfigError(
                    f"lora.target_modules: {target!r} is not a linear layer of {self.name}."
                    f"{nearest(target, linear)} Use some of {', '.join(linear)}."
                )
            outputs, inputs = linear[target]
            yield f"{target}.lora_A", (rank, inputs), self.layers
            yield f"{target}.lora_B", (outputs, rank), self.layers

    def lora_parameters(self, rank: int, targets: Targets) -> int:
        """Weights of one adapter."""
        return sum(math.prod(s) * count for _, s, count in self.lora_tensors(rank, targets))


def from_config(name: str, config: Mapping[str, Any]) -> Architecture:
    """Read the mapping of a model's ``config.json``.

    Raises:
        ConfigError: a number is missing, or the kind of model is not one of `KINDS`.
    """
    kind = str(config.get("model_type"))
    if kind not in KINDS:
        raise ConfigError(
            f"{name}: model_type {kind!r} cannot be planned; known are {', '.join(KINDS)}."
        )
    try:
        heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
        biased = bool(config.get("attention_bias", False))
        return Architecture(
            name=name,
            kind=kind,
            layers=int(config["num_hidden_layers"]),
            hidden=hidden,
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_size=int(config.get("head_dim") or hidden // heads),
            intermediate=int(config["intermediate_size"]),
            vocabulary=int(config["vocab_size"]),
            context=int(config.get("max_position_embeddings", 2048)),
            tied=bool(config.get("tie_word_embeddings", False)),
            input_bias=kind == "qwen2" or biased,
            output_bias=kind != "qwen2" and biased,
            head_norms=kind == "qwen3",
            stored=str(config.get("dtype") or config.get("torch_dtype") or ""),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{name}: not a decoder's config.json ({error!r}).") from error


def from_folder(name: str, folder: Path) -> Architecture:
    """Read the ``config.json`` of a model's folder.

    Raises:
        ConfigError: there is none, or it is not one of a known decoder.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}).") from None
    return from_config(name, config)


def shipped() -> dict[str, dict[str, Any]]:
    """Name -> file of every published model whose numbers come with SRL."""
    return {
        path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))
    }


def published_config(name: str) -> dict[str, Any] | None:
    """What SRL ships of a model's ``config.json``, by its name or by a hub id, without regard to case."""
    for stem, entry in shipped().items():
        if name.lower() in (stem, *(hub_id.lower() for hub_id in entry["ids"])):
            return {**entry["config"], "name": stem}
    return None


def published(name: str) -> Architecture | None:
    """A shipped architecture by its name or by a hub id, without regard to case; None if there is none."""
    config = published_config(name)
    return None if config is None else from_config(config["name"], config)
