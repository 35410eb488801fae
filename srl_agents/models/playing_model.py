"""A model as an engine runs it: tokens of many rows and versions in one pass, on modules of its own.

The modules are a second tree over the same tensors. So nothing that a trainer does to its own modules
(hooks, train mode, gradient checkpointing) meets the engine, and no memory is copied. Tokens of all
rows stand in one line without padding; what they see is decided by a function of the caller.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from srl_agents.models.memory.available import memory_of
from srl_envs.errors import ModelError

Tensors = dict[str, torch.Tensor]
_ATTENTION = "srl_rows"
"""The name under which transformers finds our attention function."""
PACKED_SHARE = 1 / 16
"""Share of all memory for weights in oneDNN's layout."""
_IGNORED = frozenset({"dropout", "position_ids", "use_cache", "is_causal"})
"""Arguments that models pass to attention and that ours does not read: its mask covers them."""


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """Queries, keys and values of the tokens in line, turned by their positions."""

    layer: int
    """Number of the layer."""
    query: torch.Tensor
    """(H, N, D)."""
    key: torch.Tensor
    """(K, N, D)."""
    value: torch.Tensor
    """(K, N, D)."""
    scale: float
    """Scale of the scores."""
    window: int | None
    """Most recent tokens that a token sees, itself included; None is all."""

    def part(self, begin: int, end: int) -> LayerInputs:
        """The inputs of some tokens."""
        return replace(
            self,
            query=self.query[:, begin:end],
            key=self.key[:, begin:end],
            value=self.value[:, begin:end],
        )


class RowAttention(Protocol):
    """Attention of the tokens of one pass; called once per layer."""

    def attend(self, inputs: LayerInputs) -> torch.Tensor:
        """(N, H, D) output."""


def second_tree(model: Any) -> Any:
    """Modules like those of `model`, in eval mode, that hold the very same tensors."""
    shared: dict[int, Any] = {id(t): t for t in chain(model.parameters(), model.buffers())}
    tree = copy.deepcopy(model, shared)
    tree.config._attn_implementation = _ATTENTION
    tree.eval()
    for module in tree.modules():
        if type(module) is torch.nn.Linear and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            module.__class__ = _CPULinear
    return tree


class _CPULinear(torch.nn.Linear):
    """A linear layer that asks oneDNN where torch would ask MKL, which is half as fast on AMD.

    It has no gradient. Measured: docs/design/embedded_engine.md.
    """

    _packed: tuple[torch.Tensor, int] | None = None
    """The weight in oneDNN's layout, and torch's count of writes to it then."""

    @property
    def packs(self) -> bool:
        """Whether oneDNN has a layout for it."""
        return self.weight.device.type == "cpu" and self.weight.dtype == torch.float32

    def pack(self) -> None:
        """Copy a weight that stays constant into oneDNN's layout once, instead of at every product."""
        weight = self.weight.detach()
        self._packed = (torch.ops.mkldnn._reorder_linear_weight(weight), self.weight._version)

    def unpack(self) -> None:
        """Let go of the copy."""
        self._packed = None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., outputs)."""
        if not self.packs or inputs.dtype != torch.float32:
            return super().forward(inputs)
        weight: torch.Tensor = self.weight
        if self._packed is not None and self._packed[1] == weight._version:
            weight = self._packed[0]
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs, weight, self.bias, "none", [], ""
        )
        return out


def _pack(tree: Any) -> list[_CPULinear]:
    """Pack all linear layers, where the copy is a small part of the machine's memory; returns those.

    Of all memory and not of what is free, because a layout changes the rounding.
    """
    layers = [m for m in tree.modules() if isinstance(m, _CPULinear) and m.packs]
    if sum(m.weight.nbytes for m in layers) > PACKED_SHARE * memory_of(tree.device).total:
        return []
    for layer in layers:
        layer.pack()
    return layers


class PlayingModel(ABC):
    """Passes lines of tokens through versions.

    Args:
        tree: from `second_tree`; no other code uses it.
    """

    mixes: bool
    """Whether the tokens of one pass may belong to several versions."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        config = tree.config.get_text_config()
        self.layers = int(config.num_hidden_layers)
        heads = config.num_attention_heads
        self.kv_heads = int(getattr(config, "num_key_value_heads", None) or heads)
        self.head_width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
        kinds = set(getattr(config, "layer_types", None) or ())
        self.windowed = "sliding_attention" in kinds or bool(_window(config))
        """Whether some layers see only the most recent tokens."""
        self.dtype: torch.dtype = tree.dtype
        self.device: torch.device = tree.device

    @property
    def bytes_per_token(self) -> int:
        """Bytes per token of keys and values of all layers."""
        return 2 * self.layers * self.kv_heads * self.head_width * self.dtype.itemsize

    @property
    @abstractmethod
    def chosen(self) -> frozenset[str]:
        """Versions that are ready, beside the base."""

    @abstractmethod
    def choose(self, names: Iterable[str]) -> None:
        """Make versions ready; the passes until the next call are of these, or of the base, None."""

    def fit_together(self, names: set[str | None]) -> bool:
        """Whether memory allows to play these versions in turn, step by step."""
        return True

    def rest(self, *, asleep: bool) -> None:
        """Do without copies of the base's weights until waking, which makes them again, bit for bit."""
        return

    @abstractmethod
    def _enter(self, owners: Sequence[tuple[str | None, int]]) -> None:
        """Prepare one pass of so many tokens of each version, in this order."""

    def logits(
        self,
        ids_N: torch.Tensor,
        positions_N: torch.Tensor,
        owners: Sequence[tuple[str | None, int]],
        keep_n: torch.Tensor,
        attention: RowAttention,
    ) -> torch.Tensor:
        """(n, V) logits behind those tokens of the line that ``keep_n`` names.

        Args:
            ids_N: (N,) tokens.
            positions_N: (N,) place of each in its own text.
            owners: (version or None for the base, tokens) of each stretch of the line.
            keep_n: (n,) places in the line.
            attention: what the tokens see.
        """
        self._enter(owners)
        return self._run(ids_N, positions_N, keep_n, attention)

    def _run(
        self,
        ids_N: torch.Tensor,
        positions_N: torch.Tensor,
        keep: torch.Tensor | int,
        attention: RowAttention,
    ) -> torch.Tensor:
        out = self._tree(
            input_ids=ids_N[None],
            position_ids=positions_N[None],
            use_cache=False,
            logits_to_keep=keep,
            rows=attention,
        )
        return out.logits[0]  # type: ignore[no-any-return]


