"""Where and with what a bundle was made: for reading, never for a verdict."""

from __future__ import annotations

import hashlib
import importlib
import platform
import re
import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import srl_envs
from leaderboards.contents.fields import visible
from leaderboards.contents.schemas import MOST_COMMAND_CHARACTERS
from srl_envs import spec

_ABSOLUTE = re.compile(r"(^|[=+])[~/](?:[^=+/]*/)*(?=[^=+/])")
"""The folders of an absolute path."""
_PACKAGES = ("numpy", "gymnasium", "pettingzoo", "torch", "transformers", "peft")
_SHARED = (
    "*.py",
    "api/*.py",
    "reading/*.py",
    "turns/*.py",
    "views/*.py",
    "rewards/**/*.py",
    "sandbox/**/*",
    "lexicon/*",
    "wrappers/*.py",
)
"""Parts of `srl_envs` that more than one family uses."""


def provenance(
    env_id: str, command: str, started: str, seconds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """The block of that name in a manifest.

    Args:
        env_id: the game that was played.
        command: that played it.
        started: when the run began.
        seconds: agent behind an endpoint -> how long its replies took, where all of them were timed.
    """
    commit, changed = _commit()
    return {
        "srl": srl_envs.__version__,
        "commit": commit,
        "tree_changed": changed,
        "env_code_sha256": env_code_sha256(env_id),
        "python": _plain(platform.python_version()),
        "platform": _plain(platform.platform())[:200],
        "packages": {name: _plain(version) for name in _PACKAGES if (version := _version(name))},
        "command": shown_command(command),
        "started": started,
        "ended": now(),
        **({"seconds": dict(seconds)} if seconds else {}),
    }


def without_folders(command: str) -> str:
    """The command with only the last part of every absolute path, so that it names no folder of the host.

    Args:
        command: as `shlex.join` writes it; paths may stand behind ``=`` and ``+``, as in ``a=tiny+/x/y``.
    """
    return shlex.join(_ABSOLUTE.sub(r"\1", argument) for argument in shlex.split(command))


def now() -> str:
    """The present second, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def env_code_sha256(env_id: str) -> str:
    """Hash over the source files of an environment's family and of what all families share.

    A different hash need not mean different behaviour: replaying decides that.
    """
    root = Path(srl_envs.__file__).parent
    family = spec(env_id).entry_point.partition(":")[0].rsplit(".", 1)[0]
    files = set(Path(importlib.import_module(family).__file__ or "").parent.rglob("*.py"))
    for pattern in _SHARED:
        files |= {path for path in root.glob(pattern) if path.is_file()}
    hashed = hashlib.sha256()
    for path in sorted(files):
        if "__pycache__" not in path.parts:
            hashed.update(path.name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()


def _plain(text: str) -> str:
    """A version or a platform's name with what a bundle does not hold replaced."""
    return re.sub(r"[^\w .+~:(),/#!?-]", "?", text, flags=re.ASCII)


def shown_command(command: str) -> str:
    """The command as a bundle holds it: without folders, characters that act, and marks of HTML."""
    text = re.sub("[<>\n]", "?", visible(without_folders(command)))[:MOST_COMMAND_CHARACTERS]
    return text if text.startswith("srl ") else ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> tuple[str, bool | None]:
    """(commit, whether files differ from it); empty and None outside a checkout."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), bool(git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return "", None
