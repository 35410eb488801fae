"""Low-rank adapters beside one frozen model: N policies cost one model and N adapters.

Source: arXiv:2106.09685. The factors are PEFT's; what is ours runs faster over many adapters.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from peft.tuners.lora import LoraLayer
from torch.nn.functional import linear
from torch.utils.hooks import RemovableHandle

from srl_agents.models.digests import check_fit
from srl_agents.models.playing_model import LoRAPlaying, PlayingModel, second_tree
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sharded_layers import ShardedLayers
from srl_agents.models.weights.lora_targets import (
    Targets,
    means,
    require_useful_rank,
    target_layers,
)
from srl_agents.models.weights.mixed_factors import lowered, raised, stretches
from srl_agents.models.weights.policy import (
    ANCHOR,
    Parameters,
    PolicyWeights,
    Tensors,
    read_tensors,
    with_anchor,
)
from srl_agents.tensor_files import save_tensors
from srl_envs.errors import ConfigError, ModelError

_WRAPPER = "base_model.model."
"""Prefix that PEFT puts before the names of layers."""
_FILE, _CONFIG = "adapter_model.safetensors", "adapter_config.json"


class LoRAWeights(PolicyWeights):
    """A pair of factors per linear layer, except the output head: PEFT's of an adapter, plain tensors
    of a frozen version.

    Args:
        model: a transformers causal language model; it is frozen and wrapped.
        rank: of every adapter.
        alpha: the update is multiplied by alpha / rank.
        targets: layers that have factors.
        excluded: names of modules in which no layer has factors.
        opening: tokens that begin every reply, from which on adapters act (activated LoRA,
            arXiv:2504.12397); nothing where they act on all tokens.
        sharded: the model's layers, where processes divide them.

    Raises:
        ConfigError: a target is not a layer that can have factors.
    """

    kind: Parameters = "lora"

    def __init__(
        self,
        model: Any,
        *,
        rank: int,
        alpha: float,
        targets: Targets = "all-linear",
        excluded: tuple[str, ...] = (),
        opening: tuple[int, ...] = (),
        sharded: ShardedLayers | None = None,
    ) -> None:
        layers = target_layers(model, targets, excluded)
        require_useful_rank(model, layers, rank)
        self._config = LoraConfig(
            r=rank, lora_alpha=alpha, target_modules=layers, task_type="CAUSAL_LM"
        )
        self.opening = opening
        self._places: torch.Tensor | None = None
        """(R, L, 1) or (1, L, 1) where adapters act in the passes to come; None: not said."""
        self._packs = sharded is None
        self._tree = second_tree(model) if sharded is None else sharded.tree
        self.model = with_anchor(model, layers)
        self._layers: dict[str, Any] = {
            key: module
            for key, module in self.model.named_modules()
            if isinstance(module, LoraLayer)
        }
        self._shapes = {
            f"{key}.lora_{part}.weight": shape
            for key, layer in self._layers.items()
            for part, shape in (("A", (rank, layer.in_features)), ("B", (layer.out_features, rank)))
        }
        self._parameters: dict[str, list[torch.nn.Parameter]] = {}
        """Parameters of adapters that were asked for."""
        self._frozen: dict[str, Tensors] = {}
        self._lent: Tensors | None = None
        """The frozen version that forwards pass through."""
        self._hooks: list[RemovableHandle] = []
        """Hooks that add the frozen version's factors."""
        self._active: str | None = None
        self._settle(None)

    @property
    def names(self) -> tuple[str, ...]:
        """See `PolicyWeights`."""
        return tuple(name for name in self.model.peft_config if name != ANCHOR)

    @property
    def frozen(self) -> tuple[str, ...]:
        """See `PolicyWeights`."""
        return tuple(self._frozen)

    @property
    def active(self) -> str | None:
        """See `PolicyWeights`."""
        return self._active

    def playing(self) -> PlayingModel:
        """See `PolicyWeights`."""
        return LoRAPlaying(
            second_tree(self._tree),
            [key.removeprefix(_WRAPPER) for key in self._layers],
            tensors=self.tensors,
            file_name=lambda layer, part: f"{_WRAPPER}{layer}.lora_{part}.weight",
            scaling=self._config.lora_alpha / self._config.r,
            packs=self._packs,
        )

    def add(self, name: str, seed: int) -> None:
        """Add an adapter whose B is 0 and whose A is drawn from `seed`.

        A is uniform in ±1/sqrt(inputs), as PEFT draws it, but from a generator of its own.
        """
        active = self._active
        # PEFT draws weights, which are replaced at once: keep the global generator's state.
        with torch.random.fork_rng(devices=[]), quiet_libraries():
            self.model.add_adapter(name, copy.deepcopy(self._config))
        self._settle(active)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for layer in self._layers.values():
                weight = layer.lora_A[name].weight
                bound = 1 / math.sqrt(weight.shape[1])
                draw = torch.rand(weight.shape, generator=generator, dtype=torch.float32)
                weight.copy_((2 * draw - 1) * bound)
                layer.lora_B[name].weight.zero_()
                if self.opening:
                    layer.lora_B[name].register_forward_hook(
                        lambda _layer, _inputs, output: self._acted(output)
                    )

    def remove(self, name: str) -> None:
        """See `PolicyWeights`."""
        active = self._active
        self._parameters.pop(name, None)
        self.model.delete_adapter(name)
        self._settle(active)

    def freeze(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """See `PolicyWeights`; the factors are copied."""
        check_fit(name, self._shapes, tensors)
        device = self.model.device
        self._frozen[name] = {
            key: tensor.detach().to(device, torch.float32, copy=True)
            for key, tensor in tensors.items()
        }

    def load_frozen(self, name: str, folder: Path) -> None:
        """See `PolicyWeights`."""
        self.freeze(name, self.read(folder))

    def forget(self, name: str) -> None:
        """See `PolicyWeights`."""
        del self._frozen[name]

    def activate(self, name: str | None) -> None:
        """See `PolicyWeights`."""
        # PEFT's own set_adapter walks over every parameter of every adapter, for each of many learners
        if self._active is not None:
            self._set_learning(self._active, learns=False)
        self._active = name
        chosen = name or ANCHOR
        self.model.active_adapter = self.model.base_model.active_adapter = chosen
        for layer in self._layers.values():
            layer._active_adapter = [chosen]
        if name is not None:
            self._set_learning(name, learns=True)

    def _settle(self, name: str | None) -> None:
        """Make `name` the active adapter after PEFT has changed which adapters there are."""
        self._active = name
        self.model.set_adapter(name or ANCHOR)
        if name is None:
            self._set_learning(ANCHOR, learns=False)

    def _set_learning(self, name: str, *, learns: bool) -> None:
        for parameter in self._parameters_of(name):
            parameter.requires_grad_(learns)

    def _parameters_of(self, name: str) -> list[torch.nn.Parameter]:
        """A, then B, of each layer in turn; looked up once, as looking takes longer than most uses."""
        if name not in self._parameters:
            self._parameters[name] = [
                part[name].weight
                for layer in self._layers.values()
                for part in (layer.lora_A, layer.lora_B)
            ]
        return self._parameters[name]

    @contextmanager
    def acting(self, places: torch.Tensor) -> Iterator[None]:
        """Inside, adapters act only at these places.

        Args:
            places: (R, L, 1) or (1, L, 1), 1 where they act and 0 elsewhere.
        """
        before, self._places = self._places, places
        try:
            yield
        finally:
            self._places = before

    def _acted(self, part: torch.Tensor) -> torch.Tensor:
        """(R, L, outputs) of an adapter, and 0 where it does not act."""
        return part * self._required_places().to(part.dtype) if self.opening else part

    def _required_places(self) -> torch.Tensor:
        """Where adapters act.

        Raises:
            ModelError: the caller gave no places.
        """
        if self._places is None:
            raise ModelError(
                "lora.activation='reply': this pass does not mark where replies begin. Use 'start'."
            )
        return self._places

    @contextmanager
    def through(self, name: str | None) -> Iterator[None]:
        """See `PolicyWeights`; a frozen version's factors, which no module holds, come from hooks."""
        # PEFT's own disable_adapter walks over every parameter of every adapter; this is 50
        # times cheaper, and no gradient can flow while adapters are off anyway.
        before = [
            (layer, layer._disable_adapters, layer._active_adapter)
            for layer in self._layers.values()
        ]
        lent = self._lent
        frozen = None if name is None else self._frozen.get(name)
        for layer in self._layers.values():
            layer._disable_adapters = name is None or frozen is not None
            if name is not None and frozen is None:
                layer._active_adapter = [name]
        self._lend(frozen)
        try:
            yield
        finally:
            self._lend(lent)
            for layer, disabled, adapter in before:
                layer._disable_adapters, layer._active_adapter = disabled, adapter

    def _lend(self, frozen: Tensors | None) -> None:
        """Let hooks add this version's part as PEFT adds an adapter's, bit for bit; None adds nothing."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._lent = [], frozen
        if frozen is None:
            return
        scaling = self._config.lora_alpha / self._config.r
        keys = {layer: key for key, layer in self._layers.items()}

        def add(layer: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
            down, up = (frozen[f"{keys[layer]}.lora_{part}.weight"] for part in ("A", "B"))
            low = linear(inputs[0].to(down.dtype), down)
            changed: torch.Tensor = output + self._acted(linear(low, up)) * scaling
            return changed.to(output.dtype)

        self._hooks = [layer.register_forward_hook(add) for layer in self._layers.values()]

    @contextmanager
    def learning(self, names: Sequence[str]) -> Iterator[None]:
        """See `PolicyWeights`; backward passes belong inside, as checkpointed layers run again there."""
        some = stretches(names)
        in_turn = [name for one in some for name in one.names]
        scaling = self._config.lora_alpha / self._config.r
        own = [self._parameters_of(name) for name in in_turn]
        factors = {
            layer: [[mine[2 * place + part] for mine in own] for part in range(2)]
            for place, layer in enumerate(self._layers.values())
        }
        lows: dict[Any, tuple[torch.Tensor, ...]] = {}

        def lower(layer: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            if inputs[0].dim() != 3 or len(inputs[0]) != len(names):
                raise ConfigError(
                    f"learners of {self.model.config.model_type} cannot share micro-batches: a layer reads "
                    f"{tuple(inputs[0].shape)}, not {len(names)} rows. Set training.mix_learners to false."
                )
            places = self._required_places() if self.opening else None
            read, lows[layer] = lowered(
                inputs[0], some, factors[layer][0], scaling=scaling, places=places
            )
            return read, *inputs[1:]

        def add(layer: Any, _: Any, output: torch.Tensor) -> torch.Tensor:
            return raised(output, lows.pop(layer), some, factors[layer][1])

        trained = [p for name in set(names) for p in self._parameters_of(name)]
        before = [parameter.requires_grad for parameter in trained]
        hooks = [
            hook
            for layer in self._layers.values()
            for hook in (
                layer.register_forward_pre_hook(lower),
                layer.register_forward_hook(add),
            )
        ]
        for parameter in trained:
            parameter.requires_grad_(True)
        try:
            with self.through(None):
                yield
        finally:
            for hook in hooks:
                hook.remove()
            for parameter, could in zip(trained, before, strict=True):
                parameter.requires_grad_(could)

    def trainable(self, name: str) -> dict[str, torch.nn.Parameter]:
        """See `PolicyWeights`; by PEFT's file names."""
        return dict(zip(self._shapes, self._parameters_of(name), strict=True))

    def tensors(self, name: str) -> Tensors:
        """See `PolicyWeights`."""
        if name in self._frozen:
            return self._frozen[name]
        return {key: parameter.detach() for key, parameter in self.trainable(name).items()}

    def read(self, folder: Path) -> Tensors:
        """See `PolicyWeights`."""
        path = folder / _FILE
        if not path.is_file():
            raise ModelError(f"{folder} holds no {_FILE}.")
        tensors = read_tensors(path)
        try:
            config = json.loads((folder / _CONFIG).read_text())
        except (OSError, ValueError):
            return tensors  # only factors; their shapes are compared elsewhere
        self._check_scale(folder, config)
        self._check_activation(folder, config)
        return tensors | self._left_out(config, tensors)

    def _left_out(self, config: Any, tensors: Tensors) -> Tensors:
        """Zeros for the layers that an adapter was made without, which then add nothing."""
        targets = config.get("target_modules") if isinstance(config, dict) else None
        return {
            key: torch.zeros(shape)
            for key, shape in self._shapes.items()
            if key not in tensors and not means(targets, key.rpartition(".lora_")[0])
        }

    def _check_scale(self, folder: Path, config: Any) -> None:
        """Refuse factors that were made to be multiplied by another number.

        Raises:
            ModelError: the folder's configuration has another scale.
        """
        try:
            scale, own = (
                config["lora_alpha"] / config["r"],
                self._config.lora_alpha / self._config.r,
            )
        except (KeyError, TypeError, ZeroDivisionError):
            return
        if config["r"] == self._config.r and not math.isclose(scale, own):
            raise ModelError(
                f"{folder} was made with lora alpha {config['lora_alpha']}, and is read with "
                f"{self._config.lora_alpha}: it would act {own / scale:g} times as strongly. Use the same."
            )

    def _check_activation(self, folder: Path, config: Any) -> None:
        """Refuse factors that learned to act on other tokens.

        Raises:
            ModelError: the folder's configuration has another activation.
        """
        tokens = config.get("alora_invocation_tokens") if isinstance(config, dict) else None
        if tuple(tokens or ()) != self.opening:
            acts = "tokens that begin a reply" if tokens else "the first token"
            raise ModelError(
                f"{folder} was made to act from {acts} on ({tokens or 'plain LoRA'}), and is read to act "
                f"otherwise ({list(self.opening) or 'plain LoRA'}). Set lora.activation as it was made."
            )

    def save(self, name: str, folder: Path) -> None:
        """Write ``adapter_model.safetensors`` and ``adapter_config.json``, loadable by PEFT."""
        folder.mkdir(parents=True, exist_ok=True)
        save_tensors(self.tensors(name), folder / _FILE)
        config = copy.copy(self.model.peft_config[name])
        config.alora_invocation_tokens = list(self.opening) or None
        config.save_pretrained(str(folder))
