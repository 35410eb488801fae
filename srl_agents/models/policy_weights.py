"""What the versions of a policy are made of, on one model: the interface of both kinds of weights.

`lora_weights` adds factors to a frozen model, `full_weights` puts other tensors in the place of its
own. `base_model` holds one of the two and says what their methods mean to the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import torch
from peft import LoraConfig, get_peft_model
from safetensors import SafetensorError
from safetensors.torch import load_file

from srl_agents.models.quiet import quiet_libraries
from srl_envs.errors import ModelError

Parameters = Literal["lora", "full"]
"""What learns: low-rank factors beside frozen weights, or copies of all weights."""
Tensors = dict[str, torch.Tensor]
ANCHOR = "anchor"
"""PEFT wants one adapter at all times; this one, of rank 1, is never trained and never shown."""


class PolicyWeights(ABC):
    """Named versions of one frozen model; None is the model as it was loaded."""

    kind: Parameters
    model: Any
    """The model in PEFT's wrapper, which is how TRL knows that it needs no second one for a
    reference."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """All versions, in the order in which they were added."""

    @property
    @abstractmethod
    def active(self) -> str | None:
        """The version that can be trained."""

    @abstractmethod
    def add(self, name: str, seed: int) -> None:
        """Add a version that does what the frozen model does."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Forget a version that is not active."""

    @abstractmethod
    def activate(self, name: str | None) -> None:
        """Let forwards pass through a version and make it alone trainable.

        Raises:
            ConfigError: it was added as frozen.
        """

    @abstractmethod
    def through(self, name: str | None) -> AbstractContextManager[None]:
        """Inside, forwards pass through this version; what can be trained stays as it is."""

    @abstractmethod
    def mixture(self, names: Sequence[str | None]) -> AbstractContextManager[None]:
        """Inside, row i of a batch passes through ``names[i]``, without gradients."""

    @abstractmethod
    def trainable(self, name: str) -> dict[str, torch.nn.Parameter]:
        """A version's parameters by their names in files, not copies.

        Raises:
            ConfigError: it was added as frozen.
        """

    @abstractmethod
    def tensors(self, name: str) -> Tensors:
        """What a version holds, by the names in files, not copies; to read only."""

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
        """Read what `save` wrote into a version, which is added when it does not exist.

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

    def load_frozen(self, name: str, folder: Path) -> None:
        """Add a version that plays what `save` wrote and never learns.

        Raises:
            ModelError: the folder holds nothing, or nothing that fits.
        """
        self.load(name, folder)

    def overwrite(self, name: str, tensors: Tensors) -> None:
        """Give a version other numbers in place.

        Raises:
            ModelError: names or shapes are not the version's; nothing has changed then.
        """
        own = self.trainable(name)
        check_fit(name, own, tensors)
        with torch.no_grad():
            for key, tensor in tensors.items():
                own[key].copy_(tensor)

    def batches(self, names: Sequence[str | None]) -> list[list[int]]:
        """Places of the rows that may be in one batch; all, unless memory is short."""
        return [list(range(len(names)))]


def check_fit(name: str, own: Mapping[str, torch.Tensor], tensors: Tensors) -> None:
    """Refuse tensors that are not those of a version.

    Raises:
        ModelError: they have other names or shapes.
    """
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())[:3]
        raise ModelError(f"tensors do not fit {name!r}: {odd} differ; were they made on this base?")
    for key, tensor in tensors.items():
        if own[key].shape != tensor.shape:
            raise ModelError(
                f"{key} of {name!r}: shape {tuple(tensor.shape)} does not fit "
                f"{tuple(own[key].shape)}; was it made with another lora_rank or base?"
            )


def read_tensors(path: Path, device: str = "cpu") -> Tensors:
    """The tensors in a safetensors file.

    Raises:
        ModelError: it is damaged, or something else.
    """
    try:
        return load_file(path, device=device)
    except SafetensorError as error:
        raise ModelError(f"{path} is no whole safetensors file: {error}.") from error


def with_anchor(model: Any) -> Any:
    """The model, frozen, in PEFT's wrapper, with an anchor whose weights the caller never trains."""
    model.requires_grad_(False)
    anchor = LoraConfig(r=1, target_modules="all-linear", task_type="CAUSAL_LM")
    # PEFT draws weights, which nobody sees: leave the global generator alone.
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        wrapped = get_peft_model(model, anchor, adapter_name=ANCHOR)
    wrapped.eval()
    return wrapped


def runs_of(names: Sequence[str | None]) -> Iterator[tuple[str | None, int, int]]:
    """(name, first row, row behind the last) of each stretch of rows with one name."""
    start = 0
    for name, rows in groupby(names):
        stop = start + len(list(rows))
        yield name, start, stop
        start = stop
