"""Model names: what `tiny`, `smollm2-135m`, a hub id or a folder stand for on disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from srl_envs.errors import ModelError, UnknownPolicyError, nearest

TINY = Path(__file__).parent / "tiny"
_HUB_ID = re.compile(r"[\w.\-]+/[\w.\-]+")
_HUB_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
_NO_ANSWER: tuple[type[Exception], ...] = (OSError, ValueError, HfHubHTTPError.__bases__[0])
"""What the hub's client raises; the last is the base error of the HTTP library that it uses."""
_HUB_TIMEOUT_S = 5.0
"""For the hub's first answer; a download that has begun may take as long as it takes."""


def resolve(name: str) -> Path:
    """Folder with a loadable model: safetensors, tokenizer, chat template.

    Args:
        name: ``tiny`` (shipped), ``smollm2-135m`` (fetched once), a local folder, or a hub id
            ``owner/name`` (fetched once into the hub's own cache).

    Raises:
        ModelError: the model cannot be fetched, or its folder is incomplete.
        UnknownPolicyError: the name is none of these.
    """
    if name in _NAMED:
        return _NAMED[name]()
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not is_complete(folder):
            raise ModelError(f"{folder} holds no config.json with safetensors weights.")
        return folder
    if _HUB_ID.fullmatch(name):
        return _from_hub(name)
    raise UnknownPolicyError(
        f"no model {name!r}.{nearest(name, _NAMED)} Use one of {', '.join(_NAMED)}, an existing "
        "folder, or a hub id such as HuggingFaceTB/SmolLM2-135M-Instruct."
    )


def local_folder(name: str) -> Path | None:
    """Where a model is on this machine already, if it is; nothing is fetched."""
    kept = {"tiny": TINY, "smollm2-135m": cache_folder() / "smollm2-135m"}
    folder = kept.get(name) or Path(name).expanduser()
    return folder if folder.is_dir() else None


def names() -> tuple[str, ...]:
    """Names that need no hub."""
    return tuple(_NAMED)


def cache_folder() -> Path:
    """Where models are kept: SRL_CACHE, or ``~/.cache/srl``."""
    return Path(os.environ.get("SRL_CACHE") or "~/.cache/srl").expanduser()


def is_complete(folder: Path) -> bool:
    """Whether the folder has a configuration and all of its weight files."""
    index = folder / "model.safetensors.index.json"
    if not (folder / "config.json").is_file():
        return False
    if index.is_file():
        shards = json.loads(index.read_text())["weight_map"].values()
        return all((folder / shard).is_file() for shard in shards)
    return (folder / "model.safetensors").is_file()


def download(hub_id: str, folder: Path | None = None) -> Path:
    """Fetch a model from the hub, with its progress bar.

    Args:
        hub_id: ``owner/name``.
        folder: destination; None is the hub's own cache.

    Raises:
        ModelError: the hub does not answer, or does not have the model.
    """
    try:
        found = snapshot_download(
            hub_id,
            local_dir=folder,
            allow_patterns=list(_HUB_FILES),
            etag_timeout=_HUB_TIMEOUT_S,
        )
    except _NO_ANSWER as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"{hub_id} cannot be fetched from the hub ({type(error).__name__}: {reason}). Check "
            "the connection and the id, or give a local folder."
        ) from error
    return Path(found)


def _from_hub(hub_id: str) -> Path:
    try:
        cached = Path(snapshot_download(hub_id, local_files_only=True))
    except _NO_ANSWER:
        cached = None
    if cached is not None and is_complete(cached):
        return cached
    folder = download(hub_id)
    if not is_complete(folder):
        raise ModelError(f"{hub_id} has no safetensors weights; choose a model that has them.")
    return folder


def _tiny() -> Path:
    if not is_complete(TINY):
        raise ModelError(
            "the model `tiny` is not in this installation. "
            "Build it with `python -m benchmarks.tiny_model.build`."
        )
    return TINY


def _smollm2() -> Path:
    from srl_agents.models import smollm2  # noqa: PLC0415 (only who asks for it needs gguf)

    return smollm2.fetch(cache_folder() / "smollm2-135m")


_NAMED: dict[str, Callable[[], Path]] = {"tiny": _tiny, "smollm2-135m": _smollm2}
