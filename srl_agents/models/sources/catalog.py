"""Model names: `tiny`, `tiny-shallow`, `smollm2-135m`, hub ids and folders, and their files on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from srl_agents.models.pretrained import is_complete, require_data
from srl_agents.models.sources.shallow import without_layers
from srl_envs.errors import ModelError, UnknownPolicyError, nearest

TINY = Path(__file__).parents[1] / "tiny"
SHALLOW = "tiny-shallow"
_HUB_ID = re.compile(r"[\w.\-]+/[\w.\-]+")


def resolve(name: str) -> Path:
    """Folder with a loadable model: safetensors, tokenizer, chat template.

    Args:
        name: ``tiny`` (shipped), ``tiny-shallow`` (made of it), ``smollm2-135m`` (fetched
            once), a local folder, or a hub id ``owner/name`` (fetched once into the hub's own cache).

    Raises:
        ModelError: the model cannot be fetched, or its folder is incomplete.
        ForeignCodeError: the folder names code, and the process refuses foreign code.
        UnknownPolicyError: the name is none of these.
    """
    if name in _NAMED:
        return _NAMED[name]()
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not is_complete(folder):
            raise ModelError(f"{folder} holds no config.json with safetensors weights.")
        require_data(folder)
        return folder
    if _HUB_ID.fullmatch(name):
        from srl_agents.models.sources import hub  # noqa: PLC0415 - of the extra `train`

        fetched = hub.fetched(name)
        require_data(fetched)
        return fetched
    raise UnknownPolicyError(
        f"no model {name!r}.{nearest(name, _NAMED)} Use one of {', '.join(_NAMED)}, an existing "
        "folder, or a hub id such as HuggingFaceTB/SmolLM2-135M-Instruct."
    )


def local_folder(name: str) -> Path | None:
    """Where a model is on this machine already, if it is; nothing is fetched."""
    kept = {"tiny": TINY, "smollm2-135m": cache_folder() / "smollm2-135m"}
    if name == SHALLOW and is_complete(TINY):
        kept[SHALLOW] = _shallow()
    folder = kept.get(name) or Path(name).expanduser()
    return folder if folder.is_dir() else None


def cached_folder(name: str) -> Path | None:
    """What the hub's own cache has of a hub id, if it has its configuration; nothing is fetched."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - a second; seldom needed
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    try:
        path = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(path).parent if isinstance(path, str) else None


def names() -> tuple[str, ...]:
    """Names that need no hub."""
    return tuple(_NAMED)


def cache_folder() -> Path:
    """Where models are kept: SRL_CACHE, or ``~/.cache/srl``."""
    return Path(os.environ.get("SRL_CACHE") or "~/.cache/srl").expanduser()


def _tiny() -> Path:
    if not is_complete(TINY):
        raise ModelError(
            "the model `tiny` is not in this installation. "
            "Build it with `python -m benchmarks.tiny_model.build`."
        )
    return TINY


def _shallow() -> Path:
    """`tiny` without its second layer, which its play survives: a second base for leagues of two."""
    folder = cache_folder() / SHALLOW
    if not is_complete(folder):
        without_layers(_tiny(), folder, [1])
    return folder


def _smollm2() -> Path:
    from srl_agents.models.sources import smollm2  # noqa: PLC0415 (only who asks for it needs torch, gguf)

    return smollm2.fetch(cache_folder() / "smollm2-135m")


_NAMED: dict[str, Callable[[], Path]] = {
    "tiny": _tiny,
    SHALLOW: _shallow,
    "smollm2-135m": _smollm2,
}