class LoRAPlaying(PlayingModel):
    """Low-rank versions beside the base's weights, all in one pass.

    The factors of all chosen versions stand side by side in two matrices per layer. A token passes
    through all of them, and what is not its own version's is set to 0 in between: two small products
    per layer, whatever the number of versions.

    Args:
        tree: see `PlayingModel`.
        targets: names of the linear layers that have factors.
        tensors: the factors of a version, by `file_name` of layer and part.
        file_name: (layer, ``A`` or ``B``) -> name of the factor.
        scaling: the update is multiplied by it.
        packs: whether the base's weights stay in place, so that a CPU may keep a faster layout of them.
    """

    mixes = True

    def __init__(
        self,
        tree: Any,
        targets: Sequence[str],
        *,
        tensors: Callable[[str], Tensors],
        file_name: Callable[[str, str], str],
        scaling: float,
        packs: bool,
    ) -> None:
        super().__init__(tree)
        self.whole = packs
        """Whether the base's weights stay in place."""
        self._packed = _pack(tree) if packs else []
        self._tensors, self._file_name, self._scaling = tensors, file_name, scaling
        self._linears: dict[str, _RowLinear] = {}
        for name in targets:
            parent, _, attribute = name.rpartition(".")
            linear = _RowLinear(tree.get_submodule(name))
            setattr(tree.get_submodule(parent), attribute, linear)
            self._linears[name] = linear
        self._chosen: dict[str, int] = {}
        self._rank = 0
        self.chosen_count = 0
        """How often versions were made ready, which changes the addresses of their factors."""

    def rest(self, *, asleep: bool) -> None:
        """See `PlayingModel`; the base must be in memory."""
        for layer in self._packed:
            if asleep:
                layer.unpack()
            else:
                layer.pack()

    @property
    def chosen(self) -> frozenset[str]:
        """See `PlayingModel`."""
        return frozenset(self._chosen)

    def choose(self, names: Iterable[str]) -> None:
        """See `PlayingModel`; costs a copy of the factors."""
        self.chosen_count += 1
        self._chosen = {name: place for place, name in enumerate(names)}
        versions = [self._tensors(name) for name in self._chosen]
        for layer, linear in self._linears.items():
            pairs = [
                _contained(
                    tensors[self._file_name(layer, "A")], tensors[self._file_name(layer, "B")]
                )
                for tensors in versions
            ]
            linear.down = torch.cat([down for down, _ in pairs]) if pairs else None
            linear.up = torch.cat([up.T for _, up in pairs]) * self._scaling if pairs else None
            self._rank = pairs[0][0].shape[0] if pairs else 0

    def _enter(self, owners: Sequence[tuple[str | None, int]]) -> None:
        own = any(name is not None for name, _ in owners)
        self._use(self.others(owners) if own else None)

    def others(self, owners: Sequence[tuple[str | None, int]]) -> torch.Tensor | None:
        """(N, versions x rank) on the device, True for factors that are not the token's; None where no
        version is ready."""
        base = len(self._chosen)
        if not base:
            return None
        rows = [base if name is None else self._chosen[name] for name, _ in owners]
        owner_N1 = torch.from_numpy(np.repeat(rows, [count for _, count in owners]))[:, None]
        of_column = torch.arange(base).repeat_interleave(self._rank)
        return (owner_N1 != of_column).to(self.device)

    def _use(self, others: torch.Tensor | None) -> None:
        for linear in self._linears.values():
            linear.others = others

    def pass_of(
        self,
        ids_N: torch.Tensor,
        positions_N: torch.Tensor,
        others: torch.Tensor | None,
        keep: torch.Tensor | int,
        attention: RowAttention,
    ) -> torch.Tensor:
        """`logits` whose owners are a tensor of `others`: nothing in it depends on the host's data, so the
        kernels that it launches may be captured. ``keep`` 0 is every token."""
        self._use(others)
        return self._run(ids_N, positions_N, keep, attention)


