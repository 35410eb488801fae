"""Whole copies of one model's weights: N policies cost N models in memory, and the frozen one.

There is one skeleton of modules. A version is a tensor for each of its parameters; passing through a
version means that the modules hold its tensors, so nothing is copied. Tied weights are one tensor in
several places. Frozen versions are tensors that a caller handed over, or stay on disk until a batch
needs them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from transformers import GenerationConfig

from srl_agents.models.digests import check_fit
from srl_agents.models.playing_model import FullPlaying, PlayingModel, second_tree
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.weights.lora_targets import target_layers
from srl_agents.models.weights.policy import (
    Parameters,
    PolicyWeights,
    Tensors,
    read_tensors,
    with_anchor,
)
from srl_envs.errors import ConfigError, ModelError

Copy = dict[str, torch.nn.Parameter]
"""One version: by the names that a transformers folder uses, tied weights once."""
_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class _Handed:
    """A frozen version whose tensors their owner, such as a trainer, may still write to."""

    version: Copy
    counters: list[tuple[torch.Tensor, int]]
    """Each tensor, and torch's count of writes to it when it was frozen."""

    def unchanged(self, name: str) -> Copy:
        if any(tensor._version != count for tensor, count in self.counters):
            raise ModelError(
                f"the tensors of {name!r} were written to after it was frozen, so it is gone. Install "
                "the version again, or publish copies."
            )
        return self.version


