"""Download of model folders from the hub."""

from __future__ import annotations

import errno
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.constants import HF_HUB_CACHE
from huggingface_hub.errors import HfHubHTTPError

from srl_agents.models.load_bar import LoadBar, on_terminal, shown
from srl_agents.models.pretrained import is_complete
from srl_envs.errors import ModelError

_HUB_FILES = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
_NO_ANSWER: tuple[type[Exception], ...] = (OSError, ValueError, HfHubHTTPError.__bases__[0])
"""What the hub's client raises; the last is the base error of the HTTP library that it uses."""
_HUB_TIMEOUT_S = 5.0
"""For the hub's first answer; a download that has begun may take as long as it takes."""


def download(hub_id: str, folder: Path | None = None) -> Path:
    """Fetch a model from the hub, with a progress bar, or lines off a terminal.

    Args:
        hub_id: ``owner/name``.
        folder: destination; None is the hub's own cache.

    Raises:
        ModelError: the hub does not answer, or does not have the model.
        OSError: the disk of the destination is full.
    """
    try:
        with shown(f"downloading {hub_id}"):
            found = snapshot_download(
                hub_id,
                local_dir=folder,
                allow_patterns=list(_HUB_FILES),
                etag_timeout=_HUB_TIMEOUT_S,
                tqdm_class=None if on_terminal() else LoadBar,  # its own is silent off a terminal
            )
    except _NO_ANSWER as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(error.errno, error.strerror, str(folder or HF_HUB_CACHE)) from error
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"{hub_id} cannot be fetched from the hub ({type(error).__name__}: {reason}). Check "
            "the connection and the id, or give a local folder."
        ) from error
    return Path(found)


def fetched(hub_id: str) -> Path:
    """The model in the hub's own cache, downloaded if it is not whole there.

    Raises:
        ModelError: the hub does not answer, or has no weights that can be used.
    """
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