def _contained(down: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors of which the second is finite, so that tokens that pass through with 0 stay unharmed.

    If it was not, the first is NaN, and so is whatever the version's own tokens become.
    """
    if up.isfinite().all():
        return down, up
    return torch.full_like(down, float("nan")), up.nan_to_num()


class _RowLinear(torch.nn.Module):
    """A linear layer with the factors of several versions.

    Args:
        linear: the base's.
    """

    def __init__(self, linear: torch.nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.down: torch.Tensor | None = None
        """(versions x rank, inputs)."""
        self.up: torch.Tensor | None = None
        """(versions x rank, outputs), scaled."""
        self.others: torch.Tensor | None = None
        """(N, versions x rank) True for factors that are not the token's; None: for all."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., outputs)."""
        out: torch.Tensor = self.linear(inputs)
        if self.others is None or self.down is None or self.up is None:
            return out
        flat = inputs.reshape(-1, inputs.shape[-1]).to(self.down.dtype)
        low = torch.mm(flat, self.down.T).masked_fill_(self.others, 0.0)
        rows = out.view(-1, out.shape[-1])
        if out.dtype == self.up.dtype:
            rows.addmm_(low, self.up)
        else:
            rows.add_(torch.mm(low, self.up))
        return out


class FullPlaying(PlayingModel):
    """Whole weights: a pass is of one version, whose tensors the modules then hold.

    Args:
        tree: see `PlayingModel`.
        tensors: of a version, by the names of ``tree``'s parameters; None is the base.
        fit: see `fit_together`.
    """

    mixes = False

    def __init__(
        self,
        tree: Any,
        tensors: Callable[[str | None], Mapping[str, torch.Tensor]],
        fit: Callable[[set[str | None]], bool],
    ) -> None:
        super().__init__(tree)
        self._tensors, self._fit = tensors, fit
        self._chosen: frozenset[str] = frozenset()
        names = {id(parameter): name for name, parameter in tree.named_parameters()}
        self._slots = [
            (module, attribute, names[id(parameter)])
            for module in tree.modules()
            for attribute, parameter in module._parameters.items()
            if parameter is not None
        ]

    @property
    def chosen(self) -> frozenset[str]:
        """See `PlayingModel`."""
        return self._chosen

    def choose(self, names: Iterable[str]) -> None:
        """See `PlayingModel`; there is nothing to prepare."""
        self._chosen = frozenset(names)

    def fit_together(self, names: set[str | None]) -> bool:
        """See `PlayingModel`."""
        return self._fit(names)

    def _enter(self, owners: Sequence[tuple[str | None, int]]) -> None:
        version = self._tensors(owners[0][0])
        for module, attribute, name in self._slots:
            module._parameters[attribute] = version[name]


def _window(config: Any) -> int | None:
    if getattr(config, "use_sliding_window", True):
        return getattr(config, "sliding_window", None)
    return None


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,  # noqa: ARG001 - transformers passes one by place
    *,
    rows: RowAttention,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function of the second tree; the argument ``rows`` comes from `logits`."""
    wanted = (name for name, what in others.items() if what is not None and what is not False)
    odd = sorted(set(wanted) - _IGNORED)
    if odd:
        raise ModelError(
            f"{type(module).__name__} requires attention with {', '.join(odd)}, which the embedded engine "
            "does not have. Use another model, or an engine that serves this one."
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    inputs = LayerInputs(module.layer_idx, query[0], key[0], value[0], scale, sliding_window)
    return rows.attend(inputs)[None], None


ALL_ATTENTION_FUNCTIONS.register(_ATTENTION, _attend)
