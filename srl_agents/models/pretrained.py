"""The one place where transformers opens a folder: data only, whatever code the folder names.

Tensors come from safetensors files, and Python files of a folder are never imported. With
``--no-foreign-code`` a folder that names code is refused before anything is read. Chat templates are
programs, too; transformers renders them in Jinja's immutable sandbox, which this module leaves as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srl_envs.errors import ModelError
from srl_envs.foreign_code import refuse

INDEX = "model.safetensors.index.json"
CONFIGURATIONS = ("config.json", "tokenizer_config.json", "generation_config.json")
_CODE_KEYS = frozenset({"auto_map", "custom_pipelines", "custom_generate"})
"""Their values name Python files of the folder or of a repository."""
_KERNEL_KEYS = frozenset(
    {
        "attn_implementation",
        "_attn_implementation",
        "experts_implementation",
        "_experts_implementation",
    }
)
"""With a value such as ``owner/name`` transformers fetches compiled code from the hub."""


def is_complete(folder: Path) -> bool:
    """Whether the folder has a configuration and all of its weight files."""
    index = folder / INDEX
    if not (folder / "config.json").is_file():
        return False
    if index.is_file():
        shards = json.loads(index.read_text())["weight_map"].values()
        return all((folder / shard).is_file() for shard in shards)
    return (folder / "model.safetensors").is_file()


def require_data(folder: Path) -> None:
    """Refuse a model's folder that would lead to something else than data.

    Raises:
        ModelError: its index names weights that are not safetensors of this folder.
        ForeignCodeError: a configuration names code, and the process refuses foreign code.
    """
    for shard in _shards(folder):
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise ModelError(
                f"{folder / INDEX} names {shard!r}: only safetensors files of the same folder are read."
            )
    for name in CONFIGURATIONS:
        for key, value in _entries(_json(folder / name)):
            kernel = key in _KERNEL_KEYS and "/" in str(value)
            if value and (key in _CODE_KEYS or kernel):
                refuse(f"{folder / name}: {key}={value!r}", "Use a model that names no code.")


def causal_model(folder: Path, **more: Any) -> Any:
    """transformers' causal language model of a folder; further arguments are those of ``from_pretrained``."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415 - seconds

    require_data(folder)
    return AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, trust_remote_code=False, **more
    )


def empty_model(folder: Path, **more: Any) -> Any:
    """The model that a folder's configuration describes, without its weights."""
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415

    require_data(folder)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return AutoModelForCausalLM.from_config(config, trust_remote_code=False, **more)


def tokenizer(folder: Path, **more: Any) -> Any:
    """transformers' tokenizer of a folder."""
    from transformers import AutoTokenizer  # noqa: PLC0415

    require_data(folder)
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **more)


def _shards(folder: Path) -> list[str]:
    weights = _json(folder / INDEX)
    named = weights.get("weight_map") if isinstance(weights, dict) else None
    return sorted({str(shard) for shard in named.values()}) if isinstance(named, dict) else []


def _json(path: Path) -> Any:
    """Content of a JSON file; None if it is missing or not JSON, which transformers then refuses."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Keys and values of nested mappings."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key), inner
            yield from _entries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _entries(inner)
