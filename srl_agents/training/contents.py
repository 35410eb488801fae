"""What a playing model is made of, as hashes: the contents that an agent's digest is computed from."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from srl_agents.engines.protocol import SamplingSettings
from srl_agents.league.agents import model_contents
from srl_agents.models import catalog
from srl_agents.models.base_model import BaseModel, Example
from srl_agents.models.digests import tensors_sha256
from srl_agents.records import digest

_NOT_BEHAVIOUR = frozenset(
    {"transformers_version", "_name_or_path", "dtype", "torch_dtype", "use_cache"}
)
"""Keys of ``config.json`` that change when a model is saved again; the tensors carry their dtype."""


def contents_of(
    base: BaseModel,
    adapter: str | None,
    sampling: SamplingSettings,
    env_id: str,
    examples: tuple[Example, ...] = (),
) -> dict[str, Any]:
    """Contents of an adapter on a base, or of the base alone; ``examples`` are the policy's own."""
    prompt, shown = base.prompt, (*base.prompt.examples, *examples)
    return model_contents(
        base=base.name,
        base_sha256=base_sha256(catalog.resolve(base.name)),
        adapter=None if adapter is None else tensors_sha256(base.adapter_tensors(adapter)),
        prompt=digest([prompt.system, shown, base.tokenizer.chat_template]),
        tokenizer=_tokenizer_sha256(base.tokenizer),
        sampling={
            "temperature": sampling.temperature,
            "max_new_tokens": sampling.max_new_tokens,
            **_filters(sampling),
        },
        parser=env_id,
    )


def _filters(sampling: SamplingSettings) -> dict[str, float]:
    """Those that take anything away."""
    untouched = SamplingSettings()
    return {
        name: getattr(sampling, name)
        for name in ("top_k", "top_p", "min_p")
        if getattr(sampling, name) != getattr(untouched, name)
    }


def base_sha256(folder: Path) -> str:
    """Hash of a base model's weight files and of its configuration."""
    files = [*sorted(folder.glob("*.safetensors")), folder / "config.json"]
    return _files_sha256(tuple((path, path.stat().st_mtime_ns) for path in files))


@lru_cache(maxsize=16)
def _files_sha256(files: tuple[tuple[Path, int], ...]) -> str:
    """Over names in order; the times are there for the cache, so that a changed file is read again."""
    hashed = hashlib.sha256()
    for path, _ in files:
        if path.suffix == ".json":
            config = json.loads(path.read_text(encoding="utf-8"))
            kept = {key: value for key, value in config.items() if key not in _NOT_BEHAVIOUR}
            hashed.update(digest(kept).encode())
        else:
            with path.open("rb") as file:
                hashed.update(hashlib.file_digest(file, "sha256").digest())
    return hashed.hexdigest()


def _tokenizer_sha256(tokenizer: Any) -> str:
    """Over vocabulary, merges, normalisation and added tokens; padding is no part of it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return digest(sorted(tokenizer.get_vocab().items()))
    content = json.loads(backend.to_str())
    return digest({k: v for k, v in content.items() if k not in ("padding", "truncation")})
