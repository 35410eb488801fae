"""The interface of both kinds of policies' weights on one model: adapters and whole copies.

An adapter can be trained and lives in the modules; a frozen version only plays and is plain tensors.
`weights.lora` adds factors to a frozen model, `weights.full` puts other tensors in the place of its
own. `base_model` holds one of the two and maps its methods to learners and versions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from safetensors.torch import load_file

from srl_agents.models.digests import check_fit
from srl_agents.models.playing_model import PlayingModel
from srl_agents.models.quiet import quiet_libraries
from srl_envs.errors import ConfigError, ModelError

Parameters = Literal["lora", "full"]
"""What learns: low-rank factors beside frozen weights, or copies of all weights."""
Tensors = dict[str, torch.Tensor]
ANCHOR = "anchor"
"""PEFT requires one adapter at all times; this one, of rank 1, is never trained and never shown."""


class PolicyWeights(ABC):
    """Named adapters and frozen versions of one model; None is the model as it was loaded."""

    kind: Parameters
    model: Any
    """The model in PEFT's wrapper, by which TRL recognises that it needs no second one for a
    reference."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """All adapters, in the order in which they were added."""

    @property
    @abstractmethod
    def frozen(self) -> tuple[str, ...]:
        """All frozen versions, in the order in which they were added."""

    @property
    @abstractmethod
    def active(self) -> str | None:
        """The version that can be trained."""

    @abstractmethod
    def add(self, name: str, seed: int) -> None:
        """Add an adapter that does what the frozen model does."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Forget an adapter that is not active."""

    @abstractmethod
    def freeze(self, name: str, tensors: Mapping[str, torch.Tensor]) -> None:
        """Add a frozen version.

        Raises:
            ModelError: the tensors have other names or shapes than an adapter's.
        """

    @abstractmethod
    def load_frozen(self, name: str, folder: Path) -> None:
        """Add a frozen version that plays what `save` wrote.

        Raises:
            ModelError: the folder holds nothing, or nothing that fits.
        """

    @abstractmethod
    def forget(self, name: str) -> None:
        """Drop a frozen version and its memory."""

    @abstractmethod
    def activate(self, name: str | None) -> None:
        """Let forwards pass through an adapter and make only that adapter trainable."""

    @abstractmethod
    def through(self, name: str | None) -> AbstractContextManager[None]:
        """Inside, forwards pass through this version; what can be trained stays as it is."""

    @abstractmethod
    def learning(self, names: Sequence[str]) -> AbstractContextManager[None]:
        """Inside, row i of a batch passes through ``names[i]``, and all of these can be trained.

        Raises:
            ConfigError: versions of this kind cannot share a pass.
        """

    @abstractmethod
    def playing(self) -> PlayingModel:
        """The model as one engine runs it; it sees versions that are frozen later."""

    @abstractmethod
    def trainable(self, name: str) -> dict[str, torch.nn.Parameter]:
        """An adapter's parameters by their names in files, not copies."""

    @abstractmethod
    def tensors(self, name: str) -> Tensors:
        """What an adapter or a frozen version holds, by the names in files, not copies; to read only.

        Raises:
            ModelError: its owner has changed the tensors of a frozen version.
        """

    @abstractmethod
    def read(self, folder: Path) -> Tensors:
        """The tensors in a folder that `save` wrote.

        Raises:
            ModelError: there are none, or they cannot be read.
        """

    @abstractmethod
    def save(self, name: str, folder: Path) -> None:
        """Write files that `read` reads, and others without us."""

    def load(self, name: str, folder: Path) -> None:
        """Read what `save` wrote into an adapter, which is added when it does not exist.

        Raises:
            ModelError: the folder holds nothing, or nothing that fits.
        """
        tensors = self.read(folder)
        added = name not in self.names
        if added:
            self.add(name, seed=0)
        try:
            self.overwrite(name, tensors)
        except ModelError:
            if added:
                self.remove(name)
            raise

    def overwrite(self, name: str, tensors: Tensors) -> None:
        """Give an adapter other numbers in place.

        Raises:
            ModelError: names or shapes are not the adapter's; nothing has changed then.
        """
        own = self.trainable(name)
        check_fit(name, {key: p.shape for key, p in own.items()}, tensors)
        with torch.no_grad():
            for key, tensor in tensors.items():
                own[key].copy_(tensor)


def read_tensors(path: Path, device: str = "cpu") -> Tensors:
    """The tensors in a safetensors file.

    Raises:
        ModelError: it is damaged, or something else.
    """
    try:
        tensors: Tensors = load_file(path, device=device)
    except SafetensorError as error:
        raise ModelError(f"{path} is not a whole safetensors file: {error}.") from error
    return tensors


def with_anchor(model: Any, layers: list[str]) -> Any:
    """The model, frozen, in PEFT's wrapper, with an anchor whose weights the caller never trains.

    Args:
        model: a transformers causal language model.
        layers: full names of those that the anchor is put on.

    Raises:
        ConfigError: PEFT cannot adapt this model, or one of these layers.
    """
    model.requires_grad_(False)
    anchor = LoraConfig(r=1, target_modules=layers, task_type="CAUSAL_LM")
    # PEFT draws weights, which are never read: keep the global generator's state.
    try:
        with torch.random.fork_rng(devices=[]), quiet_libraries():
            wrapped = get_peft_model(model, anchor, adapter_name=ANCHOR)
    except ValueError as error:
        kind = model.config.model_type
        raise ConfigError(f"no adapter can be put on {kind}: {error}") from error
    wrapped.eval()
    return wrapped