class FullWeights(PolicyWeights):
    """One copy of all weights per adapter or version.

    Args:
        model: a transformers causal language model in float32; it is frozen and wrapped.
        tokenizer: saved beside weights, so that they can be played.
        generation: contents of a saved model's ``generation_config.json``, such as where replies end.
        frozen_in_memory: most frozen versions of those on disk that wait in memory for their next batch.
    """

    kind: Parameters = "full"

    def __init__(
        self, model: Any, tokenizer: Any, generation: GenerationConfig, *, frozen_in_memory: int
    ) -> None:
        self._tree = second_tree(model)
        self._inner, self._tokenizer, self._generation = model, tokenizer, generation
        self._base: Copy = dict(model.named_parameters())
        self._alias = _aliases(model)
        self._buffers = _saved_buffers(model)
        self._slots = _slots(model, self._base)
        self.model = with_anchor(model, target_layers(model, "all-linear"))
        for module in self.model.modules():
            if isinstance(module, LoraLayer):  # the anchor's: off for ever
                module._disable_adapters = True
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        self._copies: dict[str, Copy] = {}
        self._handed: dict[str, _Handed] = {}
        """Frozen versions whose tensors came from elsewhere."""
        self._folders: dict[str, Path] = {}
        """Folders of frozen versions on disk."""
        self._waiting: dict[str, Copy] = {}
        """Those of them in memory, the one that was used last behind the others."""
        self._frozen_in_memory = frozen_in_memory
        self._placed: str | None = None
        self._active: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """See `PolicyWeights`."""
        return tuple(self._copies)

    @property
    def frozen(self) -> tuple[str, ...]:
        """See `PolicyWeights`."""
        return (*self._handed, *self._folders)

    @property
    def active(self) -> str | None:
        """See `PolicyWeights`."""
        return self._active

    @property
    def in_memory(self) -> tuple[str, ...]:
        """Versions whose tensors are in memory now."""
        return (*self._copies, *self._handed, *self._waiting)

    def learning(self, names: Sequence[str]) -> AbstractContextManager[None]:
        """See `PolicyWeights`; a pass is of one copy of the weights."""
        raise ConfigError(
            f"{sorted(set(names))}: whole weights learn one after another; only LoRA adapters share a pass."
        )

    def playing(self) -> PlayingModel:
        """See `PolicyWeights`."""
        return FullPlaying(second_tree(self._tree), self._copy, self._fit_together)

    def add(self, name: str, seed: int) -> None:
        """Copy the frozen model; there is nothing to draw from ``seed``."""
        self._copies[name] = {key: _frozen(p.detach().clone()) for key, p in self._base.items()}

    def remove(self, name: str) -> None:
        """See `PolicyWeights`."""
        del self._copies[name]

    def freeze(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """See `PolicyWeights`; tensors of the right device and type are kept, not copied."""
        check_fit(name, self._shapes(), tensors)
        device, dtype = self._inner.device, self._inner.dtype
        placed = {key: tensor.detach().to(device, dtype) for key, tensor in tensors.items()}
        self._handed[name] = _Handed(
            {key: _frozen(tensor) for key, tensor in placed.items()},
            [(tensor, tensor._version) for tensor in placed.values()],
        )

    def load_frozen(self, name: str, folder: Path) -> None:
        """See `PolicyWeights`; the tensors are looked at now and read when a batch needs them."""
        check_fit(name, self._shapes(), self.read(folder))
        self._folders[name] = folder

    def forget(self, name: str) -> None:
        """See `PolicyWeights`."""
        self._handed.pop(name, None)
        self._folders.pop(name, None)
        self._waiting.pop(name, None)

    def _shapes(self) -> dict[str, torch.Size]:
        return {key: parameter.shape for key, parameter in self._base.items()}

    def activate(self, name: str | None) -> None:
        """See `PolicyWeights`."""
        for other, version in self._copies.items():
            for parameter in version.values():
                parameter.requires_grad_(other == name)
        self._active = name
        self._place(name)

    @contextmanager
    def through(self, name: str | None) -> Iterator[None]:
        """See `PolicyWeights`."""
        before = self._placed
        self._place(name)
        try:
            yield
        finally:
            self._place(before)

    def trainable(self, name: str) -> Copy:
        """See `PolicyWeights`; by the names of a transformers folder."""
        return self._copies[name]

    def tensors(self, name: str) -> Tensors:
        """See `PolicyWeights`."""
        return {key: parameter.detach() for key, parameter in self._copy(name).items()}

    def read(self, folder: Path) -> Tensors:
        """See `PolicyWeights`; reads every transformers folder of this model's architecture."""
        files = [folder / _FILE]
        if (folder / _INDEX).is_file():
            index = json.loads((folder / _INDEX).read_text())
            files = [folder / name for name in sorted(set(index["weight_map"].values()))]
        if not all(path.is_file() for path in files):
            raise ModelError(f"{folder} holds no {_FILE}: it is not a whole model.")
        device, dtype = str(self._inner.device), self._inner.dtype
        named = {key: t for path in files for key, t in read_tensors(path, device).items()}
        return {
            self._alias.get(key, key): tensor.to(dtype)
            for key, tensor in named.items()
            if key not in self._buffers
        }

    def save(self, name: str, folder: Path) -> None:
        """Write an ordinary transformers folder: configuration, weights, tokenizer, chat template."""
        self._tokenizer.save_pretrained(folder)
        with quiet_libraries():
            self._inner.save_pretrained(folder, state_dict=self._buffers | self.tensors(name))
        self._generation.save_pretrained(folder)

    def _fit_together(self, names: set[str | None]) -> bool:
        """Whether those of them that are on disk may all be in memory."""
        return len(names & self._folders.keys()) <= self._frozen_in_memory

    def _copy(self, name: str | None) -> Copy:
        """The tensors of a version, from disk if they are not in memory."""
        if name is None:
            return self._base
        if name in self._copies:
            return self._copies[name]
        if name in self._handed:
            return self._handed[name].unchanged(name)
        found = self._waiting.pop(name, None)
        if found is None:
            found = {key: _frozen(t) for key, t in self.read(self._folders[name]).items()}
        while len(self._waiting) >= self._frozen_in_memory:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[name] = found
        return found

    def _place(self, name: str | None) -> None:
        """Let the modules hold a version's tensors."""
        version = self._copy(name)
        for module, own in self._slots.items():
            for attribute, key in own:
                module._parameters[attribute] = version[key]
        self._placed = name


def _frozen(tensor: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(tensor, requires_grad=False)


def _slots(model: Any, named: Copy) -> dict[torch.nn.Module, list[tuple[str, str]]]:
    """Module -> (attribute, name of the parameter) of each parameter that it owns itself."""
    names = {id(parameter): name for name, parameter in named.items()}
    slots = {
        module: [(key, names[id(p)]) for key, p in module._parameters.items() if p is not None]
        for module in model.modules()
    }
    return {module: own for module, own in slots.items() if own}


def _aliases(model: Any) -> dict[str, str]:
    """The other names of tied parameters -> the one that is kept."""
    kept = {id(parameter): name for name, parameter in model.named_parameters()}
    everywhere = model.named_parameters(remove_duplicate=False)
    return {name: kept[id(p)] for name, p in everywhere if kept[id(p)] != name}


def _saved_buffers(model: Any) -> Tensors:
    """Buffers in a model's files besides its parameters."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return {key: t for key, t in model.state_dict().items() if key not in parameters}
