"""One copy of a base's weights for the processes of a machine: written once into a file that all map.

Pages of a mapped file are in memory once, for all processes. A frozen base is never written to, so they
stay shared. `srl_agents.models.model_loading.map_model` is the reader's side.
"""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from srl_agents.models.base_model import BaseModel
from srl_agents.tensor_files import save_tensors
from srl_envs.errors import ModelError


def share_weights(base: BaseModel, path: Path) -> None:
    """Write a base's frozen weights to a file and read them from there from now on.

    Args:
        base: on the CPU, frozen; references to its parameters stay valid.
        path: of the file; as large as the weights. Processes that mapped it keep it when its name is removed.

    Raises:
        ModelError: the file cannot be written.
    """
    inner = base.model.get_base_model()
    named = {
        name.replace(".base_layer.", "."): parameter
        for name, parameter in inner.named_parameters()
        if ".lora_" not in name
    }
    work = path.with_suffix(".tmp")
    try:
        save_tensors({name: p.detach().contiguous() for name, p in named.items()}, work)
        work.replace(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path}: the base cannot be shared with another process: {error}. Free space there, or use "
            "placement 'disaggregated'."
        ) from error
    tensors = load_file(path)
    for name, parameter in named.items():
        parameter.data = tensors[name]
