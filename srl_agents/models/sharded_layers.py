"""A frozen base whose layers are divided among the processes of a run, as no card holds them all.

Each process keeps an equal part of every layer's weights (torch's FSDP2, `fully_shard`). A pass gathers one
layer after the other from all of them and lets it go again, forwards and backwards, so all processes make
their passes together. Embeddings, norms at the end and the output head stay whole, and so do adapters: they
are small, and code that reads or changes them never meets a part of a tensor. Source: arXiv:2304.11277.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from srl_agents.models.playing_model import second_tree
from srl_envs.errors import ConfigError


class ShardedLayers:
    """Divides the layers of a model, in place, before adapters are put on it.

    Args:
        model: a transformers causal language model on the CPU.
        mesh: the processes and their kind of device.
        device: this process's.

    Raises:
        ConfigError: the model keeps its layers nowhere.
    """

    def __init__(self, model: Any, mesh: DeviceMesh, device: torch.device) -> None:
        decoder = model.base_model
        layers = getattr(decoder, "layers", None)
        if layers is None:
            raise ConfigError(
                f"memory.sharded: {model.config.model_type} has no list of layers that could be divided. "
                "Leave it out."
            )
        self.tree = second_tree(model)
        """Modules for engines, which have the layers' weights only inside `whole`."""
        inside = [
            (name, parameter)
            for number, layer in enumerate(layers)
            for name, parameter in layer.named_parameters(prefix=f"{number}")
        ]
        kept = set(decoder.parameters()) - {parameter for _, parameter in inside}
        for layer in layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(decoder, mesh=mesh, ignored_params=kept)
        self._parts = [
            (parameter, layers.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2])
            for name, parameter in inside
        ]
        for parameter, _, _ in self._parts:
            parameter.data = parameter.new_empty(0)
        model.to(device)
        self.tree.to(device)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Inside, engines have all weights; all processes enter together."""
        with torch.no_grad():
            for parameter, module, name in self._parts:
                parameter.data = getattr(module, name).full_tensor()
        try:
            yield
        finally:
            for parameter, _, _ in self._parts:
                parameter.data = parameter.new_empty(0)

    @property
    def local_bytes(self) -> int:
        """Bytes of the layers' weights in this process."""
        return sum(
            part.to_local().nbytes for part in (getattr(m, name) for _, m, name in self._parts)
        )
